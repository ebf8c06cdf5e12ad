package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"supercargo.dev/supercargo/cli/dashboard/connection"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/platform/kinds"
)

// The limits of how often the page is updated.
const (
	// soonest is the minimum time between two updates.
	soonest = 250 * time.Millisecond
	// probePeriod is the maximum time between two evaluations of the state of the connection.
	probePeriod = time.Second
	// latest is the time after which the page is updated without changes, because time bins depend on
	// the time.
	latest = 5 * time.Second
	// share is the minimum pause after an update, as a multiple of its duration: large clusters are
	// updated less often.
	share = 4
)

// Kinds returns a scheme with all kinds that the dashboard reads.
func Kinds() (*runtime.Scheme, error) {
	scheme, err := kinds.Scheme()
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
	// Link is the connection to the cluster. The dashboard only reads and watches.
	Link *Link
	// Prices are the user's own prices, by instance type. They take precedence over list prices.
	Prices []catalogue.Price
	// AuditInterval is the time between audits; 0 or less disables them, and prices are read
	// only until they have been read once.
	AuditInterval time.Duration
	// Cycle is the width of a time bin.
	Cycle time.Duration
	// Show receives the items of the page each time that it may have changed.
	Show func([]status.Item)
	// Report, if not nil, receives each state of the connection once, without the address of anything but the API server.
	Report func(connection.Status)
}

// Run watches the cluster until ctx ends, and shows its state, and that of the connection. While the API server cannot
// be reached, it shows that, and continues. It returns an error if nodes or pods may not be read when it starts.
//
// It does not wait for requests in progress: discovery at an API server that does not respond continues
// for half a minute after ctx ends.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := newSource(o.Link)
	b := &board{Options: o, from: from, books: &accountant{link: o.Link, own: o.Prices, interval: o.AuditInterval}}
	go o.Link.watch(ctx)
	defer b.end()
	from.start(ctx)
	go b.books.run(ctx, from.touch)
	for changed := true; ; {
		if err := b.update(time.Now(), changed); err != nil {
			return err
		}
		var more bool
		if changed, more = from.next(ctx, b.pause); !more {
			return nil
		}
	}
}

// board is what the page shows.
type board struct {
	Options
	from  *source
	books *accountant

	page       []status.Item
	computed   time.Time // when page was
	due        bool      // page does not have all changes
	decisions  []status.Decision
	pause      time.Duration // until the next update
	connection connection.Status
	shown      bool // connection was shown
}

// update shows what has changed, of the cluster or of the connection.
func (b *board) update(now time.Time, changed bool) error {
	says := b.from.status(now)
	b.due, b.pause = b.due || changed, soonest
	read := b.from.read()
	if err := b.from.refused(); err != nil && !read {
		return fmt.Errorf("read the cluster: %w", err)
	}
	// Time bins depend on the time. Those of figures that are not current are as they were.
	due := b.due || says.State == connection.Live && now.Sub(b.computed) >= latest
	again := read && due && (says.State != connection.Unreachable || b.page == nil)
	if again {
		if err := b.compute(now); err != nil {
			return err
		}
		b.pause = max(soonest, share*time.Since(now))
	}
	same := b.shown && reflect.DeepEqual(says, b.connection)
	if same && !again {
		return nil
	}
	text, err := json.Marshal(says)
	if err != nil {
		return fmt.Errorf("encode the state of the connection: %w", err)
	}
	b.Show(append(slices.Clip(b.page), status.Item{Section: connectionSection, JSON: text}))
	if !same && b.Report != nil {
		b.Report(says)
	}
	b.connection, b.shown = says, true
	return nil
}

// end says that the figures are no longer updated, to pages that stay open: those of another cluster may follow.
func (b *board) end() {
	text, err := json.Marshal(connection.Ended(b.from.link.observe(time.Now()).Answered))
	if err == nil {
		b.Show(append(slices.Clip(b.page), status.Item{Section: connectionSection, JSON: text}))
	}
}

// connectionSection is the section of the page that says whether the other ones are current.
const connectionSection = "connection"

// compute computes the page about the cluster.
func (b *board) compute(now time.Time) error {
	b.due, b.computed = false, now
	snapshot := b.from.snapshot()
	snapshot.Audit, snapshot.Prices = b.books.last(snapshot.Nodes)
	snapshot.Cycle, snapshot.Decisions, snapshot.NoAudits = b.Cycle, b.decisions, b.AuditInterval <= 0
	page := status.Of(snapshot, now)
	b.decisions = page.Decisions
	var err error
	b.page, err = page.Items()
	return err
}

// next waits until it is time for an update. It reports whether the cluster has changed, and whether ctx continues.
func (s *source) next(ctx context.Context, atLeast time.Duration) (changed, more bool) {
	pause, longest := time.NewTimer(atLeast), time.NewTimer(max(probePeriod, atLeast))
	defer pause.Stop()
	defer longest.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return false, false
	}
	select {
	case <-s.changed:
		return true, true
	case <-longest.C:
		return false, true
	case <-ctx.Done():
		return false, false
	}
}
