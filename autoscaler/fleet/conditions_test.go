package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetobserve"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// saidBy runs a fleet in a model, and returns all Events, conditions and reasons in the status at the end.
func saidBy(m *model, run time.Duration) string {
	m.t.Helper()
	recorder := events.NewFakeRecorder(1000)
	m.r.Events = recorder
	m.run(run, "f")
	close(recorder.Events)
	var all []string
	for e := range recorder.Events {
		all = append(all, e)
	}
	m.r.Events = &events.FakeRecorder{}
	return strings.Join(append(all, m.stated()), "\n")
}

// stated returns the conditions and reasons in the status of the fleet.
func (m *model) stated() string {
	var all []string
	s := m.fleet("f").Status
	for _, c := range s.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	for _, f := range s.Flavors {
		all = append(all, f.Name+" "+f.Message)
	}
	for _, k := range s.Kept {
		all = append(all, k.Node+" "+k.Reason)
	}
	if d := s.LastDecision; d != nil {
		for _, r := range d.Rejected {
			all = append(all, r.Name+" "+r.Reason)
		}
	}
	return strings.Join(all, "\n")
}

// daemonOf adds a DaemonSet to the cluster, whose pods request CPU.
func (m *model) daemonOf(milliCPU int64) {
	m.must(m.client.Create(m.t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "logs"},
		Spec:       appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: fixtures.Pod("logs", milliCPU, testGiB).Spec}},
	}))
}

// TestALimitThatOnlyAWholeMachineExceedsIsReported has a limit between what pods can use of a machine and all of it.
// A smaller flavor is bought instead.
func TestALimitThatOnlyAWholeMachineExceedsIsReported(t *testing.T) {
	for _, smaller := range []bool{false, true} {
		flavors := smalls()
		if smaller {
			flavors = append(flavors, modelFlavor("dear", 3, 16, 500_000))
		}
		m := newModel(t, alone(func(f *v1alpha1.NodeFleet) { f.Spec.Limits.CPU = new(resource.MustParse("3700m")) }), flavors)
		m.daemonOf(500)
		m.add(testPod("p", 2400, 1024, time.Hour))
		says := saidBy(m, 5*minute)
		if want := "Limited=True LimitReached one more machine of flavor small would exceed the limit spec.limits.cpu"; strings.Contains(says, want) == smaller {
			t.Errorf("with a smaller flavor %v, it says\n%s", smaller, says)
		}
		if smaller != (m.made == 1) {
			t.Errorf("with a smaller flavor %v, %d machines are made", smaller, m.made)
		}
	}
}

func TestAPodThatWaitsForAFlavorAtItsMaximumIsLimited(t *testing.T) {
	for _, most := range []int{1, 2} {
		flavors := smalls()
		flavors[0].Max = most
		m := newModel(t, alone(nil), flavors)
		m.add(testPod("p", 3000, 1024, time.Hour), testPod("q", 3000, 1024, time.Hour))
		m.run(5*minute, "f")
		want := "True LimitReached"
		if most == 2 {
			want = "False WithinLimits"
		}
		m.checkCondition(v1alpha1.FleetLimited, want)
	}
}

// TestPodsForWhichEnoughMachinesAreOnOrderAreNotLimited has a decision that buys nothing for two pods.
func TestPodsForWhichEnoughMachinesAreOnOrderAreNotLimited(t *testing.T) {
	f := fleetNamed("f")
	r := &round{Reconciler: &Reconciler{}, fleet: f, now: epoch, report: &conditions.Reporter{Object: f, Conditions: &f.Status.Conditions, Now: epoch, Last: map[string]string{}}}
	d := &decision{seen: &fleetobserve.Observation{State: cluster.State{Pending: make([]cluster.Pod, 2)}}}
	d.actions.Fleet.Withheld = &fleetdecide.Withheld{Pods: []string{"a", "b"}, Machines: 2, OnOrder: 1, Needed: 1}
	r.recordRejected(d)
	want := "no machine is bought for 2 pods: 1 machine is on order, and 1 would be enough for all waiting pods if they had come at once"
	if c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FleetLimited); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "EnoughOnOrder" || c.Message != want {
		t.Errorf("it says %+v, want %q", c, want)
	}
	d.actions.Fleet.Limit = "one more machine would exceed the limit spec.limits.machines"
	r.report.Events = &events.FakeRecorder{}
	r.recordRejected(d)
	if c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FleetLimited); c.Reason != "LimitReached" {
		t.Errorf("at a limit it says %+v", c)
	}
}

