package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/discover"
	"supercargo.dev/supercargo/autoscaler/adapter/history/recorder"
	"supercargo.dev/supercargo/autoscaler/adapter/pace"
	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
	"supercargo.dev/supercargo/autoscaler/adapter/tasks"
	"supercargo.dev/supercargo/autoscaler/adapter/usage"
	"supercargo.dev/supercargo/internal/platform/promql"
	promquery "supercargo.dev/supercargo/internal/platform/promql/prometheus"
)

// measurements is the source of measured values: the embedded store or a Prometheus server.
type measurements struct {
	promql.Querier
	store   *store.Store // nil with a server
	scraper *store.Scraper
	fixed   []target.Target
	queues  []*tasks.Recorder
	// kubelets reports whether kubelets are scraped.
	kubelets bool
	// meters keeps the certificate authorities of node meters; nil if they are not scraped.
	meters *meterAuthorities
	close  func(logr.Logger)
}

// measure opens the source of measured values.
func measure(ctx context.Context, o Options, c *adapterv1alpha1.MetricsAdapterConfiguration, registry *prometheus.Registry) (*measurements, error) {
	if p := c.Prometheus; p != nil {
		client, err := promquery.New(promquery.Config{
			URL: p.URL, CAFile: p.CAFile, TokenFile: p.BearerTokenFile, Timeout: o.Store.Timeout, MaxBytes: promquery.DefaultMaxBytes,
		})
		if err != nil {
			return nil, err
		}
		return &measurements{Querier: client, close: func(logr.Logger) { client.Close() }}, nil
	}
	o.Store.Registerer, o.Store.Log = registry, o.Log
	s, err := store.Open(o.Store)
	if err != nil {
		return nil, err
	}
	m := &measurements{Querier: s, store: s, close: func(log logr.Logger) {
		if err := s.Close(); err != nil {
			log.Error(err, "Failed to close the store")
		}
	}}
	jobs, fixed := groups(c.Targets)
	m.fixed = fixed
	if job, ok := o.kubelets(); ok {
		jobs, m.kubelets = append(jobs, job), true
	}
	if m.meters, err = o.meters(); err != nil {
		m.close(o.Log)
		return nil, err
	}
	if m.meters != nil {
		jobs = append(jobs, m.meters.job(o.Meters))
	}
	o.Scrape.Registerer, o.Scrape.Log = registry, o.Log
	if m.scraper, err = s.NewScraper(o.Scrape, jobs); err != nil {
		m.close(o.Log)
		return nil, err
	}
	if m.queues, err = workQueues(c.WorkQueues, s, registry, clock.RealClock{}, o.Log); err != nil {
		m.close(o.Log)
		return nil, err
	}
	return m, nil
}

// kubelets returns the scrape job of kubelets; false if they are not scraped.
func (o *Options) kubelets() (target.Job, bool) {
	k := &o.Kubelets
	if !k.Scrape {
		return target.Job{}, false
	}
	token := cmp.Or(k.TokenFile, o.Config.BearerTokenFile)
	if token == "" {
		o.Log.Info("Kubelets are not scraped, because there is no token to authenticate with: set --kubelet-token to a file that contains one")
		return target.Job{}, false
	}
	job := target.Job{
		Name: target.KubeletsJob, HonorLabels: true, Only: target.KubeletSeries, BearerTokenFile: token,
		CAFile: cmp.Or(k.CAFile, o.Config.CAFile), InsecureSkipVerify: k.Insecure,
	}
	if k.Insecure {
		job.CAFile = ""
	}
	return job, true
}

// groups returns the scrape jobs and the targets of the configuration.
func groups(list []adapterv1alpha1.TargetGroup) ([]target.Job, []target.Target) {
	jobs := []target.Job{{Name: target.PodsJob}, {Name: target.ServicesJob}}
	var targets []target.Target
	for _, g := range list {
		jobs = append(jobs, target.Job{
			Name: g.Job, HonorLabels: g.HonorLabels, CAFile: g.CAFile, InsecureSkipVerify: g.InsecureSkipVerify, BearerTokenFile: g.BearerTokenFile,
		})
		for _, address := range g.Addresses {
			targets = append(targets, target.Target{
				Job: g.Job, Address: address, Path: g.Path, Scheme: g.Scheme, Interval: g.Interval.Duration, Labels: maps.Clone(g.Labels),
			})
		}
	}
	return jobs, targets
}

