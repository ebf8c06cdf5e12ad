package podedit

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/internal/movable/attempts"
	"supercargo.dev/supercargo/internal/runtimes"
)

// AnnotationWithheldLabels is on a new pod until it takes over. It holds the labels that the pod gets then, as a JSON
// object: see [movable.WithheldLabels].
const AnnotationWithheldLabels = v1alpha1.GroupName + "/labels-of-place"

// AnnotationSource is on a new pod and holds the name and the UID of the old one, as NAME/UID. It identifies the old
// pod if the Migration is gone.
const AnnotationSource = v1alpha1.GroupName + "/moved-from"

// SourceOf returns the name and the UID of the pod from which a new pod was made, or false if the pod does not state
// them.
func SourceOf(restored *corev1.Pod) (name string, uid types.UID, ok bool) {
	name, id, ok := strings.Cut(restored.Annotations[AnnotationSource], "/")
	return name, types.UID(id), ok && name != "" && id != ""
}

// NewPod returns the pod that replaces source. It has no owner yet, nor labels by which others would treat it as the old
// pod: [TakeOver] adds them. selector is the owner's. requirements are those of the source's agent; empty if not
// known yet.
func NewPod(m *v1alpha1.Migration, plan *v1alpha1.MigrationPlan, source *corev1.Pod, selector *metav1.LabelSelector, requirements string) (*corev1.Pod, error) {
	withheld := movable.WithheldLabels(source, selector)
	text, err := json.Marshal(withheld)
	if err != nil {
		return nil, fmt.Errorf("encode the labels of pod %s/%s: %w", source.Namespace, source.Name, err)
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: source.Namespace, Name: plan.RestoredPod,
			Labels: map[string]string{}, Annotations: annotations(source),
		},
		Spec: *source.Spec.DeepCopy(),
	}
	for key, value := range source.Labels {
		if _, ok := withheld[key]; !ok {
			p.Labels[key] = value
		}
	}
	kind, _ := class.OfPod(source) // an invalid label has the same effect on the copy, and is overwritten here
	p.Labels[v1alpha1.LabelClass] = string(kind)
	p.Labels[v1alpha1.LabelMigration] = string(m.UID)
	p.Annotations[v1alpha1.AnnotationMigrationName] = m.Name
	p.Annotations[v1alpha1.AnnotationBaseImage] = plan.BaseImage
	p.Annotations[v1alpha1.AnnotationRequirements] = requirements
	p.Annotations[AnnotationWithheldLabels] = string(text)
	p.Annotations[AnnotationSource] = source.Name + "/" + string(source.UID)
	if rest := restOf(source, plan); rest > 0 {
		p.Annotations[v1alpha1.AnnotationRuntime] = rest.String()
	}
	if p.Annotations[v1alpha1.AnnotationCommand], err = encodeCommand(source); err != nil {
		return nil, fmt.Errorf("encode the command of pod %s/%s: %w", source.Namespace, source.Name, err)
	}
	setSpec(&p.Spec, m, plan, source)
	return p, nil
}

// restOf returns how long the new pod is expected to run; 0 if unknown. The old pod runs until it is frozen, so the
// value is slightly too long.
func restOf(source *corev1.Pod, plan *v1alpha1.MigrationPlan) time.Duration {
	ends, known := runtimes.Written(source)
	if declared, is, _ := runtimes.Declared(source); !known && is && source.Status.StartTime != nil {
		ends, known = source.Status.StartTime.Add(declared), true
	}
	if !known {
		return 0
	}
	return max(time.Second, ends.Sub(plan.StartedAt.Time).Round(time.Millisecond))
}

