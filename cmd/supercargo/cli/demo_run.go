package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/replay"
	"supercargo.dev/supercargo/lab/report"
)

// replayDemo replays the trace on a fixed cluster and then, if asked, on a fleet.
func replayDemo(ctx context.Context, in *demoInput, progress *demoProgress) (*demoDocument, error) {
	began := time.Now()
	doc, err := replayProfiles(ctx, in, progress)
	if err != nil {
		return nil, err
	}
	if in.fleet {
		scale := replay.Scale{Arrivals: doc.Scale.Arrivals, Lifetimes: doc.Scale.Lifetimes}
		if doc.Fleet, err = replayFleet(ctx, in, scale, doc.Cluster.DollarsPerHour, progress); err != nil {
			return nil, fmt.Errorf("fleet: %w", err)
		}
	}
	doc.WallSeconds = time.Since(began).Seconds()
	return doc, nil
}

// replayProfiles starts a playground, replays the trace with one profile after the
// other and stops the playground again.
func replayProfiles(ctx context.Context, in *demoInput, progress *demoProgress) (doc *demoDocument, err error) {
	progress.say("starting a control plane with %d nodes", in.nodes)
	p, err := startDemo(ctx, in)
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopped := p.Stop(); stopped != nil {
			err = errors.Join(err, fmt.Errorf("stop the control plane: %w", stopped))
		}
	}()

	machines, err := demoMachines(ctx, p)
	if err != nil {
		return nil, err
	}
	scale := replay.Scale{
		Arrivals:  replay.FitArrivals(in.workload.Pods, in.duration*9/10),
		Lifetimes: in.timeScale,
	}
	doc = newDemoDocument(in, scale, machines)
	for _, profile := range in.profiles {
		result, err := replayProfile(ctx, p, in, profile, scale, progress)
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", profile.name, err)
		}
		usage, err := report.Account(machines, result.Stays, result.Window)
		if err != nil {
			return nil, fmt.Errorf("profile %s: account for the replay: %w", profile.name, err)
		}
		doc.add(profile.name, usage, result)
	}
	return doc, nil
}

// startDemo starts a playground that outlives ctx, so that a replay which is
// interrupted can still remove its pods. The caller stops it.
func startDemo(ctx context.Context, in *demoInput) (*playground.Playground, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	keep := context.AfterFunc(ctx, cancel) // but not while it starts
	p, err := playground.Start(own, playground.Options{Nodes: demoNodes(in), NoScheduler: true})
	if err != nil {
		cancel()
		return nil, err
	}
	keep()
	return p, nil
}

// demoNodes makes the nodes: FLAVOR-N, of all flavors in turn.
func demoNodes(in *demoInput) []playground.NodeSpec {
	specs := make([]playground.NodeSpec, in.nodes)
	for i := range specs {
		f := in.flavors[i%len(in.flavors)]
		specs[i] = playground.NodeSpec{
			Name:        f.Name + "-" + strconv.Itoa(i/len(in.flavors)),
			CPU:         strconv.FormatInt(f.MilliCPU, 10) + "m",
			Memory:      strconv.FormatInt(f.MemoryBytes, 10),
			Pods:        int(f.MaxPods),
			MachineType: f.MachineType,
			Labels:      map[string]string{corev1.LabelInstanceTypeStable: f.Name},
			Annotations: map[string]string{v1alpha1.AnnotationPricePerHour: dollarsText(f.MicroDollarsPerHour)},
		}
		if f.Arch != "" {
			specs[i].Labels[corev1.LabelArchStable] = f.Arch
		}
	}
	return specs
}

// demoMachines reads the nodes back as the API server has them.
func demoMachines(ctx context.Context, p *playground.Playground) ([]report.Machine, error) {
	nodes, err := p.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return replay.Machines(nodes.Items)
}

// replayProfile replays the trace with one scheduler.
func replayProfile(ctx context.Context, p *playground.Playground, in *demoInput, profile demoProfile, scale replay.Scale, progress *demoProgress) (*replay.Result, error) {
	scheduler, err := p.StartScheduler(ctx, profile.config)
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
	progress.begin(profile.name)
	result, err := replay.Run(ctx, replay.Options{
		Client: p.Client(), Pods: in.workload.Pods, Scale: scale, Window: in.duration,
		Run: profile.name, Progress: progress.show,
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
		if p.Class == trace.ClassBatch {
			n++
		}
	}
	return n
}
