package score

import (
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// DefaultWeight is the default of H: energy and runtime count equally.
const DefaultWeight = 0.5

// Origin is the source of a weight.
type Origin string

const (
	// FromPod is the pod's annotation.
	FromPod Origin = "pod"
	// FromNamespace is the annotation of the pod's namespace.
	FromNamespace Origin = "namespace"
	// FromProfile is the argument of the scheduler's profile.
	FromProfile Origin = "profile"
)

// Weight is H, the weight of energy against runtime, and its source.
type Weight struct {
	H      float64 // in [0, 1]
	Origin Origin
}

// WeightOf returns the weight of a pod: that of its annotation, else of its namespace's annotation, else the fallback,
// which must be in [0, 1]. A malformed annotation is ignored and reported in the error.
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
		// Written so that NaN is rejected.
		if h, err := strconv.ParseFloat(text, 64); err == nil && h >= 0 && h <= 1 {
			return Weight{h, from.origin}, errors.Join(errs...)
		}
		errs = append(errs, fmt.Errorf("annotation %s=%q of the %s: must be a number from 0 (runtime only) to 1 (energy only)",
			v1alpha1.AnnotationEnergyWeight, text, from.origin))
	}
	return Weight{fallback, FromProfile}, errors.Join(errs...)
}

// Governor returns the CPU governor of a node as reported by its agent, or "" if unknown.
func Governor(annotations map[string]string) string {
	return annotations[v1alpha1.AnnotationGovernor]
}

// MachineType returns the machine type in a node's labels: Supercargo's own label, else the one that cloud providers
// set, else "".
func MachineType(labels map[string]string) string {
	if t, ok := labels[v1alpha1.LabelMachineType]; ok {
		return t
	}
	return labels[corev1.LabelInstanceTypeStable]
}
