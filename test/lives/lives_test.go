package lives

import (
	"bytes"
	"path/filepath"
	"testing"

	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestLivesAreVariedAndEqualForEqualSeeds: without deletions, interruptions and odd requirements, simulations of
// recordings would show nothing.
func TestLivesAreVariedAndEqualForEqualSeeds(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(60) {
		var texts [2][]byte
		var told [2]*Life
		for i := range texts {
			path := filepath.Join(t.TempDir(), "week.csv")
			var err error
			if told[i], err = Record(path, seed); err != nil {
				t.Fatal(err)
			}
			texts[i] = testfile.Read(t, path)
		}
		rec, err := trace.ReadRecording("week.csv", bytes.NewReader(texts[0]))
		if err != nil {
			t.Fatal(err)
		}
		if hashed := rec.Rows[0].Name == trace.NamesHashed; *told[0] != *told[1] || !hashed && !bytes.Equal(texts[0], texts[1]) {
			t.Errorf("seed %d gives two lives", seed)
		}
		if told[0].Unpriced {
			seen["unpriced"]++
		}
		for _, r := range rec.Rows {
			seen[string(r.Event)]++
			seen[r.Name], seen[r.Arch], seen[r.Migration], seen[string(r.Class)] = seen[r.Name]+1, seen[r.Arch]+1, seen[r.Migration]+1, seen[string(r.Class)]+1
			if r.Event == trace.EventBegin && r.Time > rec.Rows[0].Time {
				seen["interrupted"]++
			}
		}
	}
	for _, what := range []string{"begin", "alive", "stop", "node", "gone", "pod", "daemon", "start", "end", "plain", "hashed", "amd64", "arm64", "x86_64", "never", "restart", "checkpoint", "batch", "service", "unpriced", "interrupted"} {
		if seen[what] == 0 {
			t.Errorf("no life has %q", what)
		}
	}
}
