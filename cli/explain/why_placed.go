package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/internal/world"
)

// Placement is why a pod is on its node.
type Placement struct {
	Node string `json:"node"`
	// Because are the recorded reasons, a sentence each.
	Because []string `json:"because,omitempty"`
	// Scores says that the scores of the scheduler's plugins are not recorded, and how to see them.
	Scores string `json:"scores"`
	// ExpectedFinish is the expected finish of a batch pod that has not ended, as the scheduler wrote it.
	ExpectedFinish *time.Time `json:"expectedFinish,omitempty"`
}

// noScores says where to find the scores of plugins. Neither kube-scheduler nor our plugins store
// them: an object for each pod and node would cost more than the decision.
const noScores = "The scores of the scheduler's plugins are not recorded, because kube-scheduler does not store them. To see them for future pods, run it with --v=10 " +
	`for a while; its log then has a line "Plugin scored node for pod" for each plugin and node, and "Calculated node's final score for pod".`

func newPlacement(in *WhyInput) *Placement {
	pod := in.Pod
	p := &Placement{Node: pod.Spec.NodeName, Scores: noScores}
	add := func(format string, args ...any) { p.Because = append(p.Because, fmt.Sprintf(format, args...)) }
	for i := range in.Events {
		if e := &in.Events[i]; e.Reason == "Scheduled" {
			add("%s: %s", clockOf(EventTime(e)), e.Message)
		}
	}
	if len(p.Because) == 0 && p.Node != "" {
		p.Because = append(p.Because, unrecorded(in))
	}
	switch name := pod.Annotations[v1alpha1.AnnotationMigrationName]; {
	case name == "":
	case world.Restoring(pod):
		add("Migration %s is moving it there", name)
	default:
		add("Migration %s moved it there", name)
	}
	if p.Node != "" && in.View.Nodes[p.Node] == nil {
		add("node %s does not exist: no kubelet runs the pod, and kube-controller-manager deletes pods of missing nodes", p.Node)
	}
	for _, text := range stateOf(in.View.Nodes[p.Node]) {
		add("node %s: %s", p.Node, text)
	}
	if name := pod.Spec.NodeSelector[corev1.LabelHostname]; name != "" && in.View.Nodes[p.Node] != nil && in.View.Nodes[p.Node].Labels[corev1.LabelHostname] == name {
		add("its nodeSelector names the node")
	}
	for i := range in.Fleets {
		f := in.Fleets[i].Fleet
		d := f.Status.LastDecision
		if buy := boughtFor(d, world.PodName(pod)); buy != nil && d.Mode == v1alpha1.FleetAct && !d.Time.Time.Before(pod.CreationTimestamp.Time) {
			add("NodeFleet %s ordered machines of flavor %s at %s for %s, including this one: %s", f.Name, buy.Flavor, clockOf(d.Time.Time), plural.Count(buy.Pods, "pod"), buy.Reason)
		}
	}
	if finish, is := runtimes.Written(pod); is && !class.Ended(pod) {
		p.ExpectedFinish = &finish
	}
	return p
}

// unrecorded says what is known about why a pod has its node without an Event about that.
func unrecorded(in *WhyInput) string {
	pod := in.Pod
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	bound := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
	})
	switch {
	case mirror:
		return "it is a static pod: the kubelet of the node runs it from a file, and no scheduler handles it"
	case !bound:
		return fmt.Sprintf("it was created with spec.nodeName %s: no scheduler handles it", pod.Spec.NodeName)
	case in.NoEvents:
		return "the Events of the pod could not be read, so who chose the node is unknown"
	}
	return "no Event about its binding is left (the API server keeps Events for an hour by default), so who chose the node is unknown"
}

func (p *Placement) write(b *strings.Builder) {
	fmt.Fprintf(b, "\nWhy is it on node %s?\n", cmp.Or(p.Node, "none"))
	for _, text := range p.Because {
		fmt.Fprintf(b, "  %s\n", text)
	}
	if p.ExpectedFinish != nil {
		fmt.Fprintf(b, "  It is expected to end at %s.\n", clockOf(*p.ExpectedFinish))
	}
	fmt.Fprintf(b, "  %s\n", p.Scores)
}

