package migrationdecide

import (
	"fmt"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/budget"
)

// budgetPatience is the time between two tries to claim from a budget that refuses.
const budgetPatience = 5 * time.Second

// DependsOnBudgets reports whether decisions about a migration depend on the budgets of its
// namespace.
func DependsOnBudgets(o *Observation) bool {
	m := o.Migration
	return o.Source != nil && !Ended(m) && (DependsOnOthers(m) || Back(m) || m.Status.Order == v1alpha1.OrderFreeze && !HandingOver(m))
}

// claim claims the old pod, which is about to be frozen, from its budgets, as its eviction would.
// An eviction that became this migration has already claimed it. It returns the write of the next
// claim, or why a budget refuses; neither if everything is claimed.
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
			return &Step{Do: WriteBudget, Why: fmt.Sprintf("claim the disruption of the pod from PodDisruptionBudget %s", b.Name), Budget: answer.Write}, ""
		}
	}
	return nil, ""
}

// keepClaims returns the write that renews a claim of the frozen old pod, or when the next is
// due; zero if none is. A claim lapses after [budget.Lasts], and a frozen pod without a readiness
// probe still counts as ready.
func keepClaims(o Observation, now time.Time) (step *Step, next time.Time) {
	if o.Source == nil || budget.Ignores(o.Source) || !everFrozen(o.Migration) {
		return nil, time.Time{}
	}
	for _, b := range budget.Of(o.Budgets, o.Source) {
		write, due := budget.Keep(b, o.Source, now)
		if write != nil {
			return &Step{Do: WriteBudget, Why: fmt.Sprintf("the pod is still frozen: renew its claim on PodDisruptionBudget %s", b.Name), Budget: write}, time.Time{}
		}
		next = earlier(next, due)
	}
	return nil, next
}

// waitFrozen writes the status if it has changed. Otherwise it renews claims of the frozen old
// pod that are about to lapse, or waits.
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

// release returns the write that releases a claim of the old pod, which stays; nil if there is
// none. A pod that is being deleted keeps its claims.
func release(o Observation) *Step {
	if o.Source == nil || budget.Ignores(o.Source) {
		return nil
	}
	for _, b := range budget.Of(o.Budgets, o.Source) {
		if without := budget.Release(b, o.Source); without != nil {
			return &Step{Do: WriteBudget, Why: fmt.Sprintf("the pod stays: release its claim on PodDisruptionBudget %s", b.Name), Budget: without}
		}
	}
	return nil
}

// orRelease returns the step that releases a claim, or end if there is none.
func orRelease(o Observation, end Step) Step {
	if s := release(o); s != nil {
		return *s
	}
	return end
}
