package playground

import (
	"context"
	"testing"
)

// ForTest starts a playground for a test and stops it when the test ends. The test fails if the
// playground does not start or does not stop cleanly. If the test has failed, the last log lines of
// the components are printed.
func ForTest(tb testing.TB, opts Options) *Playground {
	tb.Helper()
	// The test's context ends before the cleanups run, and those still need the control plane.
	p, err := Start(context.WithoutCancel(tb.Context()), opts)
	if err != nil {
		tb.Fatalf("start a playground: %v", err)
	}
	tb.Cleanup(func() {
		if err := p.Err(); err != nil {
			tb.Errorf("the playground ended early: %v", err)
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

// showLogs prints the end of every log to the test's output.
func (p *Playground) showLogs(tb testing.TB) {
	tb.Helper()
	p.group.LastLogs(30, func(name, lines string) { tb.Logf("the end of %s:\n%s", name, lines) })
}
