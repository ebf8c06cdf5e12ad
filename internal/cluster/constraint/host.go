package constraint

import (
	"slices"
	"strconv"

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
	// Residents are pods that always run on the host, such as those of DaemonSets.
	Residents []Resident
	// Disk is its ephemeral storage; nil if it is unknown.
	Disk *Disk
	// Attaches is how many volumes of each CSI driver the pods of the host can have, by the drivers that it has:
	// math.MaxInt64 for any number. It is nil if that is unknown.
	Attaches map[string]int64
}

// Disk is the ephemeral storage of a host, in bytes: what pods can request, and what they do not request yet.
type Disk struct{ Total, Free int64 }

// Emptied returns the host as it is without pods. It shares unchanged data with h.
func (h *Host) Emptied() *Host {
	empty := *h
	if h.Disk != nil {
		empty.Disk = &Disk{h.Disk.Total, h.Disk.Total}
	}
	return &empty
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

// Resident is a pod that always runs on each of some hosts, such as the pod of a DaemonSet.
// [Compiler.Resident] makes it.
type Resident struct {
	pod  *Pod
	name string // of what runs it, for people
}

// Resident returns a pod of this compiler as a resident of hosts. The name is that of what runs it, such as "DaemonSet
// kube-system/proxy". All residents of hosts that a pod is checked against must have been made before.
func (c *Compiler) Resident(p *Pod, name string) Resident {
	r := Resident{p, name}
	if !slices.Contains(c.residents, r) {
		c.residents = append(c.residents, r)
	}
	return r
}

// wary reports whether a pod beside this one on its host can be a conflict.
func (p *Pod) wary() bool {
	return len(p.ports) > 0 || len(p.apart) > 0 || slices.ContainsFunc(p.identity.audiences, func(a *audience) bool { return len(a.repels) > 0 })
}

// besides returns the first conflict of the pod with a resident, or "".
func (p *Pod) besides(residents []Resident) string {
	if len(residents) == 0 || !p.wary() {
		return ""
	}
	for i := range residents {
		if why := p.beside(&residents[i]); why != "" {
			return why
		}
	}
	return ""
}

// beside returns why the pod cannot run on the same host as the resident, or "": a host port, its own anti-affinity on
// hosts, or that of the resident.
func (p *Pod) beside(r *Resident) string {
	for i := range p.ports {
		if slices.ContainsFunc(r.pod.ports, func(q port) bool { return p.ports[i].clashes(&q) }) {
			return p.ports[i].reason + " is taken by " + r.name
		}
	}
	onHosts := func(key int) bool { return p.compiler.keys[key] == corev1.LabelHostname }
	for i := range p.apart {
		if term := &p.apart[i]; onHosts(term.key) && r.pod.identity.belongsTo(p.compiler.tallies[term.tally].audience) {
			return term.reason + " keeps it away from " + r.name
		}
	}
	for _, a := range p.identity.audiences {
		for _, held := range a.repels {
			if onHosts(held.key) && slices.ContainsFunc(r.pod.apart, func(t apart) bool { return t.held == held.tally }) {
				return "the pod anti-affinity of " + r.name + " keeps it away"
			}
		}
	}
	return ""
}

// besidesKey is equal for two pods that have the same conflicts with residents.
func (p *Pod) besidesKey() string {
	if len(p.compiler.residents) == 0 || !p.wary() {
		return ""
	}
	k := newKey(0)
	for i := range p.compiler.residents {
		if why := p.beside(&p.compiler.residents[i]); why != "" {
			k.add("beside", strconv.Itoa(i), why)
		}
	}
	return k.String()
}
