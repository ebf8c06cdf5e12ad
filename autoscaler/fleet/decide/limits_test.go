package decide

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/internal/cluster"
)

func TestHowManyMachinesMayBeOnTheirWayOut(t *testing.T) {
	for _, tc := range []struct {
		text     string
		machines int
		want     int
	}{
		{"0", 10, 0}, {"3", 10, 3}, {"3", 1, 3}, {"0%", 10, 0}, {"10%", 0, 0}, {"10%", 1, 1}, {"10%", 10, 1}, {"10%", 11, 2}, {"33%", 3, 1}, {"34%", 3, 2},
		{"100%", 7, 7}, {"1%", 1000, 10}, {"", 10, 0}, {"many", 10, 0}, {"%", 10, 0},
	} {
		s := newScene()
		s.c.MaxUnavailable = intstr.Parse(tc.text)
		s.flavor("small").Ordered = tc.machines
		if got := newRound(&s.Observation, s.m, s.c, midnight).budget(); got != tc.want {
			t.Errorf("%q of %d machines is %d, want %d", tc.text, tc.machines, got, tc.want)
		}
	}
}

func TestMachinesThatLeaveOrAreDrainedAreOnTheirWayOutAlready(t *testing.T) {
	s := newScene()
	s.drained("a", "small", minute)
	s.drained("b", "small", minute)
	s.Machines = append(s.Machines, Machine{Name: "c", Flavor: "small", Leaving: true})
	s.c.MaxUnavailable = intstr.FromInt32(5)
	r := newRound(&s.Observation, s.m, s.c, midnight)
	if got := r.budget(); got != 2 {
		t.Errorf("%d more may go, want 2", got)
	}
	r.uncordoned["b"] = true
	if got := r.budget(); got != 3 {
		t.Errorf("%d more may go once one is open again, want 3", got)
	}
}

func TestWhatIsLeftOfALimitIsNeverTakenForNoLimit(t *testing.T) {
	for _, tc := range []struct{ limit, used, want int64 }{{0, 0, -1}, {5, 0, 5}, {5, 4, 1}, {5, 5, -1}, {5, 6, -1}, {math.MaxInt64, 1, math.MaxInt64 - 1}} {
		if got := leftOf(&tc.limit, tc.used); got != tc.want {
			t.Errorf("of %d with %d used %d is left, want %d", tc.limit, tc.used, got, tc.want)
		}
	}
	if got := leftOf(nil, 7); got != 0 {
		t.Errorf("without a limit %d is left, want 0", got)
	}
}

// TestLimitsAreLessWhatIsPaidFor has two small machines, and a large one that has been asked
// to go.
func TestLimitsAreLessWhatIsPaidFor(t *testing.T) {
	for name, tc := range map[string]struct {
		limits Limits
		want   planner.Limits
	}{
		"none":              {Limits{}, planner.Limits{}},
		"machines":          {Limits{Machines: new(int64(5))}, planner.Limits{Machines: 2}},
		"machines, reached": {Limits{Machines: new(int64(3))}, planner.Limits{Machines: -1}},
		"no machine":        {Limits{Machines: new(int64(0))}, planner.Limits{Machines: -1}},
		"CPU":               {Limits{MilliCPU: new(int64(20))}, planner.Limits{MilliCPU: 2}},
		"CPU, exceeded":     {Limits{MilliCPU: new(int64(10))}, planner.Limits{MilliCPU: -1}},
		"memory":            {Limits{MemoryBytes: new(int64(19))}, planner.Limits{MemoryBytes: 1}},
		"dollars":           {Limits{MicroDollarsPerHour: new(int64(160))}, planner.Limits{MicroDollarsPerHour: 5}},
		"dollars, reached":  {Limits{MicroDollarsPerHour: new(int64(155))}, planner.Limits{MicroDollarsPerHour: -1}},
	} {
		s := newScene()
		s.ready("a", "small")
		s.ready("b", "small")
		s.Machines = append(s.Machines, Machine{Name: "c", Flavor: "large", Leaving: true})
		s.c.Limits = tc.limits
		if diff := cmp.Diff(tc.want, newRound(&s.Observation, s.m, s.c, midnight).left()); diff != "" {
			t.Errorf("%s: left (-want +got):\n%s", name, diff)
		}
	}
}

// TestNothingIsOrderedWhileAMachineThatLeavesTakesUpTheLimit is what the bill is about: it is
// paid for until it has gone.
func TestNothingIsOrderedWhileAMachineThatLeavesTakesUpTheLimit(t *testing.T) {
	s := newScene()
	s.c.Limits.MicroDollarsPerHour = new(int64(100))
	s.Machines = append(s.Machines, Machine{Name: "c", Flavor: "large", Leaving: true})
	s.pending(job("p", 4, time.Hour))
	check(t, s.round())
	s.Machines = nil
	check(t, s.round(), "order small 0 to 1")
}

// ordering is a round with a plan.
func ordering(s *scene, flavors ...string) *round {
	r := newRound(&s.Observation, s.m, s.c, midnight)
	for _, f := range flavors {
		r.actions.Fleet.Plan.Machines = append(r.actions.Fleet.Plan.Machines, planner.Machine{Flavor: f})
	}
	r.order()
	return r
}

