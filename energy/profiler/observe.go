package profiler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/probe"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/profiler/profilerdecide"
	"supercargo.dev/supercargo/energy/profiler/record"
	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/internal/world"
)

// labelControlPlane is on nodes of the control plane.
const labelControlPlane = "node-role.kubernetes.io/control-plane"

// round is one round, with the state of the cluster that it observed.
type round struct {
	*Profiler
	world *world.World
	view  *world.View
	now   time.Time
	// paused is whether the cluster is paused.
	paused pause.State
	// waiting are the pending pods, without those of probes.
	waiting []world.Waiting
	// profiles are the profiles in use, and jobs those of probes, both by machine type.
	profiles map[string]*v1alpha1.MachineProfile
	jobs     map[string]*batchv1.Job
	types    []profilerdecide.Type
	hardware map[string]*v1alpha1.MachineHardware // by fingerprint
}

func machineTypeOf(n *corev1.Node) string { return score.MachineType(n.Labels) }

// observe reads the cluster.
func (p *Profiler) observe(ctx context.Context) (*round, error) {
	w, err := world.Read(ctx, p.Client, true)
	if err != nil {
		return nil, err
	}
	r := &round{
		Profiler: p, world: w, now: p.Clock.Now(), profiles: map[string]*v1alpha1.MachineProfile{}, jobs: map[string]*batchv1.Job{},
		hardware: map[string]*v1alpha1.MachineHardware{},
	}
	if r.paused, err = p.Pause.Read(ctx); err != nil {
		return nil, err
	}
	r.view = world.NewView(w, r.now, p.learned)
	for _, waits := range r.view.Waiting(class.Any) {
		if !strings.HasPrefix(waits.Name, p.Config.Namespace+"/") {
			r.waiting = append(r.waiting, waits)
		}
	}
	var profiles v1alpha1.MachineProfileList
	if err := p.Client.List(ctx, &profiles); err != nil {
		return nil, fmt.Errorf("list MachineProfiles: %w", err)
	}
	for i := range profiles.Items {
		o := &profiles.Items[i]
		if known := r.profiles[o.Spec.MachineType]; known == nil || o.Name < known.Name {
			r.profiles[o.Spec.MachineType] = o
		}
	}
	var jobs batchv1.JobList
	if err := p.Client.List(ctx, &jobs, client.InNamespace(p.Config.Namespace), client.HasLabels{v1alpha1.LabelProbe}); err != nil {
		return nil, fmt.Errorf("list the Jobs of probes: %w", err)
	}
	for i := range jobs.Items {
		r.jobs[jobs.Items[i].Annotations[v1alpha1.AnnotationProbes]] = &jobs.Items[i]
	}
	return r, r.observe(ctx)
}

// observe builds the input of the decision.
func (r *round) observe(ctx context.Context) error {
	nodes := map[string][]profilerdecide.Node{}
	for _, name := range slices.Sorted(maps.Keys(r.world.Nodes)) {
		node := r.world.Nodes[name]
		if t := machineTypeOf(node); t != "" {
			nodes[t] = append(nodes[t], r.node(node))
		}
	}
	names := map[string]bool{}
	for name := range nodes {
		names[name] = true
	}
	for name := range r.jobs {
		names[name] = true
	}
	for name := range r.profiles {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		t := profilerdecide.Type{Name: name, Nodes: nodes[name], Hardware: r.fingerprint(name, nodes[name])}
		known, err := r.record(ctx, name)
		if err != nil {
			return err
		}
		if known != nil && known.Fingerprint == t.Hardware {
			t.Failures, t.Last = known.Failures, known.Failed
			if known.Probe != nil {
				t.Probed = known.Fingerprint
			}
		}
		if p := r.profiles[name]; r.ReadOnly && p != nil && p.Status.Models != nil {
			t.Probed = p.Status.Models.Fingerprint // else it would be reported as one to probe
		}
		if job := r.jobs[name]; job != nil {
			t.Job = jobState(job)
		}
		r.types = append(r.types, t)
	}
	return nil
}

