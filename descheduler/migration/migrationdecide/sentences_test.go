package migrationdecide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// conditionsOf returns the conditions of a status.
func conditionsOf(s *v1alpha1.MigrationStatus) string {
	if s == nil {
		return ""
	}
	var all []string
	for _, c := range s.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, "\n")
}

// says lets only the controller act for some steps, which wait as long as they need, and returns all conditions since then.
func (w *world) says(steps int) string {
	var all []string
	for range steps {
		if w.m == nil || Ended(w.m) {
			break
		}
		step := w.decide()
		if step.Do == Wait {
			if step.Until.IsZero() {
				break
			}
			w.now = step.Until
			continue
		}
		if w.apply(step, w.m.ResourceVersion); w.m != nil {
			all = append(all, conditionsOf(&w.m.Status))
		}
	}
	return strings.Join(all, "\n")
}

// undisturbed returns all conditions of a move that succeeds.
func undisturbed(t *testing.T, owned owner) string {
	t.Helper()
	var all []string
	on(t, owned, func(w *world) bool {
		all = append(all, conditionsOf(&w.m.Status))
		return ended(w)
	})
	return strings.Join(all, "\n")
}

// TestANewPodThatRunsAndIsNotReadyIsNotSaidNotToRun has a pod whose probe fails until the deadline.
func TestANewPodThatRunsAndIsNotReadyIsNotSaidNotToRun(t *testing.T) {
	w := on(t, ofSet, isStaged)
	w.restored().Spec.NodeName, w.restored().Status.Phase = nodeB, corev1.PodRunning
	if says := w.says(20); !strings.Contains(says, "DeadlineExceeded: the new pod could not take over by ") {
		t.Errorf("it says\n%s", says)
	}
}

// TestThoseThatAMigrationDoesNotWaitForMayBegin has two others that leave the node since an hour, and one elsewhere that
// has just begun.
func TestThoseThatAMigrationDoesNotWaitForMayBegin(t *testing.T) {
	w := newWorld(0, bare)
	o := w.observe()
	o.Others = []Flight{{Namespace: "x", PodUID: "1", Source: nodeA, StartedAt: w.now.Add(-time.Hour)}, {Namespace: "y", PodUID: "2", Source: nodeA, StartedAt: w.now.Add(-time.Hour)}}
	o.Migration.Status = *Next(w.config, o, w.now).Status
	w.now = w.now.Add(5 * time.Minute)
	o.Others = append(o.Others, Flight{Namespace: "z", PodUID: "3", Source: nodeC, StartedAt: w.now.Add(-time.Second)})
	says := conditionsOf(Next(w.config, o, w.now).Status)
	if !strings.Contains(says, "none of those that it waits for began during that time: 2 of at most 2 migrations from node a") || strings.Contains(says, "no other migration began") {
		t.Errorf("it says %s", says)
	}
}

func TestEachSentenceOfAMigrationIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	well := undisturbed(t, ofJob)
	after := func(until func(*world) bool, spoil func(*world)) string {
		w := on(t, ofJob, until)
		spoil(w)
		return w.says(40)
	}
	freeze, cancel := ordered(v1alpha1.OrderFreeze), func(w *world) { w.m.DeletionTimestamp = &metav1.Time{} }
	cancelled := after(next(CreatePod), cancel)
	thawed := func() string {
		w := on(t, ofJob, isStaged)
		cancel(w)
		for range 40 {
			w.now = w.now.Add(time.Second)
			w.controller()
			w.sourceAgent()
			w.targetAgent(nodeB)
			w.kubelet(nodeB)
			if w.m == nil || Ended(w.m) {
				break
			}
		}
		return conditionsOf(&w.m.Status)
	}()
	waits := func(others ...Flight) string {
		w := newWorld(0, bare)
		o := w.observe()
		o.Others = others
		return conditionsOf(Next(w.config, o, w.now).Status)
	}
	many := func(n int, namespace, from string) (all []Flight) {
		for i := range n {
			all = append(all, Flight{Namespace: namespace + fmt.Sprint(i), PodUID: fmt.Sprint(i), Source: from, Name: "x"})
		}
		return all
	}
	all, leaving, own := waits(many(10, "x", "x")...), waits(many(2, "x", nodeA)...), many(5, "", "x")
	for i := range own {
		own[i].Namespace = "ns"
	}
	siblings := waits(own...)
	expired := func(began time.Duration) string {
		w := newWorld(0, bare)
		o := waiting(w, 10, w.now.Add(-time.Hour))
		for i := range o.Others {
			o.Others[i].StartedAt = w.now.Add(began)
		}
		if step := Next(w.config, o, w.now.Add(5*time.Minute)); step.Status != nil {
			return conditionsOf(step.Status)
		}
		return ""
	}
	refused := func(change func(*Observation)) string {
		w := newWorld(0, bare)
		o := w.observe()
		change(&o)
		if step := Next(w.config, o, w.now); step.Status != nil {
			return conditionsOf(step.Status)
		}
		return ""
	}
	missing, moving := refused(func(o *Observation) { o.Source = nil }), refused(func(o *Observation) {
		o.Others = []Flight{{Name: "ns/other", PodUID: "uid-" + source}}
	})
	replaced := refused(func(o *Observation) { o.Migration.Spec.PodUID = "earlier" })
	busy := func(n int) string {
		w := on(t, ofJob, func(w *world) bool { return next(WriteStatus)(w) && w.decide().Status.Order == v1alpha1.OrderFreeze })
		o := w.observe()
		for i := range n {
			o.Others = append(o.Others, Flight{PodUID: fmt.Sprint(i), Source: "x", Target: nodeB})
		}
		return conditionsOf(Next(w.config, o, w.now).Status)
	}
	changed := func(until func(*world) bool, spoil func(*world)) string { // the first conditions afterwards
		w := on(t, ofJob, until)
		spoil(w)
		return w.says(1)
	}
	gone, sourceEnded := changed(freeze, func(w *world) { w.remove(w.pods[source]) }), func(owned owner, spoil func(*corev1.Pod)) string {
		w := on(t, owned, freeze)
		spoil(w.pods[source])
		return w.says(1)
	}
	deleting := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	unlabelled := func(p *corev1.Pod) { delete(p.Labels, v1alpha1.LabelMigration) }
	ends := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	bareGone := func() string {
		w := on(t, bare, freeze)
		w.remove(w.pods[source])
		return w.says(1)
	}()
	target := func(spoil func(*world)) string { return changed(freeze, spoil) }
	newPod := func(until func(*world) bool, spoil func(*corev1.Pod)) string {
		return changed(until, func(w *world) { spoil(w.restored()) })
	}
	early := changed(next(WriteStatus), func(w *world) {
		w.controller()
		w.sourceAgent()
		w.controller()
		w.controller()
		w.restored().Spec.NodeName = nodeC
	})
	silent := func(node string, lost bool) func(*world) {
		return func(w *world) {
			cancel(w)
			if w.cut[node] = true; lost {
				w.cutOff(node)
			}
		}
	}
	newPodLost, newPodSilent := after(isBound, silent(nodeB, true)), after(isBound, silent(nodeB, false))
	ranAndLost, ranAndUnready := after(isRunning, func(w *world) { w.cutOff(nodeB) }), func(owned owner) string {
		w := on(t, owned, isRunning)
		w.unready()
		cancel(w)
		return w.says(1)
	}
	newPodScrapped := after(isBound, func(w *world) {
		silent(nodeB, false)(w)
		delete(w.nodes, nodeB)
	})
	oldLost, oldSilent := after(isStaged, silent(nodeA, true)), after(isStaged, silent(nodeA, false))
	killed := ordered(v1alpha1.OrderKill)
	handedLost, handedSilent := after(killed, func(w *world) { w.cutOff(nodeA) }), after(killed, func(w *world) { w.cut[nodeA] = true })
	unfrozen := after(next(CreatePod), func(w *world) {
		w.controller()
		w.restored().Spec.NodeName = nodeC
		w.cut[nodeC] = true
	})
	cleaning := ordered(v1alpha1.OrderClean)
	oneDirty := after(cleaning, func(w *world) {
		w.m.Status.Source.Step = v1alpha1.SourceCleaned
		if w.m.Status.Target.Step == v1alpha1.TargetCleaned {
			w.m.Status.Target.Step = v1alpha1.TargetStaged
		}
	})
	bothDirty := after(cleaning, func(w *world) {
		w.m.Status.Source.Step, w.m.Status.Target.Step = v1alpha1.SourceKilled, v1alpha1.TargetStaged
	})
	newGone := after(killed, func(w *world) {
		w.m.Status.Source.Step = v1alpha1.SourceKilled
		w.remove(w.restored())
	})
	oldGone := func() string {
		w := on(t, bare, isBound)
		cancel(w)
		w.controller()
		w.remove(w.restored())
		w.remove(w.pods[source])
		return w.says(20)
	}()
	starts := func(spoil func(*world)) string { return after(isBound, spoil) }
	sandbox := starts((*world).withoutSandbox)
	container := starts(func(w *world) { w.waitsFor("CreateContainerError", "no such image") })
	failed := newPod(isBound, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}}}
	})
	noRoom := after(next(CreatePod), func(w *world) {
		w.m.Status.Plan.DeadlineAt = metav1.NewTime(w.now.Add(time.Hour))
		w.controller()
	})
	assigned := changed(next(CreatePod), func(w *world) {
		w.controller()
		for range 10 {
			w.scheduler()
		}
	})

	sentences.Check(t, []string{"*.go"}, []sentences.Case{
		// Before it begins.
		{"migrations of namespace ", siblings, all},
		{"migrations from node ", leaving, all},
		{"%d of at most %d %s are in flight", all, waits()},
		{"the migration starts when the limit allows it: ", all, waits()},
		{"%s: nothing was changed: the migration waited for %s, and none of those that it waits for began during that time: %s", expired(-time.Hour), expired(time.Minute)},
		{"Migration %s is already moving the pod: wait until it has finished", moving, missing},
		{"pod %s not found in namespace %s", missing, replaced},
		{"pod %s has been replaced: its UID is %s, not %s", replaced, missing},
		{"nothing was changed: ", missing, well},
		{"%d of at most %d migrations to node %s are in flight", busy(2), busy(1)},

		// While it can be rolled back.
		{"back-end %s, from node %s", well, missing},
		{"waiting for the agent of node ", well, missing},
		{" to inspect the container", well, missing},
		{"no node is reserved yet for pod ", noRoom, missing},
		{"; if the scheduler finds none, the Events of the pod have the reason", noRoom, missing},
		{" to prepare the restore", assigned, missing},
		{" has room, and both nodes are prepared", well, missing},
		{"; %d bytes dumped in %s s", well, missing},
		{"%d bytes sent in %s s, %d attempts; %d bytes staged on node %s", well, missing},
		{"pod %s runs on node %s; restored in %s s", well, missing},

		// Why it is rolled back.
		{"the Migration was deleted", cancelled, well},
		{"the new pod was not assigned to a prepared node within %s: see condition Reserved", noRoom, well},
		{"the new pod could not take over by %s: see the other conditions", starts(func(*world) {}), well},
		{"the pod has ended or is gone, and its owner may replace it", gone, bareGone},
		{"the container has been restarted on its node", changed(freeze, func(w *world) { w.pods[source].Status.ContainerStatuses[0].ContainerID = "containerd://later" }), well},
		{"the pod is being deleted, and its ReplicaSet may replace it", sourceEnded(ofSet, deleting), sourceEnded(ofJob, deleting)},
		{"the pod is gone", bareGone, sourceEnded(bare, ends)},
		{"the pod has ended", sourceEnded(bare, ends), bareGone},
		{"another client is deleting the pod", sourceEnded(ofJob, deleting), sourceEnded(ofSet, deleting)},
		{"the scheduler has released the reservation on the target", target(func(w *world) { w.m.Status.Reservation = nil }), well},
		{" is gone", target(func(w *world) { delete(w.nodes, nodeB) }), well},
		{" was cordoned", target(func(w *world) { w.nodes[nodeB].Spec.Unschedulable = true }), well},
		{" is not ready", target(func(w *world) { w.cutOff(nodeB) }), well},
		{"another pod already has the name ", changed(next(CreatePod), func(w *world) {
			w.pods[w.m.Status.Plan.RestoredPod] = runningPod(w.m.Status.Plan.RestoredPod, nodeC, "")
		}), well},
		{" of the new pod", changed(next(CreatePod), func(w *world) {
			w.pods[w.m.Status.Plan.RestoredPod] = runningPod(w.m.Status.Plan.RestoredPod, nodeC, "")
		}), well},
		{"another client has deleted the new pod", target(func(w *world) { w.remove(w.restored()) }), well},
		{"the new pod has lost the label ", newPod(isBound, unlabelled), well},
		{", by which the scheduler and the agents recognize it: exempt pods with that label from the webhook or policy that removes it", newPod(isBound, unlabelled), well},
		{"another client is deleting the new pod", newPod(isBound, deleting), well},
		{"the new pod has failed: ", failed, container},
		{"exit code %d, %s %s", failed, newPod(isBound, ends)},
		{" bound the new pod before its checkpoint was staged: enable the plugin CheckpointStaging in its profile", early, well},
		{"the new pod was bound to node ", newPod(isBound, func(p *corev1.Pod) { p.Spec.NodeName = nodeC }), well},
		{" instead of node ", newPod(isBound, func(p *corev1.Pod) { p.Spec.NodeName = nodeC }), well},
		{", which was reserved for its checkpoint", newPod(isBound, func(p *corev1.Pod) { p.Spec.NodeName = nodeC }), well},
		{"its volumes are not mounted or its network is not ready: see the Events of the pod", sandbox, container},
		{"the new pod does not start: ", container, well},

		// The way back.
		{"the container was frozen for ", thawed, cancelled},
		{"; the pod was frozen for ", thawed, cancelled},
		{" of the new pod no longer exists: the old pod stays frozen until the new pod does not exist either", newPodScrapped, newPodLost},
		{" of the new pod is not ready, so it is unknown whether the new pod runs: ", newPodLost, newPodSilent},
		{"the old pod stays frozen until the node is ready again, is removed, or has the taint node.kubernetes.io/out-of-service", newPodLost, newPodScrapped},
		{" has not confirmed that the new pod is gone: the old pod stays frozen until it does; check the kubelet there", newPodSilent, newPodLost},
		{" has not confirmed that the new pod is gone; the old pod was not frozen", unfrozen, newPodSilent},
		{" is not ready: the pod continues when the agent of the node runs again", oldLost, oldSilent},
		{" has not reported that the pod runs: check that the agent runs", oldSilent, oldLost},
		{"the agent of node ", oldSilent, oldLost[strings.LastIndex(oldLost, "Frozen="):]},
		{"the old container is gone", oldGone, thawed},

		// What holds a new pod that has run.
		{"the new pod has run, and its node ", ranAndLost, newPodLost},
		{" is not ready: ", ranAndLost, well},
		{"the old pod stays frozen until the node is ready again, is removed, or has the taint node.kubernetes.io/out-of-service", ranAndLost, well},
		{"the new pod runs on node ", ranAndUnready(ofSet), ranAndUnready(ofJob)},
		{" and is not ready, so its ReplicaSet would delete it: ", ranAndUnready(ofSet), ranAndUnready(ofJob)},
		{"the old pod stays frozen until the new pod is ready or is deleted", ranAndUnready(ofSet), ranAndUnready(ofJob)},

		// The hand-over.
		{"the new pod is replacing the old one; this cannot be rolled back", well, cancelled},
		{"the new pod has taken over; node ", handedLost, handedSilent},
		{" is not ready, so it is unknown whether the old container is dead: repair the node or remove it", handedLost, handedSilent},
		{"the new pod has taken over; the agent of node ", handedSilent, handedLost},
		{" has not reported that the old container is dead: check that the agent runs", handedSilent, handedLost},
		{" has replaced the old one", well, cancelled},
		{"the new pod took over, and has been deleted since", newGone, well},
		{"the agents remove leftovers", well, missing},
		{"the old container is dead", well, cancelled},
		{"no copy ran for ", well, missing},
		{"the agent of ", oneDirty[strings.LastIndex(oneDirty, "CleanedUp="):], bothDirty[strings.LastIndex(bothDirty, "CleanedUp="):]},
		{" has not reported that it has cleaned up", oneDirty, bothDirty},
		{"the agents of ", bothDirty, oneDirty},
		{" have not reported that they have cleaned up", bothDirty, oneDirty},
		{"no leftovers remain on either node", well, bothDirty},
		{" on node ", well, missing},
		{"pod %s%s has taken over; no copy ran for %s s (dump %s s, ship %s s, restore %s s; %d bytes)", well, missing},
	}, steps())
}

