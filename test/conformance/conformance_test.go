package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"

	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestTheCommittedListIsValid(t *testing.T) {
	if _, err := readList(committed); err != nil {
		t.Error(err)
	}
}

func TestBadListsAreRefusedNamingTheField(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown field", "differences: [{pakage: batch}]", "pakage"},
		{"no package", "differences: [{test: TestX, reason: because}]", "differences[0].package"},
		{"package not clean", "excluded: [{package: ./batch, reason: because}]", "excluded[0].package"},
		{"no reason", "differences: [{package: batch, test: TestX}]", "differences[0].reason"},
		{"no test", "differences: [{package: batch, reason: because}]", "differences[0].test"},
		{"a subtest excluded", "excluded: [{package: batch, test: TestX/y, reason: because}]", "excluded[0].test"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := readList([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error that names %s", err, tc.want)
			}
		})
	}
}

func TestExcludedTestsOfAPackage(t *testing.T) {
	l := &list{Excluded: []entry{{Package: "a"}, {Package: "b", Test: "TestX"}, {Package: "b", Test: "TestY"}}}
	for name, want := range map[string]struct {
		tests string
		whole bool
	}{"a": {"", true}, "b": {"^(TestX|TestY)$", false}, "c": {"", false}} {
		if tests, whole := l.excluded(name); tests != want.tests || whole != want.whole {
			t.Errorf("%s: %q, %t, want %q, %t", name, tests, whole, want.tests, want.whole)
		}
	}
}

func TestOutcomesOfAReport(t *testing.T) {
	for _, tc := range []struct {
		name, events string
		want         outcomes
	}{
		{"passed, failed and skipped", `
{"Action":"start"}
{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"--- PASS"}
{"Action":"pass","Test":"TestA"}
{"Action":"run","Test":"TestB"}
{"Action":"fail","Test":"TestB"}
{"Action":"run","Test":"TestC"}
{"Action":"skip","Test":"TestC"}
{"Action":"fail"}`,
			outcomes{"TestA": passedOutcome, "TestB": failedOutcome, "TestC": skippedOutcome}},
		{"a test that fails by a subtest is left out", `
{"Action":"run","Test":"TestA"}
{"Action":"run","Test":"TestA/x"}
{"Action":"run","Test":"TestA/x/y"}
{"Action":"fail","Test":"TestA/x/y"}
{"Action":"fail","Test":"TestA/x"}
{"Action":"run","Test":"TestA/z"}
{"Action":"pass","Test":"TestA/z"}
{"Action":"fail","Test":"TestA"}`,
			outcomes{"TestA/x/y": failedOutcome, "TestA/z": passedOutcome}},
		{"a test that did not end has failed", `{"Action":"run","Test":"TestA"}`, outcomes{"TestA": failedOutcome}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := readOutcomes(strings.NewReader(strings.TrimSpace(tc.events)))
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v, outcomes (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, err := readOutcomes(strings.NewReader("panic: no JSON")); err == nil {
		t.Error("text that is no report is read without an error")
	}
}

// TestAProgramThatCrashesFailsAsAWhole simulates test programs with a shell script.
func TestAProgramThatCrashesFailsAsAWhole(t *testing.T) {
	const passes, fails = `\026=== RUN   TestA\n\026--- PASS: TestA (0.00s)\n`, `\026=== RUN   TestB\n\026--- FAIL: TestB (0.00s)\nFAIL\n`
	for _, tc := range []struct {
		name, prints string
		exits        int
		want         outcomes
	}{
		{"all pass", passes + `\026PASS\n`, 0, outcomes{"TestA": passedOutcome}},
		{"one fails", passes + fails, 1, outcomes{"TestA": passedOutcome, "TestB": failedOutcome}},
		{"all pass, but goroutines are left", passes + `\026PASS\nfound unexpected goroutines\n`, 1, outcomes{"TestA": passedOutcome, wholePackage: failedOutcome}},
		{"a crash", passes + `\026=== RUN   TestB\npanic: oh\n`, 2, outcomes{"TestA": passedOutcome, "TestB": failedOutcome, wholePackage: failedOutcome}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log bytes.Buffer
			got, err := outcomesOf(t.Context(), exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf("printf '%s'; exit %d", tc.prints, tc.exits)), &log)
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v, outcomes (-want +got):\n%s", err, diff)
			}
			if !strings.Contains(log.String(), "TestA") {
				t.Errorf("the log does not hold the report: %q", log.String())
			}
		})
	}
	if _, err := outcomesOf(t.Context(), exec.CommandContext(t.Context(), "/does/not/exist"), &bytes.Buffer{}); err == nil {
		t.Error("a program that cannot start is no error")
	}
}

