package moves

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

// ExchangeConfig configures which machines are exchanged for others, and when that pays.
type ExchangeConfig struct {
	// Method, Ways, MoveServices, Cycle, PodResidence, Budget and Risk are as in [DrainConfig].
	Method       cluster.Method
	Ways         cluster.Ways
	MoveServices bool
	Cycle        time.Duration
	PodResidence time.Duration
	Budget       Budget
	Risk         float64
	// Residence is how long a machine must have been paid for.
	Residence time.Duration
	// Horizon is how long the cluster is expected to stay as it is. Savings and costs after it do not count. Services
	// are assumed to run until then.
	Horizon time.Duration
	// Margin is the fraction of the old machines' remaining cost that the saving, minus all costs, must exceed, so that
	// small estimation errors do not move pods back and forth. 0 means [DefaultMargin], a negative value means none.
	Margin float64
	// Patience is how long a machine may be cordoned for pods that end by themselves; 0 means unlimited. A machine with
	// a pod that ends later and may not leave otherwise stays.
	Patience time.Duration
	// Limit is how many machines may be drained in total; 0 means unlimited.
	Limit int
	// Calls is how often the buyer may be called; 0 means [DefaultCalls]. It is not called again after [MostFutile] calls
	// in a row of which none led to an exchange that pays.
	Calls int
	// Planned is what is done in addition. Its nodes are released, and the room and machines that it uses are not
	// available for exchanges.
	Planned cluster.Plan
}

const (
	// DefaultMargin is the default of [ExchangeConfig.Margin].
	DefaultMargin = 0.15
	// DefaultCalls is the default of [ExchangeConfig.Calls].
	DefaultCalls = 64
	// MostFutile is how often in a row the buyer is called without success.
	MostFutile = 24
)

// Buyer returns machines to buy such that every pod has a place: on one of them (listed in the Pods of the purchase) or
// on a node (listed in moves). ok is false if there is no such solution. Prices and limits are those of flavors; it
// buys at most the given number of machines.
//
// nodes are the future nodes of the cluster with their pods, if the placement of some pod depends on other pods.
// Otherwise nodes is empty, because pods that fit on nodes have already been placed. Only [cluster.Ready] nodes accept
// pods.
type Buyer func(pods []cluster.Pod, nodes []cluster.Node, flavors []cluster.Flavor, most int) (
	buy []cluster.Purchase, moves []cluster.Move, ok bool)

// Exchange returns the machines to replace by cheaper ones: several by one, one by several, or several by several. The
// greatest gain comes first.
//
// A machine is a candidate if it is ready, not kept and old enough, no pods are on their way to it, no room on it is
// reserved, and all its pods may leave. The pods of a set of candidates take room on other nodes, as in [Planner.Plan],
// and the buyer finds machines for the rest. Exchanges without purchases are possible: it may pay to drain several
// nodes together but not one by one.
//
// An exchange is done if it reduces the payments until the horizon by more than Margin times the remaining cost of the
// old machines. Each machine is paid from now until the last of its pods has ended (services end at the horizon) and it
// is released. Every started billing period is paid in full, so the rest of the last one is lost. The old and the new
// machines are both paid while the new ones start. A move delays the end of a batch pod: an eviction repeats all its
// work, a migration takes time and, with probability Risk, repeats all its work. Each pod leaves by the method with
// which it ends soonest. If the delay does not lengthen the stay of its machine by as much, the pod's share of the
// machine for that time counts, because others could have used it.
//
// The stated costs are all started periods of the old machines, the price of the new ones during Lag, and the cost of
// repeated work. Everything else counts as savings.
//
// Every exchange reduces the bill until the horizon, and no move makes a pod end sooner. No sequence of exchanges
// therefore returns to its start as long as pods, prices and expectations stay the same.
//
// The search is not exhaustive. Machines are ordered by their waste until the horizon: their price minus what their
// requests would cost at the rate of the best flavor for them; ties by name. With up to five candidates, all sets are
// tried. With more, the first ones are tried singly and together, as well as subsets of the first five and several of a
// kind. The set with the greatest gain is selected, ties to the smaller set and then to the earlier one. The rest is
// searched again, without sets that did not pay. With up to five candidates, the first exchange is therefore optimal
// for the given filling of room and the buyer's answers.
//
// Of pods that may be waited for, the search waits for all that end before new machines are ready, and also tries up to
// three numbers of those that end next. The machines are then paid until the last of these pods has ended.
//
// Pods either take all room that they find before machines are bought for the rest, or only room on nodes that are
// needed as long anyway. The better alternative is selected.
//
// Pending pods are not considered, so callers should call Exchange only if there are none. Old and new machines
// together stay within MaxNodes and the limits of the flavors. New machines take only the pods of their exchange.
//
// Cost: O(n) for each pod of a set, for n nodes; at most 256 sets per exchange and 2048 in total. What remains is found
// in the next round. The buyer is not called if even machines without waste would not pay.
func Exchange(s *cluster.State, c ExchangeConfig, buy Buyer) []cluster.Exchange {
	return slices.Collect(Exchanges(s, c, buy))
}

