package status

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// saidOf is everything that a page says of a snapshot, as it is sent.
func saidOf(t *testing.T, s *Snapshot) string {
	t.Helper()
	s.Cycle = time.Minute
	items, err := Of(s, now).Items()
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, item := range items {
		fmt.Fprintf(&all, "%s\n", item.JSON)
	}
	return all.String()
}

// TestEachSentenceOfThePageIsPrintedOnlyWhereItIsTrue has each sentence of this package with a page on which it is true,
// and a near one on which it is not.
func TestEachSentenceOfThePageIsPrintedOnlyWhereItIsTrue(t *testing.T) {
	said := func(s *Snapshot) string { return saidOf(t, s) }
	exempt := map[string]string{"not found": "it matches a reason of the scheduler", `^0/(\d+) nodes are available:? ?`: "it matches the scheduler's message"}
	cases := figures(said)
	cases = append(cases, waiting(said)...)
	cases = append(cases, objectsSaid(said)...)
	cases = append(cases, decisionsSaid(said)...)
	for _, k := range knownReasons {
		one, other := said(refused("0/3 nodes are available: 1 node(s) "+k.text+", 2 Insufficient cpu.")), said(refused("0/3 nodes are available: 3 Insufficient cpu."))
		many := said(refused("0/3 nodes are available: 2 node(s) " + k.text + ", 1 Insufficient cpu."))
		cases = append(cases, sentences.Case{k.one, short(one), short(other)}, sentences.Case{k.many, short(many), short(other)})
		if strings.Contains(strings.TrimSpace(k.text), " ") {
			exempt[k.text] = "it matches a reason of the scheduler"
		}
	}
	maps.DeleteFunc(exempt, func(text, _ string) bool {
		_, is := sentences.In(t, "*.go")[text]
		return !is
	})
	sentences.Check(t, []string{"*.go"}, cases, exempt)
}

// short is what a page says in short of the only group of pending pods.
func short(said string) string {
	_, after, _ := strings.Cut(said, `"short":"`)
	text, _, _ := strings.Cut(after, `"`)
	return text
}

// refused has a pod that a scheduler refused with a message.
func refused(message string) *Snapshot { return with(nil, aPod("p", "", waits(message))) }

// figures are the sentences about the totals.
func figures(said func(*Snapshot) string) []sentences.Case {
	machines := func(n int) (all []*corev1.Node) {
		for i := range n {
			all = append(all, aNode(string(rune('a'+i))))
		}
		return all
	}
	priced := func(n, known int) *Snapshot {
		s := &Snapshot{Nodes: machines(n), Prices: map[string]Price{}}
		for i, node := range s.Nodes {
			if s.Prices[node.Name] = (Price{Unpriced: "x"}); i < known {
				s.Prices[node.Name] = Price{MicroDollarsPerHour: 250_000}
			}
		}
		return s
	}
	powered := func(n, of int) *Snapshot { return &Snapshot{Nodes: known(machines(n), of)} }
	audited := func(a *Audit) *Snapshot {
		s := priced(1, 1)
		s.Audit = a
		return s
	}
	same := func(change func(*Audit)) *Audit {
		a := audited1()
		if change != nil {
			change(a)
		}
		return a
	}
	none, two := &Snapshot{}, with(machines(1), aPod("p", "a"), aPod("q", ""))
	return []sentences.Case{
		{"There are no nodes.", said(none), said(priced(1, 1))},
		{"Prices could not be read: %s.", said(&Snapshot{Nodes: machines(1), Audit: &Audit{Error: "no"}}), said(&Snapshot{Nodes: machines(1)})},
		{"Prices are being read.", said(&Snapshot{Nodes: machines(1)}), said(priced(1, 0))},
		{"The only node has no known price.", said(priced(1, 0)), said(priced(2, 0))},
		{"No node has a known price.", said(priced(2, 0)), said(priced(2, 1))},
		{"%s of %s %s no known price and %s not included.", said(priced(2, 1)), said(priced(2, 2))},
		{"The power of the node's machine type is unknown.", said(powered(1, 0)), said(powered(1, 1))},
		{"The power of the nodes' machine types is unknown.", said(powered(2, 0)), said(powered(2, 1))},
		{"Modelled from what pods request. The model covers %s of %s.", said(powered(2, 1)), said(powered(2, 2))},
		{"Modelled from what pods request, for %s.", said(powered(2, 2)), said(powered(2, 1))},
		{"%s ready, %s empty", said(with(machines(2), aPod("p", "a"))), said(with(machines(1), aPod("p", "a")))},
		{"None %s for a node.", said(with(machines(1), aPod("p", "a"))), said(two)},
		{"%s%s %s for a node.", said(two), said(&Snapshot{})[:strings.Index(said(none), "None")]},
		{"%s on a node that %s not listed.", said(with(nil, aPod("p", "gone"))), said(with(machines(1), aPod("p", "a")))},
		{"%s on nodes that %s not listed.", said(with(nil, aPod("p", "gone"), aPod("q", "gone"))), said(with(nil, aPod("p", "gone")))},
		{"No pod waits for a node.", said(none), ""}, // it stands below a list of pods that is empty
		{"No pod waited for a node at {since}.", said(none), ""},
		{"The possible cost is not computed, because --audit-interval is 0.", said(&Snapshot{NoAudits: true}), said(none)},
		{"The possible cost is being computed.", said(none), said(&Snapshot{NoAudits: true})},
		{"The possible cost is unknown: ", said(audited(&Audit{Error: "no list"})), said(audited(same(func(a *Audit) { a.Error = "no list" })))},
		{"The possible cost is as of {at}, at %s.", said(audited(same(nil))), said(audited(&Audit{Error: "no list"}))},
		{" The nodes or their prices have changed since.", said(audited(same(func(a *Audit) { a.Result.Now.Nodes = 2 }))), said(audited(same(nil)))},
		{"Not updated: ", said(audited(same(func(a *Audit) { a.Error = "no list" }))), said(audited(same(nil)))},
		{"One type of new machines", said(audited(same(func(a *Audit) { a.Result.Staying = []audit.Stay{{}} }))), said(audited(same(nil)))},
		{"One machine type", said(audited(same(nil))), said(audited(same(func(a *Audit) { a.Result.Staying = []audit.Stay{{}} })))},
	}
}

