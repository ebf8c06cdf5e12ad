// Package disruption says which machines of a NodeFleet are replaced regardless of what that costs, and how many may be drained
// or released at the same time, for which reasons and at which times. Budgets are those of Karpenter's NodePools.
package disruption

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Reasons are all reasons for which a machine is drained or released.
var Reasons = []v1alpha1.FleetBudgetReason{
	v1alpha1.BudgetEmpty, v1alpha1.BudgetUnderUsed, v1alpha1.BudgetExchange, v1alpha1.BudgetUnhealthy, v1alpha1.BudgetExpired, v1alpha1.BudgetDrifted,
}

// Budget limits the number of machines that are drained or released at the same time.
type Budget struct {
	// Nodes is a number, or a percentage of the machines, rounded up. An invalid value allows none.
	Nodes intstr.IntOrString
	// Reasons are those for which the budget applies; empty for all.
	Reasons []v1alpha1.FleetBudgetReason
	// Schedule is when the budget begins to apply each time, for Duration; nil if it always applies.
	Schedule cron.Schedule
	Duration time.Duration
}

// Parse returns the budgets of a spec. One whose schedule is invalid applies at all times, because machines must not be
// drained when the user did not want it.
func Parse(spec []v1alpha1.FleetBudget) []Budget {
	all := make([]Budget, 0, len(spec))
	for i := range spec {
		b, _ := parse(&spec[i])
		all = append(all, b)
	}
	return all
}

func parse(spec *v1alpha1.FleetBudget) (Budget, error) {
	b := Budget{Nodes: intstr.Parse(spec.Nodes), Reasons: spec.Reasons}
	if spec.Schedule == nil || spec.Duration == nil {
		return b, nil
	}
	schedule, err := cron.ParseStandard(*spec.Schedule)
	if err == nil {
		b.Schedule, b.Duration = schedule, spec.Duration.Duration
	}
	return b, err
}

// Problems returns what is wrong with the budgets of a spec, and what to do about it: a schedule that is invalid or never
// comes, and a budget that never allows a machine to be drained or released.
func Problems(spec []v1alpha1.FleetBudget, now time.Time) (all []string) {
	for i := range spec {
		b, err := parse(&spec[i])
		field := fmt.Sprintf("spec.consolidation.budgets[%d]", i)
		switch {
		case err != nil:
			all = append(all, fmt.Sprintf("%s.schedule %q is invalid, so the budget applies at all times: %v", field, *spec[i].Schedule, err))
		case b.Schedule != nil && b.Schedule.Next(now.UTC()).IsZero():
			all = append(all, fmt.Sprintf("%s.schedule %q never comes, so the budget never applies", field, *spec[i].Schedule))
		case b.closed(now):
			all = append(all, fmt.Sprintf("%s allows no machine to be drained or released at any time%s: allow at least 1 node, or set a schedule that leaves some time free", field, b.forReasons()))
		}
	}
	return all
}

// occurrences is how many times of a schedule are examined: a year of days, or two weeks of hours.
const occurrences = 400

// closed reports whether the budget allows no machine at any time soon.
func (b *Budget) closed(now time.Time) bool {
	if most, err := intstr.GetScaledValueFromIntOrPercent(&b.Nodes, 100, true); err == nil && most > 0 {
		return false
	}
	if b.Schedule == nil {
		return true
	}
	begins := b.Schedule.Next(now.UTC().Add(-b.Duration))
	if begins.After(now.UTC()) {
		return false
	}
	for range occurrences {
		next := b.Schedule.Next(begins)
		if next.IsZero() || next.Sub(begins) > b.Duration {
			return false
		}
		begins = next
	}
	return true
}

// forReasons names the reasons of a budget; "" for all.
func (b *Budget) forReasons() string {
	if len(b.Reasons) == 0 {
		return ""
	}
	names := make([]string, 0, len(b.Reasons))
	for _, r := range b.Reasons {
		names = append(names, string(r))
	}
	return " for " + strings.Join(names, " and ")
}

// Applies reports whether the budget applies at a time: for less than Duration after each time of its schedule, in UTC.
func (b *Budget) Applies(now time.Time) bool {
	if b.Schedule == nil {
		return true
	}
	begins := b.Schedule.Next(now.UTC().Add(-b.Duration))
	return !begins.IsZero() && !begins.After(now.UTC())
}

// Allowance is how many machines may be drained or released at the same time.
type Allowance struct {
	Machines int
	// Why names the budget that allows no more.
	Why string
}

// Allowed returns what the budgets allow now for a reason, of so many machines in total: what the strictest of those that
// apply allows, of ties the first. Without one, it allows any number.
func Allowed(all []Budget, reason v1alpha1.FleetBudgetReason, machines int, now time.Time) Allowance {
	least := Allowance{Machines: math.MaxInt32}
	for i := range all {
		b := &all[i]
		if len(b.Reasons) > 0 && !slices.Contains(b.Reasons, reason) || !b.Applies(now) {
			continue
		}
		n, err := intstr.GetScaledValueFromIntOrPercent(&b.Nodes, machines, true)
		if err != nil {
			n = 0
		}
		if n < least.Machines {
			least = Allowance{n, fmt.Sprintf("spec.consolidation.budgets[%d] allows no more", i)}
		}
	}
	return least
}
