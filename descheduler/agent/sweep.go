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

// sweep removes, from time to time, what has no owner: dumps and images whose entry in
// the ledger was lost with its disk. What has an entry is removed by orders, or when its Migration
// is gone. It continues until ctx ends.
func (a *Agent) sweep(ctx context.Context) error {
	ticker := a.Clock.NewTicker(a.SweepEvery)
	defer ticker.Stop()
	for {
		if err := a.sweepOnce(ctx); err != nil && ctx.Err() == nil {
			a.Log.Error(err, "Some of what was left is still there")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
}

// sweeper is a back-end that can find what it made for migrations that are not in the
// ledger, and remove it.
type sweeper interface {
	// Sweep removes what was made for migrations whose UID known does not know. It asks
	// after it has seen what there is: nothing is made before it is known.
	Sweep(ctx context.Context, known func(migration string) bool) error
}

func (a *Agent) sweepOnce(ctx context.Context) error {
	errs := []error{a.sweepDumps()}
	for name, backend := range a.backends {
		if s, ok := backend.Target.(sweeper); ok {
			if err := s.Sweep(ctx, a.knows); err != nil {
				errs = append(errs, fmt.Errorf("sweep what back-end %s has left: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// knows says whether a migration is in the ledger.
func (a *Agent) knows(migration string) bool {
	return slices.ContainsFunc(a.ledger.All(), func(entry ledger.Entry) bool { return entry.Migration == migration })
}

// uid matches the names of dumps, which are UIDs of Migrations. Nothing else in the work
// folder is touched: it may have been given by mistake.
var uid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// sweepDumps removes dumps without an owner.
func (a *Agent) sweepDumps() error {
	dirs, err := os.ReadDir(a.WorkDir)
	if err != nil {
		return fmt.Errorf("look for dumps that were left: %w", err)
	}
	var errs []error
	for _, dir := range dirs {
		if !dir.IsDir() || !uid.MatchString(dir.Name()) || a.knows(dir.Name()) {
			continue
		}
		a.Log.Info("A dump that belongs to no migration in hand is removed", "dump", dir.Name())
		if err := os.RemoveAll(filepath.Join(a.WorkDir, dir.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove a dump that was left: %w", err))
		}
	}
	return errors.Join(errs...)
}

// freeBytes is how much a file system can still take.
func freeBytes(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}