// TestProgramsFindFilesBesideTheirSources runs a shell script as a test program. It looks for files as Kubernetes' test
// server does, which knows its own path relative to the module cache.
func TestProgramsFindFilesBesideTheirSources(t *testing.T) {
	cache, err := goCommand(t.Context(), "env", "GOMODCACHE")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := goCommand(t.Context(), "list", "-m", "-f", "{{.Path}}@{{.Version}}", kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "looks.test")
	script := fmt.Sprintf(`#!/bin/sh
test -d "$TEST_SRCDIR/$TEST_WORKSPACE/%s/cmd/kube-apiserver/app/testing" || exit 2
printf '\026=== RUN   TestA\n\026--- PASS: TestA (0.00s)\n\026PASS\n'
`, strings.TrimSpace(sources))
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	r := &runner{dir: t.TempDir(), timeout: time.Minute, sources: sourcesEnv(strings.TrimSpace(cache))}
	found, err := r.test(t.Context(), testPackage{name: ".", dir: t.TempDir()}, program, testRun{scheduler: schedulerStock, log: "first"})
	if diff := cmp.Diff(outcomes{"TestA": passedOutcome}, found); err != nil || diff != "" {
		t.Errorf("%v, outcomes (-want +got):\n%s", err, diff)
	}
}

func TestWhatAProgramHasStartedEndsWithItWhenTheRunIsStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	began, child := filepath.Join(t.TempDir(), "child"), 0
	go func() {
		defer stop()
		_ = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			text, err := os.ReadFile(began)
			if err != nil {
				return false, nil
			}
			child, err = strconv.Atoi(strings.TrimSpace(string(text)))
			return err == nil, nil
		})
	}()
	script := fmt.Sprintf("sleep 600 & echo $! >%s; wait", began)
	_, _ = outcomesOf(ctx, exec.CommandContext(ctx, "sh", "-c", script), &bytes.Buffer{}) // a stopped run has no outcome
	if child == 0 {
		t.Fatal("the program has started nothing")
	}
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		return err != nil || strings.Contains(string(state), ") Z "), nil
	})
	if err != nil {
		t.Errorf("process %d, which the program started, still runs", child)
	}
}

func TestVerdicts(t *testing.T) {
	const pass, fail = passedOutcome, failedOutcome
	one := func(o outcome) outcomes { return outcomes{"TestA/x": o, "TestB": pass} }
	whole := outcomes{wholePackage: fail, "TestB": pass}
	listed := &list{Differences: []entry{{Package: "p", Test: "TestA/*", Reason: "by design"}}}
	for _, tc := range []struct {
		name                 string
		first, second, stock outcomes
		list                 *list
		partial              bool
		want                 []verdict
		ok                   bool
	}{
		{"all pass", one(pass), nil, nil, &list{}, false, nil, true},
		{"a new difference", one(fail), one(fail), one(pass), &list{}, false, []verdict{unexpected}, false},
		{"a listed difference", one(fail), one(fail), one(pass), listed, false, []verdict{byDesign}, true},
		{"a listed difference that is no more", one(pass), nil, nil, listed, false, []verdict{outdated}, false},
		{"the same when only some tests are run", one(pass), nil, nil, listed, true, nil, true},
		{"the same in a package that is not run", one(pass), nil, nil, &list{Differences: []entry{{Package: "q", Test: "TestA", Reason: "r"}}}, false, nil, true},
		{"it passes when run once more", one(fail), one(pass), one(pass), &list{}, false, []verdict{unstable}, true},
		{"a listed difference that comes and goes", one(fail), one(pass), one(pass), listed, false, []verdict{unstable}, true},
		{"the stock scheduler fails too", one(fail), one(fail), one(fail), &list{}, false, []verdict{failsBoth}, false},
		{"the program fails as a whole", whole, whole, one(pass), &list{}, false, []verdict{unexpected}, false},
		{"as a whole and in both", whole, whole, whole, &list{}, false, []verdict{failsBoth}, false},
		{"as a whole and once", whole, one(pass), one(pass), &list{}, false, []verdict{unstable}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r report
			r.add("p", tc.first, tc.second, tc.stock)
			r.judge(tc.list, !tc.partial)
			var got []verdict
			for _, f := range r.findings {
				got = append(got, f.verdict)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || r.ok() != tc.ok {
				t.Errorf("ok %t, want %t; verdicts (-want +got):\n%s", r.ok(), tc.ok, diff)
			}
			var table bytes.Buffer
			r.print(&table)
			for _, v := range tc.want {
				if !strings.Contains(table.String(), string(v)) {
					t.Errorf("the table does not say %q:\n%s", v, table.String())
				}
			}
		})
	}
}

