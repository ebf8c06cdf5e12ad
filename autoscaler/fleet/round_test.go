package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

func smalls() []provider.Flavor { return []provider.Flavor{modelFlavor("small", 4, 16, 100_000)} }

func alone(change func(*v1alpha1.NodeFleet)) []*v1alpha1.NodeFleet {
	f := fleetNamed("f")
	if change != nil {
		change(f)
	}
	return []*v1alpha1.NodeFleet{f}
}

// did reports whether some write was of that kind.
func (m *model) did(what string) bool {
	return slices.ContainsFunc(m.log, func(line string) bool { return strings.Contains(line, what) })
}

// checkCondition compares a condition written as "STATUS REASON".
func (m *model) checkCondition(kind, want string) {
	m.t.Helper()
	c := meta.FindStatusCondition(m.fleet("f").Status.Conditions, kind)
	if c == nil || string(c.Status)+" "+c.Reason != want {
		m.t.Errorf("condition %s is %+v, want %s", kind, c, want)
	}
}

func (m *model) checkOutcome(want string) {
	m.t.Helper()
	if got := m.outcome(); got != want {
		m.t.Errorf("%s\nwant\n%s\n%s", got, want, strings.Join(m.log, "\n"))
	}
}

func TestAFleetThatObservesChangesNothingButItsStatus(t *testing.T) {
	m := newModel(t, alone(func(f *v1alpha1.NodeFleet) { f.Spec.Mode = v1alpha1.FleetObserve }), smalls())
	m.add(testPod("p", 3000, 1024, time.Hour))
	m.run(2*minute, "f")
	for _, line := range m.log {
		if !strings.Contains(line, "update status of f") {
			t.Error(line)
		}
	}
	d := m.fleet("f").Status.LastDecision
	if d == nil || d.Mode != v1alpha1.FleetObserve || len(d.Buys) != 1 || d.Buys[0].Flavor != "small" || !strings.HasPrefix(d.Summary, "would buy 1 small") {
		t.Errorf("the decision is %+v", d)
	}
}

func TestADryRunWritesNothing(t *testing.T) {
	m := newModel(t, alone(nil), smalls())
	m.r.DryRun = true
	m.add(testPod("p", 3000, 1024, time.Hour))
	node := testNode("marked", m.flavors[0].Size, epoch) // cordoned by a fleet that no longer exists
	node.Annotations = map[string]string{v1alpha1.AnnotationDraining: "gone/2026-01-01T00:00:00Z"}
	node.Spec.Unschedulable = true
	m.must(m.client.Create(t.Context(), node))
	m.run(2*minute, "f")
	if len(m.log) > 0 {
		t.Errorf("writes:\n%s", strings.Join(m.log, "\n"))
	}
}

func TestAFlavorWithoutAPriceIsNotBought(t *testing.T) {
	flavors := append(smalls(), modelFlavor("unpriced", 4, 16, 0))
	flavors[1].HasPrice = false
	m := newModel(t, alone(nil), flavors)
	m.add(testPod("p", 3000, 1024, time.Hour))
	m.run(minute, "f")
	m.checkCondition(v1alpha1.FleetPriced, "False PriceUnknown")
	m.checkCondition(v1alpha1.FleetReady, "True Reconciled")
	if small := m.flavor("small"); m.made != 1 || small.Want != 1 {
		t.Errorf("%d machines were bought, %d of them small, want one that is", m.made, small.Want)
	}
}

func TestAFleetWithoutPricesIsLeftUnchanged(t *testing.T) {
	flavors := smalls()
	flavors[0].HasPrice = false
	m := newModel(t, alone(nil), flavors)
	m.add(testPod("p", 3000, 1024, time.Hour))
	m.run(minute, "f")
	m.checkCondition(v1alpha1.FleetPriced, "False PriceUnknown")
	m.checkCondition(v1alpha1.FleetReady, "False PriceUnknown")
	if m.made > 0 {
		t.Errorf("%d machines were bought", m.made)
	}
}

func TestAFleetHoldsWhileAClusterAutoscalerRuns(t *testing.T) {
	m := newModel(t, alone(nil), smalls())
	m.add(testPod("p", 3000, 1024, time.Hour))
	m.must(m.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "cluster-autoscaler-status",
		Annotations: map[string]string{"cluster-autoscaler.kubernetes.io/last-updated": "2026-01-01 00:00:00.123456789 +0000 UTC"},
	}}))
	m.run(9*minute, "f")
	m.checkCondition(v1alpha1.FleetReady, "False ClusterAutoscalerActive")
	if m.made > 0 {
		t.Errorf("%d machines were bought", m.made)
	}
	m.run(3*minute, "f") // it has not written for ten minutes
	if m.made != 1 {
		t.Errorf("%d machines were bought after it had gone", m.made)
	}
}

