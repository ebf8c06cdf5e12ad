package profile

import (
	"cmp"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/energy/regress"
)

// Task is what a finished pod took.
type Task struct {
	// Category says whose pods do the same work: those of one category differ by size and
	// machine only.
	Category string
	Sample
}

// Work is what pods of a category do, in standard pieces of work: how many times as long
// as a probe of their size they run, and how many times as much energy they take.
type Work struct {
	Runtime, Energy float64
	// Cells is from how many pairs of a machine type and a size that was learned.
	Cells int
}

// leastCells is the fewest cells of a category from which anything is learned: with one,
// its work and the speed of the machine cannot be told apart.
const leastCells = 2

// cell is a machine type and a size.
type cell struct {
	machineType string
	size        Size
}

// Standardize turns tasks on machine types into samples of the standard piece of work, so
// that they can be learned from beside probes. What a task takes is its own work times
// what the machine makes of it; how much work a category has is the median, over its
// cells (a machine type and a size each), of what the cell's median task took over what
// the machine type's profile, learned from probes, predicts. Each cell of a category
// gives one sample: its median divided by the work.
//
// Tasks on types without a profile are of use too, once their category has run on types
// that have one. Categories with fewer than two cells that can be compared are passed
// over. The order of tasks does not change the result.
func Standardize(tasks map[string][]Task, probed map[string]Profile) map[string][]Sample {
	categories := map[string]map[cell][]Sample{}
	for machineType, all := range tasks {
		for _, t := range all {
			if t.Runtime <= 0 {
				continue
			}
			cells := categories[t.Category]
			if cells == nil {
				cells = map[cell][]Sample{}
				categories[t.Category] = cells
			}
			at := cell{machineType, t.Size}
			cells[at] = append(cells[at], t.Sample)
		}
	}
	standard := map[string][]Sample{}
	for _, name := range sortedKeys(categories, cmp.Compare[string]) {
		cells := categories[name]
		order := sortedKeys(cells, func(a, b cell) int {
			return cmp.Or(cmp.Compare(a.machineType, b.machineType), compareSizes(a.size, b.size))
		})
		w := workOf(cells, order, probed)
		if w.Cells < leastCells {
			continue
		}
		for _, at := range order {
			middle := medianOf(cells[at])
			s := Sample{Size: at.size, Runtime: time.Duration(float64(middle.Runtime) / w.Runtime)}
			if s.NoEnergy = middle.NoEnergy || w.Energy == 0; !s.NoEnergy {
				s.Energy = energy.Joules(float64(middle.Energy) / w.Energy)
			}
			standard[at.machineType] = append(standard[at.machineType], s)
		}
	}
	return standard
}

func workOf(cells map[cell][]Sample, order []cell, probed map[string]Profile) (w Work) {
	var runtimes, energies []float64
	for _, at := range order {
		p, known := probed[at.machineType]
		if !known {
			continue
		}
		middle := medianOf(cells[at])
		runtime := p.Runtime.Predict(at.size, 0)
		if runtime.Trust == 0 {
			continue // a size of which the profile knows nothing
		}
		runtimes = append(runtimes, middle.Runtime.Seconds()/runtime.Value)
		if e := p.Energy.Predict(at.size, 0); !middle.NoEnergy && e.Trust > 0 {
			energies = append(energies, float64(middle.Energy)/e.Value)
		}
	}
	if w.Cells = len(cells); len(runtimes) == 0 {
		return Work{}
	}
	w.Runtime = regress.Median(runtimes)
	if len(energies) > 0 {
		w.Energy = regress.Median(energies)
	}
	return w
}

// medianOf returns the medians of samples of one size.
func medianOf(samples []Sample) Sample {
	var seconds, joules []float64
	for _, s := range samples {
		seconds = append(seconds, s.Runtime.Seconds())
		if !s.NoEnergy && s.Energy > 0 && !math.IsInf(float64(s.Energy), 0) {
			joules = append(joules, float64(s.Energy))
		}
	}
	middle := Sample{Size: samples[0].Size, Runtime: time.Duration(regress.Median(seconds) * float64(time.Second)), NoEnergy: len(joules) == 0}
	if len(joules) > 0 {
		middle.Energy = energy.Joules(regress.Median(joules))
	}
	return middle
}

func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}
