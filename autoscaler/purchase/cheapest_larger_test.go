package purchase

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestLargerBuysFewerMachinesIfEachCostsMore(t *testing.T) {
	flavors := []Flavor{flavor("small", 1, 1, 100), flavor("large", 4, 4, 420)}
	r := Request{Flavors: flavors}
	for i := range 4 {
		r.Pods = append(r.Pods, pod(fmt.Sprint("p", i), 1, 1))
	}
	for _, tc := range []struct {
		overhead int64
		want     []string
		price    int64
	}{
		{0, []string{"small", "small", "small", "small"}, 400},
		{-100, []string{"small", "small", "small", "small"}, 400}, // counts as none
		{6, []string{"small", "small", "small", "small"}, 400},
		{7, []string{"large"}, 420},
	} {
		got := Larger(r, tc.overhead)
		if diff := cmp.Diff(tc.want, flavorsOf(&got)); diff != "" {
			t.Errorf("with an overhead of %d (-want +got):\n%s", tc.overhead, diff)
		}
		if got.MicroDollarsPerHour != tc.price {
			t.Errorf("with an overhead of %d, the plan costs %d, want %d", tc.overhead, got.MicroDollarsPerHour, tc.price)
		}
	}
}

// TestLargerStatesPricesWithoutTheOverhead compares with the plan of flavors at a higher price, and without an overhead
// with Supercargo's.
func TestLargerStatesPricesWithoutTheOverhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		overhead := rapid.Int64Range(0, 50_000).Draw(t, "overhead")
		high := r
		high.Flavors = slices.Clone(r.Flavors)
		for i := range high.Flavors {
			high.Flavors[i].MicroDollarsPerHour += overhead
		}
		got, want := Larger(r, overhead), Supercargo(high).Plan
		if diff := cmp.Diff(want.Assignments, got.Assignments); diff != "" {
			t.Fatalf("assignments (-higher prices +got):\n%s", diff)
		}
		if price := want.MicroDollarsPerHour - overhead*int64(len(want.Machines)); got.MicroDollarsPerHour != price {
			t.Fatalf("it costs %d, want %d", got.MicroDollarsPerHour, price)
		}
		if diff := cmp.Diff(Supercargo(r).Plan, Larger(r, 0)); diff != "" {
			t.Fatalf("without an overhead (-Supercargo +got):\n%s", diff)
		}
	})
}

func flavorsOf(p *Plan) (all []string) {
	for i := range p.Machines {
		all = append(all, p.Machines[i].Flavor)
	}
	return all
}
