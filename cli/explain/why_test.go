package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
	"supercargo.dev/supercargo/test/fixtures"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func TestWhatTheSchedulerSaysIsTakenApart(t *testing.T) {
	for _, tc := range []struct {
		name, message string
		want          SchedulerSays
	}{
		{
			"several reasons, the most frequent first",
			"0/8 nodes are available: 3 Insufficient cpu, 5 node(s) had untolerated taint(s). preemption: 0/8 nodes are available: 3 No preemption victims found for incoming pod, 5 Preemption is not helpful for scheduling.",
			SchedulerSays{
				Nodes: 8, Reasons: []Tally{{Count: 5, Reason: "node(s) had untolerated taint(s)"}, {Count: 3, Reason: "Insufficient cpu"}},
				Preemption: "0/8 nodes are available: 3 No preemption victims found for incoming pod, 5 Preemption is not helpful for scheduling",
			},
		},
		{
			"a reason with a comma, and a point",
			"0/1 nodes are available: 1 node(s) took only batch pods and the pod is service (label supercargo.dev/class), or so.",
			SchedulerSays{Nodes: 1, Reasons: []Tally{{Count: 1, Reason: "node(s) took only batch pods and the pod is service (label supercargo.dev/class), or so"}}},
		},
		{
			"other plugins speak before preemption",
			"0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
			SchedulerSays{Nodes: 3, Reasons: []Tally{{Count: 3, Reason: "Insufficient cpu"}}, Preemption: "0/3 nodes are available: 3 Preemption is not helpful for scheduling"},
		},
		{"no nodes at all", "no nodes available to schedule pods", SchedulerSays{}},
		{"a plugin refuses before any node is checked", "0/3 nodes are available: persistentvolumeclaim \"data\" not found.", SchedulerSays{Nodes: 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.Reason, tc.want.Message = corev1.PodReasonUnschedulable, tc.message
			got := parseScheduler(corev1.PodCondition{Reason: corev1.PodReasonUnschedulable, Message: tc.message})
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// unschedulable makes a pod unschedulable for a minute.
func unschedulable(p *corev1.Pod) {
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/2 nodes are available: 2 Insufficient cpu.", LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute)),
	}}
}

// fleetOfTwo returns a healthy fleet with two flavors and no decision about any pod.
func fleetOfTwo(change ...func(*v1alpha1.NodeFleet)) *v1alpha1.NodeFleet {
	size := func(text string) *resource.Quantity { q := resource.MustParse(text); return &q }
	f := &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	f.Spec.Class, f.Spec.Mode = v1alpha1.FleetAny, v1alpha1.FleetAct
	f.Spec.Scaling.BatchMax.Duration, f.Spec.Scaling.ExpectedLag.Duration = 10*time.Second, 2*time.Minute
	f.Status.ObservedGeneration = 1
	f.Status.Conditions = []metav1.Condition{{Type: v1alpha1.FleetReady, Status: metav1.ConditionTrue, Reason: "Reconciled"}}
	f.Status.Flavors = []v1alpha1.FlavorStatus{
		{Name: "small", PricePerHour: "0.1", CPU: size("2"), Memory: size("8Gi"), MaxPods: 110, Max: 5},
		{Name: "large", PricePerHour: "0.4", CPU: size("16"), Memory: size("64Gi"), MaxPods: 110, Max: 5},
	}
	for _, c := range change {
		c(f)
	}
	return f
}

// explained explains a pod that requests 4 cores in a cluster of two nodes with 2 cores each and
// one fleet, of which only the status is known.
func explained(t *testing.T, pod *corev1.Pod, f *v1alpha1.NodeFleet, change ...func(*world.World)) Why {
	t.Helper()
	w := &world.World{
		Nodes: map[string]*corev1.Node{"a": fixtures.Node("a", 2000, 8<<30), "b": fixtures.Node("b", 2000, 8<<30)}, Pods: []*corev1.Pod{pod},
	}
	for _, c := range change {
		c(w)
	}
	in := &WhyInput{Now: noon, Pod: pod, View: world.NewView(w, noon, runtimes.NewLearner())}
	if f != nil {
		in.Fleets = []FleetInput{{Fleet: f, Unread: "read from the status."}}
	}
	return NewWhy(in)
}

// A pod that another buyer serves is left to it, unless a machine was ordered for it before or the fleet is on hold.
func TestAPodThatIsLeftToAnotherBuyerIsExplained(t *testing.T) {
	const why = "no machine is bought, because NodePool web fits it, too, and may buy one. Keep them apart."
	ordered := func(f *v1alpha1.NodeFleet) {
		f.Status.InFlight = 1
		f.Status.LastDecision = &v1alpha1.FleetDecision{Time: metav1.NewTime(noon), Mode: v1alpha1.FleetAct, Buys: []v1alpha1.DecidedPurchase{{
			Flavor: "large", Count: 1, Pods: 1, Machines: []v1alpha1.DecidedMachines{{Count: 1, Pods: 1, PodNames: []string{"default/p"}}},
		}}}
	}
	held := func(f *v1alpha1.NodeFleet) {
		f.Status.Conditions = []metav1.Condition{{Type: v1alpha1.FleetReady, Status: metav1.ConditionFalse, Reason: "Forbidden", Message: "no"}}
	}
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.NodeFleet)
		pod    string
		doing  string
		says   string
	}{
		{"it is left", func(*v1alpha1.NodeFleet) {}, "default/p", Leaves, why},
		{"another one is left", func(*v1alpha1.NodeFleet) {}, "default/q", Nothing, "recorded no decision yet"},
		{"a machine was ordered for it", ordered, "default/p", Ordered, "expected to accept pods"},
		{"the fleet is on hold", held, "default/p", Nothing, "on hold (Forbidden): no"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := fixtures.Pod("p", 1000, 1<<30, unschedulable)
			w := &world.World{Nodes: map[string]*corev1.Node{}, Pods: []*corev1.Pod{pod}}
			in := &WhyInput{Now: noon, Pod: pod, View: world.NewView(w, noon, runtimes.NewLearner())}
			in.Fleets = []FleetInput{{Fleet: fleetOfTwo(tc.change), Unread: "read from the status.", Left: map[string]string{tc.pod: why}}}
			got := NewWhy(in).Pending.Fleets[0]
			if got.Doing != tc.doing || !strings.Contains(got.Because, tc.says) {
				t.Errorf("it is doing %s: %s\nwant %s: …%s…", got.Doing, got.Because, tc.doing, tc.says)
			}
		})
	}
}

