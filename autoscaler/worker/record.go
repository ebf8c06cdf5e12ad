package worker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/workerdecide"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/clip"
	"supercargo.dev/supercargo/internal/text/plural"
)

// notReady sets the condition Ready to false, and records an Event.
func (rc *reconciliation) notReady(reason, message string) {
	rc.report.Condition(v1alpha1.PoolReady, false, reason, message)
	rc.report.Event(corev1.EventTypeWarning, reason, v1alpha1.ActionWait, message)
}

// refuse sets the condition Ready to false for a pool for which no decision is possible. Its other conditions are of an
// earlier reconciliation, and are removed.
func (rc *reconciliation) refuse(why refusal) {
	for _, unknown := range []string{v1alpha1.PoolConnected, v1alpha1.PoolLimited, v1alpha1.PoolOverstated, v1alpha1.PoolDegraded} {
		meta.RemoveStatusCondition(&rc.pool.Status.Conditions, unknown)
	}
	rc.notReady(why.reason, why.message)
}

// record updates the status with the observation and the decision.
func (rc *reconciliation) record() {
	s, d := &rc.pool.Status, &rc.decision
	s.Phase = v1alpha1.WorkerPhase(d.Phase)
	s.Workers.Pods, s.Workers.Draining = int32(len(rc.seen.Pods)), int32(d.Leaving)
	if d.Read { // else those of the last reading stay
		s.Workers.Connected, s.Workers.Foreign, s.Workers.Starting = int32(d.Connected), int32(d.Foreign), int32(d.Coming)
		s.ShortageCores = inCores(d.ShortageMilliCores)
	}
	keep(s, &rc.memory.decided, d.Unplaceable)
	if rc.observes() {
		keepResized(s, rc.memory.resized)
	}
	rc.recordManager()
	rc.recordLimits()
	rc.recordOverstated()
	rc.recordDegraded()
	switch {
	case d.Held:
		rc.report.Condition(v1alpha1.PoolReady, false, v1alpha1.PoolReasonNotResized, d.Reason)
	default:
		rc.report.Condition(v1alpha1.PoolReady, true, v1alpha1.PoolReasonActive, d.Reason)
	}
	rc.measure()
	if d.Add > 0 || len(d.Drain) > 0 {
		rc.recordDecision()
	}
	rc.publish()
}

// recordManager records whether the manager answers, and its queue.
func (rc *reconciliation) recordManager() {
	s, r := &rc.pool.Status, rc.seen.Reading
	if r == nil {
		rc.report.Condition(v1alpha1.PoolConnected, false, v1alpha1.PoolReasonNotResponding, rc.seen.Fault)
		rc.report.Event(corev1.EventTypeWarning, v1alpha1.PoolReasonNotResponding, v1alpha1.ActionWait, rc.seen.Fault)
		return
	}
	delete(rc.report.Last, v1alpha1.PoolReasonNotResponding)
	message := "the manager at " + rc.client.Address + " answers"
	if rc.undiscovered != nil {
		message += ", but its address may be outdated: " + rc.undiscovered.Error()
	}
	rc.report.Condition(v1alpha1.PoolConnected, true, v1alpha1.PoolReasonResponding, message)
	q := &v1alpha1.WorkQueueStatus{
		Address: rc.client.Address, Project: r.Queue.Project, Waiting: int32(r.Queue.Waiting), Running: int32(r.Queue.Running), Done: r.Queue.Done, WorkersLost: r.Queue.WorkersLost,
	}
	if !r.Queue.Started.IsZero() {
		q.Started = new(metav1.NewTime(r.Queue.Started))
	}
	s.Queue = q
	if rc.decision.QueueReplaced {
		text := "the manager has a new queue"
		if q.Started != nil {
			text += ", which began at " + r.Queue.Started.Format("2006-01-02 15:04:05 MST")
		}
		rc.report.Event(corev1.EventTypeNormal, v1alpha1.PoolReasonQueueReplaced, v1alpha1.ActionLearn, text+": runtimes learned from the previous one are discarded")
	}
	if len(rc.decision.Relearned) > 0 {
		rc.report.Event(corev1.EventTypeNormal, v1alpha1.PoolReasonRelearned, v1alpha1.ActionLearn, "the runtimes of tasks have changed and are learned again: "+strings.Join(rc.decision.Relearned, ", "))
	}
}

// mostOfProject is the maximum length in bytes of the name of a project in the status.
const mostOfProject = 253

