package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/packing"
)

func TestLimitsAreUsedUpAndNeverLost(t *testing.T) {
	size := packing.Size{MilliCPU: 4, MemoryBytes: 8}
	limits := Limits{Machines: new(int64(2)), MilliCPU: new(int64(8)), MicroDollarsPerHour: new(int64(25))}
	for _, want := range []bool{true, true, false, false} {
		if got := limits.Allows(size, 10); got != want {
			t.Errorf("%+v allows for one more: %v, want %v", limits, got, want)
		}
		limits = limits.Less(1, size, 10)
	}
	if limits.MemoryBytes != nil {
		t.Errorf("%d bytes are left where memory was not bounded", *limits.MemoryBytes)
	}
	if !(Limits{}).Allows(size, 10) {
		t.Error("no limits allow for no machine")
	}
}

func TestSeveralMachinesUseUpEachLimitAtOnce(t *testing.T) {
	limits := Limits{Machines: new(int64(5)), MilliCPU: new(int64(10)), MemoryBytes: new(int64(20)), MicroDollarsPerHour: new(int64(50))}
	want := Limits{Machines: new(int64(2)), MilliCPU: new(int64(4)), MemoryBytes: new(int64(8)), MicroDollarsPerHour: new(int64(20))}
	if diff := cmp.Diff(want, limits.Less(3, packing.Size{MilliCPU: 2, MemoryBytes: 4}, 10)); diff != "" {
		t.Errorf("beside three machines (-want +got):\n%s", diff)
	}
}

// TestAMachineThatTakesNothingOfALimitIsStillBounded uses machines with a price of 0.
func TestAMachineThatTakesNothingOfALimitIsStillBounded(t *testing.T) {
	if (Limits{MicroDollarsPerHour: new(int64(0))}).Allows(packing.Size{MilliCPU: 1}, 0) {
		t.Error("a limit of 0 allows for a machine")
	}
}

func TestOfTwoLimitsTheLowerCounts(t *testing.T) {
	for _, tc := range []struct{ a, b, want *int64 }{
		{nil, nil, nil}, {new(int64(5)), nil, new(int64(5))}, {nil, new(int64(0)), new(int64(0))}, {new(int64(5)), new(int64(3)), new(int64(3))}, {new(int64(-1)), new(int64(3)), new(int64(-1))},
	} {
		got := Limits{Machines: tc.a, MilliCPU: tc.b}.And(Limits{Machines: tc.b, MilliCPU: tc.a})
		if diff := cmp.Diff(Limits{Machines: tc.want, MilliCPU: tc.want}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
