package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"

	"supercargo.dev/supercargo/cli/planfile"
	"supercargo.dev/supercargo/test/halfempty"
)

// conditions are what a run is under.
type conditions struct {
	budget    string        // of the NodePool
	lag, last time.Duration // from a machine's order to its node, and of the run
	processor bool          // the clock is that of the processor
}

// waiting is the clock of Karpenter, on which a wait is over at once: it puts the clock forward. Karpenter waits so for
// nothing but the validation of a command, 15 s after it is computed. Time limits that are deadlines of contexts are in
// the time of the computer, which is that of this clock while Karpenter computes, unless it is a processor clock.
type waiting struct {
	clock.RealClock
	*halfempty.Clock
}

// Now returns the time of the clock.
func (w waiting) Now() time.Time { return w.Clock.Now() }

// Since returns the time that has passed on the clock.
func (w waiting) Since(t time.Time) time.Duration { return w.Clock.Since(t) }

// After puts the clock forward and returns a channel that has the time.
func (w waiting) After(d time.Duration) <-chan time.Time {
	w.Advance(d)
	c := make(chan time.Time, 1)
	c <- w.Now()
	return c
}

// disruptionRun is Karpenter's disruption controller and its queue, unchanged, in a world.
//
// The conditions favor Karpenter: a pod that leaves its node is at once where the command has it, also if the node only
// leaves later; a node is deleted in no time, and so is its machine; what the API server and caches do takes no time. A
// machine takes lag from its order to its node, and both are paid in that time.
type disruptionRun struct {
	conditions
	cluster    *halfempty.Cluster
	world      *halfempty.World
	flavors    map[string]*halfempty.Flavor
	sold       map[string]planfile.Flavor
	pods       map[string]*corev1.Pod
	clock      waiting
	store      *store
	state      *state.Cluster
	queue      *disruption.Queue
	controller *disruption.Controller
	commands   map[*disruption.Command]bool // that are carried out
	arrivals   []arrival                    // in order
	figures    *halfempty.Figures
}

// arrival is a machine on its way, or for a command without one, the end of the command.
type arrival struct {
	at      time.Duration
	node    string
	command *disruption.Command
}

// disrupt runs Karpenter's disruption on a cluster.
func disrupt(ctx context.Context, c *halfempty.Cluster, under conditions) (*halfempty.Figures, error) {
	ctx = options.ToContext(ctx, &options.Options{
		CPURequests: 1000, BatchMaxDuration: 10 * time.Second, BatchIdleDuration: time.Second, PreferencePolicy: options.PreferencePolicyRespect,
		MinValuesPolicy: options.MinValuesPolicyStrict, IgnoreDRARequests: true, FeatureGates: options.DefaultFeatureGates(),
	})
	r, err := newRun(ctx, c, under)
	if err != nil {
		return nil, err
	}
	for r.clock.Elapsed() < under.last {
		if err := r.round(ctx); err != nil {
			return nil, fmt.Errorf("after %v: %w", r.clock.Elapsed(), err)
		}
	}
	r.figures.Timeouts = timeouts()
	r.figures.Sum(c, r.world, under.last)
	return r.figures, nil
}

func newRun(ctx context.Context, c *halfempty.Cluster, under conditions) (*disruptionRun, error) {
	r := &disruptionRun{
		conditions: under, cluster: c, flavors: map[string]*halfempty.Flavor{}, sold: map[string]planfile.Flavor{}, pods: map[string]*corev1.Pod{},
		clock: waiting{Clock: halfempty.NewClock(under.processor)}, store: newStore(newPool(under.budget)), commands: map[*disruption.Command]bool{},
		figures: &halfempty.Figures{Autoscaler: "karpenter", Budget: under.budget},
	}
	defer r.clock.Stop()()
	var err error
	if r.world, err = halfempty.NewWorld(c); err != nil {
		return nil, err
	}
	for i := range c.Flavors {
		r.flavors[c.Flavors[i].Name] = &c.Flavors[i]
	}
	flavors := sold(c)
	for _, f := range flavors {
		r.sold[f.Name] = f
	}
	provider := newCloud(flavors)
	recorder := events.NewRecorder(&record.FakeRecorder{})
	r.state = state.NewCluster(r.clock, r.store, provider)
	provisioner := provisioning.NewProvisioner(r.store, recorder, provider, r.state, r.clock, nil, nil)
	r.queue = disruption.NewQueue(r.store, recorder, r.state, r.clock, provisioner)
	r.controller = disruption.NewController(r.clock, r.store, provisioner, provider, recorder, r.state, r.queue, nil)
	return r, r.fill(ctx)
}

