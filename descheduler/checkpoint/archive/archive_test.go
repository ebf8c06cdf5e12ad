package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
)

// sample returns an archive with all parts, and their content.
func sample(t *testing.T) ([]byte, map[string]string) {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"config.dump": "{}", "spec.dump": "{1}", "status.dump": "{2}", "checkpoint/inventory.img": "inventory",
		"checkpoint/pages-1.img": strings.Repeat("page", 1<<18), "rootfs-diff.tar": "files", "container.log": "",
	}
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	var out bytes.Buffer
	w := NewWriter(&out)
	err := errors.Join(
		w.Bytes(Config, []byte("{}")), w.File(Spec, filepath.Join(dir, "spec.dump")), w.Bytes(Status, []byte("{2}")),
		w.Tree(Checkpoint, filepath.Join(dir, "checkpoint"), all), w.From(RootfsDiff, 5, strings.NewReader("files and more")), w.Bytes(Log, nil), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), files
}

func all(string) bool { return true }

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// extract unpacks into a new folder, and returns its content.
func extract(t *testing.T, r io.Reader, maxBytes int64) (int64, map[string]string, error) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // nothing is written to it
	n, extractErr := Extract(r, root, maxBytes)
	found := map[string]string{}
	err = filepath.WalkDir(dir, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		name, _ := filepath.Rel(dir, file)
		found[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n, found, extractErr
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	packed, files := sample(t)
	n, found, err := extract(t, bytes.NewReader(packed), 2<<20)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files, found); diff != "" {
		t.Errorf("files (-packed +unpacked):\n%s", diff)
	}
	var want int64
	for _, content := range files {
		want += int64(len(content))
	}
	if n != want {
		t.Errorf("Extract says %d bytes, want %d", n, want)
	}
}

func TestEqualCheckpointsGiveEqualArchives(t *testing.T) {
	a, _ := sample(t)
	b, _ := sample(t)
	if !bytes.Equal(a, b) {
		t.Error("two archives of the same files differ")
	}
}

// TestOneByteTooMuchIsTooMuch holds the limit to the byte.
func TestOneByteTooMuchIsTooMuch(t *testing.T) {
	packed, files := sample(t)
	var size int64
	for _, content := range files {
		size += int64(len(content))
	}
	if _, _, err := extract(t, bytes.NewReader(packed), size); err != nil {
		t.Errorf("as many bytes as allowed: %v", err)
	}
	_, _, err := extract(t, bytes.NewReader(packed), size-1)
	if f := checkpoint.AsFailure(err); f == nil || f.Reason != v1alpha1.MigrationReasonTooLarge {
		t.Errorf("one byte more than allowed: %v, want a failure with reason TooLarge", err)
	}
}

func TestAFileComesInParts(t *testing.T) {
	parts := whole(entry{header: tar.Header{Name: "checkpoint/b.img"}, content: "first "}, entry{header: tar.Header{Name: "checkpoint/b.img"}, content: "second"})
	size, found, err := extract(t, bytes.NewReader(tarOf(t, parts...)), 12)
	if err != nil || size != 12 || found["checkpoint/b.img"] != "first second" {
		t.Errorf("%d bytes, %q (%v)", size, found["checkpoint/b.img"], err)
	}
	if _, _, err := extract(t, bytes.NewReader(tarOf(t, parts...)), 11); err == nil {
		t.Error("parts may be larger together than one file may be")
	}
}

