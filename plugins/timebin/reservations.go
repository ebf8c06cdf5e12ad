package timebin

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// lingering is how long past its expected finish a reservation is kept if it is not dropped, as for a pod deleted
// between its binding and the event of it.
const lingering = 10 * time.Minute

// sweepEvery is the number of added reservations between two sweeps.
const sweepEvery = 1024

// reservations are the expected finishes of pods whose binding has not been observed yet. It is safe for concurrent
// use: Reserve and the node mirror belong to the scheduling cycle, Unreserve and Bind to binding cycles.
type reservations struct {
	mu       sync.Mutex
	finishes map[types.UID]time.Time
	added    int
}

func newReservations() *reservations {
	return &reservations{finishes: map[types.UID]time.Time{}}
}

// add records that a pod starts now and runs for the given time. The finish is truncated to the millisecond, as in the
// annotation, so that both are equal.
func (r *reservations) add(uid types.UID, now time.Time, runtime time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finishes[uid] = now.Add(runtime).Truncate(time.Millisecond)
	if r.added++; r.added%sweepEvery == 0 {
		for uid, finish := range r.finishes {
			if finish.Add(lingering).Before(now) {
				delete(r.finishes, uid)
			}
		}
	}
}

func (r *reservations) get(uid types.UID) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	finish, ok := r.finishes[uid]
	return finish, ok
}

func (r *reservations) drop(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.finishes, uid)
}
