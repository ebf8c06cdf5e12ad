package nginx

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// logged is a log in a directory, with a follower and the lines that it took.
type logged struct {
	t       rapid.TB
	path    string
	file    *os.File
	follow  *Follower
	lines   []string
	skipped int
}

func newLogged(t rapid.TB, dir string) *logged {
	l := &logged{t: t, path: filepath.Join(dir, "access.log")}
	l.follow = &Follower{Path: l.path, Take: func(line []byte) { l.lines = append(l.lines, string(line)) }, Skipped: func() { l.skipped++ }}
	return l
}

func (l *logged) create() *os.File {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		l.t.Fatal(err)
	}
	l.file = file
	return file
}

func (l *logged) write(text string) {
	if _, err := l.file.WriteString(text); err != nil {
		l.t.Fatal(err)
	}
}

func (l *logged) poll() {
	if err := l.follow.Poll(); err != nil {
		l.t.Fatal(err)
	}
}

func (l *logged) want(skipped int, lines ...string) {
	if !slices.Equal(l.lines, lines) || l.skipped != skipped {
		l.t.Fatalf("took %.200q and skipped %d, want %.200q and %d", l.lines, l.skipped, lines, skipped)
	}
}

func (l *logged) rotate() {
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		l.t.Fatal(err)
	}
}

func TestWhatWasThereBeforeIsNotRead(t *testing.T) {
	l := newLogged(t, t.TempDir())
	l.create()
	l.write("old\nhalf")
	l.poll()
	l.write(" a line\nnew\n")
	l.poll()
	l.want(0, "new")
}

func TestAFileThatComesLaterIsReadFromItsBeginning(t *testing.T) {
	l := newLogged(t, t.TempDir())
	if err := l.follow.Poll(); err == nil || !strings.Contains(err.Error(), l.path) {
		t.Errorf("error %v, want one that names the missing file", err)
	}
	l.create()
	l.write("first\n")
	l.poll()
	l.want(0, "first")
}

func TestALineIsTakenWhenItHasEnded(t *testing.T) {
	l := newLogged(t, t.TempDir())
	l.create()
	l.poll()
	for _, part := range []string{"a", "b", "\nc\n", "d", "\n"} {
		l.write(part)
		l.poll()
	}
	l.want(0, "ab", "c", "d")
}

func TestARenamedFileIsReadOnUntilNginxHasLeftIt(t *testing.T) {
	l := newLogged(t, t.TempDir())
	old := l.create()
	l.poll()
	l.write("1\n")
	l.rotate()
	l.poll()
	l.create()
	l.write("3\n")
	l.poll()
	if _, err := old.WriteString("2\nunfinished"); err != nil {
		t.Fatal(err)
	}
	for range lingering + 1 {
		l.poll()
	}
	l.want(1, "1", "2", "3")
	l.write("4\n")
	l.poll()
	l.want(1, "1", "2", "3", "4")
}

func TestATruncatedFileIsReadFromItsBeginning(t *testing.T) {
	l := newLogged(t, t.TempDir())
	l.create()
	l.poll()
	l.write("1\nunfinished")
	l.poll()
	if err := os.Truncate(l.path, 0); err != nil {
		t.Fatal(err)
	}
	l.write("2\n")
	l.poll()
	l.want(1, "1", "2")
}

func TestALongLineIsSkippedAndMemoryStaysBounded(t *testing.T) {
	l := newLogged(t, t.TempDir())
	l.create()
	l.poll()
	longest := strings.Repeat("x", MaxLine)
	l.write(longest + "\n" + longest + "x\n")
	l.poll()
	l.write("1\n")
	for range 200 { // a line of 3 MB
		l.write(longest)
		l.poll()
	}
	l.write("\n2\n")
	l.poll()
	l.want(2, longest, "1", "2")
	if held := cap(l.follow.partial) + cap(l.follow.buffer); held > 8*MaxLine {
		t.Errorf("%d bytes are held, want at most %d", held, 8*MaxLine)
	}
}

func TestAFileThatNobodyRotatesIsKeptShort(t *testing.T) {
	l := newLogged(t, t.TempDir())
	l.follow.Keep = 100
	l.create()
	l.poll()
	var want []string
	for i := range 100 {
		line := fmt.Sprintf("line %d", i)
		want = append(want, line)
		l.write(line + "\n")
		l.poll()
		if info, err := os.Stat(l.path); err != nil || info.Size() > 110 {
			t.Fatalf("%d bytes, %v, want at most 100 and a line", info.Size(), err)
		}
	}
	l.want(0, want...)
}

// TestNoLineIsLostOrReadTwice writes pieces of any size to a file that is rotated in both
// ways, as logrotate and nginx do it: nginx reopens it within some polls.
func TestNoLineIsLostOrReadTwice(t *testing.T) {
	dir := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		own := filepath.Join(dir, fmt.Sprint(runs))
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Fatal(err)
		}
		l := newLogged(t, own)
		defer func() { l.follow.Close(); l.file.Close() }()
		l.create()
		l.poll()
		var written []string
		pieces := ""
		flush := func() { l.write(pieces); pieces = "" }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"line", "line", "line", "piece", "poll", "rename", "truncate"}).Draw(t, "step") {
			case "line":
				line := fmt.Sprintf("%d%s", len(written), strings.Repeat(".", rapid.IntRange(0, 40).Draw(t, "dots")))
				written = append(written, line)
				pieces += line + "\n"
			case "piece":
				cut := rapid.IntRange(0, len(pieces)).Draw(t, "cut")
				l.write(pieces[:cut])
				pieces = pieces[cut:]
			case "poll":
				l.poll()
			case "rename":
				l.rotate()
				for range rapid.IntRange(0, lingering-1).Draw(t, "polls until nginx is told") {
					l.poll()
				}
				flush() // the rest of the old file
				l.file.Close()
				l.create()
				for range lingering + 1 { // no second rotation in the meantime
					l.poll()
				}
			case "truncate":
				flush()
				l.poll()
				if err := os.Truncate(l.path, 0); err != nil {
					t.Fatal(err)
				}
				l.poll()
			}
		}
		flush()
		l.poll()
		l.want(0, written...)
	})
}
