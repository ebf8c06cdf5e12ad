package movable

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/movable/attempts"
	"supercargo.dev/supercargo/internal/runtimes"
)

// AnnotationPlace is on a new pod until it takes over. It holds the labels that belong to the old pod's place, as a
// JSON object.
const AnnotationPlace = v1alpha1.GroupName + "/labels-of-place"

// AnnotationSource is on a new pod and holds the name and the UID of the old one, as NAME/UID. It identifies the old
// pod if the Migration is gone.
const AnnotationSource = v1alpha1.GroupName + "/moved-from"

// SourceOf returns the name and the UID of the pod from which a new pod was made, or false if the pod does not state
// them.
func SourceOf(restored *corev1.Pod) (name string, uid types.UID, ok bool) {
	name, id, ok := strings.Cut(restored.Annotations[AnnotationSource], "/")
	return name, types.UID(id), ok && name != "" && id != ""
}

// NewPlan returns the plan for a pod that passed Check. uid is that of the Migration; it makes names unique.
func NewPlan(in Input, v Verdict, uid types.UID, now time.Time, deadline time.Duration) *v1alpha1.MigrationPlan {
	pod := in.Pod
	p := &v1alpha1.MigrationPlan{
		StartedAt:   metav1.NewTime(now),
		DeadlineAt:  metav1.NewTime(now.Add(deadline)),
		SourceNode:  pod.Spec.NodeName,
		PodUID:      string(pod.UID),
		Container:   pod.Spec.Containers[0].Name,
		ContainerID: ContainerID(pod),
		BaseImage:   BaseImage(pod),
		Backend:     v.Backend,
		RestoredPod: newName(pod, uid),
		Owner:       metav1.GetControllerOf(pod),
		Notes:       v.Notes,
	}
	if v.Backend != v1alpha1.BackendRestart {
		// The image is never pulled. The first part keeps runtimes from mistaking it for an image of a known registry.
		p.Image = v1alpha1.GroupName + "/checkpoint:" + string(uid)
	}
	return p
}

// moved matches the end of the name of a pod that was moved.
var moved = regexp.MustCompile(`-m[0-9a-f]{8}$`)

// newName returns the name of the new pod: that of the old one without the suffix of an earlier move, plus a suffix for
// this move. The name must be valid as a host name.
func newName(pod *corev1.Pod, uid types.UID) string {
	base := pod.Name
	if _, before := pod.Annotations[v1alpha1.AnnotationBaseImage]; before {
		base = moved.ReplaceAllString(base, "")
	}
	mark := "-m" + (strings.ReplaceAll(string(uid), "-", "") + "00000000")[:8]
	const longest = 63
	if len(base) > longest-len(mark) {
		base = strings.TrimRight(base[:longest-len(mark)], "-.")
	}
	return base + mark
}

// New returns the pod that replaces source. It has no owner yet, nor labels by which others would treat it as the old
// pod: [TakesPlace] adds these. selector is the owner's. requirements are those of the source's agent; empty if not
// known yet.
func New(m *v1alpha1.Migration, plan *v1alpha1.MigrationPlan, source *corev1.Pod, selector *metav1.LabelSelector, requirements string) (*corev1.Pod, error) {
	place := LabelsOfPlace(source, selector)
	text, err := json.Marshal(place)
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
		if _, ok := place[key]; !ok {
			p.Labels[key] = value
		}
	}
	kind, _ := class.OfPod(source) // an invalid label has the same effect on the copy, and is overwritten here
	p.Labels[v1alpha1.LabelClass] = string(kind)
	p.Labels[v1alpha1.LabelMigration] = string(m.UID)
	p.Annotations[v1alpha1.AnnotationMigrationName] = m.Name
	p.Annotations[v1alpha1.AnnotationBaseImage] = plan.BaseImage
	p.Annotations[v1alpha1.AnnotationRequirements] = requirements
	p.Annotations[AnnotationPlace] = string(text)
	p.Annotations[AnnotationSource] = source.Name + "/" + string(source.UID)
	if rest := restOf(source, plan); rest > 0 {
		p.Annotations[v1alpha1.AnnotationRuntime] = rest.String()
	}
	setSpec(&p.Spec, m, plan, source)
	return p, nil
}

