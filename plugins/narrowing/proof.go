package narrowing

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"supercargo.dev/supercargo/internal/packing"
)

// conditional are the stock filters that reject a node with room only for pods for which their PreFilter leaves a
// record in the cycle state; for all other pods it returns Skip. The record depends on the plugin's arguments (an
// affinity or hard spread constraints added to every pod) and on the cluster (required anti-affinity of running pods),
// so neither has to be known here.
//
// The framework records which plugins skipped the pod only after all PreFilter plugins have run. Until then, the
// absence of the record means the same.
var conditional = map[string]fwk.StateKey{
	names.NodeAffinity:      "PreFilter" + names.NodeAffinity,
	names.NodePorts:         "PreFilter" + names.NodePorts,
	names.PodTopologySpread: "PreFilter" + names.PodTopologySpread,
	names.InterPodAffinity:  "PreFilter" + names.InterPodAffinity,
	// Enabled by default from Kubernetes 1.36 on.
	names.NodeDeclaredFeatures: "PreFilter" + names.NodeDeclaredFeatures,
}

// idle are the filters that do not apply to pods that may be narrowed, because these have only neutral volumes, no
// claims, and do not move.
var idle = sets.New(names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone,
	names.DynamicResources, CheckpointStaging)

// proof decides whether nodes fit a pod.
type proof struct {
	*Narrower
	state fwk.CycleState
	pod   *corev1.Pod
	// conditions reports that a conditional filter applies to the pod.
	conditions bool
	// skipped are the filters that skip the pod, computed at first use.
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

// takes reports whether the node, which has the room, fits the pod. If only room and class matter and no pod is
// nominated to the node, it does. Otherwise the profile's own filters decide, as later in the scheduling cycle, with
// the nominated pods and without them. known is false if a filter fails with an error.
func (p *proof) takes(ctx context.Context, node packing.IndexedNode) (fits, known bool) {
	if !p.conditions && p.nominated(ctx, node.Name) == 0 {
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
