package status

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/audit"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func lasting(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// aNode returns a ready node of 4 CPUs and 8 GiB.
func aNode(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: ago(time.Hour), Labels: map[string]string{}, Annotations: map[string]string{}}}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, c := range change {
		c(n)
	}
	return n
}

// aPod returns a running service with 1 CPU and 1 GiB.
func aPod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, CreationTimestamp: ago(time.Minute), Labels: map[string]string{}, Annotations: map[string]string{}}}
	p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func owner(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "o", Controller: new(true)}}
	}
}

// ends makes a pod a batch pod with an expected finish after a duration.
func ends(after time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels[v1alpha1.LabelClass] = "batch"
		p.Annotations[v1alpha1.AnnotationExpectedFinish] = now.Add(after).Format(time.RFC3339)
	}
}

func phase(is corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = is } }

func leaving(p *corev1.Pod) { p.DeletionTimestamp = new(ago(time.Second)) }

func waits(message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
	}
}

func with(nodes []*corev1.Node, pods ...*corev1.Pod) *Snapshot {
	return &Snapshot{Nodes: nodes, Pods: pods, Cycle: 5 * time.Minute}
}

func TestAPodIsDrawnByItsClassTimeBinAndState(t *testing.T) {
	tests := []struct {
		name   string
		change []func(*corev1.Pod)
		class  string
		bin    int64
		state  string
	}{
		{"a service", nil, "service", Endless, ""},
		{"a batch pod that ends within the cycle", []func(*corev1.Pod){ends(299 * time.Second)}, "batch", 0, ""},
		{"one that ends with the cycle", []func(*corev1.Pod){ends(300 * time.Second)}, "batch", 1, ""},
		{"one that ends in an hour", []func(*corev1.Pod){ends(time.Hour)}, "batch", 12, ""},
		{"one that should have ended", []func(*corev1.Pod){ends(-time.Hour)}, "batch", 0, ""},
		{"one of a Job that another scheduler has bound", []func(*corev1.Pod){owner("Job")}, "batch", Unknown, ""},
		{"one of a DaemonSet", []func(*corev1.Pod){owner("DaemonSet")}, "system", Endless, ""},
		{"a service whose annotation says when it ends", []func(*corev1.Pod){ends(time.Hour), func(p *corev1.Pod) { p.Labels[v1alpha1.LabelClass] = "service" }}, "service", Endless, ""},
		{"one whose containers do not run yet", []func(*corev1.Pod){phase(corev1.PodPending)}, "service", Endless, "Starting"},
		{"one that is being deleted", []func(*corev1.Pod){leaving}, "service", Endless, "Leaving"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := Of(with([]*corev1.Node{aNode("n")}, aPod("p", "n", tc.change...)), now).Nodes[0].Pods[0]
			if p.Class != tc.class || p.Bin != tc.bin || p.State != tc.state || p.Name != "a/p" || p.MilliCPU != 1000 || p.Memory != 1<<30 {
				t.Errorf("%+v, want class %s, bin %d, state %q", p, tc.class, tc.bin, tc.state)
			}
		})
	}
}

func TestTheTimeBinOfANodeIsThatOfItsLastPod(t *testing.T) {
	service, daemon := aPod("s", "n"), aPod("d", "n", owner("DaemonSet"))
	early, late, unknown := aPod("e", "n", ends(time.Minute)), aPod("l", "n", ends(11*time.Minute)), aPod("u", "n", owner("Job"))
	tests := []struct {
		name  string
		pods  []*corev1.Pod
		bin   int64
		empty int
	}{
		{"no pod", nil, 0, 1},
		{"one of a DaemonSet", []*corev1.Pod{daemon}, 0, 1},
		{"one that ends soon", []*corev1.Pod{early}, 0, 0},
		{"an early one and a late one", []*corev1.Pod{early, late}, 2, 0},
		{"one of which that is not known", []*corev1.Pod{late, unknown}, Unknown, 0},
		{"a service", []*corev1.Pod{unknown, service, late}, Endless, 0},
		{"one that has ended", []*corev1.Pod{aPod("f", "n", ends(time.Hour), phase(corev1.PodSucceeded))}, 0, 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			page := Of(with([]*corev1.Node{aNode("n")}, tc.pods...), now)
			if page.Nodes[0].Bin != tc.bin || page.Summary.Empty != tc.empty {
				t.Errorf("bin %d and %d empty nodes, want %d and %d", page.Nodes[0].Bin, page.Summary.Empty, tc.bin, tc.empty)
			}
		})
	}
}

