package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/kinds"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/lab/compressed"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/playground/programs"
	"supercargo.dev/supercargo/lab/replay"
	"supercargo.dev/supercargo/lab/report"
)

// Machines of the fleet start and stop about a hundred times as fast as those of a cloud, which
// take some minutes.
const (
	lag        = compressed.Lag
	releaseLag = 500 * time.Millisecond
	fleetName  = "demo"
	// shrinkTime is the maximum time for the fleet to release all machines.
	shrinkTime = 2 * time.Minute
)

// Fleet is the result of a fleet that buys and releases machines.
type Fleet struct {
	Speed
	WindowSeconds  float64 `json:"windowSeconds"`
	Scale          Scale   `json:"scale"`
	PodsBound      int     `json:"podsBound"`
	PodsNeverBound int     `json:"podsNeverBound"`
	// DollarsPerHour is the mean price of all machines, idle ones included, from their order until
	// they are gone. FixedDollarsPerHour is the price of all nodes of the fixed cluster.
	DollarsPerHour        float64 `json:"dollarsPerHour"`
	FixedDollarsPerHour   float64 `json:"fixedDollarsPerHour"`
	MachinesPeak          int     `json:"machinesPeak"`
	MachinesMean          float64 `json:"machinesMean"`
	MachinesEnd           int     `json:"machinesEnd"`
	ShrinkSeconds         float64 `json:"shrinkSeconds"`
	TimeToBindMeanSeconds float64 `json:"timeToBindMeanSeconds"`
	TimeToBindP95Seconds  float64 `json:"timeToBindP95Seconds"`
	// AcquisitionLagSeconds is the start-up time of a machine.
	AcquisitionLagSeconds float64      `json:"acquisitionLagSeconds"`
	Flavors               []FleetMix   `json:"flavors"`
	Course                []FleetPoint `json:"course"`
	LastDecision          string       `json:"lastDecision"`
	// Consolidation is the result of the part after the trace, or nil if it was skipped.
	Consolidation *Consolidation `json:"consolidation,omitempty"`
}

// FleetMix is the peak number of machines of a flavor.
type FleetMix struct {
	Flavor string `json:"flavor"`
	Peak   int    `json:"peak"`
}

