package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/world"
)

// unready returns for how long the node of a machine has not been ready: since it ceased to
// be, or since the machine was ordered if it never was.
func unready(m provider.Machine, node *corev1.Node, now time.Time) time.Duration {
	c, _ := world.Ready(node)
	if c.LastTransitionTime.Sub(node.CreationTimestamp.Time) > time.Second {
		return now.Sub(c.LastTransitionTime.Time)
	}
	return now.Sub(m.Ordered)
}

// condemned reports whether a pod on a node that is not ready ends with its machine and
// loses nothing by it, and after how long. It does once it is being deleted and its grace
// period is over: the API server, the taint that evicts pods from unreachable nodes or
// somebody has decided its end, and its kubelet is bound to kill it. Until then it may
// run on: that its node is not heard of says nothing about its containers. A pod that a
// Migration moves is not condemned: its state may be on the node.
func (r *round) condemned(pod *corev1.Pod) (after time.Duration, is bool) {
	if pod.DeletionTimestamp == nil || r.seen.view.Moved(pod) {
		return 0, false
	}
	return max(0, pod.DeletionTimestamp.Sub(r.now)), true
}

// remains returns after how long nothing is lost with the machine of a node that is not
// ready, or the pod that would be lost with it; of several the first by name, so that what
// is said of the machine stays the same.
func (r *round) remains(node string) (after time.Duration, lost string) {
	if r.podsOn == nil {
		r.podsOn = map[string][]*corev1.Pod{}
		for i := range r.world.Pods {
			if p := &r.world.Pods[i]; p.Spec.NodeName != "" && !class.EveryNode(p) {
				r.podsOn[p.Spec.NodeName] = append(r.podsOn[p.Spec.NodeName], p)
			}
		}
	}
	for _, p := range r.podsOn[node] {
		wait, is := r.condemned(p)
		if name := world.PodName(p); !is && (lost == "" || name < lost) {
			lost = name
		}
		after = max(after, wait)
	}
	if lost != "" {
		return 0, lost
	}
	return after, ""
}

// deadNodes returns why machines are kept whose nodes have not been ready for so long that
// they would be given up, ordered by node.
func (r *round) deadNodes() (kept []string) {
	for name, m := range r.seen.own {
		node := r.world.Nodes[name]
		if node == nil || m.Unidentified != "" || node.DeletionTimestamp != nil {
			continue
		}
		_, is := world.Ready(node)
		if _, closing := drain.MarkOf(node); is || closing {
			continue
		}
		f := r.flavor(m.Flavor)
		if unready(m, node, r.now) < joinTimeout(r.fleet, f) {
			continue
		}
		switch _, lost := r.remains(name); {
		case lost != "":
			kept = append(kept, fmt.Sprintf("node %s is not ready and pod %s on it is not being deleted, so that it may still run: delete the pod, or set taint %s on the node if its machine is off",
				name, lost, corev1.TaintNodeOutOfService))
		case f.Want <= f.Min:
			kept = append(kept, fmt.Sprintf("node %s is not ready and its flavor %s has no more machines than it must have: replace the machine", name, m.Flavor))
		}
	}
	slices.Sort(kept)
	return kept
}

// uncondemned returns the pods on a node that is being emptied without those that have ended
// with it: on a node that has not been ready for as long as a machine may take to come, pods
// whose deletion no kubelet carries out. The node is read past the cache: one that is
// ready by now empties itself.
func (r *round) uncondemned(ctx context.Context, name string, pods []corev1.Pod) ([]corev1.Pod, error) {
	ended := func(p corev1.Pod) bool {
		after, is := r.condemned(&p)
		return is && after == 0
	}
	m := r.seen.own[name]
	late := func(node *corev1.Node) bool {
		_, is := world.Ready(node)
		return !is && unready(m, node, r.now) >= joinTimeout(r.fleet, r.flavor(m.Flavor))
	}
	if !late(r.world.Nodes[name]) || !slices.ContainsFunc(pods, ended) {
		return pods, nil
	}
	var node corev1.Node
	if err := r.Live.Get(ctx, types.NamespacedName{Name: name}, &node); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read node %s before its machine is given back: %w", name, err)
	} else if err == nil && !late(&node) {
		return pods, nil
	}
	return slices.DeleteFunc(pods, ended), nil
}

// whyLate says why a machine is given up.
func (r *round) whyLate(m provider.Machine, node *corev1.Node, timeout time.Duration) string {
	if m.Failed != "" {
		return m.Failed
	}
	if node != nil {
		why := fmt.Sprintf("node %s has not become ready within %v", node.Name, timeout)
		if c, _ := world.Ready(node); c.LastTransitionTime.Sub(node.CreationTimestamp.Time) > time.Second {
			why = fmt.Sprintf("node %s has not been ready since %s", node.Name, c.LastTransitionTime.UTC().Format(time.RFC3339))
		}
		if n := len(r.podsOn[node.Name]); n > 0 {
			why += fmt.Sprintf(", and the grace periods of the %d pods on it, which are being deleted, are over", n)
		}
		return why
	}
	why := fmt.Sprintf("no ready node within %v", timeout)
	if m.Waits != "" {
		why += ": " + m.Waits
	}
	return why
}
