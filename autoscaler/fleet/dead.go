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
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/world"
)

// condemned reports whether a pod on an unready node ends with its machine and loses nothing by it, and after how long.
// It does so once it is being deleted and its grace period is over: the API server, the taint that evicts pods from
// unreachable nodes or a user has decided that it ends, and its kubelet must kill it. Until then it may still run,
// because an unreachable node says nothing about its containers. A pod that a Migration moves is not condemned: its
// state may be on the node.
func (r *round) condemned(pod *corev1.Pod) (after time.Duration, is bool) {
	if pod.DeletionTimestamp == nil || r.seen.view.Moved(pod) {
		return 0, false
	}
	return max(0, pod.DeletionTimestamp.Sub(r.now)), true
}

// ended reports whether a pod ended with its node, if the node is dead.
func (r *round) ended(pod *corev1.Pod) bool {
	after, is := r.condemned(pod)
	return is && after == 0
}

// podsOf returns the pods on a node according to the cache, without those of DaemonSets.
func (r *round) podsOf(node string) []*corev1.Pod {
	if r.podsOn == nil {
		r.podsOn = map[string][]*corev1.Pod{}
		for i := range r.world.Pods {
			if p := &r.world.Pods[i]; p.Spec.NodeName != "" && !class.EveryNode(p) {
				r.podsOn[p.Spec.NodeName] = append(r.podsOn[p.Spec.NodeName], p)
			}
		}
	}
	return r.podsOn[node]
}

// remains returns the pods on an unready node. Of several pods that would be lost, it names the first by name, so that
// messages about the machine do not change.
func (r *round) remains(node string) fleetdecide.Remains {
	pods := r.podsOf(node)
	found := fleetdecide.Remains{Pods: len(pods)}
	for _, p := range pods {
		wait, is := r.condemned(p)
		if name := world.PodName(p); !is && (found.Lost == "" || name < found.Lost) {
			found.Lost = name
		}
		found.After = max(found.After, wait)
	}
	return found
}

// dead reports whether the node of a machine has been unready for at least the join timeout: no kubelet carries out the
// deletion of pods on it.
func (r *round) dead(m *provider.Machine, node *corev1.Node) bool {
	n := fleetdecide.Machine{Ordered: m.Ordered, Node: r.plainNode(node, "")}
	return !n.Node.Ready && n.Unready(r.now) >= joinTimeout(r.fleet, r.flavor(m.Flavor))
}

// withoutEnded returns the pods on a node without those that ended with it, if it is dead. It reads the node from the
// API server: a node that is ready by now terminates its pods itself.
func (r *round) withoutEnded(ctx context.Context, name string, pods []corev1.Pod) ([]corev1.Pod, error) {
	ended := func(p corev1.Pod) bool { return r.ended(&p) }
	m := r.seen.own[name]
	if !r.dead(&m, r.world.Nodes[name]) || !slices.ContainsFunc(pods, ended) {
		return pods, nil
	}
	var node corev1.Node
	if err := r.Live.Get(ctx, types.NamespacedName{Name: name}, &node); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read node %s before releasing its machine: %w", name, err)
	} else if err == nil && !r.dead(&m, &node) {
		return pods, nil
	}
	return slices.DeleteFunc(pods, ended), nil
}
