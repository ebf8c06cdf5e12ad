package constraint

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Host is a node, or the template of a future node. It must not change while a [Tracker] holds it.
//
// Every kubelet sets the label kubernetes.io/hostname on its node, and a template cannot know its value. A host without
// that label is therefore treated as if it had it: where a pod selects a value, the value is Name; where a [Tracker]
// counts pods, the host is a domain of its own, even if names are equal. A template that is added three times is three
// machines.
type Host struct {
	Name          string
	Labels        map[string]string
	Taints        []corev1.Taint
	Unschedulable bool
	// Residents are pods that run on the host whatever else does, such as those of DaemonSets.
	Residents []Resident
}

// NewHost returns the host of a node. It shares the node's labels and taints.
func NewHost(node *corev1.Node) *Host {
	return &Host{Name: node.Name, Labels: node.Labels, Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable}
}

// Uncordoned returns the host as it will be after it is uncordoned. It shares unchanged data with h. It returns nil for
// nil.
func Uncordoned(h *Host) *Host {
	if h == nil {
		return nil
	}
	open := *h
	open.Unschedulable = false
	open.Taints = slices.DeleteFunc(slices.Clone(h.Taints), func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
	return &open
}

// hostLabels are a host's labels as selectors see them.
type hostLabels struct{ *Host }

// Has reports whether the host has the label.
func (h hostLabels) Has(key string) bool {
	_, ok := h.Lookup(key)
	return ok
}

// Get returns the value of the label, or "".
func (h hostLabels) Get(key string) string {
	value, _ := h.Lookup(key)
	return value
}

// Lookup returns the value of the label and whether the host has it.
func (h hostLabels) Lookup(key string) (string, bool) {
	if value, ok := h.Labels[key]; ok {
		return value, true
	}
	return h.Name, key == corev1.LabelHostname
}
