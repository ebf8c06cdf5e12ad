package ociruntime

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// asProgram is the environment variable with which the test binary runs as the program itself. Its value is the
// configuration.
const asProgram = "RUNC_SUPERCARGO_TEST"

func TestMain(m *testing.M) {
	text, ok := os.LookupEnv(asProgram)
	if !ok {
		os.Exit(m.Run())
	}
	var c Config
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = c.Run(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// fakeRunc records how it is called, one line each, and does of its work what others see. A file named after a command
// makes the command fail, or run as a script.
const fakeRunc = `#!/bin/sh
dir=$(dirname "$0")
echo "$@" >>"$dir/calls"
root= pidfile= work= command=
while [ $# -gt 0 ]; do
	case $1 in
	--root) root=$2; shift ;;
	--pid-file) pidfile=$2; shift ;;
	--work-path) work=$2; shift ;;
	--log | --log-format | --bundle | --image-path) shift ;;
	-*) ;;
	*) [ -n "$command" ] || command=$1; id=$1 ;;
	esac
	shift
done
[ ! -e "$dir/$command.sh" ] || . "$dir/$command.sh"
if [ "$command" = restore ]; then mkdir -p "$root/$id"; echo 4711 >"$pidfile"; fi
if [ "$command" = delete ]; then rm -r "$root/$id"; fi
`

// place is a node with a bundle of a container.
type place struct {
	t                            *testing.T
	dir, bundle, root, log, runc string
	folder                       restoreapi.Folder
}

func newPlace(t *testing.T, kind string) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "runc") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &place{
		t: t, dir: dir, bundle: filepath.Join(dir, "bundle"), root: filepath.Join(dir, "state"), log: filepath.Join(dir, "bundle", "log.json"),
		runc: filepath.Join(dir, "runc"), folder: restoreapi.Folder(filepath.Join(dir, "shared")),
	}
	for _, folder := range []string{filepath.Join(p.bundle, "rootfs"), p.root} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(p.runc, []byte(fakeRunc), 0o700); err != nil {
		t.Fatal(err)
	}
	spec, err := json.Marshal(map[string]any{
		"root":        map[string]string{"path": "rootfs"},
		"annotations": map[string]string{annotationType: kind, annotationPod: "uid-1", annotationContainer: "main"},
	})
	if err != nil {
		t.Fatal(err)
	}
	testfile.Write(t, filepath.Join(p.bundle, "config.json"), spec)
	if err := p.folder.Make(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) expect(uid string) {
	p.t.Helper()
	if err := p.folder.Expect(uid); err != nil {
		p.t.Fatal(err)
	}
}

// agent answers every request until the test ends.
func (p *place) agent(answer restoreapi.Answer) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- p.folder.Serve(ctx, func(_ context.Context, r restoreapi.Request) (restoreapi.Answer, error) {
			if want := (restoreapi.Request{Version: restoreapi.Version, Pod: "uid-1", Container: "main", ID: "c1"}); r != want {
				p.t.Errorf("the agent is asked %+v, want %+v", r, want)
			}
			return answer, nil
		}, func(err error) { p.t.Error(err) })
	}()
	p.t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			p.t.Error(err)
		}
	})
}

// program returns the program with a command line.
func (p *place) program(args ...string) *exec.Cmd {
	p.t.Helper()
	config, err := json.Marshal(Config{Runc: p.runc, Folder: p.folder})
	if err != nil {
		p.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.CommandContext(p.t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"="+string(config))
	return cmd
}

// create returns the command line with which containerd creates the container.
func (p *place) create() []string {
	return []string{"--root", p.root, "--log", p.log, "--log-format", "json", "create", "--bundle", p.bundle, "--pid-file", p.bundle + "/init.pid", "c1"}
}

// calls returns how runc was called, and forgets it.
func (p *place) calls() string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(p.dir, "calls"))
	return strings.ReplaceAll(string(text), p.dir, "")
}

func (p *place) wantCalls(want ...string) {
	p.t.Helper()
	if got := p.calls(); got != strings.Join(append(want, ""), "\n") {
		p.t.Errorf("runc was called as\n%swant\n%s", got, strings.Join(want, "\n"))
	}
}

func (p *place) marked() bool {
	_, err := os.Stat(filepath.Join(p.root, "c1", restoredMark))
	return err == nil
}

