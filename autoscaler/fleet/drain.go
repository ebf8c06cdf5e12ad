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
	"supercargo.dev/supercargo/internal/drain"
)

// retry is the time after which a failed operation is retried.
const retry = 5 * time.Second

// failed reports that an operation failed for now. It does not stop the other operations: an eviction can fail
// permanently, like that of a pod with two PodDisruptionBudgets.
func (x *execution) failed(reason, action, text string) {
	x.failure = cmp.Or(x.failure, reason)
	x.failures = append(x.failures, text)
	x.report.Event(corev1.EventTypeWarning, reason, action, text)
	x.wakeIn(retry)
}

// drainFailed reports that a node could not be drained, uncordoned or cordoned for now.
func (x *execution) drainFailed(node string, err error) {
	x.failed(v1alpha1.FleetReasonDrainFailed, v1alpha1.ActionDrain, fmt.Sprintf("node %s: %v; will retry", node, err))
}

// ask starts the next step of each pod on a node. A failure does not affect the other pods.
func (x *execution) ask(ctx context.Context, node string) error {
	var errs []error
	for _, l := range x.leaving[node] {
		if x.pressed() {
			break
		}
		asked, err := x.emptying.Do(ctx, l.Pod, l.Step, x.fleet.Name)
		if err != nil {
			errs = append(errs, err)
		}
		switch asked {
		case drain.Eviction:
			metricEvictions.WithLabelValues(x.fleet.Name).Inc()
		case drain.Migration:
			metricMigrations.WithLabelValues(x.fleet.Name).Inc()
		}
	}
	return errors.Join(errs...)
}

// uncordon uncordons the nodes that the round decided to uncordon.
func (x *execution) uncordon(ctx context.Context) {
	for _, n := range x.actions.Uncordon {
		var err error
		if n.Cancel {
			err = x.emptying.Cancel(ctx, n.Node, x.fleet.Name)
		}
		err = errors.Join(err, drain.Uncordon(ctx, x.Client, x.seen.World.Nodes[n.Node]))
		x.memory.Uncordoned(n.Node, err == nil)
		if err != nil {
			x.drainFailed(n.Node, err)
			continue
		}
		if n.Done != nil {
			x.recordEvent(n.Done)
		}
		x.again = settling
	}
}

// cordonTries is how often a node is cordoned that changes at the same time.
const cordonTries = 4

// cordon cordons a node. until is the time until its last pod is expected to have left; 0 if it has none. A node that has
// changed since it was read is read again, because the machines that replace it have been ordered: if it stayed open,
// the next round could order others. A node that somebody else has cordoned or marked meanwhile stays as it is.
func (x *execution) cordon(ctx context.Context, node *corev1.Node, until time.Duration) error {
	mark := drain.Mark{Owner: x.fleet.Name, Since: x.now}
	if until > 0 {
		mark.Until = x.now.Add(until)
	}
	err := drain.Cordon(ctx, x.Client, node, mark)
	for range cordonTries - 1 {
		if !apierrors.IsConflict(err) {
			return err
		}
		var now corev1.Node
		if err := x.Live.Get(ctx, client.ObjectKeyFromObject(node), &now); err != nil {
			return fmt.Errorf("read node %s, which has changed, to cordon it: %w", node.Name, err)
		}
		if _, marked := drain.MarkOf(&now); marked || now.Spec.Unschedulable || now.UID != node.UID {
			return nil
		}
		err = drain.Cordon(ctx, x.Client, &now, mark)
	}
	return err
}

// uncordonAbandoned uncordons nodes that were cordoned by fleets that no longer exist.
func (r *Reconciler) uncordonAbandoned(ctx context.Context) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); r.DryRun || r.Pause.Withholds() || err != nil {
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

// empty returns the nodes that are still empty, apart from expendable pods, according to the API server: a pod that
// tolerates cordoned nodes may have been bound to one.
func (x *execution) empty(ctx context.Context, nodes []string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), func(name string) bool {
		pods, err := drain.Pods(ctx, x.Live, name)
		if err == nil {
			pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return x.seen.View.Expendable(&p) })
			pods, err = x.withoutEnded(ctx, name, pods)
		}
		if err != nil {
			x.drainFailed(name, err)
		} else if len(pods) > 0 {
			x.wakeIn(retry)
		}
		return err != nil || len(pods) > 0
	})
}

// withoutEnded returns the pods on a node without those that ended with it, if it is dead. It reads the node from the
// API server: a node that is ready by now terminates its pods itself.
func (x *execution) withoutEnded(ctx context.Context, name string, pods []corev1.Pod) ([]corev1.Pod, error) {
	ended := func(p corev1.Pod) bool { return x.seen.Ended(&p) }
	m := x.seen.Own[name]
	if !x.seen.Dead(m, x.seen.World.Nodes[name]) || !slices.ContainsFunc(pods, ended) {
		return pods, nil
	}
	var node corev1.Node
	if err := x.Live.Get(ctx, types.NamespacedName{Name: name}, &node); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read node %s before releasing its machine: %w", name, err)
	} else if err == nil && !x.seen.Dead(m, &node) {
		return pods, nil
	}
	return slices.DeleteFunc(pods, ended), nil
}
