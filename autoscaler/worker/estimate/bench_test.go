package estimate

import (
	"fmt"
	"testing"
	"time"
)

// manyWaiting is 100,000 tasks of four categories, waiting for 500 busy workers.
func manyWaiting(runOf int, runtime func(i int) time.Duration) State {
	var s State
	needs := []Resources{
		{MilliCores: 1000, MemoryBytes: 1 << 30}, {MilliCores: 2000, MemoryBytes: 1 << 30},
		{MilliCores: 1000, MemoryBytes: 4 << 30}, {MilliCores: 4000, MemoryBytes: 8 << 30},
	}
	for i := range 500 {
		s.Workers = append(s.Workers, Worker{
			Name: fmt.Sprintf("w%d", i), Capacity: Resources{MilliCores: 16000, MemoryBytes: 64 << 30},
			Running: []Running{{Need: needs[0], Count: 16, Left: time.Duration(i) * time.Second / 10}},
		})
	}
	for i := 0; i < 100_000; i += runOf {
		s.Waiting = append(s.Waiting, Batch{Category: fmt.Sprint(i / runOf % 4), Need: needs[i/runOf%4], Runtime: runtime(i), Count: runOf})
	}
	return s
}

// allUnlike is the same with tasks of nearly unique needs.
func allUnlike() State {
	s := manyWaiting(1, func(int) time.Duration { return 60 * time.Second })
	for i := range s.Waiting {
		s.Waiting[i].Need.MemoryBytes += int64(i*7919%100_003) << 14 // up to 1.5 GiB
	}
	return s
}

func BenchmarkHTA(b *testing.B) {
	limits := Pool{Worker: Resources{MilliCores: 16000, MemoryBytes: 64 << 30}, Max: 1000, InitTime: 157 * time.Second, Cycle: 30 * time.Second}
	for _, bc := range []struct {
		name  string
		state State
	}{
		{"batches=40", manyWaiting(2500, func(int) time.Duration { return 60 * time.Second })},
		{"batches=100000", manyWaiting(1, func(int) time.Duration { return 60 * time.Second })},
		{"runtimes=100000", manyWaiting(1, func(i int) time.Duration { return time.Duration(5000+i) * time.Millisecond })},
		{"needs=100000", allUnlike()},
	} {
		b.Run(bc.name, func(b *testing.B) {
			s := bc.state
			b.ReportAllocs()
			for b.Loop() {
				if _, err := HTA(limits, s, time.Time{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
