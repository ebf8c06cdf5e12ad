package moves

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

// ExchangeConfig says which machines are exchanged for others, and when that pays.
type ExchangeConfig struct {
	// Method, Ways, MoveServices, Cycle, PodResidence, Budget and Risk are as in [Config].
	Method       cluster.Method
	Ways         cluster.Ways
	MoveServices bool
	Cycle        time.Duration
	PodResidence time.Duration
	Budget       Budget
	Risk         float64
	// Residence is how long a machine must have been paid for.
	Residence time.Duration
	// Horizon is how long the cluster is expected to stay as it is. What an exchange
	// saves and costs later is not counted. Services are taken to run until then.
	Horizon time.Duration
	// Margin is which part of what the old machines would still cost must be left of the
	// saving when all costs are paid, so that small errors of what is expected do not
	// move pods to and fro; 0 is [DefaultMargin], and less than 0 none.
	Margin float64
	// Patience is for how long a machine may be cordoned for pods that end by themselves; 0 is
	// any time. A machine with a pod that ends later, and may not leave otherwise, stays.
	Patience time.Duration
	// Limit is how many machines may be emptied in all; 0 means any number.
	Limit int
	// Calls is how often the buyer is asked at most; 0 is [DefaultCalls].
	Calls int
	// Planned is what is done besides: its nodes leave, and what its pods take and what
	// it buys is not there for exchanges.
	Planned cluster.Plan
}

const (
	// DefaultMargin is the least part of their price that an exchange of machines saves.
	DefaultMargin = 0.15
	// DefaultCalls is how often [Exchange] asks what to buy.
	DefaultCalls = 64
)

// Buyer says which machines to buy so that all pods have a place: on one of those, where
// they stand in the Pods of the purchase, or else on a node, where they stand in moves. It
// is not ok if they have none. All prices and limits are those of the flavors; it buys no
// more than most machines.
//
// The nodes are those of the cluster, with the pods as they are going to be, if a pod's
// place depends on that of others; else there are none, since pods that any node takes
// have been given to it. Only those that are [cluster.Ready] take pods.
type Buyer func(pods []cluster.Pod, nodes []cluster.Node, flavors []cluster.Flavor, most int) (
	buy []cluster.Purchase, moves []cluster.Move, ok bool)

// Exchange says which machines to replace by cheaper ones, several by one, one by
// several, or several by several. What saves most comes first.
//
// A machine may go if it is ready, not kept, old enough, no pods are on their way to it, none
// has been promised room there, and all its pods may leave. The pods of a set of such machines take what room there is
// on others, as for [Planner.Plan], and the buyer finds machines for the rest. An exchange
// without purchases happens too: several nodes may be worth emptying together that are not
// one by one.
//
// It is done if what is paid until the horizon is less by Margin of what the machines would
// still cost. Each machine is paid from now until the last of its pods has ended, services
// at the horizon, and is released: by started billing periods, so that the rest of the
// last one is lost. So the old machines and the new are both paid while those come. A batch
// pod ends later by what a move costs it: all the work done until it is evicted, or the
// time of a migration and, at the Risk that it fails, all that work: each pod leaves in that
// one of its ways by which it ends soonest. Where that does not lengthen the stay of its machine by as much, its
// share of the machine for that time is counted, since others could have used that.
//
// Of the costs that it states, all started periods of old machines, the price of the new
// ones during Lag and what repeated work costs are one part; all else makes what it saves.
//
// As every exchange makes the bill up to the horizon smaller and a move lets no pod end
// sooner, no sequence of exchanges leads back to where it began as long as pods, prices and
// expectations stay the same.
//
// The search is not exhaustive. Machines are ordered by what they waste until the horizon:
// their price, less what the requests on them would cost at the rate of the flavor that is
// best for them; ties by name. All sets of up to five candidates are tried; of more, the
// first ones singly and together, subsets of the first five, and several of a kind. The set
// with the greatest gain is taken, ties to the smaller one and then to the earlier, and
// the rest is searched again, without sets that did not pay. So with up to five
// candidates the first exchange is the best there is, given how room is filled and what
// the buyer answers.
//
// For pods that may be waited for, all that end before new machines come are, and besides up
// to three numbers of those that end next are tried; the machines are then paid until the
// last of them has ended.
//
// Pods either take all room they find before the rest is bought for, or only room on
// nodes that are needed as long anyway: the better of the two.
//
// Pods that wait are not looked at: ask when none does. The machines stay within MaxNodes and the flavors' limits although old and new ones are
// there at once. New machines take pods of their own exchange alone.
//
// Cost: O(n) for each pod of a set, of n nodes; 256 sets at most for each exchange, and 2048
// in all: what is then left is found the next time. The buyer is not asked where even
// machines without any waste would not pay.
func Exchange(s *cluster.State, c ExchangeConfig, buy Buyer) []cluster.Exchange {
	if c.Horizon <= 0 {
		return nil // nothing saves anything in no time
	}
	x := newExchanger(s, c, buy)
	var done []cluster.Exchange
	for {
		best := x.best()
		if best == nil {
			return done
		}
		x.apply(best)
		done = append(done, x.exchange(best))
	}
}

