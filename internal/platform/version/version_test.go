package version_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/internal/platform/version"
)

func TestUnlinkedBinaryIsDevel(t *testing.T) {
	if version.Version != "devel" {
		t.Errorf("Version = %q in a test binary, want %q", version.Version, "devel")
	}
}

// TestLinkerSetsVersion fails if the variable is renamed or becomes a constant: the linker ignores an -X for an unknown
// name, and every binary would silently report devel.
func TestLinkerSetsVersion(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "print")
	build := exec.Command("go", "build", "-o", exe,
		"-ldflags=-X supercargo.dev/supercargo/internal/platform/version.Version=v1.2.3", "./testdata/print")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	out, err := exec.Command(exe).Output()
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if got := strings.TrimSpace(string(out)); got != "v1.2.3" {
		t.Errorf("linked version = %q, want %q", got, "v1.2.3")
	}
}
