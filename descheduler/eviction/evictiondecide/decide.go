// Package evictiondecide determines how to answer an eviction of a pod: pass it on to the API server, refuse
// it for now, or make a Migration.
//
// Invariants:
//
//   - The eviction of a pod that is being moved, away or in, is refused until the migration has
//     ended.
//   - A pod that can never be moved, or has not opted in, is evicted by the API server's own rules.
//   - A pod that cannot be moved for a reason that passes is not evicted: see [movable.Lasts].
//   - A migration begins only where an eviction could: budgets and preconditions are checked as
//     the API server does.
//   - A dry run gets the same answer, and must write nothing.
package evictiondecide

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/budget"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/internal/movable/attempts"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Evacuation is the text of a refusal by which clients recognize that the pod will leave without
// an eviction.
const Evacuation = "Eviction triggered evacuation"

// AfterFailure is what to do with the eviction of a pod that could not be moved.
type AfterFailure string

const (
	// Evict allows it: the pod is killed, and its controller starts it again.
	Evict AfterFailure = "Evict"
	// Keep refuses it until the failed Migrations are gone, and the pod no longer remembers them.
	Keep AfterFailure = "Keep"
)

// pause is the time between a Migration that was refused for a reason that passes and the next one. Without it, a client
// that retries every few seconds would use up all attempts before the reason has passed.
const pause = time.Minute

// Config configures the answers.
type Config struct {
	// Deadline is the deadline of the Migrations.
	Deadline time.Duration
	// Attempts is the maximum number of Migrations for the eviction of a pod, at least 1.
	Attempts int
	// AfterFailure applies after the last attempt.
	AfterFailure AfterFailure
}

// Observation is the input of an answer.
type Observation struct {
	// Pod is the pod to evict; nil if it is gone.
	Pod *corev1.Pod
	// Options are the eviction's delete options; nil for none.
	Options *metav1.DeleteOptions
	// Verdict tells whether the pod can be moved.
	Verdict movable.Verdict
	// Migrations are those of the pod's namespace.
	Migrations []v1alpha1.Migration
	// Budgets are those of the pod's namespace.
	Budgets []policyv1.PodDisruptionBudget
}

// Outcome classifies an answer.
type Outcome string

// The outcomes.
const (
	// Untouched: the pod has not opted in, or the API server decides alone.
	Untouched Outcome = "Untouched"
	// NotMovable: the pod has opted in but can never be moved.
	NotMovable Outcome = "NotMovable"
	// NotMovableYet: the pod has opted in and cannot be moved, for reasons that pass.
	NotMovableYet Outcome = "NotMovableYet"
	// Failed: all attempts to move the pod failed.
	Failed Outcome = "Failed"
	// Started: the eviction becomes a Migration.
	Started Outcome = "Started"
	// InFlight: the pod is being moved away.
	InFlight Outcome = "InFlight"
	// Arriving: the pod is being moved in.
	Arriving Outcome = "Arriving"
	// OverBudget: the eviction would violate a budget.
	OverBudget Outcome = "OverBudget"
)

// Answer is the answer to an eviction.
type Answer struct {
	// Outcome classifies the answer.
	Outcome Outcome
	// Status is the refusal; nil passes the eviction on to the API server.
	Status *metav1.Status
	// Warning is for the client, and for an Event of the pod; empty for none.
	Warning string
	// Refusals are why the pod cannot be moved, for outcomes NotMovable and NotMovableYet.
	Refusals []movable.Refusal
	// Claims are the budgets to write before the Migration is created. Each write must fail if
	// the budget has changed.
	Claims []*policyv1.PodDisruptionBudget
	// Migration is the Migration to create; nil for none. If it already exists, that is no error:
	// another replica has answered an eviction of the same pod.
	Migration *v1alpha1.Migration
}

