package mix

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPodsThatFitTakeNoMoreThanAMachineByAnyMeasure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &offer{Bin: Bin{Size: size(rapid.Int64Range(1, 60).Draw(t, "CPU"), rapid.Int64Range(1, 60).Draw(t, "memory"))}}
		room, taken, has := o.Size, [measures]uint64{}, [measures]uint64{}
		pods := rapid.Int64Range(1, 9).Draw(t, "pods")
		o.places = pods
		for range pods {
			k := &kind{size: size(rapid.Int64Range(0, room.MilliCPU).Draw(t, "pod's CPU"), rapid.Int64Range(0, room.MemoryBytes).Draw(t, "pod's memory"))}
			room = room.Minus(k.size)
			for r := range measures {
				takes, of := o.part(k, r)
				taken[r], has[r] = taken[r]+takes, of
			}
		}
		for r := range measures {
			if taken[r] > has[r] {
				t.Fatalf("by measure %d, they take %d of %d", r, taken[r], has[r])
			}
		}
	})
}

// TestMeasuresKnowThatPodsAreNotDivisible checks that the dual feasible functions raise the bound.
func TestMeasuresKnowThatPodsAreNotDivisible(t *testing.T) {
	tests := []struct {
		name string
		cpu  int64 // of each of 30 pods, on machines with 12 CPU
		want int64 // least number of machines
	}{
		{"more than half", 7, 30},
		{"half", 6, 15},
		{"more than a third", 5, 15},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := &Input{Bins: []Bin{bin(12, 1000, 1)}, Classes: make([]Class, 1)}
			for range 30 {
				in.Items = append(in.Items, item(tt.cpu, 1))
			}
			if least := LeastOfMany(in); least != tt.want {
				t.Errorf("they cost at least %d machines, want %d", least, tt.want)
			}
		})
	}
}
