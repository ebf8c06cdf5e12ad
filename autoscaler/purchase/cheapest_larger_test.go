package purchase

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

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

func TestALimitInDollarsCountsTheOverhead(t *testing.T) {
	r := Request{Flavors: []Flavor{flavor("small", 1, 1, 100)}, Pods: []Pod{pod("a", 1, 1), pod("b", 1, 1)}}
	r.Limits.MicroDollarsPerHour = new(int64(210))
	for overhead, want := range map[int64]int{0: 2, 5: 2, 6: 1} {
		if got := Larger(r, overhead); len(got.Machines) != want || len(got.Unplaceable) != 2-want {
			t.Errorf("with an overhead of %d: %d machines and %d pods without one, want %d and %d",
				overhead, len(got.Machines), len(got.Unplaceable), want, 2-want)
		}
	}
}

func TestTheHighestPriceIsNoLowerWithAnOverhead(t *testing.T) {
	r := Request{Flavors: []Flavor{flavor("a", 1, 1, math.MaxInt64), flavor("b", 1, 1, 100)}, Pods: []Pod{pod("p", 1, 1)}}
	got := Larger(r, 1)
	if diff := cmp.Diff([]string{"b"}, flavorsOf(&got)); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
}

// TestLargerStatesPricesWithoutTheOverhead compares with the plan of flavors at a higher price, and without an overhead
// with Supercargo's.
func TestLargerStatesPricesWithoutTheOverhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		for i := range r.Pods {
			r.Pods[i].Runtime = time.Duration(rapid.IntRange(0, 5).Draw(t, "runtime")) * time.Hour
		}
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
