package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/lab/report"
	"supercargo.dev/supercargo/lab/trace"
)

// Options says what to replay, where and how fast.
type Options struct {
	// Client reaches the cluster. Its own rate limit applies, so it should allow
	// some hundred requests a second. Required.
	Client kubernetes.Interface
	// Pods is the trace. The earliest arrival is the beginning of the replay.
	// Names must be unlike each other. Required.
	Pods []trace.Pod
	// Scale compresses time. Required.
	Scale Scale
	// Window ends the replay that long after its beginning, whatever still waits
	// or runs. Zero means: when the last pod has ended, which never comes while
	// a pod fits nowhere.
	Window time.Duration
	// Namespace is where the pods go; it must exist. Empty means "default".
	Namespace string
	// SchedulerName is put into the pods. Empty means the default scheduler.
	SchedulerName string
	// NodeSelector is put into the pods, which have that of their architecture beside it.
	NodeSelector map[string]string
	// Run becomes the value of the pods' label [LabelRun], and tells them from
	// others. It must be a label's value. Empty means "replay".
	Run string
	// Recreate says that pods have controllers: one that fails or is taken away by somebody
	// else within the window is created again at once, under its name, and runs from its
	// beginning. Without it the pod is lost.
	Recreate bool
	// Concurrency is the most API calls under way at a time. Zero means 16.
	Concurrency int
	// CleanUp bounds how long removing the pods at the end may go on without any of them going.
	// Zero means 30 s.
	CleanUp time.Duration
	// Clock says when it is time. Nil means the real one.
	Clock clock.Clock
	// Progress, if set, is called about five times a second and once at the end,
	// never twice at a time. It must not take long.
	Progress func(Progress)
}

// Scale says how many seconds of the trace pass in one second of the replay. The
// two differ where a trace is thinner than the cluster is to be loaded: with
// Arrivals = 10·Lifetimes there are, on average, ten times as many pods at a
// time as were recorded.
type Scale struct {
	Arrivals  float64 // for the gaps between arrivals
	Lifetimes float64 // for how long pods run
}

// FitArrivals returns the scale of arrivals at which the arrivals of pods span
// window, and 1 when they all come at one moment.
func FitArrivals(pods []trace.Pod, window time.Duration) float64 {
	if len(pods) == 0 || window <= 0 {
		return 1
	}
	first, last := pods[0].Arrival, pods[0].Arrival
	for _, p := range pods {
		first, last = min(first, p.Arrival), max(last, p.Arrival)
	}
	if first == last {
		return 1
	}
	return float64(last-first) / float64(window)
}

// Progress is how far a replay is.
type Progress struct {
	Elapsed time.Duration // since the beginning
	Window  time.Duration // as in the options
	Pods    int           // in the trace
	Created int           // so far
	Bound   int           // so far
	Gone    int           // so far
	Retries int           // API calls that were tried again, so far
}

// Result is what was seen.
type Result struct {
	// Began is when the replay did; all moments in Stays count from it.
	Began time.Time
	// Window is how long the replay lasted, without the cleaning up after it.
	Window time.Duration
	// Stays has one entry per pod that was created, in the order of arrival; of a pod that
	// was created again, the last.
	// Created is when the first call to create it was sent, so tries that failed
	// count as waiting. Bound and Gone are when the watch showed it, Gone at the
	// latest when the call that deleted it returned.
	Stays []report.Stay
	// Retries counts the API calls that were tried again.
	Retries int
	// Replaced has, in the order of their ends, the stays of pods that were created again.
	Replaced []report.Stay
	// Lost counts the pods that were taken away by somebody else or failed within the
	// window, whether they were created again or not.
	Lost int
	// Refused has, for each pod that the cluster will never take, the reason.
	Refused []error
}

// defaultCleanUp bounds the cleaning up where the options do not.
const defaultCleanUp = 30 * time.Second

// Run replays a trace and removes its pods again. API errors are retried with
// growing pauses, up to 5 s apart, for as long as the replay lasts; only pods
// that the API server calls invalid, or whose name is taken, are not tried again.
//
// When ctx ends, Run stops creating pods, removes those that are there, and
// returns what was seen together with the context's error. It returns an error
// too when the options are wrong, when the namespace cannot be read, and when
// pods could not be removed in time.
//
// Cost: memory for every pod of the trace; no polling of the API server.
func Run(ctx context.Context, opts Options) (*Result, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if err := checkNamespace(ctx, opts.Client, opts.Namespace); err != nil {
		return nil, err
	}
	r := newRun(opts)
	stop, err := r.watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	return r.play(ctx)
}

// complete fills what is not set and reports everything that is wrong.
func (o Options) complete() (Options, error) {
	var errs input.Faults
	errs.If(o.Client == nil, "replay: no client")
	errs.If(len(o.Pods) == 0, "replay: no pods")
	for _, s := range []struct {
		name  string
		value float64
	}{{"arrivals", o.Scale.Arrivals}, {"lifetimes", o.Scale.Lifetimes}} {
		errs.If(!(s.value > 0) || math.IsInf(s.value, 0), "replay: scale of %s is %v, want a number above zero", s.name, s.value)
	}
	errs.If(o.Window < 0, "replay: window is %s, want zero or more", o.Window)
	errs.If(o.CleanUp < 0, "replay: clean-up is bounded by %s, want zero or more", o.CleanUp)
	errs.If(o.Concurrency < 0, "replay: concurrency is %d, want zero or more", o.Concurrency)
	for _, problem := range validation.IsValidLabelValue(o.Run) {
		errs = append(errs, fmt.Errorf("replay: run %q: %s", o.Run, problem))
	}
	errs = append(errs, duplicates(o.Pods)...)
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if o.Run == "" {
		o.Run = "replay"
	}
	if o.Concurrency == 0 {
		o.Concurrency = 16
	}
	if o.CleanUp == 0 {
		o.CleanUp = defaultCleanUp
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o, errors.Join(errs...)
}

func duplicates(pods []trace.Pod) []error {
	var errs input.Faults
	seen := make(map[string]bool, len(pods))
	for _, p := range pods {
		errs.If(seen[p.Name], "replay: two pods are called %q", p.Name)
		seen[p.Name] = true
	}
	return errs
}
