package fleetobserve

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/internal/world"
)

// leaveToRivals takes out the pods that fit machines of the fleet and that another buyer serves, so that not both buy
// machines for them: those that wait, which are then held, and those that have arrived, of which more would be expected.
//
// Cost: O(pods · (rivals + flavors)), nothing without rivals.
func (o *observer) leaveToRivals() {
	rivals := o.Self.Inventory.Rivals
	if len(rivals) == 0 {
		return
	}
	pods := make(map[string]*corev1.Pod, len(o.World.Pods))
	for _, p := range o.World.Pods {
		pods[world.PodName(p)] = p
	}
	left := map[string][]string{}
	o.State.Pending = slices.DeleteFunc(o.State.Pending, func(p cluster.Pod) bool {
		rival := o.rivalFor(&p, pods[p.Name])
		if rival == nil {
			return false
		}
		delete(o.Waited, p.Name)
		o.Held = append(o.Held, v1alpha1.Rejection{Name: p.Name, Reason: fmt.Sprintf("%sit fits %s, too, which buys for it", NotPlanned, rival.Name)})
		left[rival.Name] = append(left[rival.Name], p.Name)
		o.left[p.Name] = rival
		return true
	})
	o.State.Recent = slices.DeleteFunc(o.State.Recent, func(p cluster.Pod) bool { return o.rivalFor(&p, pods[p.Name]) != nil })
	for _, name := range slices.Sorted(maps.Keys(left)) {
		at := slices.IndexFunc(rivals, func(r provider.Rival) bool { return r.Name == name })
		o.Contested = append(o.Contested, contest(&rivals[at], left[name]))
	}
}

// contest describes the pods that are left to a rival.
func contest(rival *provider.Rival, pods []string) string {
	also, n := "", len(pods)-1
	if n > 0 {
		also = " and " + plural.Count(n, "other pod")
	}
	return fmt.Sprintf("pod %s%s: %s", slices.Min(pods), also, whyLeft(rival, len(pods)))
}

// whyLeft says why a number of pods are left to a rival, and how to have only one of both buy for them.
func whyLeft(rival *provider.Rival, pods int) string {
	return fmt.Sprintf("no machine is bought, because %s fits %s, too, and may buy one. %s", rival.Name, plural.Form(pods, "it", "them"), rival.Apart)
}

// rivalFor returns the first rival that serves a pod for which the fleet has a flavor; nil if there is none.
func (o *observer) rivalFor(p *cluster.Pod, pod *corev1.Pod) *provider.Rival {
	if pod == nil {
		return nil
	}
	at := slices.IndexFunc(o.Self.Inventory.Rivals, func(r provider.Rival) bool { return r.Serves(pod) })
	if at < 0 || !slices.ContainsFunc(o.State.Flavors, func(f cluster.Flavor) bool { return holds(&f, p) }) {
		return nil
	}
	return &o.Self.Inventory.Rivals[at]
}

// holds reports whether an empty machine of a flavor can hold a pod.
func holds(f *cluster.Flavor, p *cluster.Pod) bool {
	return p.Size.Fits(f.Size) && f.ServesGPUs(p.Size) && (p.Arch == "" || p.Arch == f.Arch) && (p.Demands == nil || p.Demands.Admits(f.Host) == "")
}
