package planfile

import (
	"cmp"
	"fmt"
	"slices"

	"supercargo.dev/supercargo/internal/cluster"
)

// mostAlternatives is the maximum number of alternatives. The flavors with the highest total price
// come first.
const mostAlternatives = 8

// Compare adds the next best plans to the document: for each bought flavor, a plan of the request
// without that flavor in any zone. It calls plan for each. An error of plan ends the comparison and
// is returned with the flavor.
func (d *Document) Compare(r *Request, plan func(*Request) (Outcome, error)) error {
	spent := slices.Clone(d.Machines)
	slices.SortStableFunc(spent, func(x, y Count) int {
		return cmp.Compare(float64(y.Count)*y.PricePerHour, float64(x.Count)*x.PricePerHour)
	})
	for _, c := range spent[:min(mostAlternatives, len(spent))] {
		o, err := plan(r.without(c.Flavor))
		if err != nil {
			return fmt.Errorf("plan without flavor %s: %w", c.Flavor, err)
		}
		other := NewDocument(d.Algorithm, r, o, 0)
		d.Alternatives = append(d.Alternatives, Alternative{
			Without: c.Flavor, PricePerHour: other.PricePerHour, Machines: other.Machines,
			Unplaceable: len(other.Unplaceable) - len(d.Unplaceable),
		})
	}
	return nil
}

// without returns the request without a flavor of the catalogue.
func (r *Request) without(flavor string) *Request {
	other := *r
	other.flavors = slices.DeleteFunc(slices.Clone(r.flavors), func(f cluster.Flavor) bool { return r.origin[f.Name].flavor.Name == flavor })
	return &other
}