// Exchanges yields the result of [Exchange] one by one. What the caller does not ask for is not searched.
func Exchanges(s *cluster.State, c ExchangeConfig, buy Buyer) iter.Seq[cluster.Exchange] {
	return func(yield func(cluster.Exchange) bool) {
		if c.Horizon <= 0 {
			return // nothing can be saved in no time
		}
		x := newExchanger(s, c, buy)
		for best := x.best(); best != nil; best = x.best() {
			x.apply(best)
			if !yield(x.exchange(best)) {
				return
			}
		}
	}
}

// Replace returns how to empty a machine that must go regardless of the costs: the cheapest of the ways that [Exchange] knows,
// which may buy machines for its pods. why says that there is none, because a pod may not leave, or because no machine can be
// bought for one; it is empty otherwise. Margin and Residence do not count, and the machine may be empty.
//
// Cost: that of one set of [Exchange].
func Replace(s *cluster.State, c ExchangeConfig, node string, buy Buyer) (e cluster.Exchange, why string) {
	x := newExchanger(s, c, buy)
	x.c.Margin = math.Inf(-1)
	room := x.byName[node]
	switch {
	case room == nil, room.leaving:
		return e, "it is not ready, or is being drained already"
	case room.node.Kept:
		return e, room.node.KeptFor
	case room.target || room.promised != nil || room.node.Incoming > 0:
		return e, "pods are on their way to it"
	}
	if why := x.stays(room.node); why != "" {
		return e, why
	}
	o := x.offer([]*cluster.Node{room.node})
	if o == nil {
		return e, "its pods have no room on other nodes, and no machine can be bought for them"
	}
	e = x.exchange(o)
	e.Reason = fmt.Sprintf("%s: costs %s an hour more", o.what(), dollars(-e.SavesPerHour, 4))
	if e.SavesPerHour >= 0 {
		e.Reason = fmt.Sprintf("%s: saves %s an hour", o.what(), dollars(e.SavesPerHour, 4))
	}
	return e, ""
}

// exchanger finds exchanges, one after the other.
type exchanger struct {
	*planning
	c            ExchangeConfig
	buy          Buyer
	candidates   []*cluster.Node // most wasteful first
	emptied      int
	tries        int                   // remaining sets to try
	calls        int                   // remaining calls of the buyer
	futile       int                   // calls in a row without success
	answers      map[string]answer     // of the buyer
	unprofitable map[string]bool       // sets that did not pay
	added        map[int][]cluster.Pod // to nodes, by index in the state
	machines     []machine             // bought so far
	sale         *onSale               // nil after a purchase

	// moving and moved are the memory of offerFilling, which needs them until it returns.
	moving []cluster.Pod
	moved  []moved
}

// machine is a machine to buy.
type machine struct {
	flavor *cluster.Flavor
	class  class.Class
	pods   []cluster.Pod
	reason string
	host   int // host id in the tracker
}

func newExchanger(s *cluster.State, c ExchangeConfig, buy Buyer) *exchanger {
	if c.Margin == 0 {
		c.Margin = DefaultMargin
	}
	if c.Calls == 0 {
		c.Calls = DefaultCalls
	}
	r := newPlanning(DrainConfig{
		Method: c.Method, Ways: c.Ways, MoveServices: c.MoveServices, Cycle: c.Cycle, PodResidence: c.PodResidence, Budget: c.Budget, Risk: c.Risk,
		Horizon: c.Horizon, Worthwhile: true,
	}, s)
	x := &exchanger{
		planning: r, c: c, buy: buy, tries: mostTries, calls: c.Calls,
		answers: map[string]answer{}, unprofitable: map[string]bool{}, added: map[int][]cluster.Pod{},
	}
	x.reserve(c.Planned)
	x.candidates = x.wasteful()
	return x
}

