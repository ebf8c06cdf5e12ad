package fleet

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/events"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
)

// TestTheRecordShowsOfWhatTheDollarsOfAPurchaseConsist uses values computed by hand: a machine starts within 2 min, and
// started minutes are billed.
func TestTheRecordShowsOfWhatTheDollarsOfAPurchaseConsist(t *testing.T) {
	m := newModel(t, alone(func(f *v1alpha1.NodeFleet) { f.Spec.Mode = v1alpha1.FleetObserve }), smalls()) // $0.10 an hour
	m.add(testPod("hour", 3000, 1024, time.Hour), testPod("half", 3000, 1024, 30*minute+second), testPod("web", 3000, 1024, 0))
	m.run(2*minute, "f")
	d := m.fleet("f").Status.LastDecision
	if d == nil || len(d.Buys) != 1 {
		t.Fatalf("the decision is %+v", d)
	}
	b := &d.Buys[0]
	want := []v1alpha1.DecidedMachines{
		{Count: 1, BilledSeconds: 24*3600 + 120, DollarsUntilEmpty: "2.403334", Pods: 1, PodNames: []string{"default/web"}},
		{Count: 1, BusySeconds: 3600, BilledSeconds: 3720, DollarsUntilEmpty: "0.103334", Pods: 1, PodNames: []string{"default/hour"}},
		{Count: 1, BusySeconds: 1801, BilledSeconds: 1980, DollarsUntilEmpty: "0.055", Pods: 1, PodNames: []string{"default/half"}},
	}
	if diff := cmp.Diff(want, b.Machines); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
	if b.PricePerHour != "0.10" || b.StartSeconds != 120 || b.BilledSeconds != 86520+3720+1980 || b.DollarsUntilEmpty != "2.561668" || d.DollarsUntilEmpty != "2.561668" {
		t.Errorf("the purchase is %+v, in all $%s", b, d.DollarsUntilEmpty)
	}
}

func TestTheRecordShowsOfAReleaseWhatKeepingCosts(t *testing.T) {
	m := newModel(t, alone(func(f *v1alpha1.NodeFleet) { f.Spec.Pricing.BillingPeriod.Duration = 6 * minute }), smalls())
	pod := testPod("p", 3000, 1024, time.Hour)
	pod.Annotations["ends-after"] = "2m"
	m.add(pod)
	for range 1200 {
		if m.run(second, "f"); m.did("release") {
			break
		}
	}
	d := m.fleet("f").Status.LastDecision
	if d == nil || len(d.Releases) != 1 || d.Releases[0].KeepDollars != "0.01" || d.Releases[0].StartDollars == "" || d.Releases[0].SavesDollars != "" || d.SavesDollars != "" {
		t.Errorf("the decision is %+v", d)
	}
}

func TestTheRecordShowsWhatDrainsAndExchangesSaveAndCost(t *testing.T) {
	fleet := &fleetdecide.FleetDecision{
		Drains:   []cluster.Drain{{Node: "a", Saves: 300_000, Costs: 20_000}, {Node: "b"}},
		Exchange: &cluster.Exchange{Nodes: []string{"c"}, Saves: 1_000_000, Costs: 500_000},
	}
	d := &v1alpha1.FleetDecision{Releases: []v1alpha1.DecidedRelease{{Node: "a"}, {Node: "b"}, {Node: "c"}}}
	recordTerms(d, fleet, epoch)
	want := &v1alpha1.FleetDecision{
		Releases:     []v1alpha1.DecidedRelease{{Node: "a", SavesDollars: "0.30", CostsDollars: "0.02"}, {Node: "b"}, {Node: "c"}},
		SavesDollars: "1.30", CostsDollars: "0.52",
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("the record (-want +got):\n%s", diff)
	}
}

// TestTheRecordOfManyMachinesIsBounded buys of more flavors, for more pods, than fit into a status.
func TestTheRecordOfManyMachinesIsBounded(t *testing.T) {
	fleet := &fleetdecide.FleetDecision{}
	d := &v1alpha1.FleetDecision{}
	for f := range 100 {
		flavor := fmt.Sprint("f", f)
		for i := range 30 {
			terms := fleetdecide.Terms{Flavor: flavor, MicroDollarsPerHour: 1_000_000, Busy: time.Hour, Billed: time.Duration(i+1) * time.Hour, MicroDollars: int64(i+1) * 1_000_000}
			for j := range 30 {
				terms.Pods = append(terms.Pods, fmt.Sprintf("%s-%d-%d%s", flavor, i, j, strings.Repeat("x", 300)))
			}
			fleet.Terms = append(fleet.Terms, terms)
		}
		d.Buys = append(d.Buys, v1alpha1.DecidedPurchase{Flavor: flavor, Count: 30})
	}
	recordTerms(d, fleet, epoch)
	groups, names := 0, 0
	for i := range d.Buys {
		b := &d.Buys[i]
		if len(b.Machines) > 10 || b.DollarsUntilEmpty != "465.00" || b.BilledSeconds != 465*3600 {
			t.Errorf("%s: %d groups, $%s for %d s", b.Flavor, len(b.Machines), b.DollarsUntilEmpty, b.BilledSeconds)
		}
		groups += len(b.Machines)
		for j := range b.Machines {
			if g := &b.Machines[j]; len(g.PodNames) > 10 || g.Pods != 30 {
				t.Errorf("%s: %d names of %d pods", b.Flavor, len(g.PodNames), g.Pods)
			}
			names += len(b.Machines[j].PodNames)
		}
	}
	if groups != 100 || names != 100 || d.DollarsUntilEmpty != "46500.00" {
		t.Errorf("%d groups and %d names are listed, in all $%s", groups, names, d.DollarsUntilEmpty)
	}
}

