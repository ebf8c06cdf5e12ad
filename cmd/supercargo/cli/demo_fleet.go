package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/compressed"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/replay"
	"supercargo.dev/supercargo/lab/report"
)

// The machines of the fleet of the demo come and go about a hundred times as fast as
// those of a cloud, which take some minutes.
const (
	demoLag        = compressed.Lag
	demoReleaseLag = 500 * time.Millisecond
	demoFleetName  = "demo"
	// demoShrink is how long the fleet may take to give all machines back.
	demoShrink = 2 * time.Minute
)

// demoFleet is what a fleet achieved that buys machines and gives them back.
type demoFleet struct {
	WindowSeconds  float64 `json:"windowSeconds"`
	PodsBound      int     `json:"podsBound"`
	PodsNeverBound int     `json:"podsNeverBound"`
	// DollarsPerHour is the mean of what all machines cost from their order until they
	// have gone, idle ones included; FixedDollarsPerHour what all nodes of the fixed
	// cluster cost.
	DollarsPerHour        float64 `json:"dollarsPerHour"`
	FixedDollarsPerHour   float64 `json:"fixedDollarsPerHour"`
	MachinesPeak          int     `json:"machinesPeak"`
	MachinesMean          float64 `json:"machinesMean"`
	MachinesEnd           int     `json:"machinesEnd"`
	ShrinkSeconds         float64 `json:"shrinkSeconds"`
	TimeToBindMeanSeconds float64 `json:"timeToBindMeanSeconds"`
	TimeToBindP95Seconds  float64 `json:"timeToBindP95Seconds"`
	// AcquisitionLagSeconds is how long a machine takes to come.
	AcquisitionLagSeconds float64          `json:"acquisitionLagSeconds"`
	Flavors               []demoFleetMix   `json:"flavors"`
	Course                []demoFleetPoint `json:"course"`
	LastDecision          string           `json:"lastDecision"`
	// Consolidation is what came after the trace, unless that was left out.
	Consolidation *demoConsolidation `json:"consolidation,omitempty"`
}

// demoFleetMix is how many machines of a flavor there were at the most.
type demoFleetMix struct {
	Flavor string `json:"flavor"`
	Peak   int    `json:"peak"`
}

