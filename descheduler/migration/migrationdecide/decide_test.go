package migrationdecide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/podedit"
	"supercargo.dev/supercargo/internal/movable"
)

// on returns a world of a pod with an owner, in which all actors have acted, without trouble,
// until the check succeeds.
func on(t *testing.T, owned owner, until func(*world) bool) *world {
	t.Helper()
	w := newWorld(0, owned)
	for range 200 {
		if until(w) {
			return w
		}
		w.now = w.now.Add(100 * time.Millisecond)
		w.controller()
		if until(w) {
			return w
		}
		w.scheduler()
		w.sourceAgent()
		w.targetAgent(nodeB)
		w.kubelet(nodeA)
		w.kubelet(nodeB)
		w.jobController()
		w.setController()
	}
	t.Fatalf("it does not come to that: %+v\n%s", w.m.Status, strings.Join(w.trace, "\n"))
	return nil
}

// ordered returns a check for an order.
func ordered(order v1alpha1.MigrationOrder) func(*world) bool {
	return func(w *world) bool { return w.m.Status.Order == order }
}

// next returns a check for the action of the next step.
func next(do Action) func(*world) bool {
	return func(w *world) bool { return w.m.Status.Order != "" && w.decide().Do == do }
}

func isStaged(w *world) bool { return staged(Observation{Migration: w.m}) }

func isRunning(w *world) bool {
	r := w.restored()
	return r != nil && r.Status.Phase == corev1.PodRunning
}

func ended(w *world) bool { return Ended(w.m) }

func TestAnUndisturbedMoveSucceedsInTheOrderOfTheDesign(t *testing.T) {
	for _, tc := range []struct {
		name  string
		owned owner
		want  string
	}{
		{"of a ReplicaSet", ofSet, "begin|CreatePod|Freeze|InProgress|before others|takes over|does not count|DeletePod?|Kill|DeletePod?|Clean|PatchPod|Succeeded"},
		{"of a Job", ofJob, "begin|CreatePod|Freeze|InProgress|DeletePod|PatchPod|PatchPod|Kill|DeletePod?|Clean|PatchPod|Succeeded"},
		{"of a bare pod", bare, "begin|CreatePod|Freeze|InProgress|DeletePod|PatchPod|Kill|DeletePod?|Clean|PatchPod|Succeeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := on(t, tc.owned, ended)
			at := 0
			lines := w.trace
			for _, want := range strings.Split(tc.want, "|") {
				if strings.HasSuffix(want, "?") {
					continue // it may have been dead before
				}
				found := -1
				for i := at; i < len(lines); i++ {
					if strings.HasPrefix(lines[i], "controller: ") && strings.Contains(strings.ToLower(lines[i]), strings.ToLower(said[want])) {
						found = i
						break
					}
				}
				if found < 0 {
					t.Fatalf("no %s (%q) after line %d of\n%s", want, said[want], at, strings.Join(lines, "\n"))
				}
				at = found + 1
			}
			if w.m.Status.Phase != v1alpha1.MigrationSucceeded {
				t.Errorf("it ends as %s", w.m.Status.Phase)
			}
		})
	}
}

// said are the names of steps in a trace.
var said = map[string]string{
	"begin": "begin", "CreatePod": "CreatePod", "Freeze": ": freeze", "InProgress": "the new pod can take over", "DeletePod": "DeletePod", "PatchPod": "PatchPod",
	"before others": "PatchPod: the ReplicaSet must delete the old pod before others", "takes over": "PatchPod: the new pod takes over",
	"does not count": "PatchPod: the ReplicaSet must no longer count the old pod", "Kill": "kill the old container", "Clean": "is dead: clean up", "Succeeded": "it has succeeded",
}

func TestNothingIsFrozenBeforeAPlaceIsCertain(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*v1alpha1.MigrationStatus)
	}{
		{"no reservation", func(s *v1alpha1.MigrationStatus) { s.Reservation = nil }},
		{"a reservation for another pod", func(s *v1alpha1.MigrationStatus) { s.Reservation.PodUID = "other" }},
		{"no report of the target", func(s *v1alpha1.MigrationStatus) { s.Target = nil }},
		{"the report of another target", func(s *v1alpha1.MigrationStatus) { s.Target.Node = nodeC }},
		{"a target that has not prepared", func(s *v1alpha1.MigrationStatus) { s.Target.Step = v1alpha1.TargetCleaned }},
		{"a source that has not prepared", func(s *v1alpha1.MigrationStatus) { s.Source = nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := on(t, ofJob, func(w *world) bool {
				return next(WriteStatus)(w) && w.decide().Status.Order == v1alpha1.OrderFreeze
			})
			tc.spoil(&w.m.Status)
			for range 5 {
				step := w.decide()
				if step.Do == WriteStatus && step.Status.Order == v1alpha1.OrderFreeze {
					t.Fatal("freezes")
				}
				w.apply(step, w.m.ResourceVersion)
			}
		})
	}
}

