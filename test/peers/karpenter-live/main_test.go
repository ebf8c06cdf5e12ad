package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryWaitIsFoundInKarpenter fails if the waits have moved in another version of Karpenter: a comparison
// with some unchanged waits would not be fair.
func TestEveryWaitIsFoundInKarpenter(t *testing.T) {
	sources, err := findSources()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "karpenter")
	if err := copySources(sources, out, 30); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "pkg/controllers/disruption/consolidation.go"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "const commandValidationDelay = (15 * time.Second)/30\n"; !strings.Contains(string(text), want) {
		t.Errorf("the changed file has no %q", want)
	}
}

func TestAWaitThatIsNotThereIsRefused(t *testing.T) {
	w := wait{"a.go", "x = |time.Second|", 1}
	for _, text := range []string{"", "x = time.Minute", "x = time.Second; x = time.Second"} {
		if changed, err := w.shorten(text, 30); err == nil {
			t.Errorf("%q became %q, want an error", text, changed)
		}
	}
	if changed, err := w.shorten("x = time.Second", 30); err != nil || changed != "x = (time.Second)/30" {
		t.Errorf("shortened to %q with error %v", changed, err)
	}
}
