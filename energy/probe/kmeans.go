package probe

import (
	"context"
	"fmt"
	"math"
)

const (
	clusters   = 16
	dimensions = 32 // HEATS, section V: points of 32 dimensions
	// batch is the number of points in an iteration, and chunk how many of them a worker
	// processes at a time: about a millisecond.
	batch = 8192
	chunk = 1024
	// iterations is the number of iterations for amount 100.
	iterations = 400
	// noise is the maximum distance of coordinates from those of their cluster's centre, which
	// are in [-1, 1).
	noise = 0.25
	// fillPoints is the number of points that are generated at a time.
	fillPoints = 4096
)

// kmeans finds the centres of clusters with mini-batches (Sculley, WWW 2010): an iteration
// assigns a batch of points to their nearest centres and moves these to the means of all points
// assigned so far. Batches cycle through all points.
type kmeans struct {
	Work
	points  []float64 // of dimensions numbers each; point i is of cluster i mod clusters
	n       int
	centres [clusters * dimensions]float64
	got     [clusters]int64
}

// newKMeans returns the task. The first point of each cluster is its initial centre.
func newKMeans(w Work, memory []float64) *kmeans {
	n := len(memory) / dimensions / batch * batch
	if n == 0 {
		n = len(memory) / dimensions / chunk * chunk
	}
	return &kmeans{Work: w, points: memory[:n*dimensions], n: n}
}

// truth returns a coordinate of a cluster's true centre.
func (k *kmeans) truth(cluster, dimension int) float64 {
	return random(^k.Seed, uint64(cluster*dimensions+dimension))
}

func (k *kmeans) fill(ctx context.Context) error {
	var truth [clusters * dimensions]float64
	for i := range truth {
		truth[i] = k.truth(i/dimensions, i%dimensions)
	}
	err := share(ctx, k.Workers, (k.n+fillPoints-1)/fillPoints, func(part int) {
		for p := part * fillPoints; p < min(k.n, (part+1)*fillPoints); p++ {
			at := p * dimensions
			for d := range dimensions {
				k.points[at+d] = truth[p%clusters*dimensions+d] + noise*random(k.Seed, uint64(at+d))
			}
		}
		k.Pace()
	})
	copy(k.centres[:], k.points)
	return err
}

// partial is the contribution of a chunk to the clusters.
type partial struct {
	sum [clusters * dimensions]float64
	got [clusters]int64
}

func (k *kmeans) run(ctx context.Context) (uint64, error) {
	size := min(batch, k.n)
	partials := make([]partial, size/chunk)
	// If memory limits the size of a batch, there are more batches.
	for i := range (iterations*k.Amount + 99) / 100 * (batch / size) {
		first := i * size % k.n
		err := share(ctx, k.Workers, len(partials), func(part int) {
			k.assign(&partials[part], first+part*chunk)
			k.Pace()
		})
		if err != nil {
			return 0, err
		}
		for part := range partials { // in order, so that sums do not depend on timing
			k.move(&partials[part])
		}
	}
	return k.check((iterations*k.Amount + 99) / 100 * batch)
}

// assign assigns each point of a chunk to its nearest centre, ties to the first.
func (k *kmeans) assign(to *partial, first int) {
	*to = partial{}
	for p := first; p < first+chunk; p++ {
		point := k.points[p*dimensions : (p+1)*dimensions]
		nearest, least := 0, math.Inf(1)
		for c := range clusters {
			centre, away := k.centres[c*dimensions:(c+1)*dimensions], 0.0
			for d, x := range point {
				off := x - centre[d]
				away += off * off
			}
			if away < least {
				nearest, least = c, away
			}
		}
		sum := to.sum[nearest*dimensions : (nearest+1)*dimensions]
		for d, x := range point {
			sum[d] += x
		}
		to.got[nearest]++
	}
}

// move moves the centres to the means of their points.
func (k *kmeans) move(by *partial) {
	for c := range clusters {
		if by.got[c] == 0 {
			continue
		}
		before := float64(k.got[c])
		k.got[c] += by.got[c]
		for d := range dimensions {
			at := c*dimensions + d
			k.centres[at] = (k.centres[at]*before + by.sum[at]) / float64(k.got[c])
		}
	}
}

// check compares the centres with the true ones. The mean of so many points is much closer to its
// centre than the limit of noise/4, even if some points belong to a neighbour.
func (k *kmeans) check(points int) (checksum uint64, err error) {
	got := int64(0)
	for c := range clusters {
		got += k.got[c]
		away := 0.0
		for d := range dimensions {
			at := c*dimensions + d
			off := k.centres[at] - k.truth(c, d)
			away += off * off
			checksum = digest(checksum, math.Float64bits(k.centres[at]))
		}
		if away = math.Sqrt(away / dimensions); !(away < noise/4) {
			return 0, fmt.Errorf("k-means: centre %d is %v from the true one in each dimension, must be less than %v: %w", c, away, noise/4, ErrWrong)
		}
	}
	if got != int64(points) {
		return 0, fmt.Errorf("k-means: %d of %d points were assigned: %w", got, points, ErrWrong)
	}
	return checksum, nil
}
