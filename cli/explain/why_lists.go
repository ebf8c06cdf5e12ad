package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/world"
)

// PendingPods are the pods without a node, and the controllers whose pods the API server refuses.
type PendingPods struct {
	// Namespace is where they were looked for; empty for all namespaces. Elsewhere is the number of pods without a node
	// in other namespaces.
	Namespace string `json:"namespace,omitempty"`
	Elsewhere int    `json:"elsewhere,omitempty"`
	Pods      []Why  `json:"pods"`
	// Lost are the pods on nodes that do not exist.
	Lost []Lost `json:"onMissingNodes,omitempty"`
	// Refused are the controllers whose pods could not be created.
	Refused []Refused `json:"refused,omitempty"`
	// Unread are the kinds of objects that could not be read, each with the reason.
	Unread []string `json:"unread,omitempty"`
}

// Lost is a pod on a node that does not exist.
type Lost struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// Status is its phase, or Terminating if it is being deleted.
	Status string `json:"status"`
}

// lostOn returns a pod whose node does not exist.
func lostOn(pod *corev1.Pod) Lost {
	l := Lost{world.PodName(pod), pod.Spec.NodeName, string(pod.Status.Phase)}
	if pod.DeletionTimestamp != nil {
		l.Status = "Terminating"
	}
	return l
}

// Write prints a line for each pod without a node, the one that has waited longest first, for each pod on a node that does not
// exist, and for each controller.
func (p PendingPods) Write(w io.Writer) error {
	var b strings.Builder
	writeUnread(&b, p.Unread)
	where, others := "in namespace "+p.Namespace, ""
	if p.Namespace == "" {
		where = "in any namespace"
	} else if p.Elsewhere > 0 {
		others = fmt.Sprintf(" Pods without a node in other namespaces: %d; -A lists them.", p.Elsewhere)
	}
	if len(p.Pods) == 0 {
		fmt.Fprintf(&b, "No pod without a node %s.%s\n", where, others)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if len(p.Pods) > 0 {
		if err := p.writePods(w); err != nil {
			return err
		}
	}
	if len(p.Pods) > 0 && others != "" {
		if _, err := fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(others)); err != nil {
			return err
		}
	}
	if err := writeLost(w, p.Lost); err != nil {
		return err
	}
	return writeRefused(w, p.Refused)
}

func writeLost(w io.Writer, all []Lost) error {
	if len(all) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nPods on a node that does not exist: no kubelet runs them, and kube-controller-manager deletes such pods.")
	fmt.Fprintln(t, "POD\tNODE\tSTATUS")
	for _, l := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\n", l.Pod, l.Node, cmp.Or(l.Status, "-"))
	}
	return t.Flush()
}