// audited1 is an audit of a node that costs $0.25 an hour.
func audited1() *Audit { return audited(250_000, 1, "") }

// waiting are the sentences about pods without a node.
func waiting(said func(*Snapshot) string) []sentences.Case {
	gated := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} }
	untold := said(with(nil, aPod("p", "")))
	sized := func(cpu, memory int64) string {
		p := aPod("p", "")
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			"cpu": *resource.NewMilliQuantity(cpu, resource.DecimalSI), "memory": *resource.NewQuantity(memory, resource.BinarySI),
		}
		return said(with(nil, p))
	}
	full := func(message string) string { return short(said(refused(message))) }
	return []sentences.Case{
		{"no scheduler has reported on it yet", untold, said(refused("no room"))},
		{"a scheduling gate keeps it from being scheduled: ", said(with(nil, aPod("p", "", gated))), untold},
		{"no CPU", sized(0, 0), sized(0, 1)},
		{"no memory", sized(0, 0), sized(1, 0)},
		{" of memory", sized(0, 1<<30), sized(1000, 0)},
		{" too little free ", full("0/2 nodes are available: 2 Insufficient cpu."), full("0/2 nodes are available: 2 Too many pods.")},
		{"other reason", full("0/9 nodes are available: 6 Insufficient cpu, 5 Insufficient memory, 4 Too many pods, 1 node(s) were unschedulable."), full("0/9 nodes are available: 6 Insufficient cpu, 5 Insufficient memory, 4 Too many pods.")},
		{" to fewer nodes", full("0/9 nodes are available: 6 Insufficient cpu, 5 Insufficient memory, 4 Too many pods, 1 node(s) were unschedulable."), full("0/9 nodes are available: 6 Insufficient cpu, 5 Insufficient memory, 4 Too many pods.")},
	}
}