func TestFaultsBeforeTheHandOverLeadBack(t *testing.T) {
	freeze, verifying := ordered(v1alpha1.OrderFreeze), isStaged
	reserving := func(w *world) bool { return w.m.Status.Order == v1alpha1.OrderPrepare && w.restored() != nil }
	for _, tc := range []struct {
		name  string
		until func(*world) bool
		spoil func(*world)
		want  string
	}{
		{"the deadline passes while nobody has room", next(CreatePod), func(w *world) { w.now = w.now.Add(6 * time.Minute) }, "DeadlineExceeded"},
		{"the deadline passes while it is frozen", freeze, func(w *world) { w.now = w.now.Add(6 * time.Minute) }, "DeadlineExceeded"},
		{"it is cancelled", freeze, func(w *world) { w.m.DeletionTimestamp = &metav1.Time{} }, "Cancelled"},
		{"the new pod runs, and somebody deletes it", isRunning, func(w *world) { w.restored().DeletionTimestamp = &metav1.Time{} }, "NewPodDeleted"},
		{"the new pod runs, and fails", isRunning, func(w *world) { w.restored().Status.Phase = corev1.PodFailed }, "RestoreFailed"},
		{"the new pod runs, and its node is gone", isRunning, func(w *world) { delete(w.nodes, nodeB) }, "TargetGone"},
		{"the source fails", freeze, func(w *world) {
			w.m.Status.Source = &v1alpha1.SourceReport{Step: v1alpha1.SourceFailed, Reason: "DumpFailed", Message: "CRIU"}
		}, "DumpFailed"},
		{"the source fails for a reason that is no word", freeze, func(w *world) {
			w.m.Status.Source = &v1alpha1.SourceReport{Step: v1alpha1.SourceFailed, Reason: "no word"}
		}, "AgentFailed"},
		{"the target fails", freeze, func(w *world) {
			w.m.Status.Target = &v1alpha1.TargetReport{Node: nodeB, Step: v1alpha1.TargetFailed, Reason: "NoRoom"}
		}, "NoRoom"},
		{"the target fails, and the scheduler takes its reservation back", freeze, func(w *world) {
			w.m.Status.Target = &v1alpha1.TargetReport{Node: nodeB, Step: v1alpha1.TargetFailed, Reason: "NoRoom"}
			w.m.Status.Reservation = nil
		}, "NoRoom"},
		{"the scheduler gives the room away at the deadline", freeze, func(w *world) {
			w.now = w.now.Add(6 * time.Minute)
			w.m.Status.Reservation = nil
		}, "DeadlineExceeded"},
		{"the target was cordoned", freeze, func(w *world) { w.nodes[nodeB].Spec.Unschedulable = true }, "TargetCordoned"},
		{"the target is not ready", verifying, func(w *world) { w.cutOff(nodeB) }, "TargetNotReady"},
		{"the target is gone", freeze, func(w *world) { delete(w.nodes, nodeB) }, "TargetGone"},
		{"the scheduler gives the room away", freeze, func(w *world) { w.m.Status.Reservation = nil }, "ReservationLost"},
		{"somebody deletes the new pod", freeze, func(w *world) { w.remove(w.restored()) }, "NewPodGone"},
		{"somebody is deleting the new pod", verifying, func(w *world) { w.restored().DeletionTimestamp = &metav1.Time{} }, "NewPodDeleted"},
		{"the new pod has lost its label while it is frozen", verifying, func(w *world) { delete(w.restored().Labels, v1alpha1.LabelMigration) }, "PodChanged"},
		{"the new pod was made without its label", reserving, func(w *world) { delete(w.restored().Labels, v1alpha1.LabelMigration) }, "PodChanged"},
		{"the new pod was made with a container that is restarted", reserving, func(w *world) {
			w.restored().Spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}, "PodChanged"},
		{"the restore fails", verifying, func(w *world) { w.restored().Status.Phase = corev1.PodFailed }, "RestoreFailed"},
		{"it was bound too early", next(WriteStatus), func(w *world) {
			w.controller()
			w.sourceAgent()
			w.controller()
			w.controller()
			w.restored().Spec.NodeName = nodeC
		}, "CheckpointStagingMissing"},
		{"it was bound elsewhere", verifying, func(w *world) { w.restored().Spec.NodeName = nodeC }, "BoundElsewhere"},
		{"the pod is gone before its state is staged", freeze, func(w *world) { w.remove(w.pods[source]) }, "SourceEnded"},
		{"somebody deletes the pod before its state is staged", freeze, func(w *world) { w.pods[source].DeletionTimestamp = &metav1.Time{} }, "SourceDeleted"},
		{"the pod has ended, and its Job may have made another", verifying, func(w *world) { w.pods[source].Status.Phase = corev1.PodFailed }, "SourceEnded"},
		{"the pod has ended although the new one runs, and its Job may have made another", isRunning, func(w *world) {
			w.pods[source].Status.Phase = corev1.PodFailed
		}, "SourceEnded"},
		{"the container was restarted", verifying, func(w *world) { w.pods[source].Status.ContainerStatuses[0].ContainerID = "containerd://later" }, "SourceRestarted"},
		{"a stranger has the name of the new pod", next(CreatePod), func(w *world) {
			w.pods[w.m.Status.Plan.RestoredPod] = runningPod(w.m.Status.Plan.RestoredPod, nodeC, "")
		}, "NameTaken"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := on(t, ofJob, tc.until)
			tc.spoil(w)
			step := w.decide()
			if step.Do != WriteStatus || step.Status.Phase != v1alpha1.MigrationRollingBack {
				t.Fatalf("it does not go back: %+v", step)
			}
			if c := condition(step.Status, v1alpha1.MigrationFinished); c.Reason != tc.want || c.Status != no {
				t.Errorf("it goes back for %s (%s), want %s", c.Reason, c.Message, tc.want)
			}
		})
	}
}

