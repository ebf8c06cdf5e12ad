package timebin

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// lingering is how long past its expected finish a reservation is kept when
// nobody drops it, as for a pod deleted between its binding and the news of it.
const lingering = 10 * time.Minute

// sweepEvery is how many reservations are added between two sweeps.
const sweepEvery = 1024

// reservations are the expected finishes of pods whose binding has not come back
// yet. It is safe for concurrent use: Reserve and the node mirror belong to the
// scheduling cycle, Unreserve and Bind to binding cycles.
type reservations struct {
	mu       sync.Mutex
	finishes map[types.UID]time.Time
	added    int
}

func newReservations() *reservations {
	return &reservations{finishes: map[types.UID]time.Time{}}
}

// add notes that a pod starts now and runs for the given time. It is kept to the
// millisecond, as the annotation is, so that both name the same moment.
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
