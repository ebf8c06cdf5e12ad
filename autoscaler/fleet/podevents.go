package fleet

import (
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetobserve"
	"supercargo.dev/supercargo/autoscaler/fleet/podevent"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/clip"
	"supercargo.dev/supercargo/internal/world"
)

// reported is what all fleets have reported about pods. It is safe for concurrent use.
type reported struct {
	mu   sync.Mutex
	book podevent.Book
}

func (t *reported) suspend(fleet string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.book.Suspend(fleet)
}

func (t *reported) forget(fleet string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.book.Forget(fleet)
}

func (t *reported) idle(fleet string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.book.Idle(fleet)
}

func (t *reported) add(r *podevent.Round, now time.Time) []podevent.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.book.Add(r, now)
}

// otherBuyers returns the names of the other fleets that buy machines.
func otherBuyers(fleet *v1alpha1.NodeFleet, fleets []v1alpha1.NodeFleet) (names []string) {
	for i := range fleets {
		if f := &fleets[i]; f.Name != fleet.Name && f.Spec.Mode != v1alpha1.FleetObserve && f.DeletionTimestamp == nil {
			names = append(names, f.Name)
		}
	}
	return names
}

// recordPods records Events about the pods for which the round has ordered machines, and about those for which no fleet
// buys one.
func (x *execution) recordPods() {
	round := podevent.Round{Fleet: x.fleet.Name, Beside: x.beside, Waits: x.waits(), Refused: x.refused()}
	if len(round.Waits)+len(round.Refused) == 0 && x.reported.idle(x.fleet.Name) {
		return
	}
	pods := map[string]*corev1.Pod{}
	round.Pods = map[string]types.UID{}
	for _, pod := range x.seen.World.Pods {
		if _, is := world.Unschedulable(pod); is {
			name := world.PodName(pod)
			pods[name], round.Pods[name] = pod, pod.UID
		}
	}
	for _, e := range x.reported.add(&round, x.now) {
		x.Events.Eventf(pods[e.Pod], x.fleet, corev1.EventTypeNormal, e.Reason, e.Action, "%s", clip.Bytes(e.Message, conditions.MaxMessage))
	}
}

// waits returns the pods for which the round has ordered machines. A limit may have allowed only the first machines of a
// flavor.
func (x *execution) waits() (all []podevent.Wait) {
	ordered, expected := map[string]int{}, map[string]time.Time{}
	for _, o := range x.ordered {
		if o.To > o.From {
			ordered[o.Flavor] = int(o.To-o.From) - x.actions.Fleet.ToMinimum[o.Flavor]
			expected[o.Flavor] = x.now.Add(fleetobserve.ReadyAfter(x.fleet, o.Flavor))
		}
	}
	machines := x.actions.Fleet.Plan.Machines
	for i := range machines {
		m := &machines[i]
		if ordered[m.Flavor] <= 0 {
			continue
		}
		ordered[m.Flavor]--
		for _, pod := range m.Pods {
			all = append(all, podevent.Wait{Pod: pod, Flavor: m.Flavor, Ordered: x.now, Expected: expected[m.Flavor]})
		}
	}
	return all
}

// refused returns the pods for which the fleet buys no machine, with the reasons.
func (x *execution) refused() map[string]string {
	all := map[string]string{}
	for _, r := range slices.Concat(x.rejections(), x.seen.PassedOver()) {
		all[r.Name] = strings.TrimPrefix(r.Reason, fleetobserve.NotPlanned)
	}
	return all
}
