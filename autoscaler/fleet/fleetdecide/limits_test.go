package fleetdecide

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/purchase"
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
		if got := newPlanning(&s.Observation, s.m, s.c, midnight).budget(); got != tc.want {
			t.Errorf("%q of %d machines is %d, want %d", tc.text, tc.machines, got, tc.want)
		}
	}
}

func TestMachinesThatLeaveOrAreDrainedAreOnTheirWayOutAlready(t *testing.T) {
	s := newScene()
	s.drained("a", "small", minute)
	s.drained("b", "small", minute)
	s.Machines = append(s.Machines, Machine{Machine: provider.Machine{Name: "c", Flavor: "small", Leaving: true}})
	s.c.MaxUnavailable = intstr.FromInt32(5)
	r := newPlanning(&s.Observation, s.m, s.c, midnight)
	if got := r.budget(); got != 2 {
		t.Errorf("%d more may go, want 2", got)
	}
	r.uncordoned["b"] = true
	if got := r.budget(); got != 3 {
		t.Errorf("%d more may go once one is open again, want 3", got)
	}
}

// TestLimitsAreLessWhatIsPaidFor has two small machines, and a large one that is being released.
func TestLimitsAreLessWhatIsPaidFor(t *testing.T) {
	for name, tc := range map[string]struct {
		limits cluster.Limits
		want   cluster.Limits
	}{
		"none":              {cluster.Limits{}, cluster.Limits{}},
		"machines":          {cluster.Limits{Machines: new(int64(5))}, cluster.Limits{Machines: new(int64(2))}},
		"machines, reached": {cluster.Limits{Machines: new(int64(3))}, cluster.Limits{Machines: new(int64(0))}},
		"no machine":        {cluster.Limits{Machines: new(int64(0))}, cluster.Limits{Machines: new(int64(-3))}},
		"CPU":               {cluster.Limits{MilliCPU: new(int64(20))}, cluster.Limits{MilliCPU: new(int64(2))}},
		"CPU, exceeded":     {cluster.Limits{MilliCPU: new(int64(10))}, cluster.Limits{MilliCPU: new(int64(-8))}},
		"memory":            {cluster.Limits{MemoryBytes: new(int64(19))}, cluster.Limits{MemoryBytes: new(int64(1))}},
		"dollars":           {cluster.Limits{MicroDollarsPerHour: new(int64(160))}, cluster.Limits{MicroDollarsPerHour: new(int64(5))}},
		"dollars, reached":  {cluster.Limits{MicroDollarsPerHour: new(int64(155))}, cluster.Limits{MicroDollarsPerHour: new(int64(0))}},
	} {
		s := newScene()
		s.ready("a", "small")
		s.ready("b", "small")
		s.Machines = append(s.Machines, Machine{Machine: provider.Machine{Name: "c", Flavor: "large", Leaving: true}})
		s.c.Limits = tc.limits
		if diff := cmp.Diff(tc.want, newPlanning(&s.Observation, s.m, s.c, midnight).left()); diff != "" {
			t.Errorf("%s: left (-want +got):\n%s", name, diff)
		}
	}
}

// TestAPodForWhichTheQuotaLeavesNoMachineIsReported: the plan itself keeps to what may still be bought, so that the
// status names the cause.
func TestAPodForWhichTheQuotaLeavesNoMachineIsReported(t *testing.T) {
	s := newScene()
	s.Quota.Machines = new(int64(1))
	s.pending(job("p", 9, time.Hour), job("q", 9, time.Hour))
	left := s.round().Fleet.Plan.Unplaceable
	if len(left) != 1 || !left[0].Limited {
		t.Errorf("without a machine are %+v, want one pod, because of a limit", left)
	}
}

// TestNothingIsOrderedWhileAMachineThatLeavesTakesUpTheLimit checks the billed machines: a machine is billed until it
// is gone.
func TestNothingIsOrderedWhileAMachineThatLeavesTakesUpTheLimit(t *testing.T) {
	s := newScene()
	s.c.Limits.MicroDollarsPerHour = new(int64(100))
	s.Machines = append(s.Machines, Machine{Machine: provider.Machine{Name: "c", Flavor: "large", Leaving: true}})
	s.pending(job("p", 4, time.Hour))
	check(t, s.round())
	s.Machines = nil
	check(t, s.round(), "order small 0 to 1")
}

