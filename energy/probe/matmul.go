package probe

import (
	"context"
	"fmt"
	"math"
)

const (
	// side is the number of rows and columns of a block.
	side = 64
	// products is the number of products of two blocks for amount 100.
	products = 6144
)

// matmul multiplies two square matrices block by block: C = A·B, where each block of C is the sum
// of products of blocks of A and B. It computes the blocks of C cyclically until it has done its
// number of products.
type matmul struct {
	Work
	a, b   []float64 // row by row
	blocks int       // in each direction
	n      int       // rows and columns
}

func newMatMul(w Work, memory []float64) *matmul {
	blocks := max(1, int(math.Sqrt(float64(len(memory)/2)))/side)
	n := blocks * side
	return &matmul{Work: w, a: memory[:n*n], b: memory[n*n : 2*n*n], blocks: blocks, n: n}
}

func (m *matmul) fill(ctx context.Context) error {
	return share(ctx, m.Workers, m.n, func(row int) {
		for i := row * m.n; i < (row+1)*m.n; i++ {
			m.a[i], m.b[i] = random(m.Seed, uint64(i)), random(^m.Seed, uint64(i))
		}
		m.Pace()
	})
}

// tile is one block of C: the sum over the first terms blocks of A and B.
type tile struct{ row, column, terms int }

// tiles returns the blocks of C to compute. The last may be partial, so that the number of
// products is the same for all sizes.
func (m *matmul) tiles() []tile {
	left := (products*m.Amount + 99) / 100
	var all []tile
	for i := 0; left > 0; i++ {
		terms := min(left, m.blocks)
		// Diagonal by diagonal, so that all blocks of A and B are used equally often.
		row := i % m.blocks
		all = append(all, tile{row: row, column: (row + i/m.blocks) % m.blocks, terms: terms})
		left -= terms
	}
	return all
}

func (m *matmul) run(ctx context.Context) (uint64, error) {
	tiles := m.tiles()
	sums, wrong := make([]uint64, len(tiles)), make([]error, len(tiles))
	err := share(ctx, m.Workers, len(tiles), func(i int) {
		sums[i], wrong[i] = m.multiply(ctx, tiles[i])
	})
	if err != nil {
		return 0, err
	}
	checksum := uint64(0)
	for i, sum := range sums {
		if wrong[i] != nil {
			return 0, wrong[i]
		}
		checksum = digest(checksum, sum)
	}
	return checksum, nil
}

// multiply computes and checks one block.
func (m *matmul) multiply(ctx context.Context, t tile) (uint64, error) {
	var c [side * side]float64
	for k := range t.terms {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		m.add(&c, t.row, k, t.column)
		m.Pace()
	}
	checksum := uint64(0)
	for _, x := range c {
		checksum = digest(checksum, math.Float64bits(x))
	}
	return checksum, m.check(&c, t)
}

// add adds the product of a block of A and a block of B.
func (m *matmul) add(c *[side * side]float64, row, k, column int) {
	for i := range side {
		to := c[i*side : (i+1)*side]
		a := m.a[(row*side+i)*m.n+k*side:][:side]
		for l, x := range a {
			b := m.b[(k*side+l)*m.n+column*side:][:side]
			for j := range to {
				to[j] += x * b[j]
			}
		}
	}
}

// check multiplies the block by a vector of random signs in two ways (Freivalds, 1977): C·x and
// A·(B·x). That costs about a thirty-second of the product.
func (m *matmul) check(c *[side * side]float64, t tile) error {
	var x [side]float64
	for j := range x {
		x[j] = math.Copysign(1, random(m.Seed, uint64(t.row*m.n+t.column*side+j)))
	}
	width := t.terms * side
	bx := make([]float64, width)
	for l := range bx {
		for j, s := range x {
			bx[l] += m.b[l*m.n+t.column*side+j] * s
		}
	}
	for i := range side {
		var one, other float64
		for j, s := range x {
			one += c[i*side+j] * s
		}
		for l, y := range bx {
			other += m.a[(t.row*side+i)*m.n+l] * y
		}
		// Rounding errors are far smaller, since all numbers are below 1.
		if !(math.Abs(one-other) <= 1e-9*float64(width)) {
			return fmt.Errorf("matrices: row %d of block (%d, %d) adds up to %v instead of %v: %w", i, t.row, t.column, one, other, ErrWrong)
		}
	}
	return nil
}
