// Package exporter serves the metrics of an nginx. It runs as a sidecar and needs no access
// to the cluster.
package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/autoscaler/adapter/nginx"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/platform/poll"
)

// Options configure the exporter.
type Options struct {
	// StatusURL is the URL of the stub_status page, and LogPath is the access log. One of
	// them may be empty.
	StatusURL, LogPath string
	// Keep is the size in bytes above which the access log is truncated; 0 never truncates
	// it, for a log that is rotated by other means.
	Keep int64
	// Poll is the interval between reads of the access log.
	Poll time.Duration
	// MaxUpstreams is the maximum number of upstreams with series of their own.
	MaxUpstreams int
	// Listen is the address that serves /metrics and /healthz.
	Listen string
	// Clock times the polls.
	Clock clock.WithTicker
	// Log receives each error once, and recovery.
	Log logr.Logger
}

// AddFlags adds a flag for each option.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.StatusURL, "status-url", "", "`URL` of nginx's stub_status page, such as http://127.0.0.1:8080/stub_status")
	flags.StringVar(&o.LogPath, "access-log", "", "access log `file`, in the format that --print-log-format prints")
	flags.Int64Var(&o.Keep, "keep-log-bytes", 0, "truncate the access log when it exceeds this many `bytes`, if nothing else rotates it; 0 to disable")
	flags.DurationVar(&o.Poll, "poll", 200*time.Millisecond, "how often to read the access log")
	flags.IntVar(&o.MaxUpstreams, "max-upstreams", 100, "maximum upstreams with series of their own; the rest counts as \"other\"")
	flags.StringVar(&o.Listen, "listen", ":9113", "`address` to serve /metrics and /healthz on")
}

// statusTimeout bounds a read of the status page; scrapers wait 10 s. maxPage is the maximum
// size of the page, in bytes.
const (
	statusTimeout = 2 * time.Second
	maxPage       = 4 << 10
)

// Validate returns all errors in the options. There must be something to read.
func (o *Options) Validate() error {
	var errs input.Faults
	errs.If(o.StatusURL == "" && o.LogPath == "", "at least one of --status-url and --access-log is required")
	if o.StatusURL != "" {
		u, err := url.Parse(o.StatusURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("--status-url %q: must be an http or https URL", o.StatusURL))
		}
	}
	errs.If(o.Keep < 0, "--keep-log-bytes %d: must be 0 or more", o.Keep)
	errs.If(o.Poll < time.Millisecond, "--poll %v: must be 1ms or more", o.Poll)
	errs.If(o.MaxUpstreams < 1, "--max-upstreams %d: must be 1 or more", o.MaxUpstreams)
	return errors.Join(errs...)
}

// Run serves until ctx ends. If ready is not nil, Run calls it with the address.
func Run(ctx context.Context, o Options, ready func(net.Addr)) error {
	if err := o.Validate(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("serve the metrics: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var follower sync.WaitGroup
	defer follower.Wait()
	defer cancel()
	registry := o.collect(ctx, &follower)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	if ready != nil {
		ready(listener.Addr())
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve the metrics: %w", err)
	case <-ctx.Done():
	}
	return server.Close()
}

// collect starts reading the configured sources and registers their metrics.
func (o *Options) collect(ctx context.Context, running *sync.WaitGroup) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	if o.StatusURL != "" {
		registry.MustRegister(&nginx.Page{Read: o.readStatus, Fault: once(o.Log, "the stub_status page")})
	}
	if o.LogPath != "" {
		log := nginx.NewLog(nginx.Buckets, o.MaxUpstreams)
		registry.MustRegister(log)
		say := once(o.Log, "the access log")
		follower := &nginx.Follower{Path: o.LogPath, Take: log.Line, Skipped: log.Garbled, Keep: o.Keep}
		running.Go(func() {
			follower.Run(ctx, o.Clock, o.Poll, func(err error) {
				log.Fault(err)
				say(err)
			})
		})
	}
	return registry
}

func (o *Options) readStatus() (nginx.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.StatusURL, http.NoBody)
	if err != nil {
		return nginx.Status{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nginx.Status{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nginx.Status{}, fmt.Errorf("%s returned %s, expected 200 OK", o.StatusURL, response.Status)
	}
	page, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	if err != nil {
		return nginx.Status{}, err
	}
	return nginx.ParseStatus(string(page))
}

// once returns a function that logs an error if it differs from the previous one, and
// recovery.
func once(log logr.Logger, what string) func(error) {
	return poll.Changes(func(err error) {
		if err != nil {
			log.Error(err, "Failed to read, will retry", "what", what)
			return
		}
		log.Info("Reading succeeded again", "what", what)
	})
}
