package probe

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func memory(bytes int) []float64 { return make([]float64, bytes/8) }

// run prepares and runs the work.
func (w Work) run(ctx context.Context, memory []float64) (checksum uint64, err error) {
	prepared, err := w.Prepare(ctx, memory)
	if err != nil {
		return 0, err
	}
	return prepared(ctx)
}

func TestTheResultIsTheSameHoweverManyWorkersThereAre(t *testing.T) {
	for _, task := range Tasks() {
		for _, size := range []int{LeastBytes, 5 << 20} {
			seen := map[uint64]bool{}
			for _, workers := range []int{1, 2, 3, 7} {
				sum, err := Work{Task: task, Seed: 4, Amount: 2, Workers: workers}.run(t.Context(), memory(size))
				if err != nil {
					t.Fatalf("%s with %d workers in %d bytes: %v", task, workers, size, err)
				}
				seen[sum] = true
			}
			if len(seen) != 1 {
				t.Errorf("%s in %d bytes has %d results", task, size, len(seen))
			}
			other, err := Work{Task: task, Seed: 5, Amount: 2, Workers: 1}.run(t.Context(), memory(size))
			if err != nil || seen[other] {
				t.Errorf("%s with another seed: %v, another result: %t", task, err, !seen[other])
			}
		}
	}
}

// TestMemoryThatChangesIsNoticed: a changed number gives another result, or one that is detected
// as wrong.
func TestMemoryThatChangesIsNoticed(t *testing.T) {
	work := Work{Task: KMeans, Seed: 4, Amount: 2, Workers: 1}
	data := memory(LeastBytes)
	run, err := work.Prepare(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	data[clusters*dimensions] = 1e9 // of a point of the first cluster that is not an initial centre
	if _, err := run(t.Context()); !errors.Is(err, ErrWrong) {
		t.Errorf("k-means with a wild point: %v, want ErrWrong", err)
	}
}

func TestAWrongProductIsFound(t *testing.T) {
	m := newMatMul(Work{Task: MatMul, Seed: 1, Amount: 1, Workers: 1, Pace: func() {}}, memory(LeastBytes))
	if err := m.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, 77, side*side - 1} {
		tile := tile{row: 1, column: 2, terms: m.blocks}
		var c [side * side]float64
		for k := range tile.terms {
			m.add(&c, tile.row, k, tile.column)
		}
		if err := m.check(&c, tile); err != nil {
			t.Fatalf("the right product: %v", err)
		}
		c[at] += 1e-3
		if err := m.check(&c, tile); !errors.Is(err, ErrWrong) {
			t.Errorf("number %d is off: %v, want ErrWrong", at, err)
		}
	}
}

// TestAProductOfMatricesIsThatOfTheDefinition: Σ a_il·b_lj.
func TestAProductOfMatricesIsThatOfTheDefinition(t *testing.T) {
	m := newMatMul(Work{Task: MatMul, Seed: 9, Amount: 1, Workers: 1, Pace: func() {}}, memory(LeastBytes))
	if err := m.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	var c [side * side]float64
	for k := range m.blocks {
		m.add(&c, 0, k, 1)
	}
	for _, at := range [][2]int{{0, 0}, {5, 60}, {63, 63}} {
		want := 0.0
		for l := range m.n {
			want += m.a[at[0]*m.n+l] * m.b[l*m.n+side+at[1]]
		}
		if got := c[at[0]*side+at[1]]; got-want > 1e-9 || want-got > 1e-9 {
			t.Errorf("C[%d][%d] is %v, want %v", at[0], at[1], got, want)
		}
	}
}

// TestTheAmountOfWorkDoesNotDependOnMemory: the number of block products is the same for matrices
// of any size.
func TestTheAmountOfWorkDoesNotDependOnMemory(t *testing.T) {
	for _, size := range []int{LeastBytes, 3 << 20, 64 << 20} {
		m := newMatMul(Work{Task: MatMul, Amount: 100}, memory(size))
		done := 0
		for _, tile := range m.tiles() {
			done += tile.terms
			if tile.row >= m.blocks || tile.column >= m.blocks || tile.terms > m.blocks {
				t.Fatalf("tile %+v of %d blocks", tile, m.blocks)
			}
		}
		if done != products {
			t.Errorf("%d products in %d bytes, want %d", done, size, products)
		}
	}
}

func TestWorkEndsWithItsContext(t *testing.T) {
	for _, task := range Tasks() {
		ctx, cancel := context.WithCancel(t.Context())
		paces := 0
		pace := func() {
			if paces++; paces == 1000 {
				cancel()
			}
		}
		begin := time.Now()
		_, err := Work{Task: task, Amount: 100000, Workers: 1, Pace: pace}.run(ctx, memory(LeastBytes))
		if !errors.Is(err, context.Canceled) || time.Since(begin) > time.Minute {
			t.Errorf("%s ends with %v after %v", task, err, time.Since(begin))
		}
	}
}

func TestWorkThatCannotBeIsRefused(t *testing.T) {
	for _, w := range []Work{{Task: KMeans, Amount: 0, Workers: 1}, {Task: KMeans, Amount: 1}, {Task: "sort", Amount: 1, Workers: 1}} {
		if _, err := w.run(t.Context(), memory(LeastBytes)); err == nil {
			t.Errorf("%+v is done", w)
		}
	}
	if _, err := (Work{Task: KMeans, Amount: 1, Workers: 1}).run(t.Context(), memory(LeastBytes-8)); err == nil {
		t.Error("too little memory is enough")
	}
}

func BenchmarkWork(b *testing.B) {
	for _, task := range Tasks() {
		for _, size := range []int{1 << 20, 64 << 20} {
			b.Run(fmt.Sprintf("%s/MiB=%d", task, size>>20), func(b *testing.B) {
				data := memory(size)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := (Work{Task: task, Seed: 1, Amount: 100, Workers: 1}).run(b.Context(), data); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
