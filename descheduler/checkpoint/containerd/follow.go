package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
)

const (
	// followEvery is the time after which the files of CRIU are read again.
	followEvery = 5 * time.Millisecond
	// leastPart is the least that is sent of a file while it grows.
	leastPart = 1 << 20
)

var _ checkpoint.Follower = (*Client)(nil)

// Follow sends the memory pages while CRIU writes them, and all else after the dump. CRIU writes pages-1.img, pages-2.img and so
// on one after the other, each from its beginning to its end.
func (c *Client) Follow(ctx context.Context, k checkpoint.Container, dir string, dumped <-chan struct{}, w io.Writer) error {
	f := follower{archive: archive.NewWriter(w), dir: filepath.Join(dir, archive.Checkpoint), sent: map[string]int64{}}
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-dumped:
			ended = true
		case <-c.Clock.After(followEvery):
		}
		if err := f.send(ended); err != nil {
			return err
		}
	}
	n, err := readNotes(k, dir)
	if err != nil {
		return err
	}
	if err := c.archiveRest(ctx, k, f.archive, dir, n, f.sent); err != nil {
		return err
	}
	return f.archive.Close()
}

// follower sends the pages of a dump that is being written.
type follower struct {
	archive *archive.Writer
	dir     string           // of the images
	sent    map[string]int64 // bytes sent, by file
}

// send sends what was written since: of the last file only whole parts, unless the dump has ended.
func (f *follower) send(ended bool) error {
	files, err := f.pages()
	if err != nil {
		return err
	}
	for i, name := range files {
		more, err := f.grown(name)
		if err != nil {
			return err
		}
		_, begun := f.sent[name]
		last := i == len(files)-1
		if last && !ended {
			more -= more % checkpoint.PageBytes // each part has whole pages
		}
		switch {
		case more > 0 && begun && !last && slices.ContainsFunc(files[i+1:], f.begun):
			return fmt.Errorf("send the dump while it is written: %s has grown although a later file was begun", name)
		case more >= leastPart, more > 0 && (ended || !last), !begun && (ended || !last):
			if err := f.part(name, more); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *follower) begun(name string) bool {
	_, is := f.sent[name]
	return is
}

// pages returns the names of the files with pages, in the order in which CRIU writes them.
func (f *follower) pages() (names []string, err error) {
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the dump has not begun
	}
	if err != nil {
		return nil, fmt.Errorf("send the dump while it is written: %w", err)
	}
	for _, entry := range entries {
		if numberOf(entry.Name()) > 0 && entry.Type().IsRegular() {
			names = append(names, entry.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return numberOf(a) - numberOf(b) })
	return names, nil
}

// numberOf returns the number in the name of a file with pages; 0 for other files.
func numberOf(name string) int { return archive.Page(path.Join(archive.Checkpoint, name)) }

// grown returns by how many bytes a file has grown since it was sent.
func (f *follower) grown(name string) (int64, error) {
	info, err := os.Stat(filepath.Join(f.dir, name))
	if err != nil {
		return 0, fmt.Errorf("send the dump while it is written: %w", err)
	}
	return info.Size() - f.sent[name], nil
}

// part sends the next bytes of a file.
func (f *follower) part(name string, size int64) error {
	file, err := os.Open(filepath.Join(f.dir, name))
	if err != nil {
		return fmt.Errorf("send the dump while it is written: %w", err)
	}
	defer file.Close()
	if err := f.archive.From(path.Join(archive.Checkpoint, name), size, io.NewSectionReader(file, f.sent[name], size)); err != nil {
		return err
	}
	f.sent[name] += size
	return nil
}
