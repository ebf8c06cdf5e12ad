package outcome

import (
	"io"

	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// WriteJSON writes the report as one indented JSON document that ends with a newline. Nil lists and
// maps are written as empty, and map keys are sorted.
//
// JSON has neither NaN nor infinity. WriteJSON returns an error and writes nothing if a number is
// NaN, infinite, negative or above 1e18, or if the series have different lengths. The error names
// every such field.
func (r Report) WriteJSON(w io.Writer) error {
	if err := r.check(); err != nil {
		return err
	}
	return jsondoc.Write(w, r.filled())
}

// filled returns a copy of the report in which no list or map is nil, except optional ones.
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
