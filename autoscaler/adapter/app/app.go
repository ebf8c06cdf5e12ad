package app

import (
	"context"
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/preset"
)

// Run runs the metrics adapter until ctx ends or an error occurs that a restart may fix.
//
// It returns an error if another server already serves one of its APIs.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	configuration, err := load(o.Configuration)
	if err != nil {
		return err
	}
	c, err := reach(o)
	if err != nil {
		return err
	}
	r := registration{client: c.GetClient(), live: c.GetAPIReader(), groups: o.groups(), log: o.Log, clock: clock.RealClock{}}
	if r.service, err = o.service(); err != nil {
		return err
	}
	if err := r.check(ctx); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // also stops what was started if a later step fails
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.Start(ctx) })
	if !c.GetCache().WaitForCacheSync(ctx) {
		return group.Wait()
	}
	m, err := measure(ctx, o, configuration, registry)
	if err != nil {
		return err
	}
	defer m.close(o.Log)
	s, err := newServer(ctx, o, configuration, m, c, registry)
	if err != nil {
		return err
	}
	r.certificate = s.certificate
	group.Go(func() error { return r.keep(ctx) })
	if err := m.run(ctx, group, o, c, registry); err != nil {
		return err
	}
	group.Go(func() error { return s.run(ctx) })
	return group.Wait()
}

// load reads the configuration file, if any, and expands its presets into metrics.
func load(file string) (*adapterv1alpha1.MetricsAdapterConfiguration, error) {
	if file == "" {
		return &adapterv1alpha1.MetricsAdapterConfiguration{}, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	c, err := adapterv1alpha1.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if c, err = preset.Serve(c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}
