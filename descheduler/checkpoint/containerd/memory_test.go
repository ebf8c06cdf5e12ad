package containerd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestMemoryOfProcessesIsAddedUp(t *testing.T) {
	proc := t.TempDir()
	for pid, status := range map[string]string{"7": "RssAnon:\t4 kB\n", "8": "RssAnon:\t8 kB\n", "9": "RssAnon:\t16 kB\n"} {
		if err := os.Mkdir(filepath.Join(proc, pid), 0o700); err != nil {
			t.Fatal(err)
		}
		testfile.Write(t, filepath.Join(proc, pid, "status"), status)
	}
	if got, err := memoryOf(proc, []int{7, 9, 10}); err != nil || got != 20<<10 {
		t.Errorf("the memory is %d (%v), want %d: 10 has ended", got, err, 20<<10)
	}
}

func TestOwnMemoryIsWhatNoFileBacks(t *testing.T) {
	const status = "Name:\tcounter\nVmRSS:\t    2000 kB\nRssAnon:\t     100 kB\nRssFile:\t    1890 kB\nRssShmem:\t      10 kB\nVmSwap:\t       1 kB\n"
	if got, err := ownMemory(strings.NewReader(status)); err != nil || got != 111<<10 {
		t.Errorf("own memory is %d (%v), want %d", got, err, 111<<10)
	}
	for _, bad := range []string{"RssAnon:\tmuch kB\n", "RssAnon:\t-1 kB\n", "RssAnon:\t9999999999999999999 kB\n"} {
		if got, err := ownMemory(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is %d bytes, want an error", bad, got)
		}
	}
}

func FuzzOwnMemory(f *testing.F) {
	f.Add("RssAnon:\t100 kB\nRssShmem:\t1 kB\n")
	f.Fuzz(func(t *testing.T, status string) {
		if got, err := ownMemory(strings.NewReader(status)); err == nil && strings.Count(status, "\n") < 1000 && got < 0 {
			t.Errorf("%q is %d bytes", status, got)
		}
	})
}
