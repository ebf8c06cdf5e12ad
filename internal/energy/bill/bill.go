// Package bill says who used a cluster's energy, and what it cost: joules, dollars and
// grams of CO2 by namespace, workload and machine type, measured and modelled apart.
//
// It is pure: observations and tariffs are arguments. The parts always add up to the
// whole, which a property test holds it to.
package bill

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/energy/tariff"
)

// Node is what a node used within a slice of time.
type Node struct {
	Name string
	// MachineType and Zone may be empty: nobody knows.
	MachineType, Zone string
	// Cores is what the node offers to pods; 0 if nobody knows.
	Cores float64
	// Energy is what it used.
	Energy energy.Usage
}

// Pod is what a pod had of a node within a slice of time.
type Pod struct {
	Namespace, Name string
	// Workload is what the pod is one of: the Deployment, Job or other owner by name.
	Workload string
	Node     string
	// Requested is how many cores it requested, averaged over the slice: half of them
	// for a pod that was there half of the time.
	Requested float64
	// Used is how many cores it kept busy, likewise; nil where nobody knows.
	Used *float64
}

// Slice is a stretch of time with what was seen of the cluster.
type Slice struct {
	From, To time.Time
	Nodes    []Node
	Pods     []Pod
}

// Amount is energy and what it cost.
type Amount struct {
	Joules  energy.Joules
	Dollars float64
	Grams   float64 // of CO2 equivalent
}

func (a *Amount) add(b Amount) {
	a.Joules += b.Joules
	a.Dollars += b.Dollars
	a.Grams += b.Grams
}

// times returns a part of the amount.
func (a Amount) times(share float64) Amount {
	return Amount{Joules: a.Joules * energy.Joules(share), Dollars: a.Dollars * share, Grams: a.Grams * share}
}

// Cost is what something used, measured and modelled apart.
type Cost struct {
	Measured, Modelled Amount
	// Dynamic is the part of both that load caused; the rest is idle power.
	Dynamic energy.Joules
}

// Total returns measured and modelled together.
func (c Cost) Total() Amount {
	sum := c.Measured
	sum.add(c.Modelled)
	return sum
}

func (c *Cost) add(d Cost) {
	c.Measured.add(d.Measured)
	c.Modelled.add(d.Modelled)
	c.Dynamic += d.Dynamic
}

// Key is what a row of the bill is about. What is not asked for by a table is empty.
type Key struct{ Namespace, Workload, MachineType string }

// Row is one line of a table.
type Row struct {
	Key
	Cost
}

// Bill is who used what.
type Bill struct {
	From, To time.Time
	Total    Cost
	// Unallocated is what no pod is charged for: the idle power of capacity that no pod
	// requested, and all that nodes without pods used. It is no part of ByNamespace and
	// ByWorkload, and part of ByMachineType and Total.
	Unallocated Cost
	// ByNamespace, ByWorkload and ByMachineType are by energy, greatest first, then by
	// name.
	ByNamespace, ByWorkload, ByMachineType []Row
	// Covered and Gaps are the node-hours of which the power is known, and not known.
	Covered, Gaps time.Duration
	// PricedShare and CarbonShare are the parts of the energy, 0 to 1, for which the
	// tariffs have values.
	PricedShare, CarbonShare float64
	// Powerless is how many pods ran on nodes whose power is not known: they are not
	// billed.
	Powerless int
	// Idle is the idle power of each node that was assumed.
	Idle map[string]energy.Watts
}

// Tariffs are what energy costs.
type Tariffs struct {
	// Price is in dollars per kWh, Carbon in grams of CO2 equivalent per kWh.
	Price, Carbon tariff.Tariff
}

// Make bills what was seen. idle returns the idle power of a machine type, and false if
// it is not known.
//
// The energy of a node in a slice has two parts. Idle energy is its idle power for as
// long as its power was known, but no more than all there was; the rest is dynamic.
//
//   - Dynamic energy goes to the node's pods by the CPU time that they used. A pod whose
//     use nobody knows counts with its request. What the system itself used is thereby
//     shared by the pods in the same proportion.
//   - Idle energy goes to the pods by what they requested, out of what the node offers or
//     of all requests, whichever is more. So a pod pays for the room that it keeps, busy or
//     not, and room that nobody asked for is unallocated.
//   - What has nobody to go to, since no pod used or requested CPU there, is unallocated.
//
// The idle power of a node is the least mean power that any slice saw of it, or what idle
// says if that is less: a node that was never idle still has idle power. Measured and
// modelled energy are shared alike. An even use within a slice is assumed for tariffs.
//
// It costs O(n log n) for n nodes and pods of all slices.
func Make(observed []Slice, prices Tariffs, idle func(machineType string) (energy.Watts, bool)) Bill {
	m := maker{
		prices: prices, idle: idleOf(observed, idle),
		powerless: map[[2]string]bool{}, namespaces: map[Key]*Cost{}, workloads: map[Key]*Cost{}, types: map[Key]*Cost{},
	}
	for i := range observed {
		m.slice(&observed[i])
	}
	b := m.bill
	b.Idle, b.Powerless = m.idle, len(m.powerless)
	b.ByNamespace, b.ByWorkload, b.ByMachineType = rows(m.namespaces), rows(m.workloads), rows(m.types)
	if joules := b.Total.Total().Joules; joules > 0 {
		b.PricedShare, b.CarbonShare = m.priced/float64(joules), m.counted/float64(joules)
	}
	return b
}

