package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// compile builds testdata/hello for linux/arch and returns the file's path.
func compile(t *testing.T, arch string, flags ...string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "hello")
	args := append([]string{"build", "-o", exe}, flags...)
	cmd := exec.Command("go", append(args, "./testdata/hello")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return exe
}

// write runs the command as `make images` does and returns the path of the tar.
func write(t *testing.T, binary string, more ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "sub", "image.tar")
	args := []string{"-binary", binary, "-tag", "supercargo/hello:v1", "-version", "v1", "-revision", "abc", "-created", "1700000000", "-out", out}
	if err := run(append(args, more...)); err != nil {
		t.Fatalf("run: %v", err)
	}
	return out
}

func TestSameSourceGivesSameBytes(t *testing.T) {
	binary := compile(t, "amd64")
	first, err := os.ReadFile(write(t, binary))
	if err != nil {
		t.Fatal(err)
	}
	// The image must not depend on the file's own time and mode.
	if err := os.Chtimes(binary, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(binary, 0o700); err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(write(t, binary))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("two images of one binary differ")
	}
}

func TestImageRunsTheBinaryAsNonRoot(t *testing.T) {
	image, err := tarball.ImageFromPath(write(t, compile(t, "arm64"), "-platform", "linux/arm64"), nil)
	if err != nil {
		t.Fatalf("read the tar back: %v", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := file.OS+"/"+file.Architecture, "linux/arm64"; got != want {
		t.Errorf("platform = %s, want %s", got, want)
	}
	if got, want := file.Config.User, "65532:65532"; got != want {
		t.Errorf("user = %q, want %q", got, want)
	}
	if got, want := file.Config.Entrypoint, []string{"/usr/local/bin/hello"}; !slices.Equal(got, want) {
		t.Errorf("entrypoint = %q, want %q", got, want)
	}
	for label, want := range map[string]string{
		"org.opencontainers.image.title":    "hello",
		"org.opencontainers.image.version":  "v1",
		"org.opencontainers.image.revision": "abc",
		"org.opencontainers.image.created":  "2023-11-14T22:13:20Z",
	} {
		if got := file.Config.Labels[label]; got != want {
			t.Errorf("label %s = %q, want %q", label, got, want)
		}
	}
}

func TestImageHoldsTheBinaryAndNothingElse(t *testing.T) {
	binary := compile(t, "amd64")
	image, err := tarball.ImageFromPath(write(t, binary), nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	flat := mutate.Extract(image)
	defer func() {
		if err := flat.Close(); err != nil {
			t.Error(err)
		}
	}()
	var files []string
	for entries := tar.NewReader(flat); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		files = append(files, header.Name)
		if header.Mode != 0o755 || header.Uid != 0 {
			t.Errorf("%s: mode %o owner %d, want 755 owned by root", header.Name, header.Mode, header.Uid)
		}
		if got, err := io.ReadAll(entries); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: content differs from the binary (%v)", header.Name, err)
		}
	}
	if wantFiles := []string{"usr/local/bin/hello"}; !slices.Equal(files, wantFiles) {
		t.Errorf("files = %q, want %q", files, wantFiles)
	}
}

func TestWhatCannotStartOnScratchIsRefused(t *testing.T) {
	text := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, binary, platform, want string }{
		{"dynamically linked", compile(t, "amd64", "-buildmode=pie"), "linux/amd64", "dynamically linked"},
		{"another architecture", compile(t, "arm64"), "linux/amd64", "EM_AARCH64"},
		{"architecture we do not know", compile(t, "amd64"), "linux/riscv64", "riscv64"},
		{"not a binary", text, "linux/amd64", "read binary"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := run([]string{"-binary", tc.binary, "-tag", "a/b:c", "-platform", tc.platform, "-out", filepath.Join(t.TempDir(), "x")})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want one about %q", err, tc.want)
			}
		})
	}
}

func TestMissingAndMalformedFlags(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"-binary", "x", "-tag", "Upper/Case:v1", "-out", "y"},
		{"-binary", "x", "-tag", "a/b:c", "-platform", "a/b/c/d", "-out", "y"},
		{"-binary", "does-not-exist", "-tag", "a/b:c", "-out", "y"},
	} {
		if err := run(args); err == nil {
			t.Errorf("run(%q) succeeded", args)
		}
	}
}
