package packing

import (
	"slices"
	"time"
)

const (
	// BestScore is the score of the best node and of every node that fits equally well.
	BestScore = 100
	// MaxOtherScore is the maximum score of other nodes. A profile in which packing weighs more than 100 times the sum
	// of its other weights therefore always selects a best node.
	MaxOtherScore = BestScore - 1
	// NeutralScore is the score of a node about which nothing is known.
	NeutralScore = 50
)

// FitScores scores nodes for a service: [BestScore] for the first node of [CompareFit] and all nodes with the same free
// room. The scores of the others are linear in free memory, from [MaxOtherScore] for the least to 0 for the most. Names
// do not count. The result is in the order of nodes. Cost: O(len(nodes)).
func FitScores(nodes []Node) []int64 {
	scores := make([]int64, len(nodes))
	scoreBand(scores, nodes, indices(len(nodes)), 0, 1)
	markBest(scores, nodes, 0, CompareFit)
	return scores
}

// TimeBinScores scores nodes for a batch item of the given runtime: [BestScore] for the first node of [CompareTimeBin]
// and all nodes of its bin with the same free room. For the others, 0..[MaxOtherScore] is divided into bands of equal
// width, one for each time bin that occurs, in the order of [CompareBins]; within a band the score is linear in free
// memory. Names do not count. The result is in the order of nodes. Cost: O(n + b·log b) for n nodes in b bins.
func TimeBinScores(nodes []Node, runtime, cycle time.Duration) []int64 {
	byBin := map[int64][]int{}
	for i, n := range nodes {
		bin := BinOf(n.Remaining, cycle)
		byBin[bin] = append(byBin[bin], i)
	}
	own := BinOf(runtime, cycle)
	bins := make([]int64, 0, len(byBin))
	for bin := range byBin {
		bins = append(bins, bin)
	}
	slices.SortFunc(bins, func(a, b int64) int { return CompareBins(own, a, b) })

	scores := make([]int64, len(nodes))
	for rank, bin := range bins {
		scoreBand(scores, nodes, byBin[bin], rank, len(bins))
	}
	markBest(scores, nodes, cycle, CompareTimeBin(runtime, cycle))
	return scores
}

// scoreBand scores the nodes with the given indices within band number rank of bands; rank 0 is the highest.
func scoreBand(scores []int64, nodes []Node, members []int, rank, bands int) {
	if len(members) == 0 {
		return
	}
	least, most := nodes[members[0]].Free.MemoryBytes, nodes[members[0]].Free.MemoryBytes
	for _, i := range members {
		least, most = min(least, nodes[i].Free.MemoryBytes), max(most, nodes[i].Free.MemoryBytes)
	}
	for _, i := range members {
		loose := 0.0
		if most > least {
			loose = float64(nodes[i].Free.MemoryBytes-least) / float64(most-least)
		}
		scores[i] = int64(MaxOtherScore * (float64(bands-rank) - loose) / float64(bands))
	}
}

// markBest gives [BestScore] to the first node in the order of compare and to all nodes that differ from it only by
// name.
func markBest(scores []int64, nodes []Node, cycle time.Duration, compare func(a, b Node) int) {
	if len(nodes) == 0 {
		return
	}
	best := nodes[0]
	for _, n := range nodes[1:] {
		if compare(n, best) < 0 {
			best = n
		}
	}
	bin := BinOf(best.Remaining, cycle)
	for i, n := range nodes {
		if n.Free == best.Free && BinOf(n.Remaining, cycle) == bin {
			scores[i] = BestScore
		}
	}
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