// objectsSaid are the sentences about objects of Supercargo.
func objectsSaid(said func(*Snapshot) string) []sentences.Case {
	policy := func(status v1alpha1.ReplicaPolicyStatus, slo time.Duration) string {
		status.ObservedGeneration = 1
		o := &v1alpha1.ReplicaPolicy{Spec: v1alpha1.ReplicaPolicySpec{MinReplicas: 1, MaxReplicas: 9}, Status: status}
		if slo > 0 {
			o.Spec.SLO = &v1alpha1.ServiceLevel{ResponseTime: *lasting(slo)}
		}
		return said(&Snapshot{Policies: []*v1alpha1.ReplicaPolicy{o}})
	}
	seen := func(response time.Duration) v1alpha1.ReplicaPolicyStatus {
		return v1alpha1.ReplicaPolicyStatus{LastObservation: &v1alpha1.ReplicaObservation{ArrivalRate: "1", ResponseTime: lasting(response), QueueLength: "2"}}
	}
	pool := func(generation int64, queue *v1alpha1.WorkQueueStatus, shortage string) string {
		return said(&Snapshot{Pools: []*v1alpha1.WorkerPool{{Status: v1alpha1.WorkerPoolStatus{ObservedGeneration: generation, Queue: queue, ShortageCores: shortage}}}})
	}
	fleet := func(s v1alpha1.NodeFleetStatus) string {
		return said(&Snapshot{Fleets: []*v1alpha1.NodeFleet{{Status: s}}})
	}
	moved := func(m v1alpha1.MigrationMeasured, done ...string) string {
		o := &v1alpha1.Migration{Status: v1alpha1.MigrationStatus{Phase: v1alpha1.MigrationSucceeded, Measured: &m}}
		for _, name := range done {
			o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionTrue})
		}
		return said(&Snapshot{Migrations: []*v1alpha1.Migration{o}})
	}
	return []sentences.Case{
		{" has not reported on it yet.", fleet(v1alpha1.NodeFleetStatus{}), fleet(v1alpha1.NodeFleetStatus{ObservedGeneration: 1})},
		{"In flight", fleet(v1alpha1.NodeFleetStatus{ObservedGeneration: 1, InFlight: 1}), fleet(v1alpha1.NodeFleetStatus{ObservedGeneration: 1})},
		{"Pods that wait", fleet(v1alpha1.NodeFleetStatus{ObservedGeneration: 1}), fleet(v1alpha1.NodeFleetStatus{PendingPods: 1})},
		{"Lower bound", fleet(v1alpha1.NodeFleetStatus{ObservedGeneration: 1, Cost: v1alpha1.FleetCost{LowerBoundDollarsPerHour: "1"}}), fleet(v1alpha1.NodeFleetStatus{ObservedGeneration: 1, Cost: v1alpha1.FleetCost{DollarsPerHour: "1"}})},
		{"Requests per second", policy(seen(time.Second), 0), policy(v1alpha1.ReplicaPolicyStatus{}, 0)},
		{"Response time", policy(seen(time.Second), 0), policy(v1alpha1.ReplicaPolicyStatus{LastObservation: &v1alpha1.ReplicaObservation{ArrivalRate: "1"}}, time.Second)},
		{"Requests in progress", policy(seen(time.Second), 0), policy(v1alpha1.ReplicaPolicyStatus{}, 0)},
		{"The response time exceeds the target.", policy(seen(2*time.Second), time.Second), policy(seen(time.Second), time.Second)},
		{"not decided yet", policy(v1alpha1.ReplicaPolicyStatus{}, 0), policy(v1alpha1.ReplicaPolicyStatus{DesiredReplicas: 1}, 0)},
		{"%d of %d ready", policy(v1alpha1.ReplicaPolicyStatus{}, 0), said(&Snapshot{Policies: []*v1alpha1.ReplicaPolicy{{}}})},
		{"Tasks that wait", pool(1, nil, ""), pool(0, nil, "")},
		{"Cores missing", pool(1, &v1alpha1.WorkQueueStatus{}, "3"), pool(1, nil, "3")},
		{"frozen for %s s", moved(v1alpha1.MigrationMeasured{FrozenSeconds: "1.5"}), moved(v1alpha1.MigrationMeasured{TotalSeconds: "9"})},
		{"%s s in all", moved(v1alpha1.MigrationMeasured{TotalSeconds: "9"}), moved(v1alpha1.MigrationMeasured{FrozenSeconds: "1.5"})},
		{"To come", said(&Snapshot{Migrations: []*v1alpha1.Migration{{}}}), moved(v1alpha1.MigrationMeasured{}, steps...)},
	}
}

