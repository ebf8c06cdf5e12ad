package fleetdecide

import (
	"fmt"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Deferral is the decision that pods wait longer than a machine bought now would take, because room becomes free for
// them and that is expected to cost less.
type Deferral struct {
	// Pods are the names of the pods, ordered.
	Pods []string
	// BuyNow is the expected cost, in micro-dollars, until all machines are empty that would be bought if no pod
	// waited. Wait is the expected cost of the machines that are bought anyway, plus that of existing machines for the
	// time by which they become empty later.
	BuyNow, Wait int64
	// Room is the time until the last of the pods is expected to find room. Until is the time after which a machine is
	// bought for the first of them at the latest.
	Room, Until time.Duration
}

// Saves returns the expected saving in micro-dollars.
func (d *Deferral) Saves() int64 { return d.BuyNow - d.Wait }

// Reason describes the comparison.
func (d *Deferral) Reason() string {
	return fmt.Sprintf("%s %s for room that becomes free: the expected cost until all machines are empty again is $%s, and $%s if machines were bought now",
		plural.Count(len(d.Pods), "pod"), plural.Form(len(d.Pods), "waits", "wait"), dollars.Format(d.Wait), dollars.Format(d.BuyNow))
}

// leftToWait returns how much longer a pod may wait for room that becomes free: until it has waited for MaxWait plus
// the lag of a machine. The first machine ordered for it adds twice the lag and the time to bind it, the next one four
// times the lag, and so on: in a cluster that cannot keep up, more machines for a pending pod do not help it.
func (o *FleetOptions) leftToWait(s *cluster.State, p *cluster.Pod) time.Duration {
	return max(0, o.mostToWait(s, p)-o.waited(p))
}

// waited returns how long a pod has waited since the first decision about it, which could have bought a machine for it.
func (o *FleetOptions) waited(p *cluster.Pod) time.Duration {
	if o.Decided == nil {
		return max(p.Waited, 0)
	}
	return o.Decided[p.Name]
}

// mostToWait returns how long a pod may wait for room that becomes free, from the beginning.
func (o *FleetOptions) mostToWait(s *cluster.State, p *cluster.Pod) time.Duration {
	const mostOrders = 10
	lag := min(max(s.Lag, 0), math.MaxInt64>>(mostOrders+2))
	most := sum(lag, max(o.MaxWait, 0))
	for orders := min(o.Orders[p.Name], mostOrders); orders > 0; orders-- {
		most = sum(most, lag<<orders+binding)
	}
	return most
}

// inFlight reports whether machines of the fleet are on order.
func inFlight(s *cluster.State) bool {
	return slices.ContainsFunc(s.Nodes, func(n cluster.Node) bool { return n.Phase == cluster.Ordered && !n.Kept })
}

// patience returns how long a pod may wait before a machine is bought for it regardless of expected room: twice as long
// as otherwise while machines are on order. These come sooner, and not all of their room is for the pods that they were
// ordered for.
func (o *FleetOptions) patience(s *cluster.State, p *cluster.Pod, inFlight bool) time.Duration {
	most := o.mostToWait(s, p)
	if inFlight {
		return sum(most, most)
	}
	return most
}

// wakeToBuy decides again as soon as a pod has used up its patience, and when a deferral ends.
func (d *FleetDecision) wakeToBuy(s *cluster.State, o FleetOptions) {
	if d.Deferral != nil {
		d.wake(d.Deferral.Until)
	}
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

// playWaiting runs a forecast of the pending pods, and returns it with the room that they take. It leaves out the room
// that expected pods take.
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

// roomWithin returns how soon room must become free for a pod that has used up its patience to wait on: half the lag of
// a machine, which would come later, and less the longer the pod has waited. An overdue pod is not expected to end that
// soon.
func roomWithin(lag, most, waited time.Duration) time.Duration {
	share := 0.5
	if waited > most {
		share *= most.Seconds() / waited.Seconds()
	}
	return time.Duration(share * float64(max(lag, 0)))
}

// outwaited returns the pods that have used up their patience and have room neither soon nor on a machine that has been
// bought: the later room may have been expected all along. A machine is bought for them if one is for sale. To avoid
// one purchase for each of them, the result, unless it is empty, includes pods that have used up half of their patience
// and have no better prospects. alone is the state without the pods whose placement depends on other pods.
//
// It also returns the names of the pods for which room is expected at any time.
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

// without returns pods except some.
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

// buyable reports whether a machine of some flavor holds a pod.
func buyable(flavors []cluster.Flavor, lessons *Lessons, p *cluster.Pod, now time.Time) bool {
	pod := purchase.PodOf(p)
	pod.Except = lessons.Except(p, now)
	return slices.ContainsFunc(flavors, func(f cluster.Flavor) bool { return pod.RefusedBy(&f) == "" })
}

// waitEffort bounds the search for each of the two compared plans. They are made in every round while pods are pending.
const waitEffort = 400_000

// postpone lets pods wait for room that becomes free after the end of the forecast f, if that is cheaper than machines
// for them. It returns the request for the pods that do not wait.
//
// It plans both alternatives: machines for all pods of the request, and machines only for those that may not wait. It
// compares the cost until all machines are empty: the terms of the bought machines, plus the additional time for which
// pods that wait occupy existing machines. On a tie, no pod waits. Waiting never leaves out a pod that would have had a
// machine otherwise.
//
// Cost: that of a forecast and of two plans of little effort.
func (d *FleetDecision) postpone(s, alone *cluster.State, o FleetOptions, f *forecast, request purchase.Request) purchase.Request {
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
	w.now = purchase.Supercargo(quick)
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

// namesOut returns the names of the pods that a plan leaves out.
func namesOut(r *purchase.Result) map[string]bool {
	out := map[string]bool{}
	for _, u := range r.Unplaceable {
		out[u.Pod] = true
	}
	return out
}

// giveUpLate removes, without a report, the pods that waited too long and get no machine because of limits, if room
// will become free for them anyway.
func (d *FleetDecision) giveUpLate(late []*cluster.Pod, promised map[string]bool) {
	names := make(map[string]bool, len(late))
	for _, p := range late {
		names[p.Name] = promised[p.Name]
	}
	before := len(d.Plan.Unplaceable)
	d.Plan.Unplaceable = slices.DeleteFunc(d.Plan.Unplaceable, func(u purchase.Unplaceable) bool { return names[u.Pod] })
	served := before - len(d.Plan.Unplaceable)
	d.Asked, d.Served = d.Asked-served, d.Served+served
}

// wait is one choice of pods that wait for room that becomes free.
type wait struct {
	s        *cluster.State
	forecast *forecast // of the room
	takings  []taking  // of pods that are pending now
	now      purchase.Result
	waits    map[string]bool
	rooms    map[int]bool // indices of the nodes of the forecast that they go to
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

// choose takes the cheaper alternative, and returns the request for it.
func (d *FleetDecision) choose(w *wait, request, quick purchase.Request) purchase.Request {
	now, _ := Total(termsOfPlan(w.s, &w.now.Plan))
	extra := w.longer()
	if extra >= now {
		return request
	}
	later := purchase.Supercargo(w.less(quick))
	left := namesOut(&w.now)
	then, _ := Total(termsOfPlan(w.s, &later.Plan))
	then = sum(then, extra)
	if then >= now || slices.ContainsFunc(later.Unplaceable, func(u purchase.Unplaceable) bool { return !left[u.Pod] }) {
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

// less returns a request without the pods that wait. The nodes that these go to accept no others.
func (w *wait) less(request purchase.Request) purchase.Request {
	request.Pods = slices.DeleteFunc(slices.Clone(request.Pods), func(p purchase.Pod) bool { return w.waits[p.Name] })
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

// longer returns the additional cost of the nodes that pods wait for, which are needed until those pods have ended.
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

// ends returns when a pod that starts at a time is expected to end. A pod that is not expected to end counts with the
// time over which purchases are compared.
func (w *wait) ends(p *cluster.Pod, at time.Duration) time.Duration {
	switch {
	case p.Class == class.Service || p.Guessed:
		return sum(at, purchase.DefaultUnbounded)
	case p.Runtime <= 0: // overdue
		return sum(at, w.forecast.ahead/2)
	}
	return sum(at, p.Runtime)
}

// bill returns the cost of a node that is needed for a time from now.
func (w *wait) bill(n *cluster.Node, needed time.Duration) int64 {
	const longest = math.MaxInt64 / 2 // so that it can be rounded up
	held := min(sum(sum(needed, max(n.Age, 0)), max(w.s.Release, 0)), longest)
	return cluster.Bill(max(n.MicroDollarsPerHour, 0), held, max(w.s.BillingPeriod, 0))
}
