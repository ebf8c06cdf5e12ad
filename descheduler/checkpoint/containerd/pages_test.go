package containerd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"supercargo.dev/supercargo/descheduler/checkpoint"
)

// mapped returns private memory of this process, of so many pages of the node.
func mapped(t *testing.T, pages int) ([]byte, int64) {
	t.Helper()
	page := os.Getpagesize()
	memory, err := syscall.Mmap(-1, 0, pages*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(memory) })
	return memory, int64(page)
}

// TestTheMemoryOfAProcessIsRead: what was written, and nothing else, of this process.
func TestTheMemoryOfAProcessIsRead(t *testing.T) {
	memory, page := mapped(t, 600)
	// The text is in no other memory of this process, where it could be at the beginning of a page too.
	pattern := []byte("written by the test of pages")
	for _, at := range []int64{0, 1, 2, 299, 300, 598} {
		for i, b := range pattern {
			memory[at*page+int64(i)] = ^b
		}
		binary.NativeEndian.PutUint16(memory[at*page+int64(len(pattern)):], uint16(at))
	}
	matches := func(page []byte) bool {
		for i, b := range pattern {
			if page[i] != ^b {
				return false
			}
		}
		return true
	}
	process, err := os.OpenRoot("/proc/self")
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close() //nolint:errcheck // nothing is written to it
	var found []string
	total := int64(0)
	p := pager{visit: func(pages []byte) error {
		total += int64(len(pages))
		if len(pages)%checkpoint.PageBytes != 0 {
			return fmt.Errorf("%d bytes are not whole pages", len(pages))
		}
		for at := 0; at < len(pages); at += checkpoint.PageBytes {
			if matches(pages[at:]) {
				found = append(found, fmt.Sprint(binary.NativeEndian.Uint16(pages[at+len(pattern):])))
			}
		}
		return nil
	}, page: page, buf: make([]byte, piece), entries: make([]byte, mapPart)}
	if err := p.files(t.Context(), process); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(found, " "); got != "0 1 2 299 300 598" {
		t.Errorf("the pages %q were read, of %d bytes", got, total)
	}
	found = nil
	if err := p.process(t.Context(), "/proc/self", "no-such-container"); err != nil || len(found) > 0 {
		t.Errorf("a process of another container is read: %v (%v)", found, err)
	}
	if err := p.process(t.Context(), "/proc/no-such-process", "any"); err != nil {
		t.Errorf("a process that has ended: %v", err)
	}
	enough := errors.New("enough")
	p.visit = func([]byte) error { return enough }
	if err := p.files(t.Context(), process); !errors.Is(err, enough) {
		t.Errorf("reading continues after the visitor has ended it: %v", err)
	}
}

func TestMappingsThatMayBeInADump(t *testing.T) {
	for line, want := range map[string]bool{
		"7f0000000000-7f0000021000 rw-p 00000000 00:00 0":                                   true,
		"55d0c0a00000-55d0c0a21000 rw-p 00000000 00:00 0                  [heap]":           true,
		"7ffc0a9e0000-7ffc0aa01000 rw-p 00000000 00:00 0                  [stack]":          true,
		"55d0bfe00000-55d0bfe21000 r--p 00000000 08:01 1234               /usr/bin/program": true, // the loader has written to it
		"7f0000000000-7f0000021000 ---p 00000000 00:00 0":                                   false,
		"7f0000000000-7f0000021000 rw-s 00000000 00:01 1                  /dev/zero":        false,
		"7ffc0abc0000-7ffc0abc4000 r--p 00000000 00:00 0                  [vvar]":           false,
		"7ffc0abc4000-7ffc0abc6000 r-xp 00000000 00:00 0                  [vdso]":           false,
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0          [vsyscall]":       false,
		"ffffffffff600000-ffffffffff601000 r-xp 00000000 00:00 0":                           false,
		"7f0000021000-7f0000000000 rw-p 00000000 00:00 0":                                   false,
		"":                          false,
		"a r":                       false,
		"a rwp":                     false,
		"a-b":                       false,
		"x-y rw-p 00000000 00:00 0": false,
	} {
		from, to, got := private(line)
		if got != want || got && (from <= 0 || to <= from) {
			t.Errorf("%q: %x to %x, %v", line, from, to, got)
		}
	}
}

// TestRunsOfPagesAreReadAtOnce, up to the size of the buffer.
func TestRunsOfPagesAreReadAtOnce(t *testing.T) {
	const page = checkpoint.PageBytes
	file := filepath.Join(t.TempDir(), "mem")
	if err := os.WriteFile(file, make([]byte, 20*page), 0o600); err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	entries := func(bits string) (all []byte) {
		for _, bit := range bits {
			all = binary.NativeEndian.AppendUint64(all, map[rune]uint64{'.': 0, 'x': pagePresent, 'f': pagePresent | pageOfFile, 's': 1 << 62}[bit])
		}
		return all
	}
	for bits, want := range map[string]string{
		"": "", "....": "", "x": "1", "xxx": "3", "xxxx": "3 1", "xxxxxxx": "3 3 1", "x.xx.xxx": "1 2 3", "xf": "1", "fxxf": "2", "sxs": "1",
		"..................xxx": "2", // the last is not there any more
	} {
		var got []string
		p := pager{page: page, buf: make([]byte, 3*page), mem: mem, visit: func(pages []byte) error {
			got = append(got, fmt.Sprint(len(pages)/page))
			return nil
		}}
		if err := p.present(0, entries(bits)); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: runs of %v pages are read, want %q (%v)", bits, got, want, err)
		}
	}
}
