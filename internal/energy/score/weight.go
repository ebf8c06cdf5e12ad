package score

import (
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// DefaultWeight is H where nobody says otherwise: energy and runtime count alike.
const DefaultWeight = 0.5

// Origin says who chose a weight.
type Origin string

const (
	// FromPod is the pod's annotation.
	FromPod Origin = "pod"
	// FromNamespace is that of its namespace.
	FromNamespace Origin = "namespace"
	// FromProfile is the argument of the scheduler's profile.
	FromProfile Origin = "profile"
)

// Weight is H, the weight of energy against runtime, and where it comes from.
type Weight struct {
	H      float64 // in [0, 1]
	Origin Origin
}

// WeightOf returns the weight of a pod: its annotation, else that of its namespace, else
// the fallback, which is in [0, 1]. A malformed annotation is passed over, with an error
// that says what would be right.
func WeightOf(pod, namespace map[string]string, fallback float64) (Weight, error) {
	var errs []error
	for _, from := range []struct {
		annotations map[string]string
		origin      Origin
	}{{pod, FromPod}, {namespace, FromNamespace}} {
		text, ok := from.annotations[v1alpha1.AnnotationEnergyWeight]
		if !ok {
			continue
		}
		// Written so that a NaN is refused.
		if h, err := strconv.ParseFloat(text, 64); err == nil && h >= 0 && h <= 1 {
			return Weight{h, from.origin}, errors.Join(errs...)
		}
		errs = append(errs, fmt.Errorf("annotation %s=%q of the %s: want a number from 0, runtime alone, to 1, energy alone",
			v1alpha1.AnnotationEnergyWeight, text, from.origin))
	}
	return Weight{fallback, FromProfile}, errors.Join(errs...)
}

// Governor returns the CPU governor that a node runs under, as its agent says: empty where
// that is not known.
func Governor(annotations map[string]string) string {
	return annotations[v1alpha1.AnnotationGovernor]
}

// MachineType returns the machine type that a node's labels name: Supercargo's own label,
// else the one that cloud providers set. It is empty for a node without either.
func MachineType(labels map[string]string) string {
	if t, ok := labels[v1alpha1.LabelMachineType]; ok {
		return t
	}
	return labels[corev1.LabelInstanceTypeStable]
}
