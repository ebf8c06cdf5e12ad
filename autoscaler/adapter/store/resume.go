package store

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// settle ends the series of an earlier store that would count as current at the time now. A series
// that is still measured continues with its next sample; the marker does not affect a rate over the
// gap.
func settle(db *tsdb.DB, now time.Time, lookback time.Duration) error {
	ctx := context.Background()
	ends, err := openEnds(ctx, db, now.Add(-lookback).UnixMilli())
	if err != nil {
		return fmt.Errorf("read the last samples of an earlier run: %w", err)
	}
	appender := db.AppenderV2(ctx)
	for _, e := range ends {
		if _, err := appender.Append(0, e.series, 0, e.last+1, math.Float64frombits(value.StaleNaN), nil, nil, storage.AOptions{}); err != nil {
			_ = appender.Rollback()
			return fmt.Errorf("end series %s: %w", e.series, err)
		}
	}
	if err := appender.Commit(); err != nil {
		return fmt.Errorf("end the series of an earlier run: %w", err)
	}
	return nil
}

// openEnd is a series and the time of its last sample, in milliseconds.
type openEnd struct {
	series labels.Labels
	last   int64
}

// openEnds returns the series that have samples since a time and no staleness marker at the end.
func openEnds(ctx context.Context, db *tsdb.DB, since int64) ([]openEnd, error) {
	q, err := db.Querier(since, farOff)
	if err != nil {
		return nil, err
	}
	defer func() { _ = q.Close() }() // read-only, so a failure to close loses nothing
	var ends []openEnd
	var it chunkenc.Iterator
	found := q.Select(ctx, false, nil, everything())
	for found.Next() {
		series := found.At()
		it = series.Iterator(it)
		last, current := int64(0), false
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			current = true
			last = it.AtT()
			if kind == chunkenc.ValFloat {
				_, v := it.At()
				current = !value.IsStaleNaN(v)
			}
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
		if current {
			ends = append(ends, openEnd{series.Labels(), last})
		}
	}
	return ends, found.Err()
}
