package app

import (
	"path/filepath"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestTheAvailableMemoryIsThatOfTheKernel(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want int64 // negative: an error
	}{
		"as the kernel writes it": {"MemTotal:       24683652 kB\nMemFree:         1024 kB\nMemAvailable:       2048 kB\n", 2048 << 10},
		"without the line":        {"MemTotal:       24683652 kB\n", -1},
		"not a number":            {"MemAvailable:       much kB\n", -1},
	} {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			testfile.Write(t, filepath.Join(proc, "meminfo"), tc.text)
			if got, err := availableMemory(proc); tc.want < 0 && err == nil || tc.want >= 0 && (err != nil || got != tc.want) {
				t.Errorf("it is %d, %v, want %d", got, err, tc.want)
			}
		})
	}
	if _, err := availableMemory(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error without a /proc")
	}
}
