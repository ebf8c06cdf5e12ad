package moves

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

// DefaultGain is a reasonable Gain for [TransferConfig].
const DefaultGain = 10

// TransferConfig configures which running pods are moved to machines that suit them better.
type TransferConfig struct {
	// Gain is by how many points of the score, out of [score.Best], moving must be better than staying. Values less
	// than 1 count as 1.
	Gain int64
	// PodResidence is how long a pod must have been on its node.
	PodResidence time.Duration
	// Budget limits the number of pods on their way at once. Its Machines are ignored.
	Budget Budget
	// Risk is the probability that a migration fails, so that the pod starts from the beginning. 0 means [DefaultRisk],
	// a negative value means none.
	Risk float64
	// IdleCounts means that a machine without pods could be switched off. Its idle power then counts for the pod that
	// keeps it on.
	IdleCounts bool
}

// Machines holds what is known about the machines and the preferences of the pods of a cluster.
type Machines struct {
	// Profiles are the energy profiles by machine type.
	Profiles profile.Set
	// Type returns the machine type of a node. Weight returns the weight H of a pod: that of energy against runtime, in
	// [0, 1].
	Type   func(*cluster.Node) string
	Weight func(*cluster.Pod) float64
	// Governor returns the CPU governor of a node, empty if unknown. The function may be nil.
	Governor func(*cluster.Node) string
	// Price returns the average price of a kWh at a node from Now until the given time, in Unit. If it is nil, energy
	// itself is compared.
	Price func(n *cluster.Node, until time.Time) tariff.Price
	Unit  tariff.Unit
	// Now determines the age of the profiles.
	Now time.Time
}

// Transfer requests that one pod be moved to a machine that suits it better.
type Transfer struct {
	// Pod, From and To are the names of the pod, its node and the target node.
	Pod, From, To string
	// Method is how the pod moves, Takes how long it is frozen.
	Method cluster.Method
	Takes  time.Duration
	// Score and Stays are the scores of moving and of staying among all options of the pod.
	Score, Stays int64
	// Joules and Sooner are the expected total savings of energy and time over the pod's remaining work. One of them
	// may be negative.
	Joules float64
	Sooner time.Duration
	// Saves is the expected saving of energy cost, in the unit of the prices. Priced is false if prices are unknown or
	// not used.
	Saves  float64
	Priced bool
	// Reason is a human-readable reason.
	Reason string
}

// Better returns the running batch pods to move to machines where their remaining work takes less energy or time, as
// HEATS does every x seconds (Rocha et al., PDP 2019, section III, algorithm 1).
//
// [score.Rank] compares the options of a pod, including staying, as it does for the initial placement. By the profiles,
// the remaining work takes longer on a slower machine. A migration freezes the pod, which occupies room on both
// machines meanwhile as if it ran there; with probability Risk, all completed work is repeated. A restart repeats all
// completed work. The pod is moved if the score of moving exceeds that of staying by Gain. The move therefore pays for
// its own energy and time, by the weights that the owner set.
//
// If prices are known, the cost of energy in the zone of a machine counts instead of the energy. It is averaged over
// the remaining time of the pod on its current machine; during the move, the price at the old machine applies. If the
// energy at the target is more expensive now and only cheaper on average, the pod is not moved yet.
//
// A pod that keeps its state stays on its architecture; a pod that restarts may go to any. Pods reserve room in order
// of descending gain, ties by name; of equal nodes, the fullest takes the pod. Reserved room is not available. Pods and
// machines about which nothing is known are not considered, nor are nodes that are being drained.
//
// Cost: O(p·n) for p movable pods and n nodes.
func Better(c TransferConfig, m Machines, s *cluster.State) []Transfer {
	b := &improvement{
		planning:       newPlanning(DrainConfig{PodResidence: c.PodResidence, Worthwhile: true, Risk: c.Risk, Budget: c.Budget, Method: cluster.Migrate}, s),
		TransferConfig: c, Machines: m,
	}
	all := b.candidates()
	slices.SortStableFunc(all, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(y.gain, x.gain), cmp.Compare(x.pod.Name, y.pod.Name))
	})
	var transfers []Transfer
	for i := range all {
		if !b.budget.allows(1) {
			break
		}
		if t, to := b.best(&all[i]); to != nil {
			b.take(&all[i], to)
			transfers = append(transfers, t)
		}
	}
	return transfers
}

