package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/dollars"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/world"
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

// carryOut writes an intent down, does it, and strikes it out. Wherever it breaks
// off, settle finds out what was done.
func (r *round) carryOut(ctx context.Context, intent *v1alpha1.FleetIntent) error {
	r.fleet.Status.Intent = intent
	if err := r.writeStatus(ctx); err != nil {
		return err
	}
	for _, o := range intent.Orders {
		if err := r.provider.Buy(ctx, intent.ID, o.Flavor, int(o.From), int(o.To)); err != nil {
			return r.dropIfChanged(err)
		}
		metricOrdered.WithLabelValues(r.fleet.Name, o.Flavor).Add(float64(max(0, o.To-o.From)))
		r.nominatePods(o.Flavor)
		r.ordered(o.Flavor, int(o.To))
		r.seen.paid += int64(o.To-o.From) * r.self.prices[o.Flavor].microDollars
		r.fleet.Status.Cost.DollarsPerHour = dollars.Format(r.seen.paid)
		r.status(o.Flavor).Machines += o.To - o.From
		r.fleet.Status.Machines += o.To - o.From
		r.fleet.Status.InFlight += o.To - o.From
	}
	for _, release := range intent.Releases {
		if err := r.provider.Release(ctx, intent.ID, release.Flavor, int(release.From), release.Machines); err != nil {
			return r.dropIfChanged(err)
		}
		metricReleased.WithLabelValues(r.fleet.Name, release.Flavor).Add(float64(len(release.Machines)))
	}
	r.fleet.Status.Intent = nil
	r.wakeIn(settling)
	return nil
}

// dropIfChanged strikes the intent out if the world has become another: it is
// decided anew. Otherwise the intent stays until it is known what became of it.
func (r *round) dropIfChanged(err error) error {
	if errors.Is(err, provider.ErrChanged) {
		r.fleet.Status.Intent = nil
	}
	return err
}

// act carries the decision out, or only says what it would have done. The nodes of
// an exchange are closed once the machines in their place are ordered; their pods stay
// until there is room for all of them.
func (r *round) act(ctx context.Context) error {
	orders := r.orders()
	r.recordRejected()
	nodes := r.nodesToEmpty()
	if r.decision.Exchange != nil && r.cut(orders) {
		return nil // a limit does not allow for all of it
	}
	if len(orders) == 0 && len(nodes) == 0 {
		return nil
	}
	intent := r.newIntent()
	intent.Orders = orders
	r.recordDecision(intent)
	r.planFor()
	if !r.mayAct() {
		return nil
	}
	if len(orders) > 0 {
		if err := r.carryOut(ctx, intent); err != nil {
			return err
		}
	}
	for _, node := range nodes {
		if err := r.close(ctx, r.world.Nodes[node.name], node.until); err != nil && !apierrors.IsConflict(err) { // else it is looked at again
			r.drainFailed(node.name, err)
		}
	}
	if len(nodes) > 0 {
		r.wakeIn(closedFor)
	}
	return nil
}

// cut reports whether fewer machines are ordered than the exchange needs.
func (r *round) cut(orders []v1alpha1.FleetOrder) bool {
	ordered := 0
	for _, o := range orders {
		ordered += int(o.To - o.From)
	}
	return ordered < len(r.decision.Exchange.Buy)
}

// closing is a node that is to be closed, and for how long its pods are expected to need
// to leave it.
type closing struct {
	name  string
	until time.Duration
}

// nodesToEmpty returns the nodes that are to be closed now.
func (r *round) nodesToEmpty() []closing {
	var nodes []closing
	for _, release := range r.decision.Release {
		nodes = append(nodes, closing{name: release.Node})
	}
	for _, d := range r.decision.Drains {
		nodes = append(nodes, closing{d.Node, d.Until})
	}
	if e := r.decision.Exchange; e != nil {
		for _, name := range e.Nodes {
			nodes = append(nodes, closing{name, e.Until})
		}
	}
	return nodes
}

// purchase is a machine to buy.
type purchase struct {
	flavor string
	pods   int
	reason string
}

// purchases returns the machines to buy, for pods that wait or in the place of others.
func (r *round) purchases() []purchase {
	var all []purchase
	for i := range r.decision.Plan.Machines {
		m := &r.decision.Plan.Machines[i]
		all = append(all, purchase{m.Flavor, len(m.Pods), m.Reason})
	}
	if e := r.decision.Exchange; e != nil {
		for i := range e.Buy {
			all = append(all, purchase{e.Buy[i].Flavor, len(e.Buy[i].Pods), e.Reason})
		}
	}
	return all
}

