package dashboard

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"slices"
	"sync"

	"supercargo.dev/supercargo/cli/status"
)

// mostGone is the maximum number of deleted items that are remembered. A browser that has missed more
// starts again.
const mostGone = 10_000

// hub stores the current page, and the version of each change. Its only state for a reader is that
// reader's version: a slow reader costs no memory, and receives the current state when it is ready.
type hub struct {
	// epoch distinguishes the versions of this hub from those of an earlier process.
	epoch string

	mu      sync.Mutex
	version uint64
	items   map[itemKey]entry
	gone    []goneItem // sorted by version
	forgot  uint64     // the greatest version that was removed from gone
	changed chan struct{}
}

type itemKey struct{ section, key string }

// entry is an item and the version of its last change.
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

// put replaces the page, and wakes readers if it has changed.
func (h *hub) put(items []status.Item) {
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

// filled reports whether there is anything about the cluster.
func (h *hub) filled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.items {
		if key.section != connectionSection {
			return true
		}
	}
	return false
}

// change is a new or changed item; nil JSON means that it was deleted.
type change struct {
	itemKey
	json []byte
}

// update is a set of changes for a reader.
type update struct {
	// reset means that the reader must discard its state.
	reset   bool
	changes []change
	version uint64
	// more is closed when there is a newer version.
	more <-chan struct{}
}

// since returns the changes after a version; 0 is before all changes. An item that was created and
// deleted in between only appears as deleted.
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
