//go:build kubernetes1.38

package packingsort

import (
	"iter"

	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// podsOf iterates over the pods of an entry of the queue.
func podsOf(e framework.QueuedEntityInfo) iter.Seq[*framework.QueuedPodInfo] {
	return e.ForEachPodInfo()
}
