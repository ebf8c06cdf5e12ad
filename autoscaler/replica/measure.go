package replica

import (
	"context"
	"fmt"
	"sync"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// Source is a source of measurements.
type Source struct {
	name    string
	querier promql.Querier
	timeout time.Duration
	slots   chan struct{}
}

// queriesAtATime bounds the concurrent queries to one source.
const queriesAtATime = 64

// NewSource returns a source. A round of queries is cancelled after timeout, which includes the wait for other rounds.
func NewSource(name string, querier promql.Querier, timeout time.Duration) *Source {
	return &Source{name: name, querier: querier, timeout: timeout, slots: make(chan struct{}, queriesAtATime)}
}

// answer runs all queries concurrently, for time at. It returns within the timeout if the querier respects its context.
func (s *Source) answer(ctx context.Context, questions []replicadecide.Question, at time.Time) []replicadecide.Answer {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no response from source %s within %v", s.name, s.timeout))
	defer cancel()
	answers := make([]replicadecide.Answer, len(questions))
	var wg sync.WaitGroup
	for i, q := range questions {
		wg.Go(func() { answers[i] = s.one(ctx, q, at) })
	}
	wg.Wait()
	return answers
}

func (s *Source) one(ctx context.Context, q replicadecide.Question, at time.Time) replicadecide.Answer {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return replicadecide.Read(q.Measurement, at, nil, nil, context.Cause(ctx))
	}
	var found []promql.Sample
	var warnings []string
	var err error
	if w, ok := s.querier.(promql.Warner); ok {
		found, warnings, err = w.QueryWarned(ctx, q.PromQL, at)
	} else {
		found, err = s.querier.Query(ctx, q.PromQL, at)
	}
	if err != nil {
		metricQueryFaults.WithLabelValues(s.name).Inc()
	}
	samples := make([]replicadecide.Sample, len(found))
	for i := range found {
		samples[i] = replicadecide.Sample{Value: found[i].Value, At: found[i].At}
	}
	return replicadecide.Read(q.Measurement, at, samples, warnings, err)
}

// ask starts a round of queries for a policy. The policy is enqueued when the answers have arrived.
func (r *Reconciler) ask(t *tracked, s *Source, now time.Time) {
	round, ok := t.measured.begin(now)
	if !ok {
		return // a round is running
	}
	r.mu.Lock()
	ctx, wake := r.running, r.wake
	r.mu.Unlock()
	ctx, t.cancel = context.WithCancel(ctx)
	key, questions, cancel := t.key, t.sound.Questions, t.cancel
	go func() {
		defer cancel()
		began := r.Clock.Now()
		answers := s.answer(ctx, questions, now)
		metricQuerySeconds.WithLabelValues(s.name).Observe(r.Clock.Since(began).Seconds())
		if t.measured.end(round, answers) {
			wake(key)
		}
	}()
}