// TestALimitIsNotTheReasonForAPodThatNoFlavorHolds has used up the limit.
func TestALimitIsNotTheReasonForAPodThatNoFlavorHolds(t *testing.T) {
	m := newModel(t, alone(func(f *v1alpha1.NodeFleet) { f.Spec.Limits.Machines = new(int32(1)) }), smalls())
	m.add(testPod("p", 3000, 1024, time.Hour))
	m.run(3*minute, "f")
	m.add(testPod("huge", 30_000, 1024, time.Hour))
	says := saidBy(m, 3*minute)
	m.checkCondition(v1alpha1.FleetLimited, "False WithinLimits")
	if want := "default/huge: 0 of 1 flavors: 1 too small (CPU)"; !strings.Contains(says, want) {
		t.Errorf("it does not say %q but\n%s", want, says)
	}
	m.add(testPod("next", 3000, 1024, time.Hour))
	m.run(3*minute, "f")
	m.checkCondition(v1alpha1.FleetLimited, "True LimitReached")
}

// TestEachSentenceOfAFleetIsSaidWhereItIsTrueAndNotWhereItIsNot has all sentences of its conditions and Events, except those
// of decisions, which have a table of their own.
func TestEachSentenceOfAFleetIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	scene := func(run time.Duration, flavors []provider.Flavor, change func(*model)) string {
		m := newModel(t, alone(nil), flavors)
		m.add(testPod("p", 3000, 1024, time.Hour))
		if change != nil {
			change(m)
		}
		return saidBy(m, run)
	}
	flavored := func(change func(*provider.Flavor)) []provider.Flavor {
		flavors := append(smalls(), modelFlavor("other", 4, 16, 110_000))
		change(&flavors[1])
		return flavors
	}
	well := scene(5*minute, smalls(), nil)
	unpriced := func(f *provider.Flavor) { f.HasPrice = false }
	priceless := scene(5*minute, flavored(unpriced), nil)
	twelve := smalls()
	for i := range 11 {
		twelve = append(twelve, modelFlavor(fmt.Sprint("o", i), 4, 16, 0))
		unpriced(&twelve[i+1])
	}
	many := scene(5*minute, twelve, nil)
	openStack := (&fleetobserve.Stock{
		Fleet:     &v1alpha1.NodeFleet{Spec: v1alpha1.NodeFleetSpec{Provider: v1alpha1.FleetOpenStack}},
		Inventory: &provider.Inventory{Flavors: []provider.Flavor{{Name: "b"}}},
	}).SetPrices(&fleetobserve.Prices{})
	inZone := (&fleetobserve.Stock{
		Fleet:     &v1alpha1.NodeFleet{Spec: v1alpha1.NodeFleetSpec{Provider: v1alpha1.FleetKarpenter}},
		Inventory: &provider.Inventory{Flavors: []provider.Flavor{{Name: "b", InstanceType: "b", PricedAs: "b"}}},
	}).SetPrices(catalogued(t, "b@z,2,4,0.1"))
	broken := scene(5*minute, flavored(func(f *provider.Flavor) { unpriced(f); f.Problem = "it is broken" }), nil)
	kept := scene(5*minute, flavored(func(f *provider.Flavor) { unpriced(f); f.Want, f.Min = 1, 1 }), nil)
	failing := func(part string) func(*model) {
		return func(m *model) {
			m.before = func(what string) error {
				if strings.Contains(what, part) {
					return errors.New("it does not work")
				}
				return nil
			}
		}
	}
	emptying := func(change func(*model)) string {
		m := emptied(t)
		if change != nil {
			change(m)
		}
		return saidBy(m, 30*second)
	}
	releases, refused := emptying(nil), emptying(failing("release"))
	uncordoned := emptying(func(m *model) { m.add(testPod("next", 3000, 1024, time.Hour)) })
	undrained := emptying(func(m *model) {
		failing("patch node")(m)
		m.add(testPod("next", 3000, 1024, time.Hour))
	})
	late := scene(12*minute, []provider.Flavor{modelFlavor("never", 4, 16, 10_000)}, nil)
	unknown := func(n int) string {
		m := newModel(t, alone(nil), smalls())
		for i := range n {
			m.add(testPod(fmt.Sprint("p", i), 3000, 1024, time.Hour))
		}
		m.run(5*minute, "f")
		for _, machine := range m.machines {
			machine.Node, machine.comes, machine.Unidentified = "", -1, "server "+machine.Name+": two nodes say to be on it"
		}
		return saidBy(m, 20*minute)
	}
	one, two := unknown(1), unknown(2)
	dead := func(n int) string {
		m := newModel(t, alone(nil), smalls())
		m.deletes()
		for i := range n {
			m.add(testPod(fmt.Sprint("p", i), 3000, 1024, 10*time.Hour))
		}
		m.run(5*minute, "f")
		for _, machine := range m.machines {
			m.setReady("node-"+machine.Name, corev1.ConditionUnknown)
		}
		return saidBy(m, 20*minute)
	}
	deadOne, deadTwo := dead(1), dead(2)
	limited := scene(5*minute, smalls(), func(m *model) {
		f := m.fleet("f")
		f.Spec.Limits.Machines = new(int32(0))
		m.must(m.client.Update(t.Context(), f))
	})
	unfit := scene(5*minute, smalls(), func(m *model) { m.add(testPod("huge", 30_000, 1024, time.Hour)) })
	unfitTwo := scene(5*minute, smalls(), func(m *model) {
		m.add(testPod("huge", 30_000, 1024, time.Hour), testPod("vast", 60_000, 1024, time.Hour))
	})
	autoscaled := func(written string) string {
		return scene(5*minute, smalls(), func(m *model) {
			m.must(m.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: "kube-system", Name: "cluster-autoscaler-status", Annotations: map[string]string{"cluster-autoscaler.kubernetes.io/last-updated": written},
			}}))
		})
	}
	claimedBy := func(older string, template bool) string {
		name := func(f *v1alpha1.NodeFleet, namespace string) *v1alpha1.NodeFleet {
			f.Spec.ClusterAPI.Namespace = namespace
			if template {
				f.Spec.ClusterAPI.Templates = []v1alpha1.MachineTemplate{{MachineDeployment: "t"}}
			}
			return f
		}
		first := name(fleetNamed("older"), older)
		first.CreationTimestamp = metav1.NewTime(first.CreationTimestamp.Add(-time.Hour))
		m := newModel(t, []*v1alpha1.NodeFleet{first, name(fleetNamed("f"), "machines")}, smalls())
		m.run(minute, "older", "f")
		return m.stated()
	}
	held := scene(5*minute, smalls(), func(m *model) {
		pod := testPod("claim", 100, 100, time.Hour)
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}}
		m.add(pod)
	})
	needed := func(nics string) string { // beside pods that request as many kinds of GPUs as plans consider
		asking := func(name string, resources corev1.ResourceName) *corev1.Pod {
			p := testPod(name, 100, 100, time.Hour)
			p.Spec.Containers[0].Resources.Requests[resources] = resource.MustParse("1")
			return p
		}
		pod := asking("nic", "example.com/nic")
		pod.Status.Conditions = []corev1.PodCondition{waitsSince(epoch)}
		node := testNode("n", modelFlavor("small", 4, 16, 1).Size, epoch)
		node.Status.Allocatable["example.com/nic"] = resource.MustParse(nics)
		w := &world.World{Nodes: map[string]*corev1.Node{"n": node}, Pods: []*corev1.Pod{pod}}
		for i := range packing.Slots {
			w.Pods = append(w.Pods, asking(fmt.Sprint("gpu-", i), corev1.ResourceName(fmt.Sprint("example.com/gpu-", i))))
		}
		self := fleetobserve.StockOf(fleetNamed("f"), &provider.Inventory{})
		return fleetobserve.Observe(w, []*fleetobserve.Stock{self}, self, runtimes.NewLearner(), epoch).State.Nodes[0].KeptFor
	}
	asked := func(observe func(context.Context) (*provider.Inventory, error)) string {
		r := &round{Reconciler: &Reconciler{Clock: clocktesting.NewFakePassiveClock(epoch)}, fleet: fleetNamed("f"), now: epoch}
		_, _, err := r.inventory(t.Context(), r.fleet, &oneProvider{observe: observe})
		return fmt.Sprint(err)
	}
	offers := func(flavor provider.Flavor, rows ...v1alpha1.FlavorStatus) string {
		f := fleetNamed("f")
		f.Status.Flavors = rows
		w := &world.World{Daemons: []appsv1.DaemonSet{{Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: fixtures.Pod("logs", 100, testGiB).Spec}}}}}
		offers, _ := fleetobserve.Offers(w, f, &provider.Inventory{Flavors: []provider.Flavor{flavor}}, &fleetobserve.Prices{}, epoch)
		return offers[0].Hold
	}
	full, until := modelFlavor("full", 4, 16, 1), metav1.NewTime(epoch.Add(minute))
	full.Max = 0
	none := func(spec v1alpha1.NodeFleetSpec) string {
		r := &round{fleet: &v1alpha1.NodeFleet{Spec: spec}}
		_, err := r.takeStock(nil, &fleetobserve.Stock{Inventory: &provider.Inventory{}})
		return fmt.Sprint(err)
	}
	noFlavor := none(v1alpha1.NodeFleetSpec{})
	noDeployment := none(v1alpha1.NodeFleetSpec{ClusterAPI: &v1alpha1.ClusterAPIFlavors{Namespace: "machines"}})
	noType := none(v1alpha1.NodeFleetSpec{ClusterAPI: &v1alpha1.ClusterAPIFlavors{Templates: []v1alpha1.MachineTemplate{{}}}})

	passedOver := func(class v1alpha1.FleetClass, priority int32) string {
		f := fleetNamed("f")
		f.Spec.Class = class
		return fleetobserve.PassedOver(prioritized(priority, testPod("p", 100, 100, 0)), f)
	}
	leaving := func() string {
		r := &round{fleet: releasing("f")}
		return r.endRetirement(t.Context(), &provider.Inventory{Machines: []provider.Machine{{Name: "m", Flavor: "small"}}}, "").Error()
	}
	sentences.Check(t, []string{
		"status.go", "inputs.go", "outage.go", "drain.go", "act.go", "retire.go", "fleetobserve/passedover.go",
		"fleetobserve/observe.go", "fleetobserve/offers.go", "fleetobserve/prices.go", "fleetobserve/stock.go", "fleetobserve/summary.go",
	}, []sentences.Case{
		// Conditions.
		{"%s, %d in flight, %s pending, $%s/h", well, asked(down)},
		{" without %s of unknown price", kept, well},
		{"no flavor is in back-off", well, late},
		{"in back-off: ", late, well},
		{"every flavor that can be bought has a price", broken, priceless},
		{"no pod waits because of a limit", well, limited},
		{"%s not identified, so %s kept with the pods there: %s", one, well},
		{"the node of 1 machine is", one, two},
		{"the nodes of %d machines are", two, one},
		{"it is", one, two},
		{"they are", two, one},
		{"%s kept and billed although %s not ready: %s", deadOne, well},
		{"1 machine is", deadOne, deadTwo},
		{"its node is", deadOne, deadTwo},
		{"%d machines are", deadTwo, deadOne},
		{"their nodes are", deadTwo, deadOne},
		{"no machine is bought or released, because the last request to the fleet's provider failed: ", asked(down), asked(inventoryOf("a"))},
		{"a cluster-autoscaler runs in this cluster, or has run within ten minutes (ConfigMap kube-system/cluster-autoscaler-status was written at ",
			autoscaled("2026-01-01 00:00:00 +0000 UTC"), autoscaled("2025-12-31 23:49:00 +0000 UTC")},
		{"): the fleet takes over ten minutes after it has stopped", autoscaled("2026-01-01 00:00:00 +0000 UTC"), autoscaled("2025-12-31 23:49:00 +0000 UTC")},
		{"spec.clusterAPI.templates: MachineDeployment %s is already a template of NodeFleet %s: create another for this fleet", claimedBy("machines", true), claimedBy("elsewhere", true)},
		{"the project has access to no flavor: have flavors created or shared", noFlavor, noDeployment},
		{"no MachineDeployment in namespace %s matches spec.clusterAPI", noDeployment, noType},
		{"spec.pricing contains no instance type", noType, noDeployment},

		// Flavors.
		{"it belongs to NodeFleet %s", claimedBy("machines", false), claimedBy("elsewhere", false)},
		{"no price is known", priceless, well},
		{"no price is known for ", priceless, well},
		{", so none is bought: ", priceless, well},
		{" and %d more", many, priceless},
		{"set the annotation ", priceless, openStack},
		{" on the MachineDeployment, or ", priceless, openStack},
		{"add it to the catalogue that spec.pricing.catalogue names", openStack, well},
		{". %s has a price in its zone: to buy there, require the zone in spec.karpenter.requirements", inZone, openStack},
		{"DaemonSet pods and static pods leave no room on it", offers(modelFlavor("tiny", 0, 16, 1)), offers(modelFlavor("fits", 4, 16, 1))},
		{"quota: it has its maximum of ", offers(full), offers(modelFlavor("fits", 4, 16, 1))},
		{"in back-off until %s: its last machines did not become usable, or did not stay so",
			offers(modelFlavor("failed", 4, 16, 1), v1alpha1.FlavorStatus{Name: "failed", BackOffUntil: &until}), offers(modelFlavor("failed", 4, 16, 1), v1alpha1.FlavorStatus{Name: "failed", Failures: 1})},

		// Pods and machines.
		{"%d pods, the first is %s", unfitTwo, unfit},
		{"no machine is planned for it: ", held, well},
		{"pod %s needs it, and no machine is bought for that pod", needed("1"), needed("0")},
		{"no NodeFleet is known to own it", needed("0"), needed("1")},
		{"node %s: %v; will retry", undrained, uncordoned},
		{"%v; will retry", refused, releases},
		{"released machine %s of node %s (%s)", releases, refused},
		{"the fleet is being deleted: %s %s left to release%s%s", leaving(), well},
		{"its machines accept only %s pods, and this pod is of class %v", passedOver(v1alpha1.FleetBatch, 0), passedOver(v1alpha1.FleetAny, 0)},
		{"its priority is %d, and no machine is bought for pods below %d (spec.scaling.expendablePodsPriorityCutoff)", passedOver(v1alpha1.FleetAny, -11), passedOver(v1alpha1.FleetAny, -10)},
	}, map[string]string{
		"Dropping an unfinished intent, its remaining changes will be decided again": "a line of the log",
		"Failed to list the machines of another fleet, using the last known ones":    "a line of the log",
		"Failed to uncordon a node of a deleted fleet, will retry":                   "a line of the log",
		"the price catalogue in ConfigMap %s/%s":                                     "part of an error",
	})
}

