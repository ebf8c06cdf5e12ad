package trace

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/packing"
)

var podGen = rapid.Custom(func(t *rapid.T) Pod {
	text := rapid.StringMatching(`([a-zA-Z0-9,"'äß][a-zA-Z0-9,"'äß ]{0,8}[a-z,"])?`)
	return Pod{
		Item:     packing.Item{Name: rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,4}[a-z0-9])?(\.[a-z0-9]{1,3})?`).Draw(t, "name"), Arrival: time.Duration(rapid.Int64Range(0, 1<<61).Draw(t, "arrival")), Runtime: time.Duration(rapid.Int64Range(0, 1<<61).Draw(t, "runtime")), Size: packing.Size{MilliCPU: rapid.Int64Range(0, table.MaxMilliCPU).Draw(t, "cpu"), MemoryBytes: rapid.Int64Range(0, table.MaxMemoryBytes).Draw(t, "memory")}},
		Class:    rapid.SampledFrom([]class.Class{"", class.Batch, class.Service}).Draw(t, "class"),
		Category: text.Draw(t, "category"),
		Arch:     rapid.SampledFrom([]string{"", "amd64", "arm64"}).Draw(t, "arch"),
	}
})

func TestPodsReadBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.SliceOfNDistinct(podGen, 1, 20, func(p Pod) string { return p.Name }).Draw(t, "pods")
		SortPods(pods)
		var file bytes.Buffer
		if err := writePods(&file, pods); err != nil {
			t.Fatal(err)
		}
		got, err := ReadPods("t.csv", &file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(pods, got); diff != "" {
			t.Fatalf("pods (-written +read):\n%s", diff)
		}
	})
}

func TestRowOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := []string{"a,5,1,1,1", "b,5,1,1,1", "c,1,1,1,1", "d,0.5,1,1,1"}
		shuffled := rapid.Permutation(rows).Draw(t, "rows")
		got, err := ReadPods("t.csv", strings.NewReader("name,"+genericHeader+strings.Join(shuffled, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range got {
			names = append(names, p.Name)
		}
		if diff := cmp.Diff([]string{"d", "c", "a", "b"}, names, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("names (-want +got):\n%s", diff)
		}
	})
}
