package checkpointstaging

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// bell tells those who wait for objects that something has changed. The zero value is
// ready to use, by many at once.
type bell struct {
	mu      sync.Mutex
	waiting map[types.UID]map[chan struct{}]struct{}
}

// subscribe returns a channel that gets a value when the bell rings for one of the
// objects, and a function that ends it. Several rings before the value is taken are one.
func (b *bell) subscribe(uids []types.UID) (rung <-chan struct{}, end func()) {
	c := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = map[types.UID]map[chan struct{}]struct{}{}
	}
	for _, uid := range uids {
		if b.waiting[uid] == nil {
			b.waiting[uid] = map[chan struct{}]struct{}{}
		}
		b.waiting[uid][c] = struct{}{}
	}
	return c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, uid := range uids {
			if delete(b.waiting[uid], c); len(b.waiting[uid]) == 0 {
				delete(b.waiting, uid)
			}
		}
	}
}

// ring wakes those who wait for the object.
func (b *bell) ring(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.waiting[uid] {
		select {
		case c <- struct{}{}:
		default: // it is told already
		}
	}
}
