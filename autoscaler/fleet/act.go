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
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/plural"
)

// newIntent returns an intent with a unique name.
func (r *round) newIntent() *v1alpha1.FleetIntent {
	return &v1alpha1.FleetIntent{ID: r.fleet.Name + "-" + strconv.FormatInt(r.now.UnixMilli(), 36), Time: metav1.NewTime(r.now)}
}

// execution carries out the decision of a round.
type execution struct {
	*round
	*decision
	provider provider.Provider
	// paid is the price of all machines per hour, with those that the round has ordered.
	paid int64
	// ordered are the orders that have been made.
	ordered []v1alpha1.FleetOrder
	// failure is the reason of the first failed operation, and failures are the messages of all. They are retried.
	failure  string
	failures []string
}

// act carries out the decision, or only reports it. Orders come first, because pods wait for them. What fails is
// decided again in the next round and does not stop the rest, except that no node is cordoned if orders fail: the
// orders may include replacements for the node. Less urgent work is left to the next round once more pods have been
// gathered.
func (r *round) act(ctx context.Context, d *decision, p provider.Provider) error {
	x := &execution{round: r, decision: d, provider: p, paid: d.seen.Paid}
	defer func() { r.degraded(d, x.failure, x.failures) }()
	x.note()
	if stale, err := x.unseenJoined(ctx); stale || err != nil {
		r.wakeIn(mostRest)
		return err // decide again as soon as the node is observed
	}
	x.noteAbandoned()
	intent := r.newIntent()
	intent.Orders = ordersOf(d.actions.Orders)
	if len(d.actions.Orders)+len(d.nodesToEmpty()) > 0 {
		r.recordDecision(d, intent)
	}
	if !r.mayAct() {
		r.reported.suspend(r.fleet.Name)
		x.uncordon(ctx)
		return nil
	}
	err := x.carryOut(ctx, intent)
	x.recordPods()
	if err == nil {
		for _, node := range d.actions.Cordon {
			if err := x.cordon(ctx, d.seen.World.Nodes[node.Node], node.Until); err != nil && !apierrors.IsConflict(err) { // else the next round retries
				x.drainFailed(node.Node, err)
			}
		}
	}
	for _, node := range d.actions.Ask {
		if err := x.ask(ctx, node); err != nil {
			x.drainFailed(node, err)
		}
	}
	return cmp.Or(err, ctx.Err())
}

// note records the observations in the status, and emits events.
func (x *execution) note() {
	a := &x.actions
	for _, j := range a.Joined {
		s := x.row(j.Flavor)
		s.Lag, s.Failures, s.BackOffUntil = fleetdecide.LearnLag(s.Lag, j.Took), 0, nil
		metricAcquisitionSeconds.WithLabelValues(x.fleet.Name, j.Flavor).Observe(j.Took.Seconds())
	}
	for i := range a.Avoid {
		x.avoid(&a.Avoid[i])
	}
	for i := range a.Events {
		x.recordEvent(&a.Events[i])
	}
	if x.fleet.Status.Intent != nil {
		log.FromContext(context.Background()).Info("Dropping an unfinished intent, its remaining changes will be decided again", "intent", x.fleet.Status.Intent.ID)
		x.fleet.Status.Intent = nil
	}
	x.recordRejected(x.decision)
	x.recordKept(x.decision)
	x.wakeIn(a.Wake)
}

// recordEvent records an Event.
func (x *execution) recordEvent(e *fleetdecide.Event) {
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	x.report.Event(kind, e.Reason, e.Action, e.Message)
}

func (x *execution) avoid(a *fleetdecide.Avoidance) {
	s := x.row(a.Flavor)
	s.BackOffUntil, s.Failures = new(metav1.NewTime(a.Until)), a.Failures
}

// noteAbandoned records which machines are abandoned.
func (x *execution) noteAbandoned() {
	x.memory.Abandoned(x.actions.Abandoned)
	for i := range x.actions.Abandoned {
		if a := &x.actions.Abandoned[i]; a.New > 0 {
			x.avoid(&a.Avoidance)
			x.recordEvent(&a.Event)
			metricGaveUp.WithLabelValues(x.fleet.Name, a.Flavor).Add(float64(a.New))
		}
	}
}

