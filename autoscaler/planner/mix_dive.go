package planner

import "slices"

// part returns the problem of so many pods of each kind, and the kinds that its kinds are.
// It is for a relaxation alone: prices and worths are those of the whole problem.
func (p *problem) part(counts []int32) (*problem, []int32) {
	part, of := *p, []int32(nil)
	part.kinds, part.total, part.duals = nil, 0, nil
	for i, n := range counts {
		if n > 0 {
			k := p.kinds[i]
			k.pods = k.pods[:n]
			part.kinds, of = append(part.kinds, k), append(of, int32(i))
			part.total += int(n)
		}
	}
	return &part, of
}

// dive makes machines for so many pods of each kind: the whole machines of the relaxation, or
// the one that comes nearest to a whole one if there is none; and so on with a relaxation of
// the pods that are left, whose machines hold no more of a kind than there still are (Wäscher
// and Gau 1996 compare such ways to round). It goes on for so many steps, and returns those
// that it took; pods that wait then have no machine.
func (p *problem) dive(waiting []int32, steps int) (machines []machine, left []int32, taken int) {
	left = slices.Clone(waiting)
	for taken < steps {
		part, of := p.part(left)
		if part.total == 0 {
			break
		}
		r := newRelaxation(part)
		r.solve((steps - taken) / 2)
		taken += r.steps + r.knapsack.steps + 1
		for _, counts := range r.wholeMachines() {
			all := make([]int32, len(p.kinds))
			for i, n := range counts {
				all[of[i]] = n
			}
			machines = p.take(machines, all, left)
		}
	}
	return machines, left, taken
}

// wholeMachines returns the pods of the machines that the columns stand for, parts of machines
// left out; or of one of the column of which there is most if there are none.
func (r *relaxation) wholeMachines() [][]int32 {
	const nearly = 1e-6
	var whole [][]int32
	most := 0
	for i, c := range r.basis {
		if c.number > r.basis[most].number {
			most = i
		}
		if c.number < float64(r.p.total)+1 { // not what is no number
			for range int(c.number + nearly) {
				whole = append(whole, c.counts)
			}
		}
	}
	if len(whole) == 0 {
		whole = append(whole, r.basis[most].counts)
	}
	return whole
}