// exchanger looks for exchanges, one after the other.
type exchanger struct {
	*round
	c            ExchangeConfig
	buy          Buyer
	candidates   []*cluster.Node // the most wasteful first
	emptied      int
	tries        int                   // of sets, that are left
	calls        int                   // of the buyer, that are left
	answers      map[string]answer     // of the buyer
	unprofitable map[string]bool       // sets that did not pay
	added        map[int][]cluster.Pod // to nodes, by place in the state
	machines     []machine             // that were bought
}

// machine is a machine to buy.
type machine struct {
	flavor *cluster.Flavor
	class  class.Class
	pods   []cluster.Pod
	reason string
	host   int // in the tracker
}

func newExchanger(s *cluster.State, c ExchangeConfig, buy Buyer) *exchanger {
	if c.Margin == 0 {
		c.Margin = DefaultMargin
	}
	if c.Calls == 0 {
		c.Calls = DefaultCalls
	}
	r := newRound(Config{
		Method: c.Method, Ways: c.Ways, MoveServices: c.MoveServices, Cycle: c.Cycle, PodResidence: c.PodResidence, Budget: c.Budget, Risk: c.Risk,
		Horizon: c.Horizon, Worthwhile: true,
	}, s)
	x := &exchanger{
		round: r, c: c, buy: buy, tries: mostTries, calls: c.Calls,
		answers: map[string]answer{}, unprofitable: map[string]bool{}, added: map[int][]cluster.Pod{},
	}
	x.reserve(c.Planned)
	x.candidates = x.wasteful()
	return x
}

// reserve takes what is planned already out of the round.
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
			room.leaving = true
		}
	}
	for _, d := range plan.Drains {
		from := x.byName[d.Node]
		if from == nil {
			continue
		}
		if d.Replacement != nil { // until that is there, the pods are where they are
			order(*d.Replacement)
			from.leaving = true
			x.budget.spend(len(from.node.Pods))
			x.added[from.at] = from.node.Pods
			continue
		}
		var pods []cluster.Pod
		var targets []*room
		for _, m := range d.Moves {
			at := slices.IndexFunc(from.node.Pods, func(p cluster.Pod) bool { return p.Name == m.Pod })
			if to := x.byName[m.Target]; at >= 0 && to != nil && m.Method != cluster.Wait {
				pods, targets = append(pods, from.node.Pods[at]), append(targets, to)
			}
		}
		t := x.tryMoving(from.node, pods)
		for i, p := range pods {
			t.put(p, targets[i])
		}
		x.commit(t)
	}
}

// commit makes a trial part of the round.
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

// wasteful returns the machines that may go, the most wasteful first.
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

// waste is by how much the node is dearer than what its pods request at the best rate,
// in micro-dollars per hour.
func (x *exchanger) waste(n *cluster.Node) float64 {
	used := n.Used()
	cost := func(of packing.Size, price int64) float64 {
		part := max(share(used.MilliCPU, of.MilliCPU), share(used.MemoryBytes, of.MemoryBytes))
		return float64(part * float64(price)) // rounded, so that it is the same on all machines
	}
	least := cost(n.Capacity, n.MicroDollarsPerHour)
	for i := range x.state.Flavors {
		if f := &x.state.Flavors[i]; f.Sells(1) && f.Size.MilliCPU > 0 && f.Size.MemoryBytes > 0 {
			least = min(least, cost(f.Size, f.MicroDollarsPerHour))
		}
	}
	return float64(n.MicroDollarsPerHour) - least
}

// best returns the exchange that gains most, or nil if none pays.
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

// apply makes an offer part of the round.
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
	}
	x.commit(t)
	x.emptied += len(o.set)
	x.candidates = slices.DeleteFunc(x.candidates, func(n *cluster.Node) bool {
		room := x.byName[n.Name]
		return room.leaving || room.target
	})
}