// Reply answers the eviction of a pod.
func Reply(c Config, o Observation, now time.Time) Answer {
	pod := o.Pod
	if pod == nil || class.Ended(pod) || !holds(o.Options, pod) {
		return Answer{Outcome: Untouched}
	}
	if m := arrival(o); m != nil {
		return refuse(Arriving, fmt.Sprintf("Migration %s is moving pod %s to this node: the pod can be evicted once it has ended", m.Name, pod.Name))
	}
	if m := flight(o); m != nil {
		return refuse(InFlight, fmt.Sprintf("%s: Migration %s moves pod %s to another node", Evacuation, m.Name, pod.Name))
	}
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || pod.Annotations[v1alpha1.AnnotationMigration] != v1alpha1.MigrationCheckpoint {
		return Answer{Outcome: Untouched}
	}
	lasting, passing := movable.Split(o.Verdict.Refusals)
	if len(lasting) > 0 {
		return Answer{Outcome: NotMovable, Refusals: lasting, Warning: fmt.Sprintf("pod %s loses its state if it is evicted: it cannot be moved: %s: %s", pod.Name, movable.Reason(lasting), movable.Message(lasting))}
	}
	earlier, failed := earlierAttempts(o), attempts.Failed(pod, attempts.Eviction, now)
	if a := c.afterFailure(pod, earlier, failed, now); a != nil {
		return *a
	}
	if len(passing) > 0 {
		return notYet(pod, passing)
	}
	return c.start(o, next(earlier, failed), now)
}

// holds reports whether the preconditions of an eviction hold. If not, the API server refuses it.
func holds(options *metav1.DeleteOptions, pod *corev1.Pod) bool {
	if options == nil || options.Preconditions == nil {
		return true
	}
	p := options.Preconditions
	return (p.UID == nil || *p.UID == pod.UID) && (p.ResourceVersion == nil || *p.ResourceVersion == pod.ResourceVersion)
}

// arrival returns the unfinished migration that created the pod.
func arrival(o Observation) *v1alpha1.Migration {
	mark := o.Pod.Labels[v1alpha1.LabelMigration]
	for i := range o.Migrations {
		if m := &o.Migrations[i]; mark != "" && string(m.UID) == mark && !ended(m) {
			return m
		}
	}
	return nil
}

// flight returns the unfinished migration that moves the pod away, or waits to do so.
func flight(o Observation) *v1alpha1.Migration {
	for i := range o.Migrations {
		if m := &o.Migrations[i]; !ended(m) && moves(m, o.Pod) {
			return m
		}
	}
	return nil
}

// moves reports whether a migration is of that pod, and not of another one with its name.
func moves(m *v1alpha1.Migration, pod *corev1.Pod) bool {
	switch {
	case m.Spec.PodName != pod.Name:
		return false
	case m.Status.Plan != nil:
		return m.Status.Plan.PodUID == string(pod.UID)
	}
	return m.Spec.PodUID == "" || m.Spec.PodUID == string(pod.UID)
}

func ended(m *v1alpha1.Migration) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.MigrationFinished)
}

// attempt is an earlier migration for an eviction of the same pod.
type attempt struct {
	number int
	*v1alpha1.Migration
}

// earlierAttempts returns the finished attempts that still exist, by number.
func earlierAttempts(o Observation) (found []attempt) {
	for i := range o.Migrations {
		m := &o.Migrations[i]
		if number, ok := attempts.Number(m.Name, attempts.Eviction, o.Pod.UID); ok && ended(m) {
			found = append(found, attempt{number, m})
		}
	}
	slices.SortFunc(found, func(a, b attempt) int { return cmp.Compare(a.number, b.number) })
	return found
}

// next returns the number of the next attempt. It is the same on every replica, and differs from
// those of earlier attempts, whether they still exist or only the pod remembers them.
func next(earlier []attempt, failed int) int {
	if len(earlier) > 0 {
		failed = max(failed, min(earlier[len(earlier)-1].number, math.MaxInt-1))
	}
	return failed + 1
}

