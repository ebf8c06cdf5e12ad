package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/estimate"
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

// record updates the status with the observation and the decision.
func (rc *reconciliation) record() {
	s, d := &rc.pool.Status, &rc.decision
	s.Phase = v1alpha1.WorkerPhase(d.Phase)
	s.Workers = v1alpha1.WorkerCounts{
		Pods: int32(len(rc.seen.Pods)), Connected: int32(d.Connected), Foreign: int32(d.Foreign), Starting: int32(d.Coming), Draining: int32(d.Leaving),
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
		Address: rc.client.Address, Project: clipTo(r.Queue.Project, 253), Waiting: int32(r.Queue.Waiting), Running: int32(r.Queue.Running), Done: r.Queue.Done, WorkersLost: r.Queue.WorkersLost,
	}
	if !r.Queue.Started.IsZero() {
		q.Started = new(metav1.NewTime(r.Queue.Started))
	}
	s.Queue, s.ShortageCores = q, inCores(rc.decision.ShortageMilliCores)
	if rc.decision.QueueReplaced {
		rc.report.Event(corev1.EventTypeNormal, v1alpha1.PoolReasonQueueReplaced, v1alpha1.ActionLearn, fmt.Sprintf("the manager has a new queue, which began at %s: runtimes learned from the previous one are discarded", r.Queue.Started.Format("2006-01-02 15:04:05 MST")))
	}
	if len(rc.decision.Relearned) > 0 {
		rc.report.Event(corev1.EventTypeNormal, v1alpha1.PoolReasonRelearned, v1alpha1.ActionLearn, "the runtimes or resources of tasks have changed and are learned again: "+strings.Join(rc.decision.Relearned, ", "))
	}
}

func clipTo(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// recordLimits records whether tasks wait because of a limit.
func (rc *reconciliation) recordLimits() {
	d := &rc.decision
	if rc.seen.Reading == nil || d.Held {
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
	case d.WaitingThen > 0 && len(rc.seen.Pods)+d.Add >= int(rc.pool.Spec.Limits.Max):
		rc.report.Condition(v1alpha1.PoolLimited, true, v1alpha1.PoolReasonLimitReached, fmt.Sprintf("%s will wait when new workers could start, and the pool has, or is to have, its maximum of %s", plural.Count(d.WaitingThen, "task"), plural.Count(rc.pool.Spec.Limits.Max, "worker")))
	default:
		rc.report.Condition(v1alpha1.PoolLimited, false, v1alpha1.PoolReasonWithinLimits, "no task waits because of a limit")
	}
}

// recordOverstated records for which tasks far more is reserved than they use. The Event is not repeated for the same
// categories, even if the figures change.
func (rc *reconciliation) recordOverstated() {
	if rc.seen.Reading == nil || rc.decision.Held {
		return // no new information
	}
	var names, texts []string
	for i := range rc.decision.Overstated {
		o := &rc.decision.Overstated[i]
		names, texts = append(names, o.Category), append(texts, o.String())
	}
	if len(names) == 0 {
		reason, text := v1alpha1.PoolReasonNotMeasured, "the manager reports the resource usage of no category"
		if slices.ContainsFunc(rc.memory.decided.Categories, func(c workerdecide.Category) bool { return c.Used != (estimate.Resources{}) }) {
			reason, text = v1alpha1.PoolReasonRequestsMatchUsage, "no category uses far less than is allocated to it"
		}
		rc.report.Condition(v1alpha1.PoolOverstated, false, reason, text)
		return
	}
	text := strings.Join(texts, "; ")
	rc.report.Condition(v1alpha1.PoolOverstated, true, v1alpha1.PoolReasonRequestsExceedUsage, text)
	rc.report.EventAbout(strings.Join(names, " "), corev1.EventTypeNormal, v1alpha1.PoolReasonRequestsExceedUsage, v1alpha1.ActionMeasure, text)
}

// unmanaged maps managers that have been silent for long to the reason and message of the condition Degraded.
var unmanaged = map[workerdecide.Silence]struct{ reason, what string }{
	workerdecide.Unreachable: {v1alpha1.PoolReasonManagerUnreachable, "the manager does not answer; its workers are kept, since they may run tasks"},
	workerdecide.Unusable:    {v1alpha1.PoolReasonManagerResponseInvalid, "the manager's answers are invalid; its workers are kept, since they may run tasks"},
	workerdecide.NotAsked:    {v1alpha1.PoolReasonManagerNotQueried, "the manager cannot be queried; its workers are kept, since they may run tasks"},
}

// recordDegraded records what is wrong with the pool: a manager that has been silent for long, or workers that do not
// start. A manager that is gone is no fault, because its workflow has ended.
func (rc *reconciliation) recordDegraded() {
	if of, silent := unmanaged[rc.decision.Silent]; silent {
		rc.report.Condition(v1alpha1.PoolDegraded, true, of.reason, of.what+": "+rc.seen.Fault)
		rc.report.EventAbout(of.reason, corev1.EventTypeWarning, of.reason, v1alpha1.ActionWait, of.what+": "+rc.seen.Fault)
		return
	}
	for _, of := range unmanaged {
		delete(rc.report.Last, of.reason)
	}
	rc.recordTrouble()
}

// recordTrouble records which workers are overdue.
func (rc *reconciliation) recordTrouble() {
	const patience = 3 // initialisation times
	init := rc.decision.InitTime
	if init == 0 {
		init = rc.pool.Spec.Scaling.ExpectedInitTime.Duration
	}
	for i := range rc.seen.Pods {
		p := &rc.seen.Pods[i]
		if p.Trouble == "" || p.Leaving || rc.now.Sub(p.Asked) < patience*init {
			continue
		}
		rc.report.Condition(v1alpha1.PoolDegraded, true, v1alpha1.PoolReasonWorkersNotReady, fmt.Sprintf("pod %s: %s", p.Name, p.Trouble))
		rc.report.Event(corev1.EventTypeWarning, v1alpha1.PoolReasonWorkersNotReady, v1alpha1.ActionWait, fmt.Sprintf("pod %s: %s", p.Name, p.Trouble))
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
	if d == nil || d.MeasuredReady != nil || d.Mode != v1alpha1.WorkerPoolAct || rc.seen.Reading == nil {
		return
	}
	if d.Add > 0 && rc.decision.Coming == 0 || len(d.Drain) > 0 && rc.decision.Leaving == 0 {
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