// FleetPoint is the fleet at one moment.
type FleetPoint struct {
	Seconds        float64 `json:"seconds"`
	Machines       int     `json:"machines"`
	InFlight       int     `json:"inFlight"`
	PendingPods    int     `json:"pendingPods"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
}

// replayFleet replays the trace on machines that a NodeFleet buys and releases. It begins with the
// speed at which the profiles were replayed.
func replayFleet(ctx context.Context, in *Input, p *pace, fixed float64, progress *Progress) (*Fleet, error) {
	for {
		result, err := replayFleetAt(ctx, in, p, progress)
		if progress.slower(err, p) {
			continue
		}
		if result != nil {
			result.FixedDollarsPerHour, result.Speed = fixed, p.speed()
		}
		return result, err
	}
}

// replayFleetAt replays the trace on a fleet at one speed, with a control plane of its own, because
// what a fleet has learned at another speed does not hold.
func replayFleetAt(ctx context.Context, in *Input, p *pace, progress *Progress) (result *Fleet, err error) {
	progress.say("starting a control plane with cluster-api, %s and no node", plural.Count(len(in.Flavors), "MachineDeployment"))
	control, err := start(ctx, playground.Options{ClusterAPI: true, NoScheduler: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, control.Stop()) }()
	scale := scaleOf(in, in.Fleet.Duration, in.Fleet.TimeScale, p)
	config, err := in.Fleet.Scheduler(scale.Lifetimes)
	if err != nil {
		return nil, err
	}
	defer in.watch(ctx, control, scale.Lifetimes)()
	if err := addDeployments(ctx, control, in, p); err != nil {
		return nil, err
	}
	if err := control.InstallCRDs(ctx); err != nil {
		return nil, err
	}
	autoscaler := programs.Autoscaler(ctx, control)
	defer func() { err = errors.Join(err, autoscaler.Stop()) }()
	c, err := clientOf(control)
	if err != nil {
		return nil, err
	}
	if err := c.Create(ctx, compressed.Fleet(fleetName, p.slowdown)); err != nil {
		return nil, fmt.Errorf("create the NodeFleet: %w", err)
	}
	watch, m := watchFleet(ctx, control, c), newMonitor(p)
	replayed, err := replayProfile(ctx, control, in, "fleet", config, scale, p.slow(in.Fleet.Duration), progress, func(now replay.Progress) *behind {
		return m.observe(now.Elapsed, fleetReadings(now, time.Duration(watch.startup.Load()), p.slow(lag)))
	})
	watch.end()
	if err != nil {
		return nil, err
	}
	result = watch.result(in, replayed.Window, p)
	result.Scale = Scale{Arrivals: scale.Arrivals, Lifetimes: scale.Lifetimes}
	if err := result.account(watch.machines(), replayed, p); err != nil {
		return nil, err
	}
	progress.say("all pods have ended: waiting until the fleet has released its machines")
	if err := result.shrink(ctx, control, c, p); err != nil {
		return nil, err
	}
	if in.Consolidation {
		if result.Consolidation, err = consolidate(ctx, control, c, config, progress); err != nil {
			return nil, fmt.Errorf("consolidation: %w", err)
		}
	}
	return result, nil
}

// clientOf returns a client for the kinds of Kubernetes and of Supercargo.
func clientOf(p *playground.Playground) (client.Client, error) {
	scheme, err := kinds.Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(p.Config(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	return c, nil
}

func addDeployments(ctx context.Context, control *playground.Playground, in *Input, p *pace) error {
	var specs []playground.MachineDeploymentSpec
	for _, f := range in.Flavors {
		spec := playground.FlavorDeployment(f)
		spec.AcquisitionLag, spec.ReleaseLag = p.slow(lag), p.slow(releaseLag)
		specs = append(specs, spec)
	}
	return control.AddMachineDeployments(ctx, specs)
}

// fleetWatch polls a fleet, its nodes and its cost about twice a second.
type fleetWatch struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	began  time.Time
	course []FleetPoint
	peaks  map[string]int
	nodes  map[string]corev1.Node
	last   string
	// startup is the mean time, in nanoseconds, from the order of a machine until it is ready, as far as
	// the fleet has measured it.
	startup atomic.Int64
}

func watchFleet(ctx context.Context, p *playground.Playground, c client.Client) *fleetWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &fleetWatch{cancel: cancel, began: time.Now(), peaks: map[string]int{}, nodes: map[string]corev1.Node{}}
	w.done.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) { w.sample(ctx, p, c) }, sampleEvery)
	})
	return w
}

// end stops polling.
func (w *fleetWatch) end() {
	w.cancel()
	w.done.Wait()
}

// sample records the present state. It skips the poll if a request fails.
func (w *fleetWatch) sample(ctx context.Context, p *playground.Playground, c client.Client) {
	nodes, err := p.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, n := range nodes.Items {
		w.nodes[n.Name] = n
	}
	point, fleet, err := observeFleet(ctx, c)
	if err != nil {
		return
	}
	point.Seconds = time.Since(w.began).Seconds()
	w.course = append(w.course, point)
	for _, f := range fleet.Status.Flavors {
		w.peaks[f.Name] = max(w.peaks[f.Name], int(f.Machines))
	}
	w.startup.Store(int64(meanStartup(fleet.Status.Flavors)))
	if d := fleet.Status.LastDecision; d != nil {
		w.last = d.Summary
	}
}

// meanStartup returns the mean time from the order of a machine until it is ready; zero if none was
// measured.
func meanStartup(flavors []v1alpha1.FlavorStatus) time.Duration {
	var total, n int64
	for i := range flavors {
		if lag := flavors[i].Lag; lag != nil {
			total += lag.Samples * int64(lag.Mean.Duration)
			n += lag.Samples
		}
	}
	return time.Duration(total / max(1, n))
}

func observeFleet(ctx context.Context, c client.Client) (FleetPoint, *v1alpha1.NodeFleet, error) {
	var fleet v1alpha1.NodeFleet
	if err := c.Get(ctx, client.ObjectKey{Name: fleetName}, &fleet); err != nil {
		return FleetPoint{}, nil, err
	}
	cost, _ := strconv.ParseFloat(fleet.Status.Cost.DollarsPerHour, 64) // empty before the first round, which counts as 0
	return FleetPoint{
		Machines: int(fleet.Status.Machines), InFlight: int(fleet.Status.InFlight), PendingPods: int(fleet.Status.PendingPods), DollarsPerHour: cost,
	}, &fleet, nil
}

func (w *fleetWatch) machines() []corev1.Node {
	var all []corev1.Node
	for _, n := range w.nodes {
		all = append(all, n)
	}
	return all
}

// result returns what was observed within the window, with times of the full speed.
func (w *fleetWatch) result(in *Input, window time.Duration, pace *pace) *Fleet {
	r := &Fleet{WindowSeconds: pace.full(window).Seconds(), AcquisitionLagSeconds: lag.Seconds(), LastDecision: w.last, Flavors: []FleetMix{}} // JSON has no null
	w.course = slices.DeleteFunc(w.course, func(p FleetPoint) bool { return p.Seconds > window.Seconds() })
	var dollarSeconds, machineSeconds float64
	for i, p := range w.course {
		until := window.Seconds()
		if i+1 < len(w.course) {
			until = w.course[i+1].Seconds
		}
		dollarSeconds += p.DollarsPerHour * (until - p.Seconds)
		machineSeconds += float64(p.Machines) * (until - p.Seconds)
		r.MachinesPeak = max(r.MachinesPeak, p.Machines)
	}
	r.DollarsPerHour, r.MachinesMean = dollarSeconds/window.Seconds(), machineSeconds/window.Seconds()
	for _, f := range in.Flavors {
		if peak := w.peaks[playground.DeploymentName(f.Name)]; peak > 0 {
			r.Flavors = append(r.Flavors, FleetMix{f.Name, peak})
		}
	}
	r.Course = thinned(append([]FleetPoint{}, w.course...), 12)
	for i := range r.Course {
		r.Course[i].Seconds /= pace.slowdown
	}
	return r
}

// thinned returns at most most points at even distances, including the last.
func thinned[P any](course []P, most int) []P {
	if len(course) <= most {
		return course
	}
	var kept []P
	for i := range most {
		kept = append(kept, course[(i+1)*len(course)/most-1])
	}
	return kept
}

// account adds the figures of the pods.
func (r *Fleet) account(nodes []corev1.Node, replayed *replay.Result, p *pace) error {
	machines, err := replay.Machines(nodes)
	if err != nil {
		return err
	}
	usage, err := report.Account(machines, replayed.Stays, replayed.Window)
	if err != nil {
		return fmt.Errorf("account for the fleet: %w", err)
	}
	usage = p.atFullSpeed(usage)
	r.PodsBound, r.PodsNeverBound = usage.PodsBound, usage.PodsNeverBound
	r.TimeToBindMeanSeconds, r.TimeToBindP95Seconds = usage.BindMean.Seconds(), usage.BindP95.Seconds()
	return nil
}

// shrink waits until the fleet has no machines.
func (r *Fleet) shrink(ctx context.Context, control *playground.Playground, c client.Client, p *pace) error {
	began := time.Now()
	err := until(ctx, 100*time.Millisecond, p.slow(shrinkTime), func() bool {
		point, _, err := observeFleet(ctx, c)
		nodes, listed := control.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil || listed != nil {
			return false
		}
		r.MachinesEnd = max(point.Machines, len(nodes.Items))
		r.ShrinkSeconds = p.full(time.Since(began)).Seconds()
		return r.MachinesEnd == 0
	})
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("the fleet still has %s %v after the last pod has ended", plural.Count(r.MachinesEnd, "machine"), p.slow(shrinkTime))
	}
	return err
}

// sampleEvery is the polling interval.
const sampleEvery = 400 * time.Millisecond

// errTooLong is returned when a condition is not met in time.
var errTooLong = errors.New("timed out")

// until polls done at the interval every until it returns true. It returns [errTooLong] after the
// time most, or the error of ctx if that ends first.
func until(ctx context.Context, every, most time.Duration, done func() bool) error {
	err := wait.PollUntilContextTimeout(ctx, every, most, true, func(context.Context) (bool, error) { return done(), nil })
	if err != nil && ctx.Err() == nil {
		return errTooLong
	}
	return err
}
