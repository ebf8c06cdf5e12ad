package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workerdecide"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/clip"
)

func (l *look) condition(kind string, is bool, reason, message string) {
	conditions.Set(&l.pool.Status.Conditions, kind, is, reason, message, l.pool.Generation, l.now)
}

// notReady sets the condition Ready to false, and records an Event.
func (l *look) notReady(reason, message string) {
	l.condition(v1alpha1.PoolReady, false, reason, message)
	l.tell(corev1.EventTypeWarning, reason, "Hold", message)
}

// tell records an Event, unless the last one with this reason had the same message.
func (l *look) tell(kind, reason, action, message string) {
	l.tellOf(kind, reason, action, message, message)
}

// tellOf records an Event, unless the last one with this reason was about the same subject.
func (l *look) tellOf(kind, reason, action, of, message string) {
	if l.memory.said[reason] == of {
		return
	}
	l.memory.said[reason] = of
	if l.DryRun {
		ctrl.Log.Info(message, "pool", client.ObjectKeyFromObject(l.pool).String(), "reason", reason)
		return
	}
	l.Events.Eventf(l.pool, nil, kind, reason, action, "%s", clip.Bytes(message, conditions.MaxMessage))
}

// record updates the status with the observation and the decision.
func (l *look) record() {
	s, d := &l.pool.Status, &l.decision
	s.Phase = v1alpha1.WorkerPhase(d.Phase)
	s.Workers = v1alpha1.WorkerCounts{
		Pods: int32(len(l.seen.Pods)), Connected: int32(d.Connected), Foreign: int32(d.Foreign), Starting: int32(d.Coming), Draining: int32(d.Leaving),
	}
	keep(s, &l.memory.decided, d.Unplaceable)
	if l.observes() {
		keepResized(s, l.memory.resized)
	}
	l.recordManager()
	l.recordLimits()
	l.recordOverstated()
	l.recordDegraded()
	switch {
	case d.Held:
		l.condition(v1alpha1.PoolReady, false, "Held", d.Reason)
	default:
		l.condition(v1alpha1.PoolReady, true, "Decided", d.Reason)
	}
	l.measure()
	if d.Add > 0 || len(d.Drain) > 0 {
		l.recordDecision()
	}
	l.publish()
}

// recordManager records whether the manager answers, and its queue.
func (l *look) recordManager() {
	s, r := &l.pool.Status, l.seen.Reading
	if r == nil {
		l.condition(v1alpha1.PoolConnected, false, "NoAnswer", l.seen.Fault)
		l.tell(corev1.EventTypeWarning, "NoAnswer", "Hold", l.seen.Fault)
		return
	}
	delete(l.memory.said, "NoAnswer")
	message := "the manager at " + l.client.Address + " answers"
	if l.undiscovered != nil {
		message += ", but its address may be outdated: " + l.undiscovered.Error()
	}
	l.condition(v1alpha1.PoolConnected, true, "Answers", message)
	q := &v1alpha1.WorkQueueStatus{
		Address: l.client.Address, Project: clipTo(r.Queue.Project, 253), Waiting: int32(r.Queue.Waiting), Running: int32(r.Queue.Running), Done: r.Queue.Done, WorkersLost: r.Queue.WorkersLost,
	}
	if !r.Queue.Started.IsZero() {
		q.Started = new(metav1.NewTime(r.Queue.Started))
	}
	s.Queue, s.ShortageCores = q, inCores(l.decision.ShortageMilliCores)
	if l.decision.QueueReplaced {
		l.tell(corev1.EventTypeNormal, "QueueReplaced", "Learn", fmt.Sprintf("the manager has a new queue, which began at %s: runtimes learned from the previous one are discarded", r.Queue.Started.Format("2006-01-02 15:04:05 MST")))
	}
	if len(l.decision.Relearned) > 0 {
		l.tell(corev1.EventTypeNormal, "Relearned", "Learn", "the runtimes or resources of tasks have changed and are learned again: "+strings.Join(l.decision.Relearned, ", "))
	}
}

