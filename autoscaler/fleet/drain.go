package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/decide"
	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/world"
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
		if node := r.world.Nodes[name]; node != nil {
			if mark, ok := drain.MarkOf(node); ok && mark.Owner == r.fleet.Name {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return found
}

// proceedWithDrains goes on with the nodes that are being emptied: it evicts pods,
// opens nodes that could not be emptied, and gives empty ones back. It reports whether
// machines were given back.
//
// A node with which something goes wrong is tried again in the next round, and keeps
// nothing else from being done: an eviction can fail for good, as that of a pod of two
// PodDisruptionBudgets does.
func (r *round) proceedWithDrains(ctx context.Context) (bool, error) {
	if r.DryRun {
		return false, nil
	}
	reopened := r.reopenForeign(ctx)
	var empty []string
	e := drain.NewEmptying(r.Client, r.seen.view, r.learned)
	for _, name := range r.draining() {
		node := r.world.Nodes[name]
		mark, _ := drain.MarkOf(node)
		pods, err := drain.Pods(ctx, r.Live, name)
		if err != nil {
			r.drainFailed(name, err)
			continue
		}
		if pods, err = r.uncondemned(ctx, name, pods); err != nil {
			return false, err
		}
		leaving := r.leavers(e, pods, mark)
		why := r.drainFails(name, leaving, mark)
		switch {
		case why != "":
			err = errors.Join(e.Cancel(ctx, name, r.fleet.Name), drain.Open(ctx, r.Client, node))
			reopened = reopened || err == nil
			if r.mayAct() {
				r.keep(name)
			}
			r.tell(corev1.EventTypeWarning, "DrainGivenUp", "Reopen", fmt.Sprintf("node %s is kept: %s", name, why))
		case len(pods) > 0:
			r.wakeIn(drainPoll)
			if len(decide.Unhoused(&r.seen.state, name)) == 0 { // else there may be machines on their way
				err = r.ask(ctx, e, leaving)
			}
		case r.now.Sub(mark.Since) >= closedFor && r.onTheirWay(mark.Since) == 0:
			empty = append(empty, name)
		default:
			r.wakeIn(max(closedFor-r.now.Sub(mark.Since), time.Second))
		}
		if err != nil {
			r.drainFailed(name, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if reopened {
		r.again = settling // what was seen is out of date
	}
	if len(empty) == 0 {
		return reopened, nil
	}
	return true, r.release(ctx, empty)
}

// drainFailed says that a node could not be emptied, opened or closed for now.
func (r *round) drainFailed(node string, err error) {
	text := fmt.Sprintf("node %s: %v", node, err)
	r.drainErrors = append(r.drainErrors, text)
	r.tell(corev1.EventTypeWarning, "DrainFailed", "Drain", text+"; it is tried again, and meanwhile the node stays as it is")
	r.wakeIn(drainPoll)
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
	for i := range r.world.Pods {
		p := &r.world.Pods[i]
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
func (r *round) reopenForeign(ctx context.Context) (reopened bool) {
	for name, node := range r.world.Nodes {
		mark, marked := drain.MarkOf(node)
		if _, own := r.seen.own[name]; !marked || own || mark.Owner != r.fleet.Name || r.seen.going[name] || node.DeletionTimestamp != nil {
			continue
		}
		if err := drain.Open(ctx, r.Client, node); err != nil {
			r.drainFailed(name, err)
			continue
		}
		reopened = true
	}
	return reopened
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

// leaver is a pod that is to leave a node, and what is next for it.
type leaver struct {
	pod  *corev1.Pod
	step drain.Step
}

// leavers decides about the pods on a node that is being emptied.
func (r *round) leavers(e *drain.Emptying, pods []corev1.Pod, mark drain.Mark) []leaver {
	all := make([]leaver, len(pods))
	for i := range pods {
		all[i] = leaver{&pods[i], mark.Next(e.Leaver(&pods[i]), r.now)}
		if kind, _ := class.OfPod(&pods[i]); kind == class.Service && pods[i].DeletionTimestamp == nil {
			all[i].step = drain.Step{Do: drain.GiveUp, Why: "services are not moved"}
		}
	}
	return all
}

// drainFails says why a node is not to be emptied after all, or returns "". As long as
// somebody expects pods to take to leave it, none is late.
func (r *round) drainFails(node string, leaving []leaver, mark drain.Mark) string {
	if !r.mayAct() {
		return "the fleet only observes"
	}
	if p := r.wants(node); len(leaving) == 0 && p != "" {
		return fmt.Sprintf("pod %s waits for room that it has", p)
	}
	for _, l := range leaving {
		if l.step.Do == drain.GiveUp {
			return fmt.Sprintf("pod %s must not be moved: %s", world.PodName(l.pod), l.step.Why)
		}
	}
	if len(r.seen.inFlight) > 0 {
		return "" // the room may be on its way
	}
	begun := mark.Since
	if mark.Until.After(begun) {
		begun = mark.Until
	}
	if timeout := r.fleet.Spec.Consolidation.DrainTimeout.Duration; len(leaving) > 0 && r.now.Sub(begun) > timeout {
		return fmt.Sprintf("%d pods have not left within %v", len(leaving), timeout)
	}
	return ""
}

// ask asks pods to leave: each, whatever becomes of the others.
func (r *round) ask(ctx context.Context, e *drain.Emptying, leaving []leaver) error {
	var errs []error
	for _, l := range leaving {
		asked, err := e.Do(ctx, l.pod, l.step, r.fleet.Name)
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

// close closes a node for pods. until is when its last pod is expected to have left, from
// now; 0 if none is there.
func (r *round) close(ctx context.Context, node *corev1.Node, until time.Duration) error {
	mark := drain.Mark{Owner: r.fleet.Name, Since: r.now}
	if until > 0 {
		mark.Until = r.now.Add(until)
	}
	return drain.Close(ctx, r.Client, node, mark)
}

// reopenAbandoned opens nodes that were closed by fleets that are no more.
func (r *Reconciler) reopenAbandoned(ctx context.Context, w *world.World, fleets []v1alpha1.NodeFleet) {
	for _, node := range w.Nodes {
		mark, ok := drain.MarkOf(node)
		if r.DryRun || !ok || mark.Owner == drain.Descheduler || node.DeletionTimestamp != nil ||
			slices.ContainsFunc(fleets, func(f v1alpha1.NodeFleet) bool { return f.Name == mark.Owner }) {
			continue
		}
		if err := drain.Open(ctx, r.Client, node); err != nil {
			log.FromContext(ctx).Error(err, "opening a node that a fleet closed which is no more; it is tried again", "node", node.Name, "fleet", mark.Owner)
		}
	}
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
	if !world.Joined(r.world.Nodes[node]) {
		return "" // it is given up
	}
	if pod := r.seen.needed[node]; pod != "" {
		return pod
	}
	return drain.Wanted(&r.seen.state, node)
}