// idleOf returns the idle power of each node.
func idleOf(observed []Slice, known func(string) (energy.Watts, bool)) map[string]energy.Watts {
	least := map[string]energy.Watts{}
	for _, s := range observed {
		for _, n := range s.Nodes {
			if n.Energy.Covered <= 0 {
				continue
			}
			mean := energy.Watts(float64(n.Energy.Total()) / n.Energy.Covered.Seconds())
			if w, ok := known(n.MachineType); ok {
				mean = min(mean, w)
			}
			if w, seen := least[n.Name]; !seen || mean < w {
				least[n.Name] = mean
			}
		}
	}
	return least
}

// maker adds a bill up.
type maker struct {
	prices                       Tariffs
	idle                         map[string]energy.Watts
	bill                         Bill
	namespaces, workloads, types map[Key]*Cost
	priced, counted              float64 // joules for which the tariffs have values
	powerless                    map[[2]string]bool
}

func (m *maker) slice(s *Slice) {
	if m.bill.From.IsZero() || s.From.Before(m.bill.From) {
		m.bill.From = s.From
	}
	if s.To.After(m.bill.To) {
		m.bill.To = s.To
	}
	pods := map[string][]Pod{}
	for _, p := range s.Pods {
		pods[p.Node] = append(pods[p.Node], p)
	}
	for _, n := range s.Nodes {
		m.bill.Covered += n.Energy.Covered
		m.bill.Gaps += n.Energy.Gaps
		cost := m.cost(n, s)
		m.bill.Total.add(cost)
		into(m.types, Key{MachineType: n.MachineType}, cost)
		m.share(n, cost, pods[n.Name])
		if n.Energy.Covered > 0 {
			delete(pods, n.Name)
		}
	}
	for _, stranded := range pods {
		for _, p := range stranded {
			m.powerless[[2]string{p.Namespace, p.Name}] = true
		}
	}
}

// cost returns what a node's energy of a slice cost.
func (m *maker) cost(n Node, s *Slice) Cost {
	of := func(j energy.Joules) Amount {
		dollars, priced := m.prices.Price.Of(j, n.Zone, s.From, s.To)
		grams, counted := m.prices.Carbon.Of(j, n.Zone, s.From, s.To)
		m.priced += priced * float64(j)
		m.counted += counted * float64(j)
		return Amount{Joules: j, Dollars: dollars, Grams: grams}
	}
	c := Cost{Measured: of(n.Energy.Measured), Modelled: of(n.Energy.Modelled)}
	still := energy.Joules(float64(m.idle[n.Name]) * n.Energy.Covered.Seconds())
	c.Dynamic = max(0, n.Energy.Total()-still)
	return c
}

// share charges a node's cost to its pods.
func (m *maker) share(n Node, cost Cost, pods []Pod) {
	total := float64(cost.Total().Joules)
	if total <= 0 {
		return
	}
	requested, busy := 0.0, 0.0
	for _, p := range pods {
		requested += p.Requested
		busy += p.load()
	}
	room := max(n.Cores, requested)
	var charged, chargedDynamic float64 // joules
	for _, p := range pods {
		var dynamic, idle float64 // joules
		if busy > 0 {
			dynamic = float64(cost.Dynamic) * p.load() / busy
		}
		if room > 0 {
			idle = (total - float64(cost.Dynamic)) * p.Requested / room
		}
		part := cost.part((dynamic+idle)/total, energy.Joules(dynamic))
		into(m.namespaces, Key{Namespace: p.Namespace}, part)
		into(m.workloads, Key{Namespace: p.Namespace, Workload: p.Workload}, part)
		charged += dynamic + idle
		chargedDynamic += dynamic
	}
	m.bill.Unallocated.add(cost.part(max(0, 1-charged/total), max(0, cost.Dynamic-energy.Joules(chargedDynamic))))
}

// part returns a share of the cost, of which so much is dynamic.
func (c Cost) part(share float64, dynamic energy.Joules) Cost {
	return Cost{Measured: c.Measured.times(share), Modelled: c.Modelled.times(share), Dynamic: dynamic}
}

// load is how busy the pod was, as far as anybody knows.
func (p Pod) load() float64 {
	if p.Used != nil {
		return *p.Used
	}
	return p.Requested
}

func into(table map[Key]*Cost, key Key, cost Cost) {
	if table[key] == nil {
		table[key] = &Cost{}
	}
	table[key].add(cost)
}

// rows orders a table.
func rows(table map[Key]*Cost) []Row {
	all := make([]Row, 0, len(table))
	for _, key := range slices.SortedFunc(maps.Keys(table), compareKeys) {
		all = append(all, Row{key, *table[key]})
	}
	slices.SortStableFunc(all, func(a, b Row) int { return -cmp.Compare(a.Total().Joules, b.Total().Joules) })
	return all
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.MachineType, b.MachineType))
}
