package lp

import "math"

// linearProgram is this program: divide the requests of each group of items among the offers that hold them, so that the
// machines with that capacity cost the least, where fractions of machines are allowed. In units of money, with x(f) the
// money spent on offer f, y(b,f) the part of group b that goes there, and cost(b,f,r) the price of machines of f with
// as much of resource r as the group requests:
//
//	minimise Σ x(f)  where  Σ_f y(b,f) = 1,  x(f) ≥ Σ_b cost(b,f,r)·y(b,f)  for each r
//
// Its dual splits the price of each offer into shares of the resources:
//
//	maximise Σ π(b)  where  π(b) ≤ Σ_r cost(b,f,r)·share(f,r),  Σ_r share(f,r) ≤ 1
//
// An interior-point method (Mehrotra 1992) solves both. The program is highly degenerate, because offers of one family
// are multiples of each other, so that a simplex method with dense matrices cycles or is slow. This method takes about
// 20 steps, each a Cholesky factorization with as many rows for each offer as it has measures.
type linearProgram struct {
	offers int
	// cells are the pairs of group and offer; those of group b are from starts[b] to starts[b+1].
	cells  []cell
	starts []int
	// rows is the number of measures of each offer.
	rows []int
}

// cell is an offer that holds the items of a group.
type cell struct {
	offer int
	cost  Vector
}

func (s *linearProgram) groups() int { return len(s.starts) - 1 }

func (s *linearProgram) of(group int) []cell { return s.cells[s.starts[group]:s.starts[group+1]] }

// interiorPoint is a point strictly inside both programs, and the direction of a step.
type interiorPoint struct {
	*linearProgram
	y, yStep, ySlack, ySlackStep []float64 // by cell
	x, xStep, xSlack, xSlackStep []float64 // by offer
	spare, spareStep             []Vector  // by offer: what x exceeds the need by
	share, shareStep             []Vector  // by offer: also the slack of spare
	worth, worthStep             []float64 // by group: π
	target                       []float64 // by group: the right-hand side
	yGoal, xGoal                 []float64 // set by aim
	spareGoal                    []Vector
	matrix                       [][]float64 // lower triangle, with a row for each measure of an offer
	first                        []int       // by offer: its first row
	right                        []float64
	// steps counts the work in the unit of the search.
	steps int
	pairs int // of rows that share a group
}

// solve returns the shares of the resources in the price of each offer, the worth of each group and the money spent on
// each offer, within about the relative tolerance. Each group must have a cell and request something that costs money.
func (s *linearProgram) solve(tolerance float64) *interiorPoint {
	p := newInteriorPoint(s)
	const most = 60
	for range most {
		primal, dual := p.values()
		if !(primal-dual > float64(tolerance*primal)) || !p.step() {
			break
		}
	}
	return p
}

func newInteriorPoint(s *linearProgram) *interiorPoint {
	n, f, b := len(s.cells), s.offers, s.groups()
	p := &interiorPoint{
		linearProgram: s,
		y:             make([]float64, n), yStep: make([]float64, n), ySlack: make([]float64, n), ySlackStep: make([]float64, n), yGoal: make([]float64, n),
		x: make([]float64, f), xStep: make([]float64, f), xSlack: make([]float64, f), xSlackStep: make([]float64, f), xGoal: make([]float64, f),
		spare: make([]Vector, f), spareStep: make([]Vector, f), spareGoal: make([]Vector, f),
		share: make([]Vector, f), shareStep: make([]Vector, f),
		worth: make([]float64, b), worthStep: make([]float64, b), target: make([]float64, b),
		first: make([]int, f+1),
	}
	for i, n := range s.rows {
		p.first[i+1] = p.first[i] + n
	}
	p.right = make([]float64, p.first[f])
	for i := range p.right {
		p.matrix = append(p.matrix, make([]float64, i+1))
	}
	for b := range p.groups() {
		rows := 0
		for _, c := range p.of(b) {
			rows += s.rows[c.offer]
		}
		p.pairs += rows*rows + 40*rows
	}
	p.center()
	return p
}

// center starts with all groups divided evenly, twice the money needed, and half of each price divided into shares.
func (p *interiorPoint) center() {
	need := make([]Vector, p.offers)
	for b := range p.groups() {
		cells := p.of(b)
		for i, c := range cells {
			p.y[p.starts[b]+i] = 1 / float64(len(cells))
			for r := range p.rows[c.offer] {
				need[c.offer][r] += c.cost[r] / float64(len(cells))
			}
		}
	}
	whole := 0.0
	for f := range need {
		for r := range p.rows[f] {
			p.x[f] = max(p.x[f], 2*need[f][r])
			p.share[f][r] = 0.5 / float64(p.rows[f])
		}
		whole += p.x[f]
		p.xSlack[f] = 0.5
	}
	for f := range need {
		p.x[f] = max(p.x[f], 1e-3*whole/float64(p.offers))
		for r := range p.rows[f] {
			p.spare[f][r] = p.x[f] - need[f][r]
		}
	}
	for b := range p.groups() {
		least := math.Inf(1)
		for _, c := range p.of(b) {
			least = min(least, Dot(c.cost, p.share[c.offer]))
		}
		p.worth[b] = least / 2
		for i, c := range p.of(b) {
			p.ySlack[p.starts[b]+i] = Dot(c.cost, p.share[c.offer]) - p.worth[b]
		}
	}
}