func TestWhatAFleetDoesAboutAPendingPod(t *testing.T) {
	at := metav1.NewTime(noon.Add(-30 * time.Second))
	buys := func(mode v1alpha1.FleetMode) func(*v1alpha1.NodeFleet) {
		return func(f *v1alpha1.NodeFleet) {
			f.Status.InFlight = 1
			f.Status.LastDecision = &v1alpha1.FleetDecision{Time: at, Mode: mode, Buys: []v1alpha1.DecidedPurchase{{
				Flavor: "large", Count: 1, Pods: 3, Reason: "cheapest", Machines: []v1alpha1.DecidedMachines{{Count: 1, Pods: 3, PodNames: []string{"default/p"}}},
			}}}
		}
	}
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) func(*v1alpha1.NodeFleet) {
		return func(f *v1alpha1.NodeFleet) {
			f.Status.Conditions = append(f.Status.Conditions[:0:0], f.Status.Conditions...)
			if kind == v1alpha1.FleetReady {
				f.Status.Conditions = nil
			}
			f.Status.Conditions = append(f.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.NodeFleet)
		doing  string
		says   string
	}{
		{"nothing is recorded", func(*v1alpha1.NodeFleet) {}, Nothing, "recorded no decision yet"},
		{"the machine has started", func(f *v1alpha1.NodeFleet) {
			buys(v1alpha1.FleetAct)(f)
			f.Status.InFlight = 0
		}, Joined, "no machine of this order is starting any more"},
		{"the decision lists a part of its pods, and not this one", func(f *v1alpha1.NodeFleet) {
			buys(v1alpha1.FleetAct)(f)
			f.Status.LastDecision.Buys[0].Machines[0].PodNames = []string{"default/other"}
		}, Unlisted, "the fleet's last decision lists 1 of 3 pods, and this one is not among them; machines of the fleet without a ready node: 1"},
		{"the decision lists all its pods, and not this one", func(f *v1alpha1.NodeFleet) {
			buys(v1alpha1.FleetAct)(f)
			f.Status.LastDecision.Buys[0].Pods, f.Status.LastDecision.Buys[0].Machines[0].PodNames = 1, []string{"default/other"}
		}, Unrecorded, "the fleet's last decision does not name it; machines of the fleet without a ready node: 1"},
		{"a part of the pods that wait is listed", func(f *v1alpha1.NodeFleet) {
			f.Status.Deferral = &v1alpha1.FleetDeferral{Pods: 12, PodNames: []string{"default/other"}}
		}, Unlisted, "lists 1 of 12 pods, and this one is not among them"},
		{"a rejection from before it waited is of another of its name", func(f *v1alpha1.NodeFleet) {
			f.Status.LastDecision = &v1alpha1.FleetDecision{Time: metav1.NewTime(noon.Add(-time.Hour)), Rejected: []v1alpha1.Rejection{{Name: "default/p", Reason: "old"}}}
		}, Nothing, "is older than the time since which the pod is unschedulable"},
		{"a machine was ordered for it", buys(v1alpha1.FleetAct), Ordered, "expected to accept pods at 2026-11-26 12:01:30 UTC"},
		{"a machine that takes as long as others of its flavor did", func(f *v1alpha1.NodeFleet) {
			buys(v1alpha1.FleetAct)(f)
			f.Status.Flavors[1].Lag = &v1alpha1.LearnedTime{Mean: metav1.Duration{Duration: 20 * time.Second}, Samples: 3}
		}, Ordered, "expected to accept pods at 2026-11-26 11:59:50 UTC, 10s ago"},
		{"one would be", buys(v1alpha1.FleetObserve), WouldOrder, "in mode Act it would have bought 1 of flavor large for 3 pods, including this one"},
		{"an order from before it waited is for another of its name", func(f *v1alpha1.NodeFleet) {
			buys(v1alpha1.FleetAct)(f)
			f.Status.LastDecision.Time = metav1.NewTime(noon.Add(-time.Hour))
		}, Unrecorded, "the fleet's last decision, at 2026-11-26 11:00:00 UTC, is older than the time since which the pod is unschedulable"},
		{"it waits for room", func(f *v1alpha1.NodeFleet) {
			f.Status.Deferral = &v1alpha1.FleetDeferral{Reason: "1 pod waits", PodNames: []string{"default/p"}, SavesDollars: "0.5", RoomTime: metav1.NewTime(noon.Add(time.Minute)), BuyTime: at}
		}, Waits, "waiting saves $0.5"},
		{"the fleet is on hold", condition(v1alpha1.FleetReady, metav1.ConditionFalse, "ClusterAutoscalerActive", "stop it"), Nothing, "on hold (ClusterAutoscalerActive): stop it"},
		{"nobody manages the fleet", func(f *v1alpha1.NodeFleet) { f.Status.Conditions = nil }, Nothing, "check that it is running"},
		{"a limit is reached", condition(v1alpha1.FleetLimited, metav1.ConditionTrue, "LimitReached", "spec.limits.machines"), Nothing, "a limit is reached: spec.limits.machines"},
		{"enough is on order", condition(v1alpha1.FleetLimited, metav1.ConditionFalse, "EnoughOnOrder", "no machine is bought for 4 pods"), Nothing, "the fleet waits for machines on order: no machine is bought for 4 pods"},
		{"others are awaited", func(f *v1alpha1.NodeFleet) { f.Spec.Scaling.BatchMax.Duration = 5 * time.Minute }, Gathers, "up to 5m0s"},
		{"machines are on their way, the pod is not named", func(f *v1alpha1.NodeFleet) { f.Status.InFlight = 2 }, Unrecorded, "recorded no decision yet; machines of the fleet without a ready node: 2"},
		{"no flavor holds it", func(f *v1alpha1.NodeFleet) { f.Status.Flavors = f.Status.Flavors[:1] }, Nothing, "no machine of its flavors can be bought for the pod now"},
		{"the fleet says itself why not", func(f *v1alpha1.NodeFleet) {
			f.Status.Flavors = f.Status.Flavors[:1]
			f.Status.LastDecision = &v1alpha1.FleetDecision{Time: at, Rejected: []v1alpha1.Rejection{{Name: "default/p", Reason: "0 of 1 flavors: 1 too small (CPU)"}}}
		}, Nothing, "0 of 1 flavors: 1 too small (CPU)"},
		{"its machines are for others", func(f *v1alpha1.NodeFleet) { f.Spec.Class = v1alpha1.FleetBatch }, Nothing, "only batch pods"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := explained(t, fixtures.Pod("p", 4000, 1<<30, unschedulable), fleetOfTwo(tc.change)).Pending.Fleets[0]
			if got.Doing != tc.doing || !strings.Contains(got.Because, tc.says) {
				t.Errorf("it is doing %s: %s\nwant %s: …%s…", got.Doing, got.Because, tc.doing, tc.says)
			}
		})
	}
}

