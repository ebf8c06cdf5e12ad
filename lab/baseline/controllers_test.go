package baseline

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

const (
	gi = int64(1) << 30
	m  = time.Minute
)

var times = &scenario.Scenario{HomogeneousFlavor: "medium", ScalingInterval: 5 * m, SchedulingInterval: 20 * time.Second, BillingPeriod: m}

// stateAt returns a cluster of medium machines, each with the given pods.
func stateAt(at time.Duration, nodes map[string][]cluster.Pod, pending ...cluster.Pod) *cluster.State {
	s := &cluster.State{
		Flavors: []cluster.Flavor{
			{Name: "medium", Size: packing.Size{MilliCPU: 2000, MemoryBytes: 8 * gi}, MaxPods: new(int64(110)), Arch: "amd64", MicroDollarsPerHour: 137_100},
			{Name: "small", Size: packing.Size{MilliCPU: 1000, MemoryBytes: 2 * gi}, MaxPods: new(int64(110)), Arch: "amd64", MicroDollarsPerHour: 34_400},
		},
		Pending: pending, MaxNodes: 10, Lag: 150 * time.Second, Release: 5 * time.Second, BillingPeriod: m,
		Migration:       cluster.Migration{BitsPerSecond: 1_200_000_000, BytesPerMemory: 1, Fixed: 2 * time.Second},
		ScalingInterval: 5 * m, SchedulingInterval: 20 * time.Second, Scaling: at%(5*m) == 0, QueueEmpty: at, Observed: min(at, 450*time.Second),
	}
	for name, pods := range nodes {
		s.Nodes = append(s.Nodes, cluster.Node{
			Name: name, Flavor: "medium", Class: class.Any, Capacity: s.Flavors[0].Size, MaxPods: new(int64(110)), Arch: "amd64",
			MicroDollarsPerHour: 137_100, Phase: cluster.Ready, Age: at, Pods: pods,
		})
	}
	slices.SortFunc(s.Nodes, func(a, b cluster.Node) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

func pod(name string, milliCPU, memory int64, c class.Class) cluster.Pod {
	p := cluster.Pod{Item: packing.Item{Name: name, Size: packing.Size{MilliCPU: milliCPU, MemoryBytes: memory}}, Class: c}
	if c == class.Batch {
		p.Runtime = 20 * m
	}
	return p
}

// told returns a plan in short form.
func told(p cluster.Plan) string {
	text := ""
	for _, b := range p.Buy {
		text += fmt.Sprintf("buy %s for %s; ", b.Flavor, b.Class)
	}
	for _, d := range p.Drains {
		how := "migrate"
		if d.Method == cluster.Evict {
			how = "evict"
		}
		if d.Replacement != nil {
			how = "replace by " + d.Replacement.Flavor
		}
		text += fmt.Sprintf("%s %s; ", how, d.Node)
	}
	for _, r := range p.Release {
		text += "release " + r.Node + "; "
	}
	return text
}

// step is what a controller observes at a time, and the expected plan.
type step struct {
	at      time.Duration
	nodes   map[string][]cluster.Pod
	pending []cluster.Pod
	want    string
}

func play(t *testing.T, c sim.Controller, steps []step) {
	t.Helper()
	for _, s := range steps {
		if got := told(c.Decide(sim.Epoch.Add(s.at), stateAt(s.at, s.nodes, s.pending...))); got != s.want {
			t.Errorf("at %v it decides %q, want %q", s.at, got, s.want)
		}
	}
}

func TestClusterAutoscalerWaitsTenMinutes(t *testing.T) {
	t.Parallel()
	full, half := pod("full", 1500, 6*gi, class.Batch), pod("half", 900, gi, class.Batch)
	little := pod("little", 100, gi, class.Service)
	waits := pod("waits", 500, gi, class.Batch)
	spread := map[string][]cluster.Pod{"a": {full}, "b": {little}}
	tests := []struct {
		name  string
		steps []step
	}{
		{"an under-used node goes after ten minutes, by eviction, services too", []step{
			{0, spread, nil, ""}, {5 * m, spread, nil, ""}, {10 * m, spread, nil, "evict b; "},
		}},
		{"time in use starts the ten minutes again", []step{
			{0, spread, nil, ""}, {5 * m, map[string][]cluster.Pod{"a": {full}, "b": {full}}, nil, ""}, {10 * m, spread, nil, ""},
			{15 * m, spread, nil, ""}, {20 * m, spread, nil, "evict b; "},
		}},
		{"the greater share counts", []step{ // 55 % of the memory, 5 % of the CPU
			{0, map[string][]cluster.Pod{"a": {half}, "b": {pod("p", 100, 4*gi+gi/2, class.Batch)}}, nil, ""},
			{10 * m, map[string][]cluster.Pod{"a": {half}, "b": {pod("p", 100, 4*gi+gi/2, class.Batch)}}, nil, "evict a; "},
		}},
		{"one node with pods a round, and all that are empty", []step{
			{0, map[string][]cluster.Pod{"a": {full}, "b": {little}, "c": {pod("l2", 100, gi, class.Batch)}, "d": nil, "e": nil}, nil, ""},
			{10 * m, map[string][]cluster.Pod{"a": {full}, "b": {little}, "c": {pod("l2", 100, gi, class.Batch)}, "d": nil, "e": nil}, nil, "evict b; release d; release e; "},
		}},
		{"one machine a round while pods wait, and nothing goes", []step{
			{0, spread, nil, ""}, {5 * m, spread, nil, ""}, {10 * m, spread, []cluster.Pod{waits, pod("big", 2000, 8*gi, class.Batch)}, "buy medium for any; "},
		}},
		{"nothing goes within ten minutes of a purchase", []step{
			{0, spread, []cluster.Pod{waits}, "buy medium for any; "}, {5 * m, spread, nil, ""}, {10 * m, spread, nil, "evict b; "},
		}},
		{"not even what is empty", []step{
			{0, map[string][]cluster.Pod{"a": nil}, nil, ""}, {5 * m, map[string][]cluster.Pod{"a": nil}, []cluster.Pod{waits}, "buy medium for any; "},
			{10 * m, map[string][]cluster.Pod{"a": nil}, nil, ""}, {15 * m, map[string][]cluster.Pod{"a": nil}, nil, "release a; "},
		}},
		{"pods that wait without end do not hold it back", []step{
			{0, spread, []cluster.Pod{pod("huge", 1, 9*gi, class.Batch)}, ""}, {10 * m, spread, []cluster.Pod{pod("huge", 1, 9*gi, class.Batch)}, "evict b; "},
		}},
		{"between rounds it does nothing", []step{
			{0, spread, nil, ""}, {11 * m, spread, []cluster.Pod{waits}, ""},
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) { play(t, ClusterAutoscaler(times), tc.steps) })
	}
}

func TestBaselinesAskToBeAskedAtTheNextRound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]sim.Controller{"default": ClusterAutoscaler(times), "coca": COCA(times)} {
		for at, want := range map[time.Duration]time.Duration{0: 5 * m, 5 * m: 5 * m, 6 * m: 4 * m, 599 * time.Second: time.Second} {
			if got := c.Decide(sim.Epoch.Add(at), stateAt(at, nil)).Wake; got != want {
				t.Errorf("%s at %v wants to be asked after %v, want %v", name, at, got, want)
			}
		}
	}
}

func TestCocaCompactsInEveryRoundInWhichNothingWaits(t *testing.T) {
	t.Parallel()
	full, little, other := pod("full", 1200, 5*gi, class.Batch), pod("little", 100, gi, class.Service), pod("other", 100, gi, class.Batch)
	nodes := map[string][]cluster.Pod{"a": {full}, "b": {little}, "c": {other}, "d": nil}
	play(t, COCA(times), []step{
		{0, nodes, nil, "evict b; evict c; release d; "},
		{5 * m, nodes, []cluster.Pod{pod("huge", 1, 9*gi, class.Service)}, ""},
		{10 * m, nodes, []cluster.Pod{pod("waits", 1, gi, class.Batch)}, "buy medium for any; "},
		{15 * m, nodes, nil, "evict b; evict c; release d; "}, // at once after a purchase
		{16 * m, nodes, nil, ""},
	})
}

func TestStratusAndHTASMoveBatchPodsWhenTheQueueHasBeenEmpty(t *testing.T) {
	t.Parallel()
	full, little := pod("full", 1200, 5*gi, class.Batch), pod("little", 100, gi, class.Batch)
	nodes := map[string][]cluster.Pod{"a": {full}, "b": {little}}
	for name, c := range map[string]sim.Controller{"stratus": Stratus(times), "htas": HTAS(times)} {
		t.Run(name, func(t *testing.T) {
			play(t, c, []step{
				{4 * m, nodes, nil, ""}, // the queue has been empty for four minutes
				{4*m + 20*time.Second, map[string][]cluster.Pod{"a": {full}, "b": {full}}, nil, ""},
				{5*m + 20*time.Second, nodes, nil, ""}, // it has for five, but the machine was in use until now
				{6 * m, nodes, nil, ""},
				{6*m + 20*time.Second, nodes, nil, "migrate b; "},
			})
		})
	}
	service := map[string][]cluster.Pod{"a": {pod("full", 1950, 7*gi, class.Batch)}, "b": {pod("web", 100, gi, class.Service)}}
	for name, c := range map[string]sim.Controller{"stratus": Stratus(times), "htas": HTAS(times)} {
		play(t, c, []step{{10 * m, service, nil, ""}, {12 * m, service, nil, ""}})
		if t.Failed() {
			t.Fatalf("%s moves a service", name)
		}
	}
}

