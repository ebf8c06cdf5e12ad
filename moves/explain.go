package moves

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/text/plural"
)

// mostKept is the maximum number of nodes that [Planner.Plan] explains.
const mostKept = 100

// kept returns the nodes that stay although they are under-used, least utilised first, ties by name.
func (p *Planner) kept(now time.Time, r *planning) []cluster.Stay {
	if r.why == nil {
		return nil
	}
	var all []cluster.Stay
	used := map[string]float64{}
	for i := range r.state.Nodes {
		n := &r.state.Nodes[i]
		u := p.config.Utilization(n)
		if n.Phase != cluster.Ready || len(n.Pods) > 0 && u >= p.config.threshold(n) || r.byName[n.Name].leaving {
			continue
		}
		used[n.Name] = u
		all = append(all, cluster.Stay{Node: n.Name, Reason: cmp.Or(r.why[n.Name], p.untried(now, n))})
	}
	slices.SortStableFunc(all, func(a, b cluster.Stay) int { return cmp.Compare(used[a.Node], used[b.Node]) })
	return all[:min(len(all), mostKept)]
}

// untried returns the reason why an under-used node is not a candidate.
func (p *Planner) untried(now time.Time, n *cluster.Node) string {
	lasted := now.Sub(p.since[n.Name])
	switch {
	case n.Kept:
		return cmp.Or(n.KeptFor, "it must be kept")
	case n.Incoming > 0:
		return fmt.Sprintf("%s %s moving to it", plural.Count(n.Incoming, "pod"), plural.Form(n.Incoming, "is", "are"))
	case lasted < p.config.after(n):
		return fmt.Sprintf("under-used for %v, less than the required %v", lasted.Round(time.Second), p.config.after(n))
	default:
		return "pods are pending, or were until recently"
	}
}

// note records why a node stays.
func (r *planning) note(n *cluster.Node, format string, args ...any) {
	if r.why != nil {
		r.why[n.Name] = fmt.Sprintf(format, args...)
	}
}

// notePrice records what draining a node would save and cost at best, in cents or with as many digits as are needed to
// distinguish the two.
func (r *planning) notePrice(n *cluster.Node, best *choice) {
	if r.why == nil {
		return
	}
	saves, costs := best.saves, best.costs
	digits := 2
	for digits < 6 && saves != costs && dollars(saves, digits) == dollars(costs, digits) {
		digits++
	}
	moving := ""
	if waiting := len(n.Pods) - len(best.methods); waiting > 0 {
		moving = fmt.Sprintf(" by moving %s and waiting for %d", plural.Count(len(best.methods), "pod"), waiting)
	}
	margin := ""
	if saves > costs {
		margin = fmt.Sprintf(", which is less than %.0f%% of the remaining cost of the node", 100*r.config.Margin)
	}
	r.note(n, "would save %s for %s%s%s", dollars(saves, digits), dollars(costs, digits), moving, margin)
}

func dollars(microDollars int64, digits int) string {
	if microDollars < 0 {
		return "-" + dollars(-microDollars, digits)
	}
	return fmt.Sprintf("$%.*f", digits, float64(microDollars)/1e6)
}

// noteNowhere records how many pods of a node find no place when all leave together, and what the other nodes lack for the first of them.
func (t *trial) noteNowhere(n *cluster.Node) {
	if t.why == nil {
		return
	}
	if len(t.left) == 0 {
		t.note(n, "its pods fit on other nodes one by one, but not together")
		return
	}
	pod := &t.left[0]
	full, unsuitable, refusals, refusal := 0, 0, 0, ""
	for _, to := range t.rooms {
		if !to.accepts() {
			continue
		}
		if !t.rules.suits(pod, to) {
			unsuitable++
		} else if !to.holds(pod) {
			full++
		} else if why := t.rules.conflict(pod, to.at); why != "" {
			refusals++
			refusal = cmp.Or(refusal, why)
		}
	}
	var lacks []string
	if full > 0 {
		lacks = append(lacks, fmt.Sprintf("%d without room", full))
	}
	if unsuitable > 0 {
		lacks = append(lacks, fmt.Sprintf("%d unsuitable", unsuitable))
	}
	if refusals > 0 {
		lacks = append(lacks, fmt.Sprintf("%d ruled out by %s", refusals, refusal))
	}
	others := ""
	if len(lacks) > 0 {
		others = ": of the nodes open to " + pod.Name + ", " + strings.Join(lacks, ", ")
	}
	after := ""
	if len(t.left) < len(n.Pods) { // each may fit alone
		after = " once the others have moved"
	}
	t.note(n, "%s %s on no other node%s%s", plural.Part(len(t.left), len(n.Pods), "pod"), plural.Form(len(t.left), "fits", "fit"), after, others)
}
