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
	ctrl "sigs.k8s.io/controller-runtime"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/clip"
)

const (
	// rememberEvery is the interval between writes of a status in which only the measurements and the law's memory are
	// new. A crash loses at most what was learned in that time.
	rememberEvery = time.Minute
	// writeGap is the minimum time between two writes of a status.
	writeGap = 5 * time.Second
)

// condition sets a condition of the status.
func (l *look) condition(c replicadecide.Condition) {
	conditions.Set(&l.status.Conditions, c.Type, c.True, c.Reason, c.Message, l.object.Generation, l.now)
}

// judge sets the conditions from the last evaluation and the other autoscalers of the target, and records an Event for
// each new problem.
func (l *look) judge(standing *replicadecide.Standing) {
	l.status.ObservedGeneration = l.object.Generation
	for _, c := range l.sound.Conditions(standing, l.last) {
		before := meta.FindStatusCondition(l.status.Conditions, c.Type)
		changed := before == nil || (before.Status == metav1.ConditionTrue) != c.True || before.Reason != c.Reason
		l.condition(c)
		wrong := c.True == (c.Type == v1alpha1.PolicyConflict || c.Type == v1alpha1.PolicyLimited)
		switch {
		case changed && wrong && c.Type != v1alpha1.PolicyReady:
			l.tell(corev1.EventTypeWarning, c.Reason, "Look", c.Message)
		case changed && !wrong:
			l.resume(before)
		}
	}
	l.publish(standing)
}

// resume allows the Event of a resolved problem to be recorded again.
func (l *look) resume(before *metav1.Condition) {
	if before != nil {
		delete(l.said, before.Reason)
	}
}

// tell records an Event, unless the last one with this reason had the same message.
func (l *look) tell(kind, reason, action, message string) {
	if l.said[reason] == message {
		return
	}
	l.said[reason] = message
	if l.DryRun {
		ctrl.Log.Info(message, "policy", l.key, "reason", reason)
		return
	}
	l.Events.Eventf(l.object, nil, kind, reason, action, "%s", clip.Bytes(message, conditions.MaxMessage))
}

// record updates the status with an observation and its decision.
func (l *look) record(out *replicadecide.Outcome, conflict bool) {
	observed := replicadecide.ObservationOf(out)
	l.status.LastObservation = &observed
	result := "decided"
	switch {
	case conflict:
		result = "conflict"
	case out.Missing != "":
		result = "missing"
	case out.Held:
		result = "held"
	}
	metricEvaluations.WithLabelValues(l.key.Namespace, l.key.Name, result).Inc()
	if conflict || out.Off {
		return
	}
	l.status.DesiredReplicas = int32(out.Replicas)
	if out.Changes() {
		l.status.LastDecision, l.readyAt = l.sound.DecisionOf(out), time.Time{}
		return
	}
	d := l.status.LastDecision
	if d == nil {
		return
	}
	if out.Observation.Ready != int(d.To) {
		l.readyAt = time.Time{}
	} else if l.readyAt.IsZero() {
		l.readyAt = l.now
	}
	l.sound.Settle(d, out, l.readyAt)
}

// news reports whether the status says something new: a decision, a condition or a spec. Measurements and memory do not
// count.
func (l *look) news() bool {
	a, b := l.written, l.status
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
func (l *look) writeStatus(ctx context.Context) error {
	since := l.now.Sub(l.writtenAt)
	switch news := l.news(); {
	case l.DryRun, equality.Semantic.DeepEqual(l.written, l.status):
		return nil
	case news && since < writeGap && since >= 0 && l.written.ObservedGeneration == l.status.ObservedGeneration:
		l.comeBack(writeGap - since)
		return nil
	case !news && since < rememberEvery && since >= 0:
		return nil
	}
	l.remember()
	object := l.object.DeepCopy()
	object.Status = *l.status.DeepCopy()
	err := l.Client.Status().Update(ctx, object)
	if apierrors.IsConflict(err) { // the cache was stale
		if err = l.Live.Get(ctx, l.key, object); err == nil && object.UID == l.uid {
			object.Status = *l.status.DeepCopy()
			err = l.Client.Status().Update(ctx, object)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the status of ReplicaPolicy %s: %w", l.key, err)
	}
	metricStatusWrites.Inc()
	l.written, l.writtenAt = l.status.DeepCopy(), l.now
	return nil
}

// comeBack shortens the time until the next step.
func (l *look) comeBack(after time.Duration) {
	if l.again == 0 || l.again > after {
		l.again = after
	}
}

// remember saves the law's memory in the status.
func (l *look) remember() {
	if l.sound == nil || l.memory == nil {
		return
	}
	saved, err := l.sound.Save(l.memory, l.now)
	if err != nil {
		l.condition(replicadecide.Condition{Type: v1alpha1.PolicyRemembered, Reason: "TooLarge", Message: err.Error()})
		l.tell(corev1.EventTypeWarning, "StateNotSaved", "Save", err.Error())
		return
	}
	l.status.Memory = saved
	l.condition(replicadecide.Condition{Type: v1alpha1.PolicyRemembered, True: true, Reason: "Remembered", Message: "A restarted autoscaler continues from status.memory"})
}
