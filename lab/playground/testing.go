package playground

import (
	"context"
	"path/filepath"
	"testing"
)

// ForTest starts a playground for a test, and stops it when the test ends. The
// test fails if it does not start, or if it does not stop cleanly. When the
// test has failed, it says what the components logged last.
func ForTest(tb testing.TB, opts Options) *Playground {
	tb.Helper()
	// Not cancelled with the test's context: that ends before the cleanups run,
	// and those still want the control plane.
	p, err := Start(context.WithoutCancel(tb.Context()), opts)
	if err != nil {
		tb.Fatalf("start a playground: %v", err)
	}
	tb.Cleanup(func() {
		if err := p.Err(); err != nil {
			tb.Errorf("the playground did not last: %v", err)
		}
		if tb.Failed() {
			p.showLogs(tb)
		}
		if err := p.Stop(); err != nil {
			tb.Errorf("stop the playground: %v", err)
		}
	})
	return p
}

// showLogs puts the end of every log into the test's output.
func (p *Playground) showLogs(tb testing.TB) {
	tb.Helper()
	for _, name := range logNames {
		lines, err := lastLines(filepath.Join(p.state.logDir(), name), 30)
		if err == nil && lines != "" {
			tb.Logf("the end of %s:\n%s", name, lines)
		}
	}
}
