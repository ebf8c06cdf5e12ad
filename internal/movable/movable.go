// Package movable decides whether a pod can be moved to another node, and why not.
//
// The Migration controller calls it before it changes anything, and so does `supercargo migrate --dry-run`, with the
// same result. What only the pod's own node knows, such as open connections, its agent checks later while the pod still
// runs.
//
// movable.go holds the input and the result; pod.go, liveness.go, owner.go and node.go hold the rules; lasting.go says
// which of them pass.
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

// Input is everything that the result depends on.
type Input struct {
	// Pod is the pod to move.
	Pod *corev1.Pod
	// TargetNode is the target node; if empty, the scheduler decides.
	TargetNode string
	// Deadline is that of the migration; zero means the API server's default. It bounds how long the container is
	// frozen.
	Deadline time.Duration
	// Job controls the pod; nil if no Job does or if it is gone.
	Job *batchv1.Job
	// ReplicaSet controls the pod; nil if none does or if it is gone. Its template is not used.
	ReplicaSet *appsv1.ReplicaSet
	// Services are the Services of the pod's namespace.
	Services []corev1.Service
	// Claims are the PersistentVolumeClaims of the pod's namespace, by name. Those that the pod does not mount may be
	// omitted.
	Claims map[string]*corev1.PersistentVolumeClaim
	// Nodes are the nodes of the cluster, by name. Besides that of the pod, those that are not ready, are cordoned or have no
	// agent that has reported may be omitted.
	Nodes map[string]*corev1.Node
}

// Refusal is a reason why a pod cannot be moved.
type Refusal struct {
	// Reason is a machine-readable word, such as "EmptyDirUnsupported".
	Reason string
	// Message is the human-readable reason, and what would make the pod movable.
	Message string
}

// Verdict is the result of [Check].
type Verdict struct {
	// Refusals are in the order of the rules. If there are none, the pod can be moved as far as the API knows.
	Refusals []Refusal
	// Backend is how the pod's state is taken; empty if no agent can take it.
	Backend v1alpha1.MigrationBackend
	// Notes say what changes for the pod when it is moved.
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

// Selector returns the selector of the pod's owner, or nil if it has none or the owner is gone.
func (in *Input) Selector() *metav1.LabelSelector { return SelectorOf(in.Job, in.ReplicaSet) }

// SelectorOf returns the selector of an owner. At most one of the two may be non-nil.
func SelectorOf(job *batchv1.Job, set *appsv1.ReplicaSet) *metav1.LabelSelector {
	switch {
	case job != nil:
		return job.Spec.Selector
	case set != nil:
		return set.Spec.Selector
	}
	return nil
}

// Check decides whether the pod can be moved. It does not change the input. It returns all refusals, not only the
// first.
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

// Reason returns the reason of the first refusal, or "" if there are none.
func Reason(refusals []Refusal) string {
	if len(refusals) == 0 {
		return ""
	}
	return refusals[0].Reason
}

// Message joins the messages of refusals.
func Message(refusals []Refusal) string {
	parts := make([]string, len(refusals))
	for i, r := range refusals {
		parts[i] = r.Message
	}
	return strings.Join(parts, "; ")
}

// Admitted returns the refusals that follow from a dry-run creation of the new pod. made is the pod that the API server
// would have created, err its error. An error that is not about the pod, such as a network error, is returned. The created
// pod may still differ, because a webhook may answer differently: see [Changed].
func Admitted(wanted, made *corev1.Pod, err error) ([]Refusal, error) {
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return []Refusal{{v1alpha1.MigrationReasonQuotaExceeded, fmt.Sprintf(
			"the quota of the namespace does not allow a second pod during the migration: raise its ResourceQuota, or wait (%v)", err)}}, nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return []Refusal{{v1alpha1.MigrationReasonNotAdmitted, fmt.Sprintf("the API server does not admit the new pod: %v", err)}}, nil
	case err != nil:
		return nil, fmt.Errorf("create pod %s/%s (dry run): %w", wanted.Namespace, wanted.Name, err)
	}
	return Changed(wanted, made), nil
}
