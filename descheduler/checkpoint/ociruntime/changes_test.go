package ociruntime

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// entry is one entry of a layer.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}, content}
}

func link(name, to string, kind byte) entry {
	return entry{Header: tar.Header{Name: name, Linkname: to, Typeflag: kind}}
}

func tarOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		e.Uid, e.Gid = os.Getuid(), os.Getgid()
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// rootOf makes the root of a container: files with their content, and folders, which end in a slash.
func rootOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		testfile.Write(t, filepath.Join(dir, name), content)
	}
	return dir
}

func apply(t *testing.T, dir string, layer []byte) error {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }() // nothing was written to it
	return applyChanges(bytes.NewReader(layer), root)
}

// listing describes what is below a folder, in one line.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case err != nil || name == ".":
		case d.IsDir():
			all = append(all, name+"/")
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			all = append(all, name+"->"+to)
		case d.Type().IsRegular():
			all = append(all, name+"="+string(testfile.Read(t, path)))
		default:
			all = append(all, name+":"+d.Type().String()[:1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(all)
	return strings.Join(all, " ")
}

func TestChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		root  map[string]string
		layer []entry
		want  string
	}{
		"a new file in new folders":   {nil, []entry{file("a/b/c", "1")}, "a/ a/b/ a/b/c=1"},
		"a file that was written":     {map[string]string{"a": "1"}, []entry{file("a", "2")}, "a=2"},
		"a file that was removed":     {map[string]string{"a": "1", "b": "2"}, []entry{file(".wh.a", "")}, "b=2"},
		"a folder that was removed":   {map[string]string{"d/a": "1", "b": "2"}, []entry{file(".wh.d", "")}, "b=2"},
		"a folder that was replaced":  {map[string]string{"d/a": "1"}, []entry{{Header: tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755}}, file("d/.wh..wh..opq", ""), file("d/b", "2")}, "d/ d/b=2"},
		"a removal of nothing":        {nil, []entry{file(".wh.a", ""), file("d/.wh..wh..opq", "")}, ""},
		"a folder in place of a file": {map[string]string{"a": "1"}, []entry{{Header: tar.Header{Name: "a/", Typeflag: tar.TypeDir, Mode: 0o755}}, file("a/b", "2")}, "a/ a/b=2"},
		"a file in place of a folder": {map[string]string{"a/b": "1"}, []entry{file("a", "2")}, "a=2"},
		"links":                       {nil, []entry{file("a", "1"), link("s", "/a", tar.TypeSymlink), link("h", "a", tar.TypeLink)}, "a=1 h=1 s->/a"},
		"a link in place of its aim":  {map[string]string{"a": "1"}, []entry{link("a", "b", tar.TypeSymlink), file("b", "2")}, "a->b b=2"},
		"a link is not written to":    {map[string]string{"b": "1"}, []entry{link("a", "b", tar.TypeSymlink), file("a", "2")}, "a=2 b=1"},
		"a pipe":                      {nil, []entry{{Header: tar.Header{Name: "p", Typeflag: tar.TypeFifo, Mode: 0o600}}}, "p:p"},
		"an absolute path":            {nil, []entry{file("/a", "1")}, "a=1"},
		"the root itself":             {nil, []entry{{Header: tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := rootOf(t, tc.root)
			if err := apply(t, dir, tarOf(t, tc.layer...)); err != nil {
				t.Fatal(err)
			}
			if got := listing(t, dir); got != tc.want {
				t.Errorf("the root has %q, want %q", got, tc.want)
			}
		})
	}
}