// orders returns what to buy by flavor. The plan reckons with what DaemonSets leave of
// machines, limits are about all of it: machines that would exceed one are left out.
func (r *round) orders() []v1alpha1.FleetOrder {
	var orders []v1alpha1.FleetOrder
	left, quota := r.limits(), r.quota()
	for _, m := range r.purchases() {
		if len(orders) == maxFlavors && !slices.ContainsFunc(orders, func(o v1alpha1.FleetOrder) bool { return o.Flavor == m.flavor }) {
			continue // the status takes no more: its pods still wait in the next round
		}
		if f := r.flavor(m.flavor); !within(&left, f, r.self.prices[m.flavor].microDollars) || !quota.Take(f) {
			continue
		}
		at := slices.IndexFunc(orders, func(o v1alpha1.FleetOrder) bool { return o.Flavor == m.flavor })
		if at < 0 {
			want := int32(r.flavor(m.flavor).Want)
			at = len(orders)
			orders = append(orders, v1alpha1.FleetOrder{Flavor: m.flavor, From: want, To: want})
		}
		orders[at].To++
	}
	slices.SortFunc(orders, func(a, b v1alpha1.FleetOrder) int { return cmp.Compare(a.Flavor, b.Flavor) })
	return orders
}

// within takes a machine off what may still be bought, and reports whether that allowed
// for it: the last look before money is spent. 0 is no limit.
func within(left *planner.Limits, f *provider.Flavor, price int64) bool {
	machines := int64(left.Machines)
	amounts := []struct {
		left *int64
		of   int64
	}{{&machines, 1}, {&left.MilliCPU, f.Size.MilliCPU}, {&left.MemoryBytes, f.Size.MemoryBytes}, {&left.MicroDollarsPerHour, price}}
	for _, a := range amounts {
		if *a.left != 0 && *a.left < a.of {
			return false
		}
	}
	for _, a := range amounts {
		if *a.left == 0 {
			continue
		}
		if *a.left -= a.of; *a.left == 0 {
			*a.left = -1 // used up, and not without a limit
		}
	}
	left.Machines = int(machines)
	return true
}

// giveUp gives back machines that did not come in time, or are known never to come,
// and leaves their flavors alone for a while. It reports whether it did. A machine that
// has a node after all is closed first, like one that is emptied: its kubelet may
// come to life at any moment.
func (r *round) giveUp(ctx context.Context) (bool, error) {
	if !r.mayAct() {
		return false, nil
	}
	late := r.late()
	if joined, err := r.joined(ctx, late); err != nil || joined {
		r.wakeIn(settling)
		return joined, err
	}
	missing := r.missing()
	intent := r.newIntent()
	for i := range r.self.inventory.Flavors {
		f := &r.self.inventory.Flavors[i]
		if max(len(intent.Releases), len(intent.Orders)) == maxFlavors {
			break // the status takes no more: the others are late in the next round, too
		}
		r.giveUpFlavor(intent, f, late[f.Name], missing[f.Name])
		for _, l := range late[f.Name] {
			if l.node == nil || f.Want <= f.Min {
				continue
			}
			if err := r.close(ctx, l.node, 0); err != nil && !apierrors.IsConflict(err) {
				r.drainFailed(l.node.Name, err)
			}
		}
	}
	if len(intent.Releases)+len(intent.Orders) == 0 {
		return false, nil
	}
	r.memory.nominations = nominations{pods: map[string]bool{}}
	return true, r.carryOut(ctx, intent)
}