// TestANewPodWithoutItsLabelGoesBeforeTheOldOneContinues: its copy may run, whoever has removed the label.
func TestANewPodWithoutItsLabelGoesBeforeTheOldOneContinues(t *testing.T) {
	w := on(t, ofJob, isStaged)
	delete(w.restored().Labels, v1alpha1.LabelMigration)
	w.apply(w.decide(), w.m.ResourceVersion)
	if step := w.decide(); step.Do != DeletePod || step.Pod.Name != w.m.Status.Plan.RestoredPod {
		t.Errorf("it does not delete the new pod: %+v", step)
	}
	w.remove(w.restored())
	if step := w.decide(); step.Do != WriteStatus || step.Status.Order != v1alpha1.OrderThaw {
		t.Errorf("the old pod does not continue: %+v", step)
	}
}

func TestAPodThatEndsOnceItsStateIsStagedContinuesElsewhere(t *testing.T) {
	for _, tc := range []struct {
		name  string
		owned owner
		spoil func(*world)
	}{
		{"a bare pod that is gone", bare, func(w *world) { w.remove(w.pods[source]) }},
		{"a bare pod that has failed", bare, func(w *world) { w.pods[source].Status.Phase = corev1.PodFailed }},
		{"one that somebody deletes", ofJob, func(w *world) { w.deletePod(w.pods[source], 30) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := on(t, tc.owned, isStaged)
			tc.spoil(w)
			for step := w.decide(); step.Do != Wait; step = w.decide() {
				w.apply(step, w.m.ResourceVersion)
			}
			if w.m.Status.Phase != v1alpha1.MigrationVerifying {
				t.Errorf("it is %s: %+v", w.m.Status.Phase, condition(&w.m.Status, v1alpha1.MigrationFinished))
			}
		})
	}
}

func TestTheNewPodMustRunAsItIsToBeforeItTakesOver(t *testing.T) {
	probe := &corev1.Probe{}
	for _, tc := range []struct {
		name  string
		spoil func(*corev1.Pod, *corev1.ContainerStatus)
		takes bool
	}{
		{"it runs", func(*corev1.Pod, *corev1.ContainerStatus) {}, true},
		{"it has ended well", func(p *corev1.Pod, _ *corev1.ContainerStatus) { p.Status.Phase = corev1.PodSucceeded }, true},
		{"it is ready as its probe says", func(p *corev1.Pod, s *corev1.ContainerStatus) {
			p.Spec.Containers[0].ReadinessProbe, s.Ready = probe, true
		}, true},
		{"it is not ready", func(p *corev1.Pod, _ *corev1.ContainerStatus) { p.Spec.Containers[0].ReadinessProbe = probe }, false},
		{"it has not started", func(p *corev1.Pod, _ *corev1.ContainerStatus) { p.Spec.Containers[0].StartupProbe = probe }, false},
		{"its start is not confirmed", func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.Started = new(false) }, false},
		{"it was restarted", func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.RestartCount = 1 }, false},
		{"it waits", func(_ *corev1.Pod, s *corev1.ContainerStatus) { s.State = corev1.ContainerState{} }, false},
		{"it is pending", func(p *corev1.Pod, _ *corev1.ContainerStatus) { p.Status.Phase = corev1.PodPending }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := on(t, ofJob, isRunning)
			tc.spoil(w.restored(), &w.restored().Status.ContainerStatuses[0])
			step := w.decide()
			if takes := step.Do == WriteStatus && condition(step.Status, v1alpha1.MigrationHandedOver) != nil; takes != tc.takes {
				t.Errorf("takes over: %v, want %v (%s)", takes, tc.takes, step.Why)
			}
		})
	}
}

