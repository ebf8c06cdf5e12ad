//go:build linux

package fleet

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is the fleet that all tests of a package share. The first test that needs it starts it; a test that
// kills a part starts the part again.
type Shared struct {
	started bool
	start   func() (*Fleet, error)
}

// NewShared returns a fleet that config specifies when it starts.
func NewShared(config func() (Config, error)) *Shared {
	return &Shared{start: sync.OnceValues(func() (*Fleet, error) {
		c, err := config()
		if err != nil {
			return nil, err
		}
		return Start(context.Background(), c)
	})}
}

// Get returns the fleet. Tests call it one after another.
func (s *Shared) Get(tb testing.TB) *Fleet {
	tb.Helper()
	s.started = true
	f, err := s.start()
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// Main runs the tests of a package, stops the fleet, and returns the exit code.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	if !s.started {
		return code
	}
	f, err := s.start()
	if err != nil {
		return max(code, 1)
	}
	if err := f.Stop(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}
