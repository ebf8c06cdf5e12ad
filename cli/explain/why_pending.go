package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/explain/reasons"
	"supercargo.dev/supercargo/cli/explain/shortage"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/text/plural"
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
	// is for nodes about which nothing of that kind is found; Free says what that means.
	Nodes []Tally `json:"nodes,omitempty"`
	Free  string  `json:"free,omitempty"`
	// OnlyNode is the node for which a DaemonSet made the pod; empty for any other pod. Nodes has no other one then.
	OnlyNode string `json:"onlyNode,omitempty"`
	// Short are the resources that are reasons in Nodes, with what there is of them, if no node is without a reason.
	Short []shortage.Shortage `json:"short,omitempty"`
	// Held is what prevents scheduling to any node.
	Held string `json:"held,omitempty"`
	// Unchecked is what kube-scheduler checks about nodes for this pod, and this command does not.
	Unchecked []string `json:"unchecked,omitempty"`
	// PromisedNode is the nominated node of the pod, and Nomination says what it waits for there.
	PromisedNode string `json:"promisedNode,omitempty"`
	Nomination   string `json:"nomination,omitempty"`
	// Events are the last Events of NodeFleets about the pod: what it waits for, or why no machine is bought.
	Events []string   `json:"events,omitempty"`
	Fleets []FleetWhy `json:"fleets,omitempty"`
	// NoFleets says that there is none, or why that is unknown.
	NoFleets string `json:"noFleets,omitempty"`
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
	// Answers say what the reasons mean.
	Answers []Answer `json:"answers,omitempty"`
}

// Answer is what would help against a reason.
type Answer struct {
	Reason string `json:"reason"`
	Plugin string `json:"plugin"`
	Helps  string `json:"helps"`
}

// readScheduler parses the message of kube-scheduler. If it does not have that form, only Reason
// and Message are set. A pod of a DaemonSet gets the answers that apply to its node.
func readScheduler(c corev1.PodCondition, daemon bool) *SchedulerSays {
	s := parseScheduler(c)
	answer := reasons.Of
	if daemon {
		answer = reasons.OfDaemonSet
	}
	texts := []string{s.Message}
	if len(s.Reasons) > 0 {
		texts = nil
		for _, t := range s.Reasons {
			texts = append(texts, t.Reason)
		}
	}
	for _, text := range texts {
		if a, is := answer(text); is {
			s.Answers = append(s.Answers, Answer{text, a.Plugin, a.Helps})
		}
	}
	return s
}

func parseScheduler(c corev1.PodCondition) *SchedulerSays {
	s := &SchedulerSays{Reason: c.Reason, Message: c.Message}
	u, is := status.ParseUnschedulable(c.Message)
	if !is {
		return s
	}
	s.Nodes, s.Preemption = u.Nodes, u.Preemption
	for _, r := range u.Reasons {
		s.Reasons = append(s.Reasons, Tally{Count: r.Nodes, Reason: r.Reason})
	}
	return s
}

func newPending(in *WhyInput) *Pending {
	pod := in.Pod
	p := &Pending{Since: pod.CreationTimestamp.Time, PromisedNode: pod.Status.NominatedNodeName, Nomination: nomination(in), OnlyNode: onlyNode(pod), Events: scaleUpEvents(in.Events)}
	if c := status.Unscheduled(pod); c != nil && c.Reason != corev1.PodReasonSchedulingGated { // the API server sets that one
		p.Since, p.Scheduler = c.LastTransitionTime.Time, readScheduler(*c, p.OnlyNode != "")
	}
	if !p.Since.IsZero() {
		p.WaitedSeconds = max(0, in.Now.Sub(p.Since)).Seconds()
	}
	stopped := stopped(pod)
	p.Held = cmp.Or(stopped, p.held(in))
	if stopped == "" {
		p.readNodes(in)
	}
	for i := range in.Fleets {
		p.Fleets = append(p.Fleets, newFleetWhy(in, &in.Fleets[i]))
	}
	if len(in.Fleets) == 0 {
		p.NoFleets = "There is no NodeFleet, so Supercargo buys no machine for it."
		if !in.knows(nodeFleets) {
			p.NoFleets = "Whether a NodeFleet buys a machine for it is unknown: NodeFleets could not be read."
		}
	}
	return p
}

