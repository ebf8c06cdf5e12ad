package trace

import (
	"bytes"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var podGen = rapid.Custom(func(t *rapid.T) Pod {
	text := rapid.StringMatching(`([a-zA-Z0-9,"'äß][a-zA-Z0-9,"'äß ]{0,8}[a-z,"])?`)
	return Pod{
		Name:        rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,4}[a-z0-9])?(\.[a-z0-9]{1,3})?`).Draw(t, "name"),
		Arrival:     time.Duration(rapid.Int64Range(0, 1<<61).Draw(t, "arrival")),
		Runtime:     time.Duration(rapid.Int64Range(0, 1<<61).Draw(t, "runtime")),
		MilliCPU:    rapid.Int64Range(0, maxMilliCPU).Draw(t, "cpu"),
		MemoryBytes: rapid.Int64Range(0, maxMemoryBytes).Draw(t, "memory"),
		Class:       rapid.SampledFrom([]Class{ClassUnset, ClassBatch, ClassService}).Draw(t, "class"),
		Category:    text.Draw(t, "category"),
		Arch:        rapid.SampledFrom([]string{"", "amd64", "arm64"}).Draw(t, "arch"),
	}
})

func TestPodsReadBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.SliceOfNDistinct(podGen, 1, 20, func(p Pod) string { return p.Name }).Draw(t, "pods")
		SortPods(pods)
		var file bytes.Buffer
		if err := WritePods(&file, pods); err != nil {
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

var flavorGen = rapid.Custom(func(t *rapid.T) Flavor {
	f := Flavor{
		Name:                rapid.StringMatching(`[a-zA-Z0-9",.ä]{1,12}`).Draw(t, "name"),
		MilliCPU:            rapid.Int64Range(1, maxMilliCPU).Draw(t, "cpu"),
		MemoryBytes:         rapid.Int64Range(1, maxMemoryBytes).Draw(t, "memory"),
		MicroDollarsPerHour: rapid.Int64Range(0, maxMicroDollarsPerHour).Draw(t, "price"),
		Arch:                rapid.SampledFrom([]string{"", "amd64", "arm64"}).Draw(t, "arch"),
		MachineType:         rapid.StringMatching(`([a-zA-Z0-9]([a-zA-Z0-9._-]{0,9}[a-zA-Z0-9])?)?`).Draw(t, "type"),
		MaxPods:             rapid.Int64Range(0, maxMaxPods).Draw(t, "pods"),
		MilliwattsFull:      rapid.Int64Range(0, maxMilliwatts).Draw(t, "full"),
	}
	f.MilliwattsIdle = rapid.Int64Range(0, f.MilliwattsFull).Draw(t, "idle")
	return f
})

func TestFlavorsReadBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flavors := rapid.SliceOfNDistinct(flavorGen, 1, 20, func(f Flavor) string { return f.Name }).Draw(t, "flavors")
		slices.SortFunc(flavors, func(a, b Flavor) int { return strings.Compare(a.Name, b.Name) })
		var file bytes.Buffer
		if err := WriteFlavors(&file, flavors); err != nil {
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

// TestDecimalAgreesWithRationals compares with big.Rat, which shares no code.
func TestDecimalAgreesWithRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[0-9]{1,20}(\.[0-9]{1,18})?`).Draw(t, "text")
		unit := rapid.SampledFrom([]int64{1, 1000, 1_000_000, 1_000_000_000, bytesPerMiB, bytesPerGiB}).Draw(t, "unit")
		r := rapid.SampledFrom([]rounding{exact, roundDown, roundUp}).Draw(t, "rounding")
		want, _ := new(big.Rat).SetString(text)
		want.Mul(want, new(big.Rat).SetInt64(unit))
		whole, rest := new(big.Int).QuoRem(want.Num(), want.Denom(), new(big.Int))
		if r == roundUp && rest.Sign() > 0 {
			whole.Add(whole, big.NewInt(1))
		}
		refuse := !whole.IsInt64() || r == exact && rest.Sign() > 0
		got, err := decimal(text, unit, r)
		switch {
		case refuse != (err != nil):
			t.Fatalf("decimal(%q, %d, %d) = %d, %v, want refusal %v", text, unit, r, got, err, refuse)
		case err == nil && got != whole.Int64():
			t.Fatalf("decimal(%q, %d, %d) = %d, want %s", text, unit, r, got, whole)
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