// ordering is a round with a plan.
func ordering(s *scene, flavors ...string) *planning {
	r := newPlanning(&s.Observation, s.m, s.c, midnight)
	for _, f := range flavors {
		r.actions.Fleet.Plan.Machines = append(r.actions.Fleet.Plan.Machines, purchase.Machine{Flavor: f})
	}
	r.order()
	return r
}

// TestOrdersKeepToLimitsInFull has plans that count machines without what DaemonSets use: whatever is planned, the
// existing and the ordered machines are within limits and quota.
func TestOrdersKeepToLimitsInFull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newScene()
		s.ready("a", "small")
		draw := func(name string, least, most int64) int64 { return rapid.Int64Range(least, most).Draw(t, name) }
		cpu, memory := draw("cpu", 0, 50), draw("memory", 0, 50)
		s.c.Limits = cluster.Limits{MilliCPU: &cpu, MemoryBytes: &memory}
		optional := func(name string, most int64) *int64 { return rapid.Ptr(rapid.Int64Range(0, most), true).Draw(t, name) }
		machines, sold := optional("machines", 6), optional("sold", 40)
		s.Quota = cluster.Limits{Machines: machines, MilliCPU: sold}
		var flavors []string
		for range rapid.IntRange(0, 8).Draw(t, "planned") {
			flavors = append(flavors, rapid.SampledFrom([]string{"small", "large"}).Draw(t, "flavor"))
		}
		count, size := 0, int64(0)
		for _, o := range ordering(s, flavors...).actions.Orders {
			n := o.To - o.From
			count += n
			size += int64(n) * s.flavor(o.Flavor).Size.MilliCPU
		}
		if count > 0 && (size+4 > cpu || size+4 > memory) {
			t.Fatalf("%d in the end, the limits are %d and %d", size+4, cpu, memory)
		}
		if machines != nil && int64(count) > *machines || sold != nil && size > *sold {
			t.Fatalf("%d machines of %d are ordered, the quota is %v and %v", count, size, machines, sold)
		}
		allows := cpu >= 8 && memory >= 8 && (machines == nil || *machines > 0) && (sold == nil || *sold >= 4)
		if len(flavors) > 0 && flavors[0] == "small" && count == 0 && allows {
			t.Fatal("nothing is ordered though the first machine is within the limits")
		}
	})
}

func TestALimitThatIsUsedUpIsNotTakenForNone(t *testing.T) {
	for name, limits := range map[string]cluster.Limits{
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

// TestAnExchangeIsMadeAsAWholeOrNotAtAll also checks that nothing else is omitted because of it.
func TestAnExchangeIsMadeAsAWholeOrNotAtAll(t *testing.T) {
	s := newScene()
	s.ready("a", "large")
	s.ready("b", "large")
	s.c.Limits.Machines = new(int64(3))
	r := newPlanning(&s.Observation, s.m, s.c, midnight)
	r.actions.Fleet.Exchange = &cluster.Exchange{Nodes: []string{"a"}, Buy: []cluster.Purchase{{Flavor: "small"}, {Flavor: "small"}}}
	r.actions.Fleet.Release = []cluster.Release{{Node: "b"}}
	r.order()
	r.cordon()
	check(t, r.actions, "cordon b")
}

func TestWhatIsUsedUpIsSaid(t *testing.T) {
	none, one := new(int64(0)), new(int64(1))
	for want, of := range map[string]struct{ left, quota cluster.Limits }{
		"": {left: cluster.Limits{Machines: one}, quota: cluster.Limits{MilliCPU: one}},
		"the limit spec.limits.machines is reached":             {left: cluster.Limits{Machines: new(int64(-1))}, quota: cluster.Limits{Machines: none}},
		"the limit spec.limits.cpu is reached":                  {left: cluster.Limits{MilliCPU: none}},
		"the limit spec.limits.memory is reached":               {left: cluster.Limits{MemoryBytes: none}},
		"the limit spec.limits.dollarsPerHour is reached":       {left: cluster.Limits{MicroDollarsPerHour: none}},
		"the limit of the cloud project on machines is reached": {quota: cluster.Limits{Machines: none, MilliCPU: one}},
		"the limit of the cloud project on CPUs is reached":     {quota: cluster.Limits{Machines: one, MilliCPU: none}},
		"the limit of the cloud project on memory is reached":   {quota: cluster.Limits{MemoryBytes: none}},
	} {
		if got := exhausted(of.left, of.quota); got != want {
			t.Errorf("%+v: %q, want %q", of, got, want)
		}
	}
}
