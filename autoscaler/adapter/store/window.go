package store

import (
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// short returns a warning about a query at a time whose ranges begin before the store had a sample of every target; empty
// if there is none. A rate over a range that has samples only at its end is too low: after a third of a minute, a rate over
// a minute is about a sixth of what it should be, and nothing in the result shows that. Samples of an earlier run do not
// count, because the targets were not scraped in between.
func (s *Store) short(expression string, at time.Time) string {
	parsed, err := s.parser.ParseExpr(expression)
	if err != nil {
		return "" // the query reports it
	}
	first := s.opened.Add(s.lookback / 2) // no target is scraped less often
	back := reach(parsed)
	if back == 0 || !at.Add(-back).Before(first) {
		return ""
	}
	return fmt.Sprintf("the store has samples of all targets since %s, and the query reads those of the %v before: rates are too low until then", first.UTC().Format(time.RFC3339), back)
}

// reach returns how far before the time of a query its ranges begin; 0 if it has none.
func reach(e parser.Expr) (most time.Duration) {
	parser.Inspect(e, func(node parser.Node, path []parser.Node) error {
		m, ok := node.(*parser.MatrixSelector)
		if !ok {
			return nil
		}
		back := m.Range
		if v, ok := m.VectorSelector.(*parser.VectorSelector); ok {
			back += max(0, v.OriginalOffset)
		}
		for _, outer := range path {
			if sub, ok := outer.(*parser.SubqueryExpr); ok {
				back += sub.Range + max(0, sub.OriginalOffset)
			}
		}
		most = max(most, back)
		return nil
	})
	return most
}
