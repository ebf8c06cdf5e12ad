package catalogue

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/packing"
)

const flavorHeader = "name,cpu,memory_gib,price_per_hour\n"

var flavorGen = rapid.Custom(func(t *rapid.T) Flavor {
	f := Flavor{
		Flavor: cluster.Flavor{
			Name:                rapid.StringMatching(`[a-zA-Z0-9",.ä]{1,12}`).Draw(t, "name"),
			Size:                packing.Size{MilliCPU: rapid.Int64Range(1, table.MaxMilliCPU).Draw(t, "cpu"), MemoryBytes: rapid.Int64Range(1, table.MaxMemoryBytes).Draw(t, "memory")},
			MicroDollarsPerHour: rapid.Int64Range(0, maxMicroDollarsPerHour).Draw(t, "price"),
			Arch:                rapid.SampledFrom([]string{"", "amd64", "arm64"}).Draw(t, "arch"),
			MaxPods:             rapid.Ptr(rapid.Int64Range(1, maxMaxPods), true).Draw(t, "pods"),
		},
		MachineType:    rapid.StringMatching(`([a-zA-Z0-9]([a-zA-Z0-9._-]{0,9}[a-zA-Z0-9])?)?`).Draw(t, "type"),
		MilliwattsFull: rapid.Int64Range(0, maxMilliwatts).Draw(t, "full"),
	}
	f.MilliwattsIdle = rapid.Int64Range(0, f.MilliwattsFull).Draw(t, "idle")
	return f
})

func TestFlavorsReadBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flavors := rapid.SliceOfNDistinct(flavorGen, 1, 20, func(f Flavor) string { return f.Name }).Draw(t, "flavors")
		slices.SortFunc(flavors, func(a, b Flavor) int { return strings.Compare(a.Name, b.Name) })
		var file bytes.Buffer
		if err := writeFlavors(&file, flavors); err != nil {
			t.Fatal(err)
		}
		got, err := ReadFlavors("f.csv", &file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(flavors, got); diff != "" {
			t.Fatalf("flavors (-written +read):\n%s", diff)
		}
	})
}

// FuzzReadFlavors checks that accepted flavors are valid machines and survive being written and read again.
func FuzzReadFlavors(f *testing.F) {
	f.Add([]byte(flavorHeader + "a,2,8,0.1\nb,1930m,6.74,1.6128\n"))
	f.Add([]byte("name,cpu,memory_gib,price_per_hour,arch,machine_type,max_pods,watts_idle,watts_full\na,2,8,0.1,amd64,x,10,1,2\n"))
	f.Add([]byte(flavorHeader + "a,-2,NaN,Inf\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		flavors, err := ReadFlavors("f.csv", bytes.NewReader(input))
		if err != nil {
			checkRefusal(t, err)
			return
		}
		for _, f := range flavors {
			if f.Size.MilliCPU <= 0 || f.Size.MemoryBytes <= 0 || f.MicroDollarsPerHour < 0 || f.MilliwattsIdle > f.MilliwattsFull {
				t.Fatalf("%+v is no machine", f)
			}
		}
		var file bytes.Buffer
		if err := writeFlavors(&file, flavors); err != nil {
			t.Fatal(err)
		}
		again, err := ReadFlavors("f.csv", &file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(flavors, again); diff != "" {
			t.Fatalf("flavors (-first +again):\n%s", diff)
		}
	})
}

// checkRefusal checks that an error names the file and is short.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	var all *table.Errors
	if !errors.As(err, &all) || len(all.List) == 0 || len(all.List) > table.MaxErrors {
		t.Fatalf("refused with %T %v, want *table.Errors within the bound", err, err)
	}
	for _, fault := range all.List {
		if !strings.HasSuffix(fault.File, ".csv") || fault.Problem == "" {
			t.Fatalf("fault %+v does not say where or what", fault)
		}
	}
}

func BenchmarkReadFlavors(b *testing.B) {
	var input bytes.Buffer
	input.WriteString(flavorHeader)
	for i := range 8152 {
		fmt.Fprintf(&input, "flavor-%04d,1.93,6.74,0.1008\n", i)
	}
	b.ReportAllocs()
	b.SetBytes(int64(input.Len()))
	for b.Loop() {
		if _, err := ReadFlavors("f.csv", bytes.NewReader(input.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}
