package store

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// errSeriesLimit is the error for a new series beyond the limit. A scrape with such a series fails
// as a whole: a part of a target's series could be mistaken for all of them.
var errSeriesLimit = errors.New("the store has reached its maximum number of series: raise --store-max-series, or scrape fewer targets")

// seriesLimit limits the number of series in memory.
type seriesLimit struct {
	max     int
	head    atomic.Pointer[tsdb.Head] // nil while the head is read from disk
	refused prometheus.Counter
}

func newSeriesLimit(most int, reg prometheus.Registerer) *seriesLimit {
	metrics := promauto.With(reg)
	metrics.NewGauge(prometheus.GaugeOpts{
		Name: "supercargo_store_max_series", Help: "Limit of series in the memory of the embedded store.",
	}).Set(float64(most))
	return &seriesLimit{max: most, refused: metrics.NewCounter(prometheus.CounterOpts{
		Name: "supercargo_store_series_refused_total", Help: "Samples that the embedded store rejected because their series would exceed the limit.",
	})}
}

// enforce starts to enforce the limit. Series read from disk are accepted regardless: otherwise the
// store could not be opened after the limit was lowered.
func (l *seriesLimit) enforce(head *tsdb.Head) { l.head.Store(head) }

// PreCreation implements [tsdb.SeriesLifecycleCallback]. Concurrent calls may all pass: they exceed
// the limit by at most the number of concurrent scrapes.
func (l *seriesLimit) PreCreation(labels.Labels) error {
	if head := l.head.Load(); head != nil && head.NumSeries() >= uint64(l.max) {
		l.refused.Inc()
		return errSeriesLimit
	}
	return nil
}

// PostCreation implements [tsdb.SeriesLifecycleCallback].
func (l *seriesLimit) PostCreation(labels.Labels) {}

// PostDeletion implements [tsdb.SeriesLifecycleCallback].
func (l *seriesLimit) PostDeletion(map[chunks.HeadSeriesRef]labels.Labels) {}
