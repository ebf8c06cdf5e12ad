package sim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/manifests"
)

const (
	gi = int64(1) << 30
	s  = time.Second
	m  = time.Minute

	dollar = int64(1_000_000) // in micro-dollars
)

var (
	// medium costs one dollar per minute, wide two.
	medium = flavor("medium", 2000, 8*gi, 60*dollar)
	wide   = flavor("wide", 4000, 16*gi, 120*dollar)

	stock = []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
)

func flavor(name string, milliCPU, memory, price int64) scenario.Flavor {
	return scenario.Flavor{Speed: 1, Flavor: catalogue.Flavor{Flavor: cluster.Flavor{Name: name, Size: packing.Size{MilliCPU: milliCPU, MemoryBytes: memory}, MicroDollarsPerHour: price, Arch: "amd64", MaxPods: new(int64(110))}, MachineType: name}}
}

// nodes returns initial machines that accept both classes.
func nodes(flavor string, n int64) scenario.Nodes {
	return scenario.Nodes{Flavor: flavor, Count: n, Class: class.Any}
}

// scene returns a scenario of a second, after which only batch pods continue, with one medium
// machine and the times that the tests expect.
func scene(changes ...func(*scenario.Scenario)) *scenario.Scenario {
	sc := &scenario.Scenario{
		Name: "test", Horizon: s, SchedulingInterval: 20 * s, ScalingInterval: m, AcquisitionLag: scenario.Lag{Mean: 150 * s},
		BillingPeriod: m, BilledFrom: scenario.FromOrder, ReleaseLag: 5 * s,
		Migration: scenario.Migration{BitsPerSecond: 1_200_000_000, BytesPerMemory: 1, Fixed: 2 * s},
		Flavors:   []scenario.Flavor{medium, wide}, Nodes: []scenario.Nodes{nodes("medium", 1)},
		HomogeneousFlavor: "medium", Autoscale: true, MaxNodes: 10,
	}
	for _, change := range changes {
		change(sc)
	}
	return sc
}

func job(name string, memory int64, arrival, runtime time.Duration) scenario.Pod {
	return scenario.Pod{
		Pod: cluster.Pod{Item: packing.Item{Name: name, Size: packing.Size{MemoryBytes: memory, MilliCPU: 100}, Arrival: arrival, Runtime: runtime}, Class: class.Batch},
	}
}

func service(name string, memory int64, arrival, lifetime time.Duration) scenario.Pod {
	return scenario.Pod{
		Pod: cluster.Pod{Item: packing.Item{Name: name, Size: packing.Size{MemoryBytes: memory, MilliCPU: 100}, Arrival: arrival}, Class: class.Service}, Lifetime: lifetime,
	}
}

// fixed is a policy that never changes the machines.
func fixed(configuration []byte) sim.Policy {
	return sim.Policy{Name: "fixed", Scheduler: func(*scenario.Scenario) []byte { return configuration }}
}

// call is an observation of a controller.
type call struct {
	At    time.Duration
	State *cluster.State
}

// script is a controller that executes plans and records its observations.
type script struct {
	// plans are executed at those times.
	plans map[time.Duration]cluster.Plan
	// each, if not nil, is called instead.
	each func(at time.Duration, s *cluster.State) cluster.Plan
	// asks makes pods move only as they declare.
	asks     bool
	interval []call
}

func (c *script) Decide(now time.Time, st *cluster.State) cluster.Plan {
	at := now.Sub(sim.Epoch)
	c.interval = append(c.interval, call{at, st})
	if c.each != nil {
		return c.each(at, st)
	}
	plan := c.plans[at]
	for next := range c.plans {
		if wait := next - at; wait > 0 && (plan.Wake == 0 || wait < plan.Wake) {
			plan.Wake = wait
		}
	}
	return plan
}

// at returns the observation at a time.
func (c *script) at(t testing.TB, at time.Duration) *cluster.State {
	t.Helper()
	for _, l := range c.interval {
		if l.At == at {
			return l.State
		}
	}
	t.Fatalf("the controller was not asked at %v, but at %v", at, c.times())
	return nil
}

func (c *script) times() []time.Duration {
	var all []time.Duration
	for _, l := range c.interval {
		all = append(all, l.At)
	}
	return all
}

// policy returns a policy that packs by best fit and executes the script.
func (c *script) policy() sim.Policy {
	p := fixed(manifests.InOrderSchedulerConfig)
	p.Controller, p.Asks = func(*scenario.Scenario) sim.Controller { return c }, c.asks
	return p
}

// history is the complete result of a run.
type history struct {
	*sim.Result
	facts []sim.Fact
}

