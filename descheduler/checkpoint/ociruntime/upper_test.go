package ociruntime

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/descheduler/checkpoint/upper"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// inNamespace says that a test runs in a namespace of its own, in which it may mount.
const inNamespace = "SUPERCARGO_TEST_NAMESPACE"

// namespaced runs a test again in a mount namespace, and reports whether this is the second run.
func namespaced(t *testing.T) bool {
	if os.Getenv(inNamespace) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// overlay mounts a folder over another, and returns the upper folder and the place.
func overlay(t rapid.TB, base, name, lower string) (changed, merged string) {
	t.Helper()
	changed, merged = filepath.Join(base, name), filepath.Join(base, name+"-merged")
	work := filepath.Join(base, name+"-work")
	for _, dir := range []string{changed, merged, work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,index=off,metacopy=off", lower, changed, work)
	if os.Getuid() == 0 && userNamespace() {
		options += ",userxattr"
	} else {
		options += ",redirect_dir=off"
	}
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		t.Fatalf("mount overlayfs with %s: %v", options, err)
	}
	return changed, merged
}

// userNamespace reports whether the process is not in the first user namespace.
func userNamespace() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !bytes.Contains(text, []byte("4294967295"))
}

// An image, and what may be done to its files.
var (
	imageFiles = map[string]string{"a": "1", "b": "22", "d/x": "3", "d/y": "4", "d/e/z": "5", "f/g/h": "6"}
	paths      = []string{"a", "b", "c", "d", "d/x", "d/y", "d/n", "d/e", "d/e/z", "d/e/n", "f", "f/g", "f/g/h", "n", "n/o"}
	then       = time.Unix(1_700_000_000, 123_456_789)
	acts       = map[string]func(one, other string) error{
		"write":     func(one, _ string) error { return write(one) },
		"remove":    func(one, _ string) error { return remove(one) },
		"make":      func(one, _ string) error { return os.Mkdir(one, 0o700) },
		"rename":    os.Rename,
		"link":      os.Link,
		"symlink":   func(one, other string) error { return os.Symlink("/etc/"+filepath.Base(one), other) },
		"mode":      func(one, _ string) error { return os.Chmod(one, 0o4711) },
		"time":      func(one, _ string) error { return os.Chtimes(one, then, then) },
		"attribute": func(one, _ string) error { return unix.Lsetxattr(one, "user.note", []byte("\x00n"), 0) },
		"pipe":      func(one, _ string) error { return unix.Mkfifo(one, 0o622) },
	}
)

// remove removes a file. It does not ask os.RemoveAll for one in a pipe, which would wait for a writer.
func remove(name string) error {
	if info, err := os.Lstat(filepath.Dir(name)); err != nil || !info.IsDir() {
		return err
	}
	return os.RemoveAll(name)
}

func write(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NONBLOCK, 0o640) // a pipe has no reader
	if err != nil {
		return err
	}
	_, err = f.WriteString("new")
	return errors.Join(err, f.Close())
}

// seen describes the files below a folder.
func seen(t rapid.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		text := fmt.Sprintf("%v %d:%d", info.Mode(), stat.Uid, stat.Gid)
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %q", content)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " -> " + to
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			note := make([]byte, 16)
			n, _ := unix.Lgetxattr(path, "user.note", note) // none
			text += fmt.Sprintf(" %v %q", info.ModTime(), note[:max(n, 0)])
		}
		name, _ := filepath.Rel(dir, path)
		all[name] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWhatAContainerChangedIsTheSameOnTheOtherNode(t *testing.T) {
	if !namespaced(t) {
		return
	}
	base := t.TempDir()
	if err := unix.Mount("tmpfs", base, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(base, 0); err != nil {
			t.Error(err)
		}
	})
	lower := filepath.Join(base, "image")
	for name, content := range imageFiles {
		if err := os.MkdirAll(filepath.Join(lower, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		testfile.Write(t, filepath.Join(lower, name), content)
	}
	if err := os.Link(filepath.Join(lower, "a"), filepath.Join(lower, "d/h")); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		base, err := os.MkdirTemp(base, "") // one for each of rapid's tries
		if err != nil {
			t.Fatal(err)
		}
		changed, source := overlay(t, base, "source", lower)
		_, target := overlay(t, base, "target", lower)
		defer func() {
			for _, merged := range []string{source, target} {
				if err := unix.Unmount(merged, 0); err != nil {
					t.Error(err)
				}
			}
		}()
		one := rapid.SampledFrom(paths)
		for range rapid.IntRange(0, 12).Draw(t, "acts") {
			act := rapid.SampledFrom([]string{"write", "remove", "make", "rename", "link", "symlink", "mode", "time", "attribute", "pipe"}).Draw(t, "act")
			_ = acts[act](filepath.Join(source, one.Draw(t, "one")), filepath.Join(source, one.Draw(t, "other"))) // not all are possible
		}
		var layer bytes.Buffer
		if err := upper.Write(&layer, changed); err != nil {
			t.Fatal(err)
		}
		if size, err := upper.Size(changed); err != nil || size != int64(layer.Len()) {
			t.Fatalf("its size is %d, %v, want %d", size, err, layer.Len())
		}
		root, err := os.OpenRoot(target)
		if err != nil {
			t.Fatal(err)
		}
		err = applyChanges(&layer, root)
		_ = root.Close() // nothing was written to the folder itself
		if err != nil {
			t.Fatal(err)
		}
		want, got := seen(t, source), seen(t, target)
		for name := range maps.Keys(want) {
			if got[name] != want[name] {
				t.Errorf("%s is %s, want %s", name, got[name], want[name])
			}
			delete(got, name)
		}
		if len(got) > 0 {
			t.Errorf("there are also %v", got)
		}
	})
}