func TestTheProblemsOfAFleetAreTheConditionsThatAreNotWell(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "R", Message: "m"}
	}
	f := fleetOfTwo(func(f *v1alpha1.NodeFleet) {
		f.Status.Conditions = []metav1.Condition{
			condition(v1alpha1.FleetReady, metav1.ConditionTrue), condition(v1alpha1.ConditionPaused, metav1.ConditionTrue), condition(v1alpha1.FleetPriced, metav1.ConditionFalse),
			condition(v1alpha1.FleetLimited, metav1.ConditionTrue), condition(v1alpha1.FleetDegraded, metav1.ConditionFalse),
		}
	})
	got := explained(t, fixtures.Pod("p", 4000, 1<<30, unschedulable), f).Pending.Fleets[0].Problems
	if diff := cmp.Diff([]string{"Paused: True (R) m", "Priced: False (R) m", "Limited: True (R) m"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAFlavorThatPodsOnNodesExcludeIsNotSaidToAcceptAPod has a pod whose affinity no pod on a node satisfies: the fleet buys
// nothing for it, though the flavor is large enough and has the labels.
func TestAFlavorThatPodsOnNodesExcludeIsNotSaidToAcceptAPod(t *testing.T) {
	pod := fixtures.Pod("p", 4000, 1<<30, unschedulable, withOthers)
	got := NewWhy(input(pod, offering(4000))).Pending.Fleets[0]
	want := []Tally{{1, "not with the pods that are on nodes now: pod affinity on topology.kubernetes.io/zone", []string{"offered"}}}
	if diff := cmp.Diff(want, got.Flavors); diff != "" || got.Doing != Nothing {
		t.Errorf("it is doing %s (%s), flavors (-want +got):\n%s", got.Doing, got.Because, diff)
	}
	got = NewWhy(input(pod, otherRuns, offering(4000))).Pending.Fleets[0]
	if diff := cmp.Diff([]Tally{{1, "", []string{"offered"}}}, got.Flavors); diff != "" {
		t.Errorf("with a pod in the zone (-want +got):\n%s", diff)
	}
}

func TestOfFlavorsThatAreTooSmallTheLargestIsSaid(t *testing.T) {
	pod := fixtures.Pod("p", 64_000, 1<<30, unschedulable)
	says(t, say(t, pod, fleets(fleetOfTwo())), "2  too small (CPU): large, small\n    It requests 64 CPUs; of the 2 flavors with too little, large has the most room: 16.\n")
	says(t, say(t, pod, offering(8000)), "1  too small (CPU): offered\n    It requests 64 CPUs; a machine of offered has room for 8.\n")
	small := fixtures.Pod("p", 4000, 1<<30, unschedulable)
	says(t, say(t, small, fleets(fleetOfTwo())), "1  too small (CPU): small", "!of small has room")
}

func TestFlavorsAreGroupedByWhatKeepsThePodFromThem(t *testing.T) {
	f := fleetOfTwo(func(f *v1alpha1.NodeFleet) {
		more := f.Status.Flavors[1]
		for _, c := range []struct {
			name   string
			change func(*v1alpha1.FlavorStatus)
		}{
			{"unpriced", func(s *v1alpha1.FlavorStatus) { s.PricePerHour = "" }},
			{"full", func(s *v1alpha1.FlavorStatus) { s.Machines = 5 }},
			{"paused", func(s *v1alpha1.FlavorStatus) { s.Message = "the MachineDeployment is paused" }},
			{"risky", func(s *v1alpha1.FlavorStatus) { s.Warning = "its machines may be deleted with their pods" }},
			{"gone", func(s *v1alpha1.FlavorStatus) {
				until := metav1.NewTime(noon.Add(time.Minute))
				s.Failures, s.BackOffUntil = 2, &until
			}},
			{"back", func(s *v1alpha1.FlavorStatus) {
				until := metav1.NewTime(noon.Add(-time.Minute))
				s.Failures, s.BackOffUntil = 2, &until
			}},
		} {
			s := more
			s.Name = c.name
			c.change(&s)
			f.Status.Flavors = append(f.Status.Flavors, s)
		}
	})
	got := explained(t, fixtures.Pod("p", 4000, 1<<30, unschedulable), f).Pending.Fleets[0].Flavors
	want := []Tally{
		{3, "", []string{"back", "large", "risky"}},
		{1, "in back-off until 2026-11-26T12:01:00Z: its last machines did not become usable, or did not stay so", []string{"gone"}},
		{1, "its price is unknown", []string{"unpriced"}},
		{1, "quota: it has its maximum of 5 machines", []string{"full"}},
		{1, "the MachineDeployment is paused", []string{"paused"}},
		{1, "too small (CPU)", []string{"small"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPodThatNoSchedulerHasCheckedSaysSo(t *testing.T) {
	pod := fixtures.Pod("p", 100, 1<<20, func(p *corev1.Pod) { p.Spec.SchedulerName, p.Status.Phase = "absent", corev1.PodPending })
	got := explained(t, pod, nil).Pending
	if !strings.Contains(got.Held, "no other pod has this schedulerName") || got.Free == "would accept it now" || !strings.Contains(got.Held, "scheduler absent") || len(got.Nodes) != 1 || got.Nodes[0].Reason != "" || got.Nodes[0].Count != 2 {
		t.Errorf("held %q on nodes %v; want the scheduler named, and two nodes that would take it", got.Held, got.Nodes)
	}
	gated := explained(t, fixtures.Pod("p", 100, 1<<20, func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}} }), fleetOfTwo()).Pending
	if !strings.Contains(gated.Held, "example.com/quota") || gated.Nodes != nil || len(gated.Fleets) != 1 || gated.Fleets[0].Because != "no machine is planned for it: scheduling gate example.com/quota" || gated.NoFleets != "" {
		t.Errorf("a gated pod is explained by %+v, want its gate, and that the fleet waits for that too", gated)
	}
}

// running returns a pod of a ReplicaSet on node a.
func running(change ...func(*corev1.Pod)) *corev1.Pod {
	return fixtures.Pod("p", 1000, 1<<30, append([]func(*corev1.Pod){func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase = "a", corev1.PodRunning
		p.Labels = map[string]string{"app": "web"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}}
	}}, change...)...)
}

func TestWhatWouldMoveAPod(t *testing.T) {
	annotated := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
	}
	budget := func(w *world.World) {
		w.Budgets = []policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		}}
	}
	owned := func(w *world.World) { w.Nodes["a"].Labels[v1alpha1.LabelFleet] = "all" }
	optOut := fleetOfTwo(func(f *v1alpha1.NodeFleet) {
		f.Spec.Consolidation.EvictServices = v1alpha1.EvictServicesOptOut
		f.Status.Kept = []v1alpha1.KeptMachine{{Node: "a", Reason: "it would cost more"}}
	})
	for _, tc := range []struct {
		name      string
		pod       *corev1.Pod
		fleet     *v1alpha1.NodeFleet
		world     []func(*world.World)
		ways      string
		held      string
		obstacles string
		node      string
	}{
		{"a service of a fleet that evicts them", running(), optOut, []func(*world.World){owned}, "evict", "", "", "it would cost more"},
		{"its budget allows for no disruption", running(), optOut, []func(*world.World){owned, budget}, "", "PodDisruptionBudget web", "default/web", ""},
		{"do-not-disrupt", running(annotated("karpenter.sh/do-not-disrupt", "true")), optOut, []func(*world.World){owned}, "", "do-not-disrupt", "annotation karpenter.sh/do-not-disrupt", ""},
		{"both", running(annotated("karpenter.sh/do-not-disrupt", "true")), optOut, []func(*world.World){owned, budget}, "", "do-not-disrupt", "annotation karpenter.sh/do-not-disrupt", ""},
		{"asks to be moved with its state where that is not installed", running(annotated(v1alpha1.AnnotationMigration, v1alpha1.MigrationCheckpoint)), nil, nil, "", "Migrations are not installed", "", "belongs to no NodeFleet"},
		{"says that it may be started again", running(annotated(v1alpha1.AnnotationMigration, v1alpha1.MigrationRestart)), nil, nil, "evict", "", "", ""},
		{"its node is being emptied", running(), nil, []func(*world.World){func(w *world.World) {
			w.Nodes["a"].Annotations = map[string]string{v1alpha1.AnnotationDraining: drain.Mark{Owner: drain.Descheduler, Since: noon}.String()}
		}}, "", "", "", "the descheduler has been emptying the node since 2026-11-26 12:00:00 UTC"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			why := explained(t, tc.pod, tc.fleet, tc.world...)
			got := why.Moving
			if ways := strings.Join(got.Ways, ","); tc.ways != "" && ways != tc.ways {
				t.Errorf("it may leave by %q, want %q", ways, tc.ways)
			}
			if tc.held != "" && (!strings.Contains(got.Held, tc.held) || len(got.Ways) > 0) {
				t.Errorf("held by %q with ways %v, want %q and none", got.Held, got.Ways, tc.held)
			}
			var text strings.Builder
			if err := why.Write(&text); err != nil {
				t.Fatal(err)
			}
			for _, says := range []string{tc.held, tc.obstacles, tc.node, "The scores of the scheduler's plugins are not recorded"} {
				if !strings.Contains(strings.ToLower(text.String()), strings.ToLower(says)) {
					t.Errorf("it does not say %q:\n%s", says, text.String())
				}
			}
		})
	}
}

