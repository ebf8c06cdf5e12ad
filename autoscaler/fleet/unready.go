package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/internal/world"
)

// condemned reports whether a pod on an unready node ends with its machine and loses nothing by it, and after how long.
// It does so once it is being deleted and its grace period is over: the API server, the taint that evicts pods from
// unreachable nodes or a user has decided that it ends, and its kubelet must kill it. Until then it may still run,
// because an unreachable node says nothing about its containers. A pod that a Migration moves is not condemned: its
// state may be on the node.
func (o *observation) condemned(pod *corev1.Pod) (after time.Duration, is bool) {
	if pod.DeletionTimestamp == nil || o.view.Moved(pod) {
		return 0, false
	}
	return max(0, pod.DeletionTimestamp.Sub(o.now)), true
}

// ended reports whether a pod ended with its node, if the node is dead.
func (o *observation) ended(pod *corev1.Pod) bool {
	after, is := o.condemned(pod)
	return is && after == 0
}

// remains returns the pods on an unready node. Of several pods that would be lost, it names the first by name, so that
// messages about the machine do not change.
func (o *observation) remains(node string) fleetdecide.Remains {
	pods := o.podsOn[node]
	found := fleetdecide.Remains{Pods: len(pods)}
	for _, p := range pods {
		wait, is := o.condemned(p)
		if name := world.PodName(p); !is && (found.Lost == "" || name < found.Lost) {
			found.Lost = name
		}
		found.After = max(found.After, wait)
	}
	return found
}

// dead reports whether the node of a machine has been unready for at least the join timeout: no kubelet carries out the
// deletion of pods on it.
func (o *observation) dead(m fleetdecide.Machine, node *corev1.Node) bool {
	m.NodeState = o.nodeState(node, "")
	return !m.NodeState.Ready && m.Unready(o.now) >= joinTimeout(o.self.fleet, o.self.flavor(m.Flavor))
}

// withoutEnded returns the pods on a node without those that ended with it, if it is dead. It reads the node from the
// API server: a node that is ready by now terminates its pods itself.
func (x *execution) withoutEnded(ctx context.Context, name string, pods []corev1.Pod) ([]corev1.Pod, error) {
	ended := func(p corev1.Pod) bool { return x.seen.ended(&p) }
	m := x.seen.own[name]
	if !x.seen.dead(m, x.seen.world.Nodes[name]) || !slices.ContainsFunc(pods, ended) {
		return pods, nil
	}
	var node corev1.Node
	if err := x.Live.Get(ctx, types.NamespacedName{Name: name}, &node); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read node %s before releasing its machine: %w", name, err)
	} else if err == nil && !x.seen.dead(m, &node) {
		return pods, nil
	}
	return slices.DeleteFunc(pods, ended), nil
}
