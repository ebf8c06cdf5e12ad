// Package class tells batch work from services, and which machines take which.
//
// HTAS (Zhong and Buyya, ACM TOIT 2020, section 4) keeps the two on separate
// groups of machines: a machine that runs only batch jobs empties by itself and
// can be released, one that also runs a service never does.
package class

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Class is a kind of work, or the kind of work that a machine takes. Its values
// are those of the label supercargo.dev/class.
type Class string

const (
	// Batch is work that ends by itself.
	Batch Class = "batch"
	// Service is work that runs until it is told to stop.
	Service Class = "service"
	// Any is a machine that takes both. No pod has it.
	Any Class = "any"
)

// OfPod returns the class of a pod: its label, else Batch when a Job controls it
// and Service otherwise. A label with another value gives an error that says what
// would be right, beside the class the pod has without it.
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
		return fallback, fmt.Errorf("label %s=%q: want %q or %q; the pod is taken for %q",
			v1alpha1.LabelClass, label, Batch, Service, fallback)
	}
}

// OfNode returns the class of a node: its label, else unlabelled. A label with
// another value gives an error that says what would be right, beside unlabelled.
func OfNode(node *corev1.Node, unlabelled Class) (Class, error) {
	switch label, ok := node.Labels[v1alpha1.LabelClass]; {
	case !ok:
		return unlabelled, nil
	case label == string(Batch), label == string(Service), label == string(Any):
		return Class(label), nil
	default:
		return unlabelled, fmt.Errorf("label %s=%q: want %q, %q or %q; the node is taken for %q",
			v1alpha1.LabelClass, label, Batch, Service, Any, unlabelled)
	}
}

// Takes reports whether a machine of class c takes a pod of the given class.
func (c Class) Takes(pod Class) bool {
	return c == Any || c == pod
}

// EveryNode reports whether the pod belongs on every machine whatever its class,
// as the pods of a DaemonSet do and the static ones that a kubelet starts by
// itself: a log or storage agent serves the batch machines too.
func EveryNode(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}