func TestChangesKeepWhatDescribesAFile(t *testing.T) {
	then := time.Unix(1_700_000_000, 0)
	dir := rootOf(t, map[string]string{"d/": ""})
	f := file("d/run", "x")
	f.Mode, f.ModTime, f.Format = 0o4751, then, tar.FormatPAX
	f.PAXRecords = map[string]string{"SCHILY.xattr.user.a": "\x00b"}
	folder := entry{Header: tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o1777, ModTime: then}}
	if err := apply(t, dir, tarOf(t, folder, f)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"d/run": 0o751 | fs.ModeSetuid, "d": 0o777 | fs.ModeSticky | fs.ModeDir} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want || !info.ModTime().Equal(then) {
			t.Errorf("%s is %v of %v (%v), want %v of %v", name, info.Mode(), info.ModTime(), err, want, then)
		}
	}
	value := make([]byte, 8)
	if n, err := unix.Getxattr(filepath.Join(dir, "d/run"), "user.a", value); err != nil || string(value[:n]) != "\x00b" {
		t.Errorf("its attribute is %q, %v", value[:max(n, 0)], err)
	}
}

// TestChangesStayInTheRoot: the layer comes from another node, and links in the image may lead anywhere.
func TestChangesStayInTheRoot(t *testing.T) {
	for name, layer := range map[string][]entry{
		"up":                            {file("../out/x", "1")},
		"a link up":                     {link("l", "../out", tar.TypeSymlink), file("l/x", "1")},
		"an absolute link":              {link("l", "OUT", tar.TypeSymlink), file("l/x", "1")},
		"a folder through a link":       {link("l", "OUT", tar.TypeSymlink), {Header: tar.Header{Name: "l/d/", Typeflag: tar.TypeDir}}},
		"a removal through a link":      {link("l", "OUT", tar.TypeSymlink), file("l/.wh.kept", "")},
		"an emptied folder by a link":   {link("l", "OUT", tar.TypeSymlink), file("l/.wh..wh..opq", "")},
		"a removal of what is above":    {file(".wh...", "")},
		"a removal of the root":         {file(".wh..", "")},
		"a second name of what is out":  {link("h", "../out/kept", tar.TypeLink)},
		"a second name through a link":  {link("l", "OUT", tar.TypeSymlink), link("h", "l/kept", tar.TypeLink)},
		"a pipe through a link":         {link("l", "OUT", tar.TypeSymlink), {Header: tar.Header{Name: "l/p", Typeflag: tar.TypeFifo}}},
		"something that nobody defined": {{Header: tar.Header{Name: "x", Typeflag: 'Z'}}},
	} {
		t.Run(name, func(t *testing.T) {
			base := rootOf(t, map[string]string{"out/kept": "1", "root/kept": "2"})
			for i := range layer {
				layer[i].Linkname = strings.ReplaceAll(layer[i].Linkname, "OUT", filepath.Join(base, "out"))
			}
			if err := apply(t, filepath.Join(base, "root"), tarOf(t, layer...)); err == nil {
				t.Error("it is applied")
			}
			if got := listing(t, filepath.Join(base, "out")); got != "kept=1" {
				t.Errorf("outside of the root is %q", got)
			}
			if got := string(testfile.Read(t, filepath.Join(base, "root/kept"))); got != "2" {
				t.Errorf("a file of the root has %q", got)
			}
		})
	}
	pipe := entry{Header: tar.Header{Name: "p", Typeflag: tar.TypeFifo, Mode: 0o600}}
	for name, layer := range map[string][]entry{
		"a pipe that is emptied": {pipe, file("p/.wh..wh..opq", "")},
		"a pipe in a pipe":       {pipe, {Header: tar.Header{Name: "p/q", Typeflag: tar.TypeFifo}}},
		"a removal in a pipe":    {pipe, file("p/.wh.a", "")},
		"a file in a pipe":       {pipe, file("p/a", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			if err := apply(t, t.TempDir(), tarOf(t, layer...)); err == nil { // an open pipe would wait for a writer
				t.Error("it is applied")
			}
		})
	}
	if err := apply(t, t.TempDir(), tarOf(t, file("a", strings.Repeat("1", 300)))[:600]); err == nil {
		t.Error("half a layer is applied")
	}
}