func clipTo(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// recordLimits records whether tasks wait because of a limit.
func (rc *reconciliation) recordLimits() {
	d := &rc.decision
	if !d.Read || d.Held {
		return // it is unknown which tasks wait
	}
	var large []string
	for _, u := range d.Unplaceable {
		large = append(large, fmt.Sprintf("%s of category %s: %s", plural.Count(u.Tasks, "task"), u.Category, u.Reason))
	}
	switch text := strings.Join(large, "; "); {
	case text != "":
		rc.report.Condition(v1alpha1.PoolLimited, true, v1alpha1.PoolReasonTasksTooLarge, text)
		rc.report.Event(corev1.EventTypeWarning, v1alpha1.PoolReasonTasksTooLarge, v1alpha1.ActionWait, text)
	case d.Limited && len(rc.seen.Pods)+d.Add >= int(rc.pool.Spec.Limits.Max):
		least := ""
		if d.Uncounted > 0 {
			least = "at least "
		}
		rc.report.Condition(v1alpha1.PoolLimited, true, v1alpha1.PoolReasonLimitReached, fmt.Sprintf("%s%s will wait when new workers could start, and the pool has, or is to have, its maximum of %s", least, plural.Count(d.WaitingThen, "task"), plural.Count(rc.pool.Spec.Limits.Max, "worker")))
	default:
		rc.report.Condition(v1alpha1.PoolLimited, false, v1alpha1.PoolReasonWithinLimits, "no task waits because of a limit")
	}
}

// recordOverstated records for which tasks far more is reserved than they use. The Event is not repeated for the same
// categories, even if the figures change.
func (rc *reconciliation) recordOverstated() {
	if !rc.decision.Read || rc.decision.Held {
		return // no new information
	}
	var names, texts []string
	for i := range rc.decision.Overstated {
		o := &rc.decision.Overstated[i]
		names, texts = append(names, o.Category), append(texts, o.String())
	}
	if len(names) == 0 {
		reason, text := v1alpha1.PoolReasonNotMeasured, "the manager reports the resource usage of no category"
		switch rc.decision.UseKnown {
		case workerdecide.UseOfTooFew:
			text = fmt.Sprintf("no category can be assessed yet: one of its tasks must be listed, and %d must end, while the pool observes the manager", workerdecide.EnoughEnded)
		case workerdecide.UseCompared:
			reason, text = v1alpha1.PoolReasonRequestsMatchUsage, fmt.Sprintf("no category of which %d or more tasks have ended uses far less than is allocated to it", workerdecide.EnoughEnded)
		}
		rc.report.Condition(v1alpha1.PoolOverstated, false, reason, text)
		return
	}
	text := strings.Join(texts, "; ")
	rc.report.Condition(v1alpha1.PoolOverstated, true, v1alpha1.PoolReasonRequestsExceedUsage, text)
	rc.report.EventAbout(strings.Join(names, " "), corev1.EventTypeNormal, v1alpha1.PoolReasonRequestsExceedUsage, v1alpha1.ActionMeasure, text)
}

// unmanaged maps managers that have been silent for long to the reason of the condition Degraded.
var unmanaged = map[workerdecide.Silence]string{
	workerdecide.Unreachable: v1alpha1.PoolReasonManagerUnreachable,
	workerdecide.Unusable:    v1alpha1.PoolReasonManagerResponseInvalid,
	workerdecide.NotAsked:    v1alpha1.PoolReasonManagerNotQueried,
}

// recordDegraded records what is wrong with the pool: a manager that has been silent for long, or workers that do not
// start. A manager that is gone is no fault, because its workflow has ended.
func (rc *reconciliation) recordDegraded() {
	if reason, silent := unmanaged[rc.decision.Silent]; silent {
		text := rc.decision.Silent.String() + "; its workers are kept, since they may run tasks: " + rc.seen.Fault
		rc.report.Condition(v1alpha1.PoolDegraded, true, reason, text)
		rc.report.EventAbout(reason, corev1.EventTypeWarning, reason, v1alpha1.ActionWait, text)
		return
	}
	for _, reason := range unmanaged {
		delete(rc.report.Last, reason)
	}
	rc.recordTrouble()
}

// recordTrouble records which workers are overdue. Whether workers connect is known only from a reading.
func (rc *reconciliation) recordTrouble() {
	if p := rc.overdue(); p != nil {
		text := fmt.Sprintf("pod %s: %s", p.Name, cmp.Or(p.Trouble, "its container does not run"))
		rc.report.Condition(v1alpha1.PoolDegraded, true, v1alpha1.PoolReasonWorkersNotReady, text)
		rc.report.Event(corev1.EventTypeWarning, v1alpha1.PoolReasonWorkersNotReady, v1alpha1.ActionWait, text)
		return
	}
	if !rc.decision.Read {
		if c := meta.FindStatusCondition(rc.pool.Status.Conditions, v1alpha1.PoolDegraded); c == nil || c.Reason != v1alpha1.PoolReasonWorkersDoNotConnect {
			rc.report.Condition(v1alpha1.PoolDegraded, false, v1alpha1.PoolReasonWorkersReady, "no pod of a worker is overdue")
		}
		return
	}
	if names := rc.decision.Unconnected; len(names) > 0 {
		text := fmt.Sprintf("%s not connected to the manager at %s, such as pod %s: check its log, the manager's password and TLS, and the network policies between them", plural.Form(len(names), "1 worker runs but has", fmt.Sprintf("%d workers run but have", len(names))), rc.client.Address, names[0])
		rc.report.Condition(v1alpha1.PoolDegraded, true, v1alpha1.PoolReasonWorkersDoNotConnect, text)
		rc.report.Event(corev1.EventTypeWarning, v1alpha1.PoolReasonWorkersDoNotConnect, v1alpha1.ActionWait, text)
		return
	}
	rc.report.Condition(v1alpha1.PoolDegraded, false, v1alpha1.PoolReasonWorkersReady, "no worker is overdue")
}

// overdue returns a pod that should stay, and has not started or has a problem long after its creation; nil if there is
// none.
func (rc *reconciliation) overdue() *workerdecide.Pod {
	const patience = 3 // initialisation times
	init := cmp.Or(rc.decision.InitTime, rc.pool.Spec.Scaling.ExpectedInitTime.Duration)
	for i := range rc.seen.Pods {
		p := &rc.seen.Pods[i]
		late := p.Trouble != "" || p.Started.IsZero()
		if late && !p.Leaving && !slices.Contains(rc.decision.Drain, p.Name) && rc.now.Sub(p.Asked) >= patience*init {
			return p
		}
	}
	return nil
}

// recordDecision records the decision and its reason.
func (rc *reconciliation) recordDecision() {
	d := &rc.decision
	out := &v1alpha1.WorkerDecision{
		Time: metav1.NewTime(rc.now), Mode: rc.mode(), Reason: clip.Bytes(d.Reason, conditions.MaxMessage), Add: int32(d.Add), Drain: d.Drain[:min(len(d.Drain), maxKept)],
		Waiting: int32(d.TasksWaiting), WaitingThen: int32(d.WaitingThen),
	}
	kind, text := v1alpha1.PoolReasonDrained, fmt.Sprintf("drain %s: %s", plural.Count(len(d.Drain), "worker"), d.Reason)
	if d.Add > 0 {
		out.Flavor, out.ExpectedReady = d.Flavor, new(rounded(d.InitTime))
		for _, r := range d.Rejected[:min(len(d.Rejected), maxKept)] {
			out.Rejected = append(out.Rejected, v1alpha1.Rejection{Name: r.Flavor, Reason: clip.Bytes(r.Reason, conditions.MaxMessage)})
		}
		kind, text = v1alpha1.PoolReasonAdded, fmt.Sprintf("add %s%s: %s", plural.Count(d.Add, "worker"), onFlavor(d.Flavor), d.Reason)
	}
	if rc.mode() == v1alpha1.WorkerPoolObserve {
		text = "would " + text
	}
	rc.pool.Status.LastDecision = out
	metricDecisions.WithLabelValues(rc.pool.Namespace, rc.pool.Name, kind, string(rc.mode())).Inc()
	rc.report.Event(corev1.EventTypeNormal, kind, v1alpha1.ActionDecide, text)
}

func onFlavor(name string) string {
	if name == "" {
		return ""
	}
	return " of flavor " + name
}

// measure records the measured time next to the expected one, once all workers that the last decision added have
// connected, or those that it drained have left.
func (rc *reconciliation) measure() {
	d := rc.pool.Status.LastDecision
	if d == nil || d.MeasuredReady != nil || d.Mode != v1alpha1.WorkerPoolAct {
		return
	}
	came := d.ExpectedReady != nil && rc.decision.Coming == 0 && len(rc.decision.Arrived) >= int(d.Add)
	left := !slices.ContainsFunc(d.Drain, func(name string) bool { return rc.pods[name] != nil })
	if d.Add > 0 && came || len(d.Drain) > 0 && left {
		d.MeasuredReady = new(rounded(rc.now.Sub(d.Time.Time)))
	}
}

// writeStatus writes the status if it has changed. The API server refuses it if the pool was changed since it was read.
func (rc *reconciliation) writeStatus(ctx context.Context) error {
	if rc.DryRun || equality.Semantic.DeepEqual(rc.before, &rc.pool.Status) {
		return nil
	}
	if err := rc.Client.Status().Update(ctx, rc.pool); err != nil {
		return fmt.Errorf("write the status of WorkerPool %s: %w", client.ObjectKeyFromObject(rc.pool), err)
	}
	rc.before = rc.pool.Status.DeepCopy()
	return nil
}