// entry is an entry that no Writer would write.
type entry struct {
	header  tar.Header
	content string
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		e.header.Size = int64(len(e.content))
		if e.header.Typeflag == 0 {
			e.header.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(&e.header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func whole(more ...entry) []entry {
	return append([]entry{
		{header: tar.Header{Name: Config}}, {header: tar.Header{Name: Spec}}, {header: tar.Header{Name: Status}}, {header: tar.Header{Name: "checkpoint/a.img"}},
	}, more...)
}

func TestWhatIsNoCheckpointIsRefused(t *testing.T) {
	tests := map[string][]byte{
		"an empty stream":               nil,
		"text":                          []byte(strings.Repeat("this is no tar ", 100)),
		"a part is missing":             tarOf(t, whole()[1:]...),
		"a path that leads out":         tarOf(t, whole(entry{header: tar.Header{Name: "../evil"}})...),
		"an absolute path":              tarOf(t, whole(entry{header: tar.Header{Name: "/etc/evil"}})...),
		"a link":                        tarOf(t, whole(entry{header: tar.Header{Name: "checkpoint/l", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}})...),
		"a hard link":                   tarOf(t, whole(entry{header: tar.Header{Name: "checkpoint/l", Typeflag: tar.TypeLink, Linkname: Config}})...),
		"a device":                      tarOf(t, whole(entry{header: tar.Header{Name: "checkpoint/d", Typeflag: tar.TypeChar}})...),
		"a path twice":                  tarOf(t, whole(entry{header: tar.Header{Name: "checkpoint/b.img"}}, entry{header: tar.Header{Name: "./checkpoint/a.img"}})...),
		"a path that is too long":       tarOf(t, whole(entry{header: tar.Header{Name: "checkpoint/" + strings.Repeat("x", 600)}})...),
		"much behind the end":           append(tarOf(t, whole()...), make([]byte, 1<<20)...),
		"a file where a folder must be": tarOf(t, whole()[:3]...),
	}
	packed, _ := sample(t)
	for _, at := range []int{1, 511, 513, 2000, len(packed) / 2} {
		tests["cut short at "+string(rune('a'+at%26))] = packed[:at]
	}
	for name, stream := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := extract(t, bytes.NewReader(stream), 2<<20)
			if f := checkpoint.AsFailure(err); f == nil || f.Reason != v1alpha1.MigrationReasonInvalidArchive {
				t.Errorf("unpacking ends with %v, want a failure with reason InvalidArchive", err)
			}
		})
	}
}

// endless is an endless stream of zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestAnArchiveWithoutAnEndIsRefused: zeros compress to nothing, so the limit of the compressed
// size does not end it.
func TestAnArchiveWithoutAnEndIsRefused(t *testing.T) {
	_, _, err := extract(t, io.MultiReader(bytes.NewReader(tarOf(t, whole()...)), endless{}), 2<<20)
	if f := checkpoint.AsFailure(err); f == nil || f.Reason != v1alpha1.MigrationReasonInvalidArchive {
		t.Errorf("unpacking ends with %v, want a failure with reason InvalidArchive", err)
	}
}

