package narrowing

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"supercargo.dev/supercargo/internal/packing"
)

// Scores are the packing scores of the nodes that passed the filters. They are in the cycle state from PreScore to
// Score and are immutable.
type Scores struct {
	byNode map[string]int64
	// first is the first by name of the nodes with the best score.
	first string
	// differ reports that those nodes differ in images or taints that matter to the pod.
	differ bool
	// volumes reports that the pod may have volumes to bind.
	volumes bool
	// preferences are those of the profile.
	preferences *preferences
}

// Clone returns the same value, because it is immutable.
func (s *Scores) Clone() fwk.StateData { return s }

// Score ranks the nodes that passed the filters. Nodes that report no capacity get the neutral score, because an error
// would reject the pod instead of the node.
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
	for i, score := range n.ranked(pod, ranked, rank) {
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

// of returns the score of a node, given the score plugins that skip the pod. If a soft preference may choose among
// nodes that fit equally well, all of them have the best score; otherwise only the first by name.
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

// WriteScores stores the scores of the plugin in the cycle state.
func WriteScores(state fwk.CycleState, plugin string, scores *Scores) {
	state.Write(scoreKey(plugin), scores)
}

// ReadScore returns the score that the plugin stored for the node, or the neutral score if there is none. It must be
// called in Score, when the framework knows which plugins skip the pod.
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

// nodes returns packing's view of the nodes, in their order. known is false for nodes that report no capacity. Cost:
// that of a sync, as in Narrow, plus O(len(infos)).
func (n *Narrower) nodes(infos []fwk.NodeInfo) (nodes []packing.Node, known []bool) {
	n.mirror.sync(n.options.Handle.SnapshotSharedLister().NodeInfos(), n.options.Clock.Now())
	nodes, known = make([]packing.Node, len(infos)), make([]bool, len(infos))
	for i, info := range infos {
		nodes[i], known[i] = n.mirror.node(info.Node().Name)
	}
	return nodes, known
}
