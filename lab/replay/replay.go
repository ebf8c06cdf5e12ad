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
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/report"
)

// Options configures a replay.
type Options struct {
	// Client is the client of the cluster. Its own rate limit applies, so it should allow several
	// hundred requests per second. Required.
	Client kubernetes.Interface
	// Pods is the trace. The replay begins at the earliest arrival. Names must be unique. Required.
	Pods []trace.Pod
	// Scale compresses time. Required.
	Scale Scale
	// Window ends the replay that long after its beginning, even if pods still wait or run. Zero
	// means when the last pod has ended, which never happens if a pod fits nowhere.
	Window time.Duration
	// Namespace is the namespace of the pods; it must exist. Empty means "default".
	Namespace string
	// SchedulerName is the scheduler name of the pods. Empty means the default scheduler.
	SchedulerName string
	// NodeSelector is the node selector of the pods, in addition to their architecture.
	NodeSelector map[string]string
	// Run is the value of the pods' label [LabelRun], which distinguishes them from others. It must
	// be a valid label value. Empty means "replay".
	Run string
	// Recreate simulates controllers: a pod that fails, or that another client deletes, within the
	// window is created again at once, under the same name, and runs from its beginning. Otherwise
	// the pod is lost.
	Recreate bool
	// Concurrency is the maximum number of concurrent API calls. Zero means 16.
	Concurrency int
	// CleanUp limits how long the final deletion of pods may continue without progress. Zero means
	// 30 s.
	CleanUp time.Duration
	// Clock is the clock of the replay. Nil means the real clock.
	Clock clock.Clock
	// Progress, if set, is called about five times per second and once at the end, never
	// concurrently. It must return quickly.
	Progress func(Progress)
}

// Scale is the number of seconds of the trace per second of the replay. The two values differ if
// the cluster should have more load than the trace: with Arrivals = 10·Lifetimes there are on
// average ten times as many concurrent pods as recorded.
type Scale struct {
	Arrivals  float64 // for the gaps between arrivals
	Lifetimes float64 // for how long pods run
}

// FitArrivals returns the scale at which the arrivals of the pods span window, or 1 if all arrive
// at one moment.
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

// Progress is the progress of a replay.
type Progress struct {
	Elapsed time.Duration // since the beginning
	Window  time.Duration // as in the options
	Pods    int           // in the trace
	Created int           // so far
	Bound   int           // so far
	Gone    int           // so far
	Retries int           // retried API calls so far
	// CreateLag is how far the creation of pods is behind the trace: the median time, of the pods due
	// within the last three seconds, from when a pod was due until it was known to exist, or until now.
	// Zero for fewer than five pods.
	CreateLag time.Duration
	// BindLag is how long pods wait for the scheduler: the median time, of the same pods, from their
	// first create call until they were bound or reported as unschedulable, or until now. Zero for fewer
	// than five pods. It does not include waits for room.
	BindLag time.Duration
}

// Result is the record of a replay.
type Result struct {
	// Began is the start of the replay. All times in Stays are relative to it.
	Began time.Time
	// Window is the duration of the replay, without the clean-up.
	Window time.Duration
	// Stays has one entry per created pod, in order of arrival; for a pod that was created again,
	// the last one. Created is when the first create call was sent, so failed attempts count as
	// waiting. Bound and Gone are when the watch reported it; Gone is at the latest when the delete
	// call returned.
	Stays []report.Stay
	// Retries is the number of retried API calls.
	Retries int
	// Replaced has the stays of pods that were created again, in the order of their ends.
	Replaced []report.Stay
	// Lost is the number of pods that failed or were deleted by another client within the window,
	// whether they were created again or not.
	Lost int
	// Refused has the reasons for all pods that the cluster will never accept.
	Refused []error
}

// defaultCleanUp is the default of Options.CleanUp.
const defaultCleanUp = 30 * time.Second

// Run replays a trace and deletes its pods at the end. It retries API errors with exponential
// back-off, up to 5 s, for as long as the replay lasts, except for pods that the API server rejects
// as invalid or whose name is taken.
//
// When ctx ends, Run stops creating pods, deletes the existing ones, and returns the record
// together with the context's error. It also returns an error if the options are invalid, the
// namespace cannot be read, or pods could not be deleted in time.
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

// complete sets defaults and reports all invalid options.
func (o Options) complete() (Options, error) {
	var errs input.Faults
	errs.If(o.Client == nil, "replay: a client is required")
	errs.If(len(o.Pods) == 0, "replay: at least one pod is required")
	for _, s := range []struct {
		name  string
		value float64
	}{{"arrivals", o.Scale.Arrivals}, {"lifetimes", o.Scale.Lifetimes}} {
		errs.If(!(s.value > 0) || math.IsInf(s.value, 0), "replay: scale of %s is %v: must be more than 0", s.name, s.value)
	}
	errs.If(o.Window < 0, "replay: window is %s: must be 0 or more", o.Window)
	errs.If(o.CleanUp < 0, "replay: clean-up limit is %s: must be 0 or more", o.CleanUp)
	errs.If(o.Concurrency < 0, "replay: concurrency is %d: must be 0 or more", o.Concurrency)
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
		errs.If(seen[p.Name], "replay: two pods have the name %q", p.Name)
		seen[p.Name] = true
	}
	return errs
}
