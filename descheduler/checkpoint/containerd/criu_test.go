package containerd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/api/types/task"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// ticking is a clock on which nobody waits: a timer moves it on and fires at once.
type ticking struct {
	*clocktesting.FakeClock
	tick func(time.Time) // called with the time of each timer, unless it is nil
}

func (c *ticking) After(d time.Duration) <-chan time.Time {
	c.Step(d)
	if c.tick != nil {
		c.tick(c.Now())
	}
	fired := make(chan time.Time, 1)
	fired <- c.Now()
	return fired
}

// hung returns a client of a node on which CRIU does not end by itself.
func hung(t *testing.T, clk clock.Clock) *Client {
	t.Helper()
	hangs := make(chan struct{})
	t.Cleanup(func() { close(hangs) })
	return &Client{
		Options: Options{Proc: "/proc", Clock: clk}, tasks: hostTasks{host: &host{state: task.Status_RUNNING, hangs: hangs}},
	}
}

// TestACRIUThatWritesMayTakeAnyTime has a CRIU write its log for an hour, and then nothing more.
func TestACRIUThatWritesMayTakeAnyTime(t *testing.T) {
	dir := t.TempDir()
	began := time.Unix(0, 0)
	clk := &ticking{FakeClock: clocktesting.NewFakeClock(began)}
	clk.tick = func(now time.Time) {
		if now.Sub(began) <= time.Hour && now.Sub(began)%(dumpStall-dumpPoll) == 0 {
			testfile.Write(t, filepath.Join(dir, "dump.log"), strings.Repeat("x", int(now.Sub(began).Seconds())))
		}
	}
	err := hung(t, clk).criu(t.Context(), container, dir, dir, dir)
	if f := checkpoint.AsFailure(err); f == nil || !strings.Contains(f.Message, "written nothing") {
		t.Errorf("it ends with %v", err)
	}
	if lasted := clk.Since(began); lasted < time.Hour || lasted > time.Hour+2*dumpStall {
		t.Errorf("it was ended after %s, want it when it has written nothing for %s", lasted, dumpStall)
	}
}

// TestACancelledDumpEndsCRIU has a process that stands in for CRIU.
func TestACancelledDumpEndsCRIU(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(workOf(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	criu := exec.Command("sleep", "1000000")
	criu.Dir = workOf(dir)
	if err := criu.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- criu.Wait() }()
	t.Cleanup(func() { _ = criu.Process.Kill() }) // it has ended, unless the test failed
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	clk := &ticking{FakeClock: clocktesting.NewFakeClock(time.Unix(0, 0))}
	if err := hung(t, clk).criu(ctx, container, dir, dir, workOf(dir)); !errors.Is(err, context.Canceled) || checkpoint.AsFailure(err) != nil {
		t.Errorf("it ends with %v", err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("CRIU ended with %v", err)
	}
}

// TestADumpThatEndsSoonIsNotKilled: what CRIU injects when it begins would stay in the process. The program that stands in
// for CRIU ends when its input does.
func TestADumpThatEndsSoonIsNotKilled(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(workOf(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	criu := exec.Command("cat")
	criu.Dir = workOf(dir)
	input, err := criu.StdinPipe()
	if err := errors.Join(err, criu.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = criu.Process.Kill() })
	clk := &ticking{FakeClock: clocktesting.NewFakeClock(time.Unix(0, 0))}
	began := clk.Now()
	ended := false
	clk.tick = func(now time.Time) {
		if ended || now.Sub(began) < endGrace/2 {
			return
		}
		ended = true
		if err := errors.Join(input.Close(), criu.Wait()); err != nil {
			t.Errorf("it ends with %v, want that it ends by itself", err)
		}
	}
	if err := hung(t, clk).Interrupt(t.Context(), container, dir); err != nil || !ended {
		t.Errorf("interrupted with %v before it had ended: %t", err, !ended)
	}
}

func TestWhatTakesADumpIsFound(t *testing.T) {
	proc, dir := t.TempDir(), filepath.Join(t.TempDir(), "uid")
	if got, err := dumping(proc, dir); err != nil || len(got) > 0 {
		t.Errorf("without a dump there are %v (%v)", got, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	for pid, tc := range map[int]struct{ cwd, line string }{
		10: {workOf(dir), "criu\x00swrk\x003\x00"},
		11: {other, "runc\x00checkpoint\x00--work-path\x00" + workOf(dir) + "\x00id\x00"},
		12: {dir, "criu\x00swrk\x003\x00"},
		13: {other, "runc\x00checkpoint\x00--work-path\x00" + workOf(other) + "\x00id\x00"},
		14: {"/gone", ""},
	} {
		folder := filepath.Join(proc, strconv.Itoa(pid))
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(tc.cwd, filepath.Join(folder, "cwd")); err != nil {
			t.Fatal(err)
		}
		testfile.Write(t, filepath.Join(folder, "cmdline"), tc.line)
	}
	if got, err := dumping(proc, dir); err != nil || len(got) != 2 || got[0] != 10 || got[1] != 11 {
		t.Errorf("processes %v (%v) take the dump, want those whose working directory or argument is its folder: 10 and 11", got, err)
	}
}
