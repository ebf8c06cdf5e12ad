package decide

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
)

// Rejected is a flavor that was not chosen.
type Rejected struct {
	Flavor, Reason string
}

// Unplaceable is a category with tasks that no worker holds.
type Unplaceable struct {
	Category string
	Need     estimate.Resources
	// Tasks is how many of them wait.
	Tasks int
	// Reason says what is too large.
	Reason string
}

// bid is what a flavor would cost.
type bid struct {
	flavor  *Flavor
	holds   int // tasks that a worker of it holds
	workers int // that hold all those at once
	cost    float64
}

// choose returns the flavor with the least cost per finished task, and why not the others:
// of those that hold the most of the waiting tasks, that whose workers for all of these at
// once cost least in an hour. A task is taken to run equally long on each, so that this is
// the cost for each task too. Where prices are not known, cores stand in their place, and a
// flavor with a price comes before. Ties go to the flavor that comes first.
//
// The tasks are asked for by the size of the worker, since some take all that it has. It
// returns nil if no flavor can be had.
func choose(flavors []Flavor, waiting func(worker estimate.Resources) []estimate.Batch) (best *Flavor, others []Rejected) {
	var bids []bid
	for i := range flavors {
		f := &flavors[i]
		if f.Trouble != "" {
			others = append(others, Rejected{f.Name, f.Trouble})
			continue
		}
		bids = append(bids, bidOf(f, waiting(f.Worker)))
	}
	if len(bids) == 0 {
		return nil, others
	}
	slices.SortStableFunc(bids, func(a, b bid) int {
		return cmp.Or(cmp.Compare(b.holds, a.holds), priced(a, b), cmp.Compare(a.cost, b.cost))
	})
	for _, b := range bids[1:] {
		others = append(others, Rejected{b.flavor.Name, "costs " + b.describe() + ", and " + bids[0].flavor.Name + " " + bids[0].describe()})
	}
	return bids[0].flavor, others
}

func bidOf(f *Flavor, waiting []estimate.Batch) bid {
	b := bid{flavor: f}
	b.workers, _ = estimate.Require(waiting, f.Worker, math.MaxInt)
	for i := range waiting {
		if waiting[i].Need.Fits(f.Worker) {
			b.holds += waiting[i].Count
		}
	}
	each := f.MicroDollarsPerHour
	if each == 0 {
		each = f.Worker.MilliCores
	}
	b.cost = float64(max(1, b.workers)) * float64(each)
	return b
}

// priced puts flavors with a price first.
func priced(a, b bid) int {
	unknown := func(b bid) int {
		if b.flavor.MicroDollarsPerHour == 0 {
			return 1
		}
		return 0
	}
	return unknown(a) - unknown(b)
}

func (b *bid) describe() string {
	unit, cost := "$%.4f/h", float64(b.cost/1e6)
	if b.flavor.MicroDollarsPerHour == 0 {
		unit, cost = "%.1f cores", float64(b.cost/1000)
	}
	return fmt.Sprintf(unit+" for %d tasks on %d workers", cost, b.holds, max(1, b.workers))
}

// setAside takes the tasks out of the queue that neither a flavor, be it one that cannot be
// had now, nor a worker that is there holds, and names their categories.
func setAside(c *Config, s *estimate.State) (aside []Unplaceable) {
	sizes := sizesOf(c, s)
	tooLargeForAll := func(b estimate.Batch) bool {
		for _, size := range sizes {
			if b.Need.Fits(size) {
				return false
			}
		}
		return true
	}
	if !slices.ContainsFunc(s.Waiting, tooLargeForAll) {
		return nil
	}
	s.Waiting = slices.DeleteFunc(slices.Clone(s.Waiting), func(b estimate.Batch) bool {
		if !tooLargeForAll(b) {
			return false
		}
		k := slices.IndexFunc(aside, func(u Unplaceable) bool { return u.Category == b.Category })
		if k < 0 {
			k = len(aside)
			aside = append(aside, Unplaceable{Category: b.Category, Need: b.Need, Reason: tooLarge(b.Need, sizes)})
		}
		aside[k].Tasks += b.Count
		return true
	})
	return aside
}

// sizesOf are the sizes that workers have or can be made as, each once.
func sizesOf(c *Config, s *estimate.State) (sizes []estimate.Resources) {
	add := func(size estimate.Resources) {
		if !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	for i := range c.Flavors {
		if c.Flavors[i].Worker.MilliCores > 0 {
			add(c.Flavors[i].Worker)
		}
	}
	for i := range s.Workers {
		if !s.Workers[i].Draining {
			add(s.Workers[i].Capacity)
		}
	}
	return sizes
}

// tooLarge says what of a need none of the sizes has, or that none has all of it.
func tooLarge(n estimate.Resources, sizes []estimate.Resources) string {
	if len(sizes) == 0 {
		return "no flavor can be had"
	}
	var most estimate.Resources
	for _, s := range sizes {
		most = estimate.Resources{
			MilliCores: max(most.MilliCores, s.MilliCores), MemoryBytes: max(most.MemoryBytes, s.MemoryBytes),
			DiskBytes: max(most.DiskBytes, s.DiskBytes), GPUs: max(most.GPUs, s.GPUs),
		}
	}
	var what []string
	if n.MilliCores > most.MilliCores {
		what = append(what, fmt.Sprintf("%g cores, the largest worker has %g", float64(n.MilliCores)/1000, float64(most.MilliCores)/1000))
	}
	if n.MemoryBytes > most.MemoryBytes {
		what = append(what, fmt.Sprintf("%d MiB of memory, the largest worker has %d", n.MemoryBytes>>20, most.MemoryBytes>>20))
	}
	if n.DiskBytes > most.DiskBytes {
		what = append(what, fmt.Sprintf("%d MiB of disk, the largest worker has %d", n.DiskBytes>>20, most.DiskBytes>>20))
	}
	if n.GPUs > most.GPUs {
		what = append(what, fmt.Sprintf("%d GPUs, the largest worker has %d", n.GPUs, most.GPUs))
	}
	if len(what) == 0 {
		return "no worker has all that it needs together"
	}
	return "needs " + strings.Join(what, ", ")
}