// TestEveryOtherContainerIsRuncs has no agent: containers that no migration moves need none.
func TestEveryOtherContainerIsRuncs(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, expected string
		args           func(*place) []string
	}{
		"no pod is expected":          {"container", "", (*place).create},
		"another pod is expected":     {"container", "uid-2", (*place).create},
		"the sandbox of the pod":      {"sandbox", "uid-1", (*place).create},
		"a flag that is not known":    {"container", "uid-1", func(p *place) []string { return append([]string{"--new", "flag"}, p.create()...) }},
		"another command":             {"container", "uid-1", func(p *place) []string { return []string{"--root", p.root, "kill", "c1", "9"} }},
		"a start of another":          {"container", "uid-1", func(p *place) []string { return []string{"--root", p.root, "start", "c1"} }},
		"a start outside of the root": {"container", "uid-1", func(p *place) []string { return []string{"--root", p.root, "start", "../c1"} }},
		"nothing":                     {"container", "uid-1", func(*place) []string { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, tc.kind)
			if tc.expected != "" {
				p.expect(tc.expected)
			}
			outside := filepath.Join(p.dir, "c1") // what "../c1" leads to
			if err := os.Mkdir(outside, 0o700); err != nil {
				t.Fatal(err)
			}
			testfile.Write(t, filepath.Join(outside, restoredMark), "")
			args := tc.args(p)
			out, err := p.program(args...).CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Errorf("it ended with %v: %s", err, out)
			}
			p.wantCalls(strings.ReplaceAll(strings.Join(args, " "), p.dir, ""))
		})
	}
}

func TestWhatRuncIsGivenAndReturnsIsPassedOn(t *testing.T) {
	p := newPlace(t, "container")
	testfile.Write(t, filepath.Join(p.dir, "exec.sh"), `cat; echo failed >&2; exit 42`)
	cmd := p.program("exec", "c1", "sh")
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("input"), &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 42 || out.String() != "input" || errs.String() != "failed\n" {
		t.Errorf("it ended with %v, %q and %q", err, out.String(), errs.String())
	}
}

func TestAStagedContainerIsRestoredAndRunsWhenItIsStarted(t *testing.T) {
	p := newPlace(t, "container")
	p.expect("uid-1")
	testfile.Write(t, filepath.Join(p.dir, "earlier.log"), "one\n")
	testfile.Write(t, filepath.Join(p.dir, "0.log"), "")
	layer := tarOf(t, file("kept", "by the container"))
	testfile.Write(t, filepath.Join(p.dir, "changes.tar"), layer)
	p.agent(restoreapi.Answer{
		Images: p.dir + "/images", Changes: filepath.Join(p.dir, "changes.tar"), EarlierLog: filepath.Join(p.dir, "earlier.log"), Log: filepath.Join(p.dir, "0.log"),
	})
	if out, err := p.program(p.create()...).CombinedOutput(); err != nil {
		t.Fatalf("create: %v: %s", err, out)
	}
	const globals = "--root /state --log /bundle/log.json --log-format json "
	p.wantCalls(
		globals+"restore --detach --no-subreaper --file-locks --image-path /images --work-path /bundle/restore --bundle /bundle --pid-file /bundle/init.pid c1",
		globals+"pause c1")
	if got := string(testfile.Read(t, filepath.Join(p.bundle, "init.pid"))); got != "4711\n" {
		t.Errorf("the file with the process ID has %q", got)
	}
	if got := string(testfile.Read(t, filepath.Join(p.bundle, "rootfs", "kept"))); got != "by the container" {
		t.Errorf("the file that the container had written has %q", got)
	}
	if got := string(testfile.Read(t, filepath.Join(p.dir, "0.log"))); got != "one\n" {
		t.Errorf("the new log starts with %q", got)
	}
	if out, err := p.program("--root", p.root, "start", "c1").CombinedOutput(); err != nil {
		t.Fatalf("start: %v: %s", err, out)
	}
	p.wantCalls("--root /state resume c1")
}