func TestAStarInTheListStandsForAnyCharactersAndNothingElseIsSpecial(t *testing.T) {
	e := entry{Package: "p", Test: "TestA/b_(c:_*,_d:_true)"}
	for test, want := range map[string]bool{
		"TestA/b_(c:_false,_d:_true)": true, "TestA/b_(c:_x/y,_d:_true)": true,
		"TestA/b_(c:_false,_d:_false)": false, "TestA/b_c:_,_d:_true": false, "xTestA/b_(c:_,_d:_true)": false,
	} {
		if got := e.covers("p", test); got != want {
			t.Errorf("%s: covered %t, want %t", test, got, want)
		}
	}
	if e.covers("q", "TestA/b_(c:_,_d:_true)") {
		t.Error("a test of another package is covered")
	}
}

func TestFailedTestsAreRunOnceMoreByTheirTopLevelNames(t *testing.T) {
	for _, tc := range []struct {
		failed []string
		want   string
	}{
		{[]string{"TestA/x", "TestA/y/z", "TestB"}, "^(TestA|TestB)$"},
		{[]string{wholePackage}, "before"},
	} {
		if got := topLevel(tc.failed, "before"); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.failed, got, tc.want)
		}
	}
}

func TestCallsAndImportsOfKubernetesTestsAreTurnedAside(t *testing.T) {
	const shippedImport = "import conformancehooks \"supercargo.dev/supercargo/test/conformance/shipped\"\n\n"
	for _, tc := range []struct {
		name, text, want string
		starts           int
	}{
		{"imports of what moves", "package x\n\nimport (\n\t\"k8s.io/kubernetes/test/integration/framework\"\n\tu \"k8s.io/kubernetes/test/integration/util\"\n" +
			"\ts \"k8s.io/kubernetes/test/integration/scheduler/queueing\"\n)\n",
			"package x\n\nimport (\n\t\"k8s.io/kubernetes/test/integration/framework\"\n" +
				"\tu \"supercargo.dev/supercargo/test/conformance/suite/test/integration/util\"\n" +
				"\ts \"supercargo.dev/supercargo/test/conformance/suite/test/integration/scheduler/queueing\"\n)\n", 0},
		{"calls", "package x\n\nimport \"s\"\n\nvar a = scheduler.New(1)\nvar b = scheduler.WithFrameworkOutOfTreeRegistry(r)\n",
			"package x\n\n" + shippedImport + "import \"s\"\n\nvar a = conformancehooks.NewScheduler(1)\nvar b = conformancehooks.WithRegistry(r)\n", 1},
		{"nothing else", "package x\n\nimport \"s\"\n\nvar a = scheduler.NewInformerFactory(1)\n", "package x\n\nimport \"s\"\n\nvar a = scheduler.NewInformerFactory(1)\n", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, starts, err := change(tc.text)
			if diff := cmp.Diff(tc.want, got); err != nil || starts != tc.starts || diff != "" {
				t.Errorf("%v, %d starts, want %d; text (-want +got):\n%s", err, starts, tc.starts, diff)
			}
		})
	}
	if _, _, err := change("package x\nvar a = scheduler.New(1)\n"); err == nil {
		t.Error("a file without imports is changed")
	}
}

func TestAKubernetesInWhichNothingStartsASchedulerIsRefused(t *testing.T) {
	sources := t.TempDir()
	for _, dir := range []string{suiteDir, utilDir} {
		if err := os.MkdirAll(filepath.Join(sources, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sources, dir, "a.go"), []byte("package x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := writeOverlay(sources, "/module", t.TempDir()); err == nil || !strings.Contains(err.Error(), "scheduler.New") {
		t.Errorf("got %v, want an error that names what is missing", err)
	}
}

// TestTheOverlayFitsTheKubernetesOfThisModule reads the module cache.
func TestTheOverlayFitsTheKubernetesOfThisModule(t *testing.T) {
	sources, err := goCommand(t.Context(), "list", "-m", "-f", "{{.Dir}}", kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	sources = strings.TrimSpace(sources)
	at, err := writeOverlay(sources, "/module", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text := testfile.Read(t, at)
	var overlay struct{ Replace map[string]string }
	testfile.JSON(t, text, &overlay)
	for _, tc := range []struct {
		file    string
		changed bool
	}{{utilDir + "/util.go", true}, {suiteDir + "/batch/batch_test.go", true}, {suiteDir + "/batch/main_test.go", false}} {
		at := overlay.Replace["/module/"+virtualDir+"/"+tc.file]
		if own := filepath.Join(sources, tc.file); at == "" || (at != own) != tc.changed {
			t.Errorf("%s is read from %q; changed: want %t", tc.file, at, tc.changed)
		}
	}
}
