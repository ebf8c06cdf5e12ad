package detect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFeaturesAreThoseThatAllCPUsHaveAndProgramsCanUse(t *testing.T) {
	const info = `processor	: 0
flags		: fpu vme avx2 sse4_2 hypervisor avx512f md_clear popcnt

processor	: 1
flags		: popcnt sse4_2 avx2 pti
`
	got, err := parseCPUInfo(strings.NewReader(info))
	if want := []string{"avx2", "popcnt", "sse4_2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("features are %v (%v), want %v", got, err, want)
	}
}

func FuzzCPUInfo(f *testing.F) {
	f.Add("flags : avx2 sse\nflags: sse\n")
	f.Add("Features\t: fp asimd\n")
	f.Fuzz(func(t *testing.T, info string) {
		got, err := parseCPUInfo(strings.NewReader(info))
		if err == nil && !slices.IsSorted(got) {
			t.Errorf("features of %q are %v: not sorted", info, got)
		}
		for _, feature := range got {
			if !strings.Contains(info, feature) {
				t.Errorf("feature %q is not in %q", feature, info)
			}
		}
	})
}

func TestVersionsAreRead(t *testing.T) {
	for output, want := range map[string]string{"Version: 4.2.1\n": "4.2.1", "Warn: x\nVersion: v4.0\nGitID: v4.0-1\n": "4.0", "command not found": "", "": ""} {
		if got := parseCRIUVersion(output); got != want {
			t.Errorf("the version in %q is %q, want %q", output, got, want)
		}
	}
	for kernel, want := range map[string]string{"6.18.44-fc-v595": "6.18", "5.10": "5.10", "next": ""} {
		if got := Release(kernel); got != want {
			t.Errorf("the release of %q is %q, want %q", kernel, got, want)
		}
	}
}

// host creates a root folder with a program that prints a text and exits with a code.
func host(t *testing.T, script string) Host {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"opt/bin", "bin"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "opt/bin/criu"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return Host{Root: root, CRIU: "criu", Path: "/bin:/opt/bin"}
}

func TestTheProgramOfTheNodeIsFound(t *testing.T) {
	h := host(t, "")
	if got := h.find("criu"); got != "/opt/bin/criu" {
		t.Errorf("criu is found at %q", got)
	}
	if got := h.find("/opt/bin/criu"); got != "/opt/bin/criu" {
		t.Errorf("criu with its path is found at %q", got)
	}
	if got := h.find("bin"); got != "" {
		t.Errorf("a folder is found as a program: %q", got)
	}
	// On the node a symbolic link starts from the node's root, wherever the agent sees that.
	if err := os.Symlink("/opt/bin/criu", filepath.Join(h.Root, "bin/linked")); err != nil {
		t.Fatal(err)
	}
	if got := h.find("linked"); got != "/bin/linked" {
		t.Errorf("a link to criu is found at %q", got)
	}
	none := Host{Root: t.TempDir(), CRIU: "criu", Path: "/bin"}
	if version, err := none.CRIUVersion(t.Context()); version != "" || err != nil {
		t.Errorf("the version of no CRIU is %q, %v", version, err)
	}
}

func TestCRIUIsAsked(t *testing.T) {
	at := func(script string) Host {
		h := host(t, script)
		h.CRIU, h.Root = filepath.Join(h.Root, "opt/bin/criu"), "/"
		return h
	}
	good := at("#!/bin/sh\necho Version: 4.2.1\n")
	if version, err := good.CRIUVersion(t.Context()); err != nil || version != "4.2.1" {
		t.Errorf("the version is %q, %v", version, err)
	}
	if err := good.CheckCRIU(t.Context()); err != nil {
		t.Errorf("the check fails: %v", err)
	}
	bad := at("#!/bin/sh\necho Error: no pidfd\nexit 1\n")
	if _, err := bad.CRIUVersion(t.Context()); err == nil {
		t.Error("a CRIU that fails has a version")
	}
	if err := bad.CheckCRIU(t.Context()); err == nil || !strings.Contains(err.Error(), "no pidfd") {
		t.Errorf("the check says %v, want what CRIU said", err)
	} else if Interrupted(err) {
		t.Errorf("a kernel without a feature counts as a check without a result: %v", err)
	}
	full := at("#!/bin/sh\necho \"Error (criu/cr-check.c:415): Can't make inotify fd: Too many open files\"\nexit 1\n")
	if err := full.CheckCRIU(t.Context()); !Interrupted(err) || !strings.Contains(err.Error(), "inotify") {
		t.Errorf("a check that lacks a resource says %v, want what CRIU said, and no result", err)
	}
}