func clipTo(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// recordLimits records whether tasks wait because of a limit.
func (l *look) recordLimits() {
	d := &l.decision
	var large []string
	for _, u := range d.Unplaceable {
		large = append(large, fmt.Sprintf("%d tasks of category %s: %s", u.Tasks, u.Category, u.Reason))
	}
	switch text := strings.Join(large, "; "); {
	case text != "":
		l.condition(v1alpha1.PoolLimited, true, "TasksTooLarge", text)
		l.tell(corev1.EventTypeWarning, "TasksTooLarge", "Hold", text)
	case d.WaitingThen > 0 && len(l.seen.Pods)+d.Add >= int(l.pool.Spec.Limits.Max):
		l.condition(v1alpha1.PoolLimited, true, "LimitReached", fmt.Sprintf("%d tasks wait, but the pool has its maximum of %d workers", d.TasksWaiting, l.pool.Spec.Limits.Max))
	default:
		l.condition(v1alpha1.PoolLimited, false, "WithinLimits", "no task waits because of a limit")
	}
}

// recordOverstated records for which tasks far more is reserved than they use. The Event is not repeated for the same
// categories, even if the figures change.
func (l *look) recordOverstated() {
	if l.seen.Reading == nil || l.decision.Held {
		return // no new information
	}
	var names, texts []string
	for i := range l.decision.Overstated {
		o := &l.decision.Overstated[i]
		names, texts = append(names, o.Category), append(texts, o.String())
	}
	if len(names) == 0 {
		reason, text := "NotMeasured", "the manager reports the resource usage of no category"
		if slices.ContainsFunc(l.memory.decided.Categories, func(c workerdecide.Category) bool { return c.Used != (estimate.Resources{}) }) {
			reason, text = "NothingToSpare", "no category uses far less than is allocated to it"
		}
		l.condition(v1alpha1.PoolOverstated, false, reason, text)
		return
	}
	text := strings.Join(texts, "; ")
	l.condition(v1alpha1.PoolOverstated, true, "RequestsExceedUsage", text)
	l.tellOf(corev1.EventTypeNormal, "RequestsExceedUsage", "Measure", strings.Join(names, " "), text)
}

// unmanaged maps managers that have been silent for long to the reason and message of the condition Degraded.
var unmanaged = map[workerdecide.Silence]struct{ reason, what string }{
	workerdecide.Unreachable: {"ManagerUnreachable", "the manager does not answer; its workers are kept, since they may run tasks"},
	workerdecide.Unusable:    {"ManagerUnusable", "the manager's answers are invalid; its workers are kept, since they may run tasks"},
	workerdecide.NotAsked:    {"ManagerNotAsked", "the manager cannot be queried; its workers are kept, since they may run tasks"},
}

// recordDegraded records what is wrong with the pool: a manager that has been silent for long, or workers that do not
// start. A manager that is gone is no fault, because its workflow has ended.
func (l *look) recordDegraded() {
	if of, silent := unmanaged[l.decision.Silent]; silent {
		l.condition(v1alpha1.PoolDegraded, true, of.reason, of.what+": "+l.seen.Fault)
		l.tellOf(corev1.EventTypeWarning, of.reason, "Hold", of.reason, of.what+": "+l.seen.Fault)
		return
	}
	for _, of := range unmanaged {
		delete(l.memory.said, of.reason)
	}
	l.recordTrouble()
}

// recordTrouble records which workers are overdue.
func (l *look) recordTrouble() {
	const patience = 3 // initialisation times
	init := l.decision.InitTime
	if init == 0 {
		init = l.pool.Spec.Scaling.ExpectedInitTime.Duration
	}
	for i := range l.seen.Pods {
		p := &l.seen.Pods[i]
		if p.Trouble == "" || p.Leaving || l.now.Sub(p.Asked) < patience*init {
			continue
		}
		l.condition(v1alpha1.PoolDegraded, true, "WorkersNotReady", fmt.Sprintf("pod %s: %s", p.Name, p.Trouble))
		l.tell(corev1.EventTypeWarning, "WorkersNotReady", "Wait", fmt.Sprintf("pod %s: %s", p.Name, p.Trouble))
		return
	}
	if names := l.decision.Unconnected; len(names) > 0 {
		text := fmt.Sprintf("%d workers run but have not connected to the manager at %s, such as pod %s: check its log, the manager's password and TLS, and the network policies between them", len(names), l.client.Address, names[0])
		l.condition(v1alpha1.PoolDegraded, true, "WorkersDoNotConnect", text)
		l.tell(corev1.EventTypeWarning, "WorkersDoNotConnect", "Wait", text)
		return
	}
	l.condition(v1alpha1.PoolDegraded, false, "WorkersReady", "no worker is overdue")
}

// recordDecision records the decision and its reason.
func (l *look) recordDecision() {
	d := &l.decision
	out := &v1alpha1.WorkerDecision{
		Time: metav1.NewTime(l.now), Mode: l.mode(), Reason: clip.Bytes(d.Reason, conditions.MaxMessage), Add: int32(d.Add), Drain: d.Drain[:min(len(d.Drain), maxKept)],
		Waiting: int32(d.TasksWaiting), WaitingThen: int32(d.WaitingThen),
	}
	kind, text := "Drained", fmt.Sprintf("drain %d workers: %s", len(d.Drain), d.Reason)
	if d.Add > 0 {
		out.Flavor, out.ExpectedReady = d.Flavor, new(rounded(d.InitTime))
		for _, r := range d.Rejected[:min(len(d.Rejected), maxKept)] {
			out.Rejected = append(out.Rejected, v1alpha1.Rejection{Name: r.Flavor, Reason: clip.Bytes(r.Reason, conditions.MaxMessage)})
		}
		kind, text = "Added", fmt.Sprintf("add %d workers%s: %s", d.Add, onFlavor(d.Flavor), d.Reason)
	}
	if l.mode() == v1alpha1.WorkerPoolObserve {
		text = "would " + text
	}
	l.pool.Status.LastDecision = out
	metricDecisions.WithLabelValues(l.pool.Namespace, l.pool.Name, kind, string(l.mode())).Inc()
	l.tell(corev1.EventTypeNormal, kind, "Decide", text)
}

func onFlavor(name string) string {
	if name == "" {
		return ""
	}
	return " of flavor " + name
}

// measure records the measured time next to the expected one, once all workers that the last decision added have
// connected, or those that it drained have left.
func (l *look) measure() {
	d := l.pool.Status.LastDecision
	if d == nil || d.MeasuredReady != nil || d.Mode != v1alpha1.WorkerPoolAct || l.seen.Reading == nil {
		return
	}
	if d.Add > 0 && l.decision.Coming == 0 || len(d.Drain) > 0 && l.decision.Leaving == 0 {
		d.MeasuredReady = new(rounded(l.now.Sub(d.Time.Time)))
	}
}

// writeStatus writes the status if it has changed. The API server refuses it if the pool was changed since it was read.
func (l *look) writeStatus(ctx context.Context) error {
	if l.DryRun || equality.Semantic.DeepEqual(l.before, &l.pool.Status) {
		return nil
	}
	if err := l.Client.Status().Update(ctx, l.pool); err != nil {
		return fmt.Errorf("write the status of WorkerPool %s: %w", client.ObjectKeyFromObject(l.pool), err)
	}
	l.before = l.pool.Status.DeepCopy()
	return nil
}
