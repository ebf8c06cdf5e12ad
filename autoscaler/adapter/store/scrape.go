package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/alecthomas/units"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/scrape"

	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
)

// MinInterval is the shortest scrape interval.
const MinInterval = time.Second

// mostTimeout is the maximum timeout of a scrape. The timeout of a target with a shorter interval
// is its interval.
const mostTimeout = 10 * time.Second

// ScrapeOptions limit scrapes. A scrape that exceeds a limit fails as a whole and is counted; the
// target's series then have no value, as if the target did not respond.
type ScrapeOptions struct {
	// Interval is the interval of a target that does not state one.
	Interval time.Duration
	// SampleLimit is the maximum number of samples of a scrape, and BodyLimit its maximum size in
	// bytes.
	SampleLimit uint
	BodyLimit   int64
	// LabelLimit is the maximum number of labels of a series, and LabelNameLimit and
	// LabelValueLimit are the maximum sizes of their names and values in bytes.
	LabelLimit, LabelNameLimit, LabelValueLimit uint
	// Registerer registers the metrics of scraping; nil for none.
	Registerer prometheus.Registerer
	Log        logr.Logger
}

// ScrapeDefaults returns limits that are well above the needs of an ordinary program.
func ScrapeDefaults() ScrapeOptions {
	return ScrapeOptions{
		Interval: 15 * time.Second, SampleLimit: 10_000, BodyLimit: 8 << 20,
		LabelLimit: 64, LabelNameLimit: 256, LabelValueLimit: 2048,
	}
}

// Validate returns all errors in the options, for a store with this lookback.
func (o *ScrapeOptions) Validate(lookback time.Duration) error {
	var errs []error
	if o.Interval < MinInterval || o.Interval > lookback/2 {
		errs = append(errs, fmt.Errorf("the scrape interval %v must be from %v to %v, half of the lookback, otherwise series have gaps: raise the lookback", o.Interval, MinInterval, lookback/2))
	}
	if o.SampleLimit == 0 || o.BodyLimit <= 0 || o.LabelLimit == 0 || o.LabelNameLimit == 0 || o.LabelValueLimit == 0 {
		errs = append(errs, errors.New("the limits of a scrape must be above 0"))
	}
	return errors.Join(errs...)
}

// Scraper scrapes targets into a store.
type Scraper struct {
	manager *scrape.Manager
	jobs    map[string]bool
	// usual is the interval of a target that does not state one.
	usual time.Duration
	// current are the current targets.
	current map[place]target.Target
	log     logr.Logger
}

// place identifies a target.
type place struct{ job, scheme, address, path string }

func placeOf(t target.Target) place {
	return place{t.Job, cmp.Or(t.Scheme, "http"), t.Address, cmp.Or(t.Path, "/metrics")}
}

// NewScraper returns a scraper for jobs. Each target belongs to one of them.
func (s *Store) NewScraper(o ScrapeOptions, jobs []target.Job) (*Scraper, error) {
	if err := o.Validate(s.lookback); err != nil {
		return nil, fmt.Errorf("set up scraping: %w", err)
	}
	log := slog.New(logr.ToSlogHandler(o.Log.V(2).WithName("scrape")))
	all, err := config.Load("", log)
	if err != nil {
		return nil, fmt.Errorf("set up scraping: %w", err)
	}
	names := map[string]bool{}
	for _, job := range jobs {
		if names[job.Name] {
			return nil, fmt.Errorf("set up scraping: the name of job %q must be unique", job.Name)
		}
		names[job.Name] = true
		c := jobConfig(o, job)
		if err := c.Validate(all.GlobalConfig); err != nil {
			return nil, fmt.Errorf("set up scraping of job %q: %w", job.Name, err)
		}
		all.ScrapeConfigs = append(all.ScrapeConfigs, c)
	}
	registerer := o.Registerer
	if registerer == nil {
		registerer = prometheus.NewRegistry()
	}
	manager, err := scrape.NewManager(&scrape.Options{DiscoveryReloadInterval: model.Duration(time.Second), DiscoveryReloadOnStartup: true},
		log, nil, nil, s, registerer)
	if err != nil {
		return nil, fmt.Errorf("set up scraping: %w", err)
	}
	if err := manager.ApplyConfig(all); err != nil {
		return nil, fmt.Errorf("set up scraping: %w", err)
	}
	return &Scraper{manager: manager, jobs: names, usual: o.Interval, log: o.Log}, nil
}

