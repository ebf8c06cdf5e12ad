package adopt

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// PoolKind and PoolVersion are the kind and the version of the NodePools that can be converted.
const (
	PoolKind    = "NodePool"
	PoolVersion = "karpenter.sh/v1"
)

// pool is a NodePool.
type pool struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Template struct {
			Metadata struct {
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
			Spec struct {
				NodeClassRef           v1alpha1.KarpenterNodeClass `json:"nodeClassRef"`
				Requirements           []requirement               `json:"requirements"`
				Taints                 []corev1.Taint              `json:"taints"`
				StartupTaints          []corev1.Taint              `json:"startupTaints"`
				ExpireAfter            *string                     `json:"expireAfter"`
				TerminationGracePeriod *string                     `json:"terminationGracePeriod"`
			} `json:"spec"`
		} `json:"template"`
		Disruption struct {
			ConsolidationPolicy *string   `json:"consolidationPolicy"`
			ConsolidateAfter    *string   `json:"consolidateAfter"`
			Budgets             *[]budget `json:"budgets"`
		} `json:"disruption"`
		Limits   map[string]resource.Quantity `json:"limits"`
		Replicas *int64                       `json:"replicas"`
		Weight   *int32                       `json:"weight"`
	} `json:"spec"`
	Status struct {
		Nodes int64 `json:"nodes"`
	} `json:"status"`
}

// conversion is the conversion of one NodePool.
type conversion struct {
	*pool
	around *Around
	spec   Spec
	notes  []Note
	// zones are the zones of the NodeFleet; empty if the cloud chooses. sold are its capacity types; empty if the
	// NodePool allows every one.
	zones, sold []string
	// architectures are the CPU architectures of the NodeFleet.
	architectures []string
	// windows reports whether the machines may run Windows.
	windows bool
}

// object returns the name of the NodePool for notes.
func (c *conversion) object() string { return PoolKind + " " + c.Metadata.Name }

// note adds a note about a field, unless it is there.
func (c *conversion) note(field, value, difference, action string) {
	n := Note{Fleet: c.Metadata.Name, Object: c.object(), Field: field, Value: value, Difference: difference, Action: action}
	if !slices.Contains(c.notes, n) {
		c.notes = append(c.notes, n)
	}
}

// block keeps the NodeFleet from buying: it could buy machines that the NodePool excludes.
func (c *conversion) block() {
	c.spec.Limits = cmpOr(c.spec.Limits)
	c.spec.Limits.Machines = new(int32(0))
}

func cmpOr[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}

// readPool reads a NodePool, whose fields are not validated, and its spec with all fields.
func readPool(object map[string]any) (*pool, map[string]any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, nil, err
	}
	var p pool
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, nil, fieldFault(err)
	}
	var whole struct {
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, nil, fieldFault(err)
	}
	ref := p.Spec.Template.Spec.NodeClassRef
	switch problems := validation.IsDNS1123Subdomain(p.Metadata.Name); {
	case len(problems) > 0:
		return nil, nil, fmt.Errorf("metadata.name: %q is not a valid name: %s", p.Metadata.Name, problems[0])
	case ref.Name == "" || ref.Kind == "":
		return nil, nil, errors.New("spec.template.spec.nodeClassRef: must have a kind and a name")
	case ref.Group == "" || strings.Contains(ref.Group, "/"):
		return nil, nil, fmt.Errorf("spec.template.spec.nodeClassRef.group: %q must be a group without a version, such as karpenter.k8s.aws", ref.Group)
	}
	return &p, whole.Spec, nil
}

// fieldFault returns an error of the decoder as one that begins with the field.
func fieldFault(err error) error {
	if wrong, is := err.(*json.UnmarshalTypeError); is { //nolint:errorlint // the decoder wraps nothing
		return fmt.Errorf("%s: is a %s, must be of type %s", wrong.Field, wrong.Value, typeName(wrong.Type.Kind().String()))
	}
	return err
}

// typeName returns the name that JSON has for a type of Go.
func typeName(kind string) string {
	switch kind {
	case "slice":
		return "array"
	case "struct", "map":
		return "object"
	}
	return kind
}

// convertPool returns the NodeFleet of a NodePool, and what has no equivalent. It returns no NodeFleet for a static
// NodePool.
func convertPool(object map[string]any, around *Around) (*Fleet, []Note, error) {
	p, whole, err := readPool(object)
	if err != nil {
		return nil, nil, err
	}
	c := &conversion{pool: p, around: around}
	c.spec.Provider = v1alpha1.FleetKarpenter
	c.spec.Karpenter = &v1alpha1.KarpenterNodes{NodeClassRef: p.Spec.Template.Spec.NodeClassRef}
	if r := p.Spec.Replicas; r != nil {
		c.note("spec.replicas", fmt.Sprint(*r), "A fleet buys machines for pods, and has no fixed number of machines.", "Keep this NodePool. No NodeFleet is printed for it.")
		for i := range c.notes {
			c.notes[i].Fleet = ""
		}
		return nil, c.notes, nil
	}
	for _, convert := range []func() error{c.template, c.requirements, c.lifetime, c.disruption, c.limits} {
		if err := convert(); err != nil {
			return nil, nil, err
		}
	}
	if w := p.Spec.Weight; w != nil {
		c.note("spec.weight", fmt.Sprint(*w), "Fleets have no priorities: if several can buy for a pod, the first one that decides does, and the price decides within a fleet.",
			"Merge NodePools for the same pods into one fleet, or separate them by taints or labels.")
	}
	c.unknown(whole)
	f := newFleet(p.Metadata.Name, c.spec)
	return &f, c.notes, nil
}

