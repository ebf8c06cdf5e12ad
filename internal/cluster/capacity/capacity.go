// Package capacity knows how machines are sold: on demand, or as spot machines, which their seller may interrupt after a
// notice. It is pure.
package capacity

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// Type is how a machine is sold: the value of the label karpenter.sh/capacity-type of its node.
type Type string

const (
	// Unstated is the type of machines whose labels say nothing, as on providers that label their spot machines only.
	Unstated Type = ""
	// OnDemand machines are not interrupted.
	OnDemand Type = "on-demand"
	// Spot machines are cheaper, and may be interrupted.
	Spot Type = "spot"
	// Reserved machines are paid for in advance.
	Reserved Type = "reserved"
)

// stated are the labels by which providers state how the machine of a node is sold. Values are compared regardless of case.
var stated = []struct {
	label, value string
	sold         Type
}{
	{"karpenter.sh/capacity-type", "spot", Spot}, {"eks.amazonaws.com/capacityType", "SPOT", Spot}, {"cloud.google.com/gke-spot", "true", Spot},
	{"cloud.google.com/gke-preemptible", "true", Spot}, {"cloud.google.com/gke-provisioning", "spot", Spot},
	{"cloud.google.com/gke-provisioning", "preemptible", Spot}, {"kubernetes.azure.com/scalesetpriority", "spot", Spot},
	{"karpenter.sh/capacity-type", "reserved", Reserved}, {"eks.amazonaws.com/capacityType", "CAPACITY_BLOCK", Reserved},
	{"karpenter.sh/capacity-type", "on-demand", OnDemand}, {"eks.amazonaws.com/capacityType", "ON_DEMAND", OnDemand},
	{"cloud.google.com/gke-provisioning", "standard", OnDemand}, {"kubernetes.azure.com/scalesetpriority", "regular", OnDemand},
}

// interruptible is the label of cluster-api for nodes whose machines may be interrupted. It has no value.
const interruptible = "cluster.x-k8s.io/interruptible"

// Of returns how the machine of a node with these labels is sold.
func Of(labels map[string]string) Type {
	for i := range stated {
		if s := &stated[i]; strings.EqualFold(labels[s.label], s.value) {
			return s.sold
		}
	}
	if _, is := labels[interruptible]; is {
		return Spot
	}
	return Unstated
}

// Accepts reports whether a pod may run on machines that may be interrupted: all pods do, except those with the annotation
// supercargo.dev/interruptible "false". The pods of a DaemonSet belong to every node. It returns an error, and true, for
// any value but true and false.
func Accepts(pod *corev1.Pod) (bool, error) {
	value, is := pod.Annotations[v1alpha1.AnnotationInterruptible]
	switch {
	case !is || value == "true" || class.EveryNode(pod):
		return true, nil
	case value == "false":
		return false, nil
	}
	return true, fmt.Errorf("annotation %s is %q: must be \"true\" or \"false\"", v1alpha1.AnnotationInterruptible, value)
}

// Refusal is why a pod does not run on a machine that may be interrupted, for people.
const Refusal = "it may be interrupted, and the pod has annotation " + v1alpha1.AnnotationInterruptible + ": \"false\""
