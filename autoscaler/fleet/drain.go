package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/drain"
)

// retry is the time after which a failed operation is retried.
const retry = 5 * time.Second

// failed reports that an operation failed for now. It does not stop the other operations: an eviction can fail
// permanently, like that of a pod with two PodDisruptionBudgets.
func (r *round) failed(reason, action, text string) {
	r.failure = cmp.Or(r.failure, reason)
	r.failures = append(r.failures, text)
	r.tell(corev1.EventTypeWarning, reason, action, text)
	r.wakeIn(retry)
}

// drainFailed reports that a node could not be drained, uncordoned or cordoned for now.
func (r *round) drainFailed(node string, err error) {
	r.failed("DrainFailed", "Drain", fmt.Sprintf("node %s: %v; will retry, the node is unchanged until then", node, err))
}

// leaver is a pod that is to leave a node, and its next step.
type leaver struct {
	pod  *corev1.Pod
	step drain.Step
}

// leavers returns the pods on a drained node, and remembers them for ask. It leaves out pods that ended with the node:
// see ended.
func (r *round) leavers(name string, m *provider.Machine, mark drain.Mark) []leaver {
	if r.emptying == nil {
		r.emptying, r.leaving = drain.NewEmptying(r.Client, r.seen.view, r.learned), map[string][]leaver{}
	}
	dead := r.dead(m, r.world.Nodes[name])
	for _, pod := range r.podsOf(name) {
		if dead && r.ended(pod) {
			continue
		}
		r.leaving[name] = append(r.leaving[name], leaver{pod, mark.Next(r.emptying.Leaver(pod), r.now)})
	}
	return r.leaving[name]
}

// ask starts the next step of each pod on a node. A failure does not affect the other pods.
func (r *round) ask(ctx context.Context, node string) error {
	var errs []error
	for _, l := range r.leaving[node] {
		if r.pressed() {
			break
		}
		asked, err := r.emptying.Do(ctx, l.pod, l.step, r.fleet.Name)
		if err != nil {
			errs = append(errs, err)
		}
		switch asked {
		case drain.Eviction:
			metricEvictions.WithLabelValues(r.fleet.Name).Inc()
		case drain.Migration:
			metricMigrations.WithLabelValues(r.fleet.Name).Inc()
		}
	}
	return errors.Join(errs...)
}

// uncordon uncordons the nodes that the round decided to uncordon.
func (r *round) uncordon(ctx context.Context) {
	for _, n := range r.actions.Uncordon {
		var err error
		if n.Cancel {
			err = r.emptying.Cancel(ctx, n.Node, r.fleet.Name)
		}
		err = errors.Join(err, drain.Uncordon(ctx, r.Client, r.world.Nodes[n.Node]))
		r.memory.Uncordoned(n.Node, err == nil)
		if err != nil {
			r.drainFailed(n.Node, err)
			continue
		}
		r.again = settling
	}
}

// cordon cordons a node. until is the time until its last pod is expected to have left; 0 if it has none.
func (r *round) cordon(ctx context.Context, node *corev1.Node, until time.Duration) error {
	mark := drain.Mark{Owner: r.fleet.Name, Since: r.now}
	if until > 0 {
		mark.Until = r.now.Add(until)
	}
	return drain.Cordon(ctx, r.Client, node, mark)
}

// uncordonAbandoned uncordons nodes that were cordoned by fleets that no longer exist.
func (r *Reconciler) uncordonAbandoned(ctx context.Context) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); r.DryRun || err != nil {
		return // the next round retries
	}
	closed := map[string][]*corev1.Node{}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if mark, ok := drain.MarkOf(node); ok && mark.Owner != drain.Descheduler && node.DeletionTimestamp == nil {
			closed[mark.Owner] = append(closed[mark.Owner], node)
		}
	}
	for owner, nodes := range closed {
		is := func(c client.Reader) bool {
			return !apierrors.IsNotFound(c.Get(ctx, types.NamespacedName{Name: owner}, &v1alpha1.NodeFleet{}))
		}
		if is(r.Client) || is(r.Live) {
			continue
		}
		for _, node := range nodes {
			if err := drain.Uncordon(ctx, r.Client, node); err != nil {
				log.FromContext(ctx).Error(err, "Failed to uncordon a node of a deleted fleet, will retry", "node", node.Name, "fleet", owner)
			}
		}
	}
}

// empty returns the nodes that are still empty according to the API server: a pod that tolerates cordoned nodes may
// have been bound to one.
func (r *round) empty(ctx context.Context, nodes []string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), func(name string) bool {
		pods, err := drain.Pods(ctx, r.Live, name)
		if err == nil {
			pods, err = r.withoutEnded(ctx, name, pods)
		}
		if err != nil {
			r.drainFailed(name, err)
		} else if len(pods) > 0 {
			r.wakeIn(retry)
		}
		return err != nil || len(pods) > 0
	})
}
