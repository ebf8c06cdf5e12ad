package upper

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAVolumeIsMeasuredWithoutHoles(t *testing.T) {
	dir := folder(t, "a", "d/b", "other/c")
	for name, size := range map[string]int64{"d/data": 1 << 20, "other/skipped": 1 << 20} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "d/data"), filepath.Join(dir, "second")); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "a"), 1<<40); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }() // nothing was written to it
	v := Volume{Root: root, Skip: map[string]bool{"other": true}}
	if got, err := v.Bytes(1 << 30); err != nil || got < 1<<20 || got > 1<<20+64<<10 {
		t.Errorf("it has %d bytes (%v), want about 1 MiB", got, err)
	}
	if got, err := v.Bytes(1 << 19); err != nil || got <= 1<<19 {
		t.Errorf("with at most 512 KiB it has %d bytes (%v)", got, err)
	}
}
