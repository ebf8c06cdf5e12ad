package consolidation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/internal/world"
)

// drainPoll is the time between two tries to move pods that have not left.
const drainPoll = 5 * time.Second

// run runs one round.
func (r *round) run(ctx context.Context) error {
	if r.Config.Mode != Off {
		changed, err := r.uncordon(ctx)
		if err != nil {
			return err
		}
		drained, err := r.proceed(ctx)
		if err != nil {
			return err
		}
		r.publish()
		if changed || drained {
			r.again = settling // the observed state is outdated
			return nil
		}
		if err := r.consolidate(ctx); err != nil {
			return err
		}
	}
	return r.improve(ctx)
}

// mayAct reports whether decisions in a mode are carried out.
func (r *round) mayAct(mode Mode) bool { return mode == Act && !r.DryRun && !r.paused.Paused }

// observes returns why decisions are not carried out.
func (r *round) observes() string {
	if r.paused.Paused {
		return r.paused.Message()
	}
	return "--consolidation is not Act"
}

// consolidate plans which nodes to empty, and begins.
func (r *round) consolidate(ctx context.Context) error {
	plan := r.planner.Plan(r.now, r.plannable())
	if plan.Wake > 0 {
		r.again = min(r.again, plan.Wake)
	}
	if r.now.Before(r.memory.next) {
		r.again = min(r.again, r.memory.next.Sub(r.now))
		return nil
	}
	r.memory.next = r.now.Add(r.Config.Interval)
	if uncordoned, err := r.drop(ctx, plan.Uncordon); err != nil || uncordoned {
		r.again = settling // make a new plan without them
		return err
	}
	return r.begin(ctx, plan)
}

// plannable returns the planner's state: without the emptied nodes, which are as good as
// released, and with the nodes in back-off kept.
func (r *round) plannable() *cluster.State {
	s := r.state
	s.Nodes = nil
	gone := map[string]bool{}
	for _, name := range r.emptied {
		gone[name] = true
	}
	for i := range r.state.Nodes {
		n := r.state.Nodes[i]
		if gone[n.Name] {
			continue
		}
		n.Kept = n.Kept || r.memory.spared[n.Name].until.After(r.now)
		s.Nodes = append(s.Nodes, n)
	}
	s.MaxNodes = len(s.Nodes)
	return &s
}

// uncordon uncordons nodes that should accept pods again: emptied ones that a pending pod needs,
// and all that this mover has cordoned if it may no longer act.
func (r *round) uncordon(ctx context.Context) (bool, error) {
	if r.DryRun || r.ReadOnly {
		return false, nil
	}
	uncordoned := false
	uncordon := func(name, why string) error {
		if err := r.emptying.Cancel(ctx, name, drain.Descheduler); err != nil {
			return err
		}
		if err := drain.Uncordon(ctx, r.Client, r.world.Nodes[name]); err != nil {
			return err
		}
		uncordoned = true
		r.recordEvent(name, corev1.EventTypeNormal, v1alpha1.ConsolidationReasonUncordoned, "node %s is uncordoned: %s", name, why)
		return nil
	}
	for _, name := range r.emptied {
		why := r.observes()
		if r.mayAct(r.Config.Mode) {
			pod := drain.Wanted(&r.state, name)
			if pod == "" {
				continue
			}
			why = "pod " + pod + " is pending, and the node has room for it"
		}
		if err := uncordon(name, why); err != nil {
			return uncordoned, err
		}
	}
	if r.mayAct(r.Config.Mode) {
		return uncordoned, nil
	}
	for _, name := range r.draining {
		if err := uncordon(name, r.observes()); err != nil {
			return uncordoned, err
		}
	}
	return uncordoned, nil
}

// drop uncordons nodes that are no longer worth emptying, and reports whether there were any.
func (r *round) drop(ctx context.Context, nodes []cluster.Stay) (bool, error) {
	if !r.mayAct(r.Config.Mode) {
		return false, nil
	}
	for _, stay := range nodes {
		if err := drain.Uncordon(ctx, r.Client, r.world.Nodes[stay.Node]); err != nil {
			return true, err
		}
		r.spare(stay.Node, stay.Reason)
		r.recordEvent(stay.Node, corev1.EventTypeNormal, v1alpha1.ConsolidationReasonUncordoned, "node %s is uncordoned: %s", stay.Node, stay.Reason)
	}
	return len(nodes) > 0, nil
}

// leaver is a pod that must leave a node, and its next step.
type leaver struct {
	pod  *corev1.Pod
	step drain.Step
}

// proceed continues with the nodes that are being emptied. It reports whether it uncordoned one.
func (r *round) proceed(ctx context.Context) (uncordoned bool, err error) {
	if !r.mayAct(r.Config.Mode) {
		return false, nil
	}
	for _, name := range r.draining {
		r.again = min(r.again, drainPoll)
		mark, _ := drain.MarkOf(r.world.Nodes[name])
		pods, err := drain.Pods(ctx, r.Live, name)
		if err != nil {
			return uncordoned, err
		}
		leaving := r.leavers(pods, mark)
		if why := r.fails(leaving, mark); why != "" {
			if err := errors.Join(r.emptying.Cancel(ctx, name, drain.Descheduler), drain.Uncordon(ctx, r.Client, r.world.Nodes[name])); err != nil {
				return uncordoned, err
			}
			uncordoned = true
			r.spare(name, why)
			r.recordEvent(name, corev1.EventTypeWarning, v1alpha1.ConsolidationReasonDrainCancelled, "the drain of node %s is cancelled: %s", name, why)
			continue
		}
		if err := r.ask(ctx, leaving); err != nil {
			return uncordoned, err
		}
	}
	return uncordoned, nil
}

