// Package bill attributes a cluster's energy and its cost: joules, dollars and grams of CO2 by namespace, workload and
// machine type, measured and modelled separately.
//
// It is pure: observations and tariffs are arguments. A property test checks that the parts always add up to the whole.
package bill

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/tariff"
)

// Node is the energy use of a node in a period.
type Node struct {
	Name string
	// MachineType and Zone are empty if unknown.
	MachineType, Zone string
	// Cores is the allocatable CPU; 0 if unknown.
	Cores float64
	// Energy is the energy that the node used.
	Energy energy.Usage
}

// Pod is the CPU use of a pod on a node in a period.
type Pod struct {
	Namespace, Name string
	// Workload is the name of the Deployment, Job or other owner of the pod.
	Workload string
	Node     string
	// Requested is the number of requested cores, averaged over the period: half of the request for a pod that existed
	// half of the time.
	Requested float64
	// Used is the number of used cores, averaged likewise; nil if unknown.
	Used *float64
}

// Slice is a period with the observations of the cluster in it.
type Slice struct {
	From, To time.Time
	Nodes    []Node
	Pods     []Pod
}

// Amount is energy and its cost.
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

// times returns a share of the amount.
func (a Amount) times(share float64) Amount {
	return Amount{Joules: a.Joules * energy.Joules(share), Dollars: a.Dollars * share, Grams: a.Grams * share}
}

// Cost is the energy use of something, measured and modelled separately.
type Cost struct {
	Measured, Modelled Amount
	// Dynamic is the part of both that is caused by load; the rest is idle power.
	Dynamic energy.Joules
}

// Total returns the sum of measured and modelled.
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

// Key identifies a row of the bill. Fields that a table does not use are empty.
type Key struct{ Namespace, Workload, MachineType string }

// Row is one line of a table.
type Row struct {
	Key
	Cost
}

// Bill is the attribution of a cluster's energy.
type Bill struct {
	From, To time.Time
	Total    Cost
	// Unallocated is what no pod is charged for: the idle power of capacity that no pod requested, and all energy of
	// nodes without pods. It is included in ByMachineType and Total, but not in ByNamespace and ByWorkload.
	Unallocated Cost
	// ByNamespace, ByWorkload and ByMachineType are sorted by energy, descending, then by name.
	ByNamespace, ByWorkload, ByMachineType []Row
	// Covered and Gaps are the node-hours for which the power is known and unknown.
	Covered, Gaps time.Duration
	// PricedShare and CarbonShare are the shares of the energy, 0 to 1, for which the tariffs have values.
	PricedShare, CarbonShare float64
	// Powerless is the number of pods on nodes with unknown power. They are not billed.
	Powerless int
	// Idle is the assumed idle power of each node.
	Idle map[string]energy.Watts
}

// Tariffs are the tariffs of energy.
type Tariffs struct {
	// Price is in dollars per kWh, Carbon in grams of CO2 equivalent per kWh.
	Price, Carbon tariff.Tariff
}

// Make bills the observations. idle returns the idle power of a machine type, and false if it is unknown.
//
// The energy of a node in a slice has two parts. Idle energy is its idle power times the time for which its power is
// known, but at most the total; the rest is dynamic.
//
//   - Dynamic energy is charged to the node's pods in proportion to the CPU time that they used. A pod whose use is unknown
//     counts with its request. The pods thereby share the use of the system itself in the same proportion.
//   - Idle energy is charged to the pods in proportion to their requests, relative to the allocatable CPU of the node or all
//     requests, whichever is more. A pod therefore pays for the room that it reserves, busy or not, and room that no pod
//     requested is unallocated.
//   - Energy of nodes on which no pod used or requested CPU is unallocated.
//
// The idle power of a node is its least mean power in any slice, or what idle returns if that is less: a node that was
// never idle still has idle power. Measured and modelled energy are shared alike. Tariffs assume even use within a
// slice.
//
// Cost: O(n log n) for n nodes and pods of all slices.
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

// maker accumulates a bill.
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

// cost returns the cost of a node's energy in a slice.
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

// part returns a share of the cost with the given dynamic energy.
func (c Cost) part(share float64, dynamic energy.Joules) Cost {
	return Cost{Measured: c.Measured.times(share), Modelled: c.Modelled.times(share), Dynamic: dynamic}
}

// load returns the used cores of the pod, or its request if unknown.
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

// rows sorts a table.
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
