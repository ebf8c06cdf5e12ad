package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// makes returns a make command for the repository, without the flags of the make that runs the tests. It
// reads the files that make will read, so that the go command reruns a test when they change.
func makes(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	for _, file := range []string{"/Makefile", "/hack/build-programs.sh"} {
		if _, err := os.ReadFile(root + file); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("make", append([]string{"-C", root, "--no-print-directory"}, args...)...)
	cmd.Env = append(os.Environ(), "MAKEFLAGS=")
	return cmd
}

// TestMakeDemoSaysFirstThatItTakesMinutes runs make demo without building anything.
func TestMakeDemoSaysFirstThatItTakesMinutes(t *testing.T) {
	text, err := makes(t, "-n", "demo").CombinedOutput()
	if err != nil {
		t.Fatalf("make -n demo: %v\n%s", err, text)
	}
	var said []string
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "Building ") || strings.HasPrefix(line, "building ") {
			said = append(said, line)
		}
	}
	if len(said) != 12 || !strings.HasPrefix(said[0], "Building supercargo.") || !strings.HasPrefix(said[2], "Building 9 programs.") ||
		!strings.Contains(said[0], "minutes") || !strings.Contains(said[2], "minutes") || said[3] != "building 1 of 9: kube-scheduler …" {
		t.Errorf("it says %q, want how long it takes, and then each of ten programs", said)
	}
	if bill := strings.Index(string(text), "audit -f"); bill < 0 || bill > strings.Index(string(text), said[2]) {
		t.Errorf("it shows no bill before it builds what takes longest:\n%s", text)
	}
	if !strings.HasSuffix(strings.TrimSpace(string(text)), "bin/supercargo demo") {
		t.Errorf("it does not end with the demo:\n%s", text)
	}
}

// TestABuildSaysHowFarItIs checks that a build reports each program, that it is still running, and how long
// it took, and that it ends as soon as a program fails.
func TestABuildSaysHowFarItIs(t *testing.T) {
	build := filepath.Join(t.TempDir(), "build")
	script := "#!/bin/sh\ncase $1 in *slow) sleep 2;; *bad) exit 7;; esac\n"
	if err := os.WriteFile(build, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(root+"/hack/build-programs.sh", build, "bin/quick", "bin/slow", "bin/bad", "bin/never")
	cmd.Env = append(os.Environ(), "BUILD_HEARTBEAT=1")
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%v, want exit code 7, that of the build that failed", err)
	}
	want := regexp.MustCompile(`^Building 4 programs\..*minutes.*
building 1 of 4: quick …
built quick in \d s
building 2 of 4: slow …
(?:building 2 of 4: slow … \d s so far\n)+built slow in \d s
building 3 of 4: bad …
$`)
	if !want.Match(text) {
		t.Errorf("it says\n%s", text)
	}
}