// TestWhyReadingEndedIsToldOn: a wrong checksum or a broken connection must not look like a bad
// archive, which is not retried.
func TestWhyReadingEndedIsToldOn(t *testing.T) {
	packed, _ := sample(t)
	for _, why := range []error{errors.New("the checksum is wrong"), io.ErrUnexpectedEOF} {
		for _, at := range []int{0, 700, len(packed)} {
			_, _, err := extract(t, io.MultiReader(bytes.NewReader(packed[:at]), failing{why}), 2<<20)
			if !errors.Is(err, why) || checkpoint.AsFailure(err) != nil {
				t.Errorf("a stream that fails after %d bytes: %v, want %v", at, err, why)
			}
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestWriterRefusesWhatItShouldNotSend(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "secret"), "secret")
	if err := os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	w := NewWriter(io.Discard)
	if err := w.File(Log, filepath.Join(dir, "link")); err == nil {
		t.Error("a link was followed")
	}
	if err := w.Tree(Checkpoint, dir, all); err == nil {
		t.Error("a folder with a link was sent")
	}
	if err := NewWriter(io.Discard).From(Log, 10, strings.NewReader("short")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that is shorter than it was: %v, want %v", err, io.ErrUnexpectedEOF)
	}
}

func FuzzExtractStaysInItsFolder(f *testing.F) {
	f.Add(tarOf(f, whole()...))
	f.Add(tarOf(f, whole(entry{header: tar.Header{Name: "../x"}, content: "y"})...))
	f.Fuzz(func(t *testing.T, stream []byte) {
		outside := t.TempDir()
		inside := filepath.Join(outside, "in")
		if err := os.Mkdir(inside, 0o700); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(inside)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close() //nolint:errcheck // nothing is written to it
		n, err := Extract(bytes.NewReader(stream), root, 1<<16)
		if n > 1<<16 || err != nil && n != 0 {
			t.Errorf("Extract says %d bytes and %v", n, err)
		}
		entries, err := os.ReadDir(outside)
		if err != nil || len(entries) != 1 {
			t.Errorf("beside the folder there is %v (%v)", entries, err)
		}
	})
}

func TestAnArchiveHasAtMostSoManyEntries(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // nothing is written to it
	x := extraction{root: root, seen: map[string]bool{}, entries: maxEntries - 1}
	if err := x.entry(&tar.Header{Name: "the-last", Typeflag: tar.TypeDir}, nil); err != nil {
		t.Errorf("the last entry that is allowed: %v", err)
	}
	if err := x.entry(&tar.Header{Name: "one-more", Typeflag: tar.TypeDir}, nil); err == nil {
		t.Errorf("there may be more than %d entries", maxEntries)
	}
}

// announced is a writer that is told where pages are.
type announced struct {
	bytes.Buffer
	at, sizes []int64
}

func (a *announced) Pages(n int64) {
	a.at, a.sizes = append(a.at, int64(a.Len())), append(a.sizes, n)
}

// TestPagesAreAnnouncedRightBeforeTheyAreWritten, and nothing else is.
func TestPagesAreAnnouncedRightBeforeTheyAreWritten(t *testing.T) {
	dir := t.TempDir()
	pages := strings.Repeat("page", 1<<11)
	write(t, filepath.Join(dir, "pages-2.img"), pages)
	write(t, filepath.Join(dir, "pagemap-1.img"), "map")
	var out announced
	w := NewWriter(&out)
	err := errors.Join(
		w.Bytes(Config, []byte("{}")), w.From(Checkpoint+"/pages-1.img", 4096, strings.NewReader(pages)), w.From(Checkpoint+"/pages-1.img", 8192, strings.NewReader(pages)),
		w.From("pages-1.img", 4096, strings.NewReader(pages)), w.Tree(Checkpoint, dir, all), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	if want := []int64{4096, 8192, 8192}; !cmp.Equal(out.sizes, want) {
		t.Fatalf("%v bytes are announced, want %v", out.sizes, want)
	}
	for i, at := range out.at {
		if got := out.String()[at : at+out.sizes[i]]; got != pages[:out.sizes[i]] {
			t.Errorf("the pages that are announced at %d are not there", at)
		}
	}
}

func TestNamesOfFilesWithPages(t *testing.T) {
	for name, want := range map[string]int{"checkpoint/pages-1.img": 1, "checkpoint/pages-23.img": 23, "checkpoint/pages-.img": 0, "checkpoint/pages-x.img": 0,
		"checkpoint/pages-1.im": 0, "checkpoint/pagemap-1.img": 0, "pages-1.img": 0, "rootfs/checkpoint/pages-1.img": 0, "": 0} {
		if got := Page(name); got != want {
			t.Errorf("%q has number %d, want %d", name, got, want)
		}
	}
}

// TestAFileOfUnknownSizeIsAddedInPieces has sizes around that of a piece.
func TestAFileOfUnknownSizeIsAddedInPieces(t *testing.T) {
	for _, size := range []int{1, pieceBytes - 1, pieceBytes, pieceBytes + 1, 3 * pieceBytes} {
		want := bytes.Repeat([]byte("abcde"), size/5+1)[:size]
		var out bytes.Buffer
		w := NewWriter(&out)
		err := errors.Join(w.Bytes(Config, nil), w.Bytes(Spec, nil), w.Bytes(Status, nil), w.Bytes(Checkpoint+"/core.img", nil),
			w.Stream(VolumeFiles(0), func(w io.Writer) error {
				for rest := want; len(rest) > 0; rest = rest[min(len(rest), 100_000):] {
					if _, err := w.Write(rest[:min(len(rest), 100_000)]); err != nil {
						return err
					}
				}
				return nil
			}), w.Close())
		if err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Extract(&out, root, 1<<30); err != nil {
			t.Fatal(err)
		}
		if got, err := root.ReadFile(VolumeFiles(0)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("of %d bytes %d came (%v)", size, len(got), err)
		}
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	}
}
