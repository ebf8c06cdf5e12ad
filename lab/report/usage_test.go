package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// twoMachines are a small machine for a dollar and a large one for three.
var twoMachines = []Machine{
	{Name: "small", MilliCPU: 1000, MemoryBytes: 4 << 30, MicroDollarsPerHour: 1_000_000},
	{Name: "large", MilliCPU: 4000, MemoryBytes: 8 << 30, MicroDollarsPerHour: 3_000_000},
}

func TestAccountOfARunWorkedOutByHand(t *testing.T) {
	second := time.Second
	stays := []Stay{
		{Pod: "a", MilliCPU: 500, MemoryBytes: 1 << 30, Created: 0, Bound: 1 * second, Gone: 5 * second, Node: "small"},
		{Pod: "b", MilliCPU: 500, MemoryBytes: 1 << 30, Created: 0, Bound: 3 * second, Gone: Never, Node: "small"},
		{Pod: "c", MilliCPU: 2000, MemoryBytes: 8 << 30, Created: 2 * second, Bound: 2 * second, Gone: 4 * second, Node: "large"},
		{Pod: "d", MilliCPU: 1, MemoryBytes: 1, Created: 3 * second, Bound: Never, Gone: Never},
		{Pod: "e", MilliCPU: 1, MemoryBytes: 1, Created: 9 * second, Bound: 10 * second, Gone: Never, Node: "large"},
		{Pod: "f", MilliCPU: 1, MemoryBytes: 1, Created: 10 * second, Bound: 11 * second, Gone: Never, Node: "large"},
	}
	got, err := Account(twoMachines, stays, 10*second)
	if err != nil {
		t.Fatal(err)
	}
	want := Usage{
		Window: 10 * second, PodsCreated: 5, PodsBound: 3, PodsNeverBound: 2,
		NodesUsedPeak: 2, NodesUsedMean: 1.1, // small for 9 s, large for 2 s
		CPUUtilisation:      (0.5*4 + 0.5*7 + 2*2) / (1*9 + 4*2),
		MemoryUtilisation:   (1*4 + 1*7 + 8*2) / (4*9 + 8*2.0),
		MicroDollarsPerHour: (9*1_000_000 + 2*3_000_000) / 10,
		BindMean:            4 * second / 3, BindP95: 3 * second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestAccountOfAnIdleCluster(t *testing.T) {
	got, err := Account(twoMachines, nil, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Usage{Window: time.Second}, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestAPodThatTakesOverAMachineInOneMomentCostsNothingMore(t *testing.T) {
	stays := []Stay{
		{Pod: "next", Created: 5, Bound: 5, Gone: Never, Node: "small"},
		{Pod: "first", Created: 0, Bound: 0, Gone: 5, Node: "small"},
		{Pod: "instant", Created: 5, Bound: 5, Gone: 5, Node: "large"},
	}
	got, err := Account(twoMachines, stays, 10)
	if err != nil {
		t.Fatal(err)
	}
	if got.NodesUsedPeak != 1 || got.NodesUsedMean != 1 || got.MicroDollarsPerHour != 1_000_000 || got.PodsBound != 3 {
		t.Errorf("usage is %+v, want one machine all the time and three pods bound", got)
	}
}

func TestAccountRefusesWhatCannotBe(t *testing.T) {
	tests := []struct {
		name string
		edit func(s *Stay)
		want string
	}{
		{"negative CPU", func(s *Stay) { s.MilliCPU = -1 }, "must be 0 or more"},
		{"negative memory", func(s *Stay) { s.MemoryBytes = -1 }, "must be 0 or more"},
		{"created before the window", func(s *Stay) { s.Created = -2 }, "must not be before the window"},
		{"bound before created", func(s *Stay) { s.Created = 3 }, "before its creation"},
		{"gone before bound", func(s *Stay) { s.Gone = 1 }, "removed at 1ns, before"},
		{"gone before created", func(s *Stay) { s.Bound, s.Node, s.Gone, s.Created = Never, "", 1, 2 }, "removed at 1ns, before"},
		{"an unknown node", func(s *Stay) { s.Node = "x" }, `bound to "x", which is not one`},
		{"a node without binding", func(s *Stay) { s.Bound = Never }, "without a binding time"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			stay := Stay{Pod: "p", Created: 0, Bound: 2, Gone: 3, Node: "small"}
			tc.edit(&stay)
			_, err := Account(twoMachines, []Stay{stay}, 10)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want it to contain %q", err, tc.want)
			}
		})
	}
}

func TestAccountListsEveryFault(t *testing.T) {
	machines := append(slices.Clone(twoMachines), Machine{Name: "small", MilliCPU: 1, MemoryBytes: 1}, Machine{Name: "void"})
	_, err := Account(machines, []Stay{{Pod: "p", Created: -1, Bound: Never, Gone: Never}}, 0)
	for _, want := range []string{"window is 0s", `machine "small" occurs twice`, `machine "void" offers 0`, `pod "p"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want it to contain %q", err, want)
		}
	}
}

// TestAccountAgreesWithAStopwatch observes the cluster every nanosecond and adds up, without any
// helper of the package.
func TestAccountAgreesWithAStopwatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		machines, stays := drawCluster(t)
		window := rapid.Int64Range(1, 40).Draw(t, "window")
		got, err := Account(machines, stays, time.Duration(window))
		if err != nil {
			t.Fatal(err)
		}
		want := stopwatch(machines, stays, window)
		if math.Abs(got.NodesUsedMean-want.NodesUsedMean) < 1e-12 {
			got.NodesUsedMean = want.NodesUsedMean
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("usage (-stopwatch +account):\n%s", diff)
		}
	})
}

func TestOrderOfStaysDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		machines, stays := drawCluster(t)
		first, err := Account(machines, stays, 30)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Account(machines, rapid.Permutation(stays).Draw(t, "order"), 30)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatalf("usage (-first +second):\n%s", diff)
		}
	})
}

func drawCluster(t *rapid.T) ([]Machine, []Stay) {
	machines := make([]Machine, rapid.IntRange(1, 4).Draw(t, "machines"))
	for i := range machines {
		machines[i] = Machine{
			Name:                fmt.Sprintf("m%d", i),
			MilliCPU:            rapid.Int64Range(1, 64_000).Draw(t, "cpu"),
			MemoryBytes:         rapid.Int64Range(1, 1<<38).Draw(t, "memory"),
			MicroDollarsPerHour: rapid.Int64Range(0, 10_000_000).Draw(t, "price"),
		}
	}
	stays := make([]Stay, rapid.IntRange(0, 12).Draw(t, "stays"))
	moment := rapid.Int64Range(0, 12)
	for i := range stays {
		s := Stay{Pod: fmt.Sprintf("p%d", i), Bound: Never, Gone: Never, Created: time.Duration(moment.Draw(t, "created"))}
		s.MilliCPU = rapid.Int64Range(0, 64_000).Draw(t, "request")
		s.MemoryBytes = rapid.Int64Range(0, 1<<38).Draw(t, "bytes")
		if rapid.Bool().Draw(t, "is bound") {
			s.Bound = s.Created + time.Duration(moment.Draw(t, "wait"))
			s.Node = rapid.SampledFrom(machines).Draw(t, "node").Name
		}
		if rapid.Bool().Draw(t, "is gone") {
			s.Gone = max(s.Created, s.Bound) + time.Duration(moment.Draw(t, "life"))
		}
		stays[i] = s
	}
	return machines, stays
}

// stopwatch is a naive implementation of Account for small numbers.
func stopwatch(machines []Machine, stays []Stay, window int64) Usage {
	u := Usage{Window: time.Duration(window)}
	var usedTicks, price int64
	var cpu, cpuOffer, memory, memoryOffer int64
	for tick := time.Duration(0); tick < time.Duration(window); tick++ {
		used := 0
		for _, m := range machines {
			busy := false
			for _, s := range stays {
				if s.Node == m.Name && s.Bound != Never && s.Bound <= tick && (s.Gone == Never || tick < s.Gone) {
					busy = true
					cpu += s.MilliCPU
					memory += s.MemoryBytes
				}
			}
			if busy {
				used++
				price += m.MicroDollarsPerHour
				cpuOffer += m.MilliCPU
				memoryOffer += m.MemoryBytes
			}
		}
		usedTicks += int64(used)
		u.NodesUsedPeak = max(u.NodesUsedPeak, used)
	}
	u.NodesUsedMean = float64(usedTicks) / float64(window)
	u.MicroDollarsPerHour = int64(math.Floor(float64(price)/float64(window) + 0.5))
	if usedTicks > 0 {
		u.CPUUtilisation = float64(cpu) / float64(cpuOffer)
		u.MemoryUtilisation = float64(memory) / float64(memoryOffer)
	}
	var waits []time.Duration
	var sum time.Duration
	for _, s := range stays {
		if s.Created >= time.Duration(window) {
			continue
		}
		u.PodsCreated++
		if s.Bound != Never && s.Bound < time.Duration(window) {
			waits = append(waits, s.Bound-s.Created)
			sum += s.Bound - s.Created
		}
	}
	u.PodsBound, u.PodsNeverBound = len(waits), u.PodsCreated-len(waits)
	if len(waits) == 0 {
		return u
	}
	u.BindMean = sum / time.Duration(len(waits))
	slices.Sort(waits)
	for _, w := range waits { // the smallest wait that at least 95 % do not exceed
		within := 0
		for _, o := range waits {
			if o <= w {
				within++
			}
		}
		if within*100 >= 95*len(waits) {
			u.BindP95 = w
			break
		}
	}
	return u
}

func BenchmarkAccount(b *testing.B) {
	machines := make([]Machine, 80)
	for i := range machines {
		machines[i] = Machine{Name: fmt.Sprintf("m%d", i), MilliCPU: 8000, MemoryBytes: 32 << 30, MicroDollarsPerHour: 403_200}
	}
	stays := make([]Stay, 8152)
	for i := range stays {
		at := time.Duration(i) * time.Second
		stays[i] = Stay{Pod: fmt.Sprint(i), MilliCPU: 3152, MemoryBytes: 5600 << 20, Created: at, Bound: at + time.Second,
			Gone: at + time.Minute, Node: machines[i%len(machines)].Name}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Account(machines, stays, 3*time.Hour); err != nil {
			b.Fatal(err)
		}
	}
}
