package migrationdecide

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Event is an Event to create.
type Event struct {
	// Type is Normal or Warning.
	Type string
	// Reason, Action and Note are those of the Event.
	Reason, Action, Note string
}

// EventsOf returns the Events for a change of the status.
func EventsOf(before, after *v1alpha1.MigrationStatus) (all []Event) {
	add := func(kind, reason, action, note string) { all = append(all, Event{kind, reason, action, note}) }
	for _, on := range []struct{ condition, reason, action string }{
		{v1alpha1.MigrationReserved, v1alpha1.MigrationReasonReserved, v1alpha1.ActionReserve},
		{v1alpha1.MigrationFrozen, v1alpha1.MigrationReasonFrozen, v1alpha1.ActionFreeze},
		{v1alpha1.MigrationShipped, v1alpha1.MigrationReasonStaged, v1alpha1.ActionShip},
		{v1alpha1.MigrationVerified, v1alpha1.MigrationReasonRestored, v1alpha1.ActionRestore},
		{v1alpha1.MigrationHandedOver, v1alpha1.MigrationReasonHandedOver, v1alpha1.ActionHandOver},
	} {
		if c := becomes(before, after, on.condition, yes); c != nil {
			add(corev1.EventTypeNormal, on.reason, on.action, c.Message)
		}
	}
	if c := heldAt(after); c != nil && after.HeldBy != before.HeldBy {
		action := v1alpha1.ActionRollBack
		if after.Commit == v1alpha1.CommitHandedOver {
			action = v1alpha1.ActionHandOver
		}
		add(corev1.EventTypeWarning, c.Reason, action, c.Message)
	}
	if after.Phase == v1alpha1.MigrationRollingBack && before.Phase != after.Phase {
		c := condition(after, v1alpha1.MigrationFinished)
		add(corev1.EventTypeWarning, v1alpha1.MigrationReasonRollingBack, v1alpha1.ActionRollBack, c.Reason+": "+c.Message)
	}
	if c := becomes(before, after, v1alpha1.MigrationFinished, yes); c != nil {
		kind := corev1.EventTypeWarning
		if after.Phase == v1alpha1.MigrationSucceeded {
			kind = corev1.EventTypeNormal
		}
		add(kind, string(after.Phase), v1alpha1.ActionFinish, c.Message)
	}
	return all
}

// becomes returns the condition if it has the value now and did not have it before.
func becomes(before, after *v1alpha1.MigrationStatus, kind string, value metav1.ConditionStatus) *metav1.Condition {
	c := condition(after, kind)
	if c == nil || c.Status != value {
		return nil
	}
	if was := condition(before, kind); was != nil && was.Status == value {
		return nil
	}
	return c
}

// Outcome is how a migration ended, for metrics.
type Outcome struct {
	// Phase is the last phase.
	Phase v1alpha1.MigrationPhase
	// Reason is why it did not succeed, or how it took over if it did.
	Reason string
}

// OutcomeOf returns the outcome of a migration if the change of its status ended it; nil
// otherwise.
func OutcomeOf(before, after *v1alpha1.MigrationStatus) *Outcome {
	if becomes(before, after, v1alpha1.MigrationFinished, yes) == nil {
		return nil
	}
	o := &Outcome{Phase: after.Phase}
	kind, where := v1alpha1.MigrationHandedOver, after
	switch after.Phase {
	case v1alpha1.MigrationRefused:
		kind = v1alpha1.MigrationEligible
	case v1alpha1.MigrationRolledBack: // its reason is in the condition that was just overwritten
		kind, where = v1alpha1.MigrationFinished, before
	}
	switch c := condition(where, kind); {
	case c != nil:
		o.Reason = c.Reason
	case after.Phase == v1alpha1.MigrationRolledBack: // it had not begun
		o.Reason = v1alpha1.MigrationReasonDeadlineExceeded
	}
	return o
}
