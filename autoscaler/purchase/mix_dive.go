package purchase

import "slices"

// part returns the problem of the given number of pods of each kind, and the original kinds of its kinds. It is only
// for a relaxation: prices and worths are those of the whole problem.
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

// dive makes machines for the given number of pods of each kind: the whole machines of the relaxation, or the one
// closest to a whole one if there is none. It repeats that with a relaxation of the pods that are left, whose machines
// hold no more pods of a kind than are left (Wäscher and Gau 1996 compare such ways of rounding). It stops after about
// the given number of steps, and returns those taken; some pods may then have no machine.
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

// wholeMachines returns the pods of the columns' machines, without fractions of machines. If there are no whole ones,
// it returns one machine of the column with the greatest number.
func (r *relaxation) wholeMachines() [][]int32 {
	const nearly = 1e-6
	var whole [][]int32
	most := 0
	for i, c := range r.basis {
		if c.number > r.basis[most].number {
			most = i
		}
		if c.number < float64(r.p.total)+1 { // excludes NaN
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