func TestWhatSomebodyElseHasChangedIsDecidedAgain(t *testing.T) {
	m := newModel(t, alone(nil), smalls())
	m.before = func(what string) error {
		if strings.Contains(what, "buy") {
			m.before = nil
			m.flavors[0].Want += 2 // another client scales the MachineDeployment up
		}
		return nil
	}
	m.add(testPod("p", 3000, 1024, time.Hour))
	for m.before != nil {
		m.pass(second)
		m.round("f")
	}
	m.checkCondition(v1alpha1.FleetReady, "True Retrying")
	if got := m.fleet("f").Status.Intent; got != nil {
		t.Errorf("the intent %+v is left", got)
	}
	m.run(10*minute, "f")
	m.checkOutcome("1 pods run, 0 wait, 0 have ended, lost []; small 1 of 1, at most 2; 2 were made, 0 nodes are cordoned")
	m.checkCondition(v1alpha1.FleetReady, "True Reconciled")
	if got := m.fleet("f").Status.Intent; got != nil {
		t.Errorf("the intent %+v is left", got)
	}
}

// emptied has one machine whose pod has ended and whose node has just been cordoned.
func emptied(t *testing.T) *model {
	t.Helper()
	m := newModel(t, alone(nil), smalls())
	pod := testPod("early", 3000, 1024, time.Hour)
	pod.Annotations["ends-after"] = "2m"
	m.add(pod)
	for range 500 {
		m.pass(second)
		if m.round("f"); m.did("patch node-m01") {
			return m
		}
	}
	t.Fatalf("it is not closed:\n%s", strings.Join(m.log, "\n"))
	return nil
}

func TestANodeThatIsWantedAgainIsOpened(t *testing.T) {
	m := emptied(t)
	m.add(testPod("late", 3000, 1024, time.Hour))
	m.run(5*minute, "f")
	m.checkOutcome("1 pods run, 0 wait, 1 have ended, lost []; small 1 of 1, at most 1; 1 were made, 0 nodes are cordoned")
}

func TestANodeWithAPodThatMustStayIsOpened(t *testing.T) {
	m := emptied(t)
	bold := testPod("bold", 100, 100, 0) // it tolerates cordoned nodes
	bold.Spec.NodeName, bold.Status = "node-m01", corev1.PodStatus{Phase: corev1.PodRunning, StartTime: new(metav1.NewTime(m.clock.Now()))}
	m.must(m.client.Create(t.Context(), bold))
	m.run(5*second, "f")
	m.checkOutcome("1 pods run, 0 wait, 1 have ended, lost []; small 1 of 1, at most 1; 1 were made, 0 nodes are cordoned")
	if m.did("eviction") {
		t.Errorf("it was evicted:\n%s", strings.Join(m.log, "\n"))
	}
}

// TestAClosedNodeIsNotTrustedToBeEmptyAtOnce: a pod that the scheduler is binding may appear.
func TestAClosedNodeIsNotTrustedToBeEmptyAtOnce(t *testing.T) {
	m := emptied(t)
	for range 2 {
		m.pass(second)
		m.round("f")
	}
	if m.did("release") {
		t.Errorf("it is released at once:\n%s", strings.Join(m.log, "\n"))
	}
	m.run(5*second, "f")
	m.checkOutcome("0 pods run, 0 wait, 1 have ended, lost []; small 0 of 0, at most 1; 1 were made, 0 nodes are cordoned")
}

// TestMachinesThatThereMustBeAreWaitedFor also checks that others are bought meanwhile.
func TestMachinesThatThereMustBeAreWaitedFor(t *testing.T) {
	m := newModel(t, alone(nil), []provider.Flavor{least(1, modelFlavor("never", 4, 16, 10_000)), modelFlavor("small", 4, 16, 100_000)})
	m.add(testPod("p", 3000, 1024, time.Hour))
	m.run(15*minute, "f")
	m.checkOutcome("1 pods run, 0 wait, 0 have ended, lost []; never 1 of 1, at most 1; small 1 of 1, at most 1; 2 were made, 0 nodes are cordoned")
	if f := m.fleet("f").Status.Flavors[0]; f.Failures != 1 {
		t.Errorf("one machine did not come, %d failures are counted", f.Failures)
	}
	m.checkCondition(v1alpha1.FleetDegraded, "True MachinesNotReady")
}

// TestMachinesInThePlaceOfOthersDoNotComeOnTopOfThem has machines that do not come, and replacements ordered in the
// same round.
func TestMachinesInThePlaceOfOthersDoNotComeOnTopOfThem(t *testing.T) {
	patient := func(f *v1alpha1.NodeFleet) { f.Spec.Scaling.BackOff.Duration = time.Hour }
	m := newModel(t, alone(patient), []provider.Flavor{modelFlavor("never", 4, 16, 10_000), modelFlavor("unmade", 4, 16, 50_000), modelFlavor("zsmall", 4, 16, 100_000)})
	m.add(testPod("p", 3000, 1024, time.Hour), testPod("q", 3000, 1024, time.Hour))
	m.run(30*minute, "f")
	m.checkOutcome("2 pods run, 0 wait, 0 have ended, lost []; never 0 of 0, at most 2; unmade 0 of 0, at most 0; zsmall 2 of 2, at most 2; 4 were made, 0 nodes are cordoned")
	if m.wanted != 2 {
		t.Errorf("there were to be %d machines at a time, want 2:\n%s", m.wanted, strings.Join(m.log, "\n"))
	}
}

