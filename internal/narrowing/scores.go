package narrowing

import (
	fwk "k8s.io/kube-scheduler/framework"

	"supercargo.dev/supercargo/internal/packing"
)

// Scores are packing scores by node name. They live in the cycle state from
// PreScore to Score and do not change.
type Scores map[string]int64

// Clone returns the same value: it never changes.
func (s Scores) Clone() fwk.StateData { return s }

// Score ranks the nodes that passed the filters. Those that report no capacity
// score neutral: an error would reject the pod, and not the node.
func (n *Narrower) Score(infos []fwk.NodeInfo, rank func([]packing.Node) []int64) Scores {
	nodes, known := n.nodes(infos)
	scores := make(Scores, len(infos))
	ranked := make([]packing.Node, 0, len(infos))
	for i, info := range infos {
		scores[info.Node().Name] = packing.NeutralScore
		if known[i] {
			ranked = append(ranked, nodes[i])
		}
	}
	for i, score := range rank(ranked) {
		scores[ranked[i].Name] = score
	}
	return scores
}

// WriteScores keeps the scores of the plugin in the cycle state.
func WriteScores(state fwk.CycleState, plugin string, scores Scores) {
	state.Write(scoreKey(plugin), scores)
}

// ReadScore returns the score that the plugin wrote for the node, and the neutral
// score when it wrote none.
func ReadScore(state fwk.CycleState, plugin string, info fwk.NodeInfo) int64 {
	data, err := state.Read(scoreKey(plugin))
	if err != nil {
		return packing.NeutralScore
	}
	if score, ok := data.(Scores)[info.Node().Name]; ok {
		return score
	}
	return packing.NeutralScore
}

func scoreKey(plugin string) fwk.StateKey {
	return fwk.StateKey("supercargo.dev/scores/" + plugin)
}

// nodes returns packing's view of the nodes, in their order. known is false for
// those that report no capacity, about which nothing can be said. Cost: that of
// a sync, as in Narrow, plus O(len(infos)).
func (n *Narrower) nodes(infos []fwk.NodeInfo) (nodes []packing.Node, known []bool) {
	n.mirror.sync(n.options.Handle.SnapshotSharedLister().NodeInfos(), n.options.Clock.Now())
	nodes, known = make([]packing.Node, len(infos)), make([]bool, len(infos))
	for i, info := range infos {
		nodes[i], known[i] = n.mirror.node(info.Node().Name)
	}
	return nodes, known
}
