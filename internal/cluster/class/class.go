// Package class distinguishes batch pods from services, and defines which machines accept which.
//
// HTAS (Zhong and Buyya, ACM TOIT 2020, section 4) keeps the two on separate groups of machines: a machine that runs
// only batch jobs becomes empty by itself and can be released, a machine that also runs a service never does.
package class

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Class is a class of pods, or the class of pods that a machine accepts. Its values are those of the label
// supercargo.dev/class.
type Class string

const (
	// Batch is work that runs to completion.
	Batch Class = "batch"
	// Service is work that runs until it is stopped.
	Service Class = "service"
	// Any is the class of a machine that accepts both. No pod has it.
	Any Class = "any"
)

// OfPod returns the class of a pod: that of its label, else Batch if a Job controls the pod and Service otherwise. For
// an invalid label it returns the class without the label, and an error that lists the valid values.
func OfPod(pod *corev1.Pod) (Class, error) {
	fallback := Service
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "Job" {
		fallback = Batch
	}
	switch label, ok := pod.Labels[v1alpha1.LabelClass]; {
	case !ok:
		return fallback, nil
	case label == string(Batch), label == string(Service):
		return Class(label), nil
	default:
		return fallback, fmt.Errorf("label %s=%q: must be %q or %q; the pod counts as %q",
			v1alpha1.LabelClass, label, Batch, Service, fallback)
	}
}

// OfNode returns the class of a node: that of its label, else unlabelled. For an invalid label it returns unlabelled
// and an error that lists the valid values.
func OfNode(node *corev1.Node, unlabelled Class) (Class, error) {
	switch label, ok := node.Labels[v1alpha1.LabelClass]; {
	case !ok:
		return unlabelled, nil
	case label == string(Batch), label == string(Service), label == string(Any):
		return Class(label), nil
	default:
		return unlabelled, fmt.Errorf("label %s=%q: must be %q, %q or %q; the node counts as %q",
			v1alpha1.LabelClass, label, Batch, Service, Any, unlabelled)
	}
}

// Takes reports whether a machine of class c accepts a pod of the given class.
func (c Class) Takes(pod Class) bool {
	return c == Any || c == pod
}

// EveryNode reports whether the pod may run on machines of every class. This applies to DaemonSet pods and static pods:
// a log or storage agent serves batch machines too.
func EveryNode(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

// Ended reports whether a pod has ended, so that it no longer uses the room of its node.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