func TestAPodOfAReplicaSetThatHasLostTheOldOneComesTooLate(t *testing.T) {
	for _, tc := range []struct {
		name  string
		until func(*world) bool
		spoil func(*world)
		want  string
	}{
		{"the set wants fewer while its state is on the way", isStaged, func(w *world) { w.deletePod(w.pods[source], 30) }, "SourceDeleted"},
		{"somebody deletes it although the new one runs", isRunning, func(w *world) { w.deletePod(w.pods[source], 30) }, "SourceDeleted"},
		{"it has ended although the new one runs", isRunning, func(w *world) { w.pods[source].Status.Phase = corev1.PodFailed }, "SourceEnded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := on(t, ofSet, tc.until)
			tc.spoil(w)
			step := w.decide()
			if step.Do != WriteStatus || step.Status.Phase != v1alpha1.MigrationRollingBack {
				t.Fatalf("it does not go back: %+v", step)
			}
			if c := condition(step.Status, v1alpha1.MigrationFinished); c.Reason != tc.want {
				t.Errorf("it goes back for %s (%s), want %s", c.Reason, c.Message, tc.want)
			}
		})
	}
}

func TestAReplicaSetAdoptsOnlyWhatIsReady(t *testing.T) {
	w := on(t, ofSet, isRunning)
	r := w.restored()
	r.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	if step := w.decide(); step.Do != Wait {
		t.Errorf("with a new pod that runs and is not ready: %+v", step)
	}
	r.Status.Phase = corev1.PodSucceeded // its work is done, and must not be done twice
	if step := w.decide(); step.Do != WriteStatus || condition(step.Status, v1alpha1.MigrationHandedOver) == nil {
		t.Errorf("with a new pod that has ended well: %+v", step)
	}
}

// TestAReplicaSetNeverMakesAnotherPod: the ReplicaSet acts after each write, always finds one pod
// or two, and deletes only the old one.
func TestAReplicaSetNeverMakesAnotherPod(t *testing.T) {
	w := on(t, ofSet, ended)
	if w.m.Status.Phase != v1alpha1.MigrationSucceeded || w.made > 0 || w.pods[source] != nil {
		t.Errorf("%s; the set has made %d pods, the old one is there: %v", w.m.Status.Phase, w.made, w.pods[source] != nil)
	}
	for range 20 {
		w.setController()
		w.kubelet(nodeB)
	}
	r := w.restored()
	if r == nil || r.DeletionTimestamp != nil || !w.owns(r) || !w.processes[r.UID].running {
		t.Errorf("the new pod does not stay: %+v\n%s", r, strings.Join(w.trace, "\n"))
	}
}

func TestTheOldContainerContinuesOnlyOnceTheNewPodIsGone(t *testing.T) {
	w := on(t, ofJob, isBound)
	w.m.DeletionTimestamp = &metav1.Time{}
	w.controller() // rolls back
	step := w.decide()
	if step.Do != DeletePod || step.Pod.Name != w.restored().Name || step.GraceSeconds != 1 {
		t.Fatalf("want the new pod deleted first: %+v", step)
	}
	w.controller()
	if step = w.decide(); step.Do != Wait {
		t.Fatalf("want to wait: %+v", step)
	}
	w.cutOff(nodeB)
	if step = w.decide(); step.Do != WriteStatus || step.Status.Order == v1alpha1.OrderThaw || condition(step.Status, v1alpha1.MigrationFrozen).Reason != "WaitingForNewPod" {
		t.Fatalf("want it held, and that said: %+v", step)
	}
	w.controller()
	w.scrap(nodeB)
	if step = w.decide(); step.Do != WriteStatus || step.Status.Order != v1alpha1.OrderThaw {
		t.Fatalf("want it to continue: %+v", step)
	}
}

func TestWhatIsFrozenIsNotAbandonedWhenItsAgentIsSilent(t *testing.T) {
	for _, tc := range []struct {
		name  string
		until func(*world) bool
		waits bool
	}{
		{"it is frozen", isStaged, true},
		{"it was never frozen", next(CreatePod), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := on(t, ofJob, tc.until)
			w.m.DeletionTimestamp = &metav1.Time{}
			for range 10 {
				w.controller()
			}
			w.now = w.now.Add(24 * time.Hour)
			if step := w.decide(); tc.waits && (step.Do != WriteStatus || condition(step.Status, v1alpha1.MigrationFrozen).Reason != "AgentNotReporting") {
				t.Errorf("it does not say that the agent is silent: %+v", step)
			} else if tc.waits {
				w.apply(step, w.m.ResourceVersion)
			}
			if step := w.decide(); (step.Do == Wait) != tc.waits || w.m.Status.Order != v1alpha1.OrderThaw {
				t.Errorf("order %s, then %+v", w.m.Status.Order, step)
			}
		})
	}
}

