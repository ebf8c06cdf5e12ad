package energyperformance

import (
	fwk "k8s.io/kube-scheduler/framework"

	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/energy/score"
)

// kind is what the score of a node depends on besides the pod: its machine type, by number,
// and whether it is idle. The kinds of a type are 2·number for busy nodes and one more for
// idle ones.
type kind int32

// kinds remembers the kind of each node by the generation of its NodeInfo, which is unique
// to what the NodeInfo says, and so reads labels and pods of those nodes only that have
// changed since the last pod, usually one or two. It belongs to the scheduling cycles of one
// profile, which follow each other; between PreScore and the end of scoring it is only read.
type kinds struct {
	byGeneration map[int64]kind
	numbers      map[string]int // by machine type
	types        []string       // by number
}

// spare is how many outdated generations are kept beside four for each node before all are
// forgotten.
const spare = 1024

// learn reads the nodes that it does not know, and returns which kinds there are among all:
// for each type two, of which one at least is true for types of these nodes.
func (k *kinds) learn(infos []fwk.NodeInfo) []bool {
	if k.byGeneration == nil || len(k.byGeneration) > 4*len(infos)+spare {
		*k = kinds{byGeneration: make(map[int64]kind, 2*len(infos)), numbers: map[string]int{}}
	}
	present := make([]bool, 2*len(k.types))
	for _, info := range infos {
		of, known := k.of(info)
		if !known {
			of = k.read(info)
			k.byGeneration[info.GetGeneration()] = of
			if len(present) < 2*len(k.types) {
				present = append(present, false, false)
			}
		}
		present[of] = true
	}
	return present
}

func (k *kinds) read(info fwk.NodeInfo) kind {
	machineType := score.MachineType(info.Node().Labels)
	number, met := k.numbers[machineType]
	if !met {
		number = len(k.types)
		k.numbers[machineType], k.types = number, append(k.types, machineType)
	}
	if isIdle(info) {
		return kind(2*number + 1)
	}
	return kind(2 * number)
}

// of returns the kind of a node that was learned, and false for another.
func (k *kinds) of(info fwk.NodeInfo) (kind, bool) {
	of, known := k.byGeneration[info.GetGeneration()]
	return of, known
}

// isIdle reports whether no pod is on the node but those that every node has.
func isIdle(info fwk.NodeInfo) bool {
	for _, other := range info.GetPods() {
		if !class.EveryNode(other.GetPod()) {
			return false
		}
	}
	return true
}
