package profile

import (
	"cmp"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/regress"
)

// Task is the resource use of a finished pod.
type Task struct {
	// Category identifies pods that do the same work. Pods of one category differ only in size and machine.
	Category string
	Sample
}

// Work is the work of the pods of a category, in units of the standard work: how many times longer than a probe of
// their size they run, and how many times more energy they use.
type Work struct {
	Runtime, Energy float64
	// Cells is the number of pairs of machine type and size.
	Cells int
}

// leastCells is the minimum number of cells of a category to learn from. With only one, its work and the speed of the
// machine cannot be separated.
const leastCells = 2

// cell is a pair of machine type and size.
type cell struct {
	machineType string
	size        Size
}

// Standardize converts tasks to samples of the standard work, so that they can be learned from together with probes.
// The cost of a task is its category's work times a factor of the machine. The work of a category is the median, over
// its cells (pairs of machine type and size), of the cell's median task divided by the prediction of the machine type's
// profile, which was learned from probes. Each cell of a category gives one sample: its median divided by the work.
//
// Tasks on types without a profile are used too, if their category has also run on types that have one. Categories with
// fewer than two cells, or without a cell that a profile can predict, are skipped. The order of tasks does not change
// the result.
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
			continue // a size about which the profile knows nothing
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
