// Package nodequery reads the history of the nodes of a cluster from a server that answers
// PromQL: their capacity, what of it was available, until when batch pods keep them busy, and
// when they came and went. It queries the series that the metrics adapter writes, by their
// names in package history.
//
// This file queries; report.go defines the report.
package nodequery

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"supercargo.dev/supercargo/autoscaler/adapter/history"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// The limits of a query. maxSamples is the maximum number of sample times: times the number of
// nodes, it is the number of samples that a server reads. samplesAtOnce bounds what the server
// holds in memory for one query.
const (
	MostSpan      = 366 * 24 * time.Hour
	MinStep       = time.Second
	maxSamples    = 1500
	samplesAtOnce = 25
	usualSamples  = 300
)

// The queries, all by node and machine type. The maximum removes duplicates of two adapters
// that write the same series.
var (
	ready     = `max by (node, machine_type) (` + history.Ready + `{node!=""})`
	pods      = `max by (node, machine_type) (` + history.Pods + `{node!=""})`
	finish    = `max by (node, machine_type) (` + history.Finish + `{node!=""})`
	available = `max by (node, machine_type, resource) (` + series(history.Available) + `)`
	ofTypes   = `sum by (machine_type, resource) (` + available + `)`
	machines  = `count by (machine_type) (` + ready + `)`
	sampled   = `0 * ` + ready + ` + time()`

	// These are over a range of %d seconds.
	leastOver    = `max by (node, machine_type, resource) (min_over_time(` + series(history.Available) + `[%ds]))`
	capacityOver = `max by (node, machine_type, resource) (last_over_time(` + series(history.Capacity) + `[%ds]))`
)

func series(name string) string { return name + `{node!="", resource=~"cpu|memory"}` }

// Span is the time range of a query.
type Span struct {
	// From and To are its ends, and At is the time within it at which the state of nodes is
	// shown. All are whole seconds.
	From, To, At time.Time
	// Step is the time between sample times, in whole seconds. Means, comings and goings are
	// computed from the samples.
	Step time.Duration
}

// UsualStep returns a multiple of 30 s that gives at most 300 steps.
func UsualStep(from, to time.Time) time.Duration {
	const unit = 30 * time.Second
	return max(unit, (to.Sub(from)/usualSamples + unit - 1).Truncate(unit))
}

// Validate returns all errors in the span, including too many sample times for a server.
func (s Span) Validate() error {
	var errs input.Faults
	length := s.To.Sub(s.From)
	named := fmt.Sprintf("from %s to %s", s.From.Format(time.RFC3339), s.To.Format(time.RFC3339))
	errs.If(s.Step < MinStep || s.Step%time.Second != 0, "step %v: must be a whole number of seconds, at least 1s", s.Step)
	errs.If(length <= 0 || length > MostSpan, "%s: must be longer than 0 and at most %d days", named, int(MostSpan.Hours()/24))
	errs.If(length > 0 && s.Step > length, "step %v: must be at most the time %s", s.Step, named)
	errs.If(s.Step >= MinStep && length <= MostSpan && length/s.Step > maxSamples, "step %v: gives more than %d sample times %s: must be %v or more", s.Step, maxSamples, named,
		(length/maxSamples + time.Second - 1).Truncate(time.Second))
	errs.If(s.At.Before(s.From) || s.At.After(s.To), "at %s: must be within the time %s", s.At.Format(time.RFC3339), named)
	return errors.Join(errs...)
}

// sampleTimes returns the first and the last sample time: servers align subqueries to multiples of
// the step since 1970. A valid span has at least one sample time.
func (s Span) sampleTimes() (first, last time.Time) {
	step := int64(s.Step / time.Second)
	return time.Unix((s.From.Unix()+step-1)/step*step, 0).UTC(), time.Unix(s.To.Unix()/step*step, 0).UTC()
}

