package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/decide"
	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/cluster"
)

// closedFor is how long a node must have been closed for pods before it is believed
// to be empty: a pod that the scheduler was binding at that moment shows up by then.
const closedFor = 3 * time.Second

// drainPoll is how often evictions that were refused are asked for again.
const drainPoll = 5 * time.Second

// draining returns the fleet's nodes that it empties, by name, in order.
func (r *round) draining() []string {
	var found []string
	for name := range r.seen.own {
		if node := r.world.nodes[name]; node != nil {
			if fleet, _, ok := drainMark(node); ok && fleet == r.fleet.Name {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return found
}

// drainMark returns which fleet empties a node, and since when.
func drainMark(node *corev1.Node) (fleet string, since time.Time, ok bool) {
	mark, ok := node.Annotations[v1alpha1.AnnotationDraining]
	if !ok {
		return "", time.Time{}, false
	}
	fleet, text, _ := strings.Cut(mark, "/")
	since, _ = time.Parse(time.RFC3339, text) // one that is no time was long ago
	return fleet, since, true
}

// proceedWithDrains goes on with the nodes that are being emptied: it evicts pods,
// opens nodes that could not be emptied, and gives empty ones back. It reports whether
// machines were given back.
func (r *round) proceedWithDrains(ctx context.Context) (bool, error) {
	if r.DryRun {
		return false, nil
	}
	reopened, err := r.reopenForeign(ctx)
	if err != nil {
		return false, err
	}
	var empty []string
	for _, name := range r.draining() {
		node := r.world.nodes[name]
		_, since, _ := drainMark(node)
		pods, err := r.podsOn(ctx, name)
		if err != nil {
			return false, err
		}
		why := r.drainFails(name, pods, since)
		switch {
		case why != "":
			reopened = true
			err = r.reopen(ctx, node)
			if r.mayAct() {
				r.keep(name)
			}
			r.tell(corev1.EventTypeWarning, "DrainGivenUp", "Reopen", fmt.Sprintf("node %s is kept: %s", name, why))
		case len(pods) > 0:
			r.wakeIn(drainPoll)
			if len(decide.Unhoused(&r.seen.state, name)) == 0 { // else there may be machines on their way
				err = r.evict(ctx, pods)
			}
		case r.now.Sub(since) >= closedFor && r.onTheirWay(since) == 0:
			empty = append(empty, name)
		default:
			r.wakeIn(max(closedFor-r.now.Sub(since), time.Second))
		}
		if err != nil {
			return false, err
		}
	}
	if reopened {
		r.again = settling // what was seen is out of date
	}
	if len(empty) == 0 {
		return reopened, nil
	}
	return true, r.release(ctx, empty)
}

// onTheirWay returns how many pods came before a node had been closed for a while and
// have neither been bound nor found to have no room: the scheduler may be binding
// one of them to that node. After some minutes nobody seems to schedule them.
func (r *round) onTheirWay(closed time.Time) int {
	const unscheduled = 2 * time.Minute
	if r.now.Sub(closed) > unscheduled {
		return 0
	}
	n := 0
	for i := range r.world.pods {
		p := &r.world.pods[i]
		judged := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		if p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !judged && p.CreationTimestamp.Time.Before(closed.Add(closedFor)) {
			n++
		}
	}
	return n
}

// reopenForeign opens nodes that this fleet has closed and that are not its own any
// more, and reports whether there were any. Those that are on their way out stay
// closed.
func (r *round) reopenForeign(ctx context.Context) (bool, error) {
	reopened := false
	for name, node := range r.world.nodes {
		fleet, _, marked := drainMark(node)
		if _, own := r.seen.own[name]; !marked || own || fleet != r.fleet.Name || r.seen.going[name] || node.DeletionTimestamp != nil {
			continue
		}
		if err := r.reopen(ctx, node); err != nil {
			return reopened, err
		}
		reopened = true
	}
	return reopened, nil
}

// kept is a node that could not be emptied.
type kept struct {
	times int
	until time.Time
}

// keep leaves a node alone that could not be emptied, for longer each time: else the
// next round would try again, for ever.
func (r *round) keep(node string) {
	const mostDoublings = 4
	c := &r.fleet.Spec.Consolidation
	k := r.memory.kept[node]
	k.until = r.now.Add(max(c.After.Duration, c.DrainTimeout.Duration) << min(k.times, mostDoublings))
	k.times++
	r.memory.kept[node] = k
}

// drainFails says why a node is not to be emptied after all, or returns "".
func (r *round) drainFails(node string, pods []corev1.Pod, since time.Time) string {
	if !r.mayAct() {
		return "the fleet only observes"
	}
	if p := r.wants(node); len(pods) == 0 && p != "" {
		return fmt.Sprintf("pod %s waits for room that it has", p)
	}
	for i := range pods {
		kind, _ := class.OfPod(&pods[i])
		if pods[i].DeletionTimestamp == nil && (kind == class.Service || !evictable(&pods[i])) {
			return fmt.Sprintf("pod %s must not be moved", podName(&pods[i]))
		}
	}
	if len(r.seen.inFlight) > 0 {
		return "" // the room may be on its way
	}
	if timeout := r.fleet.Spec.Consolidation.DrainTimeout.Duration; len(pods) > 0 && r.now.Sub(since) > timeout {
		return fmt.Sprintf("%d pods have not left within %v", len(pods), timeout)
	}
	return ""
}

// podsOn returns the pods on a node that would be lost with it, past the cache.
func (r *round) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := r.Live.List(ctx, &list, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return nil, fmt.Errorf("list pods on node %s: %w", node, err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return class.EveryNode(&p) || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	}), nil
}

// evict asks for pods to be evicted. One that a PodDisruptionBudget holds is asked
// for again at the next look.
func (r *round) evict(ctx context.Context, pods []corev1.Pod) error {
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil {
			continue
		}
		eviction := &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
		}
		err := r.Client.SubResource("eviction").Create(ctx, pod, eviction)
		switch {
		case err == nil:
			metricEvictions.WithLabelValues(r.fleet.Name).Inc()
		case apierrors.IsTooManyRequests(err), apierrors.IsNotFound(err), apierrors.IsConflict(err):
		default:
			return fmt.Errorf("evict pod %s: %w", podName(pod), err)
		}
	}
	return nil
}

