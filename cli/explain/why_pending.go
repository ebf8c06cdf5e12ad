package explain

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/world"
)

// Pending is why a pod is pending.
type Pending struct {
	// Since is when the pod became unschedulable, or else when it was created.
	Since         time.Time `json:"since"`
	WaitedSeconds float64   `json:"waitedSeconds"`
	// Scheduler is the message of kube-scheduler; nil if there is none.
	Scheduler *SchedulerSays `json:"scheduler,omitempty"`
	// Nodes are the current nodes of the cluster by why they cannot run the pod. The empty reason
	// is for nodes that can.
	Nodes []Tally `json:"nodes,omitempty"`
	// Held is what prevents scheduling to any node.
	Held string `json:"held,omitempty"`
	// PromisedNode is the nominated node of the pod.
	PromisedNode string     `json:"promisedNode,omitempty"`
	Fleets       []FleetWhy `json:"fleets,omitempty"`
}

// SchedulerSays is the condition PodScheduled of a pod.
type SchedulerSays struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Nodes and Reasons are the counts in the message; a node may have several reasons.
	Nodes   int     `json:"nodes,omitempty"`
	Reasons []Tally `json:"reasons,omitempty"`
	// Preemption is what the message says about preemption.
	Preemption string `json:"preemption,omitempty"`
}

// unavailable matches the beginning of kube-scheduler's message when no node fits a pod.
var unavailable = regexp.MustCompile(`^0/(\d+) nodes are available:? ?`)

// counted matches one of its reasons.
var counted = regexp.MustCompile(`^(\d+) (.+)$`)

// readScheduler parses the message of kube-scheduler. If it does not have that form, only Reason
// and Message are set.
func readScheduler(c corev1.PodCondition) *SchedulerSays {
	s := &SchedulerSays{Reason: c.Reason, Message: c.Message}
	begin := unavailable.FindStringSubmatch(c.Message)
	if begin == nil {
		return s
	}
	s.Nodes, _ = strconv.Atoi(begin[1])
	// The reasons end with a full stop; messages of PostFilter plugins, such as preemption, follow.
	text, after, _ := strings.Cut(c.Message[len(begin[0]):], ". ")
	if _, preemption, is := strings.Cut(after, "preemption: "); is {
		after = preemption
	}
	s.Preemption = strings.TrimSuffix(strings.TrimSpace(after), ".")
	text = strings.TrimSuffix(strings.TrimSpace(text), ".")
	for part := range strings.SplitSeq(text, ", ") {
		m := counted.FindStringSubmatch(part)
		if m == nil { // a reason with a comma in it
			if last := len(s.Reasons) - 1; last >= 0 {
				s.Reasons[last].Reason += ", " + part
			}
			continue
		}
		n, _ := strconv.Atoi(m[1])
		s.Reasons = append(s.Reasons, Tally{Count: n, Reason: m[2]})
	}
	slices.SortStableFunc(s.Reasons, func(a, b Tally) int { return cmp.Compare(b.Count, a.Count) })
	return s
}

func newPending(in *WhyInput) *Pending {
	pod := in.Pod
	p := &Pending{Since: pod.CreationTimestamp.Time, PromisedNode: pod.Status.NominatedNodeName}
	if c := status.Unscheduled(pod); c != nil {
		p.Since, p.Scheduler = c.LastTransitionTime.Time, readScheduler(*c)
	}
	if !p.Since.IsZero() {
		p.WaitedSeconds = max(0, in.Now.Sub(p.Since)).Seconds()
	}
	switch {
	case len(pod.Spec.SchedulingGates) > 0:
		p.Held = fmt.Sprintf("scheduling gate %s must be removed first, by the controller that has set it", pod.Spec.SchedulingGates[0].Name)
		return p
	case p.Scheduler == nil:
		p.Held = fmt.Sprintf("scheduler %s has not reported on it yet: it is busy, or no scheduler of that name runs", cmp.Or(pod.Spec.SchedulerName, "none"))
	}
	if refusals, err := in.View.Refusals(pod); err != nil {
		p.Held = err.Error()
	} else {
		p.Nodes = tally(refusals)
	}
	for i := range in.Fleets {
		p.Fleets = append(p.Fleets, newFleetWhy(in, &in.Fleets[i]))
	}
	return p
}

// tally groups names by reason, the most frequent first, but the empty reason before all others.
func tally(reasons map[string]string) []Tally {
	by := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		by[reasons[name]] = append(by[reasons[name]], name)
	}
	all := make([]Tally, 0, len(by))
	for reason, names := range by {
		all = append(all, Tally{Count: len(names), Reason: reason, Names: names})
	}
	slices.SortFunc(all, func(a, b Tally) int {
		if (a.Reason == "") != (b.Reason == "") {
			return cmp.Compare(len(a.Reason), len(b.Reason))
		}
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// named replaces the empty reason by a text.
func named(all []Tally, text string) []Tally {
	all = slices.Clone(all)
	for i := range all {
		all[i].Reason = cmp.Or(all[i].Reason, text)
	}
	return all
}

func (p *Pending) write(b *strings.Builder) {
	fmt.Fprintf(b, "\nWhy is it pending? For %v.\n", (time.Duration(p.WaitedSeconds * float64(time.Second))).Round(time.Second))
	if p.Held != "" {
		fmt.Fprintf(b, "  %s\n", p.Held)
	}
	if s := p.Scheduler; s != nil {
		s.write(b)
	}
	if p.PromisedNode != "" {
		fmt.Fprintf(b, "  It is nominated to node %s: pods of lower priority must leave the node first.\n", p.PromisedNode)
	}
	if len(p.Nodes) > 0 {
		b.WriteString("  The nodes now:\n")
		writeTallies(b, "  ", named(p.Nodes, "would accept it: the scheduler retries soon"))
	}
	if len(p.Fleets) == 0 && p.Scheduler != nil {
		b.WriteString("  There is no NodeFleet, so no machine is bought for it.\n")
	}
	for i := range p.Fleets {
		p.Fleets[i].write(b)
	}
}

func (s *SchedulerSays) write(b *strings.Builder) {
	if len(s.Reasons) == 0 {
		fmt.Fprintf(b, "  kube-scheduler reports (%s): %s\n", s.Reason, s.Message)
		return
	}
	fmt.Fprintf(b, "  kube-scheduler reports for %d nodes:\n", s.Nodes)
	writeTallies(b, "  ", s.Reasons)
	if s.Preemption != "" {
		fmt.Fprintf(b, "  and for preemption: %s\n", s.Preemption)
	}
}

// waiting returns the pod as a fleet of that class sees it, and whether it is unschedulable for the
// fleet.
func waiting(in *WhyInput, f *FleetInput) (w world.Waiting, is bool) {
	for _, w := range in.View.Waiting(fleetClass(f.Fleet)) {
		if w.Name == world.PodName(in.Pod) {
			return w, true
		}
	}
	return world.Waiting{}, false
}
