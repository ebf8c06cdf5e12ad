package energyperformance

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// kind is what the score of a node depends on besides the pod: its place, by number, and whether it is idle. The kinds
// of a place are 2·number for busy nodes and 2·number + 1 for idle ones.
type kind int32

// place is the machine type of a node, its CPU governor, and its zone if there are prices.
type place struct{ machineType, governor, zone string }

// kinds caches the kind of each node by the generation of its NodeInfo, which is unique to the content of the NodeInfo.
// It reads labels and pods only of nodes that have changed since the last pod, usually one or two. It belongs to the
// scheduling cycles of one profile, which are sequential; between PreScore and the end of scoring it is only read.
type kinds struct {
	zoned        bool // zones are distinguished
	byGeneration map[int64]kind
	numbers      map[place]int
	places       []place // by number
}

// spare is how many outdated generations are kept, in addition to four for each node, before the cache is cleared.
const spare = 1024

// learn reads the nodes that are not cached, and returns which kinds occur among all: two entries for each place, of
// which at least one is true for the places of these nodes.
func (k *kinds) learn(infos []fwk.NodeInfo) []bool {
	if k.byGeneration == nil || len(k.byGeneration) > 4*len(infos)+spare {
		*k = kinds{zoned: k.zoned, byGeneration: make(map[int64]kind, 2*len(infos)), numbers: map[place]int{}}
	}
	present := make([]bool, 2*len(k.places))
	for _, info := range infos {
		of, known := k.of(info)
		if !known {
			of = k.read(info)
			k.byGeneration[info.GetGeneration()] = of
			if len(present) < 2*len(k.places) {
				present = append(present, false, false)
			}
		}
		present[of] = true
	}
	return present
}

func (k *kinds) read(info fwk.NodeInfo) kind {
	node := info.Node()
	of := place{machineType: score.MachineType(node.Labels), governor: score.Governor(node.Annotations)}
	if k.zoned {
		of.zone = node.Labels[corev1.LabelTopologyZone]
	}
	number, met := k.numbers[of]
	if !met {
		number = len(k.places)
		k.numbers[of], k.places = number, append(k.places, of)
	}
	if isIdle(info) {
		return kind(2*number + 1)
	}
	return kind(2 * number)
}

// of returns the cached kind of a node, and false if it is not cached.
func (k *kinds) of(info fwk.NodeInfo) (kind, bool) {
	of, known := k.byGeneration[info.GetGeneration()]
	return of, known
}

// isIdle reports whether the node runs only pods that run on every node.
func isIdle(info fwk.NodeInfo) bool {
	for _, other := range info.GetPods() {
		if !class.EveryNode(other.GetPod()) {
			return false
		}
	}
	return true
}