// improvement is one round of [Better].
type improvement struct {
	*planning
	TransferConfig
	Machines
}

// candidate is a pod that may be moved, and its gain.
type candidate struct {
	pod  cluster.Pod
	from *room
	way  cluster.Method
	gain int64
}

// candidates returns the pods that currently gain enough by a move.
func (b *improvement) candidates() (all []candidate) {
	for _, from := range b.rooms {
		for i := range from.node.Pods {
			c := candidate{pod: from.node.Pods[i], from: from}
			if c.way = b.wayOf(&c.pod); c.way == cluster.Wait {
				continue
			}
			c.pod = c.pod.Elsewhere()
			if c.way == cluster.Migrate && c.pod.Arch == "" {
				c.pod.Arch = from.node.Arch
			}
			if t, to := b.best(&c); to != nil {
				c.gain = t.Score - t.Stays
				all = append(all, c)
			}
		}
	}
	return all
}

// wayOf returns how a pod may be moved, or Wait if it may not.
func (b *improvement) wayOf(p *cluster.Pod) cluster.Method {
	switch w := b.ways(p); {
	case p.Class != class.Batch:
		return cluster.Wait
	case w.Has(cluster.Migrate):
		return cluster.Migrate
	case w.Has(cluster.Evict):
		return cluster.Evict
	default:
		return cluster.Wait
	}
}

// spot is the fullest node of a kind that has room for a pod.
type spot struct {
	machineType, governor string
	idle                  bool
	price                 tariff.Price
	to                    *room
	option                score.Option
}

// alike reports whether two spots are of one kind.
func (s *spot) alike(other *spot) bool {
	return s.machineType == other.machineType && s.governor == other.governor && s.idle == other.idle && s.price == other.price
}

// best returns the best move of a pod and its target, or nil if the pod should stay.
func (b *improvement) best(c *candidate) (Transfer, *room) {
	rest, here := b.end(&c.pod), b.predict(c, c.from.node, b.IdleCounts && c.from.pods == 1)
	if !here.Known || rest <= 0 {
		return Transfer{}, nil
	}
	spots := b.spots(c, here)
	options := make([]score.Option, 1, len(spots)+1)
	options[0] = scaled(here, rest.Seconds())
	for i := range spots {
		options = append(options, spots[i].option)
	}
	results := make([]score.Result, len(options))
	score.Rank(b.Weight(&c.pod), options, results)
	at := 0
	for i := 1; i < len(results); i++ {
		if r := results[i]; !r.Neutral && (at == 0 || r.Score > results[at].Score || r.Score == results[at].Score && spots[i-1].to.Name < spots[at-1].to.Name) {
			at = i
		}
	}
	if at == 0 || results[0].Neutral || results[at].Score-results[0].Score < max(b.Gain, 1) {
		return Transfer{}, nil
	}
	to := spots[at-1]
	t := Transfer{
		Pod: c.pod.Name, From: c.from.Name, To: to.to.Name, Method: c.way, Takes: b.frozenFor(c), Score: results[at].Score, Stays: results[0].Score,
		Joules: float64(options[0].Joules() - options[at].Joules()), Sooner: seconds(options[0].Runtime.Value - options[at].Runtime.Value),
	}
	stays, staysKnown := options[0].Cost()
	goes, goesKnown := options[at].Cost()
	if t.Priced = staysKnown && goesKnown; t.Priced {
		t.Saves = stays - goes
	}
	t.Reason = fmt.Sprintf("%s scores %d on a machine of type %s, with %s and %v for the remaining work, and %d on its current machine of type %s, with %s and %v",
		c.pod.Name, t.Score, to.machineType, b.text(&options[at]), seconds(options[at].Runtime.Value),
		t.Stays, b.Type(c.from.node), b.text(&options[0]), seconds(options[0].Runtime.Value))
	return t, to.to
}