// Moving is what would move a pod off its node.
type Moving struct {
	// Ways are how it may leave now: wait, migrate and evict. Restart means that an eviction is
	// done by a Migration, which starts the pod on another node before it is killed.
	Ways []string `json:"ways"`
	// Held is why it is not moved, and Obstacles are the parts of that that a user can change.
	Held      string     `json:"held,omitempty"`
	Obstacles []Obstacle `json:"obstacles,omitempty"`
	// Refusals are why it cannot be moved with its state, those first that last.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Fleet is the NodeFleet of its node; empty if there is none.
	Fleet string `json:"fleet,omitempty"`
	// NodeStays says whether its node is to be emptied, and if not, why.
	NodeStays string `json:"nodeReason,omitempty"`
	// Unknown says what could not be read and may prevent that it leaves.
	Unknown string `json:"unknown,omitempty"`
	Emptied bool   `json:"nodeIsEmptied"`
	// Migrations are the running ones that move it.
	Migrations []string `json:"migrations,omitempty"`
}

// Obstacle is a reason that keeps a pod on its node.
type Obstacle struct {
	Kind   string `json:"kind"`
	Object string `json:"object,omitempty"`
	Advice string `json:"advice"`
	// Ways are how the pod could leave if only this obstacle were removed.
	Ways []string `json:"ways"`
}

// newMoving returns what would move a pod that is on a node.
func newMoving(in *WhyInput) *Moving {
	own := fleetOf(in)
	if own != nil {
		in.View.EvictServices(in.Pod.Spec.NodeName, own.Spec.Consolidation.EvictServices)
	}
	m := &Moving{}
	if class.EveryNode(in.Pod) {
		m.Ways, m.Held = []string{}, "it belongs on its node: a DaemonSet or the kubelet runs it there; it does not keep the node from being emptied"
		m.node(in, own)
		return m
	}
	exit := in.View.Exit(in.Pod)
	m.Ways, m.Held = waysOf(exit.Now()), exit.Held
	lasting, passing := movable.Split(exit.Refusals)
	m.Refusals = refusalsOf(slices.Concat(lasting, passing))
	if !in.knows(budgets) {
		m.Unknown = "whether a PodDisruptionBudget holds it is unknown: PodDisruptionBudgets could not be read"
	}
	if m.Held == "" {
		m.Held = exit.Budget
	}
	for _, h := range in.View.Holds(in.Pod) {
		if h.Kind != world.Anything {
			m.Obstacles = append(m.Obstacles, Obstacle{Kind: h.Kind, Object: h.Budget, Advice: h.Advice, Ways: waysOf(h.Ways)})
		}
	}
	for i := range in.View.Migrations {
		g := &in.View.Migrations[i]
		if !world.Ended(g) && moves(g, in.Pod) {
			m.Migrations = append(m.Migrations, MigrationLine(g))
		}
	}
	m.node(in, own)
	return m
}

// moves reports whether a Migration is about a pod, and not about an earlier one of the same name.
func moves(g *v1alpha1.Migration, pod *corev1.Pod) bool {
	uid := g.Spec.PodUID
	if g.Status.Plan != nil {
		uid = g.Status.Plan.PodUID
	}
	return g.Namespace == pod.Namespace && g.Spec.PodName == pod.Name && (uid == "" || uid == string(pod.UID))
}

func waysOf(w cluster.Ways) []string {
	all := []string{}
	for _, method := range []cluster.Method{cluster.Wait, cluster.Migrate, cluster.Evict} {
		if w.Has(method) {
			all = append(all, method.String())
		}
	}
	return all
}

// fleetOf returns the fleet of the pod's node, or nil.
func fleetOf(in *WhyInput) *v1alpha1.NodeFleet {
	name := in.Pod.Spec.NodeName
	label := ""
	if node := in.View.Nodes[name]; node != nil {
		label = node.Labels[v1alpha1.LabelFleet]
	}
	for i := range in.Fleets {
		f := &in.Fleets[i]
		for j := range f.Machines {
			if name != "" && f.Machines[j].Node == name {
				return f.Fleet
			}
		}
		if f.Fleet.Name == label {
			return f.Fleet
		}
	}
	return nil
}

// node sets what happens to the pod's node.
func (m *Moving) node(in *WhyInput, own *v1alpha1.NodeFleet) {
	node := in.View.Nodes[in.Pod.Spec.NodeName]
	if own != nil {
		m.Fleet = own.Name
	}
	if node == nil {
		m.NodeStays = "the node does not exist"
		return
	}
	if mark, is := drain.MarkOf(node); is {
		m.Emptied, m.NodeStays = true, emptied(in, mark)
		return
	}
	switch {
	case own != nil && leaving(in, node.Name):
		m.NodeStays = fmt.Sprintf("NodeFleet %s is releasing the machine of the node", own.Name)
	case node.Spec.Unschedulable:
		m.NodeStays = "the node is cordoned, but not by Supercargo"
	case own == nil && !in.knows(nodeFleets):
		m.NodeStays = "whether the node belongs to a NodeFleet is unknown: NodeFleets could not be read"
	case own == nil && node.Labels[v1alpha1.LabelFleet] != "":
		m.NodeStays = fmt.Sprintf("the node has the label of NodeFleet %s, which does not exist", node.Labels[v1alpha1.LabelFleet])
	case own == nil && unreadMachines(in) != "":
		m.NodeStays = fmt.Sprintf("the node has no label of a NodeFleet, and whether it is a machine of NodeFleet %s is unknown: its machines could not be read", unreadMachines(in))
	case own == nil:
		m.NodeStays = "the node belongs to no NodeFleet; supercargo explain consolidation shows what the descheduler does with such nodes"
	default:
		m.NodeStays = kept(own, node.Name)
	}
}

