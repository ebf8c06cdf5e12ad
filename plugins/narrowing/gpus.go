package narrowing

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/packing/gpus"
)

// maxDevices bounds the GPUs of a node that are told apart. Some device plugins count memory in small units; there every unit
// would be a device.
const maxDevices = 64

// gpuNode is what a node with GPUs has of them.
type gpuNode struct {
	// devices are the free thousandths by resource, of at most [maxDevices] devices.
	devices map[corev1.ResourceName][]int64
	// pods are the requests for GPUs of the node's pods.
	pods []gpuPod
}

// gpuPod is a request for GPUs of one resource.
type gpuPod struct {
	resource corev1.ResourceName
	gpus.Request
}

// gpuNodes counts the nodes with GPUs, and the pods on them by what they request.
type gpuNodes struct {
	nodes int
	pods  map[corev1.ResourceName]map[gpus.Request]int64
}

// change counts a node, or reverts that.
func (g *gpuNodes) change(n *gpuNode, by int64) {
	if n == nil {
		return
	}
	g.nodes += int(by)
	for _, p := range n.pods {
		of := g.pods[p.resource]
		if of == nil {
			of = map[gpus.Request]int64{}
			if g.pods == nil {
				g.pods = map[corev1.ResourceName]map[gpus.Request]int64{}
			}
			g.pods[p.resource] = of
		}
		if of[p.Request] += by; of[p.Request] == 0 {
			delete(of, p.Request)
		}
	}
}

// gpuNodeOf returns the GPUs of a node, or nil if it has none. Cost: O(resources) for a node without GPUs, and O(pods · GPUs) for
// others.
func gpuNodeOf(info *framework.NodeInfo) *gpuNode {
	var counts map[corev1.ResourceName]int
	for name, amount := range info.Allocatable.ScalarResources {
		if amount > 0 && extended.IsGPU(name) {
			if counts == nil {
				counts = map[corev1.ResourceName]int{}
			}
			counts[name] = int(amount * milliOf(name) / gpus.Whole)
		}
	}
	if len(counts) == 0 {
		return nil
	}
	n := &gpuNode{devices: map[corev1.ResourceName][]int64{}}
	byResource := map[corev1.ResourceName][]gpus.Request{}
	for _, p := range info.Pods {
		if request, is := gpuPodOf(p.CalculateResource().Resource); is {
			n.pods = append(n.pods, request)
			byResource[request.resource] = append(byResource[request.resource], request.Request)
		}
	}
	for name, count := range counts {
		if count <= maxDevices {
			n.devices[name] = gpus.Devices(count, byResource[name])
		}
	}
	return n
}

// milliOf returns the thousandths of a GPU that one of a resource is.
func milliOf(name corev1.ResourceName) int64 {
	if name == extended.MilliGPU {
		return 1
	}
	return gpus.Whole
}

// gpuPodOf returns what a pod requests of GPUs, and false if that is nothing. Of several resources, the first by name counts.
func gpuPodOf(r fwk.Resource) (pod gpuPod, is bool) {
	for name, amount := range r.GetScalarResources() {
		if amount > 0 && extended.IsGPU(name) && (!is || name < pod.resource) {
			pod.resource, pod.Milli, is = name, amount*milliOf(name), true
		}
	}
	pod.MilliCPU, pod.MemoryBytes = r.GetMilliCPU(), r.GetMemory()
	return pod, is
}

// ranked returns the scores of nodes for a pod: by rank, unless GPUs are at stake.
func (n *Narrower) ranked(pod *corev1.Pod, nodes []packing.Node, rank gpus.Ranker) []int64 {
	if n.mirror.gpus.nodes == 0 {
		return rank(nodes)
	}
	request, is := gpuPodOf(framework.NewResource(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})))
	if !is {
		return gpus.Spare(nodes, func(at int) bool { return n.mirror.gpuNode(nodes[at].Name) != nil }, rank)
	}
	rooms := make([]gpus.Node, len(nodes))
	for i := range nodes {
		on := n.mirror.gpuNode(nodes[i].Name)
		if on == nil || len(on.devices[request.resource]) == 0 {
			return rank(nodes) // nothing is known of the devices of a resource
		}
		rooms[i] = gpus.Node{MilliCPU: nodes[i].Free.MilliCPU, MemoryBytes: nodes[i].Free.MemoryBytes, Devices: on.devices[request.resource]}
	}
	return gpus.Scores(nodes, rooms, request.Request, gpus.MixOf(n.mirror.gpus.pods[request.resource]), rank)
}

// gpuNode returns what a node of the snapshot has of GPUs, or nil.
func (m *mirror) gpuNode(name string) *gpuNode {
	if i, ok := m.byName[name]; ok {
		return m.nodes[i].gpus
	}
	return nil
}
