package checkpointstaging

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// notifier notifies subscribers of changes to objects. The zero value is ready to use, and safe for concurrent use.
type notifier struct {
	mu      sync.Mutex
	waiting map[types.UID]map[chan struct{}]struct{}
}

// subscribe returns a channel that receives a value after one of the objects has changed, and a function that ends the
// subscription. Several changes before the value is received are merged.
func (n *notifier) subscribe(uids []types.UID) (changed <-chan struct{}, end func()) {
	c := make(chan struct{}, 1)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		n.waiting = map[types.UID]map[chan struct{}]struct{}{}
	}
	for _, uid := range uids {
		if n.waiting[uid] == nil {
			n.waiting[uid] = map[chan struct{}]struct{}{}
		}
		n.waiting[uid][c] = struct{}{}
	}
	return c, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, uid := range uids {
			if delete(n.waiting[uid], c); len(n.waiting[uid]) == 0 {
				delete(n.waiting, uid)
			}
		}
	}
}

// notify wakes the subscribers of the object.
func (n *notifier) notify(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.waiting[uid] {
		select {
		case c <- struct{}{}:
		default: // already notified
		}
	}
}
