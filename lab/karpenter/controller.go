package karpenter

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// Karpenter's intervals.
const (
	// retry is the time after which a pod that is still pending is planned again.
	retry = 10 * time.Second
	// poll is the time between two rounds of consolidation that find nothing.
	poll = 10 * time.Second
	// validation is the time from a decision to remove nodes until it is validated and carried out.
	validation = 15 * time.Second
	// soon is the minimum time between two rounds.
	soon = time.Second
)

// Settings are the settings of Karpenter that the simulator supports.
type Settings struct {
	// BatchIdle and BatchMax bound the window that batches pending pods. It closes when no pod has become pending for
	// BatchIdle, and at the latest BatchMax after the first.
	BatchIdle, BatchMax time.Duration
	// ConsolidateAfter is the time for which no pod must have come to or left a node before the node may be removed.
	ConsolidateAfter time.Duration
	// BudgetPercent is the percentage of nodes that may be in removal at a time. The number of nodes is rounded up.
	BudgetPercent int
}

// Defaults returns Karpenter's defaults. Its consolidationPolicy is WhenEmptyOrUnderutilized.
func Defaults() Settings {
	return Settings{BatchIdle: time.Second, BatchMax: 10 * time.Second, BudgetPercent: 10}
}

// Controller makes Karpenter's decisions. It keeps the state that Karpenter keeps in memory between two decisions.
type Controller struct {
	settings Settings
	window   window
	// nominated is the time until which each node is expected to receive pods, by name. Such nodes are not removed.
	nominated map[string]time.Time
	// changed is the time of the last observed change of each node's pods, and pods are the names of its pods then.
	changed map[string]time.Time
	pods    map[string][]string

	// next is the time of the next round of consolidation. decided is the command that this round carries out if it is
	// still valid, or nil.
	next    time.Time
	decided *command
	// replacing are the removals that wait for a replacement.
	replacing []*replacing
}

// replacing is the removal of nodes that wait for a replacement.
type replacing struct {
	nodes []string
	// by is the name of the replacement, or empty until it is observed: the first node that is not in known.
	by    string
	known map[string]bool
	why   string
}

// New returns the controller of one run.
func New(s Settings) *Controller {
	return &Controller{
		settings: s, window: window{idle: s.BatchIdle, most: s.BatchMax, again: retry},
		nominated: map[string]time.Time{}, changed: map[string]time.Time{}, pods: map[string][]string{},
	}
}

// Decide returns the purchases and removals at a time. It buys only machines for pending pods and machines that replace
// more expensive ones. A second call at the same time decides nothing more. now must not decrease.
//
// Cost: O(n) for n nodes and pending pods, plus one [Solve] when the window closes. A round of consolidation adds one
// [Solve] for each under-used node, and O(log n) for several nodes together.
func (c *Controller) Decide(now time.Time, s *cluster.State) cluster.Plan {
	c.observe(now, s)
	plan := cluster.Plan{Drains: c.replaced(s)}
	closes, wait := c.window.observe(now, s.Pending)
	plan.Wake = wait
	if closes {
		plan.Buy = c.provision(now, s)
	}
	if len(plan.Buy)+len(plan.Drains) > 0 {
		plan.Wake = soon // consolidation must see the result
		return plan
	}
	c.consolidate(now, s, &plan)
	return plan
}

// observe updates the state of the controller about nodes.
func (c *Controller) observe(now time.Time, s *cluster.State) {
	there := make(map[string]bool, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		there[n.Name] = true
		if n.Phase == cluster.Ordered {
			continue
		}
		names := make([]string, len(n.Pods))
		for j := range n.Pods {
			names[j] = n.Pods[j].Name
		}
		if before, known := c.pods[n.Name]; !known || !slices.Equal(before, names) {
			c.pods[n.Name], c.changed[n.Name] = names, now
		}
	}
	for name := range c.pods {
		if !there[name] {
			delete(c.pods, name)
			delete(c.changed, name)
		}
	}
	for name, until := range c.nominated {
		if !there[name] || !until.After(now) {
			delete(c.nominated, name)
		}
	}
	for _, r := range c.replacing {
		for i := range s.Nodes {
			if name := s.Nodes[i].Name; r.by == "" && !r.known[name] {
				r.by = name
			}
		}
	}
}

// replaced returns the drains of nodes whose replacement is ready.
func (c *Controller) replaced(s *cluster.State) []cluster.Drain {
	var drains []cluster.Drain
	c.replacing = slices.DeleteFunc(c.replacing, func(r *replacing) bool {
		at := slices.IndexFunc(s.Nodes, func(n cluster.Node) bool { return n.Name == r.by })
		if at < 0 || s.Nodes[at].Phase == cluster.Ordered {
			return false
		}
		for _, name := range r.nodes {
			drains = append(drains, cluster.Drain{Node: name, Method: cluster.Evict, Reason: r.why})
		}
		return true
	})
	return drains
}

// provision returns the machines to buy for waiting pods, and nominates the nodes on which waiting pods fit.
func (c *Controller) provision(now time.Time, s *cluster.State) []cluster.Purchase {
	solution := Solve(waiting(s), s.Nodes, s.Flavors, max(0, s.MaxNodes-len(s.Nodes)))
	for _, node := range solution.Nodes {
		c.nominated[node] = now.Add(max(2*c.settings.BatchMax, retry))
	}
	var all []cluster.Purchase
	for _, claim := range solution.Claims {
		names := make([]string, len(claim.Pods))
		for i := range claim.Pods {
			names[i] = claim.Pods[i].Name
		}
		slices.Sort(names)
		all = append(all, purchase(claim.Flavors, names, fmt.Sprintf("%d waiting pods fit", len(names))))
	}
	return all
}