func (p PendingPods) writePods(w io.Writer) error {
	all := slices.Clone(p.Pods)
	slices.SortStableFunc(all, func(a, b Why) int { return cmp.Compare(b.Pending.WaitedSeconds, a.Pending.WaitedSeconds) })
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	noFleets := all[0].Pending.NoFleets
	if slices.ContainsFunc(all, func(w Why) bool { return w.Pending.NoFleets != noFleets }) {
		noFleets = ""
	}
	fmt.Fprintln(t, "POD\tPENDING FOR\tWHY"+cell("WHAT IS DONE", noFleets == ""))
	for _, pod := range all {
		waited := time.Duration(pod.Pending.WaitedSeconds * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(t, "%s\t%v\t%s%s\n", pod.Name, waited, pod.Pending.line(), cell(pod.Pending.doing(), noFleets == ""))
	}
	if err := t.Flush(); err != nil || noFleets == "" {
		return err
	}
	_, err := fmt.Fprintf(w, "\nFor each of them: %s\n", noFleets)
	return err
}

// cell returns a further cell of a row, or nothing.
func cell(text string, shown bool) string {
	if !shown {
		return ""
	}
	return "\t" + text
}

// line returns why a pod is pending, in a few words.
func (p *Pending) line() string {
	if p.Held != "" {
		return p.Held
	}
	return cmp.Or(strings.TrimSuffix(strings.TrimSpace(p.Nomination+" "+p.reported()), "."), "-")
}

// reported returns what the scheduler reports about a pod, in a few words; empty for nothing.
func (p *Pending) reported() string {
	if p.Scheduler == nil {
		return ""
	}
	u, _ := status.ParseUnschedulable(p.Scheduler.Message)
	if p.OnlyNode != "" {
		if text := u.OfNode(p.OnlyNode); text != "" {
			return text
		}
	}
	return cmp.Or(u.Sentence(), u.Whole, p.Scheduler.Message)
}

// doing returns the action of the fleet that does most for the pod, in a few words.
func (p *Pending) doing() string {
	if len(p.Fleets) == 0 {
		return strings.TrimSuffix(p.NoFleets, ".")
	}
	rank := []string{Ordered, Joined, Gathers, Waits, WouldOrder, Leaves, Unlisted, Unrecorded, Nothing}
	best := slices.MinFunc(p.Fleets, func(a, b FleetWhy) int {
		return cmp.Compare(slices.Index(rank, a.Doing), slices.Index(rank, b.Doing))
	})
	text := fmt.Sprintf("NodeFleet %s: %s", best.Fleet, fleetVerbs[best.Doing])
	switch best.Doing {
	case Ordered, Joined:
		if best.Flavor != "" {
			text += " (" + best.Flavor + ")"
		}
		if best.ExpectedTime != nil {
			text += ", expected at " + clockOf(*best.ExpectedTime)
		}
	case Leaves, Nothing, Unlisted, Unrecorded:
		text += ": " + best.Because
	}
	return text
}

// NodeWhy is what happens to a node, and how its pods may leave it. Pods that are nominated to it are not among them.
type NodeWhy struct {
	Node  string `json:"node"`
	Fleet string `json:"fleet,omitempty"`
	// Stays says whether the node is to be emptied, and if not, why.
	Stays   string `json:"stays"`
	Emptied bool   `json:"isEmptied"`
	// State says that the node is being deleted or is not ready; empty for any other node.
	State []string  `json:"state,omitempty"`
	Pods  []NodePod `json:"pods"`
}

// NodePod is how a pod may leave its node.
type NodePod struct {
	Pod string `json:"pod"`
	*Moving
}

// NewNodeWhy explains a node. It ignores in.Pod.
func NewNodeWhy(in *WhyInput, node string) NodeWhy {
	of := func(pod *corev1.Pod) *Moving {
		its := *in
		its.Pod = pod
		return newMoving(&its)
	}
	itself := of(&corev1.Pod{Spec: corev1.PodSpec{NodeName: node}})
	w := NodeWhy{Node: node, Fleet: itself.Fleet, Stays: itself.NodeStays, Emptied: itself.Emptied, State: stateOf(in.View.Nodes[node]), Pods: []NodePod{}}
	for _, pod := range in.View.On(node) {
		if pod.Spec.NodeName == node && !class.EveryNode(pod) {
			w.Pods = append(w.Pods, NodePod{world.PodName(pod), of(pod)})
		}
	}
	slices.SortFunc(w.Pods, func(a, b NodePod) int { return cmp.Compare(a.Pod, b.Pod) })
	return w
}

// Write prints the node, and a line for each pod except DaemonSet pods.
func (w NodeWhy) Write(out io.Writer) error {
	fmt.Fprintf(out, "Node %s: %s\n", w.Node, w.Stays)
	for _, text := range w.State {
		fmt.Fprintf(out, "  %s.\n", capital(text))
	}
	if len(w.Pods) == 0 {
		_, err := fmt.Fprintln(out, "No pod would have to leave it.")
		return err
	}
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nPOD\tMAY LEAVE BY\tOR WHY NOT")
	for _, p := range w.Pods {
		fmt.Fprintf(t, "%s\t%s\t%s\n", p.Pod, cmp.Or(strings.Join(p.Ways, ", "), "none"), p.Held)
	}
	return t.Flush()
}

// stateOf says, in clauses, that a node is being deleted or is not ready: its pods may then not start, run or end.
func stateOf(node *corev1.Node) (all []string) {
	if node == nil {
		return nil
	}
	if text := deletionOf(node); text != "" {
		all = append(all, text)
	}
	if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == world.TaintToBeDeleted }) {
		all = append(all, fmt.Sprintf("it has taint %s, which cluster-autoscaler sets on nodes that it is about to delete", world.TaintToBeDeleted))
	}
	if c, ready := world.Ready(node); !ready && c.Type != "" {
		all = append(all, fmt.Sprintf("it has not been ready since %s (%s)", clockOf(c.LastTransitionTime.Time), cmp.Or(c.Reason, string(c.Status))))
	}
	return all
}

// deletionOf says, in a clause, that an object is being deleted; empty if it is not. The time of deletion is that of the
// request plus the grace period.
func deletionOf(object metav1.Object) string {
	at := object.GetDeletionTimestamp()
	if at == nil {
		return ""
	}
	grace := time.Duration(ptr.Deref(object.GetDeletionGracePeriodSeconds(), 0)) * time.Second
	text := fmt.Sprintf("its deletion was requested at %s", clockOf(at.Add(-grace)))
	if names := object.GetFinalizers(); len(names) > 0 {
		text += "; it exists until these finalizers are removed: " + strings.Join(names, ", ")
	}
	return text
}

// capital returns a clause as the start of a sentence.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
