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

// MinInterval is how often a target may be scraped.
const MinInterval = time.Second

// mostTimeout is how long a target may take to answer; one that is scraped more often than
// that has until the next time.
const mostTimeout = 10 * time.Second

// ScrapeOptions say what is taken from a target. A scrape that exceeds a limit fails as a
// whole and is counted; the target's series then have no value, as if it did not answer.
type ScrapeOptions struct {
	// Interval is how often a target is scraped that does not say so itself.
	Interval time.Duration
	// SampleLimit is how many samples a scrape may bring, and BodyLimit how many bytes.
	SampleLimit uint
	BodyLimit   int64
	// LabelLimit is how many labels a series may have, LabelNameLimit and LabelValueLimit
	// how many bytes their names and values.
	LabelLimit, LabelNameLimit, LabelValueLimit uint
	// Registerer takes the scrapes' own metrics; nil is for none.
	Registerer prometheus.Registerer
	// Log takes what is worth a line.
	Log logr.Logger
}

// ScrapeDefaults returns limits that an ordinary program's metrics are well within.
func ScrapeDefaults() ScrapeOptions {
	return ScrapeOptions{
		Interval: 15 * time.Second, SampleLimit: 10_000, BodyLimit: 8 << 20,
		LabelLimit: 64, LabelNameLimit: 256, LabelValueLimit: 2048,
	}
}

// Validate returns everything that is wrong with the options for a store.
func (o *ScrapeOptions) Validate(lookback time.Duration) error {
	var errs []error
	if o.Interval < MinInterval || o.Interval > lookback/2 {
		errs = append(errs, fmt.Errorf("a scrape interval of %v is not between %v and %v, half of the lookback: raise the lookback, or values come and go", o.Interval, MinInterval, lookback/2))
	}
	if o.SampleLimit == 0 || o.BodyLimit <= 0 || o.LabelLimit == 0 || o.LabelNameLimit == 0 || o.LabelValueLimit == 0 {
		errs = append(errs, errors.New("a limit of 0 on what a scrape brings would be none: give each of them"))
	}
	return errors.Join(errs...)
}

// Scraper takes samples from targets into a store.
type Scraper struct {
	manager *scrape.Manager
	jobs    map[string]bool
	// usual is how often a target is scraped that does not say.
	usual time.Duration
	// current are the targets there are.
	current map[place]target.Target
	log     logr.Logger
}

// place is where a target is.
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
			return nil, fmt.Errorf("set up scraping: there are two jobs %q", job.Name)
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

// jobConfig says how the targets of a job are scraped, where a target does not say
// otherwise.
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
	c.TrackTimestampsStaleness = true // also what says its own time ends with its target
	if len(job.Only) > 0 {
		keep := relabel.DefaultRelabelConfig
		keep.Action, keep.SourceLabels = relabel.Keep, model.LabelNames{model.MetricNameLabel}
		keep.Regex = relabel.MustNewRegexp(strings.Join(job.Only, "|"))
		c.MetricRelabelConfigs = []*relabel.Config{&keep}
	}
	c.HTTPClientConfig = commonconfig.DefaultHTTPClientConfig
	c.HTTPClientConfig.FollowRedirects = false // a target must not send us elsewhere
	c.HTTPClientConfig.TLSConfig = commonconfig.TLSConfig{CAFile: job.CAFile, ServerName: job.ServerName, InsecureSkipVerify: job.InsecureSkipVerify}
	if job.BearerTokenFile != "" {
		c.HTTPClientConfig.Authorization = &commonconfig.Authorization{Type: "Bearer", CredentialsFile: job.BearerTokenFile}
	}
	return &c
}

// Run scrapes until ctx ends. What comes from changes is all targets there are, each time;
// those no longer among them are ended. A target whose interval has changed continues at the new
// one: the scrape that may be under way is finished and kept, the next comes within the new
// interval, and the series do not end in between.
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

// hurry is within what time the scrape manager follows a change, with room to spare.
const hurry = 3 * time.Second

// change prepares for targets whose interval changes. The scrape manager ends one and begins
// another for it. That one takes a new interval to scrape first, while the series of the ended
// one are marked as ended after two of the old: where that could come first, the mark is left
// out. What the target does not show any more just then stays current for the lookback.
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

// Took returns how long the targets took to answer last, or until they timed out; the
// longest where several have one origin.
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

// group puts targets in the form of the scrape manager: a job without targets is named too.
func (s *Scraper) group(targets []target.Target) map[string][]*targetgroup.Group {
	groups := make(map[string][]*targetgroup.Group, len(s.jobs))
	for job := range s.jobs {
		groups[job] = []*targetgroup.Group{{Source: job}}
	}
	for _, t := range targets {
		g, ok := groups[t.Job]
		if !ok {
			s.log.Error(nil, "A target is left out: there is no such job", "job", t.Job, "address", t.Address)
			continue
		}
		g[0].Targets = append(g[0].Targets, labelSet(t))
	}
	return groups
}

// labelSet gives a target in the scrape manager's labels.
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
