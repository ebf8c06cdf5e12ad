package dashboard

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"slices"
	"sync"

	"supercargo.dev/supercargo/cmd/supercargo/dashboard/view"
)

// mostGone is how many items that have gone are remembered. Who has not heard for so long that
// more have gone starts again.
const mostGone = 10_000

// hub has the page as it is, and by version what changed when. All that is kept for a reader is the
// version that it has: a slow one costs no memory and is told what is true when it is ready again.
type hub struct {
	// epoch tells this hub's versions from those of a program that ran before.
	epoch string

	mu      sync.Mutex
	version uint64
	items   map[itemKey]entry
	gone    []goneItem // in the order of versions
	forgot  uint64     // the greatest version of those no longer in gone
	changed chan struct{}
}

type itemKey struct{ section, key string }

// entry is an item and the version with which it came.
type entry struct {
	json    []byte
	version uint64
}

type goneItem struct {
	itemKey
	version uint64
}

func newHub() *hub {
	return &hub{epoch: rand.Text(), items: map[itemKey]entry{}, changed: make(chan struct{})}
}

// put replaces the page, and wakes readers if anything of it has changed.
func (h *hub) put(items []view.Item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := h.version + 1
	changed := false
	there := make(map[itemKey]bool, len(items))
	for _, item := range items {
		key := itemKey{item.Section, item.Key}
		there[key] = true
		if before, is := h.items[key]; is && bytes.Equal(before.json, item.JSON) {
			continue
		}
		h.items[key] = entry{item.JSON, next}
		changed = true
	}
	for key := range h.items {
		if !there[key] {
			delete(h.items, key)
			h.gone = append(h.gone, goneItem{key, next})
			changed = true
		}
	}
	if more := len(h.gone) - mostGone; more > 0 {
		h.forgot = h.gone[more-1].version
		h.gone = slices.Delete(h.gone, 0, more)
	}
	if changed {
		h.version = next
		close(h.changed)
		h.changed = make(chan struct{})
	}
}

// change is an item that is new or has changed; nil JSON says that it has gone.
type change struct {
	itemKey
	json []byte
}

// update is what a reader has to be told.
type update struct {
	// reset says that the reader must forget all that it has.
	reset   bool
	changes []change
	version uint64
	// more is closed when there is something newer.
	more <-chan struct{}
}

// since returns what has changed after a version; 0 is before everything. Items that came and went
// in between are not mentioned but for having gone.
func (h *hub) since(version uint64) update {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := update{version: h.version, more: h.changed, reset: version == 0 || version < h.forgot || version > h.version}
	if u.reset {
		version = 0
	}
	for key, e := range h.items {
		if e.version > version {
			u.changes = append(u.changes, change{key, e.json})
		}
	}
	if !u.reset {
		for i := len(h.gone) - 1; i >= 0 && h.gone[i].version > version; i-- {
			if _, back := h.items[h.gone[i].itemKey]; !back {
				u.changes = append(u.changes, change{itemKey: h.gone[i].itemKey})
			}
		}
	}
	slices.SortFunc(u.changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.section, b.section), cmp.Compare(a.key, b.key)) })
	return u
}
