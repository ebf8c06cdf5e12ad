package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/plugins"
)

// SchedulerOptions configures a [Scheduler].
type SchedulerOptions struct {
	// Configuration is a KubeSchedulerConfiguration in YAML. All its profiles are available; each
	// pod names one.
	Configuration []byte
	// Clock is the clock of Supercargo's plugins.
	Clock clock.PassiveClock
	// Namespaces are the namespaces that the plugins can look up.
	Namespaces []*corev1.Namespace
	// Plugins are registered in addition to those of the image.
	Plugins runtime.Registry
	// Recorder receives the plugins' Events. Nil drops them.
	Recorder events.EventRecorderLogger
}

// Scheduler is the real kube-scheduler algorithm on an in-memory cluster, without API server, queue
// and binding. It is not safe for concurrent use.
type Scheduler struct {
	*scheduler.Scheduler
	ctx    context.Context
	client kubernetes.Interface
}

// NewScheduler returns a scheduler that lives until ctx ends. The error for an invalid
// configuration names the field.
func NewScheduler(ctx context.Context, o SchedulerOptions) (*Scheduler, error) {
	config, err := decode(o.Configuration)
	if err != nil {
		return nil, err
	}
	registry := plugins.Registry(o.Clock)
	maps.Copy(registry, o.Plugins)
	objects := make([]apiruntime.Object, len(o.Namespaces))
	for i, ns := range o.Namespaces {
		objects[i] = ns
	}
	s := &Scheduler{ctx: klog.NewContext(ctx, logr.Discard()), client: fake.NewClientset(objects...)}
	if o.Recorder == nil {
		o.Recorder = noEvents{}
	}
	metrics.Register()
	factory := informers.NewSharedInformerFactory(s.client, 0)
	s.Scheduler, err = scheduler.New(s.ctx, s.client, factory, nil,
		recorders(o.Recorder),
		scheduler.WithParallelism(1),
		scheduler.WithProfiles(config.Profiles...),
		scheduler.WithPercentageOfNodesToScore(config.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(registry))
	if err != nil {
		return nil, fmt.Errorf("create a scheduler: %w", err)
	}
	factory.Start(s.ctx.Done())
	if err := synced(s.ctx, factory); err != nil {
		return nil, err
	}
	return s, nil
}

// synced waits until the informers have synced. Their own wait takes at least 100 ms, half of a
// short run.
func synced(ctx context.Context, factory informers.SharedInformerFactory) error {
	now := make(chan struct{})
	close(now)
	return wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) {
		for _, is := range factory.WaitForCacheSync(now) {
			if !is {
				return false, nil
			}
		}
		return true, nil
	})
}

// decode reads a KubeSchedulerConfiguration as kube-scheduler does, with its
// defaults.
func decode(configuration []byte) (*schedconfig.KubeSchedulerConfiguration, error) {
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode(configuration, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode the scheduler's configuration: %w", err)
	}
	config, ok := obj.(*schedconfig.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("decode the scheduler's configuration: it is a %T: must be a KubeSchedulerConfiguration", obj)
	}
	return config, nil
}

// encoder returns an encoder of KubeSchedulerConfigurations in version v1.
func encoder() (apiruntime.Encoder, error) {
	info, ok := apiruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), apiruntime.ContentTypeYAML)
	if !ok {
		return nil, errors.New("the scheduler's scheme does not support YAML")
	}
	return scheme.Codecs.EncoderForVersion(info.Serializer, kubeschedulerv1.SchemeGroupVersion), nil
}

// Attempt is one pass of the scheduling algorithm for one pod.
type Attempt struct {
	// Node is the selected node, or empty.
	Node string
	// Evaluated is the number of filtered nodes.
	Evaluated int
	// Err is the reason why no node was selected.
	Err error
	// State is the cycle state.
	State fwk.CycleState
	// Framework is the framework of the pod's profile.
	Framework framework.Framework
}

// Attempt runs the scheduling algorithm for the pod, without side effects.
func (s *Scheduler) Attempt(pod *corev1.Pod) Attempt {
	a := Attempt{State: framework.NewCycleState(), Framework: s.Profiles[pod.Spec.SchedulerName]}
	if a.Framework == nil {
		a.Err = fmt.Errorf("pod %s: no profile has the name %q", pod.Name, pod.Spec.SchedulerName)
		return a
	}
	result, err := schedulePod(s.ctx, s.Scheduler, a, pod)
	if s.ctx.Err() != nil { // the scheduler then returns any node, or none, without an error
		err = s.ctx.Err()
	}
	a.Node, a.Evaluated, a.Err = result.SuggestedHost, result.EvaluatedNodes, err
	return a
}

// Assume assigns the pod to the node of the attempt and runs the Reserve plugins, as the scheduling
// cycle does. It returns the assigned pod.
func (s *Scheduler) Assume(pod *corev1.Pod, a Attempt) (*corev1.Pod, error) {
	placed := pod.DeepCopy()
	placed.Spec.NodeName = a.Node
	if err := s.AddPod(placed); err != nil {
		return nil, err
	}
	if status := a.Framework.RunReservePluginsReserve(s.ctx, a.State, placed, a.Node); !status.IsSuccess() {
		a.Framework.RunReservePluginsUnreserve(s.ctx, a.State, placed, a.Node)
		return nil, errors.Join(fmt.Errorf("reserve node %s for pod %s: %w", a.Node, pod.Name, status.AsError()), s.RemovePod(placed))
	}
	return placed, nil
}

// AddNode adds a node.
func (s *Scheduler) AddNode(node *corev1.Node) { s.Cache.AddNode(klog.FromContext(s.ctx), node) }

// UpdateNode updates a node.
func (s *Scheduler) UpdateNode(before, after *corev1.Node) {
	s.Cache.UpdateNode(klog.FromContext(s.ctx), before, after)
}

// RemoveNode removes a node.
func (s *Scheduler) RemoveNode(node *corev1.Node) error {
	return s.Cache.RemoveNode(klog.FromContext(s.ctx), node)
}

// AddPod adds a pod to the node in its spec, no matter who bound it.
func (s *Scheduler) AddPod(pod *corev1.Pod) error {
	return s.Cache.AddPod(klog.FromContext(s.ctx), pod)
}

// RemovePod removes an assigned pod.
func (s *Scheduler) RemovePod(pod *corev1.Pod) error {
	return s.Cache.RemovePod(klog.FromContext(s.ctx), pod)
}