// steps are the sentences about steps, which only the log has.
func steps() map[string]string {
	all := map[string]string{}
	for _, why := range []string{
		"wait for other migrations: ",
		"wait: the cluster is paused",
		"the limit of migrations in flight is reached",
		"the limit of migrations in flight did not allow it before its deadline",
		"both nodes are prepared: freeze the container",
		"check with a dry run whether the new pod would be admitted",
		"claim the disruption of the pod from PodDisruptionBudget %s",
		"finished Migrations are kept for some time",
		"it has succeeded",
		"record the failed migration on the pod",
		"roll back: ",
		"the Job must no longer count the old pod",
		"the Job must not count the end of the old pod",
		"the Migration is being deleted",
		"the ReplicaSet must delete the old pod before others",
		"the ReplicaSet must no longer count the old pod",
		"the checkpoint to be staged",
		"the migration has ended",
		"the migration is rolled back",
		"the migration of the pod has ended",
		"the migration was cancelled before it changed anything",
		"the new pod can take over",
		"the new pod has replaced the old one",
		"the new pod has taken over: kill the old container",
		"the new pod is deleted before the old one continues",
		"the new pod is gone: resume the old one",
		"the new pod is no longer part of a migration",
		"the new pod takes over",
		"the new pod to be bound",
		"the new pod to run",
		"the objects of the migration must be removed before the Migration is deleted",
		"the old container is dead: clean up",
		"the old container is dead: the old pod needs only its own grace period",
		"the old container was restarted: the pod gets its own grace period",
		"the pod continues: clean up",
		"the pod is still frozen: renew its claim on PodDisruptionBudget %s",
		"the pod stays: release its claim on PodDisruptionBudget %s",
		"the retention time of finished Migrations has passed",
		"the source is prepared",
		"wait for ",
		"wait for the agents to clean up",
		"wait for the scheduler to reserve room",
		"wait for the source to be prepared",
		"wait for the target to be prepared",
		"wait for the new pod to be ready",
		"wait until the new pod is gone",
		"wait until the old container is dead",
		"wait until the pod runs",
	} {
		all[why] = "a line of the log"
	}
	return all
}
