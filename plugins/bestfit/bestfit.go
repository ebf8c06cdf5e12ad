// Package bestfit is the scheduler plugin that places a pod on the node with the least room left: best fit over
// (memory, CPU), in the order of [packing.CompareFit].
//
// In a profile that also enables the TimeBin plugin, it leaves batch pods to TimeBin.
package bestfit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	configv1 "supercargo.dev/supercargo/api/config/v1"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/plugins/narrowing"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = narrowing.BestFit

// Plugin scores nodes by fit and, where it is safe, narrows to one node.
//
// It does not implement [fwk.SignPlugin], which excludes its profile from opportunistic batching. Batching takes the
// next node from the scores of an earlier pod, which below 100 order nodes only in steps of one percent. Narrowing
// costs as little or less.
type Plugin struct {
	narrower *narrowing.Narrower
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.PreScorePlugin    = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
)

// New returns the plugin's factory for the given clock.
func New(clk clock.PassiveClock) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(_ context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, ok := obj.(*configv1.BestFitArgs)
		if !ok {
			return nil, fmt.Errorf("%s: arguments are %T, must be *BestFitArgs", Name, obj)
		}
		path := field.NewPath("pluginConfig").Key(Name).Child("args")
		if err := configv1.ValidateBestFitArgs(path, args).ToAggregate(); err != nil {
			return nil, fmt.Errorf("%s: %w", Name, err)
		}
		return &Plugin{narrower: narrowing.New(narrowing.Options{
			Handle: handle,
			Plugin: Name,
			Never:  args.Narrowing == configv1.NarrowNever,
			Clock:  clk,
		})}, nil
	}
}

// Name returns the plugin's name.
func (p *Plugin) Name() string { return Name }

// leaves reports whether another plugin places the pod.
func (p *Plugin) leaves(of class.Class) bool {
	return of == class.Batch && p.narrower.TimeBins()
}

// PreFilter narrows to the best node if that is proven not to change the placement.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	of, _ := class.OfPod(pod)
	if p.leaves(of) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return p.narrower.Narrow(ctx, state, narrowing.Request{Pod: pod, Class: of}), nil
}

// PreFilterExtensions returns nil, because simulated additions and removals of pods require no update.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// EventsToRegister returns no events, because PostFilter reactivates pods that failed while narrowed, also by TimeBin.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// PostFilter is the safety net of narrowing, for TimeBin too: a pod that failed while narrowed is tried on all nodes
// next, without preemption. It must be the first PostFilter plugin; otherwise nothing is narrowed.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if status := narrowing.Rescue(ctx, state, pod, statuses); status != nil {
		return nil, status
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// PreScore ranks the nodes that passed the filters.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, infos []fwk.NodeInfo) *fwk.Status {
	of, _ := class.OfPod(pod)
	if p.leaves(of) {
		return fwk.NewStatus(fwk.Skip)
	}
	narrowing.WriteScores(state, Name, p.narrower.Score(pod, infos, packing.FitScores))
	return nil
}

// Score returns the node's score from PreScore: 100 for the best node, less for all others. If a soft preference may
// choose among nodes that fit equally well, all of them have 100; otherwise only the first by name.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	return narrowing.ReadScore(state, Name, info), nil
}

// ScoreExtensions returns nil, because the scores are already in range.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }
