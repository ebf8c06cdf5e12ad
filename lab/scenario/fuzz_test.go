package scenario

import (
	"errors"
	"regexp"
	"testing"

	"supercargo.dev/supercargo/internal/input/table"
)

// manyPods matches counts, rates and horizons that take long.
var manyPods = regexp.MustCompile(`[0-9]{5}`)

// FuzzRead checks that every accepted scenario can be drawn, and that every rejected one is
// rejected in the documented way.
func FuzzRead(f *testing.F) {
	f.Add([]byte(base))
	f.Add([]byte(withPatterns(patterns...)))
	f.Add([]byte(head + "  flavorsFile: flavors.csv\n  nodes: [{flavor: z}]\n  acquisitionLag: {mean: 1s, sd: 1s}\n"))
	f.Add([]byte(base + "  workload: {traces: [{file: pods.csv, timeScale: 0.1}], pods: [{name: a, class: batch, cpu: 1, memory: 1, runtime: 1s, count: 9}]}\n"))
	f.Add([]byte(base + "  taskKinds: [{name: k, class: batch, cpu: 1, memory: 1, runtime: {min: 1s, max: 2s}}]\n"))
	f.Add([]byte("a: &a [*a]\n---\n? {}\n: []\n<<: !!binary x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if manyPods.Match(text) {
			t.Skip("may stand for so many pods that little else is tried")
		}
		s, err := Read("s.yaml", text, files)
		if err == nil {
			if s.Horizon <= 0 || len(s.Flavors) == 0 || s.HomogeneousFlavor == "" || s.MaxNodes < 1 || s.Migration.BitsPerSecond < 1 {
				t.Fatalf("accepted %+v", s)
			}
			expected := 0.0
			for _, p := range s.Workload.Patterns {
				expected += float64(p.highest()) * s.Horizon.Seconds()
			}
			if expected < 10_000 {
				_, _ = s.Arrivals(1) // fails only on duplicate names; must not panic
			}
			return
		}
		var all *table.Errors
		if s != nil || !errors.As(err, &all) || len(all.List) == 0 || len(all.List) > table.MaxErrors {
			t.Fatalf("refused with %T %v, want *table.Errors within the bound", err, err)
		}
		for _, fault := range all.List {
			if fault.File == "" || fault.Problem == "" {
				t.Fatalf("fault %+v does not say where or what", fault)
			}
		}
	})
}
