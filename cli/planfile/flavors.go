package planfile

import (
	"cmp"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// Flavor is a machine type that can be bought in any number. Architecture and number of pods are
// always set.
type Flavor struct{ catalogue.Offer }

// Defaults of flavors, as in scenarios.
const (
	DefaultArch    = "amd64"
	DefaultMaxPods = 110
)

// ReadFlavors reads the flavors that can be bought, see [catalogue.ReadOffers]. They are ordered by
// name.
func ReadFlavors(name string, in io.Reader) ([]Flavor, error) {
	offers, err := catalogue.ReadOffers(name, in)
	if err != nil {
		return nil, err
	}
	flavors := make([]Flavor, len(offers))
	for i, o := range offers {
		o.Arch = cmp.Or(o.Arch, DefaultArch)
		if o.MaxPods == nil {
			o.MaxPods = new(int64(DefaultMaxPods))
		}
		flavors[i] = Flavor{o}
	}
	return flavors, nil
}

// Zoned returns the zones of the flavor, or one empty zone if it has none: its nodes then have no
// zone label.
func (f Flavor) Zoned() []string {
	if len(f.Zones) == 0 {
		return []string{""}
	}
	return slices.Clone(f.Zones)
}

// NodeLabels returns the labels of a node of the flavor in a zone, except its hostname.
func (f Flavor) NodeLabels(zone string) map[string]string {
	labels := map[string]string{
		corev1.LabelArchStable:         f.Arch,
		corev1.LabelOSStable:           string(corev1.Linux),
		corev1.LabelInstanceTypeStable: f.Name,
	}
	if zone != "" {
		labels[corev1.LabelTopologyZone] = zone
	}
	if f.MachineType != "" {
		labels[v1alpha1.LabelMachineType] = f.MachineType
	}
	for _, l := range f.Labels {
		labels[l.Key] = l.Value
	}
	constraint.AddFollowing(labels)
	return labels
}

// NodeTaints returns the taints of a node of the flavor.
func (f Flavor) NodeTaints() []corev1.Taint {
	var taints []corev1.Taint
	for _, t := range f.Taints {
		taints = append(taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return taints
}
