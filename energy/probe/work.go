package probe

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
)

// Task is the name of a kind of work.
type Task string

// The tasks. Both are bound by the CPU (HEATS, section III).
const (
	// KMeans is mini-batch k-means: 16 clusters of points of 32 dimensions.
	KMeans Task = "kmeans"
	// MatMul is the multiplication of square matrices by blocks.
	MatMul Task = "matmul"
)

// Tasks returns the tasks in the order in which they run.
func Tasks() []Task { return []Task{KMeans, MatMul} }

// ErrWrong is the error for a wrong result: the machine, or the program, computes incorrectly.
var ErrWrong = errors.New("the result is wrong")

// LeastBytes is the minimum memory for the work.
const LeastBytes = 1 << 20

// Work is one run of a task on a piece of memory.
type Work struct {
	Task Task
	// Seed is the random seed of the data. The same seed and amount of memory give the same
	// result, with any number of workers.
	Seed uint64
	// Amount is the amount of work; 100 is the standard, which takes some seconds of a CPU.
	Amount int
	// Workers is the number of goroutines, at least 1.
	Workers int
	// Pace is called by each worker about every millisecond, and may block it; nil for no limit.
	Pace func()
}

// Prepare fills the memory, which is not measured, and returns the work to measure. The work can
// be done once.
func (w Work) Prepare(ctx context.Context, memory []float64) (func(context.Context) (uint64, error), error) {
	if w.Amount < 1 || w.Workers < 1 || len(memory)*8 < LeastBytes {
		return nil, fmt.Errorf("%s: amount %d, %d workers, %d bytes: must be at least 1, 1 and %d", w.Task, w.Amount, w.Workers, len(memory)*8, LeastBytes)
	}
	if w.Pace == nil {
		w.Pace = func() {}
	}
	switch w.Task {
	case KMeans:
		k := newKMeans(w, memory)
		return k.run, k.fill(ctx)
	case MatMul:
		m := newMatMul(w, memory)
		return m.run, m.fill(ctx)
	}
	return nil, fmt.Errorf("task %q: must be one of %q", w.Task, Tasks())
}

// share calls do once for each part from 0 to parts-1, in workers goroutines. It returns when all
// have ended, with the context's error if they ended early.
func share(ctx context.Context, workers, parts int, do func(part int)) error {
	if workers = min(workers, parts); workers <= 1 {
		for part := range parts {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			do(part)
		}
		return nil
	}
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for part := worker; part < parts && ctx.Err() == nil; part += workers {
				do(part)
			}
		})
	}
	all.Wait()
	return ctx.Err()
}

// random returns a number in [-1, 1) that depends only on the seed and the index, so that data
// can be generated in parts: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func random(seed, index uint64) float64 {
	z := seed + (index+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(int64(z)>>11) / (1 << 52)
}

// digest adds a number to a checksum that depends on the order.
func digest(sum, number uint64) uint64 {
	const prime = 0x9e3779b97f4a7c15
	return bits.RotateLeft64(sum^number*prime, 27)*prime + 1
}
