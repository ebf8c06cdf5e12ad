package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
)

// look is one reconcile step of one policy.
type look struct {
	*Reconciler
	*tracked
	now time.Time
	// again is the time until the next step; 0 means that an event triggers it.
	again time.Duration
}

// faultRetry is the requeue delay after a fault whose repair no watch reports.
const faultRetry = time.Minute

// actRetry is the delay before a failed scaling is retried, while no newer decision exists.
const actRetry = 5 * time.Second

// run takes one step: it queries the source, decides on the answers, or waits.
func (l *look) run(ctx context.Context) error {
	if err := l.heed(ctx); err != nil {
		return err
	}
	if l.invalid != nil {
		l.idle("Invalid", l.invalid.Error())
		return nil
	}
	s := l.Sources[l.object.Spec.Metrics.Source]
	if s == nil {
		l.idle("NoSuchSource", fmt.Sprintf("spec.metrics.source: the autoscaler has no source %q: check --metrics-url and --metrics-sources", l.object.Spec.Metrics.Source))
		return nil
	}
	target, err := l.target(ctx)
	if fault, is := isFault(err); is {
		l.idle(fault.reason, fault.Error())
		l.again = faultRetry
		return nil
	} else if err != nil {
		return err
	}
	standing, err := l.standing(ctx)
	if err != nil {
		return err
	}
	answers, askedAt, answered := l.measured.take()
	if !answered {
		l.wait(ctx, s, standing)
		return nil
	}
	return l.decide(ctx, target, standing, answers, askedAt)
}

// heed turns the mode into Observe while the cluster is paused.
func (l *look) heed(ctx context.Context) error {
	paused, err := l.Pause.Apply(ctx, &l.status.Conditions, l.object.Generation, l.now, l.said, l.tell)
	if err != nil || l.sound == nil {
		return err
	}
	l.sound.Mode = l.object.Spec.Mode
	if paused {
		l.sound.Mode = v1alpha1.ReplicasObserve
	}
	return nil
}

// idle handles a policy that cannot be evaluated. It cancels its queries.
func (l *look) idle(reason, message string) {
	l.cancel()
	l.measured.drop()
	l.due, l.last, l.pending, l.scale = time.Time{}, nil, nil, nil
	l.status.ObservedGeneration = l.object.Generation
	l.condition(replicadecide.Condition{Type: v1alpha1.PolicyReady, Reason: reason, Message: message})
	l.tell(corev1.EventTypeWarning, reason, "Look", message)
	forgetWanted(l.key)
}

// wait queries the source when that is due. Until then it retries a failed scaling, and updates the conditions if other
// autoscalers of the target change.
func (l *look) wait(ctx context.Context, s *Source, standing *replicadecide.Standing) {
	if l.now.Before(l.due) {
		l.again = until(l.now, l.due)
	} else {
		l.ask(l.tracked, s, l.now)
	}
	if l.pending != nil && standing.Conflict(l.sound.Mode) == "" {
		l.act(ctx, l.pending)
	}
	if l.last != nil && l.pending == nil {
		l.judge(standing)
	}
}

// decide evaluates the law, and carries out its decision.
func (l *look) decide(ctx context.Context, target *scaled, standing *replicadecide.Standing, answers []replicadecide.Answer, askedAt time.Time) error {
	total, ready, startUp, err := l.count(ctx, l.tracked, target.selector)
	if err != nil {
		return err
	}
	l.recall()
	seen := replicadecide.Seen{Now: l.now, Spec: target.asked, Ready: ready, Desired: int(l.status.DesiredReplicas), Answers: answers}
	if startUp != nil {
		seen.StartUp = startUp.Mean.Duration
	}
	began := l.Clock.Now()
	memory, out := l.sound.Look(l.memory, seen)
	metricDecisionSeconds.Observe(l.Clock.Since(began).Seconds())
	conflict := standing.Conflict(l.sound.Mode) != ""
	if conflict {
		// The measurements reflect another autoscaler's decisions, so the law must not learn from them.
		out.Replicas = out.From
	} else {
		l.memory = memory
	}
	l.looks++
	l.last, l.pending = &out, nil
	l.due = askedAt.Add(l.stagger(out.Next))
	l.again = until(l.now, l.due)
	l.status.SpecReplicas, l.status.Replicas, l.status.ReadyReplicas, l.status.StartUp = int32(target.asked), int32(total), int32(ready), startUp
	l.judge(standing)
	l.record(&out, conflict)
	if !conflict && out.Changes() {
		l.act(ctx, &out)
	}
	return nil
}

// recall restores the law's memory from the status at the first evaluation.
func (l *look) recall() {
	if l.memory != nil {
		return
	}
	var err error
	if l.memory, err = l.sound.Recall(l.status.Memory); err != nil {
		l.tell(corev1.EventTypeWarning, "StateDiscarded", "Restore", "The law discards its memory and learns again: "+err.Error())
	}
}

// act carries out a decision. If the scale has been changed in the meantime, it stays so until the next evaluation.
func (l *look) act(ctx context.Context, out *replicadecide.Outcome) {
	if l.sound.Mode != v1alpha1.ReplicasAct {
		return
	}
	target := l.object.Spec.Target
	what := fmt.Sprintf("%s %s from %d to %d replicas", target.Kind, target.Name, out.From, out.Replicas)
	if l.DryRun {
		ctrl.LoggerFrom(ctx).Info("Would scale "+what, "policy", l.key, "reasons", out.Reasons)
		return
	}
	switch err := l.rescale(ctx, out); {
	case errors.Is(err, errOvertaken):
		l.pending, l.scale = nil, nil
		l.tell(corev1.EventTypeWarning, "ScaleConflict", "Scale", "Did not scale "+what+": "+err.Error())
	case err != nil:
		l.pending, l.scale = out, nil
		message := "Failed to scale " + what + ": " + err.Error()
		l.condition(replicadecide.Condition{Type: v1alpha1.PolicyReady, Reason: "NotScaled", Message: message})
		l.tell(corev1.EventTypeWarning, "NotScaled", "Scale", message)
		ctrl.LoggerFrom(ctx).Error(err, "Failed to scale", "target", target.Name)
		l.comeBack(actRetry)
	default:
		l.pending, l.scale = nil, nil
		direction := "out"
		if out.Replicas < out.From {
			direction = "in"
		}
		metricScalings.WithLabelValues(l.key.Namespace, l.key.Name, direction).Inc()
		l.status.SpecReplicas = int32(out.Replicas)
		l.tell(corev1.EventTypeNormal, "Scaled", "Scale", fmt.Sprintf("Scaled %s: %s", what, out.Reasons[0]))
	}
}