func TestMachinesThatAreNotMadeAreAbandonedAndOthersBought(t *testing.T) {
	m := newModel(t, alone(nil), []provider.Flavor{modelFlavor("unmade", 4, 16, 50_000), modelFlavor("small", 4, 16, 100_000)})
	m.add(testPod("p", 3000, 1024, time.Hour))
	m.run(15*minute, "f")
	m.checkOutcome("1 pods run, 0 wait, 0 have ended, lost []; unmade 0 of 0, at most 0; small 1 of 1, at most 1; 1 were made, 0 nodes are cordoned")
}

// TestMachinesThatAreMadeOneAfterTheOtherAreWaitedFor: together they take longer than the timeout of one.
func TestMachinesThatAreMadeOneAfterTheOtherAreWaitedFor(t *testing.T) {
	m := newModel(t, alone(nil), []provider.Flavor{modelFlavor("slow", 4, 16, 50_000), modelFlavor("small", 4, 16, 100_000)})
	for i := range 4 {
		m.add(testPod(fmt.Sprintf("p%d", i), 3000, 1024, 2*time.Hour))
	}
	m.run(30*minute, "f")
	m.checkOutcome("4 pods run, 0 wait, 0 have ended, lost []; slow 4 of 4, at most 4; small 0 of 0, at most 0; 4 were made, 0 nodes are cordoned")
	m.checkCondition(v1alpha1.FleetDegraded, "False MachinesReady")
}

// TestAFlavorThatCannotBeBoughtDegradesAFleetThatNamesIt: an unnamed one among all flavors of the seller needs no
// attention.
func TestAFlavorThatCannotBeBoughtDegradesAFleetThatNamesIt(t *testing.T) {
	broken := modelFlavor("broken", 4, 16, 10_000)
	broken.Problem = "there is none of that name"
	for _, named := range []bool{false, true} {
		broken.Named = named
		m := newModel(t, alone(nil), []provider.Flavor{broken, modelFlavor("small", 4, 16, 100_000)})
		m.add(testPod("p", 3000, 1024, time.Hour))
		m.run(5*minute, "f")
		m.checkOutcome("1 pods run, 0 wait, 0 have ended, lost []; broken 0 of 0, at most 0; small 1 of 1, at most 1; 1 were made, 0 nodes are cordoned")
		want := "False MachinesReady"
		if named {
			want = "True FlavorsUnavailable"
		}
		m.checkCondition(v1alpha1.FleetDegraded, want)
		m.checkCondition(v1alpha1.FleetReady, "True Reconciled")
	}
}

// TestWhatThreatensPodsIsWarnedAboutAndBoughtNevertheless: only its owner knows why machines are deleted with their
// pods.
func TestWhatThreatensPodsIsWarnedAboutAndBoughtNevertheless(t *testing.T) {
	hasty := modelFlavor("hasty", 4, 16, 10_000)
	hasty.Warning = "machines go with the pods on them"
	m := newModel(t, alone(nil), []provider.Flavor{hasty})
	said := events.NewFakeRecorder(1000)
	m.r.Events = said
	m.add(testPod("p", 3000, 1024, time.Hour))
	m.run(5*minute, "f")
	m.checkOutcome("1 pods run, 0 wait, 0 have ended, lost []; hasty 1 of 1, at most 1; 1 were made, 0 nodes are cordoned")
	if got := m.fleet("f").Status.Flavors[0]; got.Warning != hasty.Warning || got.Message != "" {
		t.Errorf("the status of the flavor says %+v", got)
	}
	close(said.Events)
	warned := 0
	for e := range said.Events {
		if strings.Contains(e, "PodsAtRisk hasty: "+hasty.Warning) {
			warned++
		}
	}
	if warned != 1 {
		t.Errorf("it was warned about %d times", warned)
	}
}

func TestANodeThatIsNobodysAnyMoreIsOpened(t *testing.T) {
	m := emptied(t)
	m.must(m.client.Delete(t.Context(), m.fleet("f")))
	m.run(10*second, "f")
	m.checkOutcome("0 pods run, 0 wait, 1 have ended, lost []; small 1 of 1, at most 1; 1 were made, 0 nodes are cordoned")
}

