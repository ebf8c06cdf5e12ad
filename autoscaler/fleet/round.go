package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetobserve"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/platform/conditions"
)

// round is one round of one fleet: what all its steps share. Everything else passes from step to step as a value:
//
//	inputs       what is read                               read, inputs.go
//	observation  the cluster as the fleet sees it           observe, package fleetobserve
//	decision     what to do, and the input of the decision  decide, below
//	execution    carries out the decision                   act, act.go
//
// Each step also records its result in the fleet's status.
type round struct {
	*Reconciler
	fleet  *v1alpha1.NodeFleet       // with the status as the round changes it
	before *v1alpha1.NodeFleetStatus // as on the API server
	report *conditions.Reporter
	now    time.Time
	memory *memory
	pace   *pace
	paused bool          // the cluster is
	beside []string      // the names of the other fleets that buy machines
	again  time.Duration // when the next round is due
}

// waiting is why a fleet is not scaled for now; it becomes the fleet's Ready condition.
type waiting struct{ reason, message string }

// Error returns the message.
func (w *waiting) Error() string { return w.message }

// run does one round. Permanent problems of the fleet become conditions; an error is one that a retry may solve.
func (r *round) run(ctx context.Context, fleets []v1alpha1.NodeFleet) error {
	r.again = r.fleet.Spec.Scaling.Interval.Duration
	r.fleet.Status.ObservedGeneration = r.fleet.Generation
	if err := r.applyPause(ctx); err != nil {
		return err
	}
	err := r.steps(ctx, fleets)
	if refused := (*provider.Refused)(nil); errors.As(err, &refused) {
		r.report.Condition(v1alpha1.FleetDegraded, true, refused.Reason, refused.Message)
		err = &waiting{refused.Reason, refused.Message}
	}
	var w *waiting
	switch {
	case err == nil:
		r.report.Condition(v1alpha1.FleetReady, true, v1alpha1.FleetReasonReconciled, r.summary())
	case errors.Is(err, errPending):
		return nil // the answer starts the next round
	case errors.Is(err, errOutdated):
		r.again = settling
		return nil
	case errors.As(err, &w):
		r.reported.suspend(r.fleet.Name)
		r.report.Condition(v1alpha1.FleetReady, false, w.reason, w.message)
		r.report.Event(corev1.EventTypeWarning, w.reason, v1alpha1.ActionWait, w.message)
		return nil
	case errors.Is(err, provider.ErrChanged):
		r.report.Condition(v1alpha1.FleetReady, true, v1alpha1.FleetReasonRetrying, err.Error())
		r.again = settling
		r.pace.changed()
		return nil
	default:
		r.report.Condition(v1alpha1.FleetReady, false, v1alpha1.FleetReasonFailed, err.Error())
	}
	return err
}

// applyPause makes the round only report its decisions while the cluster is paused, or if it may not act.
func (r *round) applyPause(ctx context.Context) (err error) {
	r.paused, err = r.Pause.Apply(ctx, r.report, r.fleet.Spec.Mode != v1alpha1.FleetObserve)
	return err
}

// steps reads, observes, decides and acts. fleets are all fleets, ordered by seniority.
func (r *round) steps(ctx context.Context, fleets []v1alpha1.NodeFleet) error {
	defer r.releaseProvider()
	r.beside = otherBuyers(r.fleet, fleets)
	if err := templatesTaken(r.fleet, fleets); err != nil {
		return err
	}
	in, err := r.read(ctx, fleets)
	if err != nil {
		return err
	}
	ends := retires(r.fleet)
	d, err := r.decideAlone(in)
	if w := (*waiting)(nil); ends && errors.As(err, &w) && w.reason == v1alpha1.FleetReasonNoFlavors {
		return r.endRetirement(ctx, in.inventory, "")
	}
	if err != nil {
		return err
	}
	err = r.act(ctx, d, in.provider)
	if err = cmp.Or(err, r.clean(ctx, in.provider)); ends && err == nil {
		err = r.endRetirement(ctx, in.inventory, d.input.Stays())
	}
	return err
}