// fingerprint returns the fingerprint of the hardware that a type's profile is about: the current
// one as long as a node has it, else the most frequent, ties to the first.
func (r *round) fingerprint(machineType string, nodes []profilerdecide.Node) string {
	count := map[string]int{}
	for _, n := range nodes {
		if n.Hardware != "" {
			count[n.Hardware]++
		}
	}
	is := ""
	if p := r.profiles[machineType]; p != nil && p.Spec.Hardware != nil {
		is = p.Spec.Hardware.Fingerprint
	}
	if count[is] > 0 || len(count) == 0 {
		return is
	}
	return slices.MinFunc(slices.Collect(maps.Keys(count)), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
}

// node returns the decision's view of a node.
func (r *round) node(object *corev1.Node) profilerdecide.Node {
	n := profilerdecide.Node{Name: object.Name, Closed: r.closed(object)}
	if at := slices.IndexFunc(object.Spec.Taints, isOurs); at >= 0 {
		n.Reserved = object.CreationTimestamp.Time // long ago
		if added := object.Spec.Taints[at].TimeAdded; added != nil {
			n.Reserved = added.Time
		}
	}
	if hw, err := hardwareOf(object); err == nil && hw != nil {
		n.Hardware, r.hardware[hw.Fingerprint] = hw.Fingerprint, hw
	}
	// Without the reservation and the probe.
	bare := object.DeepCopy()
	bare.Spec.Taints = slices.DeleteFunc(bare.Spec.Taints, isOurs)
	state := r.view.Node(bare, cluster.Node{Name: object.Name, Class: class.Any})
	state.Pods = slices.DeleteFunc(state.Pods, func(p cluster.Pod) bool { return strings.HasPrefix(p.Name, r.Config.Namespace+"/") })
	if len(state.Pods) > 0 {
		n.Busy = state.Pods[0].Name
	}
	n.Wanted, n.Unclear = r.wanted(&state)
	if _, err := probe.SizesFor(room(&state)); err != nil {
		n.Small = err.Error()
	}
	return n
}

// room returns what a probe may request on a node: the capacity that is left by the pods that run
// on every node.
func room(n *cluster.Node) profile.Size {
	return profile.Size{MilliCPU: n.Capacity.MilliCPU, MemoryBytes: n.Capacity.MemoryBytes}
}

// heldMatters is how long a pod counts whose suitable nodes are unknown.
const heldMatters = 5 * time.Minute

// wanted returns a pending pod for which the node has room, or for some time one whose suitable nodes are unknown, and
// whether they are; "" if there is none.
func (r *round) wanted(n *cluster.Node) (pod string, unclear bool) {
	state := cluster.State{Nodes: []cluster.Node{*n}}
	for _, w := range r.waiting {
		if w.Held == "" {
			state.Pending = append(state.Pending, w.Pod)
		} else if r.now.Sub(w.Since) < heldMatters {
			return w.Name, true
		}
	}
	return drain.Wanted(&state, n.Name), false
}

func isOurs(t corev1.Taint) bool { return t.Key == v1alpha1.TaintProbing }

// closed returns why no probe may start on a node; "" if one may.
func (r *round) closed(n *corev1.Node) string {
	if _, is := n.Labels[labelControlPlane]; is {
		return "it belongs to the control plane"
	}
	if !r.selector.Matches(labels.Set(n.Labels)) {
		return "--probe-node-selector does not match it"
	}
	if _, is := world.Ready(n); !is {
		return "it is not ready"
	}
	if n.DeletionTimestamp != nil {
		return "it is being deleted"
	}
	if n.Spec.Unschedulable {
		return "it is unschedulable"
	}
	if _, is := drain.MarkOf(n); is {
		return "it is being drained"
	}
	for _, t := range n.Spec.Taints {
		if !isOurs(t) && t.Effect != corev1.TaintEffectPreferNoSchedule {
			return "it has taint " + t.Key
		}
	}
	return ""
}

var fingerprint = regexp.MustCompile(`^[0-9a-f]{16}$`)

// hardwareOf returns the hardware that a node's agent reports; nil if it does not.
func hardwareOf(n *corev1.Node) (*v1alpha1.MachineHardware, error) {
	text, has := n.Annotations[v1alpha1.AnnotationHardware]
	if !has {
		return nil, nil //nolint:nilnil // that it does not say is no fault
	}
	hw := &v1alpha1.MachineHardware{}
	err := json.Unmarshal([]byte(text), hw)
	if err == nil && (!fingerprint.MatchString(hw.Fingerprint) || hw.Threads < 0 || len(hw.CPUModel) > 256 || len(hw.Architecture) > 32) {
		err = errors.New("the value was not written by a node agent")
	}
	if err != nil {
		return nil, fmt.Errorf("read annotation %s of node %s: %w", v1alpha1.AnnotationHardware, n.Name, err)
	}
	return hw, nil
}

// jobState returns the state of a Job.
func jobState(job *batchv1.Job) *profilerdecide.Job {
	j := &profilerdecide.Job{Node: job.Annotations[annotationNode], Hardware: job.Annotations[annotationFingerprint]}
	if job.DeletionTimestamp != nil {
		j.State = profilerdecide.Leaving
		return j
	}
	for _, c := range job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			j.State = profilerdecide.Succeeded
		case c.Type == batchv1.JobFailed:
			j.State, j.Failure = profilerdecide.Failed, cmp.Or(c.Message, c.Reason)
		}
	}
	return j
}

// recordKey is the key of the record in its ConfigMap.
const recordKey = "record.json"

func (p *Profiler) recordName(machineType string) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Config.Namespace, Name: "machine-" + profile.NameOf(machineType)}
}

// record returns the record of a machine type; nil if there is none. It logs an invalid record
// and starts a new one.
func (p *Profiler) record(ctx context.Context, machineType string) (*record.Record, error) {
	if known, has := p.memory.records[machineType]; has {
		return known, nil
	}
	if p.ReadOnly {
		return nil, nil //nolint:nilnil // records are for programs that learn
	}
	var object corev1.ConfigMap
	err := p.Live.Get(ctx, p.recordName(machineType), &object)
	if apierrors.IsNotFound(err) {
		p.memory.records[machineType] = nil
		return nil, nil //nolint:nilnil // there is nothing, and nothing is wrong
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of machine type %s: %w", machineType, err)
	}
	known, err := record.Decode(object.Data[recordKey])
	if err == nil && known.MachineType != machineType {
		err = fmt.Errorf("the record is for machine type %.63q", known.MachineType)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to read the record of a machine type; it is learned again", "configMap", p.recordName(machineType).String())
		known = nil
	}
	p.memory.records[machineType] = known
	return known, nil
}
