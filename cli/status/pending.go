package status

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/text/clip"
	"supercargo.dev/supercargo/internal/text/plural"
)

// The limits of what is shown of pending pods.
const (
	mostReasons = 50
	mostNames   = 10
	longest     = 1024
)

// Pending is a group of pods without a node for the same reason.
type Pending struct {
	// Reason is the message of their condition PodScheduled, and Short what it says in short; empty if that is the same.
	Reason string `json:"reason"`
	Short  string `json:"short,omitempty"`
	Pods   int    `json:"pods"`
	// Names are the names of the oldest pods, as namespace/name.
	Names []string `json:"names"`
	// Requests says what they request in all.
	Requests string `json:"requests"`
	// Since is when the oldest of them was created, in seconds since 1970.
	Since int64 `json:"since"`
}

// notTried is the reason of pods without a message from a scheduler.
const notTried = "no scheduler has reported on it yet"

// pending groups pods without a node by reason. The largest groups come first; ties are sorted by
// reason.
func pending(pods []*corev1.Pod) []Pending {
	by := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && !class.Ended(pod) {
			reason := whyPending(pod)
			by[reason] = append(by[reason], pod)
		}
	}
	groups := make([]Pending, 0, len(by))
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		groups = append(groups, groupOf(reason, by[reason]))
	}
	slices.SortStableFunc(groups, func(a, b Pending) int { return cmp.Compare(b.Pods, a.Pods) })
	return groups[:min(len(groups), mostReasons)]
}

func groupOf(reason string, pods []*corev1.Pod) Pending {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	g := Pending{Reason: reason, Pods: len(pods), Since: seconds(pods[0].CreationTimestamp.Time)}
	if u, is := ParseUnschedulable(reason); is {
		g.Short = cmp.Or(u.Sentence(), clip.Bytes(u.Whole, longestReason))
	}
	var milliCPU, memory int64
	for i, pod := range pods {
		p := podOf(pod, pod.CreationTimestamp.Time, 0)
		milliCPU, memory = milliCPU+p.MilliCPU, memory+p.Memory
		if i < mostNames {
			g.Names = append(g.Names, p.Name)
		}
	}
	g.Requests = requests(len(pods), milliCPU, memory)
	return g
}

// requests says what a number of pods request in all.
func requests(pods int, milliCPU, memory int64) string {
	var parts []string
	if milliCPU > 0 {
		amount := cores(milliCPU)
		if amount == "1" {
			amount += " CPU"
		} else {
			amount += " CPUs"
		}
		parts = append(parts, amount)
	}
	if memory > 0 {
		parts = append(parts, byteCount(memory)+" of memory")
	}
	if len(parts) == 0 {
		parts = []string{"no CPU", "no memory"}
	}
	return plural.Form(pods, "Requests ", "Request ") + strings.Join(parts, " and ")
}

// Unscheduled returns the condition that says why a scheduler has found no node for a pod; nil if there is none.
func Unscheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c
		}
	}
	return nil
}

func whyPending(pod *corev1.Pod) string {
	if c := Unscheduled(pod); c != nil {
		return clip.Bytes(cmp.Or(c.Message, c.Reason, notTried), longest)
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		return "a scheduling gate keeps it from being scheduled: " + pod.Spec.SchedulingGates[0].Name
	}
	return notTried
}