// mostLabels and mostTaints are the maxima of a NodeFleet.
const (
	mostLabels = 64
	mostTaints = 32
)

// doNotDisrupt is the annotation by which Karpenter disrupts neither a pod nor a node.
const doNotDisrupt = "karpenter.sh/do-not-disrupt"

// template converts the labels, taints and annotations of the nodes.
func (c *conversion) template() error {
	t := &c.Spec.Template
	for _, key := range sorted(t.Metadata.Labels) {
		value := t.Metadata.Labels[key]
		switch class := classes[value]; {
		case key == v1alpha1.LabelClass && class != "":
			c.spec.Class = class
		case key == v1alpha1.LabelFleet || key == v1alpha1.LabelClass:
			c.note("spec.template.metadata.labels", key+"="+value, "The fleet sets this label itself.", "Nothing.")
		case restricting(key):
		case len(c.spec.Karpenter.Labels) == mostLabels:
			c.note("spec.template.metadata.labels", key+"="+value, fmt.Sprintf("A fleet has at most %d labels, and this one is left out.", mostLabels), "Remove another label.")
		default:
			if c.spec.Karpenter.Labels == nil {
				c.spec.Karpenter.Labels = map[string]string{}
			}
			c.spec.Karpenter.Labels[key] = value
		}
	}
	for _, key := range sorted(t.Metadata.Annotations) {
		if key == doNotDisrupt {
			continue // see disruption
		}
		c.note("spec.template.metadata.annotations", key+"="+t.Metadata.Annotations[key], "A fleet sets no annotations on nodes.", "Use a label, or set the annotation by a controller of your own.")
	}
	c.spec.Karpenter.Taints = c.taints("spec.template.spec.taints", t.Spec.Taints)
	c.spec.Karpenter.StartupTaints = c.taints("spec.template.spec.startupTaints", t.Spec.StartupTaints)
	return nil
}

// classes are the classes of fleets by the value of their label.
var classes = map[string]v1alpha1.FleetClass{"batch": v1alpha1.FleetBatch, "service": v1alpha1.FleetService}

// taints returns the taints of a NodeFleet. More than it can have keep it from buying: pods would run on nodes that must
// repel them.
func (c *conversion) taints(field string, all []corev1.Taint) []corev1.Taint {
	if len(all) <= mostTaints {
		return all
	}
	c.note(field, fmt.Sprintf("%d taints", len(all)), fmt.Sprintf("A fleet has at most %d taints. The others are left out, and the fleet buys nothing (limits.machines: 0).", mostTaints),
		"Use fewer taints, then remove limits.machines.")
	c.block()
	return all[:mostTaints]
}

// never is the value by which Karpenter neither expires nor consolidates.
const never = "Never"

// defaultExpiry is when Karpenter terminates a machine of a NodePool that states nothing.
const defaultExpiry = "720h"

// lifetime converts the age and the drain of machines.
func (c *conversion) lifetime() error {
	of := &c.Spec.Template.Spec
	c.spec.Karpenter.ExpireAfter = defaultExpiry
	if text := of.ExpireAfter; text != nil {
		if _, err := duration(*text); err != nil && *text != never {
			return fmt.Errorf("spec.template.spec.expireAfter: %w, or Never", err)
		}
		c.spec.Karpenter.ExpireAfter = *text
	}
	if text := of.TerminationGracePeriod; text != nil {
		d, err := duration(*text)
		if err != nil {
			return fmt.Errorf("spec.template.spec.terminationGracePeriod: %w", err)
		}
		c.spec.Karpenter.TerminationGracePeriod = &metav1.Duration{Duration: d}
	}
	return nil
}

// longestDuration is the maximum length of durations in a NodeFleet.
const longestDuration = 32

// duration reads a duration of a NodePool.
func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || len(text) > longestDuration || strings.Trim(text, "0123456789hms") != "" || strings.Contains(text, "ms") {
		return 0, fmt.Errorf("%q must be a duration in hours, minutes and seconds, such as 1h30m", text)
	}
	return d, nil
}

// limits converts the limits.
func (c *conversion) limits() error {
	for _, name := range sorted(c.Spec.Limits) {
		q, field := c.Spec.Limits[name], "spec.limits."+name
		if q.Sign() < 0 {
			q = resource.Quantity{} // Karpenter launches nothing, either
		}
		switch name {
		case "cpu":
			c.spec.Limits = cmpOr(c.spec.Limits)
			c.spec.Limits.CPU = &q
		case "memory":
			c.spec.Limits = cmpOr(c.spec.Limits)
			c.spec.Limits.Memory = &q
		case "nodes":
			c.machines(field, q)
		default:
			c.note(field, q.String(), "A fleet limits machines, cpu, memory and dollarsPerHour.", "Limit one of these instead, in spec.limits of the fleet.")
		}
	}
	return nil
}

// mostMachines is the maximum of limits.machines.
const mostMachines = 100_000

func (c *conversion) machines(field string, q resource.Quantity) {
	if q.CmpInt64(mostMachines) > 0 {
		c.note(field, q.String(), fmt.Sprintf("A fleet has at most %d machines, which is less.", mostMachines), "Nothing.")
		q.Set(mostMachines)
	}
	c.spec.Limits = cmpOr(c.spec.Limits)
	if at := c.spec.Limits.Machines; at == nil || *at > 0 { // else the fleet must not buy
		c.spec.Limits.Machines = new(int32(q.Value())) //nolint:gosec // it is at most mostMachines
	}
}
