package fleetdecide

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

// running is a pod with the given runtime; 0 if unknown.
func running(name string, runtime time.Duration) purchase.Pod {
	return purchase.Pod{Item: packing.Item{Name: name, Runtime: runtime}}
}

// TestTheTermsOfAMachineAreItsPriceForTheBilledTime uses values computed by hand.
func TestTheTermsOfAMachineAreItsPriceForTheBilledTime(t *testing.T) {
	const price = 360_000 // micro-dollars an hour, 100 a second
	tests := []struct {
		name          string
		price         int64
		pods          []purchase.Pod
		setup, period time.Duration
		busy, billed  time.Duration
		microDollars  int64
	}{
		{"90 s to start and 10 min are twelve started minutes", price, []purchase.Pod{running("a", 10*minute)}, 90 * time.Second, minute, 10 * minute, 12 * minute, 72_000},
		{"whole periods are not rounded", price, []purchase.Pod{running("a", 10*minute)}, 2 * minute, minute, 10 * minute, 12 * minute, 72_000},
		{"the longest pod counts", price, []purchase.Pod{running("a", minute), running("b", 20*minute)}, 0, minute, 20 * minute, 20 * minute, 120_000},
		{"a period of an hour", price, []purchase.Pod{running("a", 59*minute)}, 2 * minute, time.Hour, 59 * minute, 2 * time.Hour, 720_000},
		{"without periods each moment counts", price, []purchase.Pod{running("a", 90*time.Second)}, 500 * time.Millisecond, 0, 90 * time.Second, 90*time.Second + 500*time.Millisecond, 9_050},
		{"no lag and no period", price, []purchase.Pod{running("a", time.Second)}, 0, 0, time.Second, time.Second, 100},
		{"a part of a micro-dollar is paid as one", 1, []purchase.Pod{running("a", time.Second)}, 0, minute, time.Second, minute, 1},
		{"a machine that costs nothing", 0, []purchase.Pod{running("a", time.Hour)}, minute, minute, time.Hour, 61 * minute, 0},
		{"a pod of which nothing is known does not end", price, []purchase.Pod{running("a", 0)}, 2 * minute, minute, 0, 24*time.Hour + 2*minute, 8_652_000},
		{"nor does its machine if others end", price, []purchase.Pod{running("a", time.Hour), running("b", 0)}, 0, time.Hour, 0, 24 * time.Hour, 8_640_000},
		{"one that is known to run for longer than is counted", price, []purchase.Pod{running("a", 30*time.Hour), running("b", 0)}, 0, time.Hour, 0, 30 * time.Hour, 10_800_000},
		{"a machine for nobody is not expected to end", price, nil, 0, time.Hour, 0, 24 * time.Hour, 8_640_000},
		{"negative times count as none", price, []purchase.Pod{running("a", -minute)}, -minute, -minute, 0, 24 * time.Hour, 8_640_000},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := TermsOf("small", tc.price, tc.pods, purchase.MixOptions{Setup: tc.setup, Period: tc.period})
			if got.Busy != tc.busy || got.Billed != tc.billed || got.MicroDollars != tc.microDollars || got.Unending() != (tc.busy == 0) {
				t.Errorf("busy %v, billed %v, %d micro-dollars; want %v, %v, %d", got.Busy, got.Billed, got.MicroDollars, tc.busy, tc.billed, tc.microDollars)
			}
			if got.Flavor != "small" || got.MicroDollarsPerHour != tc.price || got.Start != max(0, tc.setup) || len(got.Pods) != len(tc.pods) {
				t.Errorf("the terms are %+v", got)
			}
		})
	}
}

func TestSumsOfTermsStopAtTheGreatestNumber(t *testing.T) {
	most := Terms{MicroDollars: math.MaxInt64 - 1, Billed: math.MaxInt64 - 1}
	if micros, billed := Total([]Terms{most, most, most}); micros != math.MaxInt64 || billed != math.MaxInt64 {
		t.Errorf("in all %d micro-dollars for %v", micros, billed)
	}
	if micros, billed := Total([]Terms{{MicroDollars: 2, Billed: 3}, {MicroDollars: 4, Billed: 5}}); micros != 6 || billed != 8 {
		t.Errorf("in all %d micro-dollars for %v, want 6 for 8ns", micros, billed)
	}
	if micros, billed := Total(nil); micros != 0 || billed != 0 {
		t.Errorf("nothing comes to %d micro-dollars for %v", micros, billed)
	}
}

func TestMachinesThatArePaidForEquallyLongAreGrouped(t *testing.T) {
	all := []Terms{
		{Pods: []string{"a"}, Busy: 50 * time.Second, Billed: minute, MicroDollars: 1},
		{Pods: []string{"b"}, Billed: 24 * time.Hour, MicroDollars: 100},
		{Pods: []string{"c", "d"}, Busy: 55 * time.Second, Billed: minute, MicroDollars: 1},
		{Pods: []string{"e"}, Busy: 24 * time.Hour, Billed: 24 * time.Hour, MicroDollars: 100},
	}
	var got []string
	for _, g := range Group(all) {
		got = append(got, fmt.Sprintf("%d %v busy for %v: %d, %v", g.Machines, g.Billed, g.Busy, g.MicroDollars, g.Pods))
	}
	want := []string{"1 24h0m0s busy for 0s: 100, [b]", "1 24h0m0s busy for 24h0m0s: 100, [e]", "2 1m0s busy for 55s: 2, [a c d]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if !slices.Equal(all[0].Pods, []string{"a"}) {
		t.Errorf("the argument was changed: %+v", all)
	}
}