// TestNothingOfAFlavorThatIsHeldIsChanged has machines that would be emptied and released, as those of a paused
// MachineDeployment: before the first step, and in the middle of a drain.
func TestNothingOfAFlavorThatIsHeldIsChanged(t *testing.T) {
	for _, drains := range []bool{false, true} {
		t.Run(fmt.Sprint("draining ", drains), func(t *testing.T) {
			m := newModel(t, alone(nil), smalls())
			m.before = refuseEvictions
			m.add(podsOfAnUnderUsedNode()...)
			m.run(5*minute, "f")
			for drains && !m.did("eviction of") {
				m.run(minute, "f")
			}
			m.flavors[0].Held, m.flavors[0].Problem = "the MachineDeployment is paused", "the MachineDeployment is paused"
			m.flavors[0].Kept = m.flavors[0].Held
			m.before = nil
			m.run(minute, "f") // finishes what it has begun to write
			nodes, before := m.nodes(), len(m.log)
			m.run(30*minute, "f")
			for _, what := range m.log[before:] {
				if !strings.Contains(what, "status") {
					t.Errorf("it does: %s", what)
				}
			}
			for name, node := range m.nodes() {
				if was := nodes[name]; was == nil || was.Spec.Unschedulable != node.Spec.Unschedulable || !maps.Equal(was.Annotations, node.Annotations) {
					t.Errorf("node %s was %+v and is %+v", name, was, node)
				}
			}
			m.checkCondition(v1alpha1.FleetDegraded, "True FlavorsUnavailable")
			if m.did("release") {
				t.Fatal("the test is about machines that were not released before")
			}
			m.flavors[0].Held, m.flavors[0].Kept, m.flavors[0].Problem = "", "", ""
			if m.run(40*minute, "f"); !m.did("release") {
				t.Errorf("no machine is released later:\n%s", strings.Join(m.log, "\n"))
			}
		})
	}
}

// TestAMachineOfAFlavorThatIsHeldIsNotAbandoned has a node that never becomes ready.
func TestAMachineOfAFlavorThatIsHeldIsNotAbandoned(t *testing.T) {
	for _, held := range []string{"", "Cluster machines/a is paused"} {
		m := newModel(t, alone(nil), smalls())
		m.sick = true
		m.add(testPod("p", 3000, 1024, time.Hour))
		m.run(5*minute, "f")
		m.flavors[0].Held, m.flavors[0].Kept, m.flavors[0].Problem = held, held, held
		before := len(m.log)
		m.run(time.Hour, "f")
		changed := slices.ContainsFunc(m.log[before:], func(what string) bool { return !strings.Contains(what, "status") })
		if changed != (held == "") {
			t.Errorf("held %q, something was changed: %t\n%s", held, changed, strings.Join(m.log, "\n"))
		}
	}
}

// TestNoMachineOfAFlavorThatIsRolledOutIsReleasedButMoreAreBought has machines that would be emptied and released: before
// the first step, and in the middle of a drain.
func TestNoMachineOfAFlavorThatIsRolledOutIsReleasedButMoreAreBought(t *testing.T) {
	for _, drains := range []bool{false, true} {
		t.Run(fmt.Sprint("draining ", drains), func(t *testing.T) {
			m := newModel(t, alone(nil), smalls())
			m.before = refuseEvictions
			m.add(podsOfAnUnderUsedNode()...)
			m.run(3*minute, "f") // pod early still runs
			for drains && !m.did("eviction of") {
				m.run(minute, "f")
			}
			m.flavors[0].Kept = "the MachineDeployment is being rolled out"
			m.before = nil
			nodes, before := m.nodes(), len(m.log)
			m.add(testPod("late", 3900, 1024, time.Hour))
			m.run(30*minute, "f")
			if late := strings.Join(m.log[before:], "\n"); strings.Contains(late, "release") || strings.Contains(late, "eviction") || !strings.Contains(late, "buy") {
				t.Errorf("it does this during the rollout, want one purchase:\n%s", late)
			}
			for name, was := range nodes {
				if node := m.nodes()[name]; node == nil || node.Spec.Unschedulable != was.Spec.Unschedulable {
					t.Errorf("node %s was %+v and is %+v", name, was, node)
				}
			}
			m.flavors[0].Kept = ""
			if m.run(40*minute, "f"); !m.did("release") {
				t.Errorf("no machine is released later:\n%s", strings.Join(m.log, "\n"))
			}
		})
	}
}

// TestAFlavorWhoseMachinesDoNotComeDuringARolloutIsInBackOff has a rollout to a template of which no machine becomes
// ready. None of them may be released, but no more than without the rollout may be bought.
func TestAFlavorWhoseMachinesDoNotComeDuringARolloutIsInBackOff(t *testing.T) {
	bought := map[string]int{}
	for _, kept := range []string{"", "the MachineDeployment is being rolled out"} {
		m := newModel(t, alone(nil), smalls())
		m.sick = true
		m.add(testPod("p", 3000, 1024, time.Hour))
		m.flavors[0].Kept = kept
		m.run(3*time.Hour, "f")
		for _, what := range m.log {
			if strings.Contains(what, "buy") {
				bought[kept]++
			}
			if kept != "" && (strings.Contains(what, "release") || strings.Contains(what, "abandon")) {
				t.Errorf("during the rollout: %s", what)
			}
		}
		for name, node := range m.nodes() {
			if kept != "" && node.Spec.Unschedulable {
				t.Errorf("during the rollout, node %s is cordoned", name)
			}
		}
	}
	if bought[""] == 0 || bought["the MachineDeployment is being rolled out"] > bought[""] {
		t.Errorf("purchases: %v, want no more during a rollout", bought)
	}
}

