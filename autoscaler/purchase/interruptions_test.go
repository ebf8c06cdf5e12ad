package purchase

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster/capacity"
)

// spotFlavor returns a flavor whose machines are interrupted 0.05 times an hour.
func spotFlavor(name string, cpu, memory, price int64) Flavor {
	f := flavor(name, cpu, memory, price)
	f.Interruptions = capacity.DefaultInterruptions
	return f
}

// repeating returns a batch pod that begins again when it is interrupted.
func repeating(name string, runtime time.Duration) Pod {
	p := job(name, 1, 1, runtime)
	p.Repeats = true
	return p
}

// TestTheExpectedLossDecidesBetweenSpotAndOnDemand: 24 hours that are repeated from the start at each interruption take 46.4
// hours on average.
func TestTheExpectedLossDecidesBetweenSpotAndOnDemand(t *testing.T) {
	moved := job("p", 1, 1, 24*time.Hour)
	for _, tc := range []struct {
		name  string
		pod   Pod
		price int64 // of the spot machine; 1,000 on demand
		want  string
	}{
		{"a pod that is moved with its state, where spot is cheaper", moved, 990, "spot"},
		{"a pod that is moved with its state, where spot costs as much", moved, 1000, "on-demand"},
		{"the machine that replaces it costs more than spot saves", moved, 998, "on-demand"},
		{"a short job", repeating("p", time.Hour), 970, "spot"},
		{"a short job, where its loss is more than spot saves", repeating("p", time.Hour), 980, "on-demand"},
		{"a day's job, where spot is cheap", repeating("p", 24*time.Hour), 510, "spot"},
		{"a day's job, where its loss is more than spot saves", repeating("p", 24*time.Hour), 520, "on-demand"},
		{"a job of unknown runtime", repeating("p", 0), 520, "on-demand"},
	} {
		result := Supercargo(Request{
			Pods: []Pod{tc.pod}, Flavors: []Flavor{flavor("on-demand", 1, 1, 1000), spotFlavor("spot", 1, 1, tc.price)}, Options: MixOptions{Setup: 3 * time.Minute},
		})
		if diff := cmp.Diff([]string{tc.want}, flavorsOf(&result.Plan)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		price := map[string]int64{"spot": tc.price, "on-demand": 1000}[tc.want]
		if result.MicroDollarsPerHour != price || len(result.Machines) == 1 && result.Machines[0].MicroDollarsPerHour != price {
			t.Errorf("%s: the plan costs %d, want %d without the loss", tc.name, result.MicroDollarsPerHour, price)
		}
	}
}

// TestAPodThatLosesMoreThanItSavesLeavesSpotToOthers: the average of both would buy spot machines for both.
func TestAPodThatLosesMoreThanItSavesLeavesSpotToOthers(t *testing.T) {
	r := Request{
		Pods:    []Pod{repeating("long", 48*time.Hour), job("moved", 1, 1, 48*time.Hour), job("moved-too", 1, 1, 48*time.Hour)},
		Flavors: []Flavor{flavor("on-demand", 1, 1, 1000), spotFlavor("spot", 1, 1, 300)},
	}
	got := bought(Supercargo(r).Plan)
	want := []string{"on-demand-0: long", "spot-0: moved", "spot-1: moved-too"}
	less := func(lines []string) map[string]bool {
		all := map[string]bool{}
		for _, l := range lines {
			all[l] = true
		}
		return all
	}
	if diff := cmp.Diff(less(want), less(got)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// TestASpotMachineIsBoughtIfNothingElseCanBe, however much is expected to be lost.
func TestASpotMachineIsBoughtIfNothingElseCanBe(t *testing.T) {
	long := repeating("long", 48*time.Hour)
	limited := flavor("on-demand", 1, 1, 1000)
	limited.Most = new(0)
	for name, flavors := range map[string][]Flavor{
		"there is no other flavor":         {spotFlavor("spot", 1, 1, 300)},
		"no more of the other can be sold": {limited, spotFlavor("spot", 1, 1, 300)},
		"the other is too small":           {flavor("on-demand", 1, 0, 1000), spotFlavor("spot", 1, 1, 300)},
	} {
		if got := Supercargo(Request{Pods: []Pod{long}, Flavors: flavors}); len(got.Unplaceable) > 0 {
			t.Errorf("%s: %+v", name, got.Unplaceable)
		}
	}
}

// TestNoPlanWithSpotMachinesIsDearerThanItsBoundAllows, or leaves out a pod that a plan without interruptions has a machine for.
func TestPlansWithSpotMachinesKeepTheirBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Request
		for i := range rapid.IntRange(1, 6).Draw(t, "pods") {
			p := job(string(rune('a'+i)), rapid.Int64Range(1, 4).Draw(t, "cpu"), rapid.Int64Range(1, 4).Draw(t, "memory"), time.Duration(rapid.IntRange(0, 60).Draw(t, "hours"))*time.Hour)
			p.Repeats = rapid.Bool().Draw(t, "repeats")
			r.Pods = append(r.Pods, p)
		}
		for i := range rapid.IntRange(1, 4).Draw(t, "flavors") {
			f := flavor(string(rune('k'+i)), rapid.Int64Range(1, 8).Draw(t, "cpu of a flavor"), rapid.Int64Range(1, 8).Draw(t, "memory of a flavor"), rapid.Int64Range(0, 1000).Draw(t, "price"))
			f.Interruptions = rapid.SampledFrom([]int64{0, 50_000, capacity.Million}).Draw(t, "interruptions")
			r.Flavors = append(r.Flavors, f)
		}
		got := Supercargo(r)
		if got.MicroDollarsPerHour < got.LowerBoundMicroDollarsPerHour {
			t.Fatalf("a plan for %d has a lower bound of %d", got.MicroDollarsPerHour, got.LowerBoundMicroDollarsPerHour)
		}
		steady := r
		steady.Flavors = nil
		var sum int64
		prices := map[string]int64{}
		for _, f := range r.Flavors {
			prices[f.Name], f.Interruptions = f.MicroDollarsPerHour, 0
			steady.Flavors = append(steady.Flavors, f)
		}
		for _, m := range got.Machines {
			sum += prices[m.Flavor]
		}
		if sum != got.MicroDollarsPerHour {
			t.Fatalf("the machines cost %d, and the plan states %d", sum, got.MicroDollarsPerHour)
		}
		if without := Supercargo(steady); len(without.Unplaceable) != len(got.Unplaceable) {
			t.Fatalf("%d pods are left out because of interruptions, want %d", len(got.Unplaceable), len(without.Unplaceable))
		}
	})
}