// leavers returns the next steps of the pods on a node that is being emptied.
func (r *round) leavers(pods []corev1.Pod, mark drain.Mark) []leaver {
	all := make([]leaver, len(pods))
	for i := range pods {
		all[i] = leaver{&pods[i], mark.Next(r.emptying.Leaver(&pods[i]), r.now)}
		if kind, _ := class.OfPod(&pods[i]); kind == class.Service && !r.Config.MoveServices && pods[i].DeletionTimestamp == nil {
			all[i].step = drain.Step{Do: drain.GiveUp, Why: "pods of services are not moved"}
		}
		all[i].step = settle(all[i].step, &pods[i], r.Config.Residence, r.now)
	}
	return all
}

// settle keeps a pod that has not been on its node for long enough. The planner checks that too,
// but the scheduler may have bound a pod that the planner did not know when it selected the node.
func settle(s drain.Step, pod *corev1.Pod, residence time.Duration, now time.Time) drain.Step {
	if s.Do == drain.Stay || s.Do == drain.GiveUp {
		return s
	}
	if start := pod.Status.StartTime; start == nil || now.Sub(start.Time) < residence {
		return drain.Step{Why: fmt.Sprintf("it has not been on its node for %v", residence)}
	}
	return s
}

// fails returns why the drain of a node must be cancelled; "" if it continues.
func (r *round) fails(leaving []leaver, mark drain.Mark) string {
	for _, l := range leaving {
		if l.step.Do == drain.GiveUp {
			return fmt.Sprintf("pod %s: %s", world.PodName(l.pod), l.step.Why)
		}
	}
	if len(leaving) == 0 { // the last one has just left
		return ""
	}
	begun := mark.Since
	if mark.Until.After(begun) {
		begun = mark.Until
	}
	if r.now.Sub(begun) > r.Config.DrainTimeout {
		return fmt.Sprintf("%s did not leave within %v", plural.Count(len(leaving), "pod"), r.Config.DrainTimeout)
	}
	return ""
}

// ask moves pods away, up to the limit of MaxPods.
func (r *round) ask(ctx context.Context, leaving []leaver) error {
	room := r.Config.MaxPods - r.onTheirWay()
	for _, l := range leaving {
		if l.step.Do == drain.Stay || l.step.Do == drain.GiveUp {
			continue
		}
		if room--; room < 0 {
			return nil
		}
		asked, err := r.emptying.Do(ctx, l.pod, l.step, drain.Descheduler)
		if err != nil {
			return err
		}
		switch asked {
		case drain.Migration:
			metricMoves.WithLabelValues("migration").Inc()
		case drain.Eviction:
			metricMoves.WithLabelValues("eviction").Inc()
		}
	}
	return nil
}

// onTheirWay returns the number of Migrations in flight, whoever requested them.
func (r *round) onTheirWay() int {
	n := 0
	for i := range r.world.Migrations {
		if !world.Ended(&r.world.Migrations[i]) {
			n++
		}
	}
	return n
}

// spare puts a node into back-off, which doubles each time.
func (r *round) spare(node, why string) {
	const mostDoublings = 4
	s := r.memory.spared[node]
	s.until = r.now.Add(max(r.Config.After, r.Config.DrainTimeout) << min(s.times, mostDoublings))
	s.times++
	s.why = why
	r.memory.spared[node] = s
}

// begin cordons the selected nodes, or only reports them.
func (r *round) begin(ctx context.Context, plan cluster.Plan) error {
	r.decide(plan)
	for i := range plan.Drains {
		d := &plan.Drains[i]
		text := fmt.Sprintf("to be drained: %s", d.Reason)
		if d.Saves > 0 {
			metricExpectedSavings.Add(float64(d.Saves-d.Costs) / 1e6)
		}
		if !r.mayAct(r.Config.Mode) {
			log.FromContext(ctx).Info("Would drain a node", "node", d.Node, "reason", d.Reason, "saves", dollars.Format(d.Saves-d.Costs))
			r.recordEvent(d.Node, corev1.EventTypeNormal, v1alpha1.ConsolidationReasonWouldEmpty, "%s", text)
			continue
		}
		mark := drain.Mark{Owner: drain.Descheduler, Since: r.now, Until: r.now.Add(d.Until)}
		switch err := drain.Cordon(ctx, r.Client, r.world.Nodes[d.Node], mark); {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			continue // the next round sees it again
		case err != nil:
			return err
		}
		metricDrains.Inc()
		r.again = min(r.again, time.Second)
		r.recordEvent(d.Node, corev1.EventTypeNormal, v1alpha1.ConsolidationReasonEmptying, "%s", text)
	}
	return r.report(ctx)
}

// repeated is the minimum time between equal Events of mode Observe.
const repeated = 10 * time.Minute

// recordEvent creates an Event on a node. It does not repeat a recent WouldEmpty Event, which every
// round would create.
func (r *round) recordEvent(node, kind, reason, format string, args ...any) {
	key := reported{node, reason}
	if r.DryRun || reason == v1alpha1.ConsolidationReasonWouldEmpty && r.now.Sub(r.memory.reported[key]) < repeated {
		return
	}
	maps.DeleteFunc(r.memory.reported, func(_ reported, at time.Time) bool { return r.now.Sub(at) >= repeated })
	r.memory.reported[key] = r.now
	r.Events.Eventf(r.world.Nodes[node], nil, kind, reason, v1alpha1.ActionConsolidate, format, args...)
}
