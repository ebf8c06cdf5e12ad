// Package timebin is the scheduler plugin that places a batch pod on the node whose work ends about when the pod will:
// time-bin best fit, in the order of [packing.CompareTimeBin]. Nodes then become empty as a whole and can be released.
//
// The expected finish of a pod is written in the same call as its binding, so that a restarted scheduler can read it
// from the pods. Services are left to other plugins.
package timebin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	configv1 "supercargo.dev/supercargo/api/config/v1"
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/plugins/learning"
	"supercargo.dev/supercargo/plugins/narrowing"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = narrowing.TimeBin

// Plugin scores nodes for batch pods by time bin and fit and, where it is safe, narrows to one node.
type Plugin struct {
	handle         fwk.Handle
	clock          clock.PassiveClock
	cycle          time.Duration
	defaultRuntime time.Duration
	learner        *runtimes.Learner
	narrower       *narrowing.Narrower
	reserved       *reservations
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.PreScorePlugin    = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.BindPlugin        = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
)

// New returns the plugin's factory for the given clock.
func New(clk clock.PassiveClock) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, ok := obj.(*configv1.TimeBinArgs)
		if !ok {
			return nil, fmt.Errorf("%s: arguments are %T, must be *TimeBinArgs", Name, obj)
		}
		path := field.NewPath("pluginConfig").Key(Name).Child("args")
		if err := configv1.ValidateTimeBinArgs(path, args).ToAggregate(); err != nil {
			return nil, fmt.Errorf("%s: %w", Name, err)
		}
		p := &Plugin{
			handle:         handle,
			clock:          clk,
			cycle:          args.ScalingCycle.Duration,
			defaultRuntime: args.DefaultRuntime.Duration,
			learner:        learning.Shared(ctx, handle.ClientSet()),
			reserved:       newReservations(),
		}
		p.narrower = narrowing.New(narrowing.Options{
			Handle: handle,
			Plugin: Name,
			Never:  args.Narrowing == configv1.NarrowNever,
			Cycle:  p.cycle,
			Finish: p.finish,
			Clock:  clk,
		})
		return p, nil
	}
}

// Name returns the plugin's name.
func (p *Plugin) Name() string { return Name }

func isBatch(pod *corev1.Pod) bool {
	of, _ := class.OfPod(pod)
	return of == class.Batch
}

func (p *Plugin) runtime(pod *corev1.Pod) time.Duration {
	return runtimes.EstimateOf(pod, p.learner, p.defaultRuntime).Runtime
}

// finish returns when a pod on a node is expected to end: never for a service, and false for a pod that runs on every
// node and so says nothing about the node. A pod that is being bound has no annotation yet; the reservation replaces
// it.
func (p *Plugin) finish(pod *corev1.Pod) (time.Time, bool) {
	if !isBatch(pod) {
		return packing.Unending, !class.EveryNode(pod)
	}
	if finish, ok := runtimes.Written(pod); ok {
		p.reserved.drop(pod.UID)
		return finish, true
	}
	if finish, ok := p.reserved.get(pod.UID); ok {
		return finish, true
	}
	return runtimes.Expected(pod, p.learner, p.defaultRuntime), true
}

// PreFilter narrows to the best node if that is proven not to change the placement, and records an Event for a pod with
// a malformed runtime.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !isBatch(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	estimate := runtimes.EstimateOf(pod, p.learner, p.defaultRuntime)
	if _, _, err := runtimes.Declared(pod); err != nil {
		p.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeWarning, v1alpha1.SchedulingReasonInvalidAnnotation, v1alpha1.ActionScheduling,
			"%v; %v (%s) is used", err, estimate.Runtime, estimate.Source)
	}
	return p.narrower.Narrow(ctx, state, narrowing.Request{Pod: pod, Class: class.Batch, Runtime: estimate.Runtime}), nil
}

// PreFilterExtensions returns nil, because simulated additions and removals of pods require no update.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// EventsToRegister returns no events, because BestFit's PostFilter reactivates pods that failed while narrowed.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// PreScore ranks the nodes that passed the filters.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, infos []fwk.NodeInfo) *fwk.Status {
	if !isBatch(pod) {
		return fwk.NewStatus(fwk.Skip)
	}
	runtime := p.runtime(pod)
	narrowing.WriteScores(state, Name, p.narrower.Score(pod, infos, func(nodes []packing.Node) []int64 {
		return packing.TimeBinScores(nodes, runtime, p.cycle)
	}))
	return nil
}

// Score returns the node's score from PreScore: 100 for the best node, less for all others. If a soft preference may
// choose among nodes that fit equally well, all of them have 100; otherwise only the first by name.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	return narrowing.ReadScore(state, Name, info), nil
}

// ScoreExtensions returns nil, because the scores are already in range.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// Reserve records when the pod is expected to end, for pods that are scheduled before its binding is observed.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	if isBatch(pod) {
		p.reserved.add(pod.UID, p.clock.Now(), p.runtime(pod))
	}
	return nil
}

// Unreserve drops the record of Reserve.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.reserved.drop(pod.UID)
}

// Bind binds a batch pod with its expected finish as an annotation on the Binding, which the API server copies to the
// pod in the same write. Services go to the next Bind plugin.
func (p *Plugin) Bind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	if !isBatch(pod) {
		return fwk.NewStatus(fwk.Skip)
	}
	finish, ok := p.reserved.get(pod.UID)
	if !ok { // Reserve is disabled in this profile
		finish = p.clock.Now().Add(p.runtime(pod))
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Annotations: map[string]string{v1alpha1.AnnotationExpectedFinish: runtimes.Format(finish)},
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: nodeName},
	}
	klog.FromContext(ctx).V(3).Info("Attempting to bind pod to node", "pod", klog.KObj(pod), "node", klog.KRef("", nodeName), "expectedFinish", finish)
	if err := p.bind(ctx, binding); err != nil && !p.tookPlace(ctx, binding, err) {
		return fwk.AsStatus(err)
	}
	return nil
}

// bind uses the scheduler's API dispatcher if that is enabled, so that the call is not made twice.
func (p *Plugin) bind(ctx context.Context, binding *corev1.Binding) error {
	cacher := p.handle.APICacher()
	if cacher == nil {
		return p.handle.ClientSet().CoreV1().Pods(binding.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	}
	done, err := cacher.BindPod(binding)
	if err != nil {
		return err
	}
	return cacher.WaitOnFinish(ctx, done)
}

// tookPlace reports whether a binding took effect although the call returned an error, for example because an
// overloaded API server answered too late. If such a binding counted as failed, the scheduler would give the pod's room
// to other pods until it observes the binding.
func (p *Plugin) tookPlace(ctx context.Context, binding *corev1.Binding, cause error) bool {
	pod, err := p.handle.ClientSet().CoreV1().Pods(binding.Namespace).Get(ctx, binding.Name, metav1.GetOptions{})
	if err != nil || pod.UID != binding.UID || pod.Spec.NodeName != binding.Target.Name {
		return false
	}
	klog.FromContext(ctx).Info("The pod was bound although the API call failed", "pod", klog.KObj(pod),
		"node", klog.KRef("", pod.Spec.NodeName), "error", cause)
	return true
}