// TestOrdersKeepToLimitsInFull has plans that count without what DaemonSets take of a
// machine: whatever is planned, what there is and what is ordered keep to limits and quota.
func TestOrdersKeepToLimitsInFull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newScene()
		s.ready("a", "small")
		draw := func(name string, least, most int64) int64 { return rapid.Int64Range(least, most).Draw(t, name) }
		cpu, memory := draw("cpu", 0, 50), draw("memory", 0, 50)
		s.c.Limits = Limits{MilliCPU: &cpu, MemoryBytes: &memory}
		quota := Quota{Machines: int(draw("machines", -1, 6)), MilliCPU: draw("sold", -1, 40), MemoryBytes: -1}
		s.Quota = &quota
		var flavors []string
		for range rapid.IntRange(0, 8).Draw(t, "planned") {
			flavors = append(flavors, rapid.SampledFrom([]string{"small", "large"}).Draw(t, "flavor"))
		}
		before := quota
		count, size := 0, int64(0)
		for _, o := range ordering(s, flavors...).actions.Orders {
			n := o.To - o.From
			count += n
			size += int64(n) * s.flavor(o.Flavor).Size.MilliCPU
		}
		if count > 0 && (size+4 > cpu || size+4 > memory) {
			t.Fatalf("%d in the end, the limits are %d and %d", size+4, cpu, memory)
		}
		if before.Machines >= 0 && count > before.Machines || before.MilliCPU >= 0 && size > before.MilliCPU {
			t.Fatalf("%d machines of %d are ordered, the quota is %+v", count, size, before)
		}
		if quota != before {
			t.Fatal("the quota was modified")
		}
		allows := cpu >= 8 && memory >= 8 && before.Machines != 0 && (before.MilliCPU < 0 || before.MilliCPU >= 4)
		if len(flavors) > 0 && flavors[0] == "small" && count == 0 && allows {
			t.Fatal("nothing is ordered though the first machine is within the limits")
		}
	})
}

func TestALimitThatIsUsedUpIsNotTakenForNone(t *testing.T) {
	for name, limits := range map[string]Limits{
		"machines": {Machines: new(int64(1))}, "CPU": {MilliCPU: new(int64(4))}, "memory": {MemoryBytes: new(int64(4))}, "dollars": {MicroDollarsPerHour: new(int64(40))},
	} {
		s := newScene()
		s.c.Limits = limits
		if got := ordering(s, "small", "small", "small").actions.Orders; len(got) != 1 || got[0].To-got[0].From != 1 {
			t.Errorf("%s is enough for one, and ordered are %+v", name, got)
		}
	}
}

func TestNoMoreFlavorsAreOrderedThanARoundMayChange(t *testing.T) {
	s := newScene()
	s.c.MaxFlavors = 1
	if diff := cmp.Diff([]Order{{"small", 0, 2}}, ordering(s, "small", "large", "small").actions.Orders); diff != "" {
		t.Errorf("orders (-want +got):\n%s", diff)
	}
}

// TestAnExchangeIsMadeAsAWholeOrNotAtAll also says that nothing else is left undone for it.
func TestAnExchangeIsMadeAsAWholeOrNotAtAll(t *testing.T) {
	s := newScene()
	s.ready("a", "large")
	s.ready("b", "large")
	s.c.Limits.Machines = new(int64(3))
	r := newRound(&s.Observation, s.m, s.c, midnight)
	r.actions.Fleet.Exchange = &cluster.Exchange{Nodes: []string{"a"}, Buy: []cluster.Purchase{{Flavor: "small"}, {Flavor: "small"}}}
	r.actions.Fleet.Release = []cluster.Release{{Node: "b"}}
	r.order()
	r.cordon()
	check(t, r.actions, "cordon b")
}

func TestWhatIsUsedUpIsSaid(t *testing.T) {
	for want, left := range map[string]planner.Limits{
		"": {},
		"the limit spec.limits.machines is reached":       {Machines: -1},
		"the limit spec.limits.cpu is reached":            {MilliCPU: -1},
		"the limit spec.limits.memory is reached":         {MemoryBytes: -1},
		"the limit spec.limits.dollarsPerHour is reached": {MicroDollarsPerHour: -1},
	} {
		if got := exhausted(left); got != want {
			t.Errorf("%+v: %q, want %q", left, got, want)
		}
	}
	for want, quota := range map[string]*Quota{
		"": {Machines: -1, MilliCPU: -1, MemoryBytes: -1}, "the limit of the cloud project on machines is reached": {MilliCPU: -1, MemoryBytes: -1},
		"the limit of the cloud project on CPUs is reached": {Machines: 1, MemoryBytes: -1}, "the limit of the cloud project on memory is reached": {Machines: 1, MilliCPU: 1},
	} {
		if got := quota.exhausted(); got != want {
			t.Errorf("%+v: %q, want %q", quota, got, want)
		}
	}
}

func TestAQuotaLowersLimits(t *testing.T) {
	for _, tc := range []struct{ limit, quota, want int64 }{{0, -1, 0}, {5, -1, 5}, {-1, -1, -1}, {0, 0, -1}, {5, 0, -1}, {0, 3, 3}, {5, 3, 3}, {3, 5, 3}, {-1, 5, -1}} {
		if got := lower(tc.limit, tc.quota); got != tc.want {
			t.Errorf("limit %d under quota %d is %d, want %d", tc.limit, tc.quota, got, tc.want)
		}
	}
}