// refuseEvictions refuses evictions, as for a PodDisruptionBudget that allows none.
func refuseEvictions(what string) error {
	if strings.HasPrefix(what, "eviction") {
		return apierrors.NewTooManyRequests("the disruption budget needs more pods", 0)
	}
	return nil
}

// podsOfAnUnderUsedNode fill two machines, one of which is under-used once pod early has ended.
func podsOfAnUnderUsedNode() []*corev1.Pod {
	restarting := testPod("restarting", 1000, 1024, time.Hour)
	restarting.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
	early := testPod("early", 2900, 1024, time.Hour)
	early.Annotations["ends-after"] = "2m"
	return []*corev1.Pod{restarting, early, testPod("large", 2500, 12*1024, time.Hour)}
}

// TestANodeThatCannotBeEmptiedIsKept has a PodDisruptionBudget that allows no eviction, which is unknown until the API
// server refuses one.
func TestANodeThatCannotBeEmptiedIsKept(t *testing.T) {
	m := newModel(t, alone(nil), smalls())
	m.before = refuseEvictions
	m.add(podsOfAnUnderUsedNode()...)
	m.run(9*minute, "f")
	if !m.did("eviction of") {
		t.Fatalf("nothing was emptied:\n%s", strings.Join(m.log, "\n"))
	}
	m.run(3*minute, "f") // the drain has timed out
	m.checkOutcome("2 pods run, 0 wait, 1 have ended, lost []; small 2 of 2, at most 2; 2 were made, 0 nodes are cordoned")
}

// TestAnUnderUsedNodeOfAServiceIsEmptiedOrTheStatusSaysWhyNot has a pod of a service that fits elsewhere.
func TestAnUnderUsedNodeOfAServiceIsEmptiedOrTheStatusSaysWhyNot(t *testing.T) {
	consolidation := func(change func(*v1alpha1.FleetConsolidation)) func(*v1alpha1.NodeFleet, *corev1.Pod) {
		return func(f *v1alpha1.NodeFleet, _ *corev1.Pod) { change(&f.Spec.Consolidation) }
	}
	web := func(change func(*corev1.Pod)) func(*v1alpha1.NodeFleet, *corev1.Pod) {
		return func(_ *v1alpha1.NodeFleet, p *corev1.Pod) { change(p) }
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.NodeFleet, *corev1.Pod)
		kept   string // empty: it is drained
	}{
		{"nothing is said", func(*v1alpha1.NodeFleet, *corev1.Pod) {}, ""},
		{"the policy", consolidation(func(c *v1alpha1.FleetConsolidation) { c.Policy = v1alpha1.ConsolidateWhenEmpty }), "spec.consolidation.policy does not allow releasing a machine with pods"},
		{"services never leave", consolidation(func(c *v1alpha1.FleetConsolidation) { c.EvictServices = v1alpha1.EvictServicesNever }), "pod default/web must not be moved: it belongs to a service, and spec.consolidation.evictServices of the NodeFleet is Never"},
		{"services must opt in", consolidation(func(c *v1alpha1.FleetConsolidation) { c.EvictServices = v1alpha1.EvictServicesOptIn }), "pod default/web must not be moved: it does not opt in to being moved with annotation supercargo.dev/migration"},
		{"no machine may go", consolidation(func(c *v1alpha1.FleetConsolidation) { c.MaxUnavailable = "0" }), "spec.consolidation.maxUnavailable"},
		{"an annotation", web(func(p *corev1.Pod) { p.Annotations["karpenter.sh/do-not-disrupt"] = "true" }), "pod default/web must not be moved: it has annotation karpenter.sh/do-not-disrupt: true"},
		{"no controller", web(func(p *corev1.Pod) { p.OwnerReferences = nil }), "pod default/web must not be moved: it has no controller"},
		{"a volume", web(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}), "pod default/web must not be moved: the contents of its local volume scratch would be lost"},
		{"a budget", web(func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }), "pod default/web must not be moved: PodDisruptionBudget web allows no disruption now"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pods := slices.Concat(podsOfAnUnderUsedNode()[1:], []*corev1.Pod{testPod("web", 1000, 1024, 0)})
			m := newModel(t, alone(func(f *v1alpha1.NodeFleet) { tc.change(f, pods[2]) }), smalls())
			m.must(m.client.Create(t.Context(), budget.DeepCopy()))
			m.add(pods...)
			m.run(15*minute, "f")
			if evicted := m.did("eviction of"); evicted != (tc.kept == "") {
				t.Errorf("it was evicted: %t\n%s", evicted, strings.Join(m.log, "\n"))
			}
			kept := m.fleet("f").Status.Kept
			if tc.kept == "" {
				m.checkOutcome("2 pods run, 0 wait, 1 have ended, lost []; small 1 of 1, at most 2; 2 were made, 0 nodes are cordoned")
				if len(kept) > 0 {
					t.Errorf("kept are %+v", kept)
				}
			} else if len(kept) != 1 || !strings.HasPrefix(kept[0].Reason, tc.kept) {
				t.Errorf("kept are %+v, want one because %s", kept, tc.kept)
			}
		})
	}
}

