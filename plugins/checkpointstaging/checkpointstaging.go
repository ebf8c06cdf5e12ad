// Package checkpointstaging is the scheduler plugin that places the new pod of a migration: only on a node that can
// restore its container, and only after its checkpoint is there.
//
// The plugin handles only pods with the label supercargo.dev/migration. It finds the pod's Migration, filters the nodes
// that meet the checkpoint's requirements, writes the chosen node into the Migration's status as reserved, and holds
// the pod in PreBind, with its resources reserved, until the agent of that node reports that the image is staged.
// Package [decide] makes all decisions. All state is in the Migration, so that another scheduler can continue.
package checkpointstaging

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	configv1 "supercargo.dev/supercargo/api/config/v1"
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/plugins/checkpointstaging/stagingdecide"
	"supercargo.dev/supercargo/plugins/narrowing"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = narrowing.CheckpointStaging

const stateKey fwk.StateKey = "supercargo.dev/checkpoint-staging"

// Plugin places and holds the new pods of migrations.
type Plugin struct {
	handle     fwk.Handle
	clock      clock.Clock
	timeout    time.Duration
	migrations migrations
	// nodes are the parsed node annotations of the last cycle that used them. They belong to the scheduling cycle,
	// which places one pod at a time.
	nodes map[string]parsedNode
}

// migrations reads and writes Migrations.
type migrations interface {
	// cached returns the Migration from the cache, or nil if there is none. It makes no API call, and returns an error
	// until the cache is filled.
	cached(namespace, name string) (*v1alpha1.Migration, error)
	// live returns the Migration from the API server, or nil if there is none.
	live(ctx context.Context, namespace, name string) (*v1alpha1.Migration, error)
	// reserve writes the reservation, or removes it if r is nil. If the Migration has changed since it was read, the
	// error is a conflict.
	reserve(ctx context.Context, read *v1alpha1.Migration, r *v1alpha1.MigrationReservation) (*v1alpha1.Migration, error)
	// subscribe returns a channel that receives a value after a change of the Migration or the pods with one of the
	// UIDs, and a function that ends the subscription.
	subscribe(uids ...types.UID) (<-chan struct{}, func())
	// clearNominatedNode clears the nominated node in the pod's status, if the UID still matches.
	clearNominatedNode(ctx context.Context, pod *corev1.Pod) error
	// pod returns the pod from the cache, or nil if it does not exist any more or has ended.
	pod(namespace, name string, uid types.UID) *corev1.Pod
}

type parsedNode struct {
	node capability.Node
	err  error
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.PreBindPlugin     = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
)

// New returns the plugin's factory. The clock measures how long pods are held.
func New(clk clock.Clock) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, ok := obj.(*configv1.CheckpointStagingArgs)
		if !ok {
			return nil, fmt.Errorf("%s: arguments are %T, must be *CheckpointStagingArgs", Name, obj)
		}
		path := field.NewPath("pluginConfig").Key(Name).Child("args")
		if err := configv1.ValidateCheckpointStagingArgs(path, args).ToAggregate(); err != nil {
			return nil, fmt.Errorf("%s: %w", Name, err)
		}
		RegisterMetrics()
		return &Plugin{handle: handle, clock: clk, timeout: args.Timeout.Duration, migrations: watched(ctx, handle)}, nil
	}
}

// Name returns the plugin's name.
func (p *Plugin) Name() string { return Name }

// moves reports whether the pod is the new pod of a migration.
func moves(pod *corev1.Pod) bool { return pod.Labels[v1alpha1.LabelMigration] != "" }

// subject returns the pod as [decide] needs it.
func subject(pod *corev1.Pod) stagingdecide.Pod {
	return stagingdecide.Pod{Name: pod.Name, UID: pod.UID, Migration: types.UID(pod.Labels[v1alpha1.LabelMigration])}
}

// state is what the plugin stores about a pod from PreFilter to Unreserve.
type state struct {
	// only is the single suitable node, or empty.
	only string
	// verdicts maps each capability annotation to the reason why a node with it is unsuitable; empty if it is suitable.
	verdicts map[string]string
	// held reports that PreBind has started; reserved reports that it found or made the pod's own reservation.
	held, reserved bool
	// outcome is how PreBind ended.
	outcome stagingdecide.Next
}

// Clone returns the same value. The scheduler clones a state to simulate evictions, which do not change it.
func (s *state) Clone() fwk.StateData { return s }

func read(cycle fwk.CycleState) *state {
	data, err := cycle.Read(stateKey)
	if err != nil {
		return nil
	}
	return data.(*state)
}

