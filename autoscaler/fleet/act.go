package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/decide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/dollars"
)

// mayAct reports whether machines may be changed.
func (r *round) mayAct() bool { return !r.DryRun && r.fleet.Spec.Mode != v1alpha1.FleetObserve }

// mode is the mode in which the round is.
func (r *round) mode() v1alpha1.FleetMode {
	if r.mayAct() {
		return v1alpha1.FleetAct
	}
	return v1alpha1.FleetObserve
}

// newIntent returns an intent with a name that no other has.
func (r *round) newIntent() *v1alpha1.FleetIntent {
	return &v1alpha1.FleetIntent{ID: r.fleet.Name + "-" + strconv.FormatInt(r.now.UnixMilli(), 36), Time: metav1.NewTime(r.now)}
}

// act carries out what was decided, or only says what it would have done. What fails is
// decided again in the next round, and keeps nothing else from being done, except that no
// node is closed while orders fail: machines in the place of its own may be among them.
func (r *round) act(ctx context.Context) error {
	defer r.degraded()
	r.note()
	if stale, err := r.unseenJoined(ctx); stale || err != nil {
		r.wakeIn(settling)
		return err // decide again
	}
	r.noteAbandoned()
	if r.reopen(ctx, r.actions.Reopen) {
		r.again = settling
	}
	intent := r.newIntent()
	intent.Orders = ordersOf(r.actions.Orders)
	if len(r.actions.Orders)+len(r.nodesToEmpty()) > 0 {
		r.recordDecision(intent)
	}
	if !r.mayAct() {
		return nil
	}
	err := r.carryOut(ctx, r.complete(ctx, intent))
	if err == nil {
		for _, node := range r.actions.Close {
			if err := r.close(ctx, r.world.Nodes[node.Node], node.Until); err != nil && !apierrors.IsConflict(err) { // else it is looked at again
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

// note writes down what was seen, and tells people.
func (r *round) note() {
	a := &r.actions
	for _, j := range a.Joined {
		s := r.status(j.Flavor)
		s.Lag, s.Failures, s.LeftAloneUntil = decide.LearnLag(s.Lag, j.Took), 0, nil
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
		r.info(context.Background(), "dropping an intent that was left unfinished; what is left of it is decided again", "intent", r.fleet.Status.Intent.ID)
		r.fleet.Status.Intent = nil
	}
	r.recordRejected()
	r.recordKept()
	r.wakeIn(a.Wake)
}

func (r *round) avoid(a *decide.Avoidance) {
	s := r.status(a.Flavor)
	s.LeftAloneUntil, s.Failures = new(metav1.NewTime(a.Until)), a.Failures
}

// noteAbandoned writes down which machines are abandoned.
func (r *round) noteAbandoned() {
	r.memory.Abandoned(r.actions.Abandoned)
	for i := range r.actions.Abandoned {
		if a := &r.actions.Abandoned[i]; a.New > 0 {
			r.avoid(&a.Avoidance)
			metricGaveUp.WithLabelValues(r.fleet.Name, a.Flavor).Add(float64(a.New))
		}
	}
}

// unseenJoined reports whether a machine that is taken to have no node has got one, or may
// have, since the round began: the cache of nodes lags behind the API server.
func (r *round) unseenJoined(ctx context.Context) (bool, error) {
	unseen := r.actions.Unseen()
	if len(unseen) == 0 {
		return false, nil
	}
	var list corev1.NodeList
	if err := r.Live.List(ctx, &list); err != nil {
		return false, fmt.Errorf("list nodes before machines without a node are released: %w", err)
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
		return false, fmt.Errorf("look again at machines before they are released: %w", err)
	}
	return slices.ContainsFunc(now.Machines, func(m provider.Machine) bool {
		return slices.Contains(unseen, m.Name) && (m.Unidentified != "" || nodes[m.Node] != nil)
	}), nil
}

func ordersOf(orders []decide.Order) []v1alpha1.FleetOrder {
	var all []v1alpha1.FleetOrder
	for _, o := range orders {
		all = append(all, v1alpha1.FleetOrder{Flavor: o.Flavor, From: int32(o.From), To: int32(o.To)})
	}
	return all
}

// complete returns the intent with the machines to release: those of nodes that are still
// empty, and those that did not come.
func (r *round) complete(ctx context.Context, intent *v1alpha1.FleetIntent) *v1alpha1.FleetIntent {
	all := *intent // what is in the record stays as it is
	machines := map[string][]string{}
	for _, name := range r.empty(ctx, r.actions.Release) {
		m := r.seen.own[name]
		machines[m.Flavor] = append(machines[m.Flavor], m.Name)
	}
	for i := range r.actions.Abandoned {
		a := &r.actions.Abandoned[i]
		machines[a.Flavor] = append(machines[a.Flavor], a.Release...)
		if a.Fewer > 0 {
			all.Orders = append(all.Orders, v1alpha1.FleetOrder{Flavor: a.Flavor, From: int32(a.Want), To: int32(a.Want - a.Fewer)})
		}
	}
	slices.SortFunc(all.Orders, func(a, b v1alpha1.FleetOrder) int { return cmp.Compare(a.Flavor, b.Flavor) })
	for flavor, names := range machines {
		if len(names) > 0 {
			slices.Sort(names)
			all.Releases = append(all.Releases, v1alpha1.FleetRelease{Flavor: flavor, From: int32(r.flavor(flavor).Want), Machines: names})
		}
	}
	slices.SortFunc(all.Releases, func(a, b v1alpha1.FleetRelease) int { return cmp.Compare(a.Flavor, b.Flavor) })
	return &all
}

// carryOut writes an intent down, does it, and strikes it out. Wherever it breaks off, the
// next round finds out what was done. It returns errors of orders alone: a release that fails
// is tried again.
func (r *round) carryOut(ctx context.Context, intent *v1alpha1.FleetIntent) error {
	if len(intent.Orders)+len(intent.Releases) == 0 {
		return nil
	}
	r.fleet.Status.Intent = intent
	if err := r.writeStatus(ctx); err != nil {
		return err
	}
	var failed, changed []error
	note := func(err error) {
		if errors.Is(err, provider.ErrChanged) {
			changed = append(changed, err)
		} else if err != nil {
			failed = append(failed, err)
		}
	}
	unknown := false // what became of a release
	release := func(i int) {
		switch err := r.release(ctx, intent.ID, &intent.Releases[i]); {
		case errors.Is(err, provider.ErrChanged):
			changed = append(changed, err)
		case err != nil:
			unknown = true
			r.failed("ReleaseFailed", "Release", fmt.Sprintf("%v; it is tried again", err))
		}
	}
	r.inOrder(intent, func(i int) { note(r.order(ctx, intent.ID, &intent.Orders[i])) }, release)
	if len(failed) == 0 && !unknown {
		r.fleet.Status.Intent = nil
		r.wakeIn(settling)
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	return errors.Join(changed...)
}

// inOrder calls the functions for each order and each release of an intent. Machines that did
// not come go first, so that those in their place do not come on top of them. All other
// releases come last: pods wait for orders, and for no release.
func (r *round) inOrder(intent *v1alpha1.FleetIntent, order, release func(i int)) {
	abandoned := map[string]bool{}
	for i := range r.actions.Abandoned {
		abandoned[r.actions.Abandoned[i].Flavor] = true
	}
	releases := func(first bool) {
		for i := range intent.Releases {
			if abandoned[intent.Releases[i].Flavor] == first {
				release(i)
			}
		}
	}
	orders := func(fewer bool) {
		for i := range intent.Orders {
			if o := &intent.Orders[i]; o.To < o.From == fewer {
				order(i)
			}
		}
	}
	releases(true)
	orders(true)
	orders(false)
	releases(false)
}

// order changes the number of machines of a flavor.
func (r *round) order(ctx context.Context, intent string, o *v1alpha1.FleetOrder) error {
	err := r.asking(ctx, func(ctx context.Context) error {
		return r.provider.Buy(ctx, intent, o.Flavor, int(o.From), int(o.To))
	})
	if err != nil {
		return err
	}
	if o.To > o.From {
		metricOrdered.WithLabelValues(r.fleet.Name, o.Flavor).Add(float64(o.To - o.From))
		r.memory.Ordered(o.Flavor, r.now)
	}
	r.ordered(o.Flavor, int(o.To))
	r.seen.paid += int64(o.To-o.From) * r.self.prices[o.Flavor].microDollars
	r.fleet.Status.Cost.DollarsPerHour = dollars.Format(r.seen.paid)
	r.status(o.Flavor).Machines += o.To - o.From
	r.fleet.Status.Machines += o.To - o.From
	r.fleet.Status.InFlight += o.To - o.From
	return nil
}

// release gives machines of a flavor back.
func (r *round) release(ctx context.Context, intent string, release *v1alpha1.FleetRelease) error {
	err := r.asking(ctx, func(ctx context.Context) error {
		return r.provider.Release(ctx, intent, release.Flavor, int(release.From), release.Machines)
	})
	if err != nil {
		return fmt.Errorf("release %d machines of %s: %w", len(release.Machines), release.Flavor, err)
	}
	metricReleased.WithLabelValues(r.fleet.Name, release.Flavor).Add(float64(len(release.Machines)))
	for _, name := range r.actions.Release {
		if m := r.seen.own[name]; m.Flavor == release.Flavor && slices.Contains(release.Machines, m.Name) {
			r.tell(corev1.EventTypeNormal, "Released", "Release", fmt.Sprintf("gave back machine %s of node %s (%s)", m.Name, name, m.Flavor))
		}
	}
	return nil
}
