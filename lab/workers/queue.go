package workers

import (
	"slices"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/internal/input/trace"
)

// queue has the ready tasks, in order, grouped by their needs: if one task does not fit, no task
// with the same needs fits.
type queue struct {
	lanes       []*lane
	of          map[estimate.Resources]*lane
	first, last int
	milliCores  int64 // requested by all of them
}

// lane has the tasks with the same needs.
type lane struct {
	need  estimate.Resources
	tasks []queued
}

// queued is a task and its position in the queue.
type queued struct{ place, task int }

func newQueue() queue { return queue{of: map[estimate.Resources]*lane{}} }

func (q *queue) lane(need estimate.Resources) *lane {
	l := q.of[need]
	if l == nil {
		l = &lane{need: need}
		q.of[need] = l
		q.lanes = append(q.lanes, l)
	}
	q.milliCores += need.MilliCores
	return l
}

func (q *queue) push(need estimate.Resources, task int) {
	l := q.lane(need)
	q.last++
	l.tasks = append(l.tasks, queued{q.last, task})
}

func (q *queue) pushFront(need estimate.Resources, task int) {
	l := q.lane(need)
	q.first--
	l.tasks = slices.Insert(l.tasks, 0, queued{q.first, task})
}

// each offers tasks in order and removes those that are taken. After a task is rejected, no other
// task with the same needs is offered.
func (q *queue) each(take func(need estimate.Resources, task int) bool) {
	refused := map[*lane]bool{}
	for {
		var first *lane
		for _, l := range q.lanes {
			if len(l.tasks) > 0 && !refused[l] && (first == nil || l.tasks[0].place < first.tasks[0].place) {
				first = l
			}
		}
		switch {
		case first == nil:
			return
		case take(first.need, first.tasks[0].task):
			first.tasks = first.tasks[1:]
			q.milliCores -= first.need.MilliCores
		default:
			refused[first] = true
		}
	}
}

// inOrder returns the tasks of the queue in order.
func (q *queue) inOrder() []int {
	var all []queued
	for _, l := range q.lanes {
		all = append(all, l.tasks...)
	}
	slices.SortFunc(all, func(a, b queued) int { return a.place - b.place })
	tasks := make([]int, len(all))
	for i := range all {
		tasks[i] = all[i].task
	}
	return tasks
}

// batches returns the queue in order, with consecutive identical tasks combined.
func (q *queue) batches(of func(task int) estimate.Batch) []estimate.Batch {
	var batches []estimate.Batch
	for _, task := range q.inOrder() {
		b := of(task)
		if n := len(batches); n > 0 {
			last := batches[n-1]
			last.Count = b.Count
			if last == b {
				batches[n-1].Count++
				continue
			}
		}
		batches = append(batches, b)
	}
	return batches
}

// blocked has the tasks that are not ready.
type blocked struct {
	tasks    []trace.Task
	open     []int   // parents that have not ended
	children [][]int // of each task
	stages   []int64 // ascending
	unended  map[int64]int
	of       map[int64][]int // tasks by stage whose parents have ended, but not all lower stages
}

func newBlocked(tasks []trace.Task) blocked {
	b := blocked{tasks: tasks, open: make([]int, len(tasks)), children: make([][]int, len(tasks)), unended: map[int64]int{}, of: map[int64][]int{}}
	for i := range tasks {
		b.open[i] = len(tasks[i].Parents)
		for _, parent := range tasks[i].Parents {
			b.children[parent] = append(b.children[parent], i)
		}
		if b.unended[tasks[i].Stage] == 0 {
			b.stages = append(b.stages, tasks[i].Stage)
		}
		b.unended[tasks[i].Stage]++
		if b.open[i] == 0 {
			b.of[tasks[i].Stage] = append(b.of[tasks[i].Stage], i)
		}
	}
	slices.Sort(b.stages)
	return b
}

// first returns the tasks that are ready at the start.
func (b *blocked) first() []int {
	if len(b.stages) == 0 {
		return nil
	}
	ready := b.of[b.stages[0]]
	delete(b.of, b.stages[0])
	return ready
}

// ended returns the tasks that become ready by the end of a task.
func (b *blocked) ended(task int) []int {
	var ready []int
	for _, c := range b.children[task] {
		b.open[c]--
		switch stage := b.tasks[c].Stage; {
		case b.open[c] > 0:
		case stage == b.stages[0]:
			ready = append(ready, c)
		default:
			b.of[stage] = append(b.of[stage], c)
		}
	}
	b.unended[b.tasks[task].Stage]--
	for len(b.stages) > 0 && b.unended[b.stages[0]] == 0 {
		if b.stages = b.stages[1:]; len(b.stages) > 0 {
			opened := b.of[b.stages[0]]
			slices.Sort(opened)
			ready = append(ready, opened...)
			delete(b.of, b.stages[0])
		}
	}
	return ready
}
