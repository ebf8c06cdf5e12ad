// Package decide says how an eviction of a pod is answered: whether it goes on to the API
// server untouched, is put off, or becomes a Migration.
//
// What holds for every answer:
//
//   - A pod that is being moved, away or in, is not evicted: its eviction is put off until
//     the move has ended.
//   - A pod that cannot be moved, or does not want to be, is evicted as if nobody had been
//     asked, by the API server's own rules.
//   - No move begins that an eviction could not: budgets and preconditions are looked at
//     as the API server would.
//   - A dry run gets the same answer, and nothing is to be written.
package decide

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
	"supercargo.dev/supercargo/descheduler/budget"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/internal/movable/attempts"
)

// Evacuation is what others look for in the message to know that a pod which is not
// evicted will go by itself.
const Evacuation = "Eviction triggered evacuation"

// AfterFailure says what becomes of the eviction of a pod that could not be moved although
// it was tried.
type AfterFailure string

const (
	// Evict lets it through: the pod is killed and starts anew.
	Evict AfterFailure = "Evict"
	// Keep puts it off until the Migrations that have failed are gone, and the pod no longer
	// remembers them.
	Keep AfterFailure = "Keep"
)

// Config bounds what is done.
type Config struct {
	// Deadline is that of the Migrations.
	Deadline time.Duration
	// Attempts is how often it is tried to move one pod, at least 1.
	Attempts int
	// AfterFailure is what comes after the last.
	AfterFailure AfterFailure
}

// Observation is all that an answer depends on.
type Observation struct {
	// Pod is the one that is to be evicted; nil if it is gone.
	Pod *corev1.Pod
	// Options are those of the eviction; nil for none.
	Options *metav1.DeleteOptions
	// Verdict says whether it can be moved.
	Verdict movable.Verdict
	// Migrations are those of the pod's namespace.
	Migrations []v1alpha1.Migration
	// Budgets are those of the pod's namespace.
	Budgets []policyv1.PodDisruptionBudget
}

// Outcome is how an eviction is answered, in a word.
type Outcome string

// The outcomes.
const (
	// Untouched evictions are of pods that nobody wants to move.
	Untouched Outcome = "Untouched"
	// NotMovable are those of pods that want to be moved and cannot be.
	NotMovable Outcome = "NotMovable"
	// Failed are those of pods that could not be moved although it was tried.
	Failed Outcome = "Failed"
	// Started ones become Migrations.
	Started Outcome = "Started"
	// InFlight ones are of pods that are being moved away.
	InFlight Outcome = "InFlight"
	// Arriving ones are of pods that are being moved in.
	Arriving Outcome = "Arriving"
	// OverBudget ones would violate a budget.
	OverBudget Outcome = "OverBudget"
)

// Answer is how an eviction is answered.
type Answer struct {
	// Outcome is the answer in a word.
	Outcome Outcome
	// Status is the refusal; nil lets the eviction go on to the API server.
	Status *metav1.Status
	// Warning is for whoever evicts, and worth an Event of the pod; empty for none.
	Warning string
	// Claims are budgets as they are to be written before the Migration is made; each
	// write must be refused if the budget has changed.
	Claims []*policyv1.PodDisruptionBudget
	// Migration is to be made; nil for none. That there is one of its name already is
	// no error: somebody else has answered an eviction of the same pod.
	Migration *v1alpha1.Migration
}

// Reply answers the eviction of a pod.
func Reply(c Config, o Observation, now time.Time) Answer {
	pod := o.Pod
	if pod == nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || !holds(o.Options, pod) {
		return Answer{Outcome: Untouched}
	}
	if m := arrival(o); m != nil {
		return refuse(Arriving, fmt.Sprintf("Migration %s is bringing pod %s here: it can be evicted once that has ended", m.Name, pod.Name))
	}
	if m := flight(o); m != nil {
		return refuse(InFlight, fmt.Sprintf("%s: Migration %s moves pod %s to another node", Evacuation, m.Name, pod.Name))
	}
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || pod.Annotations[v1alpha1.AnnotationMigration] != v1alpha1.MigrationCheckpoint {
		return Answer{Outcome: Untouched}
	}
	if refusals := o.Verdict.Refusals; len(refusals) > 0 {
		return Answer{Outcome: NotMovable, Warning: fmt.Sprintf("pod %s is evicted and not moved: %s: %s", pod.Name, movable.Reason(refusals), movable.Message(refusals))}
	}
	earlier, failed := earlierAttempts(o), attempts.Failed(pod, attempts.Eviction, now)
	if a := c.afterFailure(pod, earlier, failed); a != nil {
		return *a
	}
	return c.start(o, next(earlier, failed), now)
}