// reserve applies an existing plan to the round.
func (x *exchanger) reserve(plan cluster.Plan) {
	order := func(p cluster.Purchase) {
		x.spare--
		x.bought[p.Flavor]++
	}
	for _, p := range plan.Buy {
		order(p)
	}
	for _, r := range plan.Release {
		if room := x.byName[r.Node]; room != nil {
			x.setLeaving(room, true)
		}
	}
	for _, d := range plan.Drains {
		from := x.byName[d.Node]
		if from == nil {
			continue
		}
		if d.Replacement != nil { // until it is ready, the pods stay
			order(*d.Replacement)
			x.setLeaving(from, true)
			x.budget.spend(len(from.node.Pods))
			x.added[from.at] = from.node.Pods
			continue
		}
		var pods []cluster.Pod
		var targets []*room
		for _, m := range d.Moves {
			at := slices.IndexFunc(from.node.Pods, func(p cluster.Pod) bool { return p.Name == m.Pod })
			if to := x.byName[m.Target]; at >= 0 && to != nil && m.Method != cluster.Wait {
				pods, targets = append(pods, from.node.Pods[at].Elsewhere()), append(targets, to)
			}
		}
		t := x.tryMoving(from.node, pods)
		for i, p := range pods {
			t.put(p, targets[i])
		}
		x.commit(t)
	}
}

// commit applies a trial to the round.
func (x *exchanger) commit(t *trial) {
	for _, m := range t.moved {
		m.to.stay = max(m.to.stay, t.untilMoved(&m.pod))
		x.added[m.to.at] = append(x.added[m.to.at], m.pod)
	}
	for i, from := range t.from {
		x.budget.spend(0)
		if i == 0 {
			x.budget.pods += len(t.moved)
		}
		for j := range from.node.Pods {
			if p := from.node.Pods[j]; t.waits(&p) {
				x.added[from.at] = append(x.added[from.at], p)
			}
		}
	}
	t.commit()
}

// wasteful returns the candidates, most wasteful first.
func (x *exchanger) wasteful() []*cluster.Node {
	var all []*cluster.Node
	waste := map[string]float64{}
	for _, room := range x.rooms {
		n := room.node
		if room.leaving || room.target || room.promised != nil || n.Kept || n.Incoming > 0 || len(n.Pods) == 0 || n.Age < x.c.Residence {
			continue
		}
		if x.stays(n) != "" {
			continue
		}
		all = append(all, n)
		waste[n.Name] = x.waste(n) * float64(room.stay)
	}
	slices.SortStableFunc(all, func(a, b *cluster.Node) int { return cmp.Compare(waste[b.Name], waste[a.Name]) })
	return all
}

// waste returns by how much the price of the node exceeds that of its requests at the best rate, in micro-dollars per
// hour.
func (x *exchanger) waste(n *cluster.Node) float64 {
	used := n.Used()
	cost := func(of packing.Size, price int64) float64 {
		return float64(dominantShare(used, of) * float64(price)) // the conversion forces rounding, so that all platforms give the same result
	}
	least := cost(n.Capacity, n.MicroDollarsPerHour)
	for i := range x.state.Flavors {
		if f := &x.state.Flavors[i]; f.Sells(1) && f.Size.MilliCPU > 0 && f.Size.MemoryBytes > 0 && hasEach(f.Size.Extended, used.Extended) {
			least = min(least, cost(f.Size, f.MicroDollarsPerHour))
		}
	}
	return float64(n.MicroDollarsPerHour) - least
}

// hasEach reports whether there is some of each extended resource that is used.
func hasEach(capacity, used packing.Extended) bool {
	for slot, amount := range used.BySlot() {
		if amount > 0 && capacity.At(slot) <= 0 {
			return false
		}
	}
	return true
}

// best returns the exchange with the greatest gain, or nil if none pays.
func (x *exchanger) best() *offer {
	var best *offer
	for _, set := range x.sets() {
		if x.tries--; x.tries < 0 {
			break
		}
		o := x.offer(set)
		if o == nil {
			x.unprofitable[keyOf(set)] = true
			continue
		}
		if best == nil || o.gain() > best.gain() || o.gain() == best.gain() && len(o.set) < len(best.set) {
			best = o
		}
	}
	return best
}

// apply applies an offer to the round.
func (x *exchanger) apply(o *offer) {
	t := x.trySet(o.set, o.waiting)
	t.wait = o.wait
	for _, m := range o.moved {
		t.put(m.pod, m.to)
	}
	for _, m := range o.machines {
		x.spare--
		x.budget.pods += len(m.pods)
		x.bought[m.flavor.Name]++
		t.addMachine(&m)
		x.machines = append(x.machines, m)
		x.sale = nil
	}
	x.commit(t)
	x.emptied += len(o.set)
	x.candidates = slices.DeleteFunc(x.candidates, func(n *cluster.Node) bool {
		room := x.byName[n.Name]
		return room.leaving || room.target
	})
}