// slowBill is the cost of a plan by the planner's rule, counted period by period.
func slowBill(s *cluster.State, p *purchase.Plan) int64 {
	var total int64
	for i := range p.Machines {
		var until time.Duration
		for _, name := range p.Machines[i].Pods {
			pod := s.Pending[slices.IndexFunc(s.Pending, func(p cluster.Pod) bool { return p.Name == name })]
			if pod.Class == class.Service || pod.Guessed || pod.Runtime == 0 {
				until = max(until, s.Lag+24*time.Hour)
			} else {
				until = max(until, s.Lag+pod.Runtime)
			}
		}
		var paid time.Duration
		for paid < until {
			paid += s.BillingPeriod
		}
		total += p.Machines[i].MicroDollarsPerHour / 60 * int64(paid/minute) // both are whole
	}
	return total
}

func TestTheTermsOfADecisionAddUpToTheBillOfItsPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := quiet(drawPending(t, 12))
		s.BillingPeriod = rapid.SampledFrom([]time.Duration{minute, 10 * minute, time.Hour}).Draw(t, "period")
		for i := range s.Pending {
			s.Pending[i].Guessed = s.Pending[i].Class == class.Batch && rapid.IntRange(0, 3).Draw(t, "guessed") == 0
		}
		for i := range s.Flavors {
			s.Flavors[i].MicroDollarsPerHour *= 3600 // so that no part of a micro-dollar is rounded
		}
		d := Fleet(s, all(), mover(), midnight)
		if len(d.Terms) != len(d.Plan.Machines) {
			t.Fatalf("%d terms of %d machines", len(d.Terms), len(d.Plan.Machines))
		}
		if got, _ := Total(d.Terms); got != slowBill(s, &d.Plan.Plan) {
			t.Fatalf("the terms add up to %d, the bill of the plan to %d:\n%+v", got, slowBill(s, &d.Plan.Plan), d.Terms)
		}
		for i, m := range d.Plan.Machines {
			if d.Terms[i].Flavor != m.Flavor || !slices.Equal(d.Terms[i].Pods, m.Pods) {
				t.Fatalf("the terms of %+v are %+v", m, d.Terms[i])
			}
		}
	})
}

func TestOfAReleaseIsSaidWhatKeepingCostsAndWhatAnother(t *testing.T) {
	tests := []struct {
		name          string
		period        time.Duration
		keep, another int64
	}{
		{"an hour more, or two minutes", time.Hour, 360_000, 12_000},
		{"a minute more, or two", minute, 6_000, 12_000},
		{"until the next evaluation, 20 s, or two minutes", 0, 2_000, 12_000},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := quiet(nil, node("a"))
			s.BillingPeriod, s.Nodes[0].MicroDollarsPerHour, s.Nodes[0].Age = tc.period, 360_000, max(tc.period, time.Second)-time.Second
			d := Fleet(s, all(), mover(), midnight)
			if want := []ReleaseTerms{{Node: "a", Keep: tc.keep, Another: tc.another}}; !slices.Equal(d.Releases, want) {
				t.Errorf("it says %+v, want %+v", d.Releases, want)
			}
		})
	}
}

func TestAMachineInThePlaceOfAnotherIsPaidUntilThePodsThatGoThereHaveEnded(t *testing.T) {
	s := quiet(nil, node("a", job("x", 4, time.Hour), service("y", 1)), node("b", job("z", 4, minute)))
	s.BillingPeriod = minute
	for i := range s.Flavors {
		s.Flavors[i].MicroDollarsPerHour = 360_000
	}
	buy := func(pods ...string) *cluster.Exchange {
		return &cluster.Exchange{
			Nodes: []string{"a", "b"}, Buy: []cluster.Purchase{{Flavor: "small", Pods: pods}},
			Leave: []cluster.Move{{Pod: "x", Takes: 90 * time.Second}},
		}
	}
	for _, tc := range []struct {
		name         string
		e            *cluster.Exchange
		busy, billed time.Duration
		microDollars int64
	}{
		// It is ready after two minutes; the pod ends after an hour plus the time of its move.
		{"a pod that moves while it runs", buy("x"), 59*minute + 30*time.Second, 62 * minute, 372_000},
		{"one that ends before the machine is ready", buy("z"), 1, 3 * minute, 18_000},
		{"a service", buy("x", "y"), 0, 24*time.Hour + 2*minute, 8_652_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := termsOfExchange(s, tc.e)
			if len(got) != 1 || got[0].Busy != tc.busy || got[0].Billed != tc.billed || got[0].MicroDollars != tc.microDollars {
				t.Errorf("the terms are %+v, want busy %v, billed %v, %d micro-dollars", got, tc.busy, tc.billed, tc.microDollars)
			}
		})
	}
}

func TestTermsAreThoseOfTheMachinesThatAreOrdered(t *testing.T) {
	d := FleetDecision{Terms: []Terms{{Flavor: "a", MicroDollars: 1}, {Flavor: "b", MicroDollars: 2}, {Flavor: "a", MicroDollars: 4}, {Flavor: "a", MicroDollars: 8}}}
	for n, want := range []int64{0, 1, 5, 13, 13} { // limits may allow fewer than planned
		if got, _ := Total(d.TermsOf("a", n)); got != want {
			t.Errorf("the first %d come to %d, want %d", n, got, want)
		}
	}
}