// text formats the energy of an option, and its cost if known.
func (b *improvement) text(o *score.Option) string {
	text := fmt.Sprintf("%.0f J", o.Joules())
	if cost, known := o.Cost(); known {
		text += " for " + b.Unit.Format(cost)
	}
	return text
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

func (b *improvement) predict(c *candidate, on *cluster.Node, idle bool) score.Option {
	size := profile.Size{MilliCPU: c.pod.Size.MilliCPU, MemoryBytes: c.pod.Size.MemoryBytes}
	o := score.Predict(b.Profiles[b.Type(on)], b.governor(on), size, idle, b.Now)
	o.Price = b.price(c, on)
	return o
}

func (b *improvement) governor(of *cluster.Node) string {
	if b.Governor == nil {
		return ""
	}
	return b.Governor(of)
}

// cheaperLater reports whether energy at a node is more expensive now than at the pod's node, but cheaper on average.
func (b *improvement) cheaperLater(c *candidate, on *cluster.Node) bool {
	if b.Price == nil {
		return false
	}
	here, there := b.Price(c.from.node, b.Now), b.Price(on, b.Now)
	return here.Known && there.Known && there.PerKWh > here.PerKWh && b.price(c, on).PerKWh < b.price(c, c.from.node).PerKWh
}

func (b *improvement) price(c *candidate, on *cluster.Node) tariff.Price {
	if b.Price == nil {
		return tariff.Price{}
	}
	return b.Price(on, b.Now.Add(b.end(&c.pod)))
}

// spots returns the possible targets of a pod, one node of each kind with a known profile, in the order of the nodes.
func (b *improvement) spots(c *candidate, here score.Option) []spot {
	var all []spot
	b.rules.remove(&c.pod, c.from.at)
	defer b.rules.rollback()
	for _, to := range b.rooms {
		if to == c.from || !to.holds(&c.pod) || !b.rules.suits(&c.pod, to) || b.rules.conflict(&c.pod, to.at) != "" || b.cheaperLater(c, to.node) {
			continue
		}
		of := spot{machineType: b.Type(to.node), governor: b.governor(to.node), idle: b.IdleCounts && to.pods == 0, price: b.price(c, to.node)}
		at := slices.IndexFunc(all, func(p spot) bool { return p.alike(&of) })
		if at >= 0 {
			if packing.CompareFit(to.Node, all[at].to.Node) < 0 {
				all[at].to = to
			}
			continue
		}
		if there := b.predict(c, to.node, of.idle); there.Known {
			of.to, of.option = to, b.moved(c, here, there)
			all = append(all, of)
		}
	}
	return all
}

// scaled scales an option to the amount of work that takes the given number of seconds.
func scaled(o score.Option, runs float64) score.Option {
	o.Energy.Value *= runs / o.Runtime.Value
	o.Runtime.Value = runs
	return o
}

// moved returns the option that a pod moves for its remaining work.
func (b *improvement) moved(c *candidate, here, there score.Option) score.Option {
	frozen, rest, done := b.frozenFor(c).Seconds(), b.end(&c.pod).Seconds(), c.pod.Ran.Seconds()
	if c.way == cluster.Migrate {
		done *= b.risk
	}
	slower := there.Runtime.Value / here.Runtime.Value
	o := scaled(there, (rest+done)*slower+frozen)
	o.Before, o.BeforePrice = scaled(here, frozen).Joules(), here.Price // the old machine is occupied too
	o.Energy.Trust, o.Runtime.Trust = min(o.Energy.Trust, here.Energy.Trust), min(o.Runtime.Trust, here.Runtime.Trust)
	return o
}

// frozenFor returns how long the pod is frozen.
func (b *improvement) frozenFor(c *candidate) time.Duration {
	if c.way == cluster.Migrate {
		return b.state.Migration.Time(c.pod.Size.MemoryBytes)
	}
	return 0
}

// take reserves room for a pod. The room that the pod leaves is not available until it has left.
func (b *improvement) take(c *candidate, to *room) {
	to.Free = to.Free.Minus(c.pod.Size)
	to.pods++
	c.from.pods--
	b.targets.touch(to)
	b.rules.remove(&c.pod, c.from.at)
	b.rules.place(&c.pod, to.at)
	b.rules.commit()
	b.budget.pods++
}
