package pace

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
	"supercargo.dev/supercargo/internal/platform/poll"
)

// every is the interval at which demand is computed; it is polled, because no event reports
// the series of a new target. ease limits the share of CPU time: the pause is at least ease
// times the duration of the computation, but at most retry. After an error, such as when
// ReplicaPolicies are not installed, the pause is retry, because each attempt may cost an API
// request.
const (
	every = 2 * time.Second
	ease  = 20
	retry = time.Minute
	// patience is how long a target counts as slow after it last was.
	patience = 5 * time.Minute
)

// slow is the shortest interval of a slow target, and when it was last measured.
type slow struct {
	floor time.Duration
	at    time.Time
}

// Pacer sets the intervals of targets to those that policies need.
type Pacer struct {
	// Policies reads from a cache that watches, so that reads cost no API requests.
	Policies client.Reader
	// Series finds origins in the store.
	Series Series
	// Took returns the latest response times of targets, by origin.
	Took func() map[store.Origin]time.Duration
	// Sources are the names of the store in ReplicaPolicies, as configured in the autoscaler.
	Sources []string
	Bounds  Bounds
	Clock   clock.WithTicker
	Log     logr.Logger

	known             map[types.UID]demand
	slow              map[store.Origin]slow
	slowest           atomic.Int64 // the longest interval of a target, in nanoseconds
	accelerated, left prometheus.Gauge
}

// Register registers the pacer's metrics.
func (p *Pacer) Register(r prometheus.Registerer) error {
	p.accelerated = prometheus.NewGauge(prometheus.GaugeOpts{Name: "supercargo_adapter_targets_accelerated", Help: "Targets that are scraped more often because ReplicaPolicies sample their metrics more often."})
	p.left = prometheus.NewGauge(prometheus.GaugeOpts{Name: "supercargo_adapter_targets_not_accelerated", Help: "Targets that ReplicaPolicies sample more often than they are scraped, because they exceed the limit."})
	for _, c := range []prometheus.Collector{p.accelerated, p.left} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// Run forwards targets with the intervals that policies need, each time the targets or the
// demand change, until ctx ends. Targets never wait for policies.
func (p *Pacer) Run(ctx context.Context, targets <-chan []target.Target, changes chan<- []target.Target) error {
	asks := make(chan Asked)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.watch(ctx, asks) })
	group.Go(func() error { return p.pass(ctx, targets, asks, changes) })
	return group.Wait()
}

// watch sends the demand each time it changes.
func (p *Pacer) watch(ctx context.Context, asks chan<- Asked) error {
	var last Asked
	for {
		began, rest := p.Clock.Now(), every
		asked, err := p.Read(ctx, time.Duration(p.slowest.Load()))
		switch {
		case ctx.Err() != nil:
			return nil
		case meta.IsNoMatchError(err):
			rest = retry
		case err != nil: // keep the previous demand
			p.Log.Error(err, "Failed to determine how often ReplicaPolicies sample their metrics")
			rest = retry
		case !maps.Equal(asked.Every, last.Every) || !maps.Equal(asked.Floor, last.Floor):
			select {
			case asks <- asked:
			case <-ctx.Done():
				return nil
			}
			last = asked
		}
		if !poll.Wait(ctx, p.Clock, min(max(rest, ease*p.Clock.Since(began)), retry), nil) {
			return nil
		}
	}
}

// pass applies the latest demand to the latest targets.
func (p *Pacer) pass(ctx context.Context, targets <-chan []target.Target, asks <-chan Asked, changes chan<- []target.Target) error {
	var current []target.Target
	var asked Asked
	var last *Paced
	for {
		select {
		case <-ctx.Done():
			return nil
		case current = <-targets:
			p.slowest.Store(int64(longest(current, p.Bounds.Usual)))
		case asked = <-asks:
		}
		paced := Apply(current, asked, p.Bounds)
		if last != nil && reflect.DeepEqual(*last, paced) {
			continue
		}
		p.say(paced, last)
		last = &paced
		select {
		case changes <- paced.Targets:
		case <-ctx.Done():
			return nil
		}
	}
}

// say records metrics and logs for the intervals.
func (p *Pacer) say(paced Paced, last *Paced) {
	if p.accelerated != nil {
		p.accelerated.Set(float64(paced.Accelerated))
		p.left.Set(float64(paced.Left))
	}
	if last != nil && last.Accelerated == paced.Accelerated && last.Left == paced.Left {
		return
	}
	if paced.Left > 0 {
		p.Log.Info("Some targets are scraped less often than ReplicaPolicies sample them: raise --policy-target-limit", "left", paced.Left)
	}
	p.Log.V(2).Info("Targets are scraped as often as ReplicaPolicies sample them", "accelerated", paced.Accelerated)
}
