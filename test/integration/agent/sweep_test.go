package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// TestLeftoversAreRemovedAndNothingElse checks that a dump without an entry in the ledger is removed, and
// that a needed dump and other files stay.
func TestLeftoversAreRemovedAndNothingElse(t *testing.T) {
	b := newBench(t)
	b.start()
	pod := b.pod("work")
	m := b.shipped(pod)
	b.stop()
	left := filepath.Join(b.config.WorkDir, "0f8fad5b-d9cb-469f-a165-70867728950e")
	foreign := filepath.Join(b.config.WorkDir, "photos")
	for _, dir := range []string{left, foreign} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.start()
	b.Eventually("what was left is removed", func() string {
		if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
			return "it is there"
		}
		return ""
	})
	for _, dir := range []string{foreign, filepath.Join(b.config.WorkDir, string(m.UID))} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("what is not left over was removed: %v", err)
		}
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	b.order(m, v1alpha1.OrderThaw)
	b.sourceSays(m, v1alpha1.SourceThawed)
}
