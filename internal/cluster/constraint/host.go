package constraint

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Host is a node, or the template of a node to come. It must not change while a
// [Tracker] holds it.
//
// Every kubelet labels its node with kubernetes.io/hostname, and a template cannot
// know with what. A host without that label therefore counts as having it: with its
// Name as value where a pod asks for a value, and as a domain of its own, apart
// from all others whatever their names, where a [Tracker] counts pods. A template
// added three times is three machines.
type Host struct {
	Name          string
	Labels        map[string]string
	Taints        []corev1.Taint
	Unschedulable bool
}

// NewHost returns what the node is to a pod. It shares the node's labels and taints.
func NewHost(node *corev1.Node) *Host {
	return &Host{Name: node.Name, Labels: node.Labels, Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable}
}

// Uncordoned returns what a host is to a pod once it is uncordoned.
// It shares what it can with the host; that of nil is nil.
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
