package workerdecide

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Rejected is a flavor that was not chosen.
type Rejected struct {
	Flavor, Reason string
}

// Unplaceable is the tasks of a category that fit no worker for the same reason.
type Unplaceable struct {
	Category string
	Need     estimate.Resources
	// Tasks is the number of such tasks that wait.
	Tasks int
	// Reason names the resource that is too large.
	Reason string
}

// bid is the cost of a flavor.
type bid struct {
	flavor  *Flavor
	holds   int // waiting tasks that fit a worker of the flavor
	workers int // number that holds all of them concurrently
	cost    float64
}

// choose returns the flavor with the lowest cost per finished task, and why the others were rejected: of the flavors
// that fit the most waiting tasks, the one whose workers for all of these concurrently have the lowest cost per hour.
// Tasks are assumed to run equally long on each flavor, so this also compares the cost per task. If prices are not
// known, cores are compared instead, after all flavors with a price. Ties go to the first flavor.
//
// waiting returns the tasks for a size of worker, since some tasks take a whole worker. choose returns nil if no flavor
// is available.
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
		others = append(others, Rejected{b.flavor.Name, b.describe() + "; " + bids[0].flavor.Name + ": " + bids[0].describe()})
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

// priced sorts flavors with a price first.
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
	cost := fmt.Sprintf("$%.4f/h", b.cost/1e6)
	if b.flavor.MicroDollarsPerHour == 0 {
		cost = coresOf(int64(b.cost)) + " of unknown price"
	}
	return fmt.Sprintf("%s for %s on %s", cost, plural.Count(b.holds, "task"), plural.Count(max(1, b.workers), "worker"))
}

// setAside removes the tasks from the queue that fit neither a flavor, including unavailable ones, nor a present
// worker. It returns them by category and reason.
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
		reason := tooLarge(b.Need, sizes)
		k := slices.IndexFunc(aside, func(u Unplaceable) bool { return u.Category == b.Category && u.Reason == reason })
		if k < 0 {
			k = len(aside)
			aside = append(aside, Unplaceable{Category: b.Category, Need: b.Need, Reason: reason})
		}
		aside[k].Tasks += b.Count
		return true
	})
	return aside
}

// sizesOf returns the distinct sizes of present and possible workers.
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

// tooLarge names the resources of which no size has enough; if there is none, it reports that no size has enough of
// all.
func tooLarge(n estimate.Resources, sizes []estimate.Resources) string {
	if len(sizes) == 0 {
		return "no flavor is available"
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
		what = append(what, fmt.Sprintf("%s, but the largest worker has %g", coresOf(n.MilliCores), float64(most.MilliCores)/1000))
	}
	if n.MemoryBytes > most.MemoryBytes {
		what = append(what, fmt.Sprintf("%d MiB of memory, but the largest worker has %d", n.MemoryBytes>>20, most.MemoryBytes>>20))
	}
	if n.DiskBytes > most.DiskBytes {
		what = append(what, fmt.Sprintf("%d MiB of disk, but the largest worker has %d", n.DiskBytes>>20, most.DiskBytes>>20))
	}
	if n.GPUs > most.GPUs {
		what = append(what, fmt.Sprintf("%s, but the largest worker has %d", plural.Count(n.GPUs, "GPU"), most.GPUs))
	}
	if len(what) == 0 {
		return "no worker has all resources that a task needs together"
	}
	return "a task needs " + strings.Join(what, ", ")
}
