package fleetdecide

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/disruption"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/test/fixtures/states"
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

// TestWhateverIsObservedFewMoreMachinesAreOnOrderThanThePodsNeed has pods that divide a machine of four evenly, so that
// pods of a total of n need n/4 machines, rounded up, and pods that take equally long, so that it is cheapest to fill
// machines. They have waited for any time, and any pods have come before, so that any pods are expected within any
// start-up time.
func TestWhateverIsObservedFewMoreMachinesAreOnOrderThanThePodsNeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newScene()
		s.Flavors, s.State.Flavors = s.Flavors[1:], s.State.Flavors[1:]
		within := func(most time.Duration, name string) time.Duration {
			return time.Duration(rapid.IntRange(0, int(most/time.Second)).Draw(t, name)) * time.Second
		}
		f := s.flavor("small")
		f.JoinTimeout = 2 * time.Hour
		f.Lag, f.Learned = within(time.Hour, "lag"), rapid.Bool().Draw(t, "learned")
		ordered := rapid.IntRange(0, 12).Draw(t, "ordered")
		for i := range ordered {
			s.machine(fmt.Sprintf("m%02d", i), "small", within(90*minute, "age"))
		}
		s.m.decided, s.m.nominations.times = map[string]time.Time{}, map[string]int{}
		total, runtime, services := int64(0), minute+within(time.Hour, "runtime"), rapid.IntRange(0, 3).Draw(t, "class") == 0
		largest := rapid.IntRange(0, 2).Draw(t, "largest")
		for i := range rapid.IntRange(0, 24).Draw(t, "pods") {
			p := ago(job(fmt.Sprintf("p%02d", i), 1<<rapid.IntRange(0, largest).Draw(t, "size"), runtime), within(2*time.Hour, "waited"))
			if services {
				p = ago(service(p.Name, p.Size.MilliCPU), p.Waited)
			}
			total += p.Size.MilliCPU
			s.pending(p)
			s.m.decided[p.Name] = midnight.Add(-within(2*time.Hour, "decided"))
			s.m.nominations.times[p.Name] = rapid.IntRange(0, 3).Draw(t, "orders")
		}
		s.State.Observed = time.Hour
		for i := range rapid.IntRange(0, 3).Draw(t, "kinds") {
			amount := rapid.Int64Range(1, 4).Draw(t, "amount")
			for j := range 10 * rapid.IntRange(0, 6).Draw(t, "tens") {
				s.State.Recent = append(s.State.Recent, ago(job(fmt.Sprintf("r%d-%02d", i, j), amount, runtime), within(f.Lag, "came")))
			}
		}
		slices.SortFunc(s.State.Recent, func(a, b cluster.Pod) int { return int(a.Waited - b.Waited) })
		bought := 0
		a := s.round()
		for _, o := range a.Orders {
			bought += o.To - o.From
		}
		needed := int(total+3) / 4
		if most := needed + max(2, needed/2); bought > 0 && ordered+bought > most {
			t.Fatalf("%d machines are on order and %d more are bought for pods that need %d: %v", ordered, bought, needed, planned(&a.Fleet.Plan.Plan))
		}
	})
}

