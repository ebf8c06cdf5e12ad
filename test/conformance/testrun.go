package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"supercargo.dev/supercargo/test/conformance/shipped"
)

// The schedulers that a test program can run.
const (
	schedulerSupercargo = shipped.Supercargo
	schedulerStock      = "stock"
)

// testRun is one run of a package's test program.
type testRun struct {
	scheduler string
	log       string // part of the log's file name
	run, skip string // regular expressions of tests, or ""
}

// test runs the program in the folder of its sources, as go test does, and returns the outcome of each test.
// Failed tests are no error.
func (r *runner) test(ctx context.Context, p testPackage, program string, t testRun) (outcomes, error) {
	args := slices.Concat(r.exec, []string{program, "-test.v=test2json", "-test.timeout=" + r.timeout.String()})
	if t.run != "" {
		args = append(args, "-test.run="+t.run)
	}
	if t.skip != "" {
		args = append(args, "-test.skip="+t.skip)
	}
	log, err := os.Create(filepath.Join(r.dir, p.fileName()+"-"+t.log+".json"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	tests := exec.CommandContext(ctx, args[0], args[1:]...)
	tests.Dir = p.dir
	tests.Env = slices.Concat(os.Environ(), r.sources, []string{shipped.Env + "=" + t.scheduler})
	found, err := outcomesOf(ctx, tests, log)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("run the tests of %s: %w", p.path, err)
	}
	if len(found) == 0 && r.only == "" {
		return nil, fmt.Errorf("run the tests of %s: none was run; see %s", p.path, log.Name())
	}
	return found, nil
}

// testsFailed is the exit code of a test program that ran to its end. A program that crashes has another exit
// code, and did not run all of its tests.
const testsFailed = 1

// outcomesOf runs a test program, which must have been made with CommandContext. It converts the output with
// go tool test2json, copies it to the log, and returns the outcomes.
func outcomesOf(ctx context.Context, tests *exec.Cmd, log io.Writer) (outcomes, error) {
	translate := exec.CommandContext(ctx, "go", "tool", "test2json")
	report, reported, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer report.Close()
	tests.Stdout, tests.Stderr, translate.Stdin, translate.Stderr = reported, reported, report, os.Stderr
	events, err := translate.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, reported.Close())
	}
	// The program has its own process group, which is killed as a whole: the program does not stop its etcd
	// when it is killed.
	tests.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	tests.Cancel = func() error { return syscall.Kill(-tests.Process.Pid, syscall.SIGKILL) }
	if err := errors.Join(translate.Start(), tests.Start(), reported.Close()); err != nil {
		return nil, err
	}
	found, err := readOutcomes(io.TeeReader(events, log))
	if err != nil {
		err = fmt.Errorf("read the report: %w", err)
		_, _ = io.Copy(io.Discard, events) // let the program end
	}
	exit := tests.Wait()
	var failed *exec.ExitError
	if errors.As(exit, &failed) {
		exit = nil
	}
	if err := errors.Join(err, exit, translate.Wait()); err != nil {
		return nil, err
	}
	if failed != nil && (failed.ExitCode() != testsFailed || len(found.failed()) == 0) {
		found[wholePackage] = failedOutcome // it crashed, or left goroutines
	}
	return found, nil
}

// topLevel returns a regular expression of the top-level tests among the failed ones. If the program failed
// as a whole, it returns the expression of the run before.
func topLevel(failed []string, before string) string {
	var names []string
	for _, test := range failed {
		if test == wholePackage {
			return before
		}
		top, _, _ := strings.Cut(test, "/")
		names = append(names, regexp.QuoteMeta(top))
	}
	slices.Sort(names)
	return "^(" + strings.Join(slices.Compact(names), "|") + ")$"
}