// setSpec changes the copy of the old pod's spec into the spec of the new pod.
func setSpec(spec *corev1.PodSpec, m *v1alpha1.Migration, plan *v1alpha1.MigrationPlan, source *corev1.Pod) {
	spec.NodeName = ""
	_, before := source.Annotations[v1alpha1.AnnotationBaseImage]
	spec.Affinity = elsewhere(spec.Affinity, plan.SourceNode, m.Spec.TargetNode, before)
	if limit, start := spec.ActiveDeadlineSeconds, source.Status.StartTime; limit != nil && start != nil {
		ran := int64(plan.StartedAt.Sub(start.Time).Seconds())
		spec.ActiveDeadlineSeconds = new(max(1, *limit-max(0, ran)))
	}
	c := &spec.Containers[0]
	// A restored container that ends is not started again, by no policy or rule: a checkpoint is restored once.
	spec.RestartPolicy, c.RestartPolicy, c.RestartPolicyRules = corev1.RestartPolicyNever, nil, nil
	spec.InitContainers = nil
	// Nothing is pulled while the old pod is frozen, and the image is the one that the target's agent has checked.
	c.Image, c.ImagePullPolicy = plan.BaseImage, corev1.PullNever
	c.Command, c.Args = []string{RestoredCommand}, nil
	if c.Lifecycle != nil {
		c.Lifecycle.PostStart = nil
	}
}

// RestoredCommand is the command of a container that is restored. There is no such program: the processes come from the
// checkpoint, and a node that does not restore it cannot start the work again beside the frozen old pod.
const RestoredCommand = "/" + v1alpha1.GroupName + "/restored-from-a-checkpoint"

// command is how a container was started before it was restored.
type command struct {
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
}

// commandOf returns the command of a pod that was restored, or false if it was not.
func commandOf(pod *corev1.Pod) (command, bool) {
	text, ok := pod.Annotations[v1alpha1.AnnotationCommand]
	if !ok || !slices.Equal(pod.Spec.Containers[0].Command, []string{RestoredCommand}) {
		return command{}, false
	}
	var c command
	err := json.Unmarshal([]byte(text), &c)
	return c, err == nil
}

// encodeCommand returns the annotation that keeps the command of a pod that is to be restored.
func encodeCommand(source *corev1.Pod) (string, error) {
	was, ok := commandOf(source)
	if !ok {
		was = command{source.Spec.Containers[0].Command, source.Spec.Containers[0].Args}
	}
	text, err := json.Marshal(was)
	return string(text), err
}

// elsewhere returns an affinity that also keeps the pod off the source and, if a target is named, on the target. It
// removes what it added for an earlier move of the pod.
func elsewhere(given *corev1.Affinity, source, target string, movedBefore bool) *corev1.Affinity {
	if given == nil {
		given = &corev1.Affinity{}
	}
	if given.NodeAffinity == nil {
		given.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := given.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
		given.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	}
	name := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{source}}
	if target != "" {
		name.Operator, name.Values = corev1.NodeSelectorOpIn, []string{target}
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		if last := len(term.MatchFields) - 1; movedBefore && last >= 0 && term.MatchFields[last].Key == metav1.ObjectNameField {
			term.MatchFields = term.MatchFields[:last]
		}
		term.MatchFields = append(term.MatchFields, name)
	}
	return given
}

// ofTheOldPod are annotations that other components wrote about the old pod and that do not apply to the new one, in
// addition to those that every move sets.
var ofTheOldPod = []string{
	v1alpha1.AnnotationExpectedFinish, attempts.Annotation,
	corev1.LastAppliedConfigAnnotation,
	"cni.projectcalico.org/containerID", "cni.projectcalico.org/podIP", "cni.projectcalico.org/podIPs",
	"k8s.ovn.org/pod-networks", "k8s.v1.cni.cncf.io/network-status", "k8s.v1.cni.cncf.io/networks-status",
}

func annotations(source *corev1.Pod) map[string]string {
	all := maps.Clone(source.Annotations)
	if all == nil {
		all = map[string]string{}
	}
	for _, key := range ofTheOldPod {
		delete(all, key)
	}
	if cost, ok := all[corev1.PodDeletionCost]; ok {
		all[corev1.PodDeletionCost] = ownCost(cost)
	}
	return all
}

// ownCost returns the deletion cost of a new pod whose source has one: the same, but always above [LowestDeletionCost],
// which the source gets when it is to be deleted.
func ownCost(cost string) string {
	if cost == LowestDeletionCost {
		return strconv.Itoa(math.MinInt32 + 1)
	}
	return cost
}
