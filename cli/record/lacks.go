package record

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/gang"
	"supercargo.dev/supercargo/internal/text/plural"
)

// limit is a sort of limit to the nodes on which a pod can run that a recording cannot hold.
type limit struct {
	what string
	has  func(*corev1.Pod) bool
}

// limits are all of them, in the order in which they are listed. Preferences and tolerations keep no pod off a node.
var limits = []limit{
	{"node selectors or node affinity", selectsNodes},
	{"pod affinity or anti-affinity", func(p *corev1.Pod) bool {
		a := p.Spec.Affinity
		return a != nil && (a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
			a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0)
	}},
	{"topology spread", func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
			return c.WhenUnsatisfiable == corev1.DoNotSchedule
		})
	}},
	{"host ports", func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Ports, func(port corev1.ContainerPort) bool { return port.HostPort != 0 })
		})
	}},
	{"requests of resources other than CPU and memory", func(p *corev1.Pod) bool {
		_, _, others := constraint.Requests(p)
		return len(others) > 0
	}},
	{"volume claims", func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
	}},
	{"resource claims", func(p *corev1.Pod) bool { return len(p.Spec.ResourceClaims) > 0 }},
	{"gangs", func(p *corev1.Pod) bool { return gang.Of(p) != "" }},
}

// selectsNodes reports whether a pod requires labels or names of nodes, other than the architecture that [archOf] returns, and
// the operating system that all recorded nodes are taken to have.
func selectsNodes(p *corev1.Pod) bool {
	for key, value := range p.Spec.NodeSelector {
		if key != corev1.LabelArchStable && (key != corev1.LabelOSStable || value != string(corev1.Linux)) {
			return true
		}
	}
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchFields) > 0 || len(terms[0].MatchExpressions) != 1 {
		return true
	}
	arch := archIn(&terms[0])
	return arch == "" || arch != archOf(p)
}

// count counts a pod that a row was written for, and what the row lacks.
func (t *Tracker) count(pod *corev1.Pod) {
	t.added++
	for _, l := range limits {
		if l.has(pod) {
			t.lacks[l.what]++
		}
	}
}

// Lacks says what the recording lacks of the pods that the tracker has added to it, and of how many, as sentences; empty if it
// lacks nothing. Pods of DaemonSets and static pods lack nothing: they are recorded with their nodes.
func (t *Tracker) Lacks() string {
	var parts []string
	for _, l := range limits {
		if n := t.lacks[l.what]; n > 0 {
			parts = append(parts, l.what+" of "+plural.Count(n, "pod"))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("Of %s added to it, the recording lacks what it cannot hold: %s. The simulation may place such pods on nodes that the cluster would not.",
		plural.Count(t.added, "pod"), strings.Join(parts, ", "))
}

// MetricsLack says what a recording from metrics lacks of every pod.
const MetricsLack = "The metrics have neither affinity nor other limits to the nodes on which pods can run, so the recording lacks them. " +
	"The simulation may place pods on nodes that the cluster would not."
