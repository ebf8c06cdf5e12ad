package estimate

import "slices"

// Require returns how many new workers hold all waiting tasks concurrently, up to most, and the categories with tasks
// that fit no such worker.
//
// Tasks are placed in queue order, each on the first worker with room. Cost: O(b·log n) for b batches and n workers,
// less if there are few needs, and more only if workers have enough of one resource and too little of another.
func Require(waiting []Batch, worker Resources, most int) (workers int, unplaceable []string) {
	p := packing{worker: worker, most: most}
	for i := range waiting {
		b := &waiting[i]
		if b.Need.Fits(worker) {
			p.pack(b.Need, b.Count)
		} else if !slices.Contains(unplaceable, b.Category) {
			unplaceable = append(unplaceable, b.Category)
		}
	}
	return len(p.free), unplaceable
}

// packing is a set of workers being filled.
type packing struct {
	worker Resources
	most   int
	free   []Resources
	needs  shapeIndex
	from   []int // for each need, the first worker that may have room
	tree   *tree // the free resources, once there are many needs
}

// pack places tasks of one need on the first workers with room.
func (p *packing) pack(need Resources, count int) {
	k := p.number(need)
	for left := count; left > 0; {
		at := p.first(need, k)
		if at == p.most {
			return
		}
		if at == len(p.free) {
			p.free = append(p.free, p.worker)
		}
		n := need.Times(p.free[at], left)
		p.free[at] = p.free[at].Plus(need, -n)
		left -= n
		if p.tree != nil {
			p.tree.set(at, p.free[at])
		}
	}
}

// number returns the index of a need, or none once there are so many that a tree finds the workers.
func (p *packing) number(need Resources) int {
	if p.tree != nil {
		return none
	}
	k, known := p.needs.find(need)
	if known {
		return k
	}
	if p.from = append(p.from, 0); len(p.from) > fewShapes {
		p.tree = &tree{}
		p.tree.reset(len(p.free))
		for i := range p.free {
			p.tree.put(i, p.free[i])
		}
		p.tree.sum()
	}
	return k
}

// first returns the first worker with room for the need of index k, or the index of the next new worker.
func (p *packing) first(need Resources, k int) int {
	if p.tree != nil {
		if at := p.tree.first(0, need); at != none {
			return at
		}
		return len(p.free)
	}
	at := p.from[k]
	for at < len(p.free) && !need.Fits(p.free[at]) {
		at++
	}
	p.from[k] = at
	return at
}
