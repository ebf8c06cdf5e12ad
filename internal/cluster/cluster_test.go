package cluster

import (
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

const gib = 1 << 30

func size(milliCPU, memoryBytes int64) packing.Size {
	return packing.Size{MilliCPU: milliCPU, MemoryBytes: memoryBytes}
}

func TestBill(t *testing.T) {
	tests := []struct {
		name   string
		price  int64
		held   time.Duration
		period time.Duration
		want   int64
	}{
		{"a started period is paid in full", 60_000_000, time.Second, time.Minute, 1_000_000},
		{"an exact period once", 60_000_000, time.Minute, time.Minute, 1_000_000},
		{"one nanosecond more is the next", 60_000_000, time.Minute + 1, time.Minute, 2_000_000},
		{"nothing held is one period", 60_000_000, 0, time.Minute, 1_000_000},
		{"an hour of one second is an hour of hours", 60_000_000, time.Second, time.Hour, 60_000_000},
		{"without a period to the moment", 3_600_000_000, 90 * time.Second, 0, 90_000_000},
		{"without a period nothing held is free", 3_600_000_000, 0, 0, 0},
		{"without a period a nanosecond is not free", 3_600_000_000, 1, 0, 1},
		{"fractions are rounded up on the whole", 137_100, 7 * time.Minute, time.Minute, 15_995},
		{"a machine that costs nothing", 0, 1000 * time.Hour, time.Minute, 0},
		{"a minute of the dearest machine", 1_000_000_000_000, 59 * time.Minute, time.Minute, 983_333_333_334},
		{"a year of the dearest machine", 1_000_000_000_000, 8760 * time.Hour, time.Hour, 8_760_000_000_000_000},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := Bill(tc.price, tc.held, tc.period); got != tc.want {
				t.Errorf("Bill(%d, %v, %v) = %d, want %d", tc.price, tc.held, tc.period, got, tc.want)
			}
		})
	}
}

// TestBillIsExact compares Bill with big rational numbers.
func TestBillIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price := rapid.Int64Range(0, 1_000_000_000_000).Draw(t, "price")
		held := rapid.Int64Range(0, int64(100*365*24*time.Hour)).Draw(t, "held")
		period := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, int64(24*time.Hour))).Draw(t, "period")

		paid := held
		if period > 0 {
			paid = 0
			paid += held / period * period
			if held%period > 0 || held == 0 {
				paid += period
			}
		}
		exact := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(price), big.NewInt(paid)), big.NewInt(int64(time.Hour)))
		got := new(big.Rat).SetInt64(Bill(price, time.Duration(held), time.Duration(period)))
		above := new(big.Rat).Sub(got, exact)
		if above.Sign() < 0 || above.Cmp(big.NewRat(1, 1)) >= 0 {
			t.Fatalf("the bill is %v, exactly it would be %v", got, exact.FloatString(6))
		}
	})
}

func TestMigrationTime(t *testing.T) {
	const paper = 1_200_000_000 // HTAS, section 5.3
	tests := []struct {
		name   string
		m      Migration
		memory int64
		want   time.Duration
	}{
		{"a second's worth of bytes", Migration{BitsPerSecond: paper, BytesPerMemory: 1}, 150_000_000, time.Second},
		{"a GiB at the bandwidth of the paper", Migration{BitsPerSecond: paper, BytesPerMemory: 1}, gib, 7159 * time.Millisecond},
		{"termination comes on top", Migration{BitsPerSecond: paper, BytesPerMemory: 1, Fixed: 3 * time.Second}, 150_000_000, 4 * time.Second},
		{"half of the memory is in use", Migration{BitsPerSecond: paper, BytesPerMemory: 0.5}, 150_000_000, 500 * time.Millisecond},
		{"one byte takes a millisecond", Migration{BitsPerSecond: paper, BytesPerMemory: 1}, 1, time.Millisecond},
		{"nothing to copy", Migration{BitsPerSecond: paper, BytesPerMemory: 1, Fixed: time.Second}, 0, time.Second},
		{"without a bandwidth only the fixed part", Migration{BytesPerMemory: 1, Fixed: time.Second}, gib, time.Second},
		{"a negative bandwidth is none", Migration{BitsPerSecond: -1, BytesPerMemory: 1, Fixed: time.Second}, gib, time.Second},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.m.Time(tc.memory); got != tc.want {
				t.Errorf("%d bytes take %v, want %v", tc.memory, got, tc.want)
			}
		})
	}
}

func batch(name string, milliCPU, memoryBytes int64, runtime time.Duration) Pod {
	return Pod{Item: packing.Item{Name: name, Size: size(milliCPU, memoryBytes), Runtime: runtime}, Class: class.Batch}
}

func service(name string, milliCPU, memoryBytes int64) Pod {
	return Pod{Item: packing.Item{Name: name, Size: size(milliCPU, memoryBytes)}, Class: class.Service}
}

