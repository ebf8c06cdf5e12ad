package decide

import (
	"fmt"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// Deferral is what a fleet decides about pods that wait for longer than a machine bought now
// would take: room comes free for them, and that is expected to cost less.
type Deferral struct {
	// Pods are their names, ordered.
	Pods []string
	// BuyNow is what is expected to be paid, in micro-dollars, until all machines are empty that
	// would be bought if no pod waited. Wait is what is expected for those that are bought all the
	// same, and for the time by which machines that are there are empty later.
	BuyNow, Wait int64
	// Room is after how long the last of the pods is expected to find room, Until after how long
	// a machine is bought for the first of them at the latest.
	Room, Until time.Duration
}

// Saves returns what is expected to be saved, in micro-dollars.
func (d *Deferral) Saves() int64 { return d.BuyNow - d.Wait }

// Reason says in words what is compared.
func (d *Deferral) Reason() string {
	return fmt.Sprintf("%d pods wait for room that comes free: until all machines are empty again that is expected to cost $%s, and $%s if machines were bought now",
		len(d.Pods), dollars.Format(d.Wait), dollars.Format(d.BuyNow))
}

// leftToWait is for how much longer a pod may wait for room that comes free: until it has waited
// for MaxWait and the time that a machine takes. Once a machine has been ordered for it, it may wait
// for twice as long as a machine takes beyond that and as the scheduler may take to bind it, after the next for four times more, and so on:
// where a cluster cannot keep up, more machines for a pod that waits do not help it.
func (o *FleetOptions) leftToWait(s *cluster.State, p *cluster.Pod) time.Duration {
	return max(0, o.mostToWait(s, p)-o.waited(p))
}

// waited is for how long a pod has waited since the first decision about it, in which a machine could
// have been bought for it.
func (o *FleetOptions) waited(p *cluster.Pod) time.Duration {
	if o.Decided == nil {
		return max(p.Waited, 0)
	}
	return o.Decided[p.Name]
}

// mostToWait is for how long a pod may wait for room that comes free, from the beginning.
func (o *FleetOptions) mostToWait(s *cluster.State, p *cluster.Pod) time.Duration {
	const mostOrders = 10
	lag := min(max(s.Lag, 0), math.MaxInt64>>(mostOrders+2))
	most := sum(lag, max(o.MaxWait, 0))
	for orders := min(o.Orders[p.Name], mostOrders); orders > 0; orders-- {
		most = sum(most, lag<<orders+binding)
	}
	return most
}

// inFlight reports whether machines of the fleet are on their way.
func inFlight(s *cluster.State) bool {
	return slices.ContainsFunc(s.Nodes, func(n cluster.Node) bool { return n.Phase == cluster.Ordered && !n.Kept })
}

// patience is for how long a pod may wait before a machine is bought for it whatever room is expected
// to come free: twice as long as otherwise while machines are on their way. These come sooner, and not
// all of their room is for those that they were ordered for.
func (o *FleetOptions) patience(s *cluster.State, p *cluster.Pod, inFlight bool) time.Duration {
	most := o.mostToWait(s, p)
	if inFlight {
		return sum(most, most)
	}
	return most
}

// wakeToBuy decides again as soon as a pod has waited for as long as it may.
func (d *FleetDecision) wakeToBuy(s *cluster.State, o FleetOptions) {
	busy := inFlight(s)
	for i := range s.Pending {
		if p := &s.Pending[i]; !p.Nominated {
			if left := o.patience(s, p, busy) - o.waited(p); left > 0 {
				d.wake(left)
			}
		}
	}
}

// taking is a pod that takes room in a forecast.
type taking struct {
	pod  *cluster.Pod
	node int
	at   time.Duration
}

// playWaiting plays a forecast of pods that wait, and returns it with the room that they take. What
// pods take that only are expected to come is left out.
func playWaiting(alone *cluster.State, ahead time.Duration) (*forecast, []taking) {
	waits := make(map[*cluster.Pod]bool, len(alone.Pending))
	for i := range alone.Pending {
		waits[&alone.Pending[i]] = true
	}
	f := newForecast(alone, ahead, nil)
	var all []taking
	f.note = func(node int, p *cluster.Pod, at time.Duration) {
		if waits[p] {
			all = append(all, taking{p, node, at})
		}
	}
	f.run()
	return f, all
}

// roomWithin is within what time room has to come for a pod that has waited for longer than it may to
// be waited for: half the lag of a machine, which would come later, and the less the longer the pod
// has waited. A pod that is overdue is not expected to end that soon.
func roomWithin(lag, most, waited time.Duration) time.Duration {
	share := 0.5
	if waited > most {
		share *= most.Seconds() / waited.Seconds()
	}
	return time.Duration(share * float64(max(lag, 0)))
}

// outwaited returns the pods that have waited for as long as they may and have room neither soon nor on
// a machine that has been bought: room that is expected later may have been expected all along. A
// machine is bought for them if there is one to buy. So that it is not one for each of them, those
// that have waited for half as long and have no more in prospect are among them, if there are any.
// alone is the state without the pods whose place depends on that of others.
//
// It also returns the pods, by name, that room is expected for at some time.
func outwaited(s, alone *cluster.State, o FleetOptions, now time.Time) (pods []*cluster.Pod, promised map[string]bool) {
	if o.Exhausted != "" {
		return nil, nil
	}
	flavors := onSale(s.Flavors)
	busy := inFlight(s)
	var late, next []*cluster.Pod
	for i := range alone.Pending {
		p := &alone.Pending[i]
		switch most := o.patience(s, p, busy); {
		case p.Nominated || o.waited(p) < most/2 || !buyable(flavors, o.Lessons, p, now):
		case o.waited(p) >= most:
			late = append(late, p)
		default:
			next = append(next, p)
		}
	}
	if len(late) == 0 {
		return nil, nil
	}
	f, takings := playWaiting(alone, untilReady(s))
	soon := map[*cluster.Pod]bool{}
	promised = map[string]bool{}
	for _, t := range takings {
		promised[t.pod.Name] = true
		n := f.nodes[t.node].node
		soon[t.pod] = t.at < roomWithin(s.Lag, o.mostToWait(s, t.pod), o.waited(t.pod)) || n.Phase == cluster.Ordered && t.at <= n.Due
	}
	served := func(p *cluster.Pod) bool { return soon[p] }
	if late = slices.DeleteFunc(late, served); len(late) == 0 {
		return nil, nil
	}
	return append(late, slices.DeleteFunc(next, served)...), promised
}

// without returns the pods that are not among some of them.
func without(pods []cluster.Pod, some []*cluster.Pod) []cluster.Pod {
	if len(some) == 0 {
		return pods
	}
	left := make(map[string]bool, len(some))
	for _, p := range some {
		left[p.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p cluster.Pod) bool { return left[p.Name] })
}

// buyable reports whether a machine of some flavor that may be bought holds a pod.
func buyable(flavors []cluster.Flavor, lessons *Lessons, p *cluster.Pod, now time.Time) bool {
	pod := planner.PodOf(p)
	pod.Except = lessons.Except(p, now)
	return slices.ContainsFunc(flavors, func(f cluster.Flavor) bool { return pod.RefusedBy(&f) == "" })
}

// waitEffort bounds the search for each of the two plans that are compared: while pods wait, they
// are made in every round.
const waitEffort = 400_000

// postpone has pods wait for room that comes free after the end of the forecast f, if that is
// cheaper than machines for them. It returns for which pods to plan, of those of the request.
//
// Both ways are planned: machines for all pods that ask, and for those alone that may not wait for
// as long. What counts is what is paid until all machines are empty. That are the terms of the
// machines that are bought, and for how much longer machines that are there are needed because of
// pods that wait for them. Ties: nothing waits. No pod is left out by waiting that would have had a
// machine.
//
// Cost: that of a forecast, and of two plans of little effort.
func (d *FleetDecision) postpone(s, alone *cluster.State, o FleetOptions, f *forecast, request planner.Request) planner.Request {
	if o.MaxWait <= 0 || len(request.Flavors) == 0 {
		return request
	}
	pending := make(map[*cluster.Pod]bool, len(alone.Pending))
	for i := range alone.Pending {
		pending[&alone.Pending[i]] = true
	}
	left := map[*cluster.Pod]time.Duration{}
	ahead := untilReady(s)
	for _, w := range f.waiting {
		if most := o.leftToWait(s, w.pod); pending[w.pod] && !w.pod.Nominated && most > 0 {
			left[w.pod] = most
			ahead = max(ahead, most)
		}
	}
	if len(left) == 0 || ahead <= f.ahead {
		return request
	}
	longer, takings := playWaiting(alone, ahead)
	quick := request
	quick.Options.Effort = waitEffort
	w := wait{s: s, forecast: longer, takings: takings, waits: map[string]bool{}, rooms: map[int]bool{}}
	finds := slices.ContainsFunc(takings, func(t taking) bool { most, may := left[t.pod]; return may && t.at <= most })
	if !finds {
		return request
	}
	w.now = planner.Supercargo(quick)
	out := namesOut(&w.now)
	for _, t := range takings {
		if most, may := left[t.pod]; may && t.at <= most && !out[t.pod.Name] {
			w.add(t, most)
		}
	}
	if len(w.waits) == 0 {
		return request
	}
	return d.choose(&w, request, quick)
}

// namesOut are the pods that a plan leaves out.
func namesOut(r *planner.Result) map[string]bool {
	out := map[string]bool{}
	for _, u := range r.Unplaceable {
		out[u.Pod] = true
	}
	return out
}

// giveUpLate leaves pods without a word that have waited for too long and get no machine, because
// of limits, if room is going to come free for them all the same.
func (d *FleetDecision) giveUpLate(late []*cluster.Pod, promised map[string]bool) {
	names := make(map[string]bool, len(late))
	for _, p := range late {
		names[p.Name] = promised[p.Name]
	}
	before := len(d.Plan.Unplaceable)
	d.Plan.Unplaceable = slices.DeleteFunc(d.Plan.Unplaceable, func(u planner.Unplaceable) bool { return names[u.Pod] })
	served := before - len(d.Plan.Unplaceable)
	d.Asked, d.Served = d.Asked-served, d.Served+served
}

// wait is one way of having pods wait for room that comes free.
type wait struct {
	s        *cluster.State
	forecast *forecast // of the room
	takings  []taking  // of pods that wait now
	now      planner.Result
	waits    map[string]bool
	rooms    map[int]bool // the nodes of the forecast that they go to
	room     time.Duration
	until    time.Duration
}

func (w *wait) add(t taking, most time.Duration) {
	if len(w.waits) == 0 {
		w.until = most
	}
	w.waits[t.pod.Name], w.rooms[t.node] = true, true
	w.room, w.until = max(w.room, t.at), min(w.until, most)
}

// choose takes the cheaper way, and returns for which pods to plan.
func (d *FleetDecision) choose(w *wait, request, quick planner.Request) planner.Request {
	now, _ := Total(termsOfPlan(w.s, &w.now.Plan))
	extra := w.longer()
	if extra >= now {
		return request
	}
	later := planner.Supercargo(w.less(quick))
	left := namesOut(&w.now)
	then, _ := Total(termsOfPlan(w.s, &later.Plan))
	then = sum(then, extra)
	if then >= now || slices.ContainsFunc(later.Unplaceable, func(u planner.Unplaceable) bool { return !left[u.Pod] }) {
		return request
	}
	d.Deferral = &Deferral{BuyNow: now, Wait: then, Room: w.room, Until: w.until}
	for name := range w.waits {
		d.Deferral.Pods = append(d.Deferral.Pods, name)
	}
	slices.Sort(d.Deferral.Pods)
	for _, t := range w.takings {
		if w.waits[t.pod.Name] && foreignOrder(w.forecast.nodes[t.node].node) {
			d.elsewhere[t.pod.Name] = true
		}
	}
	d.Asked -= len(w.waits)
	return w.less(request)
}

// less is a request for the pods alone that do not wait. They leave the nodes that the others go to.
func (w *wait) less(request planner.Request) planner.Request {
	request.Pods = slices.DeleteFunc(slices.Clone(request.Pods), func(p planner.Pod) bool { return w.waits[p.Name] })
	taken := map[string]bool{}
	for at := range w.rooms {
		taken[w.forecast.nodes[at].node.Name] = true
	}
	request.Nodes = slices.Clone(request.Nodes)
	for i := range request.Nodes {
		if n := &request.Nodes[i]; taken[n.Name] {
			n.Places = new(int64(0))
		}
	}
	return request
}

// longer is how much more is paid for the nodes that pods wait for, because these are needed
// until the pods have ended.
func (w *wait) longer() int64 {
	var total int64
	for at := range w.rooms {
		n := w.forecast.nodes[at].node
		var without, with time.Duration
		for i := range n.Pods {
			without = max(without, w.ends(&n.Pods[i], 0))
		}
		for _, t := range w.takings {
			if t.node != at {
				continue
			}
			if end := w.ends(t.pod, t.at); w.waits[t.pod.Name] {
				with = max(with, end)
			} else {
				without = max(without, end)
			}
		}
		total = sum(total, max(0, w.bill(n, max(with, without))-w.bill(n, without)))
	}
	return total
}

// ends is when a pod is expected to have ended that starts at a time: one that is not expected
// to end, after as long as purchases are compared for.
func (w *wait) ends(p *cluster.Pod, at time.Duration) time.Duration {
	switch {
	case p.Class == class.Service || p.Guessed:
		return sum(at, planner.DefaultUnbounded)
	case p.Runtime <= 0: // overdue
		return sum(at, w.forecast.ahead/2)
	}
	return sum(at, p.Runtime)
}

// bill is what a node costs that is needed for so long from now.
func (w *wait) bill(n *cluster.Node, needed time.Duration) int64 {
	const longest = math.MaxInt64 / 2 // so that it can be rounded up
	held := min(sum(sum(needed, max(n.Age, 0)), max(w.s.Release, 0)), longest)
	return cluster.Bill(max(n.MicroDollarsPerHour, 0), held, max(w.s.BillingPeriod, 0))
}