// scaleUpEvents returns the last Event of each reason that NodeFleets record about pods. Its argument is sorted by time.
func scaleUpEvents(all []corev1.Event) []string {
	return lastEvents(slices.DeleteFunc(slices.Clone(all), func(e corev1.Event) bool {
		return e.Reason != v1alpha1.PodReasonTriggeredScaleUp && e.Reason != v1alpha1.PodReasonNotTriggerScaleUp
	}))
}

// readNodes sets what the current nodes say about the pod.
func (p *Pending) readNodes(in *WhyInput) {
	refusals, short, err := in.View.Refusals(in.Pod)
	if err != nil {
		p.Held = err.Error()
		return
	}
	if only := p.OnlyNode; only != "" {
		maps.DeleteFunc(refusals, func(node, _ string) bool { return node != only })
		short = slices.DeleteFunc(short, func(s world.Shortage) bool { return s.Node != only })
	}
	p.Nodes, p.Unchecked = tally(refusals), in.View.Unchecked(in.Pod)
	if len(p.Nodes) > 0 && p.Nodes[0].Reason != "" {
		p.Short = shortage.Of(short)
	}
	if usesClaims(in.Pod) && !in.knows(volumeKinds...) {
		p.Unchecked = append(p.Unchecked, "its volume claims")
	}
	if !in.knows(namespaces) && slices.ContainsFunc(in.View.Pods, selectsNamespaces) {
		p.Unchecked = append(p.Unchecked, "affinity to pods of namespaces that are selected by labels")
	}
	if in.Devices != nil && in.Devices.Unread != "" {
		p.Unchecked = append(p.Unchecked, fmt.Sprintf("its resource claims (%s)", in.Devices.Unread))
	}
	if name := in.Pod.Spec.SchedulerName; name != corev1.DefaultSchedulerName {
		p.Unchecked = append(p.Unchecked, fmt.Sprintf("the rules of scheduler %s", cmp.Or(name, "none")))
	}
	also := strings.Join(p.Unchecked, ", ")
	switch {
	case p.Held != "" && also != "":
		p.Free = "excluded by nothing that is checked here, apart from the above; its scheduler also checks " + also
	case p.Held != "":
		p.Free = "would not exclude it, apart from the above"
	case also != "":
		p.Free = "excluded by nothing that is checked here; its scheduler also checks " + also
	default:
		p.Free = "would accept it now"
	}
}

// selectsNamespaces reports whether required affinity of a pod selects namespaces by their labels.
func selectsNamespaces(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	if a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	if a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil })
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
	if p.Nomination != "" {
		fmt.Fprintf(b, "  %s\n", p.Nomination)
	}
	for _, e := range p.Events {
		fmt.Fprintf(b, "  Event %s\n", e)
	}
	if len(p.Nodes) > 0 {
		if p.OnlyNode != "" {
			b.WriteString("  Its DaemonSet made it for one node, and it can run on no other. That node now:\n")
		} else {
			b.WriteString("  The nodes now:\n")
		}
		writeTallies(b, "  ", named(p.Nodes, p.Free))
	}
	for i := range p.Short {
		fmt.Fprintf(b, "  %s\n", &p.Short[i])
	}
	if p.NoFleets != "" {
		fmt.Fprintf(b, "  %s\n", p.NoFleets)
	}
	for i := range p.Fleets {
		p.Fleets[i].write(b)
	}
}

func (s *SchedulerSays) write(b *strings.Builder) {
	if len(s.Reasons) == 0 {
		fmt.Fprintf(b, "  Its scheduler reports (%s): %s\n", s.Reason, s.Message)
	} else {
		fmt.Fprintf(b, "  Its scheduler reports for %s:\n", plural.Count(s.Nodes, "node"))
		writeTallies(b, "  ", s.Reasons)
	}
	if s.Preemption != "" {
		fmt.Fprintf(b, "  and for preemption: %s\n", s.Preemption)
	}
	for _, a := range s.Answers {
		if len(s.Reasons) > 1 {
			fmt.Fprintf(b, "  What helps against %q: %s.\n", a.Reason, a.Helps)
		} else {
			fmt.Fprintf(b, "  What helps: %s.\n", a.Helps)
		}
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
