package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// mayAct reports whether machines may be changed.
func (r *round) mayAct() bool {
	return !r.DryRun && !r.paused && r.fleet.Spec.Mode != v1alpha1.FleetObserve
}

// mode returns the effective mode of the round.
func (r *round) mode() v1alpha1.FleetMode {
	if r.mayAct() {
		return v1alpha1.FleetAct
	}
	return v1alpha1.FleetObserve
}

// newIntent returns an intent with a unique name.
func (r *round) newIntent() *v1alpha1.FleetIntent {
	return &v1alpha1.FleetIntent{ID: r.fleet.Name + "-" + strconv.FormatInt(r.now.UnixMilli(), 36), Time: metav1.NewTime(r.now)}
}

// act carries out the decision, or only reports it. Orders come first, because pods wait for them. What fails is
// decided again in the next round and does not stop the rest, except that no node is cordoned if orders fail: the
// orders may include replacements for the node. Less urgent work is left to the next round once more pods have been
// gathered.
func (r *round) act(ctx context.Context) error {
	defer r.degraded()
	r.note()
	if stale, err := r.unseenJoined(ctx); stale || err != nil {
		r.wakeIn(mostRest)
		return err // decide again as soon as the node is observed
	}
	r.noteAbandoned()
	intent := r.newIntent()
	intent.Orders = ordersOf(r.actions.Orders)
	if len(r.actions.Orders)+len(r.nodesToEmpty()) > 0 {
		r.recordDecision(intent)
	}
	if !r.mayAct() {
		r.uncordon(ctx)
		return nil
	}
	err := r.carryOut(ctx, intent)
	if err == nil {
		for _, node := range r.actions.Cordon {
			if err := r.cordon(ctx, r.world.Nodes[node.Node], node.Until); err != nil && !apierrors.IsConflict(err) { // else the next round retries
				r.drainFailed(node.Node, err)
			}
		}
	}
	for _, node := range r.actions.Ask {
		if err := r.ask(ctx, node); err != nil {
			r.drainFailed(node, err)
		}
	}
	return cmp.Or(err, ctx.Err())
}

// note records the observations in the status, and emits events.
func (r *round) note() {
	a := &r.actions
	for _, j := range a.Joined {
		s := r.status(j.Flavor)
		s.Lag, s.Failures, s.BackOffUntil = fleetdecide.LearnLag(s.Lag, j.Took), 0, nil
		metricAcquisitionSeconds.WithLabelValues(r.fleet.Name, j.Flavor).Observe(j.Took.Seconds())
	}
	for i := range a.Avoid {
		r.avoid(&a.Avoid[i])
	}
	for _, e := range a.Events {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		r.tell(kind, e.Reason, e.Action, e.Message)
	}
	if r.fleet.Status.Intent != nil {
		r.info(context.Background(), "Dropping an unfinished intent, its remaining changes will be decided again", "intent", r.fleet.Status.Intent.ID)
		r.fleet.Status.Intent = nil
	}
	r.recordRejected()
	r.recordKept()
	r.wakeIn(a.Wake)
}

func (r *round) avoid(a *fleetdecide.Avoidance) {
	s := r.status(a.Flavor)
	s.BackOffUntil, s.Failures = new(metav1.NewTime(a.Until)), a.Failures
}

// noteAbandoned records which machines are abandoned.
func (r *round) noteAbandoned() {
	r.memory.Abandoned(r.actions.Abandoned)
	for i := range r.actions.Abandoned {
		if a := &r.actions.Abandoned[i]; a.New > 0 {
			r.avoid(&a.Avoidance)
			metricGaveUp.WithLabelValues(r.fleet.Name, a.Flavor).Add(float64(a.New))
		}
	}
}

