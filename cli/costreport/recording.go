package costreport

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/plural"
)

// OfRecording divides what the nodes of a recording cost in its period over the namespaces of the pods on them: at each
// moment as [OfCluster], each node from its arrival to its departure, regardless of its billing period. Own prices, by flavor,
// apply to nodes whose price was not recorded. A recording has no labels.
//
// Cost: O(rows · log rows), and for each pod that starts or ends, the number of pods on its node.
func OfRecording(from *trace.Recording, own []catalogue.Price) *Report {
	begin, end := from.Span()
	r, a := &Report{By: By{}.String(), From: new(since1970(begin)), To: new(since1970(end))}, newAccount()
	on, lost := podsByNode(from, begin, end)
	unpriced := map[Unpriced]bool{}
	for _, n := range nodesOf(from, own) {
		n.pods = on[n.id]
		if flavor := n.unpriced(); flavor != "" {
			unpriced[Unpriced{n.states[0].name, "the recording has no price of flavor " + flavor}] = true
			continue
		}
		r.Nodes++
		n.charge(a, begin, end)
		for i := range n.pods {
			a.pods[n.pods[i].group]++
		}
	}
	r.Unpriced = slices.SortedFunc(maps.Keys(unpriced), func(x, y Unpriced) int { return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.Reason, y.Reason)) })
	if lost > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s left out, because the recording has no node for %s.", plural.Count(lost, "pod")+plural.Form(lost, " is", " are"), plural.Form(lost, "it", "them")))
	}
	a.report(r, sum)
	return r
}

// since1970 returns the time of a row.
func since1970(d time.Duration) time.Time { return time.Unix(0, int64(d)).UTC() }

// node is a node of a recording.
type node struct {
	id string
	// states are its states, by time; there is at least one. gone is when it was removed; 0 if it was not.
	states []nodeState
	gone   time.Duration
	pods   []stay
}

// nodeState is the state of a node from a time on. price is in micro-dollars per hour; nil if unknown.
type nodeState struct {
	from         time.Duration
	name, flavor string
	whole        packing.Size
	price        *int64
}

// stay is the time of a pod on a node.
type stay struct {
	from, to time.Duration
	id       string
	ask
}

// nodesOf returns the nodes of a recording, by ID.
func nodesOf(from *trace.Recording, own []catalogue.Price) []*node {
	prices := make(map[string]*int64, len(own))
	for i := range own {
		prices[own[i].Name] = &own[i].MicroDollarsPerHour
	}
	byID := map[string]*node{}
	for i := range from.Rows {
		row := &from.Rows[i]
		n := byID[row.ID]
		switch {
		case row.Event == trace.EventNode:
			if n == nil {
				n = &node{id: row.ID}
				byID[row.ID] = n
			}
			n.states = append(n.states, nodeState{
				row.Time, row.Name, row.Flavor, packing.Size{MilliCPU: row.MilliCPU, MemoryBytes: row.MemoryBytes}, cmp.Or(row.MicroDollarsPerHour, prices[row.Flavor]),
			})
			n.gone = 0 // it exists after all
		case row.Event == trace.EventGone && n != nil:
			n.gone = row.Time
		}
	}
	all := slices.Collect(maps.Values(byID))
	for _, n := range all {
		slices.SortStableFunc(n.states, func(x, y nodeState) int { return cmp.Compare(x.from, y.from) })
	}
	slices.SortFunc(all, func(x, y *node) int { return cmp.Compare(x.id, y.id) })
	return all
}

// podsByNode returns the pods on each node, by ID, and the number of those that ran on a node that the recording does not
// have. Pods that ended before the recording began are left out.
func podsByNode(from *trace.Recording, begin, end time.Duration) (on map[string][]stay, lost int) {
	nodes := map[string]bool{}
	for i := range from.Rows {
		if from.Rows[i].Event == trace.EventNode {
			nodes[from.Rows[i].ID] = true
		}
	}
	on = map[string][]stay{}
	for _, p := range from.Pods() {
		s := stay{from: p.Started, to: cmp.Or(p.Ended, end), id: p.ID, ask: ask{p.Namespace, packing.Size{MilliCPU: p.MilliCPU, MemoryBytes: p.MemoryBytes}}}
		at := p.Node
		if p.Event == trace.EventDaemon {
			s.from, at = cmp.Or(p.Started, p.Time), cmp.Or(p.Node, p.Row.Node)
		}
		switch {
		case s.from == 0 || s.to <= begin || s.to < s.from: // it never ran, or not in this time
		case !nodes[at]:
			lost++
		default:
			on[at] = append(on[at], s)
		}
	}
	return on, lost
}

// unpriced returns the flavor of a node while its price was unknown, or "".
func (n *node) unpriced() string {
	for i := range n.states {
		if n.states[i].price == nil {
			return cmp.Or(n.states[i].flavor, "(unknown)")
		}
	}
	return ""
}

// charge adds what the node costs between two times.
func (n *node) charge(to *account, begin, end time.Duration) {
	if n.gone > 0 {
		end = min(end, n.gone)
	}
	moments := []time.Duration{max(begin, n.states[0].from), end}
	for i := range n.states {
		moments = append(moments, n.states[i].from)
	}
	for i := range n.pods {
		moments = append(moments, n.pods[i].from, n.pods[i].to)
	}
	slices.Sort(moments)
	moments = slices.Compact(moments)
	slices.SortFunc(n.pods, func(x, y stay) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.id, y.id)) })
	var there []stay
	next, state := 0, 0
	for i, at := range moments {
		for state+1 < len(n.states) && n.states[state+1].from <= at {
			state++
		}
		there = slices.DeleteFunc(there, func(s stay) bool { return s.to <= at })
		for ; next < len(n.pods) && n.pods[next].from <= at; next++ {
			if n.pods[next].to > at {
				there = append(there, n.pods[next])
			}
		}
		if i+1 == len(moments) || at < max(begin, n.states[0].from) || at >= end {
			continue
		}
		asks := make([]ask, len(there))
		for j := range there {
			asks[j] = there[j].ask
		}
		hours := (min(moments[i+1], end) - at).Hours()
		to.charge(float64(*n.states[state].price)*hours, sharesOf(n.states[state].whole, asks))
	}
}