func TestAStagedContainerDoesNotStartWithoutItsCheckpoint(t *testing.T) {
	const globals = "--root /state --log /bundle/log.json --log-format json "
	const restore = globals + "restore --detach --no-subreaper --file-locks --image-path /images --work-path /bundle/restore --bundle /bundle --pid-file /bundle/init.pid c1"
	for name, tc := range map[string]struct {
		answer func(*place) restoreapi.Answer
		script map[string]string
		says   string
		calls  []string
	}{
		"the agent refuses": {func(*place) restoreapi.Answer { return restoreapi.Answer{Refused: "the migration has ended"} }, nil, "the migration has ended", nil},
		"its changes are lost": {func(p *place) restoreapi.Answer {
			return restoreapi.Answer{Images: p.dir + "/images", Changes: p.dir + "/none"}
		}, nil,
			"read the files that the container changed", nil},
		"its log is lost": {func(p *place) restoreapi.Answer {
			return restoreapi.Answer{Images: p.dir + "/images", EarlierLog: p.dir + "/none", Log: p.dir + "/0.log"}
		}, nil, "copy the earlier output", nil},
		"CRIU fails": {func(p *place) restoreapi.Answer { return restoreapi.Answer{Images: p.dir + "/images"} },
			map[string]string{"restore": `echo "(00.1) Error (criu/x.c:1): no such file" >"$work/restore.log"; exit 1`}, "Error (criu/x.c:1): no such file", []string{restore}},
		"it cannot be paused": {func(p *place) restoreapi.Answer { return restoreapi.Answer{Images: p.dir + "/images"} },
			map[string]string{"pause": `exit 1`}, "run runc", []string{restore, globals + "pause c1", globals + "delete --force c1"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, "container")
			p.expect("uid-1")
			p.agent(tc.answer(p))
			for command, text := range tc.script {
				testfile.Write(t, filepath.Join(p.dir, command+".sh"), text)
			}
			out, err := p.program(p.create()...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), tc.says) {
				t.Errorf("it ended with %v: %s, want %q", err, out, tc.says)
			}
			p.wantCalls(tc.calls...)
			p.wantLogged(tc.says)
			if p.marked() {
				t.Error("a start would resume it")
			}
		})
	}
}

// wantLogged checks runc's log as containerd reads it: the last error is what failed.
func (p *place) wantLogged(says string) {
	p.t.Helper()
	var last struct{ Level, Msg string }
	for lines := json.NewDecoder(bytes.NewReader(testfile.Read(p.t, p.log))); ; {
		if err := lines.Decode(&last); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			p.t.Fatal(err)
		}
	}
	if last.Level != "error" || !strings.Contains(last.Msg, says) || !strings.Contains(last.Msg, "container main of pod uid-1") {
		p.t.Errorf("the log says %+v, want %q", last, says)
	}
}

func TestAStagedContainerDoesNotStartIfNoAgentAnswers(t *testing.T) {
	p := newPlace(t, "container")
	p.expect("uid-1")
	call, ok := Parse(p.create())
	b, err := readBundle(p.bundle)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it has waited for as long as it may
	if err := (Config{Runc: p.runc, Folder: p.folder}).restore(ctx, call, b); err == nil || !strings.Contains(err.Error(), "agent has not answered") {
		t.Errorf("the error is %v", err)
	}
	p.wantCalls()
}

// TestRuncEndsWithTheProgram: containerd kills the program when the kubelet no longer waits. A restore that continued could
// start a container that Kubernetes has abandoned.
func TestRuncEndsWithTheProgram(t *testing.T) {
	p := newPlace(t, "container")
	p.expect("uid-1")
	p.agent(restoreapi.Answer{Images: p.dir + "/images"})
	testfile.Write(t, filepath.Join(p.dir, "restore.sh"), `echo restoring; exec sleep 1000`)
	cmd := p.program(p.create()...)
	out, in, err := os.Pipe() // not cmd.StdoutPipe, which Wait closes
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout = in
	if err := errors.Join(cmd.Start(), in.Close(), out.SetReadDeadline(time.Now().Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "restoring\n" {
		t.Fatalf("runc says %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(lines); err != nil { // the end of the output is that of runc
		t.Errorf("runc continues: %v", err)
	}
	_ = cmd.Wait() // it was killed
	if p.marked() {
		t.Error("a start would resume it")
	}
}

func TestTheConfiguration(t *testing.T) {
	program := filepath.Join(t.TempDir(), "runc-supercargo")
	if c, err := Load(program); err != nil || c != Defaults {
		t.Errorf("without a file it is %+v, %v", c, err)
	}
	testfile.Write(t, program+".json", `{"runc":"/opt/runc"}`)
	if c, err := Load(program); err != nil || c != (Config{Runc: "/opt/runc", Folder: restoreapi.DefaultFolder}) {
		t.Errorf("with a file it is %+v, %v", c, err)
	}
	testfile.Write(t, program+".json", `{"runc":`)
	if c, err := Load(program); err == nil || c != Defaults {
		t.Errorf("with half a file it is %+v, %v, want the defaults and an error", c, err)
	}
}
