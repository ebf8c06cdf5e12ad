// Package movable says whether a pod can be moved to another node, and what the pod
// that takes its place looks like.
//
// The controller of Migrations asks it before anything is touched, and so does
// `supercargo migrate --dry-run`, with the same answer. What only the pod's own node
// can tell, such as open connections, its agent says later, still while the pod runs.
//
// movable.go holds the question and the answer; pod.go, probe.go, owner.go and node.go the rules;
// copy.go the new pod.
package movable

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Input is all that the answer depends on.
type Input struct {
	// Pod is the pod that is to be moved.
	Pod *corev1.Pod
	// Method says what becomes of its state.
	Method v1alpha1.MigrationMethod
	// TargetNode is where it is to go; empty leaves that to the scheduler.
	TargetNode string
	// Deadline is that of the migration; zero is the API server's default. It bounds how
	// long the container is frozen.
	Deadline time.Duration
	// Job controls the pod; nil if no Job does, or if it is gone.
	Job *batchv1.Job
	// ReplicaSet controls the pod; nil if none does, or if it is gone. Its template does
	// not matter.
	ReplicaSet *appsv1.ReplicaSet
	// Services are those of the pod's namespace.
	Services []corev1.Service
	// Claims are the PersistentVolumeClaims of the pod's namespace, by name; those that
	// the pod does not mount may be left out.
	Claims map[string]*corev1.PersistentVolumeClaim
	// Nodes are those of the cluster, by name.
	Nodes map[string]*corev1.Node
}

// Refusal says why a pod cannot be moved.
type Refusal struct {
	// Reason is a word for programs, such as "EmptyDir".
	Reason string
	// Message says it to people, and what would make the pod movable.
	Message string
}

// Verdict is the answer.
type Verdict struct {
	// Refusals say why not, in the order of the rules; none means that the pod can be
	// moved as far as the API knows.
	Refusals []Refusal
	// Backend is how its state is taken; empty if no agent can.
	Backend v1alpha1.MigrationBackend
	// Notes say what changes for the pod although it can be moved.
	Notes []string
}

// refuse adds a refusal.
func (v *Verdict) refuse(reason, format string, args ...any) {
	v.Refusals = append(v.Refusals, Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// note adds a note.
func (v *Verdict) note(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

// Selector is that by which the pod's owner finds its pods; nil if it has none that is
// there.
func (in *Input) Selector() *metav1.LabelSelector { return SelectorOf(in.Job, in.ReplicaSet) }

// SelectorOf returns the selector of an owner, of which at most one is not nil.
func SelectorOf(job *batchv1.Job, set *appsv1.ReplicaSet) *metav1.LabelSelector {
	switch {
	case job != nil:
		return job.Spec.Selector
	case set != nil:
		return set.Spec.Selector
	}
	return nil
}

// Check says whether the pod can be moved. It changes nothing in the input. All
// refusals are found, not only the first.
func Check(in Input) Verdict {
	var v Verdict
	v.checkState(in)
	v.checkOwner(in)
	v.checkContainers(in)
	v.checkVolumes(in)
	v.checkHost(in)
	v.checkProbes(in)
	v.checkServices(in)
	v.checkNodes(in)
	v.noteChanges(in)
	return v
}

// Reason sums refusals up in the reason of the first; it is empty for none.
func Reason(refusals []Refusal) string {
	if len(refusals) == 0 {
		return ""
	}
	return refusals[0].Reason
}

// Message joins what refusals say.
func Message(refusals []Refusal) string {
	parts := make([]string, len(refusals))
	for i, r := range refusals {
		parts[i] = r.Message
	}
	return strings.Join(parts, "; ")
}

// Admitted says what stands against a new pod when the API server was asked to make it
// without doing so. made is what it would have made, err what it said instead. An
// error that says nothing about the pod, such as one of the network, is returned.
func Admitted(wanted, made *corev1.Pod, err error) ([]Refusal, error) {
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return []Refusal{{"QuotaExceeded", fmt.Sprintf(
			"the namespace has no room for a second pod while this one moves: raise its ResourceQuota, or wait (%v)", err)}}, nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return []Refusal{{"NotAdmitted", fmt.Sprintf("the API server would not admit the new pod: %v", err)}}, nil
	case err != nil:
		return nil, fmt.Errorf("try to make pod %s/%s: %w", wanted.Namespace, wanted.Name, err)
	}
	var v Verdict
	if len(made.Spec.Containers) != len(wanted.Spec.Containers) || len(made.Spec.InitContainers) != len(wanted.Spec.InitContainers) {
		v.refuse("PodChanged", "an admission webhook adds containers to the new pod: exempt pods with the label %s from it", v1alpha1.LabelMigration)
		return v.Refusals, nil
	}
	for i := range wanted.Spec.Containers {
		want, got := &wanted.Spec.Containers[i], &made.Spec.Containers[i]
		if want.ImagePullPolicy == corev1.PullNever && got.ImagePullPolicy != corev1.PullNever {
			v.refuse("ImagesAlwaysPulled", "admission sets imagePullPolicy to %s, but the checkpoint is in no registry: "+
				"exempt pods with the label %s, or leave the admission plugin AlwaysPullImages off", got.ImagePullPolicy, v1alpha1.LabelMigration)
		}
		if got.Image != want.Image {
			v.refuse("PodChanged", "an admission webhook changes the image of the new pod from %s to %s: exempt pods with the label %s from it",
				want.Image, got.Image, v1alpha1.LabelMigration)
		}
	}
	return v.Refusals, nil
}