func TestANewPodThatOthersGiveLongToEndIsGivenLess(t *testing.T) {
	w := on(t, ofJob, isRunning)
	w.deletePod(w.restored(), 30)
	w.controller() // rolls back
	if step := w.decide(); step.Do != DeletePod || step.GraceSeconds != 1 {
		t.Errorf("%+v", step)
	}
}

func TestTheOldPodIsNotKilledByItsKubeletBeforeTheDeadline(t *testing.T) {
	w := on(t, ofJob, next(DeletePod))
	step := w.decide()
	if step.Pod.Name != source || step.GraceSeconds < 600+300 {
		t.Errorf("%s gets %d s", step.Pod.Name, step.GraceSeconds)
	}
}

func TestOnceHandedOverThereIsOnlyTheWayForward(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*world)
	}{
		{"it is cancelled", func(w *world) { w.m.DeletionTimestamp = &metav1.Time{} }},
		{"the deadline passes", func(w *world) { w.now = w.now.Add(time.Hour) }},
		{"the target is cordoned", func(w *world) { w.nodes[nodeB].Spec.Unschedulable = true }},
		{"the new pod fails", func(w *world) { w.dies(w.restored().Name) }},
		{"the new pod is deleted", func(w *world) { w.deletePod(w.restored(), 0) }},
		{"the old pod is gone", func(w *world) { w.pods[source].Finalizers = nil; w.remove(w.pods[source]) }},
		{"the source's node is gone", func(w *world) { w.scrap(nodeA) }},
		{"somebody has broken the note of the labels", func(w *world) { w.restored().Annotations[podedit.AnnotationWithheldLabels] = "{" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := on(t, ofJob, func(w *world) bool { return HandingOver(w.m) })
			tc.spoil(w)
			for range 200 {
				if w.m == nil || Ended(w.m) {
					break
				}
				w.now = w.now.Add(time.Second)
				w.controller()
				w.sourceAgent()
				w.targetAgent(nodeB)
				w.kubelet(nodeA)
				w.kubelet(nodeB)
				w.jobController()
				if Back(w.m) {
					t.Fatal("it goes back")
				}
			}
			if w.m.Status.Phase != v1alpha1.MigrationSucceeded {
				t.Errorf("it is %s\n%s", w.m.Status.Phase, strings.Join(w.trace, "\n"))
			}
		})
	}
}

func TestASourceThatIsNotReadyHoldsTheEndUpAndIsNamed(t *testing.T) {
	w := on(t, ofJob, ordered(v1alpha1.OrderKill))
	w.cutOff(nodeA)
	w.controller()
	if c := condition(&w.m.Status, v1alpha1.MigrationHandedOver); c.Reason != "SourceNotReady" || !strings.Contains(c.Message, "node a") {
		t.Errorf("%s: %s", c.Reason, c.Message)
	}
	if step := w.decide(); step.Do != Wait {
		t.Errorf("does not wait: %+v", step)
	}
}

func TestAgentsThatSaySilentDoNotHoldTheEndUp(t *testing.T) {
	w := on(t, ofJob, ordered(v1alpha1.OrderClean))
	w.controller()
	step := w.decide()
	if step.Do != Wait || step.Until.Sub(w.now) > w.config.CleanPatience || !step.Until.After(w.now) {
		t.Fatalf("want to wait for them: %+v", step)
	}
	w.now = step.Until
	for range 3 {
		w.controller()
	}
	c := condition(&w.m.Status, v1alpha1.MigrationCleanedUp)
	if w.m.Status.Phase != v1alpha1.MigrationSucceeded || c.Status != no || c.Reason != "AgentsNotReporting" || !strings.Contains(c.Message, "a and b") {
		t.Errorf("%s, %s: %s", w.m.Status.Phase, c.Reason, c.Message)
	}
}

func TestWhatTheSourceCannotMoveIsRefused(t *testing.T) {
	w := on(t, ofJob, next(CreatePod))
	w.m.Status.Source = &v1alpha1.SourceReport{Step: v1alpha1.SourceFailed, Reason: "OpenConnections", Message: "close them"}
	for range 20 {
		w.now = w.now.Add(time.Second)
		w.controller()
		w.sourceAgent()
	}
	c := condition(&w.m.Status, v1alpha1.MigrationEligible)
	if w.m.Status.Phase != v1alpha1.MigrationRefused || c.Status != no || c.Reason != "OpenConnections" || !strings.Contains(c.Message, "close them") {
		t.Errorf("%s: %+v", w.m.Status.Phase, c)
	}
}