// jobConfig returns the default scrape configuration of the targets of a job.
func jobConfig(o ScrapeOptions, job target.Job) *config.ScrapeConfig {
	c := config.DefaultScrapeConfig
	c.JobName = job.Name
	c.ScrapeInterval = model.Duration(o.Interval)
	c.ScrapeTimeout = model.Duration(min(o.Interval, mostTimeout))
	c.SampleLimit, c.BodySizeLimit = o.SampleLimit, units.Base2Bytes(o.BodyLimit)
	c.LabelLimit, c.LabelNameLengthLimit, c.LabelValueLengthLimit = o.LabelLimit, o.LabelNameLimit, o.LabelValueLimit
	c.KeepDroppedTargets = 1
	c.ScrapeFallbackProtocol = config.PrometheusText0_0_4
	c.HonorLabels = job.HonorLabels
	c.TrackTimestampsStaleness = true // series with timestamps of their own end with their target too
	if len(job.Only) > 0 {
		keep := relabel.DefaultRelabelConfig
		keep.Action, keep.SourceLabels = relabel.Keep, model.LabelNames{model.MetricNameLabel}
		keep.Regex = relabel.MustNewRegexp(strings.Join(job.Only, "|"))
		c.MetricRelabelConfigs = []*relabel.Config{&keep}
	}
	c.HTTPClientConfig = commonconfig.DefaultHTTPClientConfig
	c.HTTPClientConfig.FollowRedirects = false // a target must not redirect us elsewhere
	c.HTTPClientConfig.TLSConfig = commonconfig.TLSConfig{CAFile: job.CAFile, ServerName: job.ServerName, InsecureSkipVerify: job.InsecureSkipVerify}
	if job.BearerTokenFile != "" {
		c.HTTPClientConfig.Authorization = &commonconfig.Authorization{Type: "Bearer", CredentialsFile: job.BearerTokenFile}
	}
	return &c
}

// Run scrapes until ctx ends. Each value from changes is the list of all targets; targets that are
// no longer in it end. A target whose interval changes continues at the new one: a running scrape
// is completed and kept, the next scrape starts within the new interval, and the series do not end
// in between.
func (s *Scraper) Run(ctx context.Context, changes <-chan []target.Target) error {
	groups := make(chan map[string][]*targetgroup.Group)
	done := make(chan error, 1)
	go func() { done <- s.manager.Run(groups) }()
	defer s.manager.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-done:
			return err
		case targets := <-changes:
			s.change(targets)
			select {
			case groups <- s.group(targets):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// hurry is an upper bound of the time in which the scrape manager applies a change.
const hurry = 3 * time.Second

// change prepares for targets whose interval changes. The scrape manager replaces the scrape loop
// of such a target. The new loop first scrapes within one new interval, and the old loop writes
// staleness markers after two old intervals. If the markers could come before that scrape, change
// disables them; a series that the target stops exporting at that moment then stays current for the
// lookback.
func (s *Scraper) change(targets []target.Target) {
	current := make(map[place]target.Target, len(targets))
	lasting := map[place]bool{}
	for _, t := range targets {
		at := placeOf(t)
		current[at] = t
		before, ok := s.current[at]
		old, next := cmp.Or(before.Interval, s.usual), cmp.Or(t.Interval, s.usual)
		if ok && old != next && maps.Equal(before.Labels, t.Labels) && 2*old < next+hurry {
			lasting[at] = true
		}
	}
	s.current = current
	if len(lasting) == 0 {
		return
	}
	for job, active := range s.manager.TargetsActive() {
		var unmarked []*scrape.Target
		for _, t := range active {
			if lasting[place{job, t.GetValue(model.SchemeLabel), t.GetValue(model.AddressLabel), t.GetValue(model.MetricsPathLabel)}] {
				unmarked = append(unmarked, t)
			}
		}
		s.manager.DisableEndOfRunStalenessMarkers(job, unmarked)
	}
}

// Took returns the latest response time of the targets, or their timeout; the longest if several
// targets have the same origin.
func (s *Scraper) Took() map[Origin]time.Duration {
	took := map[Origin]time.Duration{}
	for job, active := range s.manager.TargetsActive() {
		for _, t := range active {
			o := Origin{job, t.GetValue(model.AddressLabel)}
			took[o] = max(took[o], t.LastScrapeDuration())
		}
	}
	return took
}

// group converts targets to the form of the scrape manager. It includes jobs without targets.
func (s *Scraper) group(targets []target.Target) map[string][]*targetgroup.Group {
	groups := make(map[string][]*targetgroup.Group, len(s.jobs))
	for job := range s.jobs {
		groups[job] = []*targetgroup.Group{{Source: job}}
	}
	for _, t := range targets {
		g, ok := groups[t.Job]
		if !ok {
			s.log.Error(nil, "Ignoring a target of an unknown job", "job", t.Job, "address", t.Address)
			continue
		}
		g[0].Targets = append(g[0].Targets, labelSet(t))
	}
	return groups
}

// labelSet converts a target to the labels of the scrape manager.
func labelSet(t target.Target) model.LabelSet {
	set := model.LabelSet{model.AddressLabel: model.LabelValue(t.Address)}
	for name, value := range t.Labels {
		set[model.LabelName(name)] = model.LabelValue(value)
	}
	if t.Path != "" {
		set[model.MetricsPathLabel] = model.LabelValue(t.Path)
	}
	if t.Scheme != "" {
		set[model.SchemeLabel] = model.LabelValue(t.Scheme)
	}
	if t.Interval != 0 {
		set[model.ScrapeIntervalLabel] = model.LabelValue(model.Duration(t.Interval).String())
		set[model.ScrapeTimeoutLabel] = model.LabelValue(model.Duration(min(t.Interval, mostTimeout)).String())
	}
	return set
}
