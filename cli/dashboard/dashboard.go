package dashboard

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/platform/operator"
)

// The limits of how often the page is updated.
const (
	// soonest is the minimum time between two updates.
	soonest = 250 * time.Millisecond
	// latest is the time after which the page is updated without changes, because time bins depend on
	// the time.
	latest = 5 * time.Second
	// share is the minimum pause after an update, as a multiple of its duration: large clusters are
	// updated less often.
	share = 4
)

// Kinds returns a scheme with all kinds that the dashboard reads.
func Kinds() (*runtime.Scheme, error) {
	scheme, err := operator.Kinds()
	if err != nil {
		return nil, err
	}
	if err := metricsv1beta1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the API types: %w", err)
	}
	return scheme, nil
}

// Options configure the dashboard.
type Options struct {
	// Client is a client for the cluster with the scheme [Kinds]. The dashboard only reads and watches.
	Client client.WithWatch
	// Prices are the user's own prices, by instance type. They take precedence over list prices.
	Prices []catalogue.Price
	// AuditInterval is the time between audits; 0 disables them.
	AuditInterval time.Duration
	// Cycle is the width of a time bin.
	Cycle time.Duration
	// Show receives the items of the page each time that it may have changed.
	Show func([]status.Item)
}

// Run watches the cluster until ctx ends, and shows its state. It returns an error if nodes or pods may
// not be read.
//
// It does not wait for requests in progress: discovery at an API server that does not respond continues
// for half a minute after ctx ends.
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
	var seen []status.Decision
	for {
		start := time.Now()
		snapshot := from.snapshot()
		snapshot.Audit, snapshot.Prices = books.last(snapshot.Nodes)
		snapshot.Cycle, snapshot.Decisions = o.Cycle, seen
		page := status.Of(snapshot, start)
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

// next returns true when it is time for an update, or false when ctx has ended.
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