// emptied says who empties a node with a mark, since when and until when.
func emptied(in *WhyInput, mark drain.Mark) string {
	by := "NodeFleet " + mark.Owner
	switch {
	case mark.Owner == drain.Descheduler:
		by = "the descheduler"
	case in.knows(nodeFleets) && !slices.ContainsFunc(in.Fleets, func(f FleetInput) bool { return f.Fleet.Name == mark.Owner }):
		return fmt.Sprintf("the node is marked as being emptied by NodeFleet %s, which does not exist", mark.Owner)
	}
	text := by + " is emptying the node"
	if !mark.Since.IsZero() {
		text = fmt.Sprintf("%s has been emptying the node since %s", by, clockOf(mark.Since))
	}
	if !mark.Until.IsZero() {
		text += ", and expects the last pod to have left at " + clockOf(mark.Until)
	}
	return text
}

// leaving reports whether the machine of a node is being released.
func leaving(in *WhyInput, node string) bool {
	return slices.ContainsFunc(in.Fleets, func(f FleetInput) bool {
		return slices.ContainsFunc(f.Machines, func(m provider.Machine) bool { return m.Node == node && m.Leaving })
	})
}

// unreadMachines returns the first NodeFleet whose machines could not be read, or "".
func unreadMachines(in *WhyInput) string {
	if at := slices.IndexFunc(in.Fleets, func(f FleetInput) bool { return f.Unread != "" }); at >= 0 {
		return in.Fleets[at].Fleet.Name
	}
	return ""
}

// kept returns what a fleet has recorded about a node that it does not empty.
func kept(f *v1alpha1.NodeFleet, node string) string {
	if at := slices.IndexFunc(f.Status.Kept, func(k v1alpha1.KeptMachine) bool { return k.Node == node }); at >= 0 {
		return fmt.Sprintf("NodeFleet %s keeps the node, which is under-used or empty: %s", f.Name, f.Status.Kept[at].Reason)
	}
	if d := f.Status.LastDecision; d != nil {
		for _, r := range d.Releases {
			if r.Node == node {
				return fmt.Sprintf("NodeFleet %s decided at %s, mode %s, to release the node: %s", f.Name, clockOf(d.Time.Time), d.Mode, r.Reason)
			}
		}
	}
	return fmt.Sprintf("NodeFleet %s owns the node, and is not emptying it: consolidation policy %s", f.Name, f.Spec.Consolidation.Policy)
}

func (m *Moving) write(b *strings.Builder) {
	b.WriteString("\nWhat would move it?\n")
	if len(m.Ways) > 0 {
		fmt.Fprintf(b, "  It may leave by: %s.\n", strings.Join(m.Ways, ", "))
	}
	for _, r := range m.Refusals {
		if r.Lasting {
			fmt.Fprintf(b, "  Its state cannot be moved, so an eviction loses it: %s: %s.\n", r.Reason, r.Message)
		} else {
			fmt.Fprintf(b, "  Its state cannot be moved yet, and the eviction webhook waits until this has passed: %s: %s.\n", r.Reason, r.Message)
		}
	}
	if m.Held != "" && len(m.Refusals) == 0 {
		fmt.Fprintf(b, "  It is not moved: %s.\n", strings.TrimSuffix(m.Held, "."))
	}
	if m.Unknown != "" {
		fmt.Fprintf(b, "  But %s.\n", m.Unknown)
	}
	for _, o := range m.Obstacles {
		kind := o.Kind
		if o.Object != "" {
			kind += " (" + o.Object + ")"
		}
		after := "another obstacle remains"
		if len(o.Ways) > 0 {
			after = "without it, the pod could leave by: " + strings.Join(o.Ways, ", ")
		}
		fmt.Fprintf(b, "  Obstacle: %s. What helps: %s; %s.\n", kind, o.Advice, after)
	}
	for _, line := range m.Migrations {
		fmt.Fprintf(b, "  Migration %s\n", line)
	}
	if m.NodeStays != "" {
		fmt.Fprintf(b, "  %s.\n", capital(strings.TrimSuffix(m.NodeStays, ".")))
	}
}
