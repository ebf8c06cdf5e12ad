package world

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// amounts are quantities of resources in the units of [constraint.Requests], with CPU in milli-CPU.
type amounts map[corev1.ResourceName]int64

func (a amounts) add(pod *corev1.Pod, times int64) {
	cpu, memory, extended := constraint.Requests(pod)
	a[corev1.ResourceCPU] += times * cpu
	a[corev1.ResourceMemory] += times * memory
	a[corev1.ResourcePods] += times
	for name, amount := range extended {
		a[name] += times * amount
	}
}

// free returns the allocatable resources of a node minus the requests of its pods.
func (v *View) free(node *corev1.Node) amounts {
	left := amounts{}
	for name, q := range node.Status.Allocatable {
		left[name] = q.Value()
	}
	left[corev1.ResourceCPU] = node.Status.Allocatable.Cpu().MilliValue()
	for _, pod := range v.onNode[node.Name] {
		left.add(pod, -1)
	}
	return left
}

// NeededBy returns the ready nodes that unschedulable pods need and that no new machine can replace, each with the name
// of one such pod. These pods request extended resources that plans do not consider, and the nodes have the resources and
// free room. Cordoned nodes count too, because the pod may have arrived just after the cordon.
//
// Cost: O(n·m) for n such pods and m nodes with extended resources.
func (v *View) NeededBy() map[string]string {
	needed := map[string]string{}
	free := map[string]amounts{}
	for _, pod := range v.waiting {
		if _, is := Unschedulable(pod); !is || Restoring(pod) || v.Expendable(pod) {
			continue
		}
		_, other := v.asks(pod)
		settled, held := v.volumes.settle(pod)
		if other == "" || held != "" || constraint.Unsupported(settled) != "" {
			continue
		}
		demands, err := v.compiler.Compile(settled)
		if err != nil {
			continue
		}
		asks := amounts{}
		asks.add(pod, 1)
		for name, node := range v.Nodes {
			if _, ready := Ready(node); !ready || needed[name] != "" || node.Status.Allocatable.Name(other, "").IsZero() {
				continue
			}
			if free[name] == nil {
				free[name] = v.free(node)
			}
			if asks.fit(free[name]) && demands.Admits(opened(node)) == "" {
				needed[name] = PodName(pod)
			}
		}
	}
	return needed
}

// fit reports whether free has at least the given amount of every resource.
func (a amounts) fit(free amounts) bool {
	for name, amount := range a {
		if amount > 0 && amount > free[name] {
			return false
		}
	}
	return true
}

// opened returns a node as a host that is not cordoned.
func opened(node *corev1.Node) *constraint.Host {
	host := *constraint.NewHost(node)
	host.Unschedulable = false
	host.Taints = slices.DeleteFunc(slices.Clone(host.Taints), func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
	return &host
}