// TestAServiceThatComesBackToAClosedNodeIsEvictedOnce has a pod that tolerates cordoned nodes, and that the scheduler
// binds to the node each time.
func TestAServiceThatComesBackToAClosedNodeIsEvictedOnce(t *testing.T) {
	m := newModel(t, alone(nil), smalls())
	web := testPod("web", 1000, 1024, 0)
	m.add(append(podsOfAnUnderUsedNode()[1:], web)...)
	node, evicted := "", []time.Time{}
	m.before = func(what string) error {
		if !strings.HasPrefix(what, "eviction") {
			return nil
		}
		evicted = append(evicted, m.clock.Now())
		pod := &corev1.Pod{}
		m.must(m.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: strings.TrimPrefix(what, "eviction of ")}, pod))
		node = pod.Spec.NodeName
		again := testPod(fmt.Sprint("web-", len(evicted)), 1000, 1024, 0)
		again.Spec.NodeName, again.Status = node, corev1.PodStatus{Phase: corev1.PodRunning, StartTime: new(metav1.NewTime(m.clock.Now()))}
		m.must(m.client.Delete(t.Context(), pod))
		m.must(m.client.Create(t.Context(), again))
		return apierrors.NewTooManyRequests("done", 0)
	}
	m.run(time.Hour, "f")
	if len(evicted) == 0 {
		t.Fatal("nothing was evicted")
	}
	for i := 1; i < len(evicted); i++ {
		if apart := evicted[i].Sub(evicted[i-1]); apart < 5*minute {
			t.Errorf("it was evicted again after %v", apart)
		}
	}
	if len(evicted) > 4 {
		t.Errorf("it was evicted %d times in an hour, want that its node is left unchanged for longer each time", len(evicted))
	}
}

// TestADrainThatFailsStopsNothingElse has evictions that fail permanently, like those of pods with two
// PodDisruptionBudgets.
func TestADrainThatFailsStopsNothingElse(t *testing.T) {
	m := newModel(t, alone(nil), smalls())
	failed := 0
	m.before = func(what string) error {
		if strings.HasPrefix(what, "eviction") {
			failed++
			return apierrors.NewInternalError(errors.New("this pod has more than one PodDisruptionBudget"))
		}
		return nil
	}
	m.add(podsOfAnUnderUsedNode()...)
	for range 600 {
		if m.run(second, "f"); failed > 0 {
			break
		}
	}
	m.checkCondition(v1alpha1.FleetDegraded, "True DrainFailed")
	m.checkCondition(v1alpha1.FleetReady, "True Reconciled")
	m.add(testPod("late", 4000, 1024, time.Hour))
	m.run(3*minute, "f")
	if !strings.Contains(m.outcome(), "3 pods run, 0 wait") {
		t.Errorf("after %d evictions that failed: %s\n%s", failed, m.outcome(), strings.Join(m.log, "\n"))
	}
}

// TestADrainTimesOutWhileMachinesForOthersAreAwaited has a flavor with a minimum of one machine, which never comes.
func TestADrainTimesOutWhileMachinesForOthersAreAwaited(t *testing.T) {
	m := newModel(t, alone(nil), []provider.Flavor{least(1, modelFlavor("never", 1, 1, 900_000)), modelFlavor("small", 4, 16, 100_000)})
	m.before = refuseEvictions
	m.add(podsOfAnUnderUsedNode()...)
	m.run(9*minute, "f")
	if !m.did("eviction of") {
		t.Fatalf("nothing was emptied:\n%s", strings.Join(m.log, "\n"))
	}
	m.run(4*minute, "f") // the drain has timed out
	m.checkOutcome("2 pods run, 0 wait, 1 have ended, lost []; never 1 of 1, at most 1; small 2 of 2, at most 2; 3 were made, 0 nodes are cordoned")
}

