package movable

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// preferred are the back-ends that keep a container's state, best first.
var preferred = []v1alpha1.MigrationBackend{v1alpha1.BackendContainerd, v1alpha1.BackendSimulated}

// checkNodes refuses moves in which one of the two nodes cannot take part, and selects the back-end.
func (v *Verdict) checkNodes(in Input) {
	source := in.Nodes[in.Pod.Spec.NodeName]
	if source == nil {
		if in.Pod.Spec.NodeName != "" {
			v.refuse(v1alpha1.MigrationReasonNodeGone, "node %s of the pod is gone", in.Pod.Spec.NodeName)
		}
		return
	}
	if !Ready(source) {
		v.refuse(v1alpha1.MigrationReasonNodeNotReady, "node %s of the pod is not ready: wait until it is", source.Name)
	}
	can, err := able(source)
	if err != nil {
		v.refuse(v1alpha1.MigrationReasonAgentMissing, "%v", err)
		return
	}
	v.Backend = backendOf(can)
	if v.Backend == "" {
		v.refuse(v1alpha1.MigrationReasonNoBackend, "the agent of node %s cannot take checkpoints: see its log for what the node lacks", source.Name)
		return
	}
	v.checkTarget(in, source, capability.Requirements{Backend: v.Backend, Arch: can.Arch})
}

// backendOf returns the best back-end of a node, or "" if it has none.
func backendOf(can capability.Node) v1alpha1.MigrationBackend {
	for _, backend := range preferred {
		if slices.Contains(can.Backends, backend) {
			return backend
		}
	}
	return ""
}

// able returns the capabilities that the agent of a node reports.
func able(node *corev1.Node) (capability.Node, error) {
	text := node.Annotations[v1alpha1.AnnotationCapability]
	if text == "" {
		return capability.Node{}, fmt.Errorf("no agent has reported on node %s: run the DaemonSet of manifests/agent there", node.Name)
	}
	can, err := capability.ParseNode(text)
	if err != nil {
		return capability.Node{}, fmt.Errorf("read the capability of node %s: %w", node.Name, err)
	}
	return can, nil
}

// checkTarget refuses a target that cannot take the pod, and a cluster without a target. The source's agent checks
// further requirements of the checkpoint later, and the scheduler checks free room.
func (v *Verdict) checkTarget(in Input, source *corev1.Node, need capability.Requirements) {
	if in.TargetNode != "" {
		node := in.Nodes[in.TargetNode]
		switch {
		case node == nil:
			v.refuse(v1alpha1.MigrationReasonTargetUnsuitable, "node %s not found: use one of `kubectl get nodes`", in.TargetNode)
		case node.Name == source.Name:
			v.refuse(v1alpha1.MigrationReasonTargetUnsuitable, "the pod is already on node %s: use another node", source.Name)
		default:
			if err := takes(node, need); err != nil {
				v.refuse(v1alpha1.MigrationReasonTargetUnsuitable, "node %s %v", node.Name, err)
			}
		}
		return
	}
	names := make([]string, 0, len(in.Nodes))
	for name := range in.Nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	why := ""
	for _, name := range names {
		if name == source.Name {
			continue
		}
		err := takes(in.Nodes[name], need)
		if err == nil {
			return
		}
		why = fmt.Sprintf("node %s %v", name, err)
	}
	if why == "" {
		v.refuse(v1alpha1.MigrationReasonTargetUnsuitable, "no other node is ready, accepts pods and has an agent that has reported")
		return
	}
	v.refuse(v1alpha1.MigrationReasonTargetUnsuitable, "no other node is a possible target: %s", why)
}

// takes returns nil if a node can take a pod with the given requirements. Otherwise it returns the reason, worded to
// follow the node's name.
func takes(node *corev1.Node, need capability.Requirements) error {
	if node.Spec.Unschedulable {
		return fmt.Errorf("is cordoned: run `kubectl uncordon %s`", node.Name)
	}
	if !Ready(node) {
		return fmt.Errorf("is not ready")
	}
	can, err := able(node)
	if err != nil {
		return fmt.Errorf("cannot restore the container: %w", err)
	}
	return need.Fits(can)
}

// Ready reports whether the node is ready.
func Ready(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
