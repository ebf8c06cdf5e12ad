package operator

import (
	"context"
	"errors"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// managed is a manager that does not stop before it is released.
type managed struct {
	ctrl.Manager
	reads    bool // whether its caches sync
	release  chan error
	added    manager.Runnable
	released bool
}

func (m *managed) Add(r manager.Runnable) error { m.added = r; return nil }

func (m *managed) Start(ctx context.Context) error {
	if m.reads {
		if err := m.added.Start(ctx); err != nil {
			return err
		}
	}
	err := <-m.release
	m.released = true
	return err
}

func TestAManagerThatNeverReadTheClusterIsLeftToItself(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, "autoscaler", &managed{release: make(chan error)}); err != nil {
		t.Error(err)
	}
}

func TestAManagerIsWaitedFor(t *testing.T) {
	fault := errors.New("it cannot continue")
	for name, fails := range map[string]error{"it ends": nil, "it fails": fault} {
		ctx, cancel := context.WithCancel(t.Context())
		m := &managed{reads: true, release: make(chan error)}
		ended := make(chan error)
		go func() { ended <- Run(ctx, "autoscaler", m) }()
		m.release <- fails // it has begun by now
		err := <-ended
		cancel()
		if !m.released || !errors.Is(err, fails) {
			t.Errorf("%s: %v, want %v when the manager has ended", name, err, fails)
		}
	}
}

func TestAManagerAtWorkEndsBeforeItIsLeft(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	close(begun)
	cancel()
	select {
	case <-left(ctx, begun):
		t.Error("it is left though it has begun")
	default:
	}
}