// close closes a node for pods and marks it, in one write that the API server refuses
// if the node has changed since it was read.
func (r *round) close(ctx context.Context, node *corev1.Node) error {
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"annotations":{%q:%q}},"spec":{"unschedulable":true}}`,
		node.ResourceVersion, v1alpha1.AnnotationDraining, r.fleet.Name+"/"+r.now.UTC().Format(time.RFC3339))
	err := r.Client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, client.RawPatch(types.MergePatchType, patch))
	if err != nil {
		return fmt.Errorf("close node %s for pods: %w", node.Name, err)
	}
	return nil
}

// reopen undoes close.
func (r *Reconciler) reopen(ctx context.Context, node *corev1.Node) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}},"spec":{"unschedulable":null}}`, v1alpha1.AnnotationDraining)
	err := r.Client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("open node %s for pods again: %w", node.Name, err)
	}
	return nil
}

// reopenAbandoned opens nodes that were closed by fleets that are no more.
func (r *Reconciler) reopenAbandoned(ctx context.Context, w *world, fleets []v1alpha1.NodeFleet) error {
	for _, node := range w.nodes {
		fleet, _, ok := drainMark(node)
		if r.DryRun || !ok || node.DeletionTimestamp != nil || slices.ContainsFunc(fleets, func(f v1alpha1.NodeFleet) bool { return f.Name == fleet }) {
			continue
		}
		if err := r.reopen(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// release gives back the machines of nodes that are closed and empty.
func (r *round) release(ctx context.Context, nodes []string) error {
	byFlavor := map[string][]string{}
	for _, name := range nodes {
		m := r.seen.own[name]
		byFlavor[m.Flavor] = append(byFlavor[m.Flavor], m.Name)
	}
	intent := r.newIntent()
	for flavor, machines := range byFlavor {
		slices.Sort(machines)
		intent.Releases = append(intent.Releases, v1alpha1.FleetRelease{Flavor: flavor, From: int32(r.flavor(flavor).Want), Machines: machines})
	}
	slices.SortFunc(intent.Releases, func(a, b v1alpha1.FleetRelease) int { return cmp.Compare(a.Flavor, b.Flavor) })
	if err := r.carryOut(ctx, intent); err != nil {
		return err
	}
	for _, name := range nodes {
		r.tell(corev1.EventTypeNormal, "Released", "Release", fmt.Sprintf("gave back machine %s of node %s (%s)", r.seen.own[name].Name, name, r.seen.own[name].Flavor))
	}
	return nil
}

// wants returns the name of a pod that waits and would have room on a node that is
// being emptied, or "".
func (r *round) wants(node string) string {
	s := &r.seen.state
	at := slices.IndexFunc(s.Nodes, func(n cluster.Node) bool { return n.Name == node })
	if at < 0 {
		return ""
	}
	if !joined(r.world.nodes[node]) {
		return "" // it is given up
	}
	open := s.Nodes[at]
	host := *open.Host
	host.Unschedulable = false
	host.Taints = slices.DeleteFunc(slices.Clone(host.Taints), func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
	open.Host = &host
	for i := range s.Pending {
		if p := &s.Pending[i]; open.Suits(p) && p.Size.Fits(open.Free()) && int64(len(open.Pods)) < open.MaxPods {
			return p.Name
		}
	}
	return ""
}