// restOf returns how long the new pod is expected to run if it continues with the state of the old one; 0 if unknown or
// if it starts again. The old pod runs until it is frozen, so the value is slightly too long.
func restOf(source *corev1.Pod, plan *v1alpha1.MigrationPlan) time.Duration {
	if plan.Backend == v1alpha1.BackendRestart {
		return 0
	}
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
	if plan.Backend == v1alpha1.BackendRestart {
		if c.Image != plan.BaseImage { // it was restored before
			c.Image, c.ImagePullPolicy = plan.BaseImage, corev1.PullIfNotPresent
		}
		return
	}
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.InitContainers = nil
	c.Image, c.ImagePullPolicy = plan.Image, corev1.PullNever
	if c.Lifecycle != nil {
		c.Lifecycle.PostStart = nil
	}
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

// LabelsOfPlace returns the labels that belong to a pod's place: those by which its owner selects it, or, for a bare
// pod, all except Supercargo's. selector is the owner's.
func LabelsOfPlace(pod *corev1.Pod, selector *metav1.LabelSelector) map[string]string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return labelsOfOwner(pod, owner, selector)
	}
	found := map[string]string{}
	for key, value := range pod.Labels {
		if !strings.HasPrefix(key, v1alpha1.GroupName+"/") {
			found[key] = value
		}
	}
	return found
}

// TakesPlace returns the new pod as it is after it has taken over from the old one: with the labels of the place, the
// owner reference, and, if a Job owns it, the Job's tracking finalizer.
func TakesPlace(restored *corev1.Pod, owner *metav1.OwnerReference) (*corev1.Pod, error) {
	p := restored.DeepCopy()
	var place map[string]string
	if text, ok := p.Annotations[AnnotationPlace]; ok {
		if err := json.Unmarshal([]byte(text), &place); err != nil {
			return nil, fmt.Errorf("read annotation %s of pod %s/%s: %w", AnnotationPlace, p.Namespace, p.Name, err)
		}
		delete(p.Annotations, AnnotationPlace)
	}
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	maps.Copy(p.Labels, place)
	if owner != nil && !metav1.IsControlledBy(p, &metav1.ObjectMeta{UID: owner.UID}) {
		p.OwnerReferences = append(p.OwnerReferences, *owner.DeepCopy())
		// The API rejects new finalizers on an object that is being deleted.
		if owner.Kind == "Job" && p.DeletionTimestamp == nil && !slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) {
			p.Finalizers = append(p.Finalizers, batchv1.JobTrackingFinalizer)
		}
	}
	return p, nil
}

// HasPlace reports whether a new pod has taken over.
func HasPlace(restored *corev1.Pod) bool {
	_, waits := restored.Annotations[AnnotationPlace]
	return !waits
}

// LeavesPlace returns the old pod as it is after its owner has released it. selector is the owner's; nil if the owner
// is gone.
func LeavesPlace(source *corev1.Pod, owner *metav1.OwnerReference, selector *metav1.LabelSelector) *corev1.Pod {
	p := source.DeepCopy()
	if owner == nil {
		return p
	}
	for key := range labelsOfOwner(source, owner, selector) {
		delete(p.Labels, key)
	}
	p.OwnerReferences = slices.DeleteFunc(p.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner.UID })
	p.Finalizers = Uncounted(p).Finalizers
	return p
}

// Uncounted returns a pod without the tracking finalizer, so that its Job does not count how it ends. The Job still
// owns it.
func Uncounted(pod *corev1.Pod) *corev1.Pod {
	p := pod.DeepCopy()
	p.Finalizers = slices.DeleteFunc(p.Finalizers, func(f string) bool { return f == batchv1.JobTrackingFinalizer })
	return p
}
