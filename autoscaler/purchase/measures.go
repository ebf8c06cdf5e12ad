package purchase

// measures quantify how much of a machine a pod takes; by none of them do the pods that a machine holds exceed the
// whole machine. They are the parts of CPU, memory and pod slots that pods take, functions of the first two that
// account for indivisible pods (see [dualFeasible]), and cliques of pods that repel each other (see [cliques]).
const (
	byCPU = iota
	byMemory
	byPlace
	// byCPUDual and byMemoryDual are the first of len(dualFeasibles) measures each.
	byCPUDual
	byMemoryDual = byCPUDual + len(dualFeasibles)
	// byClique is the first measure of cliques.
	byClique = byMemoryDual + len(dualFeasibles)
	measures = byClique + cliqueMeasures

	// linear is the number of measures, from the first, that are parts of a machine's resources.
	linear = byCPUDual
)

// basicMeasures are those of a basic pricing, allMeasures those of an extended one. They do not include those of
// cliques: see [problem.measuresOf].
var basicMeasures, allMeasures = between(0, linear), between(0, byClique)

// between returns the measures from one up to, but not including, another.
func between(from, to int) []int {
	var found []int
	for r := from; r < to; r++ {
		found = append(found, r)
	}
	return found
}

// vector has a number for each measure.
type vector [measures]float64

func dot(a, b vector) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i] * b[i])
	}
	return sum
}

func total(a vector) float64 {
	sum := 0.0
	for _, x := range a {
		sum += x
	}
	return sum
}

// dualFeasible is a dual feasible function: by it, pods for which a machine has room sum to at most the whole machine.
// Fekete and Schepers (2001) collect such functions.
type dualFeasible func(asks, has uint64) uint64

var dualFeasibles = [...]dualFeasible{
	// A pod of more than half counts as a whole machine, a smaller one as nothing.
	func(asks, has uint64) uint64 { return beyond(asks, has, has/2) },
	func(asks, has uint64) uint64 { return beyond(asks, has, has/3) },
	// A machine holds two pods of more than a third.
	func(asks, has uint64) uint64 {
		switch {
		case asks > has-has/3:
			return has
		case asks > has/3:
			return has / 2
		}
		return 0
	},
}

// beyond counts a pod smaller than the margin as nothing, one that leaves less than the margin as the whole, and any
// other as its request. margin is at most half of the whole. Pods of the second kind share a machine only with pods of
// the first.
func beyond(asks, has, margin uint64) uint64 {
	switch {
	case asks < margin:
		return 0
	case asks > has-margin:
		return has
	}
	return asks
}

// small reports whether a pod of the kind takes nothing of the offer by any dual feasible function.
func (o *offer) small(k *kind) bool {
	return k.size.MilliCPU < o.Size.MilliCPU/3 && k.size.MemoryBytes < o.Size.MemoryBytes/3
}

// part returns, by a measure, what a pod of the kind takes and what the offer has.
func (o *offer) part(k *kind, measure int) (takes, has uint64) {
	cpu, memory := uint64(max(k.size.MilliCPU, 0)), uint64(max(k.size.MemoryBytes, 0))
	hasCPU, hasMemory := uint64(max(o.Size.MilliCPU, 0)), uint64(max(o.Size.MemoryBytes, 0))
	switch {
	case measure == byCPU:
		return cpu, hasCPU
	case measure == byMemory:
		return memory, hasMemory
	case measure == byPlace:
		return 1, uint64(max(o.places, 0))
	case measure < byMemoryDual:
		return dualFeasibles[measure-byCPUDual](cpu, hasCPU), hasCPU
	case measure >= byClique:
		return k.inCliques[measure-byClique], wholeClique
	}
	return dualFeasibles[measure-byMemoryDual](memory, hasMemory), hasMemory
}