// unseenJoined reports whether a machine observed without a node has, or may have, got one since the round began: the
// cache of nodes lags behind the API server.
func (x *execution) unseenJoined(ctx context.Context) (bool, error) {
	unseen := x.actions.Unseen()
	if len(unseen) == 0 {
		return false, nil
	}
	var list corev1.NodeList
	if err := x.Live.List(ctx, &list); err != nil {
		return false, fmt.Errorf("list nodes before releasing machines without a node: %w", err)
	}
	nodes := make(map[string]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	p, err := x.NewProvider(x.fleet, nodes)
	if err != nil {
		return false, err
	}
	var now *provider.Inventory
	err = x.asking(ctx, func(ctx context.Context) (err error) {
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
func (x *execution) carryOut(ctx context.Context, intent *v1alpha1.FleetIntent) error {
	left := *intent // the recorded intent is not changed
	left.Orders = nil
	failed, err := x.purchase(ctx, intent, &left)
	if err != nil {
		x.pace.orderAgain(x.batch)
		return err
	}
	changed, err := x.releaseEmpty(ctx, &left)
	if err != nil {
		return err
	}
	switch {
	case x.fleet.Status.Intent == nil:
	case len(left.Orders)+len(left.Releases) > 0:
		x.fleet.Status.Intent = &left
	default:
		x.fleet.Status.Intent = nil
		x.wakeIn(settling)
	}
	if failed != nil {
		x.pace.orderAgain(x.batch)
	}
	return cmp.Or(failed, changed)
}

// announce writes the intent to the status before it is carried out.
func (x *execution) announce(ctx context.Context, intent *v1alpha1.FleetIntent) error {
	x.fleet.Status.Intent = intent
	return x.writeStatus(ctx)
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
func (x *execution) purchase(ctx context.Context, orders, left *v1alpha1.FleetIntent) (failed, err error) {
	intent := x.withAbandoned(orders)
	if len(intent.Orders)+len(intent.Releases) == 0 {
		x.uncordon(ctx)
		return nil, nil
	}
	if err := x.announce(ctx, intent); err != nil {
		x.uncordon(ctx)
		return nil, err
	}
	ordered, released := make([]outcome, len(intent.Orders)), make([]outcome, len(intent.Releases))
	var done sync.WaitGroup
	done.Go(func() {
		some := func(fewer bool) func(i int) {
			return func(i int) {
				if o := &intent.Orders[i]; o.To < o.From == fewer {
					ordered[i] = x.order(ctx, intent.ID, o)
				}
			}
		}
		sideBySide(len(released), func(i int) { released[i] = x.release(ctx, intent.ID, &intent.Releases[i]) })
		sideBySide(len(ordered), some(true))
		sideBySide(len(ordered), some(false))
	})
	x.uncordon(ctx)
	done.Wait()
	var changed []error
	for i := range released {
		changed = append(changed, x.released(&intent.Releases[i], released[i], left))
	}
	var errs []error
	for i := range ordered {
		o := &intent.Orders[i]
		switch err := ordered[i].err; {
		case err == nil:
			x.bought(o, ordered[i].at)
		case errors.Is(err, provider.ErrChanged):
			changed = append(changed, err)
		default:
			errs = append(errs, err)
			left.Orders = append(left.Orders, *o)
		}
	}
	return cmp.Or(errors.Join(errs...), errors.Join(changed...)), nil
}

// releaseEmpty releases the machines of nodes that are still empty. changed means that another writer has made a change,
// err that nothing could be done.
func (x *execution) releaseEmpty(ctx context.Context, left *v1alpha1.FleetIntent) (changed, err error) {
	if x.pressed() {
		return nil, nil
	}
	intent := *left
	machines := map[string][]string{}
	for _, name := range x.empty(ctx, x.actions.Release) {
		m := x.seen.Own[name]
		machines[m.Flavor] = append(machines[m.Flavor], m.Name)
	}
	if len(machines) == 0 {
		return nil, nil
	}
	var mine []v1alpha1.FleetRelease
	for _, flavor := range slices.Sorted(maps.Keys(machines)) {
		mine = append(mine, x.releaseOf(flavor, machines[flavor]))
	}
	intent.Releases = slices.Concat(left.Releases, mine)
	if err := x.announce(ctx, &intent); err != nil {
		return nil, err
	}
	did := make([]outcome, len(mine))
	sideBySide(len(mine), func(i int) {
		if did[i].left = x.pressed(); !did[i].left {
			did[i] = x.release(ctx, intent.ID, &mine[i])
		}
	})
	var all []error
	for i := range did {
		all = append(all, x.released(&mine[i], did[i], left))
	}
	return errors.Join(all...), nil
}

// withAbandoned returns the intent with the changes for machines that did not come.
func (x *execution) withAbandoned(intent *v1alpha1.FleetIntent) *v1alpha1.FleetIntent {
	all := *intent
	for i := range x.actions.Abandoned {
		a := &x.actions.Abandoned[i]
		if len(a.Release) > 0 {
			all.Releases = append(all.Releases, x.releaseOf(a.Flavor, a.Release))
		}
		if a.Fewer > 0 {
			all.Orders = append(slices.Clip(all.Orders), v1alpha1.FleetOrder{Flavor: a.Flavor, From: int32(a.Want), To: int32(a.Want - a.Fewer)})
		}
	}
	slices.SortFunc(all.Orders, func(a, b v1alpha1.FleetOrder) int { return cmp.Compare(a.Flavor, b.Flavor) })
	slices.SortFunc(all.Releases, func(a, b v1alpha1.FleetRelease) int { return cmp.Compare(a.Flavor, b.Flavor) })
	return &all
}

func (x *execution) releaseOf(flavor string, machines []string) v1alpha1.FleetRelease {
	return v1alpha1.FleetRelease{Flavor: flavor, From: int32(x.seen.Self.Flavor(flavor).Want), Machines: slices.Sorted(slices.Values(machines))}
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
func (x *execution) order(ctx context.Context, intent string, o *v1alpha1.FleetOrder) outcome {
	buy := func(ctx context.Context) error {
		return x.provider.Buy(ctx, intent, o.Flavor, int(o.From), int(o.To))
	}
	err := x.asking(ctx, buy)
	for tries := 0; tries < conflictTries && errors.Is(err, provider.ErrConflict) && ctx.Err() == nil; tries++ {
		err = x.asking(ctx, buy)
	}
	return outcome{err: err, at: x.Clock.Now()}
}

// bought accounts for a changed number of machines of a flavor.
func (x *execution) bought(o *v1alpha1.FleetOrder, at time.Time) {
	x.ordered = append(x.ordered, *o)
	if o.To > o.From {
		metricOrdered.WithLabelValues(x.fleet.Name, o.Flavor).Add(float64(o.To - o.From))
		x.memory.Ordered(o.Flavor, x.now)
		x.measureOrder(o.Flavor, at)
	}
	x.recordOrder(o.Flavor, int(o.To))
	x.paid += int64(o.To-o.From) * x.seen.Self.Prices[o.Flavor].MicroDollars
	x.fleet.Status.Cost.DollarsPerHour = dollars.Format(x.paid)
	x.row(o.Flavor).Machines += o.To - o.From
	x.fleet.Status.Machines += o.To - o.From
	x.fleet.Status.InFlight += o.To - o.From
}

// release releases machines of a flavor.
func (x *execution) release(ctx context.Context, intent string, release *v1alpha1.FleetRelease) outcome {
	err := x.asking(ctx, func(ctx context.Context) error {
		return x.provider.Release(ctx, intent, release.Flavor, int(release.From), release.Machines)
	})
	if err != nil {
		err = fmt.Errorf("release %s of %s: %w", plural.Count(len(release.Machines), "machine"), release.Flavor, err)
	}
	return outcome{err: err}
}

// released accounts for the outcome of a release. It returns the error if another writer has made a change, and adds to
// left what may or may not have been done.
func (x *execution) released(release *v1alpha1.FleetRelease, what outcome, left *v1alpha1.FleetIntent) error {
	switch {
	case what.left:
		return nil
	case errors.Is(what.err, provider.ErrChanged):
		return what.err
	case what.err != nil:
		left.Releases = append(left.Releases, *release)
		x.failed(v1alpha1.FleetReasonReleaseFailed, v1alpha1.ActionRelease, fmt.Sprintf("%v; will retry", what.err))
		return nil
	}
	metricReleased.WithLabelValues(x.fleet.Name, release.Flavor).Add(float64(len(release.Machines)))
	for _, name := range x.actions.Release {
		if m := x.seen.Own[name]; m.Flavor == release.Flavor && slices.Contains(release.Machines, m.Name) {
			x.report.Event(corev1.EventTypeNormal, v1alpha1.FleetReasonReleased, v1alpha1.ActionRelease, fmt.Sprintf("released machine %s of node %s (%s)", m.Name, name, m.Flavor))
		}
	}
	return nil
}

// measureOrder observes the time from the end of batching to the order of machines of a flavor, if any of them are for
// pods that arrived since the last decision.
func (x *execution) measureOrder(flavor string, at time.Time) {
	machines := x.actions.Fleet.Plan.Machines
	for i := range machines {
		if machines[i].Flavor == flavor && slices.ContainsFunc(machines[i].Pods, func(pod string) bool { return x.batch.pods[pod] }) {
			metricOrderSeconds.WithLabelValues(x.fleet.Name).Observe(max(0, at.Sub(x.batch.ends)).Seconds())
			return
		}
	}
}