func TestStratusAloneReplacesMachinesByCheaperOnes(t *testing.T) {
	t.Parallel()
	nodes := map[string][]cluster.Pod{"a": {pod("little", 100, gi, class.Batch)}}
	play(t, Stratus(times), []step{{10 * m, nodes, nil, ""}, {11 * m, nodes, nil, "replace by small a; "}})
	play(t, HTAS(times), []step{{10 * m, nodes, nil, ""}, {11 * m, nodes, nil, ""}})
}

func TestReplacementsKeepWithinTheLimit(t *testing.T) {
	t.Parallel()
	replacement := &cluster.Purchase{Flavor: "small"}
	plan := cluster.Plan{
		Buy:    make([]cluster.Purchase, 2),
		Drains: []cluster.Drain{{Node: "a"}, {Node: "b", Replacement: replacement}, {Node: "c", Replacement: replacement}, {Node: "d"}},
	}
	for limit, want := range map[int]string{8: "a b c d ", 7: "a b d ", 6: "a d "} {
		p := plan
		p.Drains = slices.Clone(plan.Drains)
		got := ""
		for _, d := range limited(p, &cluster.State{MaxNodes: limit, Nodes: make([]cluster.Node, 4)}).Drains {
			got += d.Node + " "
		}
		if got != want {
			t.Errorf("with at most %d machines, 4 there and 2 bought, drains are %s, want %s", limit, got, want)
		}
	}
}

func TestHTASBuysForEachClassApart(t *testing.T) {
	t.Parallel()
	pending := []cluster.Pod{pod("job", 500, gi, class.Batch), pod("web", 500, gi, class.Service)}
	play(t, HTAS(times), []step{{10 * m, nil, pending, "buy small for service; buy small for batch; "}, {11 * m, nil, pending, ""}})
	play(t, Stratus(times), []step{{10 * m, nil, pending, "buy small for any; "}, {11 * m, nil, pending, ""}})
}