// afterFailure answers an eviction of a pod after the last attempt; nil allows another attempt.
// failed is the number of failures that the pod remembers: the earlier Migrations may have been
// deleted.
func (c Config) afterFailure(pod *corev1.Pod, earlier []attempt, failed int, now time.Time) *Answer {
	if len(earlier) == 0 {
		if failed < c.Attempts {
			return nil
		}
		return c.failed(pod, fmt.Sprintf("%s of the pod %s failed", plural.Count(failed, "Migration"), plural.Form(failed, "has", "have")))
	}
	last := earlier[len(earlier)-1]
	why, refusal := "its phase is "+string(last.Status.Phase), refusalOf(last.Migration)
	finished := meta.FindStatusCondition(last.Status.Conditions, v1alpha1.MigrationFinished)
	if finished.Message != "" {
		why = finished.Message
	}
	if max(len(earlier), failed) < c.Attempts && (refusal == nil || !refusal.Lasts()) {
		if refusal != nil && now.Before(finished.LastTransitionTime.Add(pause)) {
			a := notYet(pod, []movable.Refusal{*refusal})
			return &a
		}
		return nil
	}
	return c.failed(pod, fmt.Sprintf("Migration %s has ended: %s", last.Name, why))
}

// failed answers an eviction of a pod after all attempts failed.
func (c Config) failed(pod *corev1.Pod, why string) *Answer {
	if c.AfterFailure == Keep {
		a := refuse(Failed, fmt.Sprintf("pod %s could not be moved, and --eviction-after-failure=Keep refuses its eviction: %s", pod.Name, why))
		return &a
	}
	return &Answer{Outcome: Failed, Warning: fmt.Sprintf("pod %s loses its state if it is evicted, because it could not be moved: %s", pod.Name, why)}
}

// refusalOf returns why a migration was refused; nil if it was not.
func refusalOf(m *v1alpha1.Migration) *movable.Refusal {
	e := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.MigrationEligible)
	if m.Status.Phase != v1alpha1.MigrationRefused || e == nil {
		return nil
	}
	return &movable.Refusal{Reason: e.Reason, Message: e.Message}
}

// notYet answers an eviction of a pod that cannot be moved for reasons that pass. It does not wait for them without a
// client: each retry decides again.
func notYet(pod *corev1.Pod, passing []movable.Refusal) Answer {
	a := refuse(NotMovableYet, fmt.Sprintf("pod %s would lose its state if it were evicted, and cannot be moved yet: %s: %s; to end it anyway, delete it",
		pod.Name, movable.Reason(passing), movable.Message(passing)))
	a.Refusals = passing
	return a
}

// start starts a migration, if the budgets allow the disruption of the pod.
func (c Config) start(o Observation, number int, now time.Time) Answer {
	pod := o.Pod
	var claims []*policyv1.PodDisruptionBudget
	if !budget.Ignores(pod) {
		budgets := budget.Of(o.Budgets, pod)
		if len(budgets) > 1 {
			return Answer{Outcome: Untouched} // the API server refuses the eviction
		}
		for _, b := range budgets {
			claim := budget.Claim(b, pod, now)
			if claim.Refused != "" {
				return overBudget(claim)
			}
			if claim.Write != nil {
				claims = append(claims, claim.Write)
			}
		}
	}
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: attempts.Name(attempts.Eviction, pod.UID, number)},
		Spec: v1alpha1.MigrationSpec{
			PodName: pod.Name, PodUID: string(pod.UID), Deadline: metav1.Duration{Duration: c.Deadline},
		},
	}
	a := refuse(Started, fmt.Sprintf("%s: Migration %s moves pod %s to another node", Evacuation, m.Name, pod.Name))
	a.Claims, a.Migration = claims, m
	return a
}

// refuse returns a refusal on which the client retries later.
func refuse(outcome Outcome, message string) Answer {
	return Answer{Outcome: outcome, Status: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: message,
	}}
}

// overBudget answers as the API server does.
func overBudget(claim budget.Answer) Answer {
	if claim.Forbidden {
		return Answer{Outcome: Untouched} // the API server refuses it itself
	}
	a := refuse(OverBudget, "Cannot evict pod as it would violate the pod's disruption budget.")
	a.Status.Details = &metav1.StatusDetails{
		Causes:            []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: claim.Refused}},
		RetryAfterSeconds: int32(claim.Wait / time.Second),
	}
	return a
}
