package narrowing

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"supercargo.dev/supercargo/internal/packing"
)

// Scores are the packing scores of the nodes that passed the filters. They live in
// the cycle state from PreScore to Score and do not change.
type Scores struct {
	byNode map[string]int64
	// first is the first by name of the nodes with the best score.
	first string
	// differ says that those nodes differ in images or taints that matter to the pod.
	differ bool
	// volumes says that the pod may have volumes to bind.
	volumes bool
	// preferences are those of the profile.
	preferences *preferences
}

// Clone returns the same value: it never changes.
func (s *Scores) Clone() fwk.StateData { return s }

// Score ranks the nodes that passed the filters. Those that report no capacity
// score neutral: an error would reject the pod, and not the node.
func (n *Narrower) Score(pod *corev1.Pod, infos []fwk.NodeInfo, rank func([]packing.Node) []int64) *Scores {
	n.inspectOnce()
	nodes, known := n.nodes(infos)
	scores := &Scores{
		byNode: make(map[string]int64, len(infos)), volumes: !onlyNeutralVolumes(pod.Spec.Volumes), preferences: &n.profile.preferences,
	}
	ranked, rankedInfos := make([]packing.Node, 0, len(infos)), make([]fwk.NodeInfo, 0, len(infos))
	for i, info := range infos {
		if known[i] {
			ranked, rankedInfos = append(ranked, nodes[i]), append(rankedInfos, info)
		} else {
			scores.byNode[info.Node().Name] = packing.NeutralScore
		}
	}
	var best []fwk.NodeInfo
	for i, score := range rank(ranked) {
		name := ranked[i].Name
		scores.byNode[name] = score
		if score != packing.BestScore {
			continue
		}
		best = append(best, rankedInfos[i])
		if scores.first == "" || name < scores.first {
			scores.first = name
		}
	}
	scores.differ = scores.preferences.differ(pod, best)
	return scores
}

// of returns the score of a node, given the score plugins that skip the pod. Nodes
// that fit equally well have the best score only where a soft preference may choose
// among them. Else the first by name has it alone.
func (s *Scores) of(node string, skipped sets.Set[string]) int64 {
	score, ok := s.byNode[node]
	switch {
	case !ok:
		return packing.NeutralScore
	case score == packing.BestScore && node != s.first && !s.differ && !s.preferences.expressed(s.volumes, skipped):
		return packing.MaxOtherScore
	}
	return score
}

// WriteScores keeps the scores of the plugin in the cycle state.
func WriteScores(state fwk.CycleState, plugin string, scores *Scores) {
	state.Write(scoreKey(plugin), scores)
}

// ReadScore returns the score that the plugin wrote for the node, and the neutral
// score when it wrote none. It belongs to Score, when the framework knows which
// plugins skip the pod.
func ReadScore(state fwk.CycleState, plugin string, info fwk.NodeInfo) int64 {
	data, err := state.Read(scoreKey(plugin))
	if err != nil {
		return packing.NeutralScore
	}
	return data.(*Scores).of(info.Node().Name, state.GetSkipScorePlugins())
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
