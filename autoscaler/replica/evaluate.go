package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
	"supercargo.dev/supercargo/internal/platform/conditions"
)

// evaluation is one reconcile step of one policy.
type evaluation struct {
	*Reconciler
	*tracked
	now    time.Time
	report *conditions.Reporter
	// again is the time until the next step; 0 means that an event triggers it.
	again time.Duration
}

// faultRetry is the requeue delay after a fault whose repair no watch reports.
const faultRetry = time.Minute

// actRetry is the delay before a failed scaling is retried, while no newer decision exists.
const actRetry = 5 * time.Second

// run takes one step: it queries the source, decides on the answers, or waits.
func (e *evaluation) run(ctx context.Context) error {
	if err := e.applyPause(ctx); err != nil {
		return err
	}
	if e.invalid != nil {
		e.idle(v1alpha1.PolicyReasonInvalidSpec, e.invalid.Error())
		return nil
	}
	s := e.Sources[e.object.Spec.Metrics.Source]
	if s == nil {
		e.idle(v1alpha1.PolicyReasonNoSuchSource, fmt.Sprintf("spec.metrics.source: the autoscaler has no source %q: check --metrics-url and --metrics-sources", e.object.Spec.Metrics.Source))
		return nil
	}
	target, err := e.target(ctx)
	if fault, is := isFault(err); is {
		e.idle(fault.reason, fault.Error())
		e.again = faultRetry
		if fault.reason == v1alpha1.PolicyReasonKindNotAllowed {
			e.again = kindsAge // the kind may be served later
		}
		return nil
	} else if err != nil {
		return err
	}
	others, err := e.otherScalers(ctx)
	if err != nil {
		return err
	}
	answers, askedAt, answered := e.measured.take()
	if !answered {
		e.wait(ctx, s, others)
		return nil
	}
	return e.decide(ctx, target, others, answers, askedAt)
}

// applyPause turns the mode into Observe while the cluster is paused.
func (e *evaluation) applyPause(ctx context.Context) error {
	paused, err := e.Pause.Apply(ctx, e.report, e.object.Spec.Mode != v1alpha1.ReplicasObserve)
	if err != nil || e.sound == nil {
		return err
	}
	e.sound.Mode = e.object.Spec.Mode
	if paused {
		e.sound.Mode = v1alpha1.ReplicasObserve
	}
	return nil
}

// idle handles a policy that cannot be evaluated. It cancels its queries.
func (e *evaluation) idle(reason, message string) {
	e.cancel()
	e.measured.drop()
	e.due, e.last, e.pending, e.scale = time.Time{}, nil, nil, nil
	for _, unknown := range []string{v1alpha1.PolicyMeasured, v1alpha1.PolicyLimited, v1alpha1.PolicyConflict} {
		meta.RemoveStatusCondition(&e.status.Conditions, unknown) // they are of an evaluation that no longer counts
	}
	e.status.ObservedGeneration = e.object.Generation
	e.condition(replicadecide.Condition{Type: v1alpha1.PolicyReady, Reason: reason, Message: message})
	e.report.Event(corev1.EventTypeWarning, reason, v1alpha1.ActionEvaluate, message)
	forgetWanted(e.key)
}

// wait queries the source when that is due. Until then it retries a failed scaling, and updates the conditions if other
// autoscalers of the target change.
func (e *evaluation) wait(ctx context.Context, s *Source, others *replicadecide.OtherScalers) {
	if e.now.Before(e.due) {
		e.again = until(e.now, e.due)
	} else {
		e.ask(e.tracked, s, e.now)
	}
	if e.pending != nil && others.Conflict(e.sound.Mode) == "" {
		e.act(ctx, e.pending)
	}
	if e.last != nil && e.pending == nil {
		e.setConditions(others)
	}
}

