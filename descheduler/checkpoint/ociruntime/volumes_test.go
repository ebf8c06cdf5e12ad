package ociruntime

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"supercargo.dev/supercargo/descheduler/checkpoint/podvolumes"
	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
	"supercargo.dev/supercargo/descheduler/checkpoint/upper"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// archived archives a folder as a volume.
func archived(t *testing.T, dir string, skip ...string) []byte {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }() // nothing was written to it
	v, out := upper.Volume{Root: root, Skip: map[string]bool{}}, bytes.Buffer{}
	for _, path := range skip {
		v.Skip[path] = true
	}
	if err := v.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func fillFolder(t *testing.T, dir string, files []byte) error {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }() // nothing was written to it
	return fillVolume(bytes.NewReader(files), root)
}

func TestAVolumeIsFilledWithWhatItHad(t *testing.T) {
	from := rootOf(t, map[string]string{"a": "1", "d/.wh.b": "2", "d/.wh..wh..opq": "3", "other/x": "4", "empty": ""})
	for _, err := range []error{
		os.Link(filepath.Join(from, "a"), filepath.Join(from, "d/second")), os.Symlink("/etc", filepath.Join(from, "link")),
		unix.Mkfifo(filepath.Join(from, "pipe"), 0o600), unix.Mknod(filepath.Join(from, "socket"), unix.S_IFSOCK|0o600, 0),
		os.Chmod(from, 0o710),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	to := rootOf(t, nil)
	for range 2 { // a runtime that was killed starts over
		if err := fillFolder(t, to, archived(t, from, "other")); err != nil {
			t.Fatal(err)
		}
		if got, want := listing(t, to), "a=1 d/ d/.wh..wh..opq=3 d/.wh.b=2 d/second=1 empty= link->/etc pipe:p"; got != want {
			t.Errorf("it has %q, want %q", got, want)
		}
	}
	one, err := os.Stat(filepath.Join(to, "a"))
	two, again := os.Stat(filepath.Join(to, "d/second"))
	if err != nil || again != nil || !os.SameFile(one, two) {
		t.Errorf("a file with two names is two files (%v, %v)", err, again)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o710 {
		t.Errorf("the folder has another mode: %v (%v)", info.Mode(), err)
	}
}

// TestHolesAreNotSent has a file that would not fit on any disk.
func TestHolesAreNotSent(t *testing.T) {
	const size, at = 1 << 40, 1 << 39
	from, to := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"data": "here", "hole": ""} {
		f, err := os.Create(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt([]byte(text), at)
		if truncated := f.Truncate(size); err != nil || truncated != nil || f.Close() != nil {
			t.Fatal(err, truncated)
		}
	}
	files := archived(t, from)
	if len(files) > 64<<10 {
		t.Errorf("the archive has %d bytes", len(files))
	}
	if err := fillFolder(t, to, files); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"data": "\x00here\x00", "hole": "\x00\x00\x00\x00\x00\x00"} {
		f, err := os.Open(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got := make([]byte, len(want))
		if _, err := f.ReadAt(got, at-1); err != nil || string(got) != want {
			t.Errorf("%s has %q (%v), want %q", name, got, err, want)
		}
		var stat unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &stat); err != nil || stat.Size != size || stat.Blocks > 128 {
			t.Errorf("%s has %d bytes in %d blocks (%v)", name, stat.Size, stat.Blocks, err)
		}
	}
}

// TestAVolumeIsFilledOnlyWhereThePodHasOneOfItsOwn: the checkpoint comes from another node.
func TestAVolumeIsFilledOnlyWhereThePodHasOneOfItsOwn(t *testing.T) {
	base := t.TempDir()
	own, shared := filepath.Join(base, "pods/new/volumes/kubernetes.io~empty-dir/v"), filepath.Join(base, "nfs")
	for _, dir := range []string{own, shared} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	spec, err := json.Marshal(map[string]any{"mounts": []podvolumes.Mount{{Destination: "/own", Source: own, Type: "bind"}, {Destination: "/shared", Source: shared, Type: "bind"}}})
	if err != nil {
		t.Fatal(err)
	}
	testfile.Write(t, filepath.Join(base, "config.json"), string(spec))
	files := filepath.Join(base, "files.tar")
	testfile.Write(t, files, string(archived(t, rootOf(t, map[string]string{"a": "1"}))))
	for destination, ok := range map[string]bool{"/own": true, "/shared": false, "/": false, "/own/../shared": false} {
		if err := fillVolumes(base, "new", []restoreapi.Volume{{Destination: destination, Files: files}}); (err == nil) != ok {
			t.Errorf("%s is filled: %v", destination, err)
		}
	}
	if got := listing(t, own) + "|" + listing(t, shared); got != "a=1|" {
		t.Errorf("they have %q", got)
	}
	if err := fillVolumes(base, "other", []restoreapi.Volume{{Destination: "/own", Files: files}}); err == nil {
		t.Error("that of another pod is filled")
	}
}

func TestASparseFileHasNoPartBeyondItsEnd(t *testing.T) {
	for name, where := range map[string]string{
		"beyond":        "\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x01x",
		"partly beyond": "\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x02xx",
		"before":        "\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01x",
		"of less":       "\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff",
		"cut":           "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02x",
		"cut early":     "\x00\x00\x00",
	} {
		for size, ok := range map[string]bool{"8": false, "-1": false, "x": false} {
			e := file("f", where)
			e.PAXRecords = map[string]string{upper.SparseRecord: size}
			if err := fillFolder(t, t.TempDir(), tarOf(t, e)); (err == nil) != ok {
				t.Errorf("%s, size %s: %v", name, size, err)
			}
		}
	}
	e := file("f", "")
	e.PAXRecords = map[string]string{upper.SparseRecord: "8"}
	dir := t.TempDir()
	if err := fillFolder(t, dir, tarOf(t, e)); err != nil || listing(t, dir) != "f="+strings.Repeat("\x00", 8) {
		t.Errorf("a hole is %q (%v)", listing(t, dir), err)
	}
}
