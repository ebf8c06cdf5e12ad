package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/auditor"
	"supercargo.dev/supercargo/cli/dashboard/connection"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// leisure is the minimum pause after an audit, as a multiple of its duration: audits of a large cluster
// take long, and should not occupy a CPU.
const leisure = 9

// accountant audits a cluster periodically, and provides the prices of its nodes.
type accountant struct {
	link     *Link
	own      []catalogue.Price
	interval time.Duration

	mu     sync.Mutex
	audit  *status.Audit
	pricer *auditor.Pricer
}

// retryPrices is the minimum pause after prices could not be read, if there are no audits.
const retryPrices = 30 * time.Second

// run audits until ctx ends, and calls touch after each audit. If the interval is 0 or less it only reads
// prices, until it has read them.
func (a *accountant) run(ctx context.Context, touch func()) {
	for a.link.wait(ctx) == nil {
		start := time.Now()
		a.round(ctx, start)
		touch()
		if a.interval <= 0 && a.priced() {
			return
		}
		pause := a.interval
		if pause <= 0 {
			pause = retryPrices
		}
		timer := time.NewTimer(max(pause, leisure*time.Since(start)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// priced reports whether prices have been read.
func (a *accountant) priced() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pricer != nil
}

// round audits once. An error is shown with the figures of the last successful audit.
func (a *accountant) round(ctx context.Context, start time.Time) {
	read, err := objects.Live(ctx, a.link.client)
	if err == nil {
		a.mu.Lock()
		a.pricer = auditor.NewPricer(read, auditor.Pricing{Own: a.own})
		if a.interval <= 0 {
			a.audit = nil // the error of an earlier round
		}
		a.mu.Unlock()
		if a.interval <= 0 {
			return
		}
	}
	var found *status.Audit
	if err == nil {
		found, err = a.of(ctx, read, start)
	}
	if ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		found = &status.Audit{}
		if a.audit != nil {
			*found = *a.audit
		}
		found.Error = inWords(err)
	}
	a.audit = found
}

// inWords returns the text of an error, in plain words if there was no answer.
func inWords(err error) string {
	switch f := connection.Failed(err); f.Kind {
	case connection.Unanswering, connection.Untrusted, connection.NoCredentials:
		return "the API server " + f.Words
	}
	return err.Error()
}

func (a *accountant) of(ctx context.Context, read *objects.Objects, start time.Time) (*status.Audit, error) {
	in, err := auditor.Of(ctx, read, auditor.Options{Now: start, Pricing: auditor.Pricing{Own: a.own}})
	if err != nil {
		return nil, err
	}
	switch priced := slices.ContainsFunc(in.Nodes, func(n audit.Node) bool { return n.Unpriced == "" }); {
	case len(in.Nodes) == 0:
		return nil, errors.New("the cluster had no nodes")
	case !priced:
		return nil, errors.New("no node had a known price")
	}
	in.Stop = func() bool { return ctx.Err() != nil }
	r := audit.Audit(*in)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("audit: %w", ctx.Err())
	}
	return &status.Audit{At: start.Unix(), Took: time.Since(start).Seconds(), Result: &r, Sizes: sizes(in)}, nil
}

// sizes returns the CPU of the largest machine of each instance type that exists or is for sale.
func sizes(in *audit.Input) map[string]int64 {
	most := map[string]int64{}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		most[n.InstanceType] = max(most[n.InstanceType], n.Capacity.MilliCPU)
	}
	for i := range in.Flavors {
		f := &in.Flavors[i]
		most[f.InstanceType] = max(most[f.InstanceType], f.Size.MilliCPU)
	}
	return most
}

// last returns the last audit, and the prices of nodes; nil before the first.
func (a *accountant) last(nodes []*corev1.Node) (*status.Audit, map[string]status.Price) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pricer == nil {
		return a.audit, nil
	}
	prices := make(map[string]status.Price, len(nodes))
	for _, node := range nodes {
		price, unpriced := a.pricer.Price(node)
		prices[node.Name] = status.Price{MicroDollarsPerHour: price, Unpriced: unpriced}
	}
	return a.audit, prices
}
