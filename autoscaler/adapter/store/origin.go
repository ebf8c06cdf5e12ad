package store

import (
	"context"
	"fmt"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// Origin identifies the target of a series by the labels job and instance, which the scraper adds.
// Both are empty for series that were not scraped.
type Origin struct{ Job, Instance string }

// Origins returns the origins of the series that an expression reads. It considers series in
// memory, which had a sample within about the last hour, and reads no samples.
func (s *Store) Origins(ctx context.Context, expression string) (map[Origin]bool, error) {
	parsed, err := s.parser.ParseExpr(expression)
	if err != nil {
		return nil, fmt.Errorf("read query %q: %w", expression, err)
	}
	// Samples move to disk gradually, so the beginning of the head is early enough.
	since := max(s.db.Head().MinTime(), 0)
	q, err := s.db.Querier(since, farOff)
	if err != nil {
		return nil, fmt.Errorf("find what query %q reads: %w", expression, err)
	}
	defer func() { _ = q.Close() }() // read-only, so a failure to close loses nothing
	origins := map[Origin]bool{}
	for _, matchers := range parser.ExtractSelectors(parsed) {
		if err := gather(ctx, q, since, matchers, origins); err != nil {
			return nil, fmt.Errorf("find what query %q reads: %w", expression, err)
		}
	}
	return origins, nil
}

// gather adds the origins of the series that match.
func gather(ctx context.Context, q storage.Querier, since int64, matchers []*labels.Matcher, into map[Origin]bool) error {
	found := q.Select(ctx, false, &storage.SelectHints{Start: since, End: farOff, Func: "series"}, matchers...)
	for found.Next() {
		series := found.At().Labels()
		into[Origin{series.Get(model.JobLabel), series.Get(model.InstanceLabel)}] = true
	}
	return found.Err()
}