// TestAMachineThatCannotBeReleasedStopsNothingElse has a provider that refuses all releases.
func TestAMachineThatCannotBeReleasedStopsNothingElse(t *testing.T) {
	m := emptied(t)
	m.flavors = append(m.flavors, modelFlavor("xlarge", 16, 64, 350_000))
	said := events.NewFakeRecorder(1000)
	m.r.Events = said
	refused := 0
	m.before = func(what string) error {
		if strings.HasPrefix(what, "release") {
			refused++
			return errAPI
		}
		return nil
	}
	for range 600 {
		if m.run(second, "f"); refused > 0 {
			break
		}
	}
	m.checkCondition(v1alpha1.FleetReady, "True Reconciled")
	m.checkCondition(v1alpha1.FleetDegraded, "True ReleaseFailed")
	m.add(testPod("late", 9000, 1024, time.Hour))
	m.run(4*minute, "f")
	if !strings.Contains(m.outcome(), "1 pods run, 0 wait") {
		t.Errorf("after %d releases that were refused: %s\n%s", refused, m.outcome(), strings.Join(m.log, "\n"))
	}
	close(said.Events)
	for e := range said.Events {
		if strings.Contains(e, "ReleaseFailed release 1 machine of small: ") {
			return
		}
	}
	t.Error("nobody was told")
}

// TestNothingIsOrderedBeyondLimitsWhileMachinesLeave has machines whose release takes a while; they are billed until
// then.
func TestNothingIsOrderedBeyondLimitsWhileMachinesLeave(t *testing.T) {
	m := newModel(t, alone(func(f *v1alpha1.NodeFleet) { f.Spec.Limits.Machines = new(int32(1)) }), []provider.Flavor{modelFlavor("small", 4, 16, 100_000), modelFlavor("xlarge", 16, 64, 350_000)})
	m.goes = 5 * minute
	pod := testPod("early", 3000, 1024, time.Hour)
	pod.Annotations["ends-after"] = "2m"
	m.add(pod)
	for range 900 {
		if m.run(second, "f"); m.did("release") {
			break
		}
	}
	m.add(testPod("late", 9000, 1024, time.Hour))
	m.run(4*minute, "f")
	m.checkCondition(v1alpha1.FleetLimited, "True LimitReached")
	if m.did("buy xlarge") {
		t.Errorf("two machines are paid for at a time:\n%s", strings.Join(m.log, "\n"))
	}
	m.run(5*minute, "f")
	m.checkOutcome("1 pods run, 0 wait, 1 have ended, lost []; small 0 of 0, at most 1; xlarge 1 of 1, at most 1; 2 were made, 0 nodes are cordoned")
	m.checkCondition(v1alpha1.FleetLimited, "False WithinLimits")
}

// TestAMachineThatComesToLifeAtTheLastMomentIsKept has a node that becomes ready just after the timeout.
func TestAMachineThatComesToLifeAtTheLastMomentIsKept(t *testing.T) {
	m := newModel(t, alone(nil), smalls())
	m.add(testPod("p", 3000, 1024, time.Hour))
	m.sick = true
	m.run(10*minute, "f")
	node := m.nodes()["node-m01"]
	for range 20 {
		if node = m.nodes()["node-m01"]; node.Spec.Unschedulable {
			break
		}
		m.run(second, "f")
	}
	if !node.Spec.Unschedulable {
		t.Fatalf("it is not closed before it is abandoned:\n%s", strings.Join(m.log, "\n"))
	}
	node.Status.Conditions[0].Status = corev1.ConditionTrue
	m.must(m.client.Status().Update(t.Context(), node))
	bold := testPod("bold", 100, 100, 0)
	bold.Spec.NodeName, bold.Status = "node-m01", corev1.PodStatus{Phase: corev1.PodRunning, StartTime: new(metav1.NewTime(m.clock.Now()))}
	m.must(m.client.Create(t.Context(), bold))
	m.sick = false
	m.run(10*minute, "f")
	if len(m.killed) > 0 || !m.hasNode("node-m01") {
		t.Errorf("%s\n%s", m.outcome(), strings.Join(m.log, "\n"))
	}
}

func (m *model) hasNode(name string) bool {
	return m.client.Get(m.t.Context(), client.ObjectKey{Name: name}, &corev1.Node{}) == nil
}

// unidentified makes the node on the first machine unknown from now on.
func (m *model) unidentified() {
	machine := m.machines[0]
	machine.Node, machine.comes, machine.Unidentified = "", -1, "server m01: two nodes say to be on it"
}