// purchase returns the purchase of the cheapest of the flavors.
func purchase(flavors []*cluster.Flavor, pods []string, why string) cluster.Purchase {
	return cluster.Purchase{
		Flavor: flavors[0].Name, Class: class.Any, Pods: pods,
		Reason: fmt.Sprintf("%s, the cheapest of %d flavors", why, len(flavors)),
	}
}

// waiting returns the pods that need a node: pending pods, and pods on nodes that are being removed.
func waiting(s *cluster.State) []cluster.Pod {
	all := slices.Clone(s.Pending)
	for i := range s.Nodes {
		if s.Nodes[i].Phase == cluster.Leaving {
			all = append(all, s.Nodes[i].Pods...)
		}
	}
	return all
}

// consolidate adds removals to the plan if a round is due. It carries out a decision after [validation] if the decision
// is still valid. Otherwise the later methods decide.
func (c *Controller) consolidate(now time.Time, s *cluster.State, plan *cluster.Plan) {
	if wait := c.untilNext(now); wait > 0 {
		wakeBy(plan, wait)
		return
	}
	v, first := c.view(now, s), emptiness
	if d := c.decided; d != nil {
		c.decided, first = nil, d.method+1
		if d = v.holds(d); d != nil {
			c.carryOut(d, s, plan)
			c.next = now.Add(soon)
			wakeBy(plan, soon)
			return
		}
	}
	for m := first; m < methods; m++ {
		if c.decided = v.find(m); c.decided != nil {
			c.next = now.Add(validation)
			wakeBy(plan, validation)
			return
		}
	}
	c.next = now.Add(poll)
	if at := c.expires(now); !at.IsZero() {
		wakeBy(plan, max(poll, at.Sub(now)))
	}
}

// untilNext returns the time until the next round. Rounds that find nothing are repeated after multiples of [poll].
// Rounds are skipped while Decide is not called, because nothing can have changed.
func (c *Controller) untilNext(now time.Time) time.Duration {
	if c.next.IsZero() {
		c.next = now
	}
	late := now.Sub(c.next)
	if since := late % poll; late >= soon && since >= soon && c.decided == nil {
		return poll - since
	}
	return max(0, -late)
}

// expires returns the next time at which a node that may not be removed now may be removed, if no pod comes or leaves.
// It returns the zero time if there is none.
func (c *Controller) expires(now time.Time) time.Time {
	var at time.Time
	for _, until := range c.nominated {
		at = earlier(at, until)
	}
	for _, changed := range c.changed {
		if until := changed.Add(c.settings.ConsolidateAfter); until.After(now) {
			at = earlier(at, until)
		}
	}
	return at
}

// view returns the cluster as consolidation sees it. The candidates are the Ready nodes that are not nominated, that have
// no pod that must not be disrupted, and whose pods have not changed for ConsolidateAfter.
func (c *Controller) view(now time.Time, s *cluster.State) *view {
	v := &view{rooms: roomsOf(s.Nodes), flavors: byPrice(s.Flavors), waiting: waiting(s), most: max(0, s.MaxNodes-len(s.Nodes))}
	nodes, leaving := 0, 0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		switch n.Phase {
		case cluster.Leaving:
			leaving++
			nodes++
			continue
		case cluster.Ready:
			nodes++
		case cluster.Ordered, cluster.Asleep:
			continue
		}
		_, nominated := c.nominated[n.Name]
		changing := now.Sub(c.changed[n.Name]) < c.settings.ConsolidateAfter
		stays := slices.ContainsFunc(n.Pods, func(p cluster.Pod) bool { return p.Fixed })
		switch {
		case nominated, changing, stays:
		case len(n.Pods) == 0:
			v.empty = append(v.empty, n)
		default:
			v.used = append(v.used, n)
		}
	}
	v.budget = max(0, (nodes*c.settings.BudgetPercent+99)/100-leaving)
	slices.SortFunc(v.empty, preferred)
	slices.SortFunc(v.used, preferred)
	return v
}

// carryOut adds a command to the plan. Nodes that wait for a replacement are only cordoned until it is ready.
func (c *Controller) carryOut(d *command, s *cluster.State, plan *cluster.Plan) {
	names := d.names()
	if d.method == emptiness {
		for _, name := range names {
			plan.Release = append(plan.Release, cluster.Release{Node: name, Reason: "it is empty"})
		}
		return
	}
	drain := cluster.Drain{Method: cluster.Evict, Reason: "its pods fit on other nodes"}
	if len(d.flavors) > 0 {
		plan.Buy = append(plan.Buy, purchase(d.flavors, nil, fmt.Sprintf("replaces %s at a lower price", strings.Join(names, ", "))))
		drain = cluster.Drain{Method: cluster.Wait, CordonOnly: true, Reason: "a machine of flavor " + d.flavors[0].Name + " replaces it at a lower price"}
		r := &replacing{nodes: names, known: map[string]bool{}, why: drain.Reason}
		for i := range s.Nodes {
			r.known[s.Nodes[i].Name] = true
		}
		c.replacing = append(c.replacing, r)
	}
	for _, name := range names {
		drain.Node = name
		plan.Drains = append(plan.Drains, drain)
	}
}

// wakeBy schedules the next decision after a wait, or earlier if the plan already has an earlier one.
func wakeBy(plan *cluster.Plan, wait time.Duration) {
	if plan.Wake == 0 || wait < plan.Wake {
		plan.Wake = wait
	}
}
