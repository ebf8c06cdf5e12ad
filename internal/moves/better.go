package moves

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/energy/profile"
	"supercargo.dev/supercargo/internal/energy/score"
	"supercargo.dev/supercargo/internal/energy/tariff"
	"supercargo.dev/supercargo/internal/packing"
)

// DefaultGain is a margin to begin with for [BetterConfig].
const DefaultGain = 10

// BetterConfig says which running pods are moved to machines that suit them better.
type BetterConfig struct {
	// Gain is by how many points of the score, of [score.Best], moving must be better than
	// staying; less than 1 counts as 1.
	Gain int64
	// PodResidence is for how long a pod must have been on its node.
	PodResidence time.Duration
	// Budget limits the pods that are on their way at once; its Machines do not matter.
	Budget Budget
	// Risk is how probable it is that a migration fails so that the pod starts from the
	// beginning; 0 is [DefaultRisk], and less than 0 none.
	Risk float64
	// IdleCounts says that a machine without pods could be switched off: what it draws
	// idle counts for the pod that keeps it awake.
	IdleCounts bool
}

// Machines is what is known of the machines and wanted by the pods of a cluster.
type Machines struct {
	// Profiles are by machine type.
	Profiles profile.Set
	// Type returns the machine type of a node, Weight the H of a pod: the weight of energy
	// against runtime, in [0, 1].
	Type   func(*cluster.Node) string
	Weight func(*cluster.Pod) float64
	// Governor returns the CPU governor that a node runs under, empty if that is not known; nil
	// where it is of none.
	Governor func(*cluster.Node) string
	// Price returns what a kWh costs on average where a node is from Now until a moment, in
	// Unit; nil where joules count the same everywhere.
	Price func(n *cluster.Node, until time.Time) tariff.Price
	Unit  tariff.Unit
	// Now tells the age of the profiles.
	Now time.Time
}

// Transfer asks for one pod to be moved to a machine that suits it better.
type Transfer struct {
	// Pod, From and To are names: of the pod, of its node, and of the node it goes to.
	Pod, From, To string
	// Method is how it goes, Takes for how long it is frozen.
	Method cluster.Method
	Takes  time.Duration
	// Score is that of moving, and Stays that of staying, among all that the pod could do.
	Score, Stays int64
	// Joules and Sooner are what the rest of its work is expected to take less, all told;
	// one of them may be below 0.
	Joules float64
	Sooner time.Duration
	// Saves is what that energy is expected to cost less, in the unit of the prices; Priced is
	// false where they are not known, or do not count.
	Saves  float64
	Priced bool
	// Reason says it in words.
	Reason string
}

// Better says which running batch pods to move to machines where the rest of their work
// takes less energy or time, as HEATS does every x seconds (Rocha et al., PDP 2019, section
// III, algorithm 1).
//
// What a pod could do, staying included, is compared by [score.Rank], as where it starts
// is. On another machine the rest of its work takes as much longer as that machine is slower
// by the profiles. A migration freezes it and keeps its room on both machines
// meanwhile, as if it ran there; at Risk, all it did is done again. A restart does all of it
// again. It is moved if that scores better than staying by Gain: so it repays what the move
// takes, in energy and in time, by the weights that its owner gave them.
//
// Where prices are known, what energy costs in the zone of a machine counts in its place, on
// average over the time that the pod still has to run where it is; while it moves, what the
// energy costs of the machine that it leaves. Where energy only becomes cheaper later than it
// is where the pod runs, it is soon enough to move then.
//
// The state of a pod continues only on its architecture; one that may be started anew goes to
// any. Pods that move take their room from the others, the greatest gain first, ties by
// name; of the nodes of a kind the fullest takes the pod. What is promised to others is not
// there. Pods and machines of which nothing is known stay out of it, and so do nodes that
// are being emptied.
//
// Cost: O(p·n) for p pods that may be moved and n nodes.
func Better(c BetterConfig, m Machines, s *cluster.State) []Transfer {
	b := &improvement{
		round:        newRound(Config{PodResidence: c.PodResidence, Worthwhile: true, Risk: c.Risk, Budget: c.Budget, Method: cluster.Migrate}, s),
		BetterConfig: c, Machines: m,
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
	*round
	BetterConfig
	Machines
}

// candidate is a pod that may be moved, and what it gains by that.
type candidate struct {
	pod  cluster.Pod
	from *room
	way  cluster.Method
	gain int64
}

// candidates returns the pods that gain enough by a move as things are.
func (b *improvement) candidates() (all []candidate) {
	for _, from := range b.rooms {
		for i := range from.node.Pods {
			c := candidate{pod: from.node.Pods[i], from: from}
			if c.way = b.wayOf(&c.pod); c.way == cluster.Wait {
				continue
			}
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

// wayOf is how a pod may be moved; Wait if it may not.
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

// spot is the fullest node of a kind that could take a pod.
type spot struct {
	machineType, governor string
	idle                  bool
	price                 tariff.Price
	to                    *room
	option                score.Option
}

// alike reports whether two spots are of a kind.
func (s *spot) alike(other *spot) bool {
	return s.machineType == other.machineType && s.governor == other.governor && s.idle == other.idle && s.price == other.price
}

// best returns the best move of a pod, and where it goes; nil if it had better stay.
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
	t.Reason = fmt.Sprintf("%s scores %d on a machine of type %s, which takes %s and %v for the rest, and %d where it is, of type %s, which takes %s and %v",
		c.pod.Name, t.Score, to.machineType, b.text(&options[at]), seconds(options[at].Runtime.Value),
		t.Stays, b.Type(c.from.node), b.text(&options[0]), seconds(options[0].Runtime.Value))
	return t, to.to
}

// text writes the energy of an option, and what it costs if that is known.
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

// cheaperLater reports whether energy is dearer on a node now than where the pod is, and only
// on average cheaper.
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

// spots returns where a pod could go, one node for each kind of which something is known,
// in the order of the nodes.
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

// scaled is an option for as much of the work as takes so many seconds by it.
func scaled(o score.Option, runs float64) score.Option {
	o.Energy.Value *= runs / o.Runtime.Value
	o.Runtime.Value = runs
	return o
}

// moved is what the rest of a pod's work takes if it moves.
func (b *improvement) moved(c *candidate, here, there score.Option) score.Option {
	frozen, rest, done := b.frozenFor(c).Seconds(), b.end(&c.pod).Seconds(), c.pod.Ran.Seconds()
	if c.way == cluster.Migrate {
		done *= b.risk
	}
	slower := there.Runtime.Value / here.Runtime.Value
	o := scaled(there, (rest+done)*slower+frozen)
	o.Before, o.BeforePrice = scaled(here, frozen).Joules(), here.Price // the old machine waits as well
	o.Energy.Trust, o.Runtime.Trust = min(o.Energy.Trust, here.Energy.Trust), min(o.Runtime.Trust, here.Runtime.Trust)
	return o
}

// frozenFor is for how long the pod is frozen.
func (b *improvement) frozenFor(c *candidate) time.Duration {
	if c.way == cluster.Migrate {
		return b.state.Migration.Time(c.pod.Size.MemoryBytes)
	}
	return 0
}

// take gives a pod its room. What it leaves is not there for others before it has gone.
func (b *improvement) take(c *candidate, to *room) {
	to.Free = to.Free.Minus(c.pod.Size)
	to.pods++
	c.from.pods--
	b.rules.remove(&c.pod, c.from.at)
	b.rules.place(&c.pod, to.at)
	b.rules.commit()
	b.budget.pods++
}
