package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/operator"
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

// replayFleet replays the trace on machines that a NodeFleet buys and releases.
func replayFleet(ctx context.Context, in *Input, fixed float64, progress *Progress) (result *Fleet, err error) {
	progress.say("starting a control plane with cluster-api, %s and no node", plural.Count(len(in.Flavors), "MachineDeployment"))
	p, err := start(ctx, playground.Options{ClusterAPI: true, NoScheduler: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	defer in.watch(ctx, p, in.Fleet.TimeScale)()
	if err := addDeployments(ctx, p, in); err != nil {
		return nil, err
	}
	if err := p.InstallCRDs(ctx); err != nil {
		return nil, err
	}
	autoscaler := programs.Autoscaler(ctx, p)
	defer func() { err = errors.Join(err, autoscaler.Stop()) }()
	c, err := clientOf(p)
	if err != nil {
		return nil, err
	}
	if err := c.Create(ctx, compressed.Fleet(fleetName, 1)); err != nil {
		return nil, fmt.Errorf("create the NodeFleet: %w", err)
	}
	scale := scaleOf(in, in.Fleet.Duration, in.Fleet.TimeScale)
	watch := watchFleet(ctx, p, c)
	replayed, err := replayProfile(ctx, p, in, Profile{Name: "fleet", Config: in.Fleet.Scheduler}, scale, in.Fleet.Duration, progress)
	watch.end()
	if err != nil {
		return nil, err
	}
	result = watch.result(in, replayed.Window)
	result.Scale = Scale{Arrivals: scale.Arrivals, Lifetimes: scale.Lifetimes}
	result.FixedDollarsPerHour = fixed
	if err := result.account(watch.machines(), replayed); err != nil {
		return nil, err
	}
	progress.say("all pods have ended: waiting until the fleet has released its machines")
	if err := result.shrink(ctx, p, c); err != nil {
		return nil, err
	}
	if in.Consolidation {
		if result.Consolidation, err = consolidate(ctx, p, c, in.Fleet.Scheduler, progress); err != nil {
			return nil, fmt.Errorf("consolidation: %w", err)
		}
	}
	return result, nil
}

// clientOf returns a client for the kinds of Kubernetes and of Supercargo.
func clientOf(p *playground.Playground) (client.Client, error) {
	kinds, err := operator.Kinds()
	if err != nil {
		return nil, err
	}
	c, err := client.New(p.Config(), client.Options{Scheme: kinds})
	if err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	return c, nil
}

func addDeployments(ctx context.Context, p *playground.Playground, in *Input) error {
	var specs []playground.MachineDeploymentSpec
	for _, f := range in.Flavors {
		spec := playground.FlavorDeployment(f)
		spec.AcquisitionLag, spec.ReleaseLag = lag, releaseLag
		specs = append(specs, spec)
	}
	return p.AddMachineDeployments(ctx, specs)
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
	if d := fleet.Status.LastDecision; d != nil {
		w.last = d.Summary
	}
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

// result returns what was observed within the window.
func (w *fleetWatch) result(in *Input, window time.Duration) *Fleet {
	r := &Fleet{WindowSeconds: window.Seconds(), AcquisitionLagSeconds: lag.Seconds(), LastDecision: w.last, Flavors: []FleetMix{}} // JSON has no null
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
func (r *Fleet) account(nodes []corev1.Node, replayed *replay.Result) error {
	machines, err := replay.Machines(nodes)
	if err != nil {
		return err
	}
	usage, err := report.Account(machines, replayed.Stays, replayed.Window)
	if err != nil {
		return fmt.Errorf("account for the fleet: %w", err)
	}
	r.PodsBound, r.PodsNeverBound = usage.PodsBound, usage.PodsNeverBound
	r.TimeToBindMeanSeconds, r.TimeToBindP95Seconds = usage.BindMean.Seconds(), usage.BindP95.Seconds()
	return nil
}

// shrink waits until the fleet has no machines.
func (r *Fleet) shrink(ctx context.Context, p *playground.Playground, c client.Client) error {
	began := time.Now()
	err := until(ctx, 100*time.Millisecond, shrinkTime, func() bool {
		point, _, err := observeFleet(ctx, c)
		nodes, listed := p.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil || listed != nil {
			return false
		}
		r.MachinesEnd = max(point.Machines, len(nodes.Items))
		r.ShrinkSeconds = time.Since(began).Seconds()
		return r.MachinesEnd == 0
	})
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("the fleet still has %s %v after the last pod has ended", plural.Count(r.MachinesEnd, "machine"), shrinkTime)
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
