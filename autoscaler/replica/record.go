package replica

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
)

const (
	// rememberEvery is the interval between writes of a status in which only the measurements and the law's memory are
	// new. A crash loses at most what was learned in that time.
	rememberEvery = time.Minute
	// writeGap is the minimum time between two writes of a status.
	writeGap = 5 * time.Second
)

// condition sets a condition of the status.
func (e *evaluation) condition(c replicadecide.Condition) {
	e.report.Condition(c.Type, c.True, c.Reason, c.Message)
}

// setConditions sets the conditions from the last evaluation and the other autoscalers of the target, and records an Event for
// each new problem.
func (e *evaluation) setConditions(others *replicadecide.OtherScalers) {
	e.status.ObservedGeneration = e.object.Generation
	for _, c := range e.sound.Conditions(others, e.last) {
		before := meta.FindStatusCondition(e.status.Conditions, c.Type)
		changed := before == nil || (before.Status == metav1.ConditionTrue) != c.True || before.Reason != c.Reason
		e.condition(c)
		wrong := c.True == (c.Type == v1alpha1.PolicyConflict || c.Type == v1alpha1.PolicyLimited)
		switch {
		case changed && wrong && c.Type != v1alpha1.PolicyReady:
			e.report.Event(corev1.EventTypeWarning, c.Reason, v1alpha1.ActionEvaluate, c.Message)
		case changed && !wrong:
			e.resume(before)
		}
	}
	e.publish(others)
}

// resume allows the Event of a resolved problem to be recorded again.
func (e *evaluation) resume(before *metav1.Condition) {
	if before != nil {
		delete(e.report.Last, before.Reason)
	}
}

// record updates the status with an observation and its decision.
func (e *evaluation) record(out *replicadecide.Outcome, conflict bool) {
	observed := replicadecide.ObservationOf(out)
	e.status.LastObservation = &observed
	result := "decided"
	switch {
	case conflict:
		result = "conflict"
	case out.Missing != "":
		result = "missing"
	case out.Held:
		result = "held"
	}
	metricEvaluations.WithLabelValues(e.key.Namespace, e.key.Name, result).Inc()
	if conflict || out.Off {
		return
	}
	e.status.DesiredReplicas = int32(out.Replicas)
	if out.Changes() {
		e.status.LastDecision, e.readyAt = e.sound.DecisionOf(out), time.Time{}
		return
	}
	d := e.status.LastDecision
	if d == nil {
		return
	}
	if out.Observation.Ready != int(d.To) {
		e.readyAt = time.Time{}
	} else if e.readyAt.IsZero() {
		e.readyAt = e.now
	}
	e.sound.Settle(d, out, e.readyAt)
}

// news reports whether the status says something new: a decision, a condition or a spec. Measurements and memory do not
// count.
func (e *evaluation) news() bool {
	a, b := e.written, e.status
	if a.ObservedGeneration != b.ObservedGeneration || a.DesiredReplicas != b.DesiredReplicas || len(a.Conditions) != len(b.Conditions) {
		return true
	}
	if (a.LastDecision == nil) != (b.LastDecision == nil) || b.LastDecision != nil && (!a.LastDecision.Time.Equal(&b.LastDecision.Time) ||
		a.LastDecision.To != b.LastDecision.To || (a.LastDecision.Measured == nil) != (b.LastDecision.Measured == nil)) {
		return true
	}
	return !slices.EqualFunc(a.Conditions, b.Conditions, func(a, b metav1.Condition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.ObservedGeneration == b.ObservedGeneration
	})
}

// writeStatus writes the status if it says something new, but at least writeGap after the last write, and otherwise
// every rememberEvery.
func (e *evaluation) writeStatus(ctx context.Context) error {
	since := e.now.Sub(e.writtenAt)
	switch news := e.news(); {
	case e.DryRun, equality.Semantic.DeepEqual(e.written, e.status):
		return nil
	case news && since < writeGap && since >= 0 && e.written.ObservedGeneration == e.status.ObservedGeneration:
		e.comeBack(writeGap - since)
		return nil
	case !news && since < rememberEvery && since >= 0:
		return nil
	}
	e.remember()
	object := e.object.DeepCopy()
	object.Status = *e.status.DeepCopy()
	err := e.Client.Status().Update(ctx, object)
	if apierrors.IsConflict(err) { // the cache was stale
		if err = e.Live.Get(ctx, e.key, object); err == nil && object.UID == e.uid {
			object.Status = *e.status.DeepCopy()
			err = e.Client.Status().Update(ctx, object)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the status of ReplicaPolicy %s: %w", e.key, err)
	}
	metricStatusWrites.Inc()
	e.written, e.writtenAt = e.status.DeepCopy(), e.now
	return nil
}

// comeBack shortens the time until the next step.
func (e *evaluation) comeBack(after time.Duration) {
	if e.again == 0 || e.again > after {
		e.again = after
	}
}

// remember saves the law's memory in the status.
func (e *evaluation) remember() {
	if e.sound == nil || e.memory == nil {
		return
	}
	saved, err := e.sound.Save(e.memory, e.now)
	if err != nil {
		e.condition(replicadecide.Condition{Type: v1alpha1.PolicyRemembered, Reason: v1alpha1.PolicyReasonTooLarge, Message: err.Error()})
		e.report.Event(corev1.EventTypeWarning, v1alpha1.PolicyReasonStateNotSaved, v1alpha1.ActionSave, err.Error())
		return
	}
	e.status.Memory = saved
	e.condition(replicadecide.Condition{Type: v1alpha1.PolicyRemembered, True: true, Reason: v1alpha1.PolicyReasonStateSaved, Message: "A restarted autoscaler continues from status.memory"})
}
