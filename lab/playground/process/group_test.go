package process

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func newGroup(t *testing.T) *Group {
	t.Helper()
	dir := t.TempDir()
	g, err := NewGroup(dir, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Stop(func() error { return nil }) })
	return g
}

// ended records the names of components in the order in which they end.
type ended struct {
	mu    sync.Mutex
	names []string
}

func (e *ended) start(name string) *Component {
	return Start(name, KubernetesLog, func(ctx context.Context) error {
		<-ctx.Done()
		e.mu.Lock()
		defer e.mu.Unlock()
		e.names = append(e.names, name)
		return nil
	})
}

func TestComponentsStopInReverseOrderAndTheFirstLast(t *testing.T) {
	g, e := newGroup(t), &ended{}
	for _, name := range []string{"a", "b", "c", "d"} {
		if err := g.Add(e.start(name)); err != nil {
			t.Fatal(err)
		}
	}
	removed := g.Find("b")
	if err := removed.Stop(); err != nil {
		t.Fatal(err)
	}
	g.Remove(removed)
	if g.Find("b") != nil {
		t.Error("a removed component is found")
	}
	g.ToFront(g.Find("c"))
	last := func() error {
		e.names = append(e.names, "last")
		return nil
	}
	for range 2 {
		if err := g.Stop(last); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"b", "d", "a", "c", "last"}; !slices.Equal(e.names, want) {
		t.Errorf("they ended in the order %v, want %v", e.names, want)
	}
	select {
	case <-g.Done():
	default:
		t.Error("Done is open after Stop")
	}
	if err := g.Err(); err != nil {
		t.Errorf("a stopped group has the error %v", err)
	}
}

func TestNothingStartsInAStoppedGroup(t *testing.T) {
	g, e := newGroup(t), &ended{}
	if err := g.Stop(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(e.start("late")); !errors.Is(err, errStopping) || !slices.Equal(e.names, []string{"late"}) {
		t.Errorf("a component is added to a stopped group: %v; ended: %v", err, e.names)
	}
}

func TestAComponentThatEndsByItselfEndsItsGroup(t *testing.T) {
	g := newGroup(t)
	if _, err := g.Log(KubernetesLog).Write([]byte("the last words\n")); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(Start("kube-brief", KubernetesLog, func(context.Context) error { return errors.New("no room") })); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := g.Poll(ctx, func(context.Context) error { return errors.New("not yet") })
	for _, want := range []string{"run kube-brief: no room", "the end of ", "  the last words"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("waiting says %v, want %q in it", err, want)
		}
	}
	if again := g.Explain(err); again.Error() != err.Error() {
		t.Errorf("the log is quoted twice: %v", again)
	}
}
