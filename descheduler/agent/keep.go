package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
	"supercargo.dev/supercargo/descheduler/checkpoint/transport"
)

// kept are the memory pages that came before a checkpoint. Their file has no name, so nothing is left of it when the agent
// ends, however it ends.
type kept struct {
	file *os.File
	// room is how large it may become, in bytes, and so what it counts against the limits of the node.
	room  int64
	pages int64
	// token identifies the pages; empty while they arrive.
	token string
}

// unnamed matches the files of pages that an agent was killed before it removed.
const unnamed = "pages-*.tmp"

// removeUnnamed removes what is left of an agent that was killed.
func removeUnnamed(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, unnamed))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	if err != nil {
		return fmt.Errorf("remove the memory pages of an earlier agent: %w", err)
	}
	return nil
}

// keep keeps the pages that the source sends before the freeze, in place of earlier ones.
func (a *Agent) keep(ctx context.Context, s transport.Session, body transport.Body) (answer transport.Kept, err error) {
	err = a.receiving(ctx, s, body, func(ctx context.Context, entry ledger.Entry) (bool, error) {
		if entry.Stage != terms.Expecting || entry.Staged != nil {
			return false, transport.ErrNotNow
		}
		answer, err = a.keepOnly(entry, cancellable{body, ctx})
		if err != nil {
			a.dropPages(entry.ID)
		}
		return false, err // the migration continues without
	})
	return answer, err
}

// keepOnly is keep while no other action changes the entry.
func (a *Agent) keepOnly(entry ledger.Entry, pages io.Reader) (transport.Kept, error) {
	a.dropPages(entry.ID)
	k := &kept{room: roomFor(entry.MemoryBytes, a.Limits.ImageBytes)}
	if err := a.roomToKeep(entry, k.room); err != nil {
		return transport.Kept{}, err
	}
	var err error
	if k.file, err = os.CreateTemp(a.StateDir, unnamed); err != nil {
		return transport.Kept{}, fmt.Errorf("keep memory pages: %w", err)
	}
	a.mu.Lock()
	a.kept[entry.ID] = k
	a.mu.Unlock()
	if err := os.Remove(k.file.Name()); err != nil {
		return transport.Kept{}, fmt.Errorf("keep memory pages: %w", err)
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{k.file}, io.LimitReader(pages, k.room+1), make([]byte, 256<<10))
	switch {
	case err != nil:
		return transport.Kept{}, fmt.Errorf("keep memory pages: %w", err)
	case n > k.room || n%checkpoint.PageBytes != 0:
		return transport.Kept{}, checkpoint.Fail(v1alpha1.MigrationReasonInvalidArchive, "%d bytes arrived before the checkpoint, which must be whole pages and at most %d bytes", n, k.room)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	k.pages, k.token = n/checkpoint.PageBytes, rand.Text()
	return transport.Kept{Token: k.token, Pages: k.pages}, nil
}

// roomToKeep fails if there is no room for pages besides the checkpoint that follows, and those that others expect.
func (a *Agent) roomToKeep(entry ledger.Entry, room int64) error {
	images, bytes := a.othersStaged(entry.ID)
	if err := a.fits(images+1, bytes+entry.MemoryBytes+room); err != nil {
		return err
	}
	free, err := freeBytes(a.StateDir)
	if err != nil {
		return fmt.Errorf("measure the free space of the state folder: %w", err)
	}
	for _, other := range a.ledger.All() {
		if other.Role == ledger.TargetRole && other.ID != entry.ID && other.Stage == terms.Expecting {
			free -= other.MemoryBytes
		}
	}
	if entry.MemoryBytes+room > free {
		return checkpoint.Fail(v1alpha1.MigrationReasonNoRoom, "the disk of --state-dir has no room for memory pages besides the checkpoint: %d bytes are free that no other migration needs", max(free, 0))
	}
	return nil
}

// earlyPages returns the pages with a token.
func (a *Agent) earlyPages(s transport.Session, token string) (transport.EarlyPages, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.kept[targetID(s)]
	if k == nil || k.token == "" || k.token != token {
		return transport.EarlyPages{}, false
	}
	return transport.EarlyPages{File: k.file, Pages: k.pages}, true
}

// keptBytes returns what the pages of a migration count against the limits of the node. The caller holds mu.
func (a *Agent) keptBytes(id ledger.ID) int64 {
	if k := a.kept[id]; k != nil {
		return k.room
	}
	return 0
}

// dropPages removes the pages that came before a checkpoint.
func (a *Agent) dropPages(id ledger.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.kept[id]; k != nil {
		_ = k.file.Close() // what was written is not needed
		delete(a.kept, id)
	}
}

// targetID returns the entry of the session of a source.
func targetID(s transport.Session) ledger.ID {
	return ledger.ID{Migration: s.Migration, Node: s.Node, Role: ledger.TargetRole}
}