func TestItWaitsForRoomAmongTheMovesInFlight(t *testing.T) {
	flights := func(n int, source, target string) (all []Flight) {
		for i := range n {
			all = append(all, Flight{Namespace: fmt.Sprintf("ns%d", i), Name: fmt.Sprintf("ns%d/m", i), PodUID: fmt.Sprint(i), Source: source, Target: target})
		}
		return all
	}
	of := func(namespace string, stuck bool, all []Flight) []Flight {
		for i := range all {
			all[i].Namespace, all[i].Stuck = namespace, stuck
		}
		return all
	}
	for _, tc := range []struct {
		name   string
		others []Flight
		says   string // empty if it begins
	}{
		{"nobody else moves", nil, ""},
		{"others of the namespace move", of("ns", false, flights(4, "x", "y")), ""},
		{"half of all that may move are of the namespace", of("ns", false, flights(5, "x", "y")), "5 of at most 5 migrations of namespace ns"},
		{"half of all that may move are of another namespace", of("hog", false, flights(5, "x", "y")), ""},
		{"all others are stuck", of("ns", true, flights(20, nodeA, "y")), ""},
		{"some others are stuck", append(of("x", true, flights(5, "x", "y")), flights(10, "x", "y")...), "10 of at most 10"},
		{"others move elsewhere", flights(9, "x", "y"), ""},
		{"too many move", flights(10, "x", "y"), "10 of at most 10"},
		{"one other leaves the node", flights(1, nodeA, "y"), ""},
		{"two others leave the node", flights(2, nodeA, "y"), "2 of at most 2 migrations from node a"},
		{"one leaves it and two come", append(flights(1, nodeA, "y"), flights(2, "x", nodeA)...), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(0, bare)
			o := w.observe()
			o.Others = tc.others
			step := Next(w.config, o, w.now)
			if tc.says == "" {
				if step.Do != TryPod {
					t.Errorf("does not begin: %+v", step)
				}
				return
			}
			c := condition(step.Status, v1alpha1.MigrationEligible)
			if step.Status.Phase != v1alpha1.MigrationPending || c.Status != unknown || !strings.Contains(c.Message, tc.says) {
				t.Fatalf("%s: %+v", step.Status.Phase, c)
			}
			o.Migration.Status = *step.Status
			if step = Next(w.config, o, w.now); step.Do != Wait {
				t.Errorf("writes again: %+v", step)
			}
		})
	}
}

func TestTheTargetIsNotGivenMoreThanItsShare(t *testing.T) {
	w := on(t, ofJob, func(w *world) bool {
		return next(WriteStatus)(w) && w.decide().Status.Order == v1alpha1.OrderFreeze
	})
	o := w.observe()
	o.Others = []Flight{{PodUID: "1", Source: "x", Target: nodeB}, {PodUID: "2", Source: "x", Target: nodeB}}
	step := Next(w.config, o, w.now)
	if step.Do != WriteStatus || step.Status.Order != v1alpha1.OrderPrepare || condition(step.Status, v1alpha1.MigrationReserved).Reason != "NodeBusy" {
		t.Errorf("%+v", step)
	}
}

// TestNodesThatExchangePodsDoNotWaitForEachOther: as many migrations have begun from each of two
// nodes as may. If each waited for one of the others to leave its target, none ever would.
func TestNodesThatExchangePodsDoNotWaitForEachOther(t *testing.T) {
	w := on(t, ofJob, func(w *world) bool {
		return next(WriteStatus)(w) && w.decide().Status.Order == v1alpha1.OrderFreeze
	})
	o := w.observe()
	o.Others = []Flight{{PodUID: "1", Source: nodeA}, {PodUID: "2", Source: nodeB}, {PodUID: "3", Source: nodeB}}
	if step := Next(w.config, o, w.now); step.Do != WriteStatus || step.Status.Order != v1alpha1.OrderFreeze {
		t.Errorf("%+v", step)
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Observation)
		want   string
	}{
		{"there is no such pod", func(o *Observation) { o.Source = nil }, "PodNotFound"},
		{"it is another pod by now", func(o *Observation) { o.Migration.Spec.PodUID = "earlier" }, "PodReplaced"},
		{"it is on the move already", func(o *Observation) { o.Others = []Flight{{Name: "ns/other", PodUID: "uid-" + source}} }, "AlreadyMoving"},
		{"its Service would send to it", func(o *Observation) {
			o.Services = []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "work"}}}}
		}, "ServiceUnsupported"},
		{"the API server would not make the new pod", func(o *Observation) {
			o.Trial = &Trial{Refusals: []movable.Refusal{{Reason: "QuotaExceeded", Message: "no room"}}}
		}, "QuotaExceeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(0, bare)
			o := w.observe()
			tc.change(&o)
			step := Next(w.config, o, w.now)
			if step.Do != WriteStatus || step.Status.Phase != v1alpha1.MigrationRefused || step.Status.Plan != nil || step.Status.Order != "" {
				t.Fatalf("not refused: %+v", step)
			}
			if c := condition(step.Status, v1alpha1.MigrationEligible); c.Reason != tc.want || c.Status != no {
				t.Errorf("refused for %s, want %s", c.Reason, tc.want)
			}
			o.Migration.Status = *step.Status
			if !Ended(o.Migration) {
				t.Error("it has not ended")
			}
		})
	}
}