// PreFilter finds the pod's migration, and parses its requirements and the capabilities of nodes, each distinct
// annotation once. Cost for the new pod of a migration: one lookup by annotation for each node. PreFilter and Filter
// skip other pods.
func (p *Plugin) PreFilter(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !moves(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	requirements, err := capability.ParseRequirements(pod.Annotations[v1alpha1.AnnotationRequirements])
	if err != nil {
		return nil, refuse(err.Error())
	}
	m, err := p.migrations.cached(pod.Namespace, pod.Annotations[v1alpha1.AnnotationMigrationName])
	if err != nil {
		return nil, refuse(err.Error())
	}
	place := stagingdecide.Place(m, subject(pod), p.clock.Now())
	if place.Refusal != "" {
		return nil, refuse("the pod " + place.Refusal)
	}
	cycle.Write(stateKey, &state{only: place.Node, verdicts: p.verdicts(requirements, nodes)})
	return nil, nil
}

// refuse returns a rejection that evictions cannot resolve. It returns a new status for each call, because the
// framework modifies it.
func refuse(why string) *fwk.Status { return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why) }

// verdicts compares the requirements with each distinct annotation of the nodes.
func (p *Plugin) verdicts(requirements capability.Requirements, nodes []fwk.NodeInfo) map[string]string {
	known := make(map[string]parsedNode, len(p.nodes))
	verdicts := make(map[string]string, len(p.nodes))
	for _, info := range nodes {
		text := info.Node().Annotations[v1alpha1.AnnotationCapability]
		if _, done := verdicts[text]; done {
			continue
		}
		parsed, ok := p.nodes[text]
		if !ok {
			parsed = parse(text)
		}
		known[text] = parsed
		verdicts[text] = verdict(requirements, text, parsed)
	}
	p.nodes = known // drops annotations that no node has any more
	return verdicts
}

func parse(text string) (p parsedNode) {
	p.node, p.err = capability.ParseNode(text)
	return p
}

func verdict(requirements capability.Requirements, text string, parsed parsedNode) string {
	if text == "" {
		return "node(s) had no node-agent that could restore a checkpoint"
	}
	if parsed.err != nil {
		return "node(s) could not restore the checkpoint: " + parsed.err.Error()
	}
	if err := requirements.Fits(parsed.node); err != nil {
		return "node(s) could not restore the checkpoint: the node " + err.Error()
	}
	return ""
}

// PreFilterExtensions returns nil, because the answer does not depend on other pods.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter admits the new pod of a migration to nodes that can restore it and, once its checkpoint is being transferred,
// to its reserved node only.
func (p *Plugin) Filter(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	if !moves(pod) {
		return nil
	}
	s := read(cycle)
	if s == nil {
		return unprepared(pod)
	}
	node := info.Node()
	if s.only != "" && s.only != node.Name {
		return refuse("node(s) were not the one that receives the checkpoint")
	}
	switch verdict, known := s.verdicts[node.Annotations[v1alpha1.AnnotationCapability]]; {
	case !known:
		return refuse("node(s) could not restore the checkpoint: the node was added during this scheduling attempt")
	case verdict != "":
		return refuse(verdict)
	}
	return nil
}

func unprepared(pod *corev1.Pod) *fwk.Status {
	return fwk.AsStatus(fmt.Errorf("pod %s is the new pod of a migration, and preFilter of %s did not run: enable the plugin at preFilter too, or at multiPoint", klog.KObj(pod), Name))
}

// PostFilter prevents preemption for the new pod of a migration. It also clears the nomination: without an answer, a
// pod that fits nowhere would stay nominated to the node on which it was held before, and reserve room there. It must
// come before DefaultPreemption.
func (p *Plugin) PostFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if moves(pod) {
		return framework.NewPostFilterResultWithNominatedNode(""), refuse("no pods are preempted for the new pod of a migration")
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// EventsToRegister returns the event that may make a rejected pod schedulable: a node that can restore it. Changes of
// Migrations are not registered, because then the scheduler would not start without the kind. The plugin itself
// activates such pods instead.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAnnotation}, QueueingHintFn: restoredByNode},
	}, nil
}

func restoredByNode(_ klog.Logger, pod *corev1.Pod, _, obj any) (fwk.QueueingHint, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return fwk.Queue, fmt.Errorf("expected a Node, got %T", obj)
	}
	requirements, err := capability.ParseRequirements(pod.Annotations[v1alpha1.AnnotationRequirements])
	if err != nil {
		return fwk.QueueSkip, nil // no node helps
	}
	// An unreadable annotation means no capability; a restart may still go there.
	able, _ := capability.ParseNode(node.Annotations[v1alpha1.AnnotationCapability])
	if requirements.Fits(able) != nil {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}
