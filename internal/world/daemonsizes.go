package world

import (
	"maps"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/internal/packing"
)

// DaemonSizes remembers what the pods of DaemonSets requested after admission while no pod shows it: when the last
// machine is released, its pods are gone, and the next machine would be bought as if they were smaller. It forgets a
// size after an hour without such a pod, because what admission adds may have changed, and when the DaemonSet changes.
//
// The zero value remembers nothing yet; nil never does. It is safe for concurrent use.
type DaemonSizes struct {
	mu   sync.Mutex
	seen map[types.UID]daemonSize
}

// daemonSize is the size of a pod of a DaemonSet of a generation, and when there last was one.
type daemonSize struct {
	generation int64
	size       packing.Size
	at         time.Time
}

// daemonSizeKnownFor is how long a size is remembered without a pod.
const daemonSizeKnownFor = time.Hour

// see remembers the size of a pod of the DaemonSet.
func (d *DaemonSizes) see(set *appsv1.DaemonSet, size packing.Size, now time.Time) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.seen, func(_ types.UID, s daemonSize) bool { return now.Sub(s.at) >= daemonSizeKnownFor })
	if d.seen == nil {
		d.seen = map[types.UID]daemonSize{}
	}
	d.seen[set.UID] = daemonSize{set.Generation, size, now}
}

// last returns the last size of a pod of the DaemonSet; zero if none is remembered.
func (d *DaemonSizes) last(set *appsv1.DaemonSet, now time.Time) packing.Size {
	if d == nil {
		return packing.Size{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, is := d.seen[set.UID]; is && s.generation == set.Generation && now.Sub(s.at) < daemonSizeKnownFor {
		return s.size
	}
	return packing.Size{}
}