// errOutdated is returned if the round's observation is too old to decide on.
var errOutdated = errors.New("the observation is outdated because other fleets took long to decide: the fleet observes again")

// decideAlone observes and decides. Only one fleet does so at a time, and the next one knows what this one is about to
// order.
func (r *round) decideAlone(in *inputs) (*decision, error) {
	const most = time.Second
	began := r.Clock.Now()
	r.deciding.Lock()
	defer r.deciding.Unlock()
	if r.Clock.Since(began) > most && !r.pace.followed {
		r.pace.changed()
		return nil, errOutdated
	}
	seen, unpriced, err := r.observe(in)
	if err != nil {
		return nil, err
	}
	d := r.prepare(seen)
	r.recordObservation(d)
	if err := r.checkPrices(seen.Self, unpriced); err != nil && !retires(r.fleet) {
		return nil, err
	}
	d.actions = r.decide(d.input)
	r.recordBound(d)
	for _, o := range d.actions.Orders {
		if r.mayAct() {
			r.recordOrder(o.Flavor, o.To)
		}
	}
	return d, nil
}

// observe interprets what the round has read. unpriced names the flavors without a price.
func (r *round) observe(in *inputs) (seen *fleetobserve.Observation, unpriced string, err error) {
	self := fleetobserve.StockOf(r.fleet, in.inventory)
	all, err := r.takeStock(in.fleets, self)
	if err != nil {
		return nil, "", err
	}
	unpriced = self.SetPrices(in.prices)
	r.arrivals.prune(in.world.Pods, r.now)
	return fleetobserve.Observe(in.world, all, self, r.learned, r.now), unpriced, nil
}

// decision is what a round decides, and on what.
type decision struct {
	seen *fleetobserve.Observation
	// batch are the pods that arrived since the last purchase decision.
	batch batch
	// leaving are the pods on drained nodes, by node, and emptying evicts or migrates them.
	leaving  map[string][]fleetobserve.Leaver
	emptying *drain.Emptying

	input   *fleetdecide.Observation
	actions fleetdecide.Actions
}

// prepare returns the decision without its actions.
func (r *round) prepare(seen *fleetobserve.Observation) *decision {
	d := &decision{seen: seen, emptying: drain.NewEmptying(r.Client, seen.View, r.learned)}
	d.batch = r.pace.gather(&r.fleet.Spec.Scaling, seen.Waited, &r.arrivals, r.now)
	d.leaving = seen.Leavers(d.emptying)
	d.input = seen.Input(d.batch.wait, d.leaving)
	return d
}

// planningTime is how long planning may take before the best plan so far is used.
const planningTime = 20 * time.Second

// decide makes the decision. It changes the fleet's memory by what was observed.
func (r *round) decide(input *fleetdecide.Observation) fleetdecide.Actions {
	began := r.Clock.Now()
	c := fleetdecide.ConfigOf(&r.fleet.Spec)
	c.Act, c.SkipDrains, c.Retire = r.mayAct(), r.DryRun || r.Pause.Withholds(), retires(r.fleet)
	c.Stop = func() bool { return r.Clock.Since(began) > planningTime }
	actions := fleetdecide.Round(input, r.memory.Memory, c, r.now)
	metricPlanningSeconds.WithLabelValues(r.fleet.Name).Observe(r.Clock.Since(began).Seconds())
	return actions
}

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

// clean removes leftovers of the provider. That is not urgent.
func (r *round) clean(ctx context.Context, p provider.Provider) error {
	c, ok := p.(provider.Cleaner)
	if !ok || !r.mayAct() || r.pressed() {
		return nil
	}
	if err := r.asking(ctx, c.Clean); err != nil {
		return fmt.Errorf("remove leftovers: %w", err)
	}
	return nil
}

// wakeIn makes the next round begin after at most that time.
func (r *round) wakeIn(d time.Duration) { r.again = max(min(r.again, d), settling) }
