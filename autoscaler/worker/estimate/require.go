package estimate

import "slices"

// Require returns how many new workers hold all waiting tasks at once, most at the
// utmost, and the categories with tasks that no such worker holds.
//
// Tasks choose in the order of the queue, each the first worker with room. Cost:
// O(b·k + n) for b batches of k different needs and n workers.
func Require(waiting []Batch, worker Resources, most int) (workers int, unplaceable []string) {
	var free []Resources
	var needs shapeIndex
	var from []int // workers before have no room left for the need of that number
	for i := range waiting {
		b := &waiting[i]
		if !b.Need.Fits(worker) {
			if !slices.Contains(unplaceable, b.Category) {
				unplaceable = append(unplaceable, b.Category)
			}
			continue
		}
		k, known := needs.find(b.Need)
		if !known {
			from = append(from, 0)
		}
		at := from[k]
		for left := b.Count; left > 0 && at < most; {
			if at == len(free) {
				free = append(free, worker)
			}
			n := b.Need.Times(free[at], left)
			free[at] = free[at].Plus(b.Need, -n)
			if left -= n; left > 0 {
				at++
			}
		}
		from[k] = at
	}
	return len(free), unplaceable
}
