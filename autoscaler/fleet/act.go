package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
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

// act carries the decision out, or only says what it would have done.
func (r *round) act(ctx context.Context) error {
	orders := r.orders()
	r.recordRejected()
	if len(orders) == 0 && len(r.decision.Release) == 0 && len(r.decision.Drains) == 0 {
		return nil
	}
	intent := r.newIntent()
	intent.Orders = orders
	r.recordDecision(intent)
	if !r.mayAct() {
		return nil
	}
	if len(orders) > 0 {
		return r.carryOut(ctx, intent)
	}
	for _, node := range r.nodesToEmpty() {
		if err := r.close(ctx, r.world.nodes[node]); err != nil && !apierrors.IsConflict(err) { // else it is looked at again
			return err
		}
	}
	r.wakeIn(closedFor)
	return nil
}

// nodesToEmpty returns the nodes that are to be closed now.
func (r *round) nodesToEmpty() []string {
	var nodes []string
	for _, release := range r.decision.Release {
		nodes = append(nodes, release.Node)
	}
	for _, drain := range r.decision.Drains {
		nodes = append(nodes, drain.Node)
	}
	return nodes
}

// orders returns what to buy by flavor.
func (r *round) orders() []v1alpha1.FleetOrder {
	var orders []v1alpha1.FleetOrder
	for _, m := range r.decision.Plan.Machines {
		at := slices.IndexFunc(orders, func(o v1alpha1.FleetOrder) bool { return o.Flavor == m.Flavor })
		if at < 0 {
			want := int32(r.flavor(m.Flavor).Want)
			at = len(orders)
			orders = append(orders, v1alpha1.FleetOrder{Flavor: m.Flavor, From: want, To: want})
		}
		orders[at].To++
	}
	slices.SortFunc(orders, func(a, b v1alpha1.FleetOrder) int { return cmp.Compare(a.Flavor, b.Flavor) })
	return orders
}

// giveUp gives back machines that did not come in time, or are known never to come,
// and leaves their flavors alone for a while. It reports whether it did.
func (r *round) giveUp(ctx context.Context) (bool, error) {
	late := map[string][]string{} // machines by flavor
	why := map[string]string{}
	for name, m := range r.seen.own {
		f := r.flavor(m.Flavor)
		age := r.now.Sub(m.Ordered)
		switch timeout := joinTimeout(r.fleet, f); {
		case !r.neverReady(name):
		case m.Failed != "":
			late[f.Name], why[f.Name] = append(late[f.Name], m.Name), m.Failed
		case age >= timeout:
			late[f.Name], why[f.Name] = append(late[f.Name], m.Name), fmt.Sprintf("no ready node within %v", timeout)
			if m.Waits != "" {
				why[f.Name] += ": " + m.Waits
			}
		default:
			r.wakeIn(timeout - age)
		}
	}
	missing := r.missing()
	if len(late) == 0 && len(missing) == 0 {
		return false, nil
	}
	intent := r.newIntent()
	for i := range r.self.inventory.Flavors {
		f := &r.self.inventory.Flavors[i]
		r.giveUpFlavor(intent, f, late[f.Name], why[f.Name], missing[f.Name])
	}
	if !r.mayAct() || len(intent.Releases)+len(intent.Orders) == 0 {
		return false, nil
	}
	return true, r.carryOut(ctx, intent)
}

// neverReady reports whether the machine of that name in the state has had no ready
// node: it has none, or one that has not been ready since it came.
func (r *round) neverReady(name string) bool {
	if strings.HasPrefix(name, "machine ") {
		return true
	}
	node := r.world.nodes[name]
	c, is := ready(node)
	return !is && node.DeletionTimestamp == nil && c.LastTransitionTime.Sub(node.CreationTimestamp.Time) < closedFor
}

// giveUpFlavor writes down what is given up of one flavor. Machines that the flavor
// must have at least are waited for.
func (r *round) giveUpFlavor(intent *v1alpha1.FleetIntent, f *provider.Flavor, late []string, why string, missing int) {
	if len(late)+missing == 0 {
		return
	}
	if why == "" {
		why = fmt.Sprintf("the MachineDeployment has made %d machines less than it is to have", missing)
	}
	s := r.status(f.Name)
	s.Failures++
	until := metav1.NewTime(r.now.Add(leaveAlone(r.fleet.Spec.Scaling.BackOff.Duration, s.Failures)))
	s.LeftAloneUntil = &until
	slices.Sort(late)
	most := max(0, f.Want-f.Min)
	switch {
	case len(late) > 0 && most > 0:
		late = late[:min(len(late), most)]
		intent.Releases = append(intent.Releases, v1alpha1.FleetRelease{Flavor: f.Name, From: int32(f.Want), Machines: late})
	case missing > 0 && most > 0:
		intent.Orders = append(intent.Orders, v1alpha1.FleetOrder{Flavor: f.Name, From: int32(f.Want), To: int32(f.Want - min(missing, most))})
	}
	metricGaveUp.WithLabelValues(r.fleet.Name, f.Name).Add(float64(len(late) + missing))
	r.tell(corev1.EventTypeWarning, "MachineGivenUp", "GiveUp",
		fmt.Sprintf("gave up %d machines of %s (%s); it is left alone until %s", len(late)+missing, f.Name, why, until.UTC().Format("15:04:05")))
}

// missing returns how many machines of each flavor have not even been made within
// the time that they may take to come.
func (r *round) missing() map[string]int {
	found := map[string]int{}
	for i := range r.self.inventory.Flavors {
		f := &r.self.inventory.Flavors[i]
		lacks := f.Want
		for _, m := range r.self.inventory.Machines {
			if m.Flavor == f.Name && !m.Leaving {
				lacks--
			}
		}
		since, known := r.memory.missing[f.Name]
		switch {
		case lacks <= 0 || f.Problem != "":
			delete(r.memory.missing, f.Name)
		case !known:
			r.memory.missing[f.Name] = r.now
		case r.now.Sub(since) >= joinTimeout(r.fleet, f):
			found[f.Name] = lacks
			delete(r.memory.missing, f.Name)
		}
	}
	return found
}