// TestHowManyMachinesMayBeOnOrder has bounds computed by hand. The plan for the state has one machine for each of the pods.
func TestHowManyMachinesMayBeOnOrder(t *testing.T) {
	bins := func(n int, change ...func(*cluster.Node)) (all []cluster.Node) {
		for i := range n {
			m := due(minute, node(fmt.Sprintf("m%02d", i)))
			m.Flavor, m.Capacity, m.MicroDollarsPerHour = "small", size(4, 4), 40
			for _, f := range change {
				f(&m)
			}
			all = append(all, m)
		}
		return all
	}
	jobs := func(n int, amount int64) (all []cluster.Pod) {
		for i := range n {
			all = append(all, job(fmt.Sprintf("p%02d", i), amount, time.Hour))
		}
		return all
	}
	arm := func(n *cluster.Node) { n.Arch = "arm64" }
	amd := func(all []cluster.Pod) []cluster.Pod {
		for i := range all {
			all[i].Arch = "amd64"
		}
		return all
	}
	tests := []struct {
		name    string
		pods    []cluster.Pod
		ordered []cluster.Node
		least   int
		planned int // machines of size four
		want    int
	}{
		{"nothing is on order", jobs(4, 4), nil, 0, 9, 9},
		{"the pods need those that are on order, and two more may be", jobs(3, 4), bins(3), 0, 3, 2},
		{"of many, half as many more may be", jobs(10, 4), bins(10), 0, 10, 5},
		{"an odd half is rounded down", jobs(7, 4), bins(7), 0, 7, 3},
		{"fewer would be enough", jobs(4, 1), bins(3), 0, 1, 0},
		{"fewer than three are always allowed", jobs(1, 4), bins(2), 0, 1, 1},
		{"pods that need more than is on order get it", jobs(10, 4), bins(2), 0, 8, 8},
		{"more than enough is on order", jobs(2, 4), bins(9), 0, 2, 0},
		{"what is on order holds none of them", amd(jobs(3, 4)), bins(9, arm), 0, 3, 3},
		{"it is too small", jobs(3, 4), bins(9, func(n *cluster.Node) { n.Capacity = size(3, 4) }), 0, 3, 3},
		{"it is another fleet's", jobs(3, 4), bins(9, func(n *cluster.Node) { n.Kept = true }), 0, 3, 3},
		{"it has come", jobs(3, 4), bins(9, func(n *cluster.Node) { n.Phase = cluster.Ready }), 0, 3, 3},
		{"there must be as many", jobs(3, 4), bins(9), 9, 3, 3},
		{"there must be some", jobs(3, 4), bins(9), 5, 3, 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := quiet(tc.pods, tc.ordered...)
			s.Flavors = []cluster.Flavor{small}
			o := all()
			o.Least = map[string]int{"small": tc.least}
			var d FleetDecision
			var asking []purchase.Pod
			for i := range tc.planned {
				p := purchase.PodOf(&tc.pods[i%len(tc.pods)])
				asking = append(asking, p)
				d.Plan.Machines = append(d.Plan.Machines, purchase.Machine{Flavor: "small", Name: fmt.Sprint("small-", i), Pods: []string{p.Name}, MicroDollarsPerHour: 40})
				d.Plan.MicroDollarsPerHour += 40
			}
			d.Asked = tc.planned
			d.withhold(newBound(s, o, s.Flavors, nil, midnight), asking, s.Flavors)
			if got := len(d.Plan.Machines); got != tc.want || d.Plan.MicroDollarsPerHour != int64(40*got) {
				t.Errorf("%d machines are bought for %d, want %d: %+v", got, d.Plan.MicroDollarsPerHour, tc.want, d.Withheld)
			}
			if w := d.Withheld; (w != nil) != (tc.want < tc.planned) || w != nil && (w.Machines != tc.planned-tc.want || len(w.Pods) != w.Machines || d.Asked != tc.want) {
				t.Errorf("withheld are %+v, and %d pods are asked for", w, d.Asked)
			}
		})
	}
}

// TestSeveralSmallMachinesMayBeOnOrderWhereOneLargeOneWouldBeEnough has pods that came one after another, of which
// each got a small machine. All of them would fit on a large one, which costs nearly as much as two.
func TestSeveralSmallMachinesMayBeOnOrderWhereOneLargeOneWouldBeEnough(t *testing.T) {
	for _, tc := range []struct {
		ordered need
		want    bool
	}{
		{need{3, 120}, true}, // two more than one
		{need{4, 112}, true}, // at one and a half times the price
		{need{4, 113}, false},
		{need{100, 100}, true},
	} {
		if got := (need{1, 75}).allows(tc.ordered); got != tc.want {
			t.Errorf("%+v: allowed %t, want %t", tc.ordered, got, tc.want)
		}
	}
	free := need{}
	for range 100 {
		free.add(0)
	}
	if (need{1, 1}).allows(free) {
		t.Error("any number of free machines is allowed")
	}
}

// TestTheMachinesForMostPodsAreBought has room for two more of three machines.
func TestTheMachinesForMostPodsAreBought(t *testing.T) {
	var pods []cluster.Pod
	var ordered []cluster.Node
	for i := range 3 {
		pods = append(pods, job(fmt.Sprint("p", i), 4, time.Hour))
		ordered = append(ordered, due(minute, changedNode(node(fmt.Sprint("m", i)), func(n *cluster.Node) { n.Capacity = size(4, 4) })))
	}
	s := quiet(pods, ordered...)
	s.Flavors = []cluster.Flavor{small}
	d := FleetDecision{Asked: 4}
	for i, of := range [][]string{{"a"}, {"b", "c"}, {"d"}} {
		d.Plan.Machines = append(d.Plan.Machines, purchase.Machine{Flavor: "small", Name: fmt.Sprint("small-", i), Pods: of, MicroDollarsPerHour: 40})
		for _, pod := range of {
			d.Plan.Assignments = append(d.Plan.Assignments, purchase.Assignment{Pod: pod, Machine: fmt.Sprint("small-", i)})
		}
	}
	d.Plan.Assignments = append(d.Plan.Assignments, purchase.Assignment{Pod: "e", Machine: "m0", Waits: true})
	d.withhold(newBound(s, all(), s.Flavors, nil, midnight), nil, s.Flavors)
	if diff := cmp.Diff([]string{"small: a", "small: b, c"}, planned(&d.Plan.Plan)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&Withheld{Pods: []string{"d"}, Machines: 1, OnOrder: 5, Needed: 3}, d.Withheld); diff != "" {
		t.Errorf("withheld (-want +got):\n%s", diff)
	}
	if n := len(d.Plan.Assignments); n != 4 || d.Asked != 3 {
		t.Errorf("%d pods have a place and %d were asked for, want 4 and 3", n, d.Asked)
	}
}