// fill makes the objects of the cluster.
func (r *disruptionRun) fill(ctx context.Context) error {
	now := r.clock.Now()
	for _, p := range r.cluster.Pods {
		pod := newPod(p, &r.cluster.Services[p.Service], now.Add(-3*time.Hour))
		r.pods[p.Name] = pod
		r.store.bind(pod, p.Node)
	}
	for i := range r.cluster.Nodes {
		n := &r.cluster.Nodes[i]
		f, made := r.flavors[n.Flavor], n.Made(now)
		if err := r.show(ctx, newNode(f, n.Name, made), newClaim(f, n.Name, made)); err != nil {
			return err
		}
	}
	return nil
}

// show stores a node and its claim, and tells Karpenter.
func (r *disruptionRun) show(ctx context.Context, n *corev1.Node, c *v1.NodeClaim) error {
	r.store.nodes[n.Name], r.store.claims[c.Name] = n, c
	r.state.UpdateNodeClaim(c.DeepCopy())
	return r.state.UpdateNode(ctx, n.DeepCopy())
}

// round lets Karpenter reconcile once, carries out what it did, and waits for the next time.
func (r *disruptionRun) round(ctx context.Context) error {
	began, wall, cpu := r.clock.Elapsed(), time.Now(), halfempty.Used()
	result, err := r.controller.Reconcile(ctx)
	d := halfempty.Decision{At: began.Seconds(), Seconds: time.Since(wall).Seconds(), CPUSeconds: (halfempty.Used() - cpu).Seconds()}
	if err != nil {
		return err
	}
	if err := r.start(ctx, &d); err != nil {
		return err
	}
	r.figures.Add(d)
	if err := r.arrive(ctx, r.clock.Elapsed()); err != nil {
		return err
	}
	next := r.clock.Elapsed() + result.RequeueAfter
	for len(r.arrivals) > 0 && r.arrivals[0].at <= next {
		r.clock.Advance(max(0, r.arrivals[0].at-r.clock.Elapsed()))
		if err := r.arrive(ctx, r.clock.Elapsed()); err != nil {
			return err
		}
	}
	r.clock.Advance(max(0, next-r.clock.Elapsed()))
	return nil
}

// start begins to carry out the commands that are new in the queue.
func (r *disruptionRun) start(ctx context.Context, d *halfempty.Decision) error {
	defer r.clock.Stop()()
	at := r.clock.Elapsed()
	nodes, claims := r.store.written()
	for _, c := range claims {
		r.state.UpdateNodeClaim(c)
	}
	for _, n := range nodes {
		if err := r.state.UpdateNode(ctx, n); err != nil {
			return fmt.Errorf("update node %s: %w", n.Name, err)
		}
	}
	for _, command := range r.queue.GetCommands() {
		if r.commands[command] {
			continue
		}
		r.commands[command] = true
		d.Removes, d.Buys = d.Removes+len(command.Candidates), d.Buys+len(command.Replacements)
		if err := r.moveToExisting(ctx, command); err != nil {
			return err
		}
		if err := r.order(command, at); err != nil {
			return err
		}
	}
	return nil
}

