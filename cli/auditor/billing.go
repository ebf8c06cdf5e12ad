package auditor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// BilledByPod reports whether the provider bills the pods of a node in place of a machine. Only an annotation then sets a
// price of the node.
func BilledByPod(node *corev1.Node) bool { return byPod(node) != "" }

// byPod returns why a node costs nothing of its own, because the provider bills its pods; empty for a machine.
func byPod(node *corev1.Node) string {
	switch {
	case virtual(node): // its size is no machine's: a node of Azure Container Instances states 10,000 CPUs
		return "it is a virtual node, whose provider bills each pod"
	case autopilot(node):
		return "it is a node of GKE Autopilot, which bills pods"
	}
	return ""
}

// virtual reports whether a node is no machine: one of a virtual kubelet or of Fargate.
func virtual(node *corev1.Node) bool {
	return node.Labels["type"] == "virtual-kubelet" || node.Labels["eks.amazonaws.com/compute-type"] == "fargate" ||
		slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "virtual-kubelet.io/provider" })
}

// autopilot reports whether a node belongs to a cluster of GKE Autopilot. No label says so, but GKE names such nodes gk3-,
// and all others gke-.
func autopilot(node *corev1.Node) bool {
	return strings.HasPrefix(node.Name, "gk3-") && provider(node) == "gcp"
}

// incomplete returns why the list price of a node's instance type is not the price of the node; empty if it is. Google
// Cloud sells the GPUs of some types (N1) separately, so that the type does not tell whether a machine has any. The types
// of other GPUs, and of other providers, include them.
func incomplete(node *corev1.Node, f *catalogue.Flavor) string {
	_, labelled := node.Labels["cloud.google.com/gke-accelerator"]
	gpus := node.Status.Allocatable["nvidia.com/gpu"]
	if provider(node) != "gcp" || f.Kind == catalogue.KindAccelerated || !labelled && gpus.IsZero() {
		return ""
	}
	return fmt.Sprintf("the list price of %s is without its GPUs, which Google Cloud sells separately: set annotation %s to the price of both", f.Name, v1alpha1.AnnotationPricePerHour)
}
