package nginx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/platform/poll"
)

// Sizes of a Follower, bytes.
const (
	// MaxLine is the longest line that is read; longer ones are skipped.
	MaxLine = 16 << 10
	// perPoll bounds what one poll reads, so that a poll ends.
	perPoll = 64 << 20
	// chunk is read at once.
	chunk = 64 << 10
)

// lingering is for how many polls a file is read on after it was renamed: until
// nginx is told to, it writes to the old one.
const lingering = 5

// Follower reads the lines that are added to a file, through rotation by renaming
// and by truncating. Its memory is bounded by [MaxLine] and a buffer. It is not for
// use by several goroutines.
//
// Reading begins at the end of the file that is there first, and at the beginning of
// those that come later. Lost are lines written to a file between the last poll and
// its being truncated, those of a truncated file that has outgrown, by the next poll,
// what had been read of it, and those of a file that was renamed away before the one
// before it had been left.
type Follower struct {
	// Path names the file, which need not be there yet.
	Path string
	// Take is given each line without its end, to keep until it returns.
	Take func(line []byte)
	// Skipped is told of each line that was too long or has no end.
	Skipped func()
	// Keep is how many bytes the file may have before it is truncated, where nobody
	// else rotates it; 0 leaves the file alone. nginx appends, so that it continues at
	// the beginning.
	Keep int64

	file     *os.File
	offset   int64
	anew     bool // the next file is read from its beginning
	partial  []byte
	skipping bool
	renamed  int // polls since Path has named another file
	buffer   []byte
}

// Run polls until ctx ends. Fault is told of each poll's error, nil included.
func (f *Follower) Run(ctx context.Context, c clock.WithTicker, every time.Duration, fault func(error)) {
	defer f.Close()
	poll.Every(ctx, c, every, func(context.Context) error { return f.Poll() }, fault)
}

// Close lets go of the file.
func (f *Follower) Close() {
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

// Poll reads what was added since the last poll. After an error the next poll goes
// on where this one stopped.
func (f *Follower) Poll() error {
	if f.file == nil {
		if err := f.open(); err != nil {
			return err
		}
	}
	if err := f.restart(); err != nil {
		return err
	}
	atEnd, err := f.read()
	if err != nil || !atEnd {
		return err
	}
	switch other, err := f.replaced(); {
	case err != nil:
		return err
	case !other:
		f.renamed = 0
		return f.shorten()
	case f.renamed < lingering:
		f.renamed++
		return nil
	}
	f.renamed = 0
	f.forget()
	f.Close()
	f.anew = true
	return f.Poll() // the new file, to its end
}

// open opens the file, and goes to where reading begins.
func (f *Follower) open() error {
	file, err := os.Open(f.Path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			f.anew = true // what comes is new
		}
		return fmt.Errorf("follow the access log: %w", err)
	}
	f.offset = 0
	if !f.anew {
		if f.offset, err = file.Seek(0, io.SeekEnd); err != nil {
			file.Close()
			return fmt.Errorf("follow the access log %s: %w (a pipe or a terminal cannot be followed: log to a file)", f.Path, err)
		}
		f.skipping = midLine(file, f.offset)
	}
	f.file, f.anew = file, true
	return nil
}

// midLine says whether a line has begun before offset that has not ended there.
func midLine(file *os.File, offset int64) bool {
	if offset == 0 {
		return false
	}
	last := []byte{'\n'}
	_, err := file.ReadAt(last, offset-1)
	return err == nil && last[0] != '\n'
}

// restart goes to the beginning of a file that has become shorter.
func (f *Follower) restart() error {
	info, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("follow the access log: %w", err)
	}
	if info.Size() >= f.offset {
		return nil
	}
	f.forget()
	return f.rewind()
}

func (f *Follower) rewind() error {
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("follow the access log %s: %w", f.Path, err)
	}
	f.offset = 0
	return nil
}

// forget drops a line that will not end any more.
func (f *Follower) forget() {
	if len(f.partial) > 0 {
		f.Skipped()
	}
	f.partial, f.skipping = f.partial[:0], false
}

// read takes what there is, to the end unless that is far.
func (f *Follower) read() (atEnd bool, err error) {
	if f.buffer == nil {
		f.buffer = make([]byte, chunk)
	}
	for total := 0; total < perPoll; {
		n, err := f.file.Read(f.buffer)
		f.offset += int64(n)
		total += n
		f.split(f.buffer[:n])
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil:
			return false, fmt.Errorf("follow the access log: %w", err)
		}
	}
	return false, nil
}

// split hands on the lines that end in data.
func (f *Follower) split(data []byte) {
	for {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			break
		}
		line := data[:end]
		data = data[end+1:]
		if len(f.partial) > 0 {
			line = append(f.partial, line...)
			f.partial = line[:0]
		}
		switch {
		case f.skipping: // its beginning is gone, and was counted if it was too long
			f.skipping = false
		case len(line) > MaxLine:
			f.Skipped()
		default:
			f.Take(line)
		}
	}
	switch {
	case f.skipping:
	case len(f.partial)+len(data) > MaxLine:
		f.Skipped()
		f.partial, f.skipping = f.partial[:0], true
	default:
		f.partial = append(f.partial, data...)
	}
}

// replaced says whether Path names another file than the one being read. A file
// that was removed is read on until there is another.
func (f *Follower) replaced() (bool, error) {
	named, err := os.Stat(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("follow the access log: %w", err)
	}
	mine, err := f.file.Stat()
	if err != nil {
		return false, fmt.Errorf("follow the access log: %w", err)
	}
	return !os.SameFile(named, mine), nil
}

// shorten truncates a file that was read and is larger than is kept.
func (f *Follower) shorten() error {
	if f.Keep <= 0 || f.offset <= f.Keep || len(f.partial) > 0 {
		return nil
	}
	// Look again: what comes between this and truncating is lost.
	if info, err := f.file.Stat(); err != nil || info.Size() != f.offset {
		return nil //nolint:nilerr // the next poll meets the fault, or reads first
	}
	if err := os.Truncate(f.Path, 0); err != nil {
		return fmt.Errorf("shorten the access log: %w", err)
	}
	return f.rewind()
}
