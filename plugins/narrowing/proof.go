package narrowing

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"supercargo.dev/supercargo/internal/packing"
)

// conditional are the stock filters that reject a node with room only for pods about
// which their PreFilter leaves a record in the cycle state. For all others it returns
// Skip. What it finds there depends on the plugin's arguments (an affinity or hard
// spread constraints added to every pod) and on the cluster (required anti-affinity of
// the pods that run), so that neither has to be known here.
//
// The framework tells Filter which plugins skipped the pod only when all PreFilter
// plugins have run. Until then the record says the same.
var conditional = map[string]fwk.StateKey{
	names.NodeAffinity:      "PreFilter" + names.NodeAffinity,
	names.NodePorts:         "PreFilter" + names.NodePorts,
	names.PodTopologySpread: "PreFilter" + names.PodTopologySpread,
	names.InterPodAffinity:  "PreFilter" + names.InterPodAffinity,
	// On by default from Kubernetes 1.36 on.
	names.NodeDeclaredFeatures: "PreFilter" + names.NodeDeclaredFeatures,
}

// idle are the filters that have nothing to say about pods that may be narrowed:
// these have no volumes but neutral ones, no claims, and do not move.
var idle = sets.New(names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone,
	names.DynamicResources, CheckpointStaging)

// proof finds out whether nodes take a pod.
type proof struct {
	*Narrower
	state fwk.CycleState
	pod   *corev1.Pod
	// conditions says that a conditional filter has something to say about the pod.
	conditions bool
	// skipped are the filters that do not look at the pod, once they are asked for.
	skipped sets.Set[string]
}

func (n *Narrower) prove(state fwk.CycleState, pod *corev1.Pod) *proof {
	p := &proof{Narrower: n, state: state, pod: pod}
	for _, key := range conditional {
		p.conditions = p.conditions || recorded(state, key)
	}
	return p
}

func recorded(state fwk.CycleState, key fwk.StateKey) bool {
	_, err := state.Read(key)
	return err == nil
}

// takes reports whether the node, which has the room, takes the pod. Where nothing
// but room and class counts and no pod is nominated to the node, that is certain.
// Else the profile's own filters decide, here as later in the scheduling cycle, beside
// the nominated pods and without them. It reports known = false when one fails.
func (p *proof) takes(ctx context.Context, node packing.IndexedNode) (fits, known bool) {
	if !p.conditions && len(p.options.Handle.NominatedPodsForNode(node.Name)) == 0 {
		return true, true
	}
	if p.skipped == nil {
		p.skipped = idle.Clone()
		for name, key := range conditional {
			if !recorded(p.state, key) {
				p.skipped.Insert(name)
			}
		}
		p.state.SetSkipFilterPlugins(p.skipped) // the framework sets it again after PreFilter
	}
	info := p.mirror.infos[p.mirror.byName[node.Name]]
	status := p.options.Handle.RunFilterPluginsWithNominatedPods(ctx, p.state, p.pod, info)
	return status.IsSuccess(), status.IsSuccess() || status.IsRejected()
}
