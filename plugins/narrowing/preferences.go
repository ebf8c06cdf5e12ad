package narrowing

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Nodes that fit a pod equally well have the same packing score, so that the soft preferences of the profile choose
// among them. A pod without preferences goes to the first by name, which makes placements reproducible.

// withoutPreference are the score plugins that prefer nodes for their own properties, not for a wish of the pod or its
// owner. They decide between nodes that fit equally well only if a preference applies there too.
var withoutPreference = sets.New(BestFit, TimeBin, names.NodeResourcesFit, names.NodeResourcesBalancedAllocation,
	// These never skip a pod. The pod and the nodes show whether they have a preference.
	names.TaintToleration, names.ImageLocality, names.DynamicResources)

// preferences are the score plugins of a profile that express soft preferences.
type preferences struct {
	// plugins have a preference for a pod unless they skip it at PreScore.
	plugins []string
	// images, taints and devices report whether ImageLocality, TaintToleration and DynamicResources score.
	images, taints, devices bool
}

func preferencesOf(scores schedconfig.PluginSet) preferences {
	p := preferences{
		images: has(scores, names.ImageLocality), taints: has(scores, names.TaintToleration), devices: has(scores, names.DynamicResources),
	}
	for _, plugin := range scores.Enabled {
		if !withoutPreference.Has(plugin.Name) {
			p.plugins = append(p.plugins, plugin.Name)
		}
	}
	return p
}

// expressed reports whether a plugin has a preference, given the plugins that skip the pod and whether it has volumes
// to bind. From Kubernetes 1.37 on, VolumeBinding skips no pod, and scores all nodes alike for pods without such
// volumes.
func (p *preferences) expressed(volumes bool, skipped sets.Set[string]) bool {
	return slices.ContainsFunc(p.plugins, func(name string) bool {
		return !skipped.Has(name) && (volumes || name != names.VolumeBinding)
	})
}

// differ reports whether the nodes may differ for ImageLocality, TaintToleration and DynamicResources: in images of the
// pod, in PreferNoSchedule taints that it does not tolerate, and in devices if it claims some. Small images count here
// although ImageLocality ignores them; that costs a scan, and changes placements only between nodes with the same total
// score. Cost: O(nodes · (containers + taints)).
func (p *preferences) differ(pod *corev1.Pod, infos []fwk.NodeInfo) bool {
	if len(infos) < 2 {
		return false
	}
	if p.devices && len(pod.Spec.ResourceClaims) > 0 {
		return true
	}
	if p.taints {
		of := repulsion(pod, infos[0])
		if slices.ContainsFunc(infos[1:], func(info fwk.NodeInfo) bool { return repulsion(pod, info) != of }) {
			return true
		}
	}
	return p.images && (imagesDiffer(pod.Spec.InitContainers, infos) || imagesDiffer(pod.Spec.Containers, infos))
}

// repulsion returns the number of PreferNoSchedule taints of the node that the pod does not tolerate.
func repulsion(pod *corev1.Pod, info fwk.NodeInfo) int {
	count := 0
	for _, taint := range info.Node().Spec.Taints {
		if taint.Effect == corev1.TaintEffectPreferNoSchedule &&
			!corev1helpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, &taint, true) {
			count++
		}
	}
	return count
}

func imagesDiffer(containers []corev1.Container, infos []fwk.NodeInfo) bool {
	for i := range containers {
		image := normalizedImage(containers[i].Image)
		_, on := infos[0].GetImageStates()[image]
		for _, info := range infos[1:] {
			if _, also := info.GetImageStates()[image]; also != on {
				return true
			}
		}
	}
	return false
}

// normalizedImage returns an image name with a tag, as in ImageLocality.
func normalizedImage(name string) string {
	if strings.LastIndex(name, ":") <= strings.LastIndex(name, "/") {
		return name + ":latest"
	}
	return name
}

// stated reports whether the pod itself states a soft preference.
func stated(pod *corev1.Pod) bool {
	if slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.ScheduleAnyway
	}) {
		return true
	}
	a := pod.Spec.Affinity
	return a != nil && (a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAffinity != nil && len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0)
}

// contested reports whether a soft preference may choose among the nodes that fit the pod as well as the given one. In
// doubt it returns true.
//
// Preferences come not only from the pod: PodTopologySpread spreads the pods of a Service or ReplicaSet by default,
// NodeAffinity has arguments, and running pods may have preferred affinity. Only the plugins know, so contested runs
// their PreScore, as the scheduler would. PreScore writes into the cycle state what it would write anyway. Cost:
// PreScore if several nodes have the same room; O(those nodes) if only some nodes of the cluster have certain images or
// taints.
func (n *Narrower) contested(ctx context.Context, state fwk.CycleState, r Request, node string) bool {
	p := &n.profile.preferences
	compare := p.taints && n.mirror.variety.tainted > 0 || p.images && n.mirror.variety.some(r.Pod, len(n.mirror.nodes))
	tied := n.tied[:0]
	for name := range n.viewFor(r, n.mirror.gpuNode(node) != nil).Tied(node) {
		if tied = append(tied, n.mirror.infos[n.mirror.byName[name]]); len(tied) == 2 && !compare {
			break
		}
	}
	n.tied = tied
	switch {
	case len(tied) < 2:
		return false
	case stated(r.Pod) || p.differ(r.Pod, tied):
		return true
	case len(p.plugins) == 0:
		return false
	}
	if status := n.options.Handle.RunPreScorePlugins(ctx, state, r.Pod, tied[:2]); !status.IsSuccess() {
		return true
	}
	return p.expressed(!onlyNeutralVolumes(r.Pod.Spec.Volumes), state.GetSkipScorePlugins())
}
