// Package demo implements `supercargo demo`. It replays one trace in compressed time on a
// playground with the stock scheduler and with Supercargo's, then on a NodeFleet that buys and
// releases machines, and then shows how the fleet consolidates Jobs.
//
// [Run] runs it, and [Document] prints the result. The caller provides the trace, machines and
// profiles: this package reads no file and has no flags. Package compressed has the settings for
// compressed time, package replay replays a trace, and package report computes the figures.
//
// Files in reading order: demo.go (input, Run, one replay), pace.go (when and how it is slowed down),
// fleet.go (the part on a fleet), consolidation.go (the part in which pods move), document.go
// (output), progress.go (progress messages).
package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/lab/compressed"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/replay"
	"supercargo.dev/supercargo/lab/report"
)

// Input is the configuration of a demo.
type Input struct {
	// TraceName is the name of the trace in results.
	TraceName string
	// Workload has at least one pod, in order of arrival.
	Workload *trace.Trace
	// Flavors has at least one flavor. The nodes of the fixed cluster cycle through them.
	Flavors []catalogue.Flavor
	Nodes   int
	// Duration is the time to replay the trace with each profile. Arrivals are compressed into nine
	// tenths of it.
	Duration time.Duration
	// TimeScale is the number of seconds of a recorded lifetime that pass in one second.
	TimeScale float64
	// MaxSlowdown is how many times as long each replay may take, at least 1. A replay that the control
	// plane does not keep up with begins again at half of its speed, and all later ones have that speed.
	MaxSlowdown float64
	// Profiles has at least one profile, in the order in which they run.
	Profiles []Profile
	// Fleet configures a further replay on machines that are bought and released. Nil skips it.
	Fleet *FleetInput
	// Consolidation adds a part in which half of the fleet's Jobs end and the others are moved
	// together.
	Consolidation bool
	// Watch is called with each control plane and the width of its time bins. It must return when
	// its context ends, which is before the control plane stops. Nil disables it.
	Watch func(ctx context.Context, config *rest.Config, cycle time.Duration)
}

// watch runs in.Watch on a control plane until the returned function is called.
func (in *Input) watch(ctx context.Context, p *playground.Playground, timeScale float64) (end func()) {
	if in.Watch == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { in.Watch(ctx, p.Config(), compressed.Cycle(timeScale)) })
	return func() {
		cancel()
		group.Wait()
	}
}

// FleetInput configures the replay on a fleet. It has its own pace, because each pod costs the
// control plane more when machines come and go.
type FleetInput struct {
	// Duration is the time to replay the trace. Arrivals are compressed into nine tenths of it.
	Duration time.Duration
	// TimeScale is the number of seconds of a recorded lifetime that pass in one second.
	TimeScale float64
	Scheduler SchedulerConfig
}

// SchedulerConfig returns a KubeSchedulerConfiguration for a trace whose lifetimes are divided by
// timeScale; nil is the stock one.
type SchedulerConfig func(timeScale float64) ([]byte, error)

// Profile is a scheduler to replay the trace with.
type Profile struct {
	Name   string
	Config SchedulerConfig
}

// Run replays the trace on a fixed cluster and then, if requested, on a fleet. It starts control
// planes on this machine, one after the other, and returns when it is done or ctx ends, after
// stopping everything that it started. A [controlplane.InputError] means that a profile's
// configuration is invalid.
func Run(ctx context.Context, in *Input, progress *Progress) (*Document, error) {
	began := time.Now()
	p := &pace{slowdown: 1, most: in.MaxSlowdown}
	doc, err := replayProfiles(ctx, in, p, progress)
	if err != nil {
		return nil, err
	}
	doc.Speed = p.speed()
	if in.Fleet != nil {
		if doc.Fleet, err = replayFleet(ctx, in, p, doc.Cluster.DollarsPerHour, progress); err != nil {
			return nil, fmt.Errorf("fleet: %w", err)
		}
	}
	doc.WallSeconds = time.Since(began).Seconds()
	return doc, nil
}

// replayProfiles starts a playground, replays the trace with one profile after another, all at the
// same speed, and stops the playground.
func replayProfiles(ctx context.Context, in *Input, p *pace, progress *Progress) (doc *Document, err error) {
	progress.say("starting a control plane with %s", plural.Count(in.Nodes, "node"))
	control, err := start(ctx, playground.Options{Nodes: nodesOf(in), NoScheduler: true})
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopped := control.Stop(); stopped != nil {
			err = errors.Join(err, fmt.Errorf("stop the control plane: %w", stopped))
		}
	}()

	machines, err := machinesOf(ctx, control)
	if err != nil {
		return nil, err
	}
	for {
		doc, err = replayAll(ctx, control, in, machines, p, progress)
		if !progress.slower(err, p) {
			return doc, err
		}
	}
}

