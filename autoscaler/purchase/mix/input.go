// Package mix finds the cheapest mix of machines that hold items, and a lower bound of the price of any such mix.
//
// An [Item] has an amount of CPU, memory and extended resources. A [Bin] is a kind of machine that can be bought any number of times, and a
// [Room] is free room that costs nothing. [New] collects equal items into kinds and drops bins that no mix needs;
// [Problem.Solve] then searches: it divides prices among CPU, memory, places and extended resources (package lp), fills machines by these
// prices, generates sets of items for machines by a linear program (packages lp and knapsack), and improves what it
// has found by local search. Few items are solved exactly.
//
// The package knows only numbers: callers say which bins admit which items, which items exclude each other, and how many
// may be in one domain. Every function is pure and deterministic, and gives the same answer on any computer.
package mix

import (
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/packing"
)

// Input is what to buy for, and what can be bought.
type Input struct {
	// Items are in the order in which equal ones are served. Each must fit some bin or room.
	Items []Item
	// Bins are in order: by price, and those of one price as ties are broken.
	Bins []Bin
	// Rooms are filled in this order.
	Rooms []Room
	// Classes are the classes of items.
	Classes []Class
	// Domains is set if some class is bound to a domain, or some quota counts.
	Domains bool
	// Quotas are the maximum numbers of items in one domain. They raise the bound of [Least]; mixes ignore them.
	Quotas []Quota
}

// Item is one item to hold.
type Item struct {
	Size packing.Size
	// Paid is how long a machine is billed if this is the item that ends last.
	Paid time.Duration
	// Class is an index among the classes.
	Class int
	// Clique is the number of the clique of the item, or [None]. No machine holds two items of a clique.
	Clique int32
	// Quota is the index of the quota that the item counts to, or [None].
	Quota int32
}

// None is the clique or quota of an item that has none.
const None int32 = -1

// Class is a class of items that the same bins and rooms admit, whatever the sizes.
type Class struct {
	// Anywhere reports whether the bin with this number would admit the items if they were not bound to a domain; nil if
	// they are not. Such items are priced as if they could be in any domain: they are about evenly divided, and the
	// program becomes much smaller.
	Anywhere func(number int) bool
}

// Bin is a kind of machine that can be bought.
type Bin struct {
	// Number identifies the bin for the caller.
	Number int
	Size   packing.Size
	// Places is the maximum number of items; math.MaxInt64 means any number.
	Places int64
	// MicroDollarsPerHour is the price of one machine.
	MicroDollarsPerHour int64
	// Most is how many machines may be bought, at least one; nil means any number.
	Most *int
	// Admits has [Admitted] or [Refused] for each class.
	Admits string
	// Domain is the domain of the machines, for all quotas. A bin replaces others of its own domain only.
	Domain string
}

// Room is free room that costs nothing.
type Room struct {
	Size   packing.Size
	Places int64  // as in Bin
	Admits string // as in Bin
}

const (
	// Admitted says that a bin or room admits a class.
	Admitted = '+'
	// Refused says that it does not.
	Refused = '-'
)

// Quota is a maximum number of items in each domain.
type Quota struct {
	// Most is the maximum by domain, +Inf for any number.
	Most []float64
	// Bins and Rooms are the domains of the bins and rooms of the input, by index.
	Bins, Rooms []int
}

// Bought is one machine to buy.
type Bought struct {
	// Bin is the number of its bin.
	Bin int
	// Items are the indices of its items in the input.
	Items []int
	// Used is the sum of their sizes.
	Used packing.Size
	// Paid is how long the machine is billed.
	Paid time.Duration
}

// Bought returns the machines of a solution: longest billed first, then by bin in the order of the input, then by kinds
// of items. left are the indices of the items without a machine.
func (p *Problem) Bought(s *Solution) (machines []Bought, left []int) {
	s.sort()
	served := make([]int, len(p.kinds))
	for _, m := range s.machines {
		machines = append(machines, Bought{
			Bin: p.offers[m.offer].Number, Items: p.serve(m.kinds, served), Used: m.used, Paid: time.Duration(m.paid),
		})
	}
	for i := range p.kinds {
		of := p.kinds[i].items
		left = append(left, of[len(of)-int(s.waiting[i]):]...)
	}
	return machines, left
}

// serve returns the next items of the kinds, given the number of items served of each.
func (p *Problem) serve(kinds []int32, served []int) []int {
	items := make([]int, len(kinds))
	for i, k := range kinds {
		items[i] = p.kinds[k].items[served[k]]
		served[k]++
	}
	return items
}

// FillRooms returns, by room, the indices of the items that go there: those whose absence makes the machines for the
// others cheapest if exact, which is for at most [ExactItems] items and few rooms, or else those worth the most
// elsewhere.
func (p *Problem) FillRooms(exact bool) [][]int {
	fill := p.fillRooms
	if exact {
		fill = p.exactRooms
	}
	served := make([]int, len(p.kinds))
	var found [][]int
	for _, kinds := range fill() {
		found = append(found, p.serve(kinds, served))
	}
	return found
}

// Items returns the number of items.
func (p *Problem) Items() int { return p.total }

// Preferred returns the numbers of the bins on which all items together are cheapest.
func (p *Problem) Preferred() []int {
	var numbers []int
	for _, at := range p.pricing.preferred {
		numbers = append(numbers, p.offers[at].Number)
	}
	return numbers
}

// sort orders the machines of a solution.
func (s *Solution) sort() {
	for i := range s.machines {
		slices.Sort(s.machines[i].kinds)
	}
	slices.SortFunc(s.machines, compareMachines)
}