func TestANodeAddsUpItsPods(t *testing.T) {
	tests := []struct {
		name        string
		pods        []Pod
		used, free  packing.Size
		remaining   time.Duration
		batch, serv bool
	}{
		{"an empty node", nil, size(0, 0), size(4000, 16*gib), 0, false, false},
		{"two jobs: the longer one counts", []Pod{batch("a", 500, gib, 3*time.Minute), batch("b", 1000, 2*gib, 2*time.Minute)},
			size(1500, 3*gib), size(2500, 13*gib), 3 * time.Minute, true, false},
		{"a service does not end and does not count", []Pod{service("a", 500, gib)}, size(500, gib), size(3500, 15*gib), 0, false, true},
		{"both", []Pod{service("a", 500, gib), batch("b", 500, gib, time.Minute)}, size(1000, 2*gib), size(3000, 14*gib), time.Minute, true, true},
		{"an overdue job is a job anyway", []Pod{batch("a", 500, gib, 0)}, size(500, gib), size(3500, 15*gib), 0, true, false},
		{"more promised than there is", []Pod{service("a", 5000, gib)}, size(5000, gib), size(-1000, 15*gib), 0, false, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			n := Node{Capacity: size(4000, 16*gib), Pods: tc.pods}
			if diff := cmp.Diff([]packing.Size{tc.used, tc.free}, []packing.Size{n.Used(), n.Free()}); diff != "" {
				t.Errorf("used and free (-want +got):\n%s", diff)
			}
			if got := n.Remaining(); got != tc.remaining {
				t.Errorf("the last job ends in %v, want %v", got, tc.remaining)
			}
			if n.Has(class.Batch) != tc.batch || n.Has(class.Service) != tc.serv {
				t.Errorf("has batch pods %t, services %t; want %t, %t", n.Has(class.Batch), n.Has(class.Service), tc.batch, tc.serv)
			}
		})
	}
}

func TestANodeSuitsPodsOfItsClassAndArchitecture(t *testing.T) {
	tests := []struct {
		name      string
		node, pod class.Class
		arch      string // that the pod requires
		want      bool
	}{
		{"its own class", class.Batch, class.Batch, "", true},
		{"another class", class.Batch, class.Service, "", false},
		{"a machine for both", class.Any, class.Service, "", true},
		{"its own architecture", class.Any, class.Batch, "amd64", true},
		{"another architecture", class.Any, class.Batch, "arm64", false},
		{"neither", class.Service, class.Batch, "arm64", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			n := Node{Class: tc.node, Arch: "amd64"}
			if got := n.Suits(&Pod{Class: tc.pod, Arch: tc.arch}); got != tc.want {
				t.Errorf("suits: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestPodsAreScheduledServicesBySizeThenBatchByRuntime(t *testing.T) {
	early := func(p Pod) Pod { p.Arrival = -time.Minute; return p }
	inOrder := []Pod{
		service("large", 100, 3*gib),
		service("much-cpu", 200, gib),
		early(service("z-came-first", 100, gib)),
		service("a", 100, gib),
		service("b", 100, gib),
		batch("long", 100, gib, 2*time.Hour),
		early(batch("z-came-first", 100, gib, time.Hour)),
		batch("a", 100, gib, time.Hour),
		batch("b", 9000, 99*gib, time.Hour), // its size does not matter
		batch("short", 100, gib, time.Minute),
	}
	for i, a := range inOrder {
		for j, b := range inOrder {
			if got := Scheduled(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s pod %s against %s pod %s gives %d", a.Class, a.Name, b.Class, b.Name, got)
			}
		}
	}
}

// TestScheduledIsAStrictWeakOrder checks what sorting requires.
func TestScheduledIsAStrictWeakOrder(t *testing.T) {
	pod := rapid.Custom(func(t *rapid.T) Pod {
		p := Pod{Class: rapid.SampledFrom([]class.Class{class.Batch, class.Service}).Draw(t, "class")}
		p.Name = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
		p.Size = size(rapid.Int64Range(0, 2).Draw(t, "cpu"), rapid.Int64Range(0, 2).Draw(t, "memory"))
		p.Arrival = time.Duration(rapid.Int64Range(0, 2).Draw(t, "arrival"))
		p.Runtime = time.Duration(rapid.Int64Range(0, 2).Draw(t, "runtime"))
		return p
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := pod.Draw(t, "a"), pod.Draw(t, "b"), pod.Draw(t, "c")
		before := func(a, b Pod) bool { return Scheduled(a, b) < 0 }
		equal := func(a, b Pod) bool { return Scheduled(a, b) == 0 }
		switch {
		case !equal(a, a):
			t.Fatal("a pod is not equal to itself")
		case before(a, b) && Scheduled(b, a) <= 0, equal(a, b) && !equal(b, a):
			t.Fatal("the two ways of comparing contradict each other")
		case before(a, b) && before(b, c) && !before(a, c):
			t.Fatal("a is before b and b before c, but a is not before c")
		case equal(a, b) && equal(b, c) && !equal(a, c):
			t.Fatal("a is equal to b and b to c, but a is not equal to c")
		case a.Name != b.Name && equal(a, b):
			t.Fatal("two pods of different names are equal")
		}
	})
}