// TestAMachineWhoseNodeIsNotIdentifiedIsKept has a machine whose node is ready and has a pod. The fleet continues with
// the others.
func TestAMachineWhoseNodeIsNotIdentifiedIsKept(t *testing.T) {
	for _, failed := range []string{"", "the cloud says that it failed"} {
		m := newModel(t, alone(nil), smalls())
		said := events.NewFakeRecorder(1000)
		m.r.Events = said
		pod := testPod("p", 3000, 1024, time.Hour)
		pod.Annotations["ends-after"] = "20m"
		m.add(pod)
		m.run(5*minute, "f")
		m.unidentified()
		m.machines[0].Failed = failed
		next := testPod("next", 3000, 1024, time.Hour)
		next.Annotations["ends-after"] = "5m"
		m.add(next) // for which another machine is bought
		m.run(40*minute, "f")
		m.checkOutcome("0 pods run, 0 wait, 2 have ended, lost []; small 1 of 1, at most 2; 2 were made, 0 nodes are cordoned")
		m.checkCondition(v1alpha1.FleetDegraded, "True NodesUnidentified")
		if got := m.fleet("f").Status.InFlight; got != 0 {
			t.Errorf("%d machines are in flight: nobody knows when it is to come", got)
		}
		m.r.Events = &events.FakeRecorder{}
		close(said.Events)
		told := 0
		for e := range said.Events {
			if strings.Contains(e, "MachineAbandoned") {
				t.Errorf("Event %s", e)
			}
			if strings.Contains(e, "NodesUnidentified the node of 1 machine is not identified, so it is kept with the pods there: server m01: two nodes") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("it is told %d times", told)
		}

		m.machines[0].Node, m.machines[0].Unidentified = "node-m01", ""
		m.run(10*minute, "f")
		m.checkOutcome("0 pods run, 0 wait, 2 have ended, lost []; small 0 of 0, at most 2; 2 were made, 0 nodes are cordoned")
		m.checkCondition(v1alpha1.FleetDegraded, "False MachinesReady")
	}
}

// TestAMachineThatHasANodeByNowIsNotAbandoned has a cache of nodes that lags behind.
func TestAMachineThatHasANodeByNowIsNotAbandoned(t *testing.T) {
	m := newModel(t, alone(nil), smalls())
	m.r.Client = interceptor.NewClient(m.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, is := list.(*corev1.NodeList); is {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	m.r.NewProvider = func(f *v1alpha1.NodeFleet, nodes map[string]*corev1.Node) (provider.Provider, error) {
		return &nearsighted{&modelProvider{m, f.Name}, nodes}, nil
	}
	m.add(testPod("p", 3000, 1024, 2*time.Hour))
	m.run(30*minute, "f")
	if len(m.killed) > 0 || !m.hasNode("node-m01") {
		t.Errorf("%s\n%s", m.outcome(), strings.Join(m.log, "\n"))
	}
}

// nearsighted is a provider that knows only the nodes that it was given.
type nearsighted struct {
	*modelProvider
	nodes map[string]*corev1.Node
}

// Observe implements provider.Provider.
func (p *nearsighted) Observe(ctx context.Context) (*provider.Inventory, error) {
	found, err := p.modelProvider.Observe(ctx)
	if err != nil {
		return nil, err
	}
	for i := range found.Machines {
		if m := &found.Machines[i]; p.nodes[m.Node] == nil {
			m.Node = ""
		}
	}
	return found, nil
}

// TestConditionsAreMetrics until the fleet is deleted, so that alerts can use the status.
func TestConditionsAreMetrics(t *testing.T) {
	flavors := smalls()
	flavors[0].HasPrice = false
	m := newModel(t, alone(nil), flavors)
	m.run(minute, "f")
	shown := func() string {
		text, err := testutil.CollectAndFormat(metricConditions, expfmt.TypeTextPlain, "supercargo_nodefleet_condition")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, want := range []string{`reason="PriceUnknown",status="False",type="Priced"`, `reason="PriceUnknown",status="False",type="Ready"`} {
		if got := shown(); !strings.Contains(got, `supercargo_nodefleet_condition{fleet="f",`+want+"} 1") {
			t.Errorf("the metrics have no %s:\n%s", want, got)
		}
	}
	m.must(m.client.Delete(t.Context(), m.fleet("f")))
	m.run(minute, "f")
	if got := shown(); strings.Contains(got, `fleet="f"`) {
		t.Errorf("a fleet that is no more is shown:\n%s", got)
	}
}

// TestNothingIsBoughtForAPodWhosePortADaemonSetTakes has a DaemonSet on the network of its hosts: its template does not
// say that it takes the port of each.
func TestNothingIsBoughtForAPodWhosePortADaemonSetTakes(t *testing.T) {
	for _, taken := range []bool{true, false} {
		m := newModel(t, alone(nil), smalls())
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "proxy"}}
		set.Spec.Template.Spec = corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "main", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}}}
		set.Spec.Template.Spec.HostNetwork = taken
		m.must(m.client.Create(t.Context(), set))
		said := events.NewFakeRecorder(1000)
		m.r.Events = said
		gate := testPod("gate", 500, 512, time.Hour)
		gate.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
		m.add(gate)
		m.run(10*minute, "f")
		if !taken {
			m.checkOutcome("1 pods run, 0 wait, 0 have ended, lost []; small 1 of 1, at most 1; 1 were made, 0 nodes are cordoned")
			continue
		}
		m.checkOutcome("0 pods run, 1 wait, 0 have ended, lost []; small 0 of 0, at most 0; 0 were made, 0 nodes are cordoned")
		close(said.Events)
		named := false
		for event := range said.Events {
			named = named || strings.Contains(event, "default/gate: ") && strings.Contains(event, "host port 8080/TCP is taken by DaemonSet kube-system/proxy")
		}
		if !named {
			t.Error("no Event names the port and the DaemonSet")
		}
	}
}