// decisionsSaid are the sentences about decisions.
func decisionsSaid(said func(*Snapshot) string) []sentences.Case {
	fleet := func(change func(*v1alpha1.FleetDecision)) string {
		d := &v1alpha1.FleetDecision{ID: "1"}
		change(d)
		return said(&Snapshot{Fleets: []*v1alpha1.NodeFleet{fleetWith(d)}})
	}
	bought := func(b v1alpha1.DecidedPurchase) string {
		return fleet(func(d *v1alpha1.FleetDecision) { d.Buys = []v1alpha1.DecidedPurchase{b} })
	}
	released := func(r v1alpha1.DecidedRelease) string {
		return fleet(func(d *v1alpha1.FleetDecision) { d.Releases = []v1alpha1.DecidedRelease{r} })
	}
	intends := func(i *v1alpha1.FleetIntent) string {
		return said(&Snapshot{Fleets: []*v1alpha1.NodeFleet{{Status: v1alpha1.NodeFleetStatus{Intent: i}}}})
	}
	policy := func(d *v1alpha1.ReplicaDecision) string {
		return said(&Snapshot{Policies: []*v1alpha1.ReplicaPolicy{{Status: v1alpha1.ReplicaPolicyStatus{LastDecision: d}}}})
	}
	pool := func(d *v1alpha1.WorkerDecision) string {
		return said(&Snapshot{Pools: []*v1alpha1.WorkerPool{{Status: v1alpha1.WorkerPoolStatus{LastDecision: d}}}})
	}
	none := said(&Snapshot{})
	plain := fleet(func(*v1alpha1.FleetDecision) {})
	rate := v1alpha1.ReplicaOutcome{ArrivalRate: "5"}
	return []sentences.Case{
		{"dollars per hour", plain, none},
		{"ready after", plain, none},
		{"pods still pending", plain, none},
		{"buy %d %s for %s: %s", bought(v1alpha1.DecidedPurchase{Flavor: "m", Count: 1}), released(v1alpha1.DecidedRelease{Node: "n"})},
		{"%s: $%s/h each, %s to start, paid for %s in all: $%s until empty", bought(v1alpha1.DecidedPurchase{Flavor: "m", DollarsUntilEmpty: "1"}), bought(v1alpha1.DecidedPurchase{Flavor: "m"})},
		{"%s: keeping it for another billing period costs $%s, starting another machine $%s", released(v1alpha1.DecidedRelease{Node: "n", KeepDollars: "1"}), released(v1alpha1.DecidedRelease{Node: "n", SavesDollars: "1"})},
		{"%s: saves $%s and costs $%s", released(v1alpha1.DecidedRelease{Node: "n", SavesDollars: "1"}), released(v1alpha1.DecidedRelease{Node: "n", KeepDollars: "1"})},
		{"the machines to buy cost $%s/h; the lower bound for the same pods is $%s/h", fleet(func(d *v1alpha1.FleetDecision) { d.PricePerHour = "1" }), plain},
		{"emptying or exchanging machines saves $%s and costs $%s", fleet(func(d *v1alpha1.FleetDecision) { d.SavesDollars = "1" }), plain},
		{"waiting saves $%s: %s", fleet(func(d *v1alpha1.FleetDecision) { d.Deferral = &v1alpha1.FleetDeferral{SavesDollars: "1"} }), plain},
		{"%s from %d to %s", intends(&v1alpha1.FleetIntent{Orders: []v1alpha1.FleetOrder{{Flavor: "m", To: 1}}}), intends(&v1alpha1.FleetIntent{})},
		{"release %d of %s", intends(&v1alpha1.FleetIntent{Releases: []v1alpha1.FleetRelease{{Flavor: "m", Machines: []string{"n"}}}}), intends(&v1alpha1.FleetIntent{})},
		{"from %d to %s", policy(&v1alpha1.ReplicaDecision{From: 1, To: 2}), pool(&v1alpha1.WorkerDecision{Add: 1})},
		{"requests per second", policy(&v1alpha1.ReplicaDecision{Expected: rate}), policy(&v1alpha1.ReplicaDecision{})},
		{"response time", policy(&v1alpha1.ReplicaDecision{Expected: v1alpha1.ReplicaOutcome{ResponseTime: lasting(time.Second)}}), policy(&v1alpha1.ReplicaDecision{Expected: rate})},
		{"all ready after", policy(&v1alpha1.ReplicaDecision{}), none},
		{" of flavor ", pool(&v1alpha1.WorkerDecision{Add: 1, Flavor: "m"}), pool(&v1alpha1.WorkerDecision{Add: 1})},
		{"%s waited, %d %s expected to wait at the end of the initialisation time", pool(&v1alpha1.WorkerDecision{}), none},
		{"done after", pool(&v1alpha1.WorkerDecision{ExpectedReady: lasting(time.Second)}), pool(&v1alpha1.WorkerDecision{})},
	}
}