// Read queries the history of the nodes in a valid span. It ignores impossible values, such
// as NaN. Cost: seven queries, plus six for every 25 sample times. If the server has no
// history, the report has no nodes.
func Read(ctx context.Context, q promql.Querier, span Span) (*Report, error) {
	if err := span.Validate(); err != nil {
		return nil, fmt.Errorf("read the history of nodes: %w", err)
	}
	r := reader{ctx: ctx, querier: q, found: found{
		ready: values{}, pods: values{}, finish: values{}, available: values{}, least: values{}, capacity: values{},
		sums: values{}, first: values{}, last: values{}, samples: values{}, typeLeast: values{}, typeSamples: values{},
	}}
	seconds := int(span.To.Sub(span.From).Seconds())
	r.ask(r.ready, ready, span.At, replace)
	r.ask(r.pods, pods, span.At, replace)
	r.ask(r.finish, finish, span.At, replace)
	r.ask(r.available, available, span.At, replace)
	r.ask(r.capacity, fmt.Sprintf(capacityOver, seconds+int(carried.Seconds())), span.To, replace)
	r.ask(r.least, fmt.Sprintf(leastOver, seconds), span.To, math.Min)
	r.ask(r.least, available, span.From, math.Min) // values written earlier still hold at the beginning
	begin, last := span.sampleTimes()
	for ; !begin.After(last) && r.err == nil; begin = begin.Add(samplesAtOnce * span.Step) {
		end := begin.Add((samplesAtOnce - 1) * span.Step)
		if end.After(last) {
			end = last
		}
		r.slice(begin, end, span.Step)
	}
	if r.err != nil {
		return nil, fmt.Errorf("read the history of nodes: %w", r.err)
	}
	return r.report(span), nil
}

// carried is the default lookback of servers: how long a value remains valid that is not
// written again.
const carried = 5 * time.Minute

// key identifies a value; some parts are empty.
type key struct{ node, machineType, resource string }

type values map[key]float64

// found are the results of the queries. ready, pods, finish and available are for one time;
// sums are sums of the available amounts over the sample times; first and last are when a
// node was first and last seen, in seconds since 1970; looks is the number of samples of a
// node.
type found struct {
	ready, pods, finish, available values
	least, capacity                values
	sums, first, last, samples     values
	typeLeast, typeSamples         values
}

// reader queries until there is an error.
type reader struct {
	found
	ctx     context.Context // of one call of Read
	querier promql.Querier
	err     error
}

// slice queries the sample times between two times, inclusive.
func (r *reader) slice(from, to time.Time, step time.Duration) {
	over := func(into values, function, expression string, merge func(a, b float64) float64) {
		// Extend the range by one second, so that it includes the first sample time whether
		// or not the server's ranges are closed on the left.
		expression = fmt.Sprintf("%s((%s)[%ds:%ds])", function, expression, int(to.Sub(from).Seconds())+1, int(step.Seconds()))
		r.ask(into, expression, to, merge)
	}
	over(r.sums, "sum_over_time", available, add)
	over(r.first, "min_over_time", sampled, math.Min)
	over(r.last, "max_over_time", sampled, math.Max)
	over(r.samples, "count_over_time", ready, add)
	over(r.typeLeast, "min_over_time", ofTypes, math.Min)
	over(r.typeSamples, "count_over_time", machines, add)
}

// ask evaluates an expression and merges the result into values.
func (r *reader) ask(into values, expression string, at time.Time, merge func(a, b float64) float64) {
	if r.err != nil {
		return
	}
	samples, err := r.querier.Query(r.ctx, expression, at)
	if err != nil {
		r.err = err
		return
	}
	for _, s := range samples {
		if !(s.Value >= 0) || math.IsInf(s.Value, 0) {
			continue
		}
		k := key{s.Labels["node"], s.Labels["machine_type"], s.Labels["resource"]}
		if old, had := into[k]; had {
			s.Value = merge(old, s.Value)
		}
		into[k] = s.Value
	}
}

func replace(_, b float64) float64 { return b }
func add(a, b float64) float64     { return a + b }
