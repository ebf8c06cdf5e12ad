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
	// MaxLine is the maximum length of a line; longer ones are skipped.
	MaxLine = 16 << 10
	// perPoll is the maximum read in one poll, so that a poll ends.
	perPoll = 64 << 20
	// chunk is the size of one read.
	chunk = 64 << 10
)

// lingering is for how many polls a renamed file is still read: nginx writes to it until it
// receives the signal to reopen its logs.
const lingering = 5

// Follower reads the lines appended to a file, through rotation by renaming and by
// truncating. Its memory is bounded by [MaxLine] and a buffer. It is not safe for concurrent
// use.
//
// It starts at the end of the first file, and at the beginning of later files. It loses lines
// that are written between the last poll and truncation, lines of a truncated file that by
// the next poll is again larger than what had been read, and lines of a file that is renamed
// while its predecessor is still read.
type Follower struct {
	// Path is the path of the file, which may not exist yet.
	Path string
	// Take receives each line without its end. It must not retain the line.
	Take func(line []byte)
	// Skipped is called for each line that is too long or incomplete.
	Skipped func()
	// Keep is the size in bytes above which the file is truncated, if nothing else rotates
	// it; 0 disables it. nginx appends, so it continues at the beginning.
	Keep int64

	file     *os.File
	offset   int64
	whole    bool // read the next file from its beginning
	partial  []byte
	skipping bool
	renamed  int // polls since Path refers to another file
	buffer   []byte
}

// Run polls until ctx ends. It calls fault with the result of each poll, including nil.
func (f *Follower) Run(ctx context.Context, c clock.WithTicker, every time.Duration, fault func(error)) {
	defer f.Close()
	poll.Every(ctx, c, every, func(context.Context) error { return f.Poll() }, fault)
}

// Close closes the file.
func (f *Follower) Close() {
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

// Poll reads what was appended since the last poll. After an error, the next poll continues
// from there.
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
	f.whole = true
	return f.Poll() // read the new file to its end
}

// open opens the file and seeks to where reading starts.
func (f *Follower) open() error {
	file, err := os.Open(f.Path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			f.whole = true // all of a later file is new
		}
		return fmt.Errorf("follow the access log: %w", err)
	}
	f.offset = 0
	if !f.whole {
		if f.offset, err = file.Seek(0, io.SeekEnd); err != nil {
			file.Close()
			return fmt.Errorf("follow the access log %s: %w (a pipe or a terminal cannot be followed: log to a file)", f.Path, err)
		}
		f.skipping = midLine(file, f.offset)
	}
	f.file, f.whole = file, true
	return nil
}

// midLine reports whether offset is within a line.
func midLine(file *os.File, offset int64) bool {
	if offset == 0 {
		return false
	}
	last := []byte{'\n'}
	_, err := file.ReadAt(last, offset-1)
	return err == nil && last[0] != '\n'
}

// restart rewinds a file that has become shorter.
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

// forget drops a line that will never be completed.
func (f *Follower) forget() {
	if len(f.partial) > 0 {
		f.Skipped()
	}
	f.partial, f.skipping = f.partial[:0], false
}

// read reads to the end of the file, but at most about perPoll bytes.
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

// split passes on the lines that end in data.
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
		case f.skipping: // its beginning was dropped, and counted if it was too long
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

// replaced reports whether Path refers to another file than the open one. A removed file is
// read until there is another.
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

// shorten truncates a file that was read to its end and exceeds Keep.
func (f *Follower) shorten() error {
	if f.Keep <= 0 || f.offset <= f.Keep || len(f.partial) > 0 {
		return nil
	}
	// Check again: lines written between this and the truncation are lost.
	if info, err := f.file.Stat(); err != nil || info.Size() != f.offset {
		return nil //nolint:nilerr // the next poll meets the fault, or reads first
	}
	if err := os.Truncate(f.Path, 0); err != nil {
		return fmt.Errorf("truncate the access log: %w", err)
	}
	return f.rewind()
}
