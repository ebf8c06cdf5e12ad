package gpus

import (
	"slices"

	"supercargo.dev/supercargo/internal/packing"
)

// Ranker returns the scores of nodes for pods without GPUs, such as [packing.FitScores].
type Ranker func(nodes []packing.Node) []int64

// Scores scores nodes for a pod that requests GPUs: [packing.BestScore] for the node on which the GPUs that are of no use grow
// least; of equals, for those that rank scores best. The other equals get [packing.MaxOtherScore], and the rest scores that are
// linear in the growth, from 98 for the least to 0 for the most. rooms are what the nodes have, in their order. The pod itself is
// counted as one of the mix. Cost: O(nodes · kinds · devices), and that of rank.
func Scores(nodes []packing.Node, rooms []Node, r Request, m Mix, rank Ranker) []int64 {
	if len(nodes) == 0 {
		return nil
	}
	m = m.with(r)
	growths := make([]int64, len(nodes))
	for i := range rooms {
		growths[i] = m.Growth(&rooms[i], r)
	}
	least, most := slices.Min(growths), slices.Max(growths)
	scores := make([]int64, len(nodes))
	var equals []packing.Node
	for i, g := range growths {
		if g == least {
			equals = append(equals, nodes[i])
			continue
		}
		scores[i] = int64((packing.MaxOtherScore - 1) * (1 - float64(g-least)/float64(most-least)))
	}
	ranked, at := rank(equals), 0
	for i, g := range growths {
		if g != least {
			continue
		}
		scores[i] = packing.MaxOtherScore
		if ranked[at] == packing.BestScore {
			scores[i] = packing.BestScore
		}
		at++
	}
	return scores
}

// with returns the mix with one more pod.
func (m Mix) with(r Request) Mix {
	at := slices.IndexFunc(m, func(k Kind) bool { return k.Request == r })
	if at < 0 {
		return append(slices.Clip(m), Kind{Request: r, Weight: r.Milli})
	}
	m = slices.Clone(m)
	m[at].Weight += r.Milli
	return m
}

// Spare scores nodes for a pod that requests no GPUs, so that nodes with GPUs are left to pods that do: those without GPUs by
// rank, and below all of them those with GPUs by rank. Among nodes of one sort, the scores are those of rank. Cost: that of rank.
func Spare(nodes []packing.Node, has func(at int) bool, rank Ranker) []int64 {
	var sorts [2][]packing.Node
	sort := func(at int) int {
		if has(at) {
			return 1
		}
		return 0
	}
	for i := range nodes {
		sorts[sort(i)] = append(sorts[sort(i)], nodes[i])
	}
	if len(sorts[0]) == 0 || len(sorts[1]) == 0 {
		return rank(nodes)
	}
	ranked := [2][]int64{rank(sorts[0]), rank(sorts[1])}
	scores, next := make([]int64, len(nodes)), [2]int{}
	for i := range nodes {
		s := sort(i)
		score := ranked[s][next[s]]
		next[s]++
		switch {
		case s == 1:
			score = score * (packing.BestScore/2 - 1) / packing.BestScore
		case score != packing.BestScore:
			score = packing.BestScore/2 + score/2
		}
		scores[i] = score
	}
	return scores
}