func TestTimesInTheRecordAreWholeSecondsRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, 1<<63 - 1: 9_223_372_037} {
		if got := seconds(d); got != want {
			t.Errorf("%v are %d s, want %d", d, got, want)
		}
	}
}

// TestTheStatusSaysWhichPodsWaitAndWhatThatSaves has a machine that is full until a pod ends, 12 min after it arrived,
// and a pod that arrives at 4 min and runs for an hour. The existing machine would be needed for another hour, or
// $0.10; another one for an hour and 2 min.
func TestTheStatusSaysWhichPodsWaitAndWhatThatSaves(t *testing.T) {
	m := newModel(t, alone(func(f *v1alpha1.NodeFleet) { f.Spec.Scaling.MaxWait.Duration = 20 * minute }), smalls())
	m.add(testPod("first", 3000, 1024, 12*minute))
	m.run(4*minute, "f")
	second := testPod("second", 3000, 1024, time.Hour)
	second.CreationTimestamp.Time = m.clock.Now()
	m.add(second)
	m.run(minute, "f")
	d := m.fleet("f").Status.Deferral
	if d == nil || d.Pods != 1 || d.PodNames[0] != "default/second" || !strings.HasPrefix(d.Reason, "1 pod waits for room that becomes free") ||
		d.BuyTime.Before(&d.RoomTime) || m.made != 1 {
		t.Fatalf("%d machines were bought, and what waits is %+v", m.made, d)
	}
	var dollarsOf [3]float64
	for i, text := range []string{d.BuyDollars, d.WaitDollars, d.SavesDollars} {
		if _, err := fmt.Sscan(text, &dollarsOf[i]); err != nil || dollarsOf[i] <= 0 {
			t.Errorf("it says $%s: %v", text, err)
		}
	}
	if math.Abs(dollarsOf[0]-dollarsOf[1]-dollarsOf[2]) > 1e-9 {
		t.Errorf("$%s less $%s saves $%s", d.BuyDollars, d.WaitDollars, d.SavesDollars)
	}
	m.checkCondition(v1alpha1.FleetLimited, "False WithinLimits")
	m.run(15*minute, "f")
	if d := m.fleet("f").Status.Deferral; d != nil || m.made != 1 {
		t.Errorf("when the pod has found room, %d machines were bought and %+v waits:\n%s", m.made, d, strings.Join(m.log, "\n"))
	}
}

