package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/lab/planfile"
)

// mostExplained is for how many flavors --explain plans again, those first on which a plan
// spends the most.
const mostExplained = 8

// explainPlan says what the plan would cost next best: it plans again without each flavor
// that the plan buys, in all zones. A limit holds for each of these plans by itself.
func explainPlan(ctx context.Context, a planAlgorithm, r *planRequest, d *planfile.Document, limit time.Duration) error {
	spent := slices.Clone(d.Machines)
	slices.SortStableFunc(spent, func(x, y planfile.Count) int {
		return cmp.Compare(float64(y.Count)*y.PricePerHour, float64(x.Count)*x.PricePerHour)
	})
	for _, c := range spent[:min(mostExplained, len(spent))] {
		o, err := a.within(ctx, r.without(c.Flavor), limit)
		if err != nil {
			return fmt.Errorf("plan without flavor %s: %w", c.Flavor, err)
		}
		other := newPlanDocument(a.name, r, o, 0)
		d.Alternatives = append(d.Alternatives, planfile.Alternative{
			Without: c.Flavor, PricePerHour: other.PricePerHour, Machines: other.Machines,
			Unplaceable: len(other.Unplaceable) - len(d.Unplaceable),
		})
	}
	return nil
}

// without returns the request without a flavor of the catalogue.
func (r *planRequest) without(flavor string) *planRequest {
	other := *r
	other.flavors = slices.DeleteFunc(slices.Clone(r.flavors), func(f planner.Flavor) bool { return r.origin[f.Name].flavor.Name == flavor })
	return &other
}

// tabulateAlternatives prints what plans without a flavor cost, and what they buy more of.
func tabulateAlternatives(w io.Writer, d planfile.Document) error {
	if len(d.Alternatives) == 0 {
		return nil
	}
	bought := map[string]int{}
	for _, m := range d.Machines {
		bought[m.Flavor] = m.Count
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nWITHOUT\t$/H\tMORE\tBUYS INSTEAD\n")
	for _, a := range d.Alternatives {
		more := "nothing"
		if d.PricePerHour > 0 {
			more = fmt.Sprintf("%+.2f %%", 100*(a.PricePerHour/d.PricePerHour-1))
		}
		if a.Unplaceable > 0 {
			more = fmt.Sprintf("pods left out: %d", a.Unplaceable)
		}
		fmt.Fprintf(t, "%s\t%.4f\t%s\t%s\n", a.Without, a.PricePerHour, more, instead(a, bought))
	}
	return t.Flush()
}

// instead names the flavors of which an alternative buys more, those of which it buys the
// most first.
func instead(a planfile.Alternative, bought map[string]int) string {
	const most = 3
	type extra struct {
		flavor string
		more   int
	}
	var extras []extra
	for _, m := range a.Machines {
		if more := m.Count - bought[m.Flavor]; more > 0 {
			extras = append(extras, extra{m.Flavor, more})
		}
	}
	slices.SortStableFunc(extras, func(x, y extra) int { return cmp.Compare(y.more, x.more) })
	var names []string
	for _, e := range extras[:min(most, len(extras))] {
		names = append(names, fmt.Sprintf("%d %s", e.more, e.flavor))
	}
	if left := len(extras) - most; left > 0 {
		names = append(names, fmt.Sprintf("%d other flavors", left))
	}
	return strings.Join(names, ", ")
}