// demoFleetPoint is the fleet at one moment.
type demoFleetPoint struct {
	Seconds        float64 `json:"seconds"`
	Machines       int     `json:"machines"`
	InFlight       int     `json:"inFlight"`
	PendingPods    int     `json:"pendingPods"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
}

// replayFleet replays the trace on machines that a NodeFleet buys and gives back.
func replayFleet(ctx context.Context, in *demoInput, scale replay.Scale, fixed float64, progress *demoProgress) (result *demoFleet, err error) {
	progress.say("starting a control plane with cluster-api, %d MachineDeployments and no node", len(in.flavors))
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	keep := context.AfterFunc(ctx, cancel) // but not while it starts
	defer cancel()
	p, err := playground.Start(own, playground.Options{ClusterAPI: true, NoScheduler: true})
	if err != nil {
		return nil, err
	}
	keep()
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err := demoDeployments(ctx, p, in); err != nil {
		return nil, err
	}
	if err := p.InstallCRDs(ctx); err != nil {
		return nil, err
	}
	autoscaler := startAutoscaler(ctx, p)
	defer func() { err = errors.Join(err, autoscaler.stop()) }()
	c, err := supercargoClient(p.Config())
	if err != nil {
		return nil, err
	}
	if err := c.Create(ctx, compressed.Fleet(demoFleetName, 1)); err != nil {
		return nil, fmt.Errorf("make the NodeFleet: %w", err)
	}
	profile := in.profiles[len(in.profiles)-1]
	watch := watchDemoFleet(ctx, p, c)
	replayed, err := replayProfile(ctx, p, in, demoProfile{name: "fleet", config: profile.config}, scale, progress)
	watch.end()
	if err != nil {
		return nil, err
	}
	result = watch.result(in, replayed.Window)
	result.FixedDollarsPerHour = fixed
	if err := result.account(watch.machines(), replayed); err != nil {
		return nil, err
	}
	progress.say("the pods have gone: waiting until the fleet has given its machines back")
	if err := result.shrink(ctx, p, c); err != nil {
		return nil, err
	}
	if in.consolidation {
		if result.Consolidation, err = consolidate(ctx, p, c, profile.config, progress); err != nil {
			return nil, fmt.Errorf("consolidation: %w", err)
		}
	}
	return result, nil
}

func demoDeployments(ctx context.Context, p *playground.Playground, in *demoInput) error {
	var specs []playground.MachineDeploymentSpec
	for _, f := range in.flavors {
		specs = append(specs, machineDeployment(f, playgroundFlags{machineLag: demoLag, machineReleaseLag: demoReleaseLag}))
	}
	return p.AddMachineDeployments(ctx, specs)
}

// demoWatch looks at a fleet, its nodes and its cost about twice a second.
type demoWatch struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	began  time.Time
	course []demoFleetPoint
	peaks  map[string]int
	nodes  map[string]corev1.Node
	last   string
}

func watchDemoFleet(ctx context.Context, p *playground.Playground, c client.Client) *demoWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &demoWatch{cancel: cancel, began: time.Now(), peaks: map[string]int{}, nodes: map[string]corev1.Node{}}
	w.done.Go(func() {
		for ; ctx.Err() == nil; wait(ctx, 400*time.Millisecond) {
			w.look(ctx, p, c)
		}
	})
	return w
}

// end stops looking.
func (w *demoWatch) end() {
	w.cancel()
	w.done.Wait()
}

// look takes down how things are; a look that fails is left out.
func (w *demoWatch) look(ctx context.Context, p *playground.Playground, c client.Client) {
	nodes, err := p.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, n := range nodes.Items {
		w.nodes[n.Name] = n
	}
	point, fleet, err := lookAtFleet(ctx, c)
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

func lookAtFleet(ctx context.Context, c client.Client) (demoFleetPoint, *v1alpha1.NodeFleet, error) {
	var fleet v1alpha1.NodeFleet
	if err := c.Get(ctx, client.ObjectKey{Name: demoFleetName}, &fleet); err != nil {
		return demoFleetPoint{}, nil, err
	}
	cost, _ := strconv.ParseFloat(fleet.Status.Cost.DollarsPerHour, 64) // empty before the first round: nothing yet
	return demoFleetPoint{
		Machines: int(fleet.Status.Machines), InFlight: int(fleet.Status.InFlight), PendingPods: int(fleet.Status.PendingPods), DollarsPerHour: cost,
	}, &fleet, nil
}

func (w *demoWatch) machines() []corev1.Node {
	var all []corev1.Node
	for _, n := range w.nodes {
		all = append(all, n)
	}
	return all
}

// result is what was seen within the window.
func (w *demoWatch) result(in *demoInput, window time.Duration) *demoFleet {
	r := &demoFleet{WindowSeconds: window.Seconds(), AcquisitionLagSeconds: demoLag.Seconds(), LastDecision: w.last}
	w.course = slices.DeleteFunc(w.course, func(p demoFleetPoint) bool { return p.Seconds > window.Seconds() })
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
	for _, f := range in.flavors {
		if peak := w.peaks[playground.DeploymentName(f.Name)]; peak > 0 {
			r.Flavors = append(r.Flavors, demoFleetMix{f.Name, peak})
		}
	}
	r.Course = thinned(w.course, 12)
	return r
}

// thinned returns so many of the points, at even distances, the last one included.
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

// account adds what became of the pods.
func (r *demoFleet) account(nodes []corev1.Node, replayed *replay.Result) error {
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

// shrink waits until the fleet has no machines any more.
func (r *demoFleet) shrink(ctx context.Context, p *playground.Playground, c client.Client) error {
	began := time.Now()
	for ; ctx.Err() == nil && time.Since(began) < demoShrink; wait(ctx, 100*time.Millisecond) {
		point, _, err := lookAtFleet(ctx, c)
		nodes, listed := p.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil || listed != nil {
			continue
		}
		r.MachinesEnd = max(point.Machines, len(nodes.Items))
		if r.ShrinkSeconds = time.Since(began).Seconds(); r.MachinesEnd == 0 {
			return nil
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("the fleet still has %d machines %v after the last pod has gone", r.MachinesEnd, demoShrink)
}

// bill compares what was paid with a cluster of all machines, if they did the same work: a
// computer that is too busy for the pace leaves pods without machines in time.
func (r *demoFleet) bill() string {
	const most = 0.05 // share of pods that may have found no machine
	paid := fmt.Sprintf("Paid: $%.2f/h, every machine from its order until it had gone", r.DollarsPerHour)
	if pods := r.PodsBound + r.PodsNeverBound; float64(r.PodsNeverBound) > most*float64(pods) {
		return fmt.Sprintf("%s. That is not to be compared with the $%.2f/h of the fixed cluster, for %d of %d pods went before they had one: "+
			"this computer is too busy for the pace; a longer --duration helps.", paid, r.FixedDollarsPerHour, r.PodsNeverBound, pods)
	}
	return fmt.Sprintf("%s; all nodes of the fixed cluster cost $%.2f/h (%+.0f %%).", paid, r.FixedDollarsPerHour, 100*(r.DollarsPerHour/r.FixedDollarsPerHour-1))
}

// write prints the fleet's part of the demo.
func (r *demoFleet) write(w io.Writer) error {
	var mix []string
	for _, f := range r.Flavors {
		mix = append(mix, fmt.Sprintf("%d %s", f.Peak, f.Flavor))
	}
	fmt.Fprintf(w, "\nThe same trace on machines that a NodeFleet buys and gives back (%.1f s from order to ready):\n\n", r.AcquisitionLagSeconds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "seconds\tmachines\tin flight\tpending\t$/h\t")
	top := 0.0
	for _, p := range r.Course {
		top = max(top, p.DollarsPerHour)
	}
	for _, p := range r.Course {
		bar := ""
		if top > 0 {
			bar = strings.Repeat("#", int(20*p.DollarsPerHour/top+0.5))
		}
		fmt.Fprintf(t, "%.0f\t%d\t%d\t%d\t%.2f\t %s\n", p.Seconds, p.Machines, p.InFlight, p.PendingPods, p.DollarsPerHour, bar)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d pods bound, %d never; %.2f s to bind on average, machines to come included, 95 %% within %.2f s.\n",
		r.PodsBound, r.PodsNeverBound, r.TimeToBindMeanSeconds, r.TimeToBindP95Seconds)
	fmt.Fprintf(w, "%d machines at the peak, of each flavor at most %s.\n", r.MachinesPeak, strings.Join(mix, ", "))
	fmt.Fprintln(w, r.bill())
	_, err := fmt.Fprintf(w, "After the last pod all machines were given back within %.0f s. The last decision: %s.\n", r.ShrinkSeconds, r.LastDecision)
	if err != nil || r.Consolidation == nil {
		return err
	}
	return r.Consolidation.write(w)
}