func TestPodsOfANodeStandInTheOrderOfTheirClassAndEnd(t *testing.T) {
	page := Of(with([]*corev1.Node{aNode("n")},
		aPod("daemon", "n", owner("DaemonSet")), aPod("soon", "n", ends(time.Minute)), aPod("b", "n"), aPod("late", "n", ends(time.Hour)), aPod("a", "n"),
		aPod("sooner", "n", ends(time.Second)), aPod("elsewhere", "m")), now)
	var got []string
	for _, p := range page.Nodes[0].Pods {
		got = append(got, p.Name)
	}
	if diff := cmp.Diff([]string{"a/a", "a/b", "a/late", "a/soon", "a/sooner", "a/daemon"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSumsAreOfAllPodsThoughNotAllAreListed(t *testing.T) {
	var pods []*corev1.Pod
	for i := range mostPods + 7 {
		pods = append(pods, aPod(fmt.Sprint("p", i), "n"))
	}
	page := Of(with([]*corev1.Node{aNode("n")}, pods...), now)
	n := page.Nodes[0]
	if len(n.Pods) != mostPods || n.MorePods != 7 || n.RequestedMilliCPU != 1000*(mostPods+7) || page.Summary.Pods != mostPods+7 {
		t.Errorf("%d pods and %d more, %d CPU, %d in all; want %d and 7, all of their CPU", len(n.Pods), n.MorePods, n.RequestedMilliCPU, page.Summary.Pods, mostPods)
	}
}

func TestANodeSaysWhatIsTheMatterWithIt(t *testing.T) {
	s := with([]*corev1.Node{
		aNode("emptied", func(n *corev1.Node) {
			n.Annotations[v1alpha1.AnnotationDraining], n.Spec.Unschedulable = "fleet-a/2026-11-26T11:59:00Z/2026-11-26T12:10:00Z", true
		}),
		aNode("lost", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }),
		aNode("batch", func(n *corev1.Node) { n.Labels[v1alpha1.LabelClass], n.Labels[v1alpha1.LabelFleet] = "batch", "f" }),
	})
	s.Prices = map[string]Price{"lost": {Unpriced: "spot"}, "batch": {MicroDollarsPerHour: 250_000}}
	page := Of(s, now)
	batch, emptied, lost := page.Nodes[0], page.Nodes[1], page.Nodes[2]
	if emptied.Emptying != "fleet-a" || !emptied.Cordoned || !emptied.Ready {
		t.Errorf("%+v, want it emptied by fleet-a", emptied)
	}
	if lost.Ready || lost.Dollars != nil || lost.Unpriced != "spot" {
		t.Errorf("%+v, want it not ready and without a price", lost)
	}
	if batch.Class != "batch" || batch.Fleet != "f" || *batch.Dollars != 0.25 {
		t.Errorf("%+v, want one of fleet f for batch pods at $0.25", batch)
	}
	if sum := page.Summary; sum.Ready != 2 || sum.Nodes != 3 || sum.Priced != 1 || sum.Dollars != 0.25 || sum.DollarsPerMonth != 182.5 {
		t.Errorf("%+v, want 2 of 3 ready and 1 that has a price", sum)
	}
}

func TestPowerIsThatOfAProfileElseOfTheTableElseNotKnown(t *testing.T) {
	kind := func(name string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[corev1.LabelInstanceTypeStable] = name }
	}
	s := with([]*corev1.Node{aNode("a", kind("mine")), aNode("b", kind("m5.xlarge")), aNode("c", kind("nobody's"))}, aPod("p", "a"), aPod("q", "a"))
	s.Profiles = []*v1alpha1.MachineProfile{{Spec: v1alpha1.MachineProfileSpec{MachineType: "mine", Power: &v1alpha1.MachinePower{IdleWatts: resource.MustParse("100"), FullWatts: resource.MustParse("200")}}}}
	page := Of(s, now)
	if w := page.Nodes[0].Watts; w == nil || math.Abs(*w-150) > 1e-9 { // 2 of 4 CPUs are requested
		t.Errorf("half full it draws %v, want 150 W", w)
	}
	if w := page.Nodes[1].Watts; w == nil || *w < 5 || *w > 100 {
		t.Errorf("an m5.xlarge draws %v, want what the table says", w)
	}
	if w := page.Nodes[2].Watts; w != nil {
		t.Errorf("an unknown machine type draws %v, want that it is not known", *w)
	}
	if sum := page.Summary; sum.Powered != 2 || math.Abs(sum.Watts-*page.Nodes[0].Watts-*page.Nodes[1].Watts) > 1e-9 {
		t.Errorf("%d nodes draw %v W, want both", sum.Powered, sum.Watts)
	}
}

func TestEachBillOfAnAuditHasThePowerOfItsMachines(t *testing.T) {
	// 1000 milli-CPU are requested.
	bill := func(milliCPU int64, machines ...audit.Count) audit.Bill {
		return audit.Bill{MilliCPU: milliCPU, Machines: machines, PerHour: 250_000, PerMonth: 182_500_000, Nodes: len(machines)}
	}
	mine := func(n int) audit.Count { return audit.Count{InstanceType: "mine", Count: n} }
	s := &Snapshot{
		Profiles: []*v1alpha1.MachineProfile{{Spec: v1alpha1.MachineProfileSpec{MachineType: "mine", Power: &v1alpha1.MachinePower{IdleWatts: resource.MustParse("100"), FullWatts: resource.MustParse("200")}}}},
		Audit: &Audit{Result: &audit.Result{
			MilliCPU: 1000, Now: bill(4000, mine(3), mine(1)), Moved: bill(500, mine(1)), Cheapest: bill(2000, mine(1), audit.Count{InstanceType: "unheard-of", Count: 1}), Homogeneous: new(bill(2000, mine(2))),
			Bound: 125_000, Source: "a list", Notes: []string{"a note"},
		}},
	}
	a := Of(s, time.Unix(0, 0)).Summary.Audit
	for name, tc := range map[string]struct {
		watts *float64
		want  float64
	}{"now": {a.Now.Watts, 500}, "after moves, with more load than a machine has CPU": {a.Moved.Watts, 200}, "homogeneous": {a.Homogeneous.Watts, 300}} {
		if tc.watts == nil || math.Abs(*tc.watts-tc.want) > 1e-9 {
			t.Errorf("%s: %v W, want %v", name, tc.watts, tc.want)
		}
	}
	if a.Cheapest.Watts != nil {
		t.Errorf("machines of which one is unknown draw %v W, want nothing said", *a.Cheapest.Watts)
	}
	if a.Now.DollarsPerMonth != 182.5 || a.BoundPerMonth != 91.25 {
		t.Errorf("a month costs %v, and at least %v; want 730 hours of 0.25 and of 0.125 dollars", a.Now.DollarsPerMonth, a.BoundPerMonth)
	}
	if a.Now.Dollars != 0.25 || a.Now.Nodes != 2 || a.Bound != 0.125 || a.Source != "a list" || len(a.Notes) != 1 {
		t.Errorf("%+v, want the figures of the result", a)
	}
	if s.Audit.Now.Watts != nil || s.Audit.Homogeneous != nil {
		t.Error("the snapshot was changed")
	}
}

func TestTheBoundOfThePowerIsThatOfTheBestLoadedMachineOfAKnownType(t *testing.T) {
	watts := func(name, idle, full string) *v1alpha1.MachineProfile {
		return &v1alpha1.MachineProfile{Spec: v1alpha1.MachineProfileSpec{MachineType: name, Power: &v1alpha1.MachinePower{IdleWatts: resource.MustParse(idle), FullWatts: resource.MustParse(full)}}}
	}
	profiles := []*v1alpha1.MachineProfile{watts("small", "50", "100"), watts("large", "60", "150")}
	for name, tc := range map[string]struct {
		requested int64
		sizes     map[string]int64
		want      *float64
	}{
		"6 CPUs at 150 W for each 4":        {6000, map[string]int64{"small": 2000, "large": 4000, "unheard-of": 1 << 40, "without a size": 0}, new(225.0)},
		"only the small type":               {6000, map[string]int64{"small": 2000}, new(300.0)},
		"no type whose power is known":      {6000, map[string]int64{"unheard-of": 2000}, nil},
		"no pods that request anything":     {0, map[string]int64{"small": 2000}, nil},
		"an audit that has no types at all": {6000, nil, nil},
	} {
		s := &Snapshot{Profiles: profiles, Audit: &Audit{Result: &audit.Result{MilliCPU: tc.requested}, Sizes: tc.sizes}}
		if diff := cmp.Diff(tc.want, Of(s, now).Summary.Audit.BoundWatts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPodsThatWaitAreGroupedByReason(t *testing.T) {
	older := func(p *corev1.Pod) { p.CreationTimestamp = ago(time.Hour) }
	gated := func(p *corev1.Pod) {
		p.Status.Phase, p.Spec.SchedulingGates = corev1.PodPending, []corev1.PodSchedulingGate{{Name: "quota"}}
	}
	page := Of(with([]*corev1.Node{aNode("n")},
		aPod("p1", "", waits("no room")), aPod("p2", "", waits("no room"), older), aPod("p3", "", waits("bad selector")), aPod("p4", "", phase(corev1.PodPending)), aPod("p5", "", gated),
		aPod("ended", "", phase(corev1.PodFailed)), aPod("bound", "n")), now)
	want := []Pending{
		{Reason: "no room", Pods: 2, Names: []string{"a/p2", "a/p1"}, Requests: "Request 2 CPUs and 2 GiB of memory", Since: now.Add(-time.Hour).Unix()},
		{Reason: "a scheduling gate keeps it from being scheduled: quota", Pods: 1, Names: []string{"a/p5"}, Requests: "Requests 1 CPU and 1 GiB of memory", Since: now.Add(-time.Minute).Unix()},
		{Reason: "bad selector", Pods: 1, Names: []string{"a/p3"}, Requests: "Requests 1 CPU and 1 GiB of memory", Since: now.Add(-time.Minute).Unix()},
		{Reason: notTried, Pods: 1, Names: []string{"a/p4"}, Requests: "Requests 1 CPU and 1 GiB of memory", Since: now.Add(-time.Minute).Unix()},
	}
	if diff := cmp.Diff(want, page.Pending); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	claim := Of(with(nil, aPod("p", "", waits(`0/2 nodes are available: persistentvolumeclaim "nope" not found. not found`))), now).Pending
	if len(claim) != 1 || claim[0].Short != `persistentvolumeclaim "nope" not found` {
		t.Errorf("of a claim that does not exist: %+v, want the reason without the frame", claim)
	}
	if page.Summary.Pending != 5 || page.Summary.Pods != 1 {
		t.Errorf("%d pods wait and %d do not, want 5 and 1", page.Summary.Pending, page.Summary.Pods)
	}
}

func TestManyReasonsAndNamesAreBounded(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 3 * mostReasons {
		for j := range mostNames + 3 {
			pods = append(pods, aPod(fmt.Sprintf("p-%d-%d", i, j), "", waits(fmt.Sprint(i)+strings.Repeat("x", 2*longest))))
		}
	}
	page := Of(with(nil, pods...), now)
	if len(page.Pending) != mostReasons || len(page.Pending[0].Names) != mostNames || len(page.Pending[0].Reason) > longest || page.Summary.Pending != len(pods) {
		t.Errorf("%d reasons with %d names and %d bytes, of %d pods", len(page.Pending), len(page.Pending[0].Names), len(page.Pending[0].Reason), page.Summary.Pending)
	}
}

func fleetWith(d *v1alpha1.FleetDecision) *v1alpha1.NodeFleet {
	return &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "f"}, Spec: v1alpha1.NodeFleetSpec{Mode: v1alpha1.FleetAct, Class: v1alpha1.FleetAny}, Status: v1alpha1.NodeFleetStatus{LastDecision: d}}
}

func TestADecisionOfAFleetHasItsTermsAndItsOutcome(t *testing.T) {
	d := &v1alpha1.FleetDecision{
		ID: "3", Time: ago(time.Minute), Mode: v1alpha1.FleetObserve, Summary: "buy 2", PricePerHour: "0.2", LowerBoundPerHour: "0.15", SavesDollars: "0.9", CostsDollars: "0.1",
		Buys:     []v1alpha1.DecidedPurchase{{Flavor: "large", Count: 2, Pods: 5, Reason: "cheapest", PricePerHour: "0.1", StartSeconds: 60, BilledSeconds: 600, DollarsUntilEmpty: "0.017"}},
		Releases: []v1alpha1.DecidedRelease{{Node: "n", Reason: "empty", KeepDollars: "0.1", StartDollars: "0.2"}},
		Rejected: []v1alpha1.Rejection{{Name: "small", Reason: "too small"}},
		Expected: v1alpha1.Outcome{DollarsPerHour: "0.4", ReadySeconds: 60, PendingPods: 1},
	}
	s := with(nil)
	s.Fleets = []*v1alpha1.NodeFleet{fleetWith(d)}
	got := Of(s, now).Decisions[0]
	want := Decision{
		Key: "NodeFleet/f/3", At: now.Add(-time.Minute).UnixMilli(), Object: "NodeFleet f", Mode: "Observe", Summary: "buy 2", Open: true,
		Terms: []string{
			"buy 2 large for 5 pods: cheapest", "large: $0.1/h each, 1m0s to start, paid for 10m0s in all: $0.017 until empty", "release n: empty",
			"n: keeping it for another billing period costs $0.1, starting another machine $0.2", "the machines to buy cost $0.2/h; the lower bound for the same pods is $0.15/h",
			"emptying or exchanging machines saves $0.9 and costs $0.1", "rejected small: too small",
		},
		Outcomes: []Outcome{{"dollars per hour", "$0.4", ""}, {"ready after", "1m0s", ""}, {"pods still pending", "1", ""}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("before it is measured (-want +got):\n%s", diff)
	}
	d.Measured = &v1alpha1.Outcome{DollarsPerHour: "0.38", ReadySeconds: 72}
	got = Of(s, now).Decisions[0]
	if diff := cmp.Diff([]Outcome{{"dollars per hour", "$0.4", "$0.38"}, {"ready after", "1m0s", "1m12s"}, {"pods still pending", "1", "0"}}, got.Outcomes); diff != "" || got.Open {
		t.Errorf("once it is measured, open %t (-want +got):\n%s", got.Open, diff)
	}
}

func TestDecisionsAreRememberedWhenOthersFollow(t *testing.T) {
	first := with(nil)
	first.Fleets = []*v1alpha1.NodeFleet{fleetWith(&v1alpha1.FleetDecision{ID: "1", Time: ago(time.Hour), Summary: "one"})}
	second := with(nil)
	second.Fleets = []*v1alpha1.NodeFleet{fleetWith(&v1alpha1.FleetDecision{ID: "2", Time: ago(time.Minute), Summary: "two"})}
	second.Decisions = Of(first, now).Decisions
	third := with(nil)
	third.Fleets = []*v1alpha1.NodeFleet{fleetWith(&v1alpha1.FleetDecision{ID: "2", Time: ago(time.Minute), Summary: "two", Measured: &v1alpha1.Outcome{}})}
	third.Decisions = Of(second, now).Decisions
	var got []string
	for _, d := range Of(third, now).Decisions {
		got = append(got, fmt.Sprint(d.Summary, " open ", d.Open))
	}
	if diff := cmp.Diff([]string{"two open false", "one open true"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheLatestDecisionsAreKept(t *testing.T) {
	var before []Decision
	for i := range 2 * mostDecisions {
		before = append(before, Decision{Key: fmt.Sprint(i), At: int64(i)})
	}
	kept := Remember(before, []Decision{{Key: "new", At: 1}})
	if len(kept) != mostDecisions || kept[0].Key != fmt.Sprint(2*mostDecisions-1) || kept[mostDecisions-1].Key != fmt.Sprint(mostDecisions) {
		t.Errorf("%d from %s to %s", len(kept), kept[0].Key, kept[len(kept)-1].Key)
	}
}

func TestEventsArePartOfTheFeed(t *testing.T) {
	s := with(nil)
	s.Events = []*eventsv1.Event{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "e"}, EventTime: metav1.NewMicroTime(now.Add(-time.Hour)), Type: "Warning", Reason: "Slow", Note: "it takes long", Regarding: corev1.ObjectReference{Kind: "Migration", Namespace: "a", Name: "m"},
			Series: &eventsv1.EventSeries{LastObservedTime: metav1.NewMicroTime(now.Add(-time.Second))}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}, EventTime: metav1.NewMicroTime(now.Add(-time.Minute)), Type: "Normal", Reason: "Bought", Note: "one", Regarding: corev1.ObjectReference{Kind: "NodeFleet", Name: "f"}},
	}
	want := []Decision{
		{Key: "Event/a/e", At: now.Add(-time.Second).UnixMilli(), Object: "Migration a/m", Warning: true, Summary: "Slow: it takes long"},
		{Key: "Event/default/g", At: now.Add(-time.Minute).UnixMilli(), Object: "NodeFleet f", Summary: "Bought: one"},
	}
	if diff := cmp.Diff(want, Of(s, now).Decisions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAMigrationIsShownStepByStep(t *testing.T) {
	tests := []struct {
		name  string
		phase v1alpha1.MigrationPhase
		done  []string
		want  string // the first letter of each step's state
		ended bool
	}{
		{"one that waits", "", nil, "NTTTTTT", false},
		{"one whose pod is frozen", v1alpha1.MigrationMoving, steps[:3], "DDDNTTT", false},
		{"one that restarts and is not frozen", v1alpha1.MigrationVerifying, []string{steps[0], steps[1], steps[4]}, "DDSSDNT", false},
		{"one that has moved", v1alpha1.MigrationSucceeded, steps, "DDDDDDD", true},
		{"one that went back", v1alpha1.MigrationRolledBack, steps[:3], "DDDFTTT", true},
		{"one that was refused", v1alpha1.MigrationRefused, nil, "FTTTTTT", true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			o := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m"}, Spec: v1alpha1.MigrationSpec{PodName: "p"}, Status: v1alpha1.MigrationStatus{Phase: tc.phase}}
			for i, name := range tc.done {
				o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionTrue, Message: "said " + name, LastTransitionTime: ago(time.Hour - time.Duration(i)*time.Second)})
			}
			s := with(nil)
			s.Migrations = []*v1alpha1.Migration{o}
			m := Of(s, now).Migrations[0]
			got := ""
			for _, step := range m.Steps {
				got += step.State[:1]
			}
			if got != tc.want || m.Ended != tc.ended || m.Failed != strings.Contains(tc.want, "F") {
				t.Errorf("steps %s, ended %t, failed %t; want %s", got, m.Ended, m.Failed, tc.want)
			}
			if n := len(tc.done); n > 0 && m.Message != "said "+tc.done[n-1] {
				t.Errorf("it says %q, want what was said last", m.Message)
			}
		})
	}
}

func TestMigrationsUnderWayGoBeforeThoseThatHaveEnded(t *testing.T) {
	var all []*v1alpha1.Migration
	for i := range 3 * mostMigrations {
		o := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("ended-", i), CreationTimestamp: ago(time.Duration(i) * time.Second)}, Status: v1alpha1.MigrationStatus{Phase: v1alpha1.MigrationSucceeded}}
		all = append(all, o)
	}
	all = append(all, &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Name: "old", CreationTimestamp: ago(time.Hour)}})
	s := with(nil)
	s.Migrations = all
	got := Of(s, now).Migrations
	if len(got) != mostMigrations || got[0].Name != "/old" || got[1].Name != "/ended-0" {
		t.Errorf("%d, first %s and %s", len(got), got[0].Name, got[1].Name)
	}
}

