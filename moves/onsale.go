package moves

import (
	"cmp"
	"slices"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// onSale are the flavors that can still be bought, with what bounds the price of machines for pods.
type onSale struct {
	flavors []cluster.Flavor
	// cheapestFirst are the same flavors ordered by price.
	cheapestFirst []*cluster.Flavor
	valuations    []valuation
}

// valuation is a price of CPU and memory at which no flavor has more than it costs: pods cost at least their requests at
// this price, however they are spread over machines. Units are micro-dollars per hour, for a thousandth of a CPU and for a
// byte.
type valuation struct{ cpu, memory float64 }

func newOnSale(flavors []cluster.Flavor) *onSale {
	s := &onSale{flavors: flavors, valuations: valuationsOf(flavors)}
	for i := range flavors {
		s.cheapestFirst = append(s.cheapestFirst, &flavors[i])
	}
	slices.SortStableFunc(s.cheapestFirst, func(a, b *cluster.Flavor) int { return cmp.Compare(a.MicroDollarsPerHour, b.MicroDollarsPerHour) })
	return s
}

// cheapest returns the price per hour of the cheapest flavor that takes the pod, or false if none does.
func (s *onSale) cheapest(p *cluster.Pod) (int64, bool) {
	for _, f := range s.cheapestFirst {
		n := cluster.Node{Class: class.Any, Arch: f.Arch, Host: f.Host}
		if p.Size.Fits(f.Size) && n.Suits(p) {
			return f.MicroDollarsPerHour, true
		}
	}
	return 0, false
}

// worth returns the least price of machines that have the given CPU-hours, in thousandths of a CPU, and byte-hours.
func (s *onSale) worth(cpuHours, byteHours float64) (most float64) {
	for _, v := range s.valuations {
		most = max(most, float64(v.cpu*cpuHours)+float64(v.memory*byteHours))
	}
	return most
}

// valuationsOf returns the valuations of which, for any pods, one is the greatest: the corners of the set of all of them.
// They are the edges of the convex hull of what the flavors have for one micro-dollar. There are none if a machine costs
// nothing.
//
// Cost: O(n log n) for n flavors.
func valuationsOf(flavors []cluster.Flavor) []valuation {
	var points [][2]float64 // CPU and memory for a micro-dollar
	for i := range flavors {
		f := &flavors[i]
		if f.MicroDollarsPerHour <= 0 {
			return nil
		}
		price := float64(f.MicroDollarsPerHour)
		points = append(points, [2]float64{float64(f.Size.MilliCPU) / price, float64(f.Size.MemoryBytes) / price})
	}
	hull := upperHull(points)
	if len(hull) == 0 || hull[0][0] <= 0 || hull[len(hull)-1][1] <= 0 {
		return nil
	}
	all := []valuation{{cpu: 1 / hull[0][0]}}
	for i := 1; i < len(hull); i++ {
		a, b := hull[i-1], hull[i]
		det := float64(a[0]*b[1]) - float64(b[0]*a[1])
		all = append(all, valuation{cpu: (b[1] - a[1]) / det, memory: (a[0] - b[0]) / det})
	}
	return append(all, valuation{memory: 1 / hull[len(hull)-1][1]})
}

// upperHull returns the corners of the convex hull of points from the one with the greatest first coordinate to the one
// with the greatest second coordinate. Neither coordinate may be negative.
func upperHull(points [][2]float64) (hull [][2]float64) {
	slices.SortFunc(points, func(a, b [2]float64) int { return cmp.Or(cmp.Compare(b[0], a[0]), cmp.Compare(b[1], a[1])) })
	for _, p := range points {
		if n := len(hull); n > 0 && p[1] <= hull[n-1][1] {
			continue // another point has as much of both
		}
		for n := len(hull); n > 1 && !turnsLeft(hull[n-2], hull[n-1], p); n-- {
			hull = hull[:n-1]
		}
		hull = append(hull, p)
	}
	return hull
}

func turnsLeft(a, b, c [2]float64) bool {
	return float64((b[0]-a[0])*(c[1]-b[1])) > float64((b[1]-a[1])*(c[0]-b[0]))
}