func TestTheSummaryOfADecisionSaysWhatWaitingSaves(t *testing.T) {
	fleet := &fleetdecide.FleetDecision{Asked: 3, Deferral: &fleetdecide.Deferral{Pods: []string{"a", "b"}, BuyNow: 744_000, Wait: 732_000}}
	d := &v1alpha1.FleetDecision{Buys: []v1alpha1.DecidedPurchase{{Flavor: "small", Count: 1, Pods: 1}}, PricePerHour: "0.10", LowerBoundPerHour: "0.10"}
	if got, want := summarize(d, fleet, len(fleet.Plan.Unplaceable)), "buy 1 small for 1 pod at $0.10/h (bound $0.10/h); 2 pods wait for room that becomes free, which saves $0.012"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// TestTheNumbersOfADecisionAgree checks a purchase for some of the pods that it was made for.
func TestTheNumbersOfADecisionAgree(t *testing.T) {
	fleet := &fleetdecide.FleetDecision{Asked: 5, Served: 1}
	fleet.Plan.Machines = []purchase.Machine{
		{Flavor: "small", Pods: []string{"a"}, CPU: 0, Memory: 0.5, MicroDollarsPerHour: 100_000, Reason: "the cheapest found to hold its only pod, which uses 0.0 %"},
		{Flavor: "small", Pods: []string{"b", "c"}, CPU: 1, Memory: 0.5, MicroDollarsPerHour: 100_000, Reason: "the cheapest found to hold its 2 pods"},
	}
	fleet.Plan.Assignments = []purchase.Assignment{{Pod: "a"}, {Pod: "b"}, {Pod: "c"}, {Pod: "d", Waits: true}}
	fleet.Plan.Unplaceable = []purchase.Unplaceable{{Pod: "e"}}
	buy := decidedPurchase(v1alpha1.FleetOrder{Flavor: "small", To: 2}, fleet)
	want := v1alpha1.DecidedPurchase{
		Flavor: "small", Count: 2, Pods: 3,
		Reason: "the cheapest found to hold 3 pods, which use on average 50.0 % of the CPU and 50.0 % of the memory of a machine, at $0.1000/h each",
	}
	if diff := cmp.Diff(want, buy); diff != "" {
		t.Errorf("the purchase (-want +got):\n%s", diff)
	}
	d := &v1alpha1.FleetDecision{Buys: []v1alpha1.DecidedPurchase{buy}, PricePerHour: "0.20", LowerBoundPerHour: "0.20"}
	if got, want := summarize(d, fleet, len(fleet.Plan.Unplaceable)), "buy 2 small for 3 pods at $0.20/h (bound $0.20/h); 2 pods have room without new machines; 1 pod finds no machine"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if got := decidedPurchase(v1alpha1.FleetOrder{Flavor: "large", To: 1}, fleet); got.Pods != 0 || got.Reason != "" {
		t.Errorf("a flavor that is not bought for pods: %+v", got)
	}
}

// TestTheSummaryCountsThePodsThatItsEventCounts has a pod that no machine fits, and one that cannot be planned, beside one
// for which a machine is bought.
func TestTheSummaryCountsThePodsThatItsEventCounts(t *testing.T) {
	m := newModel(t, alone(nil), smalls())
	recorder := events.NewFakeRecorder(1000)
	m.r.Events = recorder
	device := testPod("device", 100, 1024, time.Hour)
	device.Spec.Containers[0].Resources.Requests["example.com/device"] = resource.MustParse("1")
	m.add(testPod("fits", 3000, 1024, time.Hour), testPod("huge", 300_000, 1024, time.Hour), device)
	m.run(2*minute, "f")
	if d := m.fleet("f").Status.LastDecision; d == nil || !strings.Contains(d.Summary, "; 2 pods find no machine") {
		t.Errorf("the decision is %+v", d)
	}
	close(recorder.Events)
	said := ""
	for e := range recorder.Events {
		said += e + "\n"
	}
	if !strings.Contains(said, "NoMachineFits 2 pods, the first is ") {
		t.Errorf("the Events are\n%s", said)
	}
}

// TestAPurchaseThatALimitCutsIsForThePodsOfTheMachinesThatAreOrdered has a plan of three machines, of which two are
// ordered.
func TestAPurchaseThatALimitCutsIsForThePodsOfTheMachinesThatAreOrdered(t *testing.T) {
	fleet := &fleetdecide.FleetDecision{Asked: 4}
	for _, pods := range [][]string{{"a"}, {"b"}, {"c", "d"}} {
		fleet.Plan.Machines = append(fleet.Plan.Machines, purchase.Machine{Flavor: "small", Pods: pods, Reason: "the cheapest found"})
	}
	buy := decidedPurchase(v1alpha1.FleetOrder{Flavor: "small", From: 1, To: 3}, fleet)
	if buy.Count != 2 || buy.Pods != 2 {
		t.Errorf("%d machines for %d pods, want 2 for 2", buy.Count, buy.Pods)
	}
	d := &v1alpha1.FleetDecision{Buys: []v1alpha1.DecidedPurchase{buy}, PricePerHour: "0.20"}
	if got, want := summarize(d, fleet, len(fleet.Plan.Unplaceable)), "buy 2 small for 2 pods at $0.20/h; this round orders no machine for 2 other pods"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

func TestTheReasonOfOneReleaseIsNotThatOfOthers(t *testing.T) {
	releases := []v1alpha1.DecidedRelease{{Node: "a", Reason: "it is empty"}, {Node: "b", Reason: "its only pod fits on another node"}, {Node: "c", Reason: "it is empty"}}
	if got, want := summarize(&v1alpha1.FleetDecision{Releases: releases}, &fleetdecide.FleetDecision{}, 0), "release a: it is empty; and for other reasons b, c"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

func TestADecisionThatGivesManyMachinesBackNamesTheFirst(t *testing.T) {
	var releases []v1alpha1.DecidedRelease
	for i := range 7 {
		releases = append(releases, v1alpha1.DecidedRelease{Node: fmt.Sprintf("n%d", i), Reason: "it is empty"})
	}
	for n, want := range map[int]string{
		1: "release n0: it is empty",
		5: "release n0, n1, n2, n3, n4: it is empty",
		7: "release n0, n1, n2, n3, n4 and 2 more: it is empty",
	} {
		if got := summarize(&v1alpha1.FleetDecision{Releases: releases[:n]}, &fleetdecide.FleetDecision{}, 0); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}