func TestAPolicySaysWhatItsLawThinks(t *testing.T) {
	s := with(nil)
	s.Policies = []*v1alpha1.ReplicaPolicy{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: v1alpha1.ReplicaPolicySpec{Target: v1alpha1.ReplicaTarget{Kind: "Deployment", Name: "web"}, Law: v1alpha1.ReplicaLawSpec{Name: v1alpha1.LawPredictive}, Mode: v1alpha1.ReplicasAct,
			MinReplicas: 1, MaxReplicas: 9, SLO: &v1alpha1.ServiceLevel{ResponseTime: *lasting(200 * time.Millisecond)}},
		Status: v1alpha1.ReplicaPolicyStatus{
			ObservedGeneration: 1, DesiredReplicas: 4, SpecReplicas: 4, Replicas: 3, ReadyReplicas: 2,
			LastObservation: &v1alpha1.ReplicaObservation{Time: ago(time.Second), ArrivalRate: "20", ResponseTime: lasting(300 * time.Millisecond), QueueLength: "6", UtilizationPercent: "90", Notes: []string{"a note"}},
			LastDecision:    &v1alpha1.ReplicaDecision{Time: ago(time.Minute), From: 3, To: 4, Reasons: []string{"more come"}, Expected: v1alpha1.ReplicaOutcome{ArrivalRate: "22", ResponseTime: lasting(150 * time.Millisecond), ReadySeconds: 5}},
			Conditions:      []metav1.Condition{{Type: v1alpha1.PolicyMeasured, Status: "False", Message: "no metrics"}, {Type: v1alpha1.PolicyConflict, Status: "False"}, {Type: v1alpha1.PolicyReady, Status: "True"}},
		},
	}}
	page := Of(s, now)
	want := Policy{
		Name: "shop/web", Target: "Deployment web", Law: "Predictive", Mode: "Act", Slow: "The response time exceeds the target.", Notes: []string{"a note"},
		Facts: []Fact{
			{"Requests per second", "20"}, {"Response time", "300ms (target 200ms)"}, {"Requests in progress", "6"}, {"Utilisation", "90 %"},
			{"Replicas", "2 of 4 ready"}, {"Desired", "4 (1 to 9)"},
		}, Reasons: []string{"more come"},
		Conditions: []Condition{{"Conflict", "False", "", "", true}, {"Measured", "False", "", "no metrics", false}, {"Ready", "True", "", "", true}},
	}
	if diff := cmp.Diff(want, page.Policies[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d := page.Decisions[0]
	if diff := cmp.Diff([]Outcome{{"requests per second", "22", ""}, {"response time", "150ms", ""}, {"all ready after", "5s", ""}}, d.Outcomes); diff != "" || d.Summary != "from 3 to 4 replicas" {
		t.Errorf("%s (-want +got):\n%s", d.Summary, diff)
	}
}

func TestAPoolShowsItsQueueAndItsDecision(t *testing.T) {
	s := with(nil)
	s.Pools = []*v1alpha1.WorkerPool{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "g", Name: "b"}, Spec: v1alpha1.WorkerPoolSpec{Mode: v1alpha1.WorkerPoolAct, Limits: v1alpha1.WorkerLimits{Min: 1, Max: 8}}, Status: v1alpha1.WorkerPoolStatus{
			ObservedGeneration: 1, Phase: "Runtime", ShortageCores: "3", Queue: &v1alpha1.WorkQueueStatus{Waiting: 3, Running: 2, Done: 1}, Workers: v1alpha1.WorkerCounts{Connected: 2, Starting: 1}, SilentSince: new(ago(time.Minute)),
			LastDecision: &v1alpha1.WorkerDecision{Time: ago(time.Minute), Add: 1, Flavor: "large", Reason: "3 tasks wait", Waiting: 3, WaitingThen: 2, ExpectedReady: lasting(time.Minute)},
		}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "g", Name: "a"}, Status: v1alpha1.WorkerPoolStatus{LastDecision: &v1alpha1.WorkerDecision{Time: ago(time.Hour), Drain: []string{"x", "y"}, Reason: "nothing waits", MeasuredReady: lasting(time.Second)}}},
	}
	page := Of(s, now)
	want := []Pool{
		{Name: "g/a", Unreported: "The autoscaler has not reported on it yet.", Conditions: []Condition{}},
		{Name: "g/b", Mode: "Act", Phase: "Runtime", Facts: []Fact{
			{"Tasks that wait", "3"}, {"Running", "2"}, {"Done", "1"}, {"Cores missing", "3"}, {"Workers", "2"}, {"Starting", "1"}, {"Draining", "0"}, {"Allowed", "1 to 8"},
		}, SilentSince: now.Add(-time.Minute).Unix(), Conditions: []Condition{}},
	}
	if diff := cmp.Diff(want, page.Pools); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var got []string
	for _, d := range page.Decisions {
		got = append(got, fmt.Sprintf("%s: %s; %v", d.Object, d.Summary, d.Outcomes))
	}
	if diff := cmp.Diff([]string{"WorkerPool g/b: add 1 worker of flavor large: 3 tasks wait; [{done after 1m0s }]", "WorkerPool g/a: drain 2 workers: nothing waits; [{done after – 1s}]"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAFleetShowsWhatItDoesAndWhatIsWrong(t *testing.T) {
	f := fleetWith(nil)
	f.Status = v1alpha1.NodeFleetStatus{
		ObservedGeneration: 1, Machines: 4, InFlight: 1, PendingPods: 2, Cost: v1alpha1.FleetCost{DollarsPerHour: "1.2", LowerBoundDollarsPerHour: "1"},
		Intent:     &v1alpha1.FleetIntent{Orders: []v1alpha1.FleetOrder{{Flavor: "l", From: 1, To: 2}}, Releases: []v1alpha1.FleetRelease{{Flavor: "s", Machines: []string{"x", "y"}}}},
		Deferral:   &v1alpha1.FleetDeferral{Reason: "room comes free"},
		Conditions: []metav1.Condition{{Type: v1alpha1.FleetDegraded, Status: "True", Reason: "NoMachine"}, {Type: v1alpha1.ConditionPaused, Status: "True", Reason: "PausedByConfigMap"}},
	}
	s := with(nil)
	s.Fleets = []*v1alpha1.NodeFleet{f}
	want := []Fleet{{
		Name: "f", Class: "Any", Mode: "Act", Facts: []Fact{{"Machines", "4"}, {"In flight", "1"}, {"Pods that wait", "2"}, {"Cost", "$1.2/h"}, {"Lower bound", "$1/h"}}, Doing: "l from 1 to 2 machines; release 2 of s", Waiting: "room comes free",
		Conditions: []Condition{{"Degraded", "True", "NoMachine", "", false}, {"Paused", "True", "PausedByConfigMap", "", false}},
	}}
	if diff := cmp.Diff(want, Of(s, now).Fleets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestItemsAreThePageInPartsThatAreToldApart(t *testing.T) {
	s := with([]*corev1.Node{aNode("n"), aNode("m")}, aPod("p", "n"), aPod("q", "", waits("no room")))
	s.Fleets = []*v1alpha1.NodeFleet{fleetWith(&v1alpha1.FleetDecision{ID: "1"})}
	s.Migrations = []*v1alpha1.Migration{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m"}}}
	s.Policies = []*v1alpha1.ReplicaPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "r"}}}
	s.Pools = []*v1alpha1.WorkerPool{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "w"}}}
	items, err := Of(s, now).Items()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range items {
		got = append(got, item.Section+"/"+item.Key)
		if !json.Valid(item.JSON) {
			t.Errorf("%s/%s is no JSON: %s", item.Section, item.Key, item.JSON)
		}
	}
	if diff := cmp.Diff([]string{"summary/", "nodes/m", "nodes/n", "pending/no room", "fleets/f", "decisions/NodeFleet/f/1", "migrations/a/m", "policies/a/r", "pools/a/w"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPageChangesNothingOfItsSnapshot(t *testing.T) {
	snapshot := func() *Snapshot {
		s := with([]*corev1.Node{aNode("b"), aNode("a")}, aPod("q", "a"), aPod("p", "", waits("no")), aPod("o", "", waits("no")))
		s.Decisions = []Decision{{Key: "x", At: 1}, {Key: "y", At: 2}}
		return s
	}
	s := snapshot()
	Of(s, now)
	if diff := cmp.Diff(snapshot(), s); diff != "" {
		t.Errorf("it has changed (-before +after):\n%s", diff)
	}
}

func BenchmarkAPageOfALargeCluster(b *testing.B) {
	s := with(nil)
	for i := range 5000 {
		name := fmt.Sprint("node-", i)
		s.Nodes = append(s.Nodes, aNode(name))
		for j := range 20 {
			s.Pods = append(s.Pods, aPod(fmt.Sprintf("p-%d-%d", i, j), name, ends(time.Duration(j)*time.Minute)))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Of(s, now).Items(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAPodIsUnscheduledIfASchedulerSaysSo(t *testing.T) {
	pod := aPod("p", "", func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	})
	if c := Unscheduled(pod); c != nil {
		t.Errorf("%+v, want nothing: it is scheduled", c)
	}
	pod.Status.Conditions[1].Status = corev1.ConditionFalse
	if c := Unscheduled(pod); c != &pod.Status.Conditions[1] {
		t.Errorf("%+v, want its condition", c)
	}
}