// TestAnUncordoningThatFailedIsNotTold has an API server that refuses to change nodes.
func TestAnUncordoningThatFailedIsNotTold(t *testing.T) {
	for _, fails := range []bool{false, true} {
		m := emptied(t)
		m.add(testPod("next", 3000, 1024, time.Hour))
		m.before = func(what string) error {
			if fails && strings.Contains(what, "patch node") {
				return errors.New("it does not work")
			}
			return nil
		}
		if text := saidBy(m, 30*second); strings.Contains(text, "uncordoned node") == fails {
			t.Errorf("with a failure %v, it says\n%s", fails, text)
		}
	}
}

// freshNodes changes the nodes that a reader lists.
type freshNodes struct {
	client.Reader
	nodes func(*corev1.NodeList)
}

func (l freshNodes) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := l.Reader.List(ctx, list, options...)
	if nodes, is := list.(*corev1.NodeList); is {
		l.nodes(nodes)
	}
	return err
}

// TestAMachineThatJoinedJustNowIsNotCalledAbandoned has a machine that is late by the cache, and whose node the API server
// has by then.
func TestAMachineThatJoinedJustNowIsNotCalledAbandoned(t *testing.T) {
	for _, joins := range []bool{false, true} {
		m := newModel(t, alone(nil), []provider.Flavor{modelFlavor("never", 4, 16, 10_000)})
		m.add(testPod("p", 3000, 1024, time.Hour))
		m.r.Live = freshNodes{m.r.Live, func(nodes *corev1.NodeList) {
			for _, machine := range m.machines {
				if joins {
					machine.Node = "node-" + machine.Name
					nodes.Items = append(nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Node}})
				}
			}
		}}
		if text := saidBy(m, 12*minute); strings.Contains(text, "MachineAbandoned") == joins {
			t.Errorf("joined %v, it says\n%s", joins, text)
		}
	}
}

// TestADecisionDoesNotRejectAFlavorForAWarning has a machine that is bought although it endangers pods.
func TestADecisionDoesNotRejectAFlavorForAWarning(t *testing.T) {
	hasty := modelFlavor("hasty", 4, 16, 10_000)
	hasty.Warning = "machines go with the pods on them"
	m := newModel(t, alone(nil), []provider.Flavor{hasty})
	m.add(testPod("p", 3000, 1024, time.Hour))
	m.run(5*minute, "f")
	if d := m.fleet("f").Status.LastDecision; d == nil || len(d.Buys) != 1 || len(d.Rejected) > 0 {
		t.Errorf("the decision is %+v", d)
	}
}

// catalogued returns the prices of a catalogue with one row.
func catalogued(t *testing.T, row string) *fleetobserve.Prices {
	t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "prices"}, Data: map[string]string{"flavors.csv": "name,cpu,memory_gib,price_per_hour\n" + row + "\n"}}
	known, err := fleetobserve.ReadPrices(t.Context(), fake.NewClientBuilder().WithObjects(m).Build(), &v1alpha1.FleetPricing{
		Catalogue: &v1alpha1.PriceCatalogue{Namespace: "n", Name: "prices", Key: "flavors.csv"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}
