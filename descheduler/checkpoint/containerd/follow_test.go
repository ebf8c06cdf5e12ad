package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
	"supercargo.dev/supercargo/descheduler/checkpoint/upper"
)

// writing is a dump that a test writes as CRIU does.
type writing struct {
	t      rapid.TB
	dir    string
	dumped chan struct{}
}

func newWriting(t rapid.TB, dir string) *writing {
	w := &writing{t, dir, make(chan struct{})}
	if err := os.MkdirAll(filepath.Join(dir, archive.Checkpoint), 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

// grow appends to an image.
func (w *writing) grow(name string, content []byte) {
	f, err := os.OpenFile(filepath.Join(w.dir, archive.Checkpoint, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(content)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		w.t.Error(err)
	}
}

// end writes what follows the pages.
func (w *writing) end() {
	w.grow("core-1.img", []byte("registers"))
	w.grow("inventory.img", nil)
	changes := filepath.Join(w.dir, "upper")
	err := os.Mkdir(changes, 0o700)
	size, measured := upper.Size(changes)
	text, encoded := json.Marshal(notes{Upper: changes, DiffBytes: size})
	err = errors.Join(err, measured, encoded, os.WriteFile(filepath.Join(w.dir, dumpNotes), text, 0o600))
	for _, part := range []string{archive.Config, archive.Spec, archive.Status} {
		err = errors.Join(err, os.WriteFile(filepath.Join(w.dir, part), []byte(part), 0o600))
	}
	if err != nil {
		w.t.Error(err)
	}
	close(w.dumped)
}

// images returns the contents of the images in a folder.
func images(t rapid.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(filepath.Join(dir, archive.Checkpoint))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, archive.Checkpoint, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = string(text)
	}
	return all
}

// extracted unpacks an archive into a folder.
func extracted(t rapid.TB, tar io.Reader, dir string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // nothing is written to it
	if _, err := archive.Extract(tar, root, 1<<30); err != nil {
		t.Fatal(err)
	}
}

// TestADumpThatIsSentWhileItIsWrittenIsComplete writes files with pages of several processes in pieces of any size.
func TestADumpThatIsSentWhileItIsWrittenIsComplete(t *testing.T) {
	source, target, number := t.TempDir(), t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		number++
		from, to := filepath.Join(source, fmt.Sprint(number)), filepath.Join(target, fmt.Sprint(number))
		if err := os.Mkdir(to, 0o700); err != nil {
			t.Fatal(err)
		}
		w := newWriting(t, from)
		random := rand.NewChaCha8([32]byte{byte(number)})
		var pieces [][]int
		for range rapid.IntRange(0, 4).Draw(t, "processes") {
			pieces = append(pieces, rapid.SliceOfN(rapid.IntRange(0, 3*leastPart/2), 0, 4).Draw(t, "pieces"))
		}
		go func() {
			for i, sizes := range pieces {
				name := fmt.Sprintf("pages-%d.img", i+1)
				w.grow(name, nil)
				for _, size := range sizes {
					content := make([]byte, size)
					_, _ = random.Read(content)
					w.grow(name, content)
				}
			}
			w.end()
		}()
		var tar bytes.Buffer
		c := &Client{Options: Options{Clock: clock.RealClock{}}}
		if err := c.Follow(context.Background(), checkpoint.Container{}, from, w.dumped, &tar); err != nil {
			t.Fatal(err)
		}
		extracted(t, &tar, to)
		if want, got := images(t, from), images(t, to); !cmp.Equal(want, got) {
			t.Fatalf("the images differ: %d and %d files", len(want), len(got))
		}
	})
}

// received counts what arrives.
type received struct {
	mu    sync.Mutex
	bytes int
}

func (r *received) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += len(p)
	return len(p), nil
}

func (r *received) so() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

func TestPagesAreSentBeforeTheDumpHasEnded(t *testing.T) {
	w := newWriting(t, t.TempDir())
	var to received
	done := make(chan error, 1)
	go func() {
		done <- (&Client{Options: Options{Clock: clock.RealClock{}}}).Follow(t.Context(), checkpoint.Container{}, w.dir, w.dumped, &to)
	}()
	for written := 0; written < 8*leastPart; written += leastPart {
		w.grow("pages-1.img", make([]byte, leastPart))
		for end := time.Now().Add(10 * time.Second); to.so() < written+leastPart; {
			if time.Now().After(end) {
				t.Fatalf("%d bytes are sent of %d, and the dump still lasts", to.so(), written+leastPart)
			}
			<-time.After(time.Millisecond)
		}
	}
	w.end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// pagewise is a writer that is told of pages.
type pagewise struct {
	io.Writer
	announced []int64
}

func (p *pagewise) Pages(n int64) { p.announced = append(p.announced, n) }

// TestPartsOfAFileWithPagesHaveWholePages: what the target has of them is found page by page.
func TestPartsOfAFileWithPagesHaveWholePages(t *testing.T) {
	w := newWriting(t, t.TempDir())
	to := pagewise{Writer: io.Discard}
	f := follower{archive: archive.NewWriter(&to), dir: filepath.Join(w.dir, archive.Checkpoint), sent: map[string]int64{}}
	send := func(more int, ended bool) {
		w.grow("pages-1.img", make([]byte, more))
		if err := f.send(ended); err != nil {
			t.Fatal(err)
		}
	}
	send(leastPart+100, false)
	send(leastPart-1, false) // with the 100, more than a part
	send(checkpoint.PageBytes-99, true)
	if want := []int64{leastPart, leastPart, checkpoint.PageBytes}; !cmp.Equal(to.announced, want) {
		t.Errorf("parts of %v bytes are sent, want %v", to.announced, want)
	}
}

func TestADumpThatIsNotWrittenInOrderIsNotSent(t *testing.T) {
	w := newWriting(t, t.TempDir())
	f := follower{archive: archive.NewWriter(io.Discard), dir: filepath.Join(w.dir, archive.Checkpoint), sent: map[string]int64{}}
	w.grow("pages-1.img", make([]byte, leastPart))
	w.grow("pages-2.img", make([]byte, leastPart))
	if err := f.send(false); err != nil {
		t.Fatal(err)
	}
	w.grow("pages-1.img", []byte("more"))
	if err := f.send(false); err == nil || !strings.Contains(err.Error(), "pages-1.img has grown although a later file was begun") {
		t.Errorf("a file that grows late: %v", err)
	}
}

func TestSendingEndsIfTheDumpFails(t *testing.T) {
	w := newWriting(t, t.TempDir())
	w.grow("pages-1.img", make([]byte, leastPart))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- (&Client{Options: Options{Clock: clock.RealClock{}}}).Follow(ctx, checkpoint.Container{}, w.dir, w.dumped, io.Discard)
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
}
