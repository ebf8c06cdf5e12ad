package scenario

import (
	"slices"
)

// rescheduling reads the settings for moving running pods to more suitable machines.
func (b *builder) rescheduling(v value) {
	r := &b.s.Rescheduling
	b.object(v,
		optional("interval", into(&r.Interval, b.duration)),
		optional("residence", into(&r.Residence, b.duration)),
		optional("gain", into(&r.Gain, b.number(1, 1, 100))),
		optional("pods", into(&r.Pods, b.number(1, 1, MaxPods))))
}

// namespace reads the settings of a namespace.
func (b *builder) namespace(_ int, v value) {
	var n Namespace
	if !b.object(v,
		required("name", "a namespace's name", into(&n.Name, b.namespaceName)),
		optional("energyWeight", into(&n.EnergyWeight, b.weight))) {
		return
	}
	if slices.ContainsFunc(b.s.Namespaces, func(other Namespace) bool { return other.Name == n.Name }) {
		b.fault(v, "is a second entry for namespace %q: namespaces must be unique", n.Name)
	}
	b.s.Namespaces = append(b.s.Namespaces, n)
}

func (b *builder) namespaceName(v value) string {
	return b.text(v, "a namespace's name", "is not a valid namespace: must be up to 63 lower-case letters, digits and '-', with a letter or digit at either end", validName)
}