// decide evaluates the law, and carries out its decision.
func (e *evaluation) decide(ctx context.Context, target *scaled, others *replicadecide.OtherScalers, answers []replicadecide.Answer, askedAt time.Time) error {
	counted, err := e.count(ctx, e.tracked, target)
	if err != nil {
		return err
	}
	e.recall()
	seen := replicadecide.Seen{Now: e.now, Spec: target.asked, Ready: counted.ready, Foreign: counted.foreign, Desired: int(e.status.DesiredReplicas), Answers: answers}
	seen.Stuck, seen.Unplaced = stuck(counted.unready, e.now, replicadecide.StuckAfter(counted.startUp))
	seen.Tolerance = others.Tolerance()
	if counted.startUp != nil {
		seen.StartUp = counted.startUp.Mean.Duration
	}
	began := e.Clock.Now()
	memory, out := e.sound.Evaluate(e.memory, seen)
	metricDecisionSeconds.Observe(e.Clock.Since(began).Seconds())
	conflict := others.Conflict(e.sound.Mode) != ""
	if conflict {
		// The measurements reflect another autoscaler's decisions, so the law must not learn from them.
		out.Replicas = out.From
	} else {
		e.memory = memory
	}
	e.evaluations++
	e.last, e.pending = &out, nil
	e.due = askedAt.Add(e.stagger(out.Next))
	e.again = until(e.now, e.due)
	e.status.SpecReplicas, e.status.Replicas, e.status.ReadyReplicas, e.status.StartUp = int32(target.asked), int32(counted.total), int32(counted.ready), counted.startUp
	e.setConditions(others)
	e.record(&out, conflict)
	if !conflict && out.Changes() {
		e.act(ctx, &out)
	}
	return nil
}

// recall restores the law's memory from the status at the first evaluation.
func (e *evaluation) recall() {
	if e.memory != nil {
		return
	}
	var err error
	if e.memory, err = e.sound.Recall(e.status.Memory); err != nil {
		e.report.Event(corev1.EventTypeWarning, v1alpha1.PolicyReasonStateDiscarded, v1alpha1.ActionRestore, "The law discards its memory and learns again: "+err.Error())
	}
}

// act carries out a decision. If the scale has been changed in the meantime, it stays so until the next evaluation.
func (e *evaluation) act(ctx context.Context, out *replicadecide.Outcome) {
	if e.sound.Mode != v1alpha1.ReplicasAct {
		return
	}
	target := e.object.Spec.Target
	what := fmt.Sprintf("%s %s from %d to %d replicas", target.Kind, target.Name, out.From, out.Replicas)
	if e.DryRun {
		ctrl.LoggerFrom(ctx).Info("Would scale "+what, "policy", e.key, "reasons", out.Reasons)
		return
	}
	tried := e.pending == out // whose response may have been lost
	switch wrote, err := e.rescale(ctx, out); {
	case errors.Is(err, errOvertaken):
		e.pending, e.scale = nil, nil
		e.report.Event(corev1.EventTypeWarning, v1alpha1.PolicyReasonScaleConflict, v1alpha1.ActionScale, "Did not scale "+what+": "+err.Error())
	case err != nil:
		e.pending, e.scale = out, nil
		message := "Failed to scale " + what + ": " + err.Error()
		e.condition(replicadecide.Condition{Type: v1alpha1.PolicyReady, Reason: v1alpha1.PolicyReasonNotScaled, Message: message})
		e.report.Event(corev1.EventTypeWarning, v1alpha1.PolicyReasonNotScaled, v1alpha1.ActionScale, message)
		ctrl.LoggerFrom(ctx).Error(err, "Failed to scale", "target", target.Name)
		e.comeBack(actRetry)
	case !wrote && !tried: // another client has scaled to the same number
		e.pending, e.scale = nil, nil
		e.status.SpecReplicas = int32(out.Replicas)
	default:
		e.pending, e.scale = nil, nil
		direction := "out"
		if out.Replicas < out.From {
			direction = "in"
		}
		metricScalings.WithLabelValues(e.key.Namespace, e.key.Name, direction).Inc()
		e.status.SpecReplicas = int32(out.Replicas)
		e.report.Event(corev1.EventTypeNormal, v1alpha1.PolicyReasonScaled, v1alpha1.ActionScale, fmt.Sprintf("Scaled %s: %s", what, out.Reasons[0]))
	}
}
