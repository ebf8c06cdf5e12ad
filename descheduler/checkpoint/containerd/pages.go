package containerd

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"supercargo.dev/supercargo/descheduler/checkpoint"
)

var _ checkpoint.Pager = (*Client)(nil)

const (
	// piece is how much memory is read at once, and mapPart how many bytes of a pagemap.
	piece   = 1 << 20
	mapPart = 64 << 10
	// pagemapEntry is the size of an entry of a pagemap. It is of a page of this node.
	pagemapEntry = 8
	// pagePresent and pageOfFile are bits of an entry: the page is in memory, and it is one of a file, or shared.
	pagePresent = 1 << 63
	pageOfFile  = 1 << 61
)

// Pages reads the private memory of all processes of a container. A process that ends meanwhile is left out.
func (c *Client) Pages(ctx context.Context, k checkpoint.Container, visit func([]byte) error) error {
	if err := c.own(ctx, k); err != nil {
		return err
	}
	pids, err := c.processes(ctx, k)
	if err != nil {
		return fmt.Errorf("list the processes of %s: %w", k, err)
	}
	p := pager{visit: visit, page: int64(os.Getpagesize()), buf: make([]byte, piece), entries: make([]byte, mapPart)}
	for _, pid := range pids {
		if err := p.process(ctx, filepath.Join(c.Proc, strconv.Itoa(pid)), k.ID); err != nil {
			return err
		}
	}
	return nil
}

// pager reads the memory of processes.
type pager struct {
	visit        func([]byte) error
	page         int64 // size of a page of this node
	buf, entries []byte
	mem, pagemap *os.File
}

// process reads the memory of one process, if it belongs to the container with this ID: another may have got the number of one
// that has ended.
func (p *pager) process(ctx context.Context, dir, id string) error {
	root, err := os.OpenRoot(dir) // first, so that everything is of the process that is checked
	if err != nil {
		return nil //nolint:nilerr // it has ended
	}
	defer func() { _ = root.Close() }() // nothing was written to it
	group, err := root.ReadFile("cgroup")
	if err != nil {
		return nil //nolint:nilerr // it has ended
	}
	path, _ := freezerPath(string(group))
	if _, found := upTo(path, id); !found {
		return nil
	}
	return p.files(ctx, root)
}

// files reads the memory of the process with a folder in /proc.
func (p *pager) files(ctx context.Context, process *os.Root) error {
	var files [3]*os.File
	for i, name := range []string{"maps", "pagemap", "mem"} {
		f, err := process.Open(name)
		if err != nil {
			return nil //nolint:nilerr // it has ended
		}
		defer f.Close()
		files[i] = f
	}
	p.pagemap, p.mem = files[1], files[2]
	return p.mappings(ctx, files[0])
}

// mappings reads the memory that a file such as /proc/PID/maps lists.
func (p *pager) mappings(ctx context.Context, maps io.Reader) error {
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		from, to, ok := private(lines.Text())
		if !ok {
			continue
		}
		if err := p.mapping(ctx, from, to); err != nil {
			return err
		}
	}
	return nil // an error is that of a process that has ended
}

// private parses a line of /proc/PID/maps: the addresses of memory that a process can read and does not share; false for
// other lines. The kernel's own pages, such as [vdso], do not count.
func private(line string) (from, to int64, ok bool) {
	fields := strings.Fields(line) // addresses, permissions, offset, device, inode, path
	if len(fields) < 2 || len(fields[1]) < 4 || fields[1][0] != 'r' || fields[1][3] != 'p' || len(fields) > 5 && strings.HasPrefix(fields[5], "[v") {
		return 0, 0, false
	}
	first, last, _ := strings.Cut(fields[0], "-")
	from, err := strconv.ParseInt(first, 16, 64)
	if err != nil {
		return 0, 0, false
	}
	to, err = strconv.ParseInt(last, 16, 64)
	return from, to, err == nil && from >= 0 && from < to
}

// mapping reads the pages of a mapping that are in memory and not of a file.
func (p *pager) mapping(ctx context.Context, from, to int64) error {
	for from < to {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := p.visit(nil); err != nil { // large mappings may have no pages
			return err
		}
		pages := min((to-from)/p.page, mapPart/pagemapEntry)
		n, _ := p.pagemap.ReadAt(p.entries[:pages*pagemapEntry], from/p.page*pagemapEntry)
		if pages = int64(n) / pagemapEntry; pages == 0 {
			return nil // the process has ended
		}
		if err := p.present(from, p.entries[:pages*pagemapEntry]); err != nil {
			return err
		}
		from += pages * p.page
	}
	return nil
}

// present reads the pages that entries of a pagemap say are there, the first at an address.
func (p *pager) present(from int64, entries []byte) error {
	run := int64(0) // pages up to this one
	for at := from; ; at += p.page {
		wanted := len(entries) > 0 && own(binary.NativeEndian.Uint64(entries))
		if wanted && (run+1)*p.page <= int64(len(p.buf)) {
			run++
		} else if run > 0 {
			if err := p.read(at-run*p.page, run*p.page); err != nil {
				return err
			}
			run = 0
			if wanted {
				run = 1
			}
		}
		if len(entries) == 0 {
			return nil
		}
		entries = entries[pagemapEntry:]
	}
}

// own reports whether a page is in memory and neither shared nor one of a file.
func own(entry uint64) bool { return entry&pagePresent != 0 && entry&pageOfFile == 0 }

// read visits some memory. What cannot be read is left out: it may be gone.
func (p *pager) read(at, size int64) error {
	n, err := p.mem.ReadAt(p.buf[:size], at)
	if err != nil {
		n -= n % checkpoint.PageBytes
	}
	return p.visit(p.buf[:n])
}