func TestWhatHasEndedIsKeptForAWhile(t *testing.T) {
	w := on(t, bare, ended)
	w.controller()
	step := w.decide()
	if step.Do != Wait || len(w.m.Finalizers) > 0 {
		t.Fatalf("%+v, finalizers %v", step, w.m.Finalizers)
	}
	o := w.observe()
	o.Surplus = true
	if step := Next(w.config, o, w.now); step.Do != DeleteMigration {
		t.Errorf("there are too many, and it stays: %+v", step)
	}
	if step := Next(w.config, w.observe(), step.Until); step.Do != DeleteMigration {
		t.Errorf("it is old, and stays: %+v", step)
	}
}

func TestTheOldestGoWhenThereAreTooMany(t *testing.T) {
	at := func(namespace, name string, minute int, ended metav1.ConditionStatus) v1alpha1.Migration {
		return v1alpha1.Migration{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Status: v1alpha1.MigrationStatus{Conditions: []metav1.Condition{{
				Type: v1alpha1.MigrationFinished, Status: ended, LastTransitionTime: metav1.NewTime(time.Unix(int64(60*minute), 0)),
			}}},
		}
	}
	all := []v1alpha1.Migration{
		at("ns", "new", 9, yes), at("ns", "b-tie", 5, yes), at("ns", "a-tie", 5, yes), at("ns", "old", 4, yes),
		at("ns", "not-ended", 1, no), at("elsewhere", "older", 1, yes),
	}
	for most, want := range []string{"old a-tie b-tie new", "old a-tie b-tie", "old a-tie", "old", "", ""} {
		var got []string
		for _, m := range Surplus("ns", all, most) {
			got = append(got, m.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("of at most %d, %v go; want %s", most, got, want)
		}
	}
}

func TestAPodThatCameTooLateGoes(t *testing.T) {
	w := on(t, bare, next(CreatePod))
	late := w.decide()
	w.m.DeletionTimestamp = &metav1.Time{}
	for range 30 {
		w.now = w.now.Add(time.Second)
		if w.m == nil {
			break
		}
		w.controller()
		w.sourceAgent()
	}
	if w.m != nil {
		t.Fatalf("it is still there: %+v", w.m.Status)
	}
	w.apply(late, "")
	if step := Leftover(nil, w.restored(), w.pods[source]); step == nil || step.Do != DeletePod {
		t.Errorf("it stays: %+v", step)
	}
}

func TestFiguresAreMeasuredAndNotMadeOutToBeSmall(t *testing.T) {
	w := on(t, ofJob, isStaged)
	frozen := w.m.Status.Source.FrozenAt.Time
	stagedAt := w.m.Status.Target.Time.Time
	for _, tc := range []struct {
		name            string
		started, now    time.Time
		frozen, restore string
	}{
		{"the second in which it started has passed", stagedAt.Truncate(time.Second), stagedAt.Add(5 * time.Second),
			seconds(stagedAt.Truncate(time.Second).Add(time.Second).Sub(frozen)), seconds(stagedAt.Truncate(time.Second).Add(time.Second).Sub(stagedAt))},
		{"it was seen within that second", stagedAt, stagedAt.Add(300 * time.Millisecond), seconds(stagedAt.Add(300 * time.Millisecond).Sub(frozen)), "0.300"},
		{"its clock is behind", stagedAt.Add(-time.Minute), stagedAt.Add(2 * time.Second), seconds(stagedAt.Sub(frozen)), "0.000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := on(t, ofJob, isRunning)
			w.m.Status.Source.FrozenAt.Time, w.m.Status.Target.Time.Time = frozen, stagedAt
			w.restored().Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(tc.started)
			w.now = tc.now
			m := w.decide().Status.Measured
			if m.FrozenSeconds != tc.frozen || m.RestoreSeconds != tc.restore {
				t.Errorf("frozen %s s, restored in %s s; want %s and %s", m.FrozenSeconds, m.RestoreSeconds, tc.frozen, tc.restore)
			}
		})
	}
}