// replayAll replays the trace with one profile after another.
func replayAll(ctx context.Context, control *playground.Playground, in *Input, machines []report.Machine, p *pace, progress *Progress) (*Document, error) {
	scale := scaleOf(in, in.Duration, in.TimeScale, p)
	defer in.watch(ctx, control, scale.Lifetimes)()
	doc := newDocument(in, scale, machines)
	for _, profile := range in.Profiles {
		config, err := profile.Config(scale.Lifetimes)
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", profile.Name, err)
		}
		m := newMonitor(p)
		result, err := replayProfile(ctx, control, in, profile.Name, config, scale, p.slow(in.Duration), progress, func(now replay.Progress) *behind {
			return m.observe(now.Elapsed, fixedReadings(now))
		})
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", profile.Name, err)
		}
		usage, err := report.Account(machines, result.Stays, result.Window)
		if err != nil {
			return nil, fmt.Errorf("profile %s: account for the replay: %w", profile.Name, err)
		}
		doc.add(profile.Name, p.atFullSpeed(usage), result)
	}
	return doc, nil
}

// scaleOf returns the scale that compresses the trace into a window, both given for the full speed.
func scaleOf(in *Input, window time.Duration, timeScale float64, p *pace) replay.Scale {
	return replay.Scale{Arrivals: replay.FitArrivals(in.Workload.Pods, p.slow(window*9/10)), Lifetimes: timeScale / p.slowdown}
}

// start starts a playground that outlives ctx, so that an interrupted replay can still delete its
// pods. The caller must stop it.
func start(ctx context.Context, o playground.Options) (*playground.Playground, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	keep := context.AfterFunc(ctx, cancel) // cancels only while the playground starts
	p, err := playground.Start(own, o)
	if err != nil {
		cancel()
		return nil, err
	}
	keep()
	return p, nil
}

// nodesOf returns the nodes, named FLAVOR-N, cycling through the flavors.
func nodesOf(in *Input) []playground.NodeSpec {
	specs := make([]playground.NodeSpec, in.Nodes)
	for i := range specs {
		f := in.Flavors[i%len(in.Flavors)]
		specs[i] = playground.NodeSpec{
			Name:        f.Name + "-" + strconv.Itoa(i/len(in.Flavors)),
			CPU:         strconv.FormatInt(f.Size.MilliCPU, 10) + "m",
			Memory:      strconv.FormatInt(f.Size.MemoryBytes, 10),
			Pods:        int(ptr.Deref(f.MaxPods, 0)),
			MachineType: f.MachineType,
			Labels:      map[string]string{corev1.LabelInstanceTypeStable: f.Name},
			Annotations: map[string]string{v1alpha1.AnnotationPricePerHour: dollars.Format(f.MicroDollarsPerHour)},
		}
		if f.Arch != "" {
			specs[i].Labels[corev1.LabelArchStable] = f.Arch
		}
	}
	return specs
}

// machinesOf reads the nodes back from the API server.
func machinesOf(ctx context.Context, p *playground.Playground) ([]report.Machine, error) {
	nodes, err := p.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return replay.Machines(nodes.Items)
}

// replayProfile replays the trace with one scheduler. It ends early, with its error, when lags
// returns one.
func replayProfile(
	ctx context.Context, p *playground.Playground, in *Input, name string, config []byte, scale replay.Scale, window time.Duration, progress *Progress,
	lags func(replay.Progress) *behind,
) (*replay.Result, error) {
	scheduler, err := p.StartScheduler(ctx, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // end the replay if the control plane fails
		select {
		case <-p.Done():
			cancel(nil)
		case <-ctx.Done():
		}
	}()
	progress.begin(name)
	result, err := replay.Run(ctx, replay.Options{
		Client: p.Client(), Pods: in.Workload.Pods, Scale: scale, Window: window, Run: name,
		Progress: func(now replay.Progress) {
			progress.show(now)
			if late := lags(now); late != nil {
				cancel(late)
			}
		},
	})
	progress.end()
	if late := (*behind)(nil); errors.As(context.Cause(ctx), &late) && errors.Is(err, context.Canceled) {
		err = late
	}
	if died := p.Err(); died != nil {
		err = died
	}
	return result, errors.Join(err, scheduler.Stop())
}

// countBatch returns the number of batch pods.
func countBatch(pods []trace.Pod) int {
	n := 0
	for _, p := range pods {
		if p.Class == class.Batch {
			n++
		}
	}
	return n
}
