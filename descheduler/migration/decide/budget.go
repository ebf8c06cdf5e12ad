package decide

import (
	"fmt"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/budget"
)

// budgetPatience is when a budget that let no pod go is looked at again.
const budgetPatience = 5 * time.Second

// overBudget is the reason of the condition Reserved while a budget lets no pod go.
const overBudget = "OverBudget"

// LooksAtBudgets reports whether what is decided about a migration depends on the budgets
// of its namespace.
func LooksAtBudgets(o *Observation) bool {
	m := o.Migration
	return o.Source != nil && !Ended(m) && (LooksAtOthers(m) || Back(m) || m.Status.Order == v1alpha1.OrderFreeze && !HandingOver(m))
}

// claim sees that the old pod, which is about to be frozen, has been claimed from its
// budgets, as the eviction of it would be. An eviction that became this migration has
// claimed it already. It returns the write of the next claim, or why there is none; both
// are nothing if all has been claimed.
func claim(o Observation, now time.Time) (*Step, string) {
	if o.Source == nil || budget.Ignores(o.Source) {
		return nil, ""
	}
	for _, b := range budget.Of(o.Budgets, o.Source) {
		answer := budget.Claim(b, o.Source, now)
		switch {
		case answer.Refused != "":
			return nil, answer.Refused
		case answer.Write != nil:
			return &Step{Do: WriteBudget, Why: fmt.Sprintf("claims the pod from PodDisruptionBudget %s", b.Name), Budget: answer.Write}, ""
		}
	}
	return nil, ""
}

// keepClaims returns the write that keeps a claim of the old pod, which is frozen, and
// otherwise when the next is due; zero if none is. A claim on a budget lapses by itself
// after [budget.Lasts], and a frozen pod without a readiness probe still counts as ready.
func keepClaims(o Observation, now time.Time) (step *Step, next time.Time) {
	if o.Source == nil || budget.Ignores(o.Source) || !everFrozen(o.Migration) {
		return nil, time.Time{}
	}
	for _, b := range budget.Of(o.Budgets, o.Source) {
		write, due := budget.Keep(b, o.Source, now)
		if write != nil {
			return &Step{Do: WriteBudget, Why: fmt.Sprintf("the pod is still frozen: renews its claim on PodDisruptionBudget %s", b.Name), Budget: write}, time.Time{}
		}
		next = earlier(next, due)
	}
	return nil, next
}

// waitFrozen writes the status if there is something new in it; else it renews the claims
// of the old pod, which is frozen, if they are about to lapse, and else waits.
func waitFrozen(o Observation, s *status, why string, until, now time.Time) Step {
	step := s.writeOr(o.Migration, why, until)
	if step.Do != Wait {
		return step
	}
	renew, next := keepClaims(o, now)
	if renew != nil {
		return *renew
	}
	return wait(why, earlier(until, next))
}

// release returns the write that gives a claim of the old pod back, which stays where it
// is; nil if there is none. A pod that somebody deletes keeps its claims.
func release(o Observation) *Step {
	if o.Source == nil || budget.Ignores(o.Source) {
		return nil
	}
	for _, b := range budget.Of(o.Budgets, o.Source) {
		if without := budget.Release(b, o.Source); without != nil {
			return &Step{Do: WriteBudget, Why: fmt.Sprintf("the pod stays: returns its claim to PodDisruptionBudget %s", b.Name), Budget: without}
		}
	}
	return nil
}

// orRelease returns the step that gives a claim back, or the one that ends the migration
// if there is no claim.
func orRelease(o Observation, end Step) Step {
	if s := release(o); s != nil {
		return *s
	}
	return end
}
