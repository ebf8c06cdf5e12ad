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

// every is how often it is found out what policies ask for: series of a new target come
// without a sign. ease bounds what that costs: it is followed by a rest of so many times as
// long, and of retry at most. Where it cannot be found out, as where ReplicaPolicies are not
// installed, it is tried again after retry, since each time may cost the API server a request.
const (
	every = 2 * time.Second
	ease  = 20
	retry = time.Minute
	// patience is for how long a target is taken for slow that was.
	patience = 5 * time.Minute
)

// slow is how seldom a target was to be scraped by how long it took, and when.
type slow struct {
	floor time.Duration
	at    time.Time
}

// Pacer brings targets to the intervals at which policies look.
type Pacer struct {
	// Policies reads a cache that watches, so that nothing is asked of the API server.
	Policies client.Reader
	// Series are those of the store.
	Series Series
	// Took tells how long targets took to answer last, by what their series are known by.
	Took func() map[store.Origin]time.Duration
	// Sources are the names by which policies know the store, of those that the autoscaler was
	// told of.
	Sources []string
	Bounds  Bounds
	Clock   clock.WithTicker
	Log     logr.Logger

	known             map[types.UID]demand
	slow              map[store.Origin]slow
	slowest           atomic.Int64 // the longest interval of a target, in nanoseconds
	accelerated, left prometheus.Gauge
}

// Register adds the pacer's metrics.
func (p *Pacer) Register(r prometheus.Registerer) error {
	p.accelerated = prometheus.NewGauge(prometheus.GaugeOpts{Name: "supercargo_adapter_targets_accelerated", Help: "Targets that are scraped more often since ReplicaPolicies look more often."})
	p.left = prometheus.NewGauge(prometheus.GaugeOpts{Name: "supercargo_adapter_targets_not_accelerated", Help: "Targets that ReplicaPolicies look at more often than they are scraped, because there are too many."})
	for _, c := range []prometheus.Collector{p.accelerated, p.left} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// Run passes targets on with the intervals that policies bring them to: when they come, and when
// what policies ask for has changed, until ctx ends. Targets never wait for policies.
func (p *Pacer) Run(ctx context.Context, targets <-chan []target.Target, changes chan<- []target.Target) error {
	asks := make(chan Asked)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.watch(ctx, asks) })
	group.Go(func() error { return p.pass(ctx, targets, asks, changes) })
	return group.Wait()
}

// watch sends what policies ask for each time that it has changed.
func (p *Pacer) watch(ctx context.Context, asks chan<- Asked) error {
	var last Asked
	for {
		began, rest := p.Clock.Now(), every
		asked, err := p.Look(ctx, time.Duration(p.slowest.Load()))
		switch {
		case ctx.Err() != nil:
			return nil
		case meta.IsNoMatchError(err):
			rest = retry
		case err != nil: // what was asked for holds on
			p.Log.Error(err, "Not found out how often ReplicaPolicies look")
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

// pass applies what was asked for last to what targets there are.
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

// say tells what has become of targets.
func (p *Pacer) say(paced Paced, last *Paced) {
	if p.accelerated != nil {
		p.accelerated.Set(float64(paced.Accelerated))
		p.left.Set(float64(paced.Left))
	}
	if last != nil && last.Accelerated == paced.Accelerated && last.Left == paced.Left {
		return
	}
	if paced.Left > 0 {
		p.Log.Info("ReplicaPolicies look more often at more targets than may be scraped so often: raise --policy-target-limit", "left", paced.Left)
	}
	p.Log.V(2).Info("Targets are scraped as often as ReplicaPolicies look", "accelerated", paced.Accelerated)
}
