// Package nodeclass is a scheduler Filter plugin that keeps batch pods and services on machines of their class, and pods that
// must not be interrupted off spot machines.
package nodeclass

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/capacity"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/plugins/narrowing"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = narrowing.NodeClass

// Plugin rejects nodes of the wrong class. It has no state.
type Plugin struct {
	recorder events.EventRecorder
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
)

// New returns the plugin, which takes no arguments.
func New(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	if args != nil {
		return nil, fmt.Errorf("%s: the plugin has no arguments: remove its pluginConfig", Name)
	}
	p := &Plugin{recorder: handle.EventRecorder()}
	_, err := handle.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { p.reportNode(nil, obj) },
		UpdateFunc: func(before, after any) {
			p.reportNode(before, after)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: watch nodes: %w", Name, err)
	}
	return p, nil
}

// Name returns the plugin's name.
func (p *Plugin) Name() string { return Name }

// PreFilter records an Event for a pod with a malformed class or annotation supercargo.dev/interruptible, once for each attempt instead of once for each node.
func (p *Plugin) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if _, err := class.OfPod(pod); err != nil {
		p.recorder.Eventf(pod, nil, corev1.EventTypeWarning, v1alpha1.SchedulingReasonInvalidLabel, v1alpha1.ActionScheduling, "%v", err)
	}
	if _, err := capacity.Accepts(pod); err != nil {
		p.recorder.Eventf(pod, nil, corev1.EventTypeWarning, v1alpha1.SchedulingReasonInvalidAnnotation, v1alpha1.ActionScheduling, "%v", err)
	}
	return nil, nil
}

// PreFilterExtensions returns nil, because the answer does not depend on other pods.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter admits batch pods to batch machines, services to service machines, both to machines of any class, and the pods
// of a DaemonSet to all. Other pods that must not be interrupted are not admitted to spot machines. Evicting pods would not
// change its answer.
func (p *Plugin) Filter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	if class.EveryNode(pod) {
		return nil
	}
	of, _ := class.OfPod(pod)
	if node, _ := class.OfNode(info.Node(), class.Any); !node.Takes(of) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) took only %s pods and the pod is %s (label %s)", node, of, v1alpha1.LabelClass))
	}
	if accepts, _ := capacity.Accepts(pod); !accepts && capacity.Of(info.Node().Labels) == capacity.Spot {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			"node(s) may be interrupted and the pod must not be (annotation "+v1alpha1.AnnotationInterruptible+")")
	}
	return nil
}

// EventsToRegister returns the events that may make a rejected pod schedulable: a node that accepts its class, or a
// changed label of the pod itself.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}, QueueingHintFn: takenByNode},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}},
	}, nil
}

func takenByNode(_ klog.Logger, pod *corev1.Pod, _, obj any) (fwk.QueueingHint, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return fwk.Queue, fmt.Errorf("expected a Node, got %T", obj)
	}
	of, _ := class.OfPod(pod)
	accepts, _ := capacity.Accepts(pod)
	if c, _ := class.OfNode(node, class.Any); c.Takes(of) && (accepts || capacity.Of(node.Labels) != capacity.Spot) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// reportNode records an Event for a node with a malformed class, once for each value.
func (p *Plugin) reportNode(before, after any) {
	node, ok := after.(*corev1.Node)
	if !ok {
		return
	}
	if old, ok := before.(*corev1.Node); ok && old.Labels[v1alpha1.LabelClass] == node.Labels[v1alpha1.LabelClass] {
		return
	}
	if _, err := class.OfNode(node, class.Any); err != nil {
		p.recorder.Eventf(node, nil, corev1.EventTypeWarning, v1alpha1.SchedulingReasonInvalidLabel, v1alpha1.ActionScheduling, "%v", err)
	}
}