// values returns the money spent and the total worth of the groups.
func (p *interiorPoint) values() (primal, dual float64) {
	for _, x := range p.x {
		primal += x
	}
	for _, w := range p.worth {
		dual += w
	}
	return primal, dual
}

// step moves once towards the optimum. A predictor step aims at the optimum to find out how far it gets; a corrector
// step then aims at a correspondingly smaller complementarity, and corrects what the first one neglected. It returns
// false if rounding prevents progress.
func (p *interiorPoint) step() bool {
	if !p.factor() {
		return false
	}
	products, pairs := p.complementarity(0, 0)
	p.aim(0, false)
	p.direct()
	primal, dual := p.reach()
	ahead, _ := p.complementarity(primal, dual)
	ratio := ahead / products
	center := float64(float64(ratio*ratio)*ratio) * products / float64(pairs)
	p.aim(center, true)
	p.direct()
	primal, dual = p.reach()
	const back = 0.995
	return p.move(min(1, float64(back*primal)), min(1, float64(back*dual)))
}

// complementarity returns the sum of the products of variables and slacks after a step of these lengths, and their
// number.
func (p *interiorPoint) complementarity(primal, dual float64) (sum float64, pairs int) {
	at := func(v, step, slack, slackStep float64) {
		sum += float64((v + float64(primal*step)) * (slack + float64(dual*slackStep)))
	}
	for i := range p.y {
		at(p.y[i], p.yStep[i], p.ySlack[i], p.ySlackStep[i])
	}
	for f := range p.x {
		at(p.x[f], p.xStep[f], p.xSlack[f], p.xSlackStep[f])
		for r := range p.rows[f] {
			at(p.spare[f][r], p.spareStep[f][r], p.share[f][r], p.shareStep[f][r])
		}
	}
	return sum, len(p.y) + len(p.x) + len(p.right)
}

// aim sets the targets for the change of the products, divided by the slack.
func (p *interiorPoint) aim(center float64, correct bool) {
	goal := func(v, step, slack, slackStep float64) float64 {
		g := center - float64(v*slack)
		if correct {
			g -= float64(step * slackStep)
		}
		return g / slack
	}
	for i := range p.y {
		p.yGoal[i] = goal(p.y[i], p.yStep[i], p.ySlack[i], p.ySlackStep[i])
	}
	for f := range p.x {
		p.xGoal[f] = goal(p.x[f], p.xStep[f], p.xSlack[f], p.xSlackStep[f])
		for r := range p.rows[f] {
			p.spareGoal[f][r] = goal(p.spare[f][r], p.spareStep[f][r], p.share[f][r], p.shareStep[f][r])
		}
	}
}

// factor sets up the normal equations, without the rows of the groups, whose part is diagonal, and factors them.
func (p *interiorPoint) factor() bool {
	for i := range p.matrix {
		clear(p.matrix[i][:i+1])
	}
	for f := range p.x {
		at := p.first[f]
		for r := range p.rows[f] {
			for q := range r + 1 {
				p.matrix[at+r][at+q] += p.x[f] / p.xSlack[f]
			}
			p.matrix[at+r][at+r] += p.spare[f][r] / p.share[f][r]
		}
	}
	for b := range p.groups() {
		p.addGroup(b)
	}
	const operations = 5 // about as long as a step
	n := len(p.matrix)
	p.steps += (n*n*n/3 + p.pairs) / operations
	return cholesky(p.matrix)
}

func (p *interiorPoint) addGroup(b int) {
	cells, from := p.of(b), p.starts[b]
	sum := 0.0
	for i := range cells {
		sum += p.y[from+i] / p.ySlack[from+i]
	}
	for i, c := range cells {
		weight := p.y[from+i] / p.ySlack[from+i]
		at := p.first[c.offer]
		own := float64(weight * ((sum - weight) / sum))
		for r := range p.rows[c.offer] {
			row := p.matrix[at+r]
			for q := range r + 1 {
				row[at+q] += float64(own * float64(c.cost[r]*c.cost[q]))
			}
			scale := float64(weight/sum) * c.cost[r]
			if scale == 0 {
				continue
			}
			for j, d := range cells[:i] {
				other := float64(scale * (p.y[from+j] / p.ySlack[from+j]))
				to := row[p.first[d.offer]:p.first[d.offer+1]]
				for q := range to {
					to[q] -= float64(other * d.cost[q])
				}
			}
		}
	}
}

// cholesky replaces the lower triangle of a symmetric matrix by that of its factor. A pivot lost to rounding becomes so
// large that its row has no effect.
func cholesky(m [][]float64) bool {
	for i, row := range m {
		for j := range i + 1 {
			sum, other := row[j], m[j]
			for k := range j {
				sum -= float64(row[k] * other[k])
			}
			if j < i {
				row[j] = sum / other[j]
				continue
			}
			if math.IsNaN(sum) || math.IsInf(sum, 0) {
				return false
			}
			if sum <= float64(1e-13*row[i]) || sum <= 0 {
				sum = 1e64
			}
			row[i] = math.Sqrt(sum)
		}
	}
	return true
}

// direct computes the direction that meets the goals.
func (p *interiorPoint) direct() {
	p.setRight()
	for i, row := range p.matrix {
		sum := p.right[i]
		for k := range i {
			sum -= float64(row[k] * p.right[k])
		}
		p.right[i] = sum / row[i]
	}
	for i := len(p.matrix) - 1; i >= 0; i-- {
		value := p.right[i] / p.matrix[i][i]
		p.right[i] = value
		row := p.matrix[i]
		for k := range i {
			p.right[k] -= float64(row[k] * value)
		}
	}
	for f := range p.share {
		copy(p.shareStep[f][:], p.right[p.first[f]:p.first[f+1]])
	}
	p.directRest()
}

// setRight sets the right-hand side: the sum of the goals of all variables in each row.
func (p *interiorPoint) setRight() {
	for f := range p.x {
		for r := range p.rows[f] {
			p.right[p.first[f]+r] = p.spareGoal[f][r] - p.xGoal[f]
		}
	}
	for b := range p.groups() {
		from, sum, goals := p.starts[b], 0.0, 0.0
		for i := range p.of(b) {
			sum += p.y[from+i] / p.ySlack[from+i]
			goals += p.yGoal[from+i]
		}
		p.target[b] = -goals
		for i, c := range p.of(b) {
			part := p.yGoal[from+i] - float64(p.y[from+i]/p.ySlack[from+i]/sum*goals)
			for r := range p.rows[c.offer] {
				p.right[p.first[c.offer]+r] += float64(c.cost[r] * part)
			}
		}
	}
}

// directRest computes all other directions from those of the shares.
func (p *interiorPoint) directRest() {
	for b := range p.groups() {
		from, sum, worth := p.starts[b], 0.0, p.target[b]
		for i, c := range p.of(b) {
			weight := p.y[from+i] / p.ySlack[from+i]
			sum += weight
			worth += float64(weight * Dot(c.cost, p.shareStep[c.offer]))
		}
		p.worthStep[b] = worth / sum
		for i, c := range p.of(b) {
			slack := Dot(c.cost, p.shareStep[c.offer]) - p.worthStep[b]
			p.ySlackStep[from+i] = slack
			p.yStep[from+i] = p.yGoal[from+i] - float64(p.y[from+i]/p.ySlack[from+i]*slack)
		}
	}
	for f := range p.x {
		slack := -Total(p.shareStep[f])
		p.xSlackStep[f] = slack
		p.xStep[f] = p.xGoal[f] - float64(p.x[f]/p.xSlack[f]*slack)
		for r := range p.rows[f] {
			p.spareStep[f][r] = p.spareGoal[f][r] - float64(p.spare[f][r]/p.share[f][r]*p.shareStep[f][r])
		}
	}
}

// reach returns the lengths at which a step makes a variable, or a slack, zero.
func (p *interiorPoint) reach() (primal, dual float64) {
	primal, dual = 1e9, 1e9
	limit := func(reach *float64, v, step float64) {
		if step < 0 {
			*reach = min(*reach, -v/step)
		}
	}
	for i := range p.y {
		limit(&primal, p.y[i], p.yStep[i])
		limit(&dual, p.ySlack[i], p.ySlackStep[i])
	}
	for f := range p.x {
		limit(&primal, p.x[f], p.xStep[f])
		limit(&dual, p.xSlack[f], p.xSlackStep[f])
		for r := range p.rows[f] {
			limit(&primal, p.spare[f][r], p.spareStep[f][r])
			limit(&dual, p.share[f][r], p.shareStep[f][r])
		}
	}
	return primal, dual
}

// move makes the step. It returns false if the step is too short to matter, or NaN.
func (p *interiorPoint) move(primal, dual float64) bool {
	if !(primal > 1e-6 || dual > 1e-6) {
		return false
	}
	add := func(v *float64, length, step float64) { *v += float64(length * step) }
	for i := range p.y {
		add(&p.y[i], primal, p.yStep[i])
		add(&p.ySlack[i], dual, p.ySlackStep[i])
	}
	for f := range p.x {
		add(&p.x[f], primal, p.xStep[f])
		add(&p.xSlack[f], dual, p.xSlackStep[f])
		for r := range p.rows[f] {
			add(&p.spare[f][r], primal, p.spareStep[f][r])
			add(&p.share[f][r], dual, p.shareStep[f][r])
		}
	}
	for b := range p.worth {
		add(&p.worth[b], dual, p.worthStep[b])
	}
	return true
}