// moveToExisting moves the pods of the candidates that have room on other nodes.
func (r *disruptionRun) moveToExisting(ctx context.Context, c *disruption.Command) error {
	for _, n := range c.Results.ExistingNodes {
		for _, p := range n.Pods {
			if !slices.ContainsFunc(c.Candidates, func(c *disruption.Candidate) bool { return c.Name() == p.Spec.NodeName }) {
				continue // a pod of a node that another command removes
			}
			if err := r.move(ctx, p.Name, n.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// move moves a pod.
func (r *disruptionRun) move(ctx context.Context, pod, node string) error {
	if err := r.world.Evict(pod); err != nil {
		return err
	}
	if err := r.world.Bind(pod, node); err != nil {
		return err
	}
	r.store.bind(r.pods[pod], node)
	return r.state.UpdatePod(ctx, r.pods[pod].DeepCopy())
}

// order orders the replacements of a command.
func (r *disruptionRun) order(c *disruption.Command, at time.Duration) error {
	if len(c.Replacements) > 1 {
		return fmt.Errorf("a command has %d replacements, which Karpenter never has", len(c.Replacements))
	}
	if len(c.Replacements) == 0 {
		r.await(arrival{at: at, command: c})
		return nil
	}
	name := c.Replacements[0].Name
	f, _ := cheapest(c.Replacements[0].NodeClaim, r.sold)
	if f.Name == "" {
		return fmt.Errorf("no instance type is possible for claim %s: %v", name, c.Replacements[0].Requirements)
	}
	if err := r.world.Order(name, f.Name, at); err != nil {
		return err
	}
	claim := r.store.claims[name]
	launch(claim, r.flavors[f.Name])
	r.state.UpdateNodeClaim(claim.DeepCopy())
	r.await(arrival{at: at + r.lag, node: name, command: c})
	return nil
}

func (r *disruptionRun) await(a arrival) {
	r.arrivals = append(r.arrivals, a)
	slices.SortStableFunc(r.arrivals, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
}

// arrive lets the machines join that have arrived until a time, and ends their commands.
func (r *disruptionRun) arrive(ctx context.Context, until time.Duration) error {
	defer r.clock.Stop()()
	for len(r.arrivals) > 0 && r.arrivals[0].at <= until {
		a := r.arrivals[0]
		r.arrivals = r.arrivals[1:]
		if err := r.join(ctx, a); err != nil {
			return err
		}
		if err := r.end(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// join makes the node of an arrival, if there is one, and moves to it the pods that are left on the candidates.
func (r *disruptionRun) join(ctx context.Context, a arrival) error {
	if a.node == "" {
		return nil
	}
	claim := r.store.claims[a.node]
	initialize(claim)
	flavor := r.flavors[claim.Labels[corev1.LabelInstanceTypeStable]]
	if err := r.show(ctx, newNode(flavor, a.node, r.clock.Now()), claim); err != nil {
		return err
	}
	if err := r.world.Join(a.node); err != nil {
		return err
	}
	for _, c := range a.command.Candidates {
		for _, pod := range r.world.On(c.Name()) {
			if err := r.move(ctx, pod, a.node); err != nil {
				return err
			}
		}
	}
	return nil
}

// end lets Karpenter's queue end a command: it deletes the claims of the candidates, whose machines are then gone.
func (r *disruptionRun) end(ctx context.Context, a arrival) error {
	if _, err := r.queue.Reconcile(ctx, a.command.Candidates[0].NodeClaim); err != nil {
		return err
	}
	if !a.command.Succeeded {
		return fmt.Errorf("command %s has not ended", a.command)
	}
	for _, c := range a.command.Candidates {
		node, claim := c.Name(), c.NodeClaim.Name
		if !r.store.deleted[claim] {
			return fmt.Errorf("the claim of node %s is not deleted", node)
		}
		if err := r.world.Remove(node, a.at); err != nil {
			return err
		}
		r.store.forget(node, claim)
		r.state.DeleteNode(node)
		r.state.DeleteNodeClaim(claim)
	}
	delete(r.commands, a.command)
	return nil
}

// timeouts returns how often a search of Karpenter has been ended by its time limit in this process.
func timeouts() int {
	families, err := metrics.Registry.Gather()
	if err != nil {
		return -1
	}
	var n float64
	for _, f := range families {
		if f.GetName() != "karpenter_voluntary_disruption_consolidation_timeouts_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			n += m.GetCounter().GetValue()
		}
	}
	return int(math.Round(n))
}
