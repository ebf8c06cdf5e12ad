package probe

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
)

// Task names one kind of work.
type Task string

// The tasks. Both are bound by the CPU (HEATS, section III).
const (
	// KMeans is mini-batch k-means: 16 clusters of points of 32 dimensions.
	KMeans Task = "kmeans"
	// MatMul is the multiplication of square matrices by blocks.
	MatMul Task = "matmul"
)

// Tasks lists them in the order in which they run.
func Tasks() []Task { return []Task{KMeans, MatMul} }

// ErrWrong is returned for a result that is not that of the work: the machine, or the
// program, computes wrongly.
var ErrWrong = errors.New("the result is wrong")

// LeastBytes is the least memory that the work can be spread over.
const LeastBytes = 1 << 20

// Work is one run of a task over a piece of memory.
type Work struct {
	Task Task
	// Seed makes the data. The same seed and amount of memory give the same result,
	// however many workers there are.
	Seed uint64
	// Amount is how much there is to do; 100 is the standard. It takes some seconds of a
	// CPU.
	Amount int
	// Workers is how many goroutines share the work, at least 1.
	Workers int
	// Pace is called by each worker about every millisecond of its work, and holds it up;
	// nil for nobody.
	Pace func()
}

// Prepare fills the memory, which is no part of what is measured, and returns the work
// that is. It can be done once.
func (w Work) Prepare(ctx context.Context, memory []float64) (func(context.Context) (uint64, error), error) {
	if w.Amount < 1 || w.Workers < 1 || len(memory)*8 < LeastBytes {
		return nil, fmt.Errorf("%s: amount %d, %d workers, %d bytes: want at least 1, 1 and %d", w.Task, w.Amount, w.Workers, len(memory)*8, LeastBytes)
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
	return nil, fmt.Errorf("task %q: want one of %q", w.Task, Tasks())
}

// share calls do for each part of 0 to parts-1, by so many workers, each part once. It
// returns when all have ended, with the context's error if they ended early.
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

// random returns a number in [-1, 1) that depends on the seed and the index alone, so
// that data can be made in parts: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func random(seed, index uint64) float64 {
	z := seed + (index+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(int64(z)>>11) / (1 << 52)
}

// digest adds a number to a checksum, in which the order counts.
func digest(sum, number uint64) uint64 {
	const prime = 0x9e3779b97f4a7c15
	return bits.RotateLeft64(sum^number*prime, 27)*prime + 1
}