// unseenJoined reports whether a machine observed without a node has, or may have, got one since the round began: the
// cache of nodes lags behind the API server.
func (r *round) unseenJoined(ctx context.Context) (bool, error) {
	unseen := r.actions.Unseen()
	if len(unseen) == 0 {
		return false, nil
	}
	var list corev1.NodeList
	if err := r.Live.List(ctx, &list); err != nil {
		return false, fmt.Errorf("list nodes before releasing machines without a node: %w", err)
	}
	nodes := make(map[string]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	p, err := r.NewProvider(r.fleet, nodes)
	if err != nil {
		return false, err
	}
	var now *provider.Inventory
	err = r.asking(ctx, func(ctx context.Context) (err error) {
		now, err = p.Observe(ctx)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("list machines again before releasing them: %w", err)
	}
	return slices.ContainsFunc(now.Machines, func(m provider.Machine) bool {
		return slices.Contains(unseen, m.Name) && (m.Unidentified != "" || nodes[m.Node] != nil)
	}), nil
}

func ordersOf(orders []fleetdecide.Order) []v1alpha1.FleetOrder {
	var all []v1alpha1.FleetOrder
	for _, o := range orders {
		all = append(all, v1alpha1.FleetOrder{Flavor: o.Flavor, From: int32(o.From), To: int32(o.To)})
	}
	return all
}

// carryOut announces the orders, makes them, and then releases machines. If it is interrupted, the next round finds out
// what was done. It returns errors of orders and conflicts with other writers only: a failed release is retried.
func (r *round) carryOut(ctx context.Context, intent *v1alpha1.FleetIntent) error {
	left := *intent // the recorded intent is not changed
	left.Orders = nil
	failed, err := r.purchase(ctx, intent, &left)
	if err != nil {
		r.owes()
		return err
	}
	changed, err := r.giveBack(ctx, &left)
	if err != nil {
		return err
	}
	switch {
	case r.fleet.Status.Intent == nil:
	case len(left.Orders)+len(left.Releases) > 0:
		r.fleet.Status.Intent = &left
	default:
		r.fleet.Status.Intent = nil
		r.wakeIn(settling)
	}
	if failed != nil {
		r.owes()
	}
	return cmp.Or(failed, changed)
}

// announce writes the intent to the status before it is carried out.
func (r *round) announce(ctx context.Context, intent *v1alpha1.FleetIntent) error {
	r.fleet.Status.Intent = intent
	return r.writeStatus(ctx)
}

// atOnce is the maximum number of concurrent writes of one fleet to its provider.
const atOnce = 8

// sideBySide calls a function for each number below n, some of them concurrently.
func sideBySide(n int, do func(i int)) {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = g.Wait() // none of them returns an error
}

// purchase makes the orders of an intent and releases the machines that did not come. Meanwhile it uncordons the nodes
// on which the orders count. It adds to left what may or may not have been done. failed are the errors of orders, err
// means that nothing could be done.
//
// Machines that did not come are released first, so that their replacements do not add to them.
func (r *round) purchase(ctx context.Context, orders, left *v1alpha1.FleetIntent) (failed, err error) {
	intent := r.withAbandoned(orders)
	if len(intent.Orders)+len(intent.Releases) == 0 {
		r.uncordon(ctx)
		return nil, nil
	}
	if err := r.announce(ctx, intent); err != nil {
		r.uncordon(ctx)
		return nil, err
	}
	ordered, released := make([]outcome, len(intent.Orders)), make([]outcome, len(intent.Releases))
	var done sync.WaitGroup
	done.Go(func() {
		some := func(fewer bool) func(i int) {
			return func(i int) {
				if o := &intent.Orders[i]; o.To < o.From == fewer {
					ordered[i] = r.order(ctx, intent.ID, o)
				}
			}
		}
		sideBySide(len(released), func(i int) { released[i] = r.release(ctx, intent.ID, &intent.Releases[i]) })
		sideBySide(len(ordered), some(true))
		sideBySide(len(ordered), some(false))
	})
	r.uncordon(ctx)
	done.Wait()
	var changed []error
	for i := range released {
		changed = append(changed, r.released(&intent.Releases[i], released[i], left))
	}
	var errs []error
	for i := range ordered {
		o := &intent.Orders[i]
		switch err := ordered[i].err; {
		case err == nil:
			r.bought(o, ordered[i].at)
		case errors.Is(err, provider.ErrChanged):
			changed = append(changed, err)
		default:
			errs = append(errs, err)
			left.Orders = append(left.Orders, *o)
		}
	}
	return cmp.Or(errors.Join(errs...), errors.Join(changed...)), nil
}

// giveBack releases the machines of nodes that are still empty. changed means that another writer has made a change,
// err that nothing could be done.
func (r *round) giveBack(ctx context.Context, left *v1alpha1.FleetIntent) (changed, err error) {
	if r.pressed() {
		return nil, nil
	}
	intent := *left
	machines := map[string][]string{}
	for _, name := range r.empty(ctx, r.actions.Release) {
		m := r.seen.own[name]
		machines[m.Flavor] = append(machines[m.Flavor], m.Name)
	}
	if len(machines) == 0 {
		return nil, nil
	}
	var mine []v1alpha1.FleetRelease
	for _, flavor := range slices.Sorted(maps.Keys(machines)) {
		mine = append(mine, r.releaseOf(flavor, machines[flavor]))
	}
	intent.Releases = slices.Concat(left.Releases, mine)
	if err := r.announce(ctx, &intent); err != nil {
		return nil, err
	}
	did := make([]outcome, len(mine))
	sideBySide(len(mine), func(i int) {
		if did[i].left = r.pressed(); !did[i].left {
			did[i] = r.release(ctx, intent.ID, &mine[i])
		}
	})
	var all []error
	for i := range did {
		all = append(all, r.released(&mine[i], did[i], left))
	}
	return errors.Join(all...), nil
}

// withAbandoned returns the intent with the changes for machines that did not come.
func (r *round) withAbandoned(intent *v1alpha1.FleetIntent) *v1alpha1.FleetIntent {
	all := *intent
	for i := range r.actions.Abandoned {
		a := &r.actions.Abandoned[i]
		if len(a.Release) > 0 {
			all.Releases = append(all.Releases, r.releaseOf(a.Flavor, a.Release))
		}
		if a.Fewer > 0 {
			all.Orders = append(slices.Clip(all.Orders), v1alpha1.FleetOrder{Flavor: a.Flavor, From: int32(a.Want), To: int32(a.Want - a.Fewer)})
		}
	}
	slices.SortFunc(all.Orders, func(a, b v1alpha1.FleetOrder) int { return cmp.Compare(a.Flavor, b.Flavor) })
	slices.SortFunc(all.Releases, func(a, b v1alpha1.FleetRelease) int { return cmp.Compare(a.Flavor, b.Flavor) })
	return &all
}

func (r *round) releaseOf(flavor string, machines []string) v1alpha1.FleetRelease {
	return v1alpha1.FleetRelease{Flavor: flavor, From: int32(r.flavor(flavor).Want), Machines: slices.Sorted(slices.Values(machines))}
}

// outcome is the result of a write.
type outcome struct {
	err error
	at  time.Time
	// left reports that the write is left to the next round.
	left bool
}

// conflictTries is how often a conflicting write is retried at once.
const conflictTries = 3

// order changes the number of machines of a flavor. It retries conflicts; nothing else waits for it.
func (r *round) order(ctx context.Context, intent string, o *v1alpha1.FleetOrder) outcome {
	buy := func(ctx context.Context) error {
		return r.provider.Buy(ctx, intent, o.Flavor, int(o.From), int(o.To))
	}
	err := r.asking(ctx, buy)
	for tries := 0; tries < conflictTries && errors.Is(err, provider.ErrConflict) && ctx.Err() == nil; tries++ {
		err = r.asking(ctx, buy)
	}
	return outcome{err: err, at: r.Clock.Now()}
}

// bought accounts for a changed number of machines of a flavor.
func (r *round) bought(o *v1alpha1.FleetOrder, at time.Time) {
	if o.To > o.From {
		metricOrdered.WithLabelValues(r.fleet.Name, o.Flavor).Add(float64(o.To - o.From))
		r.memory.Ordered(o.Flavor, r.now)
		r.measureOrder(o.Flavor, at)
	}
	r.ordered(o.Flavor, int(o.To))
	r.seen.paid += int64(o.To-o.From) * r.self.prices[o.Flavor].microDollars
	r.fleet.Status.Cost.DollarsPerHour = dollars.Format(r.seen.paid)
	r.status(o.Flavor).Machines += o.To - o.From
	r.fleet.Status.Machines += o.To - o.From
	r.fleet.Status.InFlight += o.To - o.From
}

// release releases machines of a flavor.
func (r *round) release(ctx context.Context, intent string, release *v1alpha1.FleetRelease) outcome {
	err := r.asking(ctx, func(ctx context.Context) error {
		return r.provider.Release(ctx, intent, release.Flavor, int(release.From), release.Machines)
	})
	if err != nil {
		err = fmt.Errorf("release %d machines of %s: %w", len(release.Machines), release.Flavor, err)
	}
	return outcome{err: err}
}

// released accounts for the outcome of a release. It returns the error if another writer has made a change, and adds to
// left what may or may not have been done.
func (r *round) released(release *v1alpha1.FleetRelease, what outcome, left *v1alpha1.FleetIntent) error {
	switch {
	case what.left:
		return nil
	case errors.Is(what.err, provider.ErrChanged):
		return what.err
	case what.err != nil:
		left.Releases = append(left.Releases, *release)
		r.failed("ReleaseFailed", "Release", fmt.Sprintf("%v; will retry", what.err))
		return nil
	}
	metricReleased.WithLabelValues(r.fleet.Name, release.Flavor).Add(float64(len(release.Machines)))
	for _, name := range r.actions.Release {
		if m := r.seen.own[name]; m.Flavor == release.Flavor && slices.Contains(release.Machines, m.Name) {
			r.tell(corev1.EventTypeNormal, "Released", "Release", fmt.Sprintf("deleted machine %s of node %s (%s)", m.Name, name, m.Flavor))
		}
	}
	return nil
}
