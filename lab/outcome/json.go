package outcome

import (
	"io"

	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// WriteJSON writes the report as one indented JSON document that ends in a
// newline. Lists and maps that are nil are written as empty ones, and keys of maps
// are sorted.
//
// JSON knows neither NaN nor infinity. A report that holds one, or a negative
// number, or one above 1e18, is refused, as is one whose series have different
// lengths; the error names every such field, and nothing is written.
func (r Report) WriteJSON(w io.Writer) error {
	if err := r.check(); err != nil {
		return err
	}
	return jsondoc.Write(w, r.filled())
}

// filled returns a copy of the report in which no list and no map but the optional
// ones is nil.
func (r Report) filled() Report {
	policies := make([]Policy, len(r.Policies))
	for i, p := range r.Policies {
		if p.Events == nil {
			p.Events = map[string]int64{}
		}
		s := &p.Series
		s.CostDollars, s.CPU, s.Memory = jsondoc.List(s.CostDollars), jsondoc.List(s.CPU), jsondoc.List(s.Memory)
		s.Machines, s.Pending, s.Moves = jsondoc.List(s.Machines), jsondoc.List(s.Pending), jsondoc.List(s.Moves)
		policies[i] = p
	}
	r.Policies = policies
	return r
}