func TestPendingPodsAreListedByHowLongTheyWait(t *testing.T) {
	early := fixtures.Pod("early", 4000, 1<<30, unschedulable, func(p *corev1.Pod) {
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-time.Hour))
	})
	late := fixtures.Pod("late", 4000, 1<<30, unschedulable)
	list := PendingPods{Pods: []Why{explained(t, late, fleetOfTwo()), explained(t, early, nil)}}
	var text strings.Builder
	if err := list.Write(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	if !strings.HasPrefix(lines[1], "default/early") || !strings.Contains(lines[1], "1h0m0s") || !strings.Contains(lines[1], "There is no NodeFleet") ||
		!strings.HasPrefix(lines[2], "default/late") || !strings.Contains(lines[2], "Both nodes have too little free CPU") {
		t.Errorf("the list is\n%s", text.String())
	}
}

func TestThatThereIsNoNodeFleetIsSaidOnceForAllPendingPods(t *testing.T) {
	says := func(message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Conditions[0].Message = message }
	}
	a := fixtures.Pod("a", 4000, 1<<30, unschedulable, says("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."))
	b := fixtures.Pod("b", 4000, 1<<30, unschedulable, says("0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"))
	c := fixtures.Pod("c", 4000, 1<<30, unschedulable, says("the scheduler of others is out of order"))
	list := PendingPods{Pods: []Why{explained(t, a, nil), explained(t, b, nil), explained(t, c, nil)}}
	var text strings.Builder
	if err := list.Write(&text); err != nil {
		t.Fatal(err)
	}
	want := `POD        PENDING FOR  WHY
default/a  1m0s         Both nodes lack the labels that the pod selects nodes by
default/b  1m0s         pod has unbound immediate PersistentVolumeClaims
default/c  1m0s         the scheduler of others is out of order

For each of them: There is no NodeFleet, so Supercargo buys no machine for it.
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOfTheEventsOfAFleetTheLastOfEachReasonIsTold(t *testing.T) {
	event := func(after time.Duration, reason, message string) corev1.Event {
		return corev1.Event{Reason: reason, Message: message, EventTime: metav1.NewMicroTime(noon.Add(after))}
	}
	got := lastEvents([]corev1.Event{
		event(0, "Bought", "first"), event(time.Second, "NoMachineFits", "one"), event(2*time.Second, "NoMachineFits", "two"), event(3*time.Second, "Bought", "second"),
		event(4*time.Second, "Released", "a"), event(5*time.Second, "NoMachineFits", "three"), event(6*time.Second, "LimitReached", "b"),
	})
	want := []string{
		"2026-11-26 12:00:04 UTC Released: a", "2026-11-26 12:00:05 UTC NoMachineFits: three", "2026-11-26 12:00:06 UTC LimitReached: b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAPlaceIsExplainedByFactsOnly has pairs of cases in which a sentence is true and, nearly, not.
func TestAPlaceIsExplainedByFactsOnly(t *testing.T) {
	on := func(change func(*corev1.Pod)) *corev1.Pod {
		return fixtures.Pod("p", 100, 1<<20, func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Phase = "a", corev1.PodRunning
			change(p)
		})
	}
	moved := func(restoring bool) *corev1.Pod {
		return on(func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1alpha1.AnnotationMigrationName: "m"}
			if restoring {
				p.Labels = map[string]string{v1alpha1.LabelMigration: "m"}
			}
		})
	}
	selecting := func(host string) *corev1.Pod {
		return on(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: host} })
	}
	hostname := func(w *world.World) { w.Nodes["a"].Labels = map[string]string{corev1.LabelHostname: "a"} }
	nothing := on(func(*corev1.Pod) {})
	for _, tc := range []struct {
		name       string
		pod        *corev1.Pod
		fleet      *v1alpha1.NodeFleet
		says, nots string
	}{
		{"moved", moved(false), nil, "Migration m moved it there", "is moving it"},
		{"being moved", moved(true), nil, "Migration m is moving it there", "moved it there"},
		{"a selector of the node", selecting("a"), nil, "its nodeSelector names the node", "is moving"},
		{"a selector of another node", selecting("b"), nil, "Why is it on node a?", "names the node"},
		{"no fleet", nothing, nil, "The node belongs to no NodeFleet", "is unknown: its machines"},
		{"a fleet whose machines could not be read", nothing, fleetOfTwo(), "whether it is a machine of NodeFleet all is unknown: its machines could not be read", "belongs to no NodeFleet"},
		{"no fleet for a pending pod", fixtures.Pod("p", 4000, 1<<30, unschedulable), nil, "There is no NodeFleet, so Supercargo buys no machine for it.", "no machine is bought for it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var text strings.Builder
			if err := explained(t, tc.pod, tc.fleet, hostname).Write(&text); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), tc.says) || strings.Contains(text.String(), tc.nots) {
				t.Errorf("it says\n%s\nwant %q and not %q", text.String(), tc.says, tc.nots)
			}
		})
	}
}

// TestAPodOnANodeThatIsNotReadyOrGoesIsToldSo: its kubelet does not start or stop the pod, so that nothing else explains what
// the user sees.
func TestAPodOnANodeThatIsNotReadyOrGoesIsToldSo(t *testing.T) {
	got := say(t, running(), onNode(notReady))
	says(t, got, "node a: it has not been ready since 2026-11-26 11:00:00 UTC (NodeStatusUnknown)\n")
	got = say(t, running(), onNode(isDeleted))
	says(t, got, "node a: its deletion was requested at 2026-11-26 12:00:00 UTC; it exists until these finalizers are removed: example.com/hold\n")
	got = saysOf(t, aNode(t))
	says(t, got, "!deletion", "!ready")
	says(t, aNodeThat(t, isDeleted), "\n  Its deletion was requested at 2026-11-26 12:00:00 UTC; it exists until these finalizers are removed: example.com/hold.\n")
}

// TestTheDeletionOfAPodIsSaidWhetherItRunsOrHasEnded has the time of the request, 30 s before that of the deletion.
func TestTheDeletionOfAPodIsSaidWhetherItRunsOrHasEnded(t *testing.T) {
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	for _, pod := range []*corev1.Pod{running(finalized), running(finalized, ended)} {
		says(t, say(t, pod), "\n  Its deletion was requested at 2026-11-26 11:59:30 UTC; it exists until these finalizers are removed: example.com/hold.\n")
	}
	says(t, say(t, running()), "!Its deletion was requested")
}

// TestTheListHasWhatAPodThatIsNominatedWaitsFor besides the report of its scheduler, which may be of an attempt that failed
// since.
func TestTheListHasWhatAPodThatIsNominatedWaitsFor(t *testing.T) {
	for _, tc := range []struct {
		pod  *corev1.Pod
		want string
	}{
		{pending(nominatedTo("a")), "It is nominated to node a"},
		{pending(unschedulable, nominatedTo("a")), "It is nominated to node a. Both nodes have too little free CPU"},
	} {
		if got := NewWhy(input(tc.pod)).Pending.line(); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