// simulate runs pods under a script.
func simulate(t testing.TB, sc *scenario.Scenario, c *script, pods ...scenario.Pod) history {
	t.Helper()
	h, err := try(t, sc, c, pods...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// try is simulate that may return an error. A run of more than 100,000 decisions is stopped.
func try(t testing.TB, sc *scenario.Scenario, c *script, pods ...scenario.Pod) (history, error) {
	t.Helper()
	p := c.policy()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	p.Controller = func(*scenario.Scenario) sim.Controller {
		return decider(func(now time.Time, st *cluster.State) cluster.Plan {
			if len(c.interval) == 100_000 {
				cancel(errors.New("the run does not end"))
			}
			return c.Decide(now, st)
		})
	}
	var h history
	var err error
	input := sim.Input{Scenario: sc, Pods: pods, Policy: p}
	h.Result, err = sim.Run(ctx, input.Watched(func(f sim.Fact) { h.facts = append(h.facts, f) }))
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return h, err
}

type decider func(now time.Time, st *cluster.State) cluster.Plan

func (d decider) Decide(now time.Time, st *cluster.State) cluster.Plan { return d(now, st) }

// run runs an input and fails the test on an error.
func run(t testing.TB, input sim.Input) *sim.Result {
	t.Helper()
	r, err := sim.Run(t.Context(), input)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// story returns the facts about one pod or machine, such as "20s started on medium-0".
func (h history) story(name string) []string {
	var lines []string
	for _, f := range h.facts {
		switch {
		case f.Pod == name && f.Node == "":
			lines = append(lines, fmt.Sprintf("%v %s", f.At, f.What))
		case f.Pod == name:
			lines = append(lines, fmt.Sprintf("%v %s: %s", f.At, f.What, f.Node))
		case f.Pod == "" && f.Node == name:
			lines = append(lines, fmt.Sprintf("%v %s", f.At, f.What))
		}
	}
	return lines
}

// expect checks the facts about a pod or machine.
func (h history) expect(t *testing.T, name string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, h.story(name)); diff != "" {
		t.Errorf("what became of %s (-want +got):\n%s", name, diff)
	}
}

func nodeOf(t testing.TB, st *cluster.State, name string) *cluster.Node {
	t.Helper()
	at := slices.IndexFunc(st.Nodes, func(n cluster.Node) bool { return n.Name == name })
	if at < 0 {
		t.Fatalf("the controller saw no node %s", name)
	}
	return &st.Nodes[at]
}

func podOf(t testing.TB, n *cluster.Node, name string) *cluster.Pod {
	t.Helper()
	at := slices.IndexFunc(n.Pods, func(p cluster.Pod) bool { return p.Name == name })
	if at < 0 {
		t.Fatalf("the controller saw no pod %s on %s", name, n.Name)
	}
	return &n.Pods[at]
}

// counts returns the numbers of pods by result in one line.
func (h history) counts() string {
	return fmt.Sprintf("submitted %d, scheduled %d, completed %d, pending %d, failed %d, migrations %d, evictions %d, lost %v",
		h.Submitted, h.Scheduled, h.Completed, h.Pending, h.Failed, h.Migrations, h.Evictions, h.LostWork)
}

func names(pods []cluster.Pod) []string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return all
}

// buy, release, migrate and evict return plans of one step.
func buy(flavors ...string) cluster.Plan {
	var plan cluster.Plan
	for _, f := range flavors {
		plan.Buy = append(plan.Buy, cluster.Purchase{Flavor: f, Class: class.Any})
	}
	return plan
}

func releaseOf(node string) cluster.Plan {
	return cluster.Plan{Release: []cluster.Release{{Node: node, Reason: "it is empty"}}}
}

func evict(node string) cluster.Plan {
	return cluster.Plan{Drains: []cluster.Drain{{Node: node, Method: cluster.Evict, Reason: "the script says so"}}}
}

// migrate moves pods, given in pairs with their targets.
func migrate(node string, moves ...string) cluster.Plan {
	d := cluster.Drain{Node: node, Reason: "the script says so"}
	for i := 0; i < len(moves); i += 2 {
		d.Moves = append(d.Moves, cluster.Move{Pod: moves[i], Target: moves[i+1]})
	}
	return cluster.Plan{Drains: []cluster.Drain{d}}
}

func replace(node, flavor string) cluster.Plan {
	return cluster.Plan{Drains: []cluster.Drain{{
		Node: node, Replacement: &cluster.Purchase{Flavor: flavor, Class: class.Any}, Reason: "the script says so",
	}}}
}

// near reports whether a is b up to a relative error of 1e-9.
func near(a, b float64) bool {
	d := a - b
	if d < 0 {
		d = -d
	}
	return d <= 1e-9*max(1, a, b) // not "> 1e-9": a NaN would pass
}

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // kube-scheduler logs how it reads its configuration
	os.Exit(m.Run())
}
