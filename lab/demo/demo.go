// Package demo is the demonstration that `supercargo demo` gives: one trace in compressed time
// on a playground with the stock scheduler and with Supercargo's, then on a NodeFleet that buys
// machines and gives them back, and then Jobs that the fleet moves together.
//
// [Run] runs it, and the [Document] that it returns prints what came of it. Who calls it says
// which trace, machines and profiles: this package reads no file and knows no flag. How time is
// compressed is in package compressed, how a trace is replayed in package replay, and what
// figures are made of that in package report.
//
// Files in the order of reading: demo.go (input, Run, one replay), fleet.go (the part on a
// fleet), consolidation.go (the part in which pods move), document.go (what is printed),
// progress.go (messages of progress).
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
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/lab/compressed"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/replay"
	"supercargo.dev/supercargo/lab/report"
	"supercargo.dev/supercargo/lab/trace"
)

// Input is what to show.
type Input struct {
	// TraceName is what the trace is called where results are printed.
	TraceName string
	// Workload has one pod or more, in the order of arrival.
	Workload *trace.Trace
	// Flavors are one or more. The nodes of the fixed cluster are of all in turn.
	Flavors []catalogue.Flavor
	Nodes   int
	// Duration is how long the trace is replayed with each profile: arrivals are squeezed into
	// nine tenths of it.
	Duration time.Duration
	// TimeScale is how many seconds of a recorded lifetime pass in one second.
	TimeScale float64
	// Profiles are one or more, in the order in which they run.
	Profiles []Profile
	// Fleet has the trace replayed once more, on machines that are bought and released. Nil
	// leaves that out.
	Fleet *FleetInput
	// Consolidation has half of the fleet's Jobs end, and the others moved together.
	Consolidation bool
	// Watch is called with each control plane and the width of the time bins there, and returns when
	// its context ends, before the control plane stops. Nil watches nothing.
	Watch func(ctx context.Context, config *rest.Config, cycle time.Duration)
}

// watch has a control plane watched until the function that it returns is called.
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

// FleetInput says how the trace is replayed on a fleet: like the fixed cluster's replay, but
// at a pace of its own, for each pod costs the control plane more where machines come and go.
type FleetInput struct {
	// Duration is how long the trace is replayed: arrivals are squeezed into nine tenths of it.
	Duration time.Duration
	// TimeScale is how many seconds of a recorded lifetime pass in one second.
	TimeScale float64
	// Scheduler is a KubeSchedulerConfiguration; nil is the stock one.
	Scheduler []byte
}

// Profile is a scheduler to replay the trace with.
type Profile struct {
	Name string
	// Config is a KubeSchedulerConfiguration; nil is the stock one.
	Config []byte
}

// Run replays the trace on a fixed cluster and then, if asked, on a fleet. It starts control
// planes on this machine, one after the other, and has stopped all that it has started when it
// returns, which takes until it is done or ctx ends. An error that is a
// [playground.InputError] is the fault of a profile's configuration.
func Run(ctx context.Context, in *Input, progress *Progress) (*Document, error) {
	began := time.Now()
	doc, err := replayProfiles(ctx, in, progress)
	if err != nil {
		return nil, err
	}
	if in.Fleet != nil {
		if doc.Fleet, err = replayFleet(ctx, in, doc.Cluster.DollarsPerHour, progress); err != nil {
			return nil, fmt.Errorf("fleet: %w", err)
		}
	}
	doc.WallSeconds = time.Since(began).Seconds()
	return doc, nil
}

// replayProfiles starts a playground, replays the trace with one profile after the
// other and stops the playground again.
func replayProfiles(ctx context.Context, in *Input, progress *Progress) (doc *Document, err error) {
	progress.say("starting a control plane with %d nodes", in.Nodes)
	p, err := start(ctx, playground.Options{Nodes: nodesOf(in), NoScheduler: true})
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopped := p.Stop(); stopped != nil {
			err = errors.Join(err, fmt.Errorf("stop the control plane: %w", stopped))
		}
	}()

	defer in.watch(ctx, p, in.TimeScale)()
	machines, err := machinesOf(ctx, p)
	if err != nil {
		return nil, err
	}
	scale := scaleOf(in, in.Duration, in.TimeScale)
	doc = newDocument(in, scale, machines)
	for _, profile := range in.Profiles {
		result, err := replayProfile(ctx, p, in, profile, scale, in.Duration, progress)
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", profile.Name, err)
		}
		usage, err := report.Account(machines, result.Stays, result.Window)
		if err != nil {
			return nil, fmt.Errorf("profile %s: account for the replay: %w", profile.Name, err)
		}
		doc.add(profile.Name, usage, result)
	}
	return doc, nil
}

// scaleOf compresses the trace of in into a window.
func scaleOf(in *Input, window time.Duration, timeScale float64) replay.Scale {
	return replay.Scale{Arrivals: replay.FitArrivals(in.Workload.Pods, window*9/10), Lifetimes: timeScale}
}

// start starts a playground that outlives ctx, so that a replay which is interrupted can still
// remove its pods. The caller stops it.
func start(ctx context.Context, o playground.Options) (*playground.Playground, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	keep := context.AfterFunc(ctx, cancel) // but not while it starts
	p, err := playground.Start(own, o)
	if err != nil {
		cancel()
		return nil, err
	}
	keep()
	return p, nil
}

// nodesOf makes the nodes: FLAVOR-N, of all flavors in turn.
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

// machinesOf reads the nodes back as the API server has them.
func machinesOf(ctx context.Context, p *playground.Playground) ([]report.Machine, error) {
	nodes, err := p.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return replay.Machines(nodes.Items)
}

// replayProfile replays the trace with one scheduler.
func replayProfile(ctx context.Context, p *playground.Playground, in *Input, profile Profile, scale replay.Scale, window time.Duration, progress *Progress) (*replay.Result, error) {
	scheduler, err := p.StartScheduler(ctx, profile.Config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // without a control plane there is nothing to wait for
		select {
		case <-p.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	progress.begin(profile.Name)
	result, err := replay.Run(ctx, replay.Options{
		Client: p.Client(), Pods: in.Workload.Pods, Scale: scale, Window: window,
		Run: profile.Name, Progress: progress.show,
	})
	progress.end()
	if died := p.Err(); died != nil {
		err = died
	}
	return result, errors.Join(err, scheduler.Stop())
}

// countBatch counts the pods of a trace that are batch.
func countBatch(pods []trace.Pod) int {
	n := 0
	for _, p := range pods {
		if p.Class == class.Batch {
			n++
		}
	}
	return n
}