// TestNothingIsWithheldIfNothingIsOnOrder has any cluster without machines on order.
func TestNothingIsWithheldIfNothingIsOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := states.Draw(t, false)
		s.Nodes = slices.DeleteFunc(s.Nodes, func(n cluster.Node) bool { return n.Phase == cluster.Ordered })
		if d := Fleet(s, all(), mover(), midnight); d.Withheld != nil {
			t.Fatalf("withheld are %+v", d.Withheld)
		}
	})
}

// TestAFlavorGrowsToItsMinimum has one machine of three, and pods for which those that are ordered have room.
func TestAFlavorGrowsToItsMinimum(t *testing.T) {
	for _, tc := range []struct {
		name  string
		set   func(s *scene)
		want  []string
		limit string
	}{
		{"alone", func(*scene) {}, []string{"order small 1 to 3"}, ""},
		{"while pods are gathered", func(s *scene) {
			s.pending(job("p", 10, time.Hour))
			s.Gather = time.Second
		}, []string{"order small 1 to 3"}, ""},
		{"pods have room on the machines that come", func(s *scene) { s.pending(job("p", 4, time.Hour), job("q", 4, time.Hour)) }, []string{"order small 1 to 3"}, ""},
		{"a pod has no room there", func(s *scene) { s.pending(job("p", 10, time.Hour)) }, []string{"order large 0 to 1", "order small 1 to 3"}, ""},
		{"a limit allows one more", func(s *scene) { s.c.Limits.Machines = new(int64(2)) }, []string{"order small 1 to 2"},
			"flavor small has fewer machines than its minimum of 3: one more would exceed the limit spec.limits.machines"},
		{"a limit leaves nothing for pods", func(s *scene) {
			s.c.Limits.Machines = new(int64(3))
			s.pending(job("p", 10, time.Hour))
		}, []string{"order small 1 to 3"}, ""},
		{"the maximum allows one more", func(s *scene) { s.State.Flavors[1].Most = new(1) }, []string{"order small 1 to 2"}, ""},
		{"it is in back-off", func(s *scene) { s.flavor("small").AvoidUntil = midnight.Add(minute) }, nil, ""},
		{"it has as many on order", func(s *scene) {
			s.machine("c", "small", minute)
			s.machine("d", "small", minute)
		}, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			s.flavor("small").Min = 3
			s.ready("a", "small", service("b", 1), service("x", 3))
			tc.set(s)
			a := s.round()
			check(t, a, tc.want...)
			if a.Fleet.Limit != tc.limit {
				t.Errorf("the limit is %q, want %q", a.Fleet.Limit, tc.limit)
			}
		})
	}
}

// TestBudgetsCountMachinesThatLeave has four machines, one of which is being drained and one of which is empty.
func TestBudgetsCountMachinesThatLeave(t *testing.T) {
	for _, tc := range []struct {
		name    string
		budgets []v1alpha1.FleetBudget
		want    []string
	}{
		{"none", nil, []string{"cordon b"}},
		{"two may leave", []v1alpha1.FleetBudget{{Nodes: "2"}}, []string{"cordon b"}},
		{"one leaves", []v1alpha1.FleetBudget{{Nodes: "25%"}}, nil},
		{"one leaves, and no other empty one may", []v1alpha1.FleetBudget{{Nodes: "1", Reasons: []v1alpha1.FleetBudgetReason{v1alpha1.BudgetEmpty}}}, nil},
		{"a budget for another reason", []v1alpha1.FleetBudget{{Nodes: "0", Reasons: []v1alpha1.FleetBudgetReason{v1alpha1.BudgetUnderUsed}}}, []string{"cordon b"}},
		{"a budget at another time", []v1alpha1.FleetBudget{{Nodes: "0", Schedule: new("0 9 * * *"), Duration: &metav1.Duration{Duration: time.Hour}}}, []string{"cordon b"}},
		{"a budget at this time", []v1alpha1.FleetBudget{{Nodes: "0", Schedule: new("30 23 * * *"), Duration: &metav1.Duration{Duration: time.Hour}}}, nil},
		{"an invalid schedule", []v1alpha1.FleetBudget{{Nodes: "0", Schedule: new("0 25 * * *"), Duration: &metav1.Duration{Duration: time.Hour}}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			s.c.Budgets = disruption.Parse(tc.budgets)
			s.drained("a", "small", minute, service("x", 4)).Pods[0].Going = true
			s.ready("b", "small")
			s.ready("c", "small", service("y", 4))
			s.ready("d", "small", service("z", 4))
			s.c.UnderUsed = false
			a := s.round()
			check(t, a, append(slices.Clone(tc.want), "ask a")...)
		})
	}
}