// holds reports whether the preconditions of an eviction are met. If not, the API server
// is to say so.
func holds(options *metav1.DeleteOptions, pod *corev1.Pod) bool {
	if options == nil || options.Preconditions == nil {
		return true
	}
	p := options.Preconditions
	return (p.UID == nil || *p.UID == pod.UID) && (p.ResourceVersion == nil || *p.ResourceVersion == pod.ResourceVersion)
}

// arrival returns the migration in flight that has made the pod.
func arrival(o Observation) *v1alpha1.Migration {
	mark := o.Pod.Labels[v1alpha1.LabelMigration]
	for i := range o.Migrations {
		if m := &o.Migrations[i]; mark != "" && string(m.UID) == mark && !ended(m) {
			return m
		}
	}
	return nil
}

// flight returns the migration that moves the pod away, or waits to do so.
func flight(o Observation) *v1alpha1.Migration {
	for i := range o.Migrations {
		if m := &o.Migrations[i]; !ended(m) && moves(m, o.Pod) {
			return m
		}
	}
	return nil
}

// moves reports whether a migration is about that pod, and not about one of its name.
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

// attempt is an earlier migration that an eviction of the same pod has made.
type attempt struct {
	number int
	*v1alpha1.Migration
}

// earlierAttempts returns the earlier ones that are still there, in their order.
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

// next returns the number of the next attempt. It is the same whoever answers, and none
// that an earlier one has, be that still there or only remembered by the pod.
func next(earlier []attempt, failed int) int {
	if len(earlier) > 0 {
		failed = max(failed, min(earlier[len(earlier)-1].number, math.MaxInt-1))
	}
	return failed + 1
}

// afterFailure answers an eviction of a pod that was tried to be moved often enough; nil
// lets it be tried again. failed is how many failures the pod remembers: the earlier
// attempts may have been deleted.
func (c Config) afterFailure(pod *corev1.Pod, earlier []attempt, failed int) *Answer {
	if len(earlier) == 0 {
		if failed < c.Attempts {
			return nil
		}
		return c.failed(pod, fmt.Sprintf("%d Migrations of it have failed", failed))
	}
	last := earlier[len(earlier)-1]
	why := "it is " + string(last.Status.Phase)
	if f := meta.FindStatusCondition(last.Status.Conditions, v1alpha1.MigrationFinished); f != nil && f.Message != "" {
		why = f.Message
	}
	if max(len(earlier), failed) < c.Attempts && !forGood(last.Migration) {
		return nil
	}
	return c.failed(pod, fmt.Sprintf("Migration %s has ended: %s", last.Name, why))
}

// failed answers an eviction of a pod that could not be moved.
func (c Config) failed(pod *corev1.Pod, why string) *Answer {
	if c.AfterFailure == Keep {
		a := refuse(Failed, fmt.Sprintf("pod %s could not be moved, and evictions without a move are not allowed: %s", pod.Name, why))
		return &a
	}
	return &Answer{Outcome: Failed, Warning: fmt.Sprintf("pod %s is evicted since it could not be moved: %s", pod.Name, why)}
}

// forGood reports whether a migration was refused for a reason that a later one would
// find again.
func forGood(m *v1alpha1.Migration) bool {
	if m.Status.Phase != v1alpha1.MigrationRefused {
		return false
	}
	e := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.MigrationEligible)
	return e == nil || e.Reason != "AlreadyMoving"
}

// start lets a migration begin, if the budgets let the pod go.
func (c Config) start(o Observation, number int, now time.Time) Answer {
	pod := o.Pod
	var claims []*policyv1.PodDisruptionBudget
	if !budget.Ignores(pod) {
		budgets := budget.Of(o.Budgets, pod)
		if len(budgets) > 1 {
			return Answer{Outcome: Untouched} // no eviction may be: the API server says so
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
			PodName: pod.Name, PodUID: string(pod.UID), Method: v1alpha1.MethodCheckpoint, Deadline: metav1.Duration{Duration: c.Deadline},
		},
	}
	a := refuse(Started, fmt.Sprintf("%s: Migration %s moves pod %s to another node", Evacuation, m.Name, pod.Name))
	a.Claims, a.Migration = claims, m
	return a
}

// refuse is the answer on which whoever evicts tries again later.
func refuse(outcome Outcome, message string) Answer {
	return Answer{Outcome: outcome, Status: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: message,
	}}
}

// overBudget answers as the API server does.
func overBudget(claim budget.Answer) Answer {
	if claim.Forbidden {
		return Answer{Outcome: Untouched} // it says so itself
	}
	a := refuse(OverBudget, "Cannot evict pod as it would violate the pod's disruption budget.")
	a.Status.Details = &metav1.StatusDetails{
		Causes:            []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: claim.Refused}},
		RetryAfterSeconds: int32(claim.Wait / time.Second),
	}
	return a
}