func TestTheConditionsHaveBytesAndSeconds(t *testing.T) {
	w := on(t, ofJob, ended)
	for kind, want := range map[string]string{
		v1alpha1.MigrationShipped:  "500 bytes sent in 0.200 s",
		v1alpha1.MigrationFrozen:   "no copy ran for ",
		v1alpha1.MigrationVerified: "restored in ",
		v1alpha1.MigrationFinished: "dump 0.100 s, ship 0.200 s",
	} {
		if c := condition(&w.m.Status, kind); c == nil || !strings.Contains(c.Message, want) {
			t.Errorf("%s does not say %q: %+v", kind, want, c)
		}
	}
	if m := w.m.Status.Measured; m.TotalSeconds == "" || m.CheckpointBytes != 1000 || m.ShippedBytes != 500 {
		t.Errorf("measured %+v", m)
	}
}

func TestWhatIsToldAboutAMoveThatGoesBack(t *testing.T) {
	w := on(t, ofJob, isBound)
	var reasons []string
	w.m.DeletionTimestamp = &metav1.Time{}
	var outcome *Outcome
	for range 60 {
		if w.m == nil {
			break
		}
		before := w.m.Status.DeepCopy()
		w.now = w.now.Add(time.Second)
		w.controller()
		if w.m != nil {
			for _, told := range EventsOf(before, &w.m.Status) {
				reasons = append(reasons, told.Type+" "+told.Reason)
			}
			if o := OutcomeOf(before, &w.m.Status); o != nil {
				outcome = o
			}
		}
		w.sourceAgent()
		w.targetAgent(nodeB)
		w.kubelet(nodeB)
	}
	if got, want := strings.Join(reasons, ", "), "Warning RollingBack, Warning RolledBack"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	if outcome == nil || outcome.Phase != v1alpha1.MigrationRolledBack || outcome.Reason != "Cancelled" {
		t.Errorf("outcome %+v", outcome)
	}
}

func TestOutcomesOfASuccessAndARefusal(t *testing.T) {
	for _, tc := range []struct {
		gone bool
		want Outcome
	}{
		{false, Outcome{v1alpha1.MigrationSucceeded, "TakenOver"}}, {true, Outcome{v1alpha1.MigrationRefused, "PodNotFound"}},
	} {
		w := newWorld(0, bare)
		if tc.gone {
			delete(w.pods, source)
		}
		var got *Outcome
		for range 100 {
			before := w.m.Status.DeepCopy()
			w.now = w.now.Add(100 * time.Millisecond)
			w.controller()
			if got = OutcomeOf(before, &w.m.Status); got != nil {
				break
			}
			w.scheduler()
			if !tc.gone {
				w.sourceAgent()
			}
			w.targetAgent(nodeB)
			w.kubelet(nodeA)
			w.kubelet(nodeB)
		}
		if got == nil || *got != tc.want {
			t.Errorf("outcome %+v, want %+v", got, tc.want)
		}
	}
}

func TestALongMessageIsCut(t *testing.T) {
	s := copyStatus(&v1alpha1.Migration{})
	s.set(v1alpha1.MigrationEligible, no, "X", strings.Repeat("ä", 40000), time.Time{})
	if got := condition(s.MigrationStatus, v1alpha1.MigrationEligible).Message; len(got) > longest || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes, ends in %q", len(got), got[len(got)-8:])
	}
}

func TestNoMigrationBeginsWhileTheClusterIsPausedAndNoneThatHasBegunStops(t *testing.T) {
	w := newWorld(0, ofJob)
	o := w.observe()
	o.Paused = "paused (an incident)"
	step := Next(w.config, o, w.now)
	if c := condition(step.Status, v1alpha1.MigrationEligible); step.Status.Phase != v1alpha1.MigrationPending || c.Reason != v1alpha1.ConditionPaused || c.Message != o.Paused {
		t.Fatalf("%s: %+v", step.Status.Phase, c)
	}
	o.Migration.Status = *step.Status
	if step = Next(w.config, o, w.now.Add(24*time.Hour)); step.Do != Wait {
		t.Errorf("it does not wait for a day: %+v", step)
	}
	o.Paused = ""
	if step = Next(w.config, o, w.now.Add(24*time.Hour)); step.Do != TryPod {
		t.Errorf("it does not begin once that is over: %+v", step)
	}

	w = on(t, ofJob, isStaged)
	o = w.observe()
	want := Next(w.config, o, w.now)
	o.Paused = "paused"
	if step = Next(w.config, o, w.now); step.Do != want.Do {
		t.Errorf("one that has begun does %v in a pause, and %v without", step.Do, want.Do)
	}
}
