package catalogue

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/text/clip"
)

// Offer is a flavor with the properties of its nodes that pods can select.
type Offer struct {
	Flavor
	// Zones are the zones in which machines of the flavor are available, sorted; empty if not stated.
	Zones []string
	// Labels are the labels of its nodes besides those that every node has, sorted by key.
	Labels []Label
	// Taints are the taints of its nodes, sorted by key, value and effect.
	Taints []Taint
}

// Label is a label of a node.
type Label struct{ Key, Value string }

// Taint is a taint of a node. Its effect is NoSchedule, PreferNoSchedule or NoExecute.
type Taint struct{ Key, Value, Effect string }

var offerFormat = table.Format{
	Name:     flavorFormat.Name,
	Required: flavorFormat.Required,
	Optional: slices.Concat(flavorFormat.Optional, []string{"zones", "labels", "taints"}),
}

// ReadOffers is [ReadFlavors] with zones, labels and taints. The entries of these columns are separated by semicolons: zones are
// "a;b", labels "key=value;key=value", and taints "key=value:Effect;key:Effect". Labels that follow from other columns are rejected.
func ReadOffers(file string, r io.Reader) ([]Offer, error) {
	return readCatalogue(file, r, offerFormat, row.offer, func(o Offer) string { return o.Name })
}

// offer reads the current row.
func (t row) offer() Offer {
	o := Offer{Flavor: t.flavor()}
	for _, zone := range t.entries("zones") {
		if problems := validation.IsValidLabelValue(zone); len(problems) > 0 || zone == "" {
			t.BadCell("zones", fmt.Errorf("has %q, which is not a zone: must be names such as us-east-1a separated by ';'", clip.Cell(zone)))
		}
		o.Zones = append(o.Zones, zone)
	}
	for _, entry := range t.entries("labels") {
		key, value, _ := strings.Cut(entry, "=")
		t.checkLabel("labels", entry, key, value)
		if column := columnOfLabel[key]; column != "" {
			t.BadCell("labels", fmt.Errorf("has %s: use column %s instead", key, column))
		}
		o.Labels = append(o.Labels, Label{key, value})
	}
	for _, entry := range t.entries("taints") {
		at := max(0, strings.LastIndexByte(entry, ':'))
		key, value, _ := strings.Cut(entry[:at], "=")
		taint := Taint{key, value, strings.TrimPrefix(entry[at:], ":")}
		t.checkLabel("taints", entry, taint.Key, taint.Value)
		if !slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, taint.Effect) {
			t.BadCell("taints", fmt.Errorf("has %q without an effect: must be key=value:NoSchedule, or PreferNoSchedule or NoExecute", clip.Cell(entry)))
		}
		o.Taints = append(o.Taints, taint)
	}
	slices.Sort(o.Zones)
	slices.SortFunc(o.Labels, func(a, b Label) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(o.Taints, func(a, b Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	t.checkTwice(&o)
	return o
}

// errDuplicate reports that a list has an entry twice.
var errDuplicate = errors.New("has a duplicate entry")

// columnOfLabel maps labels that follow from other columns to these columns.
var columnOfLabel = map[string]string{
	"kubernetes.io/arch":               "arch",
	"kubernetes.io/hostname":           "name",
	"node.kubernetes.io/instance-type": "name",
	"topology.kubernetes.io/zone":      "zones",
	"supercargo.dev/machine-type":      "machine_type",
}

// checkTwice records duplicate entries of lists.
func (t row) checkTwice(o *Offer) {
	if len(slices.Compact(slices.Clone(o.Zones))) < len(o.Zones) {
		t.BadCell("zones", errDuplicate)
	}
	if len(slices.CompactFunc(slices.Clone(o.Labels), func(a, b Label) bool { return a.Key == b.Key })) < len(o.Labels) {
		t.BadCell("labels", errDuplicate)
	}
	sameTaint := func(a, b Taint) bool { return a.Key == b.Key && a.Effect == b.Effect }
	for i := range o.Taints {
		if slices.ContainsFunc(o.Taints[:i], func(other Taint) bool { return sameTaint(other, o.Taints[i]) }) {
			t.BadCell("taints", errDuplicate)
			return
		}
	}
}

// entries splits a cell at semicolons; an empty cell has none.
func (t row) entries(column string) []string {
	text := t.Cell(column)
	if text == "" {
		return nil
	}
	entries := strings.Split(text, ";")
	for i := range entries {
		entries[i] = strings.TrimSpace(entries[i])
	}
	return entries
}

// checkLabel records a key or value that Kubernetes would reject.
func (t row) checkLabel(column, entry, key, value string) {
	if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
		t.BadCell(column, fmt.Errorf("has %q, which is not a valid label: must be a key and a value such as example.com/disk=ssd", clip.Cell(entry)))
	}
}
