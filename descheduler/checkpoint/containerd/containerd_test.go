package containerd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFolderForTheOldRootIsSearched(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(root string) error
		want bool
	}{
		"an image FROM scratch":     {func(string) error { return nil }, false},
		"an image with /tmp":        {func(root string) error { return os.Mkdir(filepath.Join(root, "tmp"), 0o700) }, true},
		"a file of that name":       {func(root string) error { return os.WriteFile(filepath.Join(root, "tmp"), nil, 0o600) }, false},
		"a link of that name to it": {func(root string) error { return os.Symlink("/", filepath.Join(root, "tmp")) }, false},
	} {
		root := t.TempDir()
		if err := tc.make(root); err != nil {
			t.Fatal(err)
		}
		if got, err := hasTmp(root); err != nil || got != tc.want {
			t.Errorf("%s: there is a folder: %v (%v), want %v", name, got, err, tc.want)
		}
	}
}

func TestTheProgramThatContainerdStartsIsRead(t *testing.T) {
	const own = `{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"BinaryName":"/opt/runc-supercargo"}},"other":{"options":{"BinaryName":"/usr/bin/crun"}}}}}`
	tests := []struct{ name, config, want string }{
		{"the default runtime counts", own, "/opt/runc-supercargo"},
		{"another default", strings.Replace(own, `"defaultRuntimeName":"runc"`, `"defaultRuntimeName":"other"`, 1), "/usr/bin/crun"},
		{"no program is named", `{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"SystemdCgroup":true}}}}}`, ""},
		{"no such runtime", `{"containerd":{"defaultRuntimeName":"none"}}`, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := runtimeProgram(tc.config); err != nil || got != tc.want {
				t.Errorf("the program is %q (%v), want %q", got, err, tc.want)
			}
		})
	}
	if _, err := runtimeProgram("no JSON"); err == nil {
		t.Error("what is no configuration was read")
	}
}

func TestALogThatIsTooLongIsLeftOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "0.log")
	for size, want := range map[int64]int64{0: 0, 5: 5, maxLogBytes: maxLogBytes, maxLogBytes + 1: 0} {
		f, err := os.Create(file)
		if err == nil {
			err = f.Truncate(size)
		}
		if err != nil {
			t.Fatal(err, f.Close())
		}
		if got := logBytes(file); got != want {
			t.Errorf("of %d bytes %d are sent, want %d", size, got, want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := logBytes(filepath.Join(t.TempDir(), "none")); got != 0 {
		t.Errorf("of no log %d bytes are sent", got)
	}
}
