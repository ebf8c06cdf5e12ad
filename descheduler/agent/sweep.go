package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
)

// sweep periodically removes dumps and images without an owner, whose ledger entry was lost with
// its disk, until ctx ends. Those with an entry are removed by orders, or when their Migration is
// gone.
func (a *Agent) sweep(ctx context.Context) error {
	ticker := a.Clock.NewTicker(a.SweepEvery)
	defer ticker.Stop()
	for {
		if err := a.sweepOnce(ctx); err != nil && ctx.Err() == nil {
			a.Log.Error(err, "Failed to remove all leftovers")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
}

// sweeper is a back-end that can find and remove what it made for migrations that are not in the
// ledger.
type sweeper interface {
	// Sweep removes what was made for migrations that known does not report. It calls known after
	// it has listed what exists: the ledger has an entry before anything is made.
	Sweep(ctx context.Context, known func(migration string) bool) error
}

func (a *Agent) sweepOnce(ctx context.Context) error {
	errs := []error{a.sweepDumps(), a.sweepPods()}
	for name, backend := range a.backends {
		if s, ok := backend.Target.(sweeper); ok {
			if err := s.Sweep(ctx, a.knows); err != nil {
				errs = append(errs, fmt.Errorf("remove the leftovers of back-end %s: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// knows reports whether a migration is in the ledger.
func (a *Agent) knows(migration string) bool {
	return slices.ContainsFunc(a.ledger.All(), func(entry ledger.Entry) bool { return entry.Migration == migration })
}

// uid matches the names of dumps, which are UIDs of Migrations. Nothing else in the work folder
// is removed: the folder may have been given by mistake.
var uid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// sweepDumps removes dumps without an owner.
func (a *Agent) sweepDumps() error {
	dirs, err := os.ReadDir(a.WorkDir)
	if err != nil {
		return fmt.Errorf("list leftover dumps: %w", err)
	}
	var errs []error
	for _, dir := range dirs {
		if !dir.IsDir() || !uid.MatchString(dir.Name()) || a.knows(dir.Name()) {
			continue
		}
		a.Log.Info("Removing a dump that belongs to no current migration", "dump", dir.Name())
		if err := os.RemoveAll(filepath.Join(a.WorkDir, dir.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove a leftover dump: %w", err))
		}
	}
	return errors.Join(errs...)
}

// freeBytes returns the free bytes of a file system.
func freeBytes(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil //nolint:unconvert // Bsize has another type on macOS
}

// isFull reports whether an error says that a disk is full.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