// joined reports whether a machine that is late without a node has got one, or may have,
// since the round began: the cache of nodes lags behind the API server. Then the next
// round decides.
func (r *round) joined(ctx context.Context, late map[string][]lateMachine) (bool, error) {
	without := map[string]bool{}
	for _, machines := range late {
		for _, l := range machines {
			if l.node == nil {
				without[l.name] = true
			}
		}
	}
	if len(without) == 0 {
		return false, nil
	}
	var list corev1.NodeList
	if err := r.Live.List(ctx, &list); err != nil {
		return false, fmt.Errorf("list nodes before machines without a node are given back: %w", err)
	}
	nodes := make(map[string]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	p, err := r.NewProvider(r.fleet, nodes)
	if err != nil {
		return false, err
	}
	now, err := p.Observe(ctx)
	if err != nil {
		return false, fmt.Errorf("look again at machines before they are given back: %w", err)
	}
	return slices.ContainsFunc(now.Machines, func(m provider.Machine) bool {
		return without[m.Name] && (m.Unidentified != "" || nodes[m.Node] != nil)
	}), nil
}

// lateMachine is one that did not come.
type lateMachine struct {
	name string
	node *corev1.Node // nil without one
	why  string
}

// late returns the machines to give up, by flavor and ordered by name.
func (r *round) late() map[string][]lateMachine {
	found := map[string][]lateMachine{}
	for name, m := range r.seen.own {
		timeout := joinTimeout(r.fleet, r.flavor(m.Flavor))
		node := r.world.Nodes[m.Node]
		wait := r.patienceWith(name, m, node, timeout)
		if wait > 0 {
			if wait != never {
				r.wakeIn(wait)
			}
			continue
		}
		found[m.Flavor] = append(found[m.Flavor], lateMachine{m.Name, node, r.whyLate(m, node, timeout)})
	}
	for _, machines := range found {
		slices.SortFunc(machines, func(a, b lateMachine) int { return cmp.Compare(a.name, b.name) })
	}
	return found
}

// never is that a machine has come, or is on its way out already.
const never = time.Duration(math.MaxInt64)

// patienceWith returns for how long a machine is still waited for, and never if it is
// not waited for. One whose node has been ready before is given up after as long a time
// without being so, once nothing is lost with it. One whose node is not identified is not
// given up at all: there may be pods on it.
func (r *round) patienceWith(name string, m provider.Machine, node *corev1.Node, timeout time.Duration) time.Duration {
	if m.Unidentified != "" {
		return never
	}
	if node == nil {
		if m.Failed != "" {
			return 0
		}
		return timeout - r.now.Sub(r.withoutNode(m))
	}
	delete(r.memory.lost, m.Name)
	_, is := world.Ready(node)
	if _, closing := drain.MarkOf(node); is || closing || node.DeletionTimestamp != nil {
		return never
	}
	after, lost := r.remains(name)
	if lost != "" {
		return never
	}
	return max(after, timeout-unready(m, node, r.now))
}

// withoutNode returns since when a machine has had no node: since its order, or since
// that was first seen if it has had one. Somebody may have deleted the node to let its
// kubelet register anew.
func (r *round) withoutNode(m provider.Machine) time.Time {
	if m.Node == "" {
		return m.Ordered
	}
	since, known := r.memory.lost[m.Name]
	if !known {
		since = r.now
		r.memory.lost[m.Name] = since
	}
	return since
}

// giveUpFlavor writes down what is given up of one flavor. Machines that the flavor
// must have at least are waited for.
func (r *round) giveUpFlavor(intent *v1alpha1.FleetIntent, f *provider.Flavor, late []lateMachine, missing int) {
	most := max(0, f.Want-f.Min)
	var release, fresh []string
	why := fmt.Sprintf("the MachineDeployment has made %d machines less than it is to have", missing)
	for _, l := range late {
		if !r.memory.gaveUp[l.name] {
			r.memory.gaveUp[l.name] = true
			fresh = append(fresh, l.name)
			why = l.why
		}
		if l.node == nil && len(release) < most {
			release = append(release, l.name)
		}
	}
	switch {
	case len(release) > 0:
		intent.Releases = append(intent.Releases, v1alpha1.FleetRelease{Flavor: f.Name, From: int32(f.Want), Machines: release})
	case missing > 0 && most > 0:
		intent.Orders = append(intent.Orders, v1alpha1.FleetOrder{Flavor: f.Name, From: int32(f.Want), To: int32(f.Want - min(missing, most))})
	}
	if len(fresh)+missing == 0 {
		return
	}
	until := r.leaveFlavorAlone(f.Name)
	metricGaveUp.WithLabelValues(r.fleet.Name, f.Name).Add(float64(len(fresh) + missing))
	r.tell(corev1.EventTypeWarning, "MachineGivenUp", "GiveUp",
		fmt.Sprintf("%d machines of %s did not come (%s); it is left alone until %s", len(fresh)+missing, f.Name, why, until.UTC().Format("15:04:05")))
}

// leaveFlavorAlone notes that machines of a flavor did not come, and returns until when it is
// not bought.
func (r *round) leaveFlavorAlone(flavor string) metav1.Time {
	s := r.status(flavor)
	if s.LeftAloneUntil == nil { // else these were ordered before, and only given up later than others
		s.Failures++
	}
	until := metav1.NewTime(r.now.Add(leaveAlone(r.fleet.Spec.Scaling.BackOff.Duration, s.Failures)))
	s.LeftAloneUntil = &until
	return until
}

// missing returns how many machines of each flavor have not even been made: none was,
// for as long as one may take to come.
func (r *round) missing() map[string]int {
	found := map[string]int{}
	for i := range r.self.inventory.Flavors {
		f := &r.self.inventory.Flavors[i]
		made := 0
		for _, m := range r.self.inventory.Machines {
			if m.Flavor == f.Name && !m.Leaving {
				made++
			}
		}
		if made >= f.Want || f.Problem != "" {
			delete(r.memory.missing, f.Name)
			continue
		}
		s := r.memory.missing[f.Name].goesOn(r.now, made, f.Want-made)
		r.memory.missing[f.Name] = s
		if r.now.Sub(s.since) >= joinTimeout(r.fleet, f) {
			found[f.Name] = s.lacks
			delete(r.memory.missing, f.Name)
		}
	}
	return found
}
