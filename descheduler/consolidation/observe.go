package consolidation

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/world"
)

// annotationMachine is on nodes whose machines cluster-api manages.
const annotationMachine = "cluster.x-k8s.io/machine"

// labelControlPlane is on nodes of the control plane.
const labelControlPlane = "node-role.kubernetes.io/control-plane"

// round is one round, with the state of the cluster that it observed.
type round struct {
	*Mover
	world *world.World
	view  *world.View
	now   time.Time
	state cluster.State
	// paused is whether the cluster is paused.
	paused pause.State
	// emptied are the nodes that this mover has emptied, and draining those that it is emptying,
	// both sorted by name.
	emptied, draining []string
	again             time.Duration
	emptying          *drain.Emptying
}

// observe reads the cluster.
func (m *Mover) observe(ctx context.Context) (*round, error) {
	w, err := world.Read(ctx, m.Client, true)
	if err != nil {
		return nil, err
	}
	w.Facts = m.facts
	var fleets v1alpha1.NodeFleetList
	if m.Fleets {
		if err := m.Client.List(ctx, &fleets, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list NodeFleets: %w", err)
		}
	}
	r := &round{Mover: m, world: w, now: m.Clock.Now(), again: m.Config.Interval}
	if r.paused, err = m.Pause.Read(ctx); err != nil {
		return nil, err
	}
	r.view = world.NewView(w, r.now, m.learned)
	r.emptying = drain.NewEmptying(m.Client, r.view, m.learned)
	r.observe(fleets.Items)
	return r, nil
}

// observe builds the planner's input and the lists of nodes that this mover has cordoned.
func (r *round) observe(fleets []v1alpha1.NodeFleet) {
	s := &r.state
	for name, node := range r.world.Nodes {
		n := r.view.Node(node, cluster.Node{Name: name, Class: class.Any})
		n.Flavor = node.Labels[corev1.LabelInstanceTypeStable]
		n.MicroDollarsPerHour = r.Config.price(node)
		n.Age = r.now.Sub(node.CreationTimestamp.Time)
		n.Kept = n.Kept || r.keeps(node, fleets) != ""
		if mark, ok := drain.MarkOf(node); ok && mark.Owner == drain.Descheduler {
			if len(n.Pods) == 0 {
				r.emptied = append(r.emptied, name)
			} else {
				r.draining = append(r.draining, name)
				n.Waits, n.Until = r.waits(name, mark), mark.Until.Sub(r.now)
			}
		}
		s.Nodes = append(s.Nodes, n)
	}
	slices.Sort(r.emptied)
	slices.Sort(r.draining)
	slices.SortFunc(s.Nodes, func(a, b cluster.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, w := range r.view.Waiting(class.Any) {
		if w.Held == "" && r.awaited(&w.Pod) {
			s.Pending = append(s.Pending, w.Pod)
		}
	}
	slices.SortFunc(s.Pending, func(a, b cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
	if slices.ContainsFunc(s.Pending, func(p cluster.Pod) bool { return p.Class == class.Batch }) {
		r.memory.busy = r.now
	}
	s.QueueEmpty = r.now.Sub(r.memory.busy)
	s.MaxNodes = len(s.Nodes)
	s.BillingPeriod = r.Config.BillingPeriod
	s.ScalingInterval, s.SchedulingInterval = r.Config.Interval, r.Config.Interval
	s.Migration = cluster.DefaultMigration
	s.Migration.BitsPerSecond = r.Config.Bandwidth
}

// awaited reports whether a pending pod would fit on one of the nodes if others left. A pod that
// fits on no node blocks nothing, however long it is pending.
func (r *round) awaited(p *cluster.Pod) bool {
	return slices.ContainsFunc(r.state.Nodes, func(n cluster.Node) bool { return p.Size.Fits(n.Capacity) && n.Suits(p) })
}

// waits reports whether the mover only waits for the remaining pods of a cordoned node.
func (r *round) waits(node string, mark drain.Mark) bool {
	for _, p := range r.world.Pods {
		if p.Spec.NodeName == node && !class.EveryNode(p) && !mark.WaitsFor(r.emptying.Leaver(p), r.now) {
			return false
		}
	}
	return true
}

// keeps returns why the mover never empties a node; "" if it may.
func (m *Mover) keeps(node *corev1.Node, fleets []v1alpha1.NodeFleet) string {
	if _, is := node.Labels[labelControlPlane]; is {
		return "it belongs to the control plane"
	}
	if !m.selector.Matches(labels.Set(node.Labels)) {
		return "--consolidation-node-selector does not match it"
	}
	if mark, ok := drain.MarkOf(node); ok && mark.Owner != drain.Descheduler {
		return "NodeFleet " + mark.Owner + " is draining it"
	}
	if fleet := node.Labels[v1alpha1.LabelFleet]; fleet != "" {
		return "it belongs to NodeFleet " + fleet
	}
	if node.Annotations[annotationMachine] == "" {
		return ""
	}
	at := slices.IndexFunc(fleets, func(f v1alpha1.NodeFleet) bool { return f.Spec.Provider.IsClusterAPI() })
	if at < 0 {
		return ""
	}
	return "NodeFleets manage the machines of cluster-api"
}

// price returns the price of a node in micro-dollars per hour, from its annotation or else from
// its CPU and memory.
func (c *Config) price(node *corev1.Node) int64 {
	if p, err := dollars.Parse(node.Annotations[v1alpha1.AnnotationPricePerHour]); err == nil {
		return p
	}
	capacity := node.Status.Capacity
	cpu, memory := float64(capacity.Cpu().MilliValue())/1000, float64(capacity.Memory().Value())/(1<<30)
	return int64(math.Round((cpu*c.CPUHour + memory*c.GiBHour) * 1e6))
}