// usageInterval is how often metrics.k8s.io is queried. It updates about as often.
const usageInterval = 15 * time.Second

// run adds the goroutines that fill the store to the group.
func (m *measurements) run(ctx context.Context, group *errgroup.Group, o Options, c cluster.Cluster, registry *prometheus.Registry) error {
	if m.store == nil {
		return nil
	}
	longest := o.Store.Lookback / 2
	for _, t := range m.fixed {
		if t.Interval > longest {
			return fmt.Errorf("the interval %v of the targets of job %q must be at most half of --store-lookback, otherwise their series have gaps", t.Interval, t.Job)
		}
	}
	for _, r := range m.queues {
		if r.Interval > longest {
			return fmt.Errorf("the interval %v of Work Queue manager %q must be at most half of --store-lookback, otherwise its series have gaps", r.Interval, r.Manager)
		}
		group.Go(func() error { return r.Run(ctx) })
	}
	w := &discover.Watcher{
		Cache: c.GetCache(), Pods: o.ScrapePods, Services: o.ScrapeServices, Kubelets: m.kubelets, Fixed: m.fixed, Clock: clock.RealClock{}, Log: o.Log,
		Limits: target.Limits{Namespaces: slices.Clone(o.ScrapeNamespaces), Most: o.TargetLimit, MinInterval: store.MinInterval, MaxInterval: longest},
	}
	if m.meters != nil {
		w.Meters, w.MeterPort = o.Meters.Namespace, o.Meters.Port
		m.meters.live = c.GetAPIReader()
		group.Go(func() error { return m.meters.run(ctx) })
	}
	if err := w.Register(registry); err != nil {
		return err
	}
	found, err := m.pace(ctx, group, o, c, registry)
	if err != nil {
		return err
	}
	group.Go(func() error { return w.Run(ctx, found) })
	if o.History {
		const share = 5 // pod series, which are short-lived, get a fifth of the store
		r := &recorder.Recorder{Cache: c.GetCache(), Store: m.store, Repeat: longest, MostPods: o.Store.MaxSeries / share, Clock: clock.RealClock{}, Log: o.Log}
		group.Go(func() error { return r.Run(ctx) })
	}
	if o.Usage {
		r := &usage.Recorder{Metrics: c.GetAPIReader(), Pods: c.GetCache(), Store: m.store, Interval: usageInterval, Clock: clock.RealClock{}, Log: o.Log}
		group.Go(func() error { return r.Run(ctx) })
	}
	if o.QueryAddress != "0" {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.QueryAddress)
		if err != nil {
			return fmt.Errorf("listen for queries: %w", err)
		}
		group.Go(func() error { return servePlain(ctx, listener, m.store.Handler(time.Now)) })
	}
	return nil
}

// pace adds to the group the goroutines that scrape the targets sent to the returned channel,
// as often as policies need their metrics.
func (m *measurements) pace(ctx context.Context, group *errgroup.Group, o Options, c cluster.Cluster, registry *prometheus.Registry) (chan<- []target.Target, error) {
	found, changes := make(chan []target.Target), make(chan []target.Target)
	group.Go(func() error { return m.scraper.Run(ctx, changes) })
	if o.PolicyTargetLimit == 0 {
		return changes, nil
	}
	p := &pace.Pacer{
		Policies: c.GetCache(), Series: m.store, Took: m.scraper.Took, Sources: o.PolicySources, Clock: clock.RealClock{}, Log: o.Log,
		Bounds: pace.Bounds{Usual: o.Scrape.Interval, Least: store.MinInterval, Most: o.PolicyTargetLimit},
	}
	if err := p.Register(registry); err != nil {
		return nil, err
	}
	group.Go(func() error { return p.Run(ctx, found, changes) })
	return found, nil
}

// servePlain serves HTTP until ctx ends.
func servePlain(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // cuts off current queries too
	defer stop()
	if err := server.Serve(listener); ctx.Err() == nil {
		return fmt.Errorf("serve queries: %w", err)
	}
	return nil
}
