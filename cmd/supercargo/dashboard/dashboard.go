package dashboard

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/cmd/supercargo/dashboard/view"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/platform/operator"
)

// How often the page is put together.
const (
	// soonest is the least time between two looks at what has changed.
	soonest = 250 * time.Millisecond
	// latest is the most, since time bins change when nothing else does.
	latest = 5 * time.Second
	// share is how many times as long as a look takes nothing is looked at afterwards: large clusters
	// are shown less often.
	share = 4
)

// Kinds returns a scheme with all kinds that are read.
func Kinds() (*runtime.Scheme, error) {
	scheme, err := operator.Kinds()
	if err != nil {
		return nil, err
	}
	if err := metricsv1beta1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	return scheme, nil
}

// Options say what is shown.
type Options struct {
	// Client reaches the cluster, and knows the [Kinds]. It reads and watches, and never writes.
	Client client.WithWatch
	// Prices are the user's own, by instance type. They go before list prices.
	Prices []catalogue.Flavor
	// AuditInterval is how often it is worked out what the pods could cost; 0 is never.
	AuditInterval time.Duration
	// Cycle is the width of a time bin.
	Cycle time.Duration
	// Show is given the page whenever it may have changed, in parts.
	Show func([]view.Item)
}

// Run watches the cluster until ctx ends, and shows what it sees. It returns an error if nodes or pods
// may not be read.
//
// What is being read then is left to itself: an API server that does not answer is asked which kinds it
// has for half a minute, whatever becomes of ctx.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := newSource(o.Client)
	books := &accountant{client: o.Client, own: o.Prices, interval: o.AuditInterval}
	from.start(ctx)
	if err := from.ready(ctx); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("read the cluster: %w", err)
	}
	go books.run(ctx, from.touch)
	var seen []view.Decision
	for {
		start := time.Now()
		snapshot := from.snapshot()
		snapshot.Audit, snapshot.Prices = books.last(snapshot.Nodes)
		snapshot.Cycle, snapshot.Decisions = o.Cycle, seen
		page := view.Of(snapshot, start)
		seen = page.Decisions
		items, err := page.Items()
		if err != nil {
			return err
		}
		o.Show(items)
		if !from.next(ctx, max(soonest, share*time.Since(start))) {
			return nil
		}
	}
}

// next returns when it is time to look again, or false when ctx has ended.
func (s *source) next(ctx context.Context, atLeast time.Duration) bool {
	pause, longest := time.NewTimer(atLeast), time.NewTimer(max(latest, atLeast))
	defer pause.Stop()
	defer longest.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return false
	}
	select {
	case <-s.changed:
	case <-longest.C:
	case <-ctx.Done():
		return false
	}
	return true
}
