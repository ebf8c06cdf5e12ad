package ociruntime

import (
	"os"
	"path/filepath"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestTheProgramInstallsItself(t *testing.T) {
	program := filepath.Join(t.TempDir(), "runc-supercargo")
	folder := filepath.Join(t.TempDir(), "opt", "bin")
	to := filepath.Join(folder, "runc-supercargo")
	var last os.FileInfo
	for _, tc := range []struct {
		name, text string
		replaces   bool
	}{{"the first", "one", true}, {"the same", "one", false}, {"another", "two", true}} {
		testfile.Write(t, program, tc.text)
		if err := Install(program, folder); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(to)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(testfile.Read(t, to)); got != tc.text || info.Mode() != 0o755 {
			t.Errorf("%s: it has %q and mode %v", tc.name, got, info.Mode())
		}
		// A program that runs is not written to: its file is replaced.
		if replaced := last == nil || !os.SameFile(last, info); replaced != tc.replaces {
			t.Errorf("%s: replaced: %v, want %v", tc.name, replaced, tc.replaces)
		}
		last = info
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	if err := Install(filepath.Join(folder, "none"), folder); err == nil {
		t.Error("a program that does not exist is installed")
	}
}
