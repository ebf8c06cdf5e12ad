package estimate

import (
	"cmp"
	"slices"
	"time"
)

// Outlook is the state of a pool at the end of a window, if it is not resized and nothing is submitted.
type Outlook struct {
	// Waiting are the tasks that still wait, in queue order.
	Waiting []Batch
	// Workers are in the order of the state's workers.
	Workers []Prospect
}

// Prospect is a worker at the end of a window.
type Prospect struct {
	Free Resources
	// Idle reports that it runs nothing at the end of the window.
	Idle bool
	// Took is the number of waiting tasks that it was given.
	Took int
	// BusyUntil is when the last of its tasks ends, from now; [Unknown] if that is not known, and 0 if it has none.
	BusyUntil time.Duration
}

// Foresee simulates a window: tasks end and free their resources, workers connect, and waiting tasks start. Events at
// the very end of the window still count.
//
// Tasks start in queue order, each on the first worker with room. A task that fits nowhere is skipped, and later ones
// are tried. The algorithm of the paper adds up the free resources of all workers; here a task never straddles two
// workers, and every resource counts.
//
// The state must be valid. Cost: O(b + n·log b) for b waiting batches and n groups of equal tasks that start or end in
// the window; more only if there are many different needs, and workers that have enough of one resource but not of
// another.
func Foresee(s State, window time.Duration) Outlook {
	f := newForecast(s, window)
	for at, more := time.Duration(0), true; more; at, more = f.next() {
		f.advance(at)
		f.dispatch(at)
	}
	return f.outlook()
}

// forecast is the simulation of a window.
type forecast struct {
	window  time.Duration
	workers []place
	queue   []Batch // the initial queue
	left    []int   // for each batch, the tasks left
	behind  []int   // for each batch, the next one of the same need, or none
	shapes  []shape
	of      []int // for each batch, the index of its shape
	tree    *tree // the negated needs of the first batch of each shape, if there are many
	events  events
	gained  []int // workers that have gained room
	rooms   tree  // the free resources of gained
}

// place is a worker with its free resources.
type place struct {
	free    Resources
	running int
	took    int
	until   time.Duration
	serves  bool
	gained  bool
}

// shape is the waiting tasks of one need.
type shape struct {
	need        Resources
	first, last int // batches in the queue; first is none if no task is left
}

// none means that there is no batch or place.
const none = -1

func newForecast(s State, window time.Duration) *forecast {
	f := &forecast{window: window, workers: make([]place, len(s.Workers)), queue: s.Waiting}
	for i := range s.Workers {
		w, p := &s.Workers[i], &f.workers[i]
		p.free = w.Capacity
		for _, r := range w.Running {
			f.start(i, r.Need, r.Count, 0, r.Left)
		}
		if w.Draining && !w.Takes {
			continue
		}
		if w.ReadyIn <= window {
			f.events.push(event{at: w.ReadyIn, worker: i, connects: true})
		}
	}
	f.sort()
	return f
}

// fewShapes is the number of needs up to which a linear search is faster than a tree.
const fewShapes = 16

// sort links the batches of each need.
func (f *forecast) sort() {
	n := len(f.queue)
	f.left, f.behind, f.of = make([]int, n), make([]int, n), make([]int, n)
	index := shapeIndex{expect: n}
	for i := range f.queue {
		b := &f.queue[i]
		f.left[i], f.behind[i] = b.Count, none
		k, known := index.find(b.Need)
		f.of[i] = k
		if !known {
			if k == fewShapes {
				f.shapes = slices.Grow(f.shapes, n-i)
			}
			f.shapes = append(f.shapes, shape{need: b.Need, first: i, last: i})
			continue
		}
		f.behind[f.shapes[k].last], f.shapes[k].last = i, i
	}
	if len(f.shapes) <= fewShapes {
		return
	}
	f.tree = &tree{}
	f.tree.reset(n)
	for i := range f.shapes {
		f.tree.put(f.shapes[i].first, f.shapes[i].need.negated())
	}
	f.tree.sum()
}

// first returns the first batch of the queue, starting at from, of which a task fits; none if there is none.
func (f *forecast) first(from int, free Resources) int {
	if f.tree != nil {
		return f.tree.first(from, free.negated())
	}
	first := none
	for i := range f.shapes {
		if s := &f.shapes[i]; s.first >= from && (first == none || s.first < first) && s.need.Fits(free) {
			first = s.first
		}
	}
	return first
}

// used removes a batch without waiting tasks from the queue.
func (f *forecast) used(batch int) {
	s := &f.shapes[f.of[batch]]
	s.first = f.behind[batch]
	if f.tree == nil {
		return
	}
	f.tree.set(batch, nothing)
	if s.first != none {
		f.tree.set(s.first, s.need.negated())
	}
}

// shapeIndex numbers needs in the order of their first lookup. Most queues have few needs; comparing those is faster
// than hashing.
type shapeIndex struct {
	few    []Resources
	more   map[Resources]int
	expect int // capacity of more
}

// find returns the number of a need, and whether it was known.
func (x *shapeIndex) find(need Resources) (number int, known bool) {
	const most = 8
	if i := slices.Index(x.few, need); i >= 0 {
		return i, true
	}
	if len(x.few) < most {
		x.few = append(x.few, need)
		return len(x.few) - 1, false
	}
	if number, known = x.more[need]; known {
		return number, true
	}
	if x.more == nil {
		x.more = make(map[Resources]int, x.expect)
	}
	number = most + len(x.more)
	x.more[need] = number
	return number, false
}

// start gives n tasks to a worker.
func (f *forecast) start(worker int, need Resources, n int, at, runtime time.Duration) {
	p := &f.workers[worker]
	p.free = p.free.Plus(need, -n)
	p.running += n
	end := Unknown
	if runtime < Unknown-at {
		end = at + runtime
	}
	p.until = max(p.until, end)
	if end <= f.window {
		f.events.push(event{at: end, worker: worker, need: need, n: n})
	}
}

// next returns the time of the next event, if there is one within the window.
func (f *forecast) next() (time.Duration, bool) {
	if len(f.events) == 0 {
		return 0, false
	}
	return f.events[0].at, true
}

// advance processes the events up to a time.
func (f *forecast) advance(at time.Duration) {
	for len(f.events) > 0 && f.events[0].at <= at {
		e := f.events.pop()
		p := &f.workers[e.worker]
		if e.connects {
			p.serves = true
		} else {
			p.free = p.free.Plus(e.need, e.n)
			p.running -= e.n
		}
		if p.serves && !p.gained {
			p.gained = true
			f.gained = append(f.gained, e.worker)
		}
	}
	slices.Sort(f.gained)
}

// dispatch starts the tasks that fit. Between two events nothing that waits fits anywhere, so only workers that have
// gained room are considered. During one dispatch room only shrinks, so a need that fits none of them is not tried
// again.
func (f *forecast) dispatch(at time.Duration) {
	if len(f.gained) == 0 {
		return
	}
	f.rooms.reset(len(f.gained))
	for i, worker := range f.gained {
		f.workers[worker].gained = false
		f.rooms.put(i, f.workers[worker].free)
	}
	f.rooms.sum()
	for i := f.first(0, f.rooms.all()); i != none; i = f.first(i, f.rooms.all()) {
		b := &f.queue[i]
		room := f.rooms.first(0, b.Need)
		if room == none { // no single worker has enough of all resources
			i++
			continue
		}
		worker := f.gained[room]
		n := b.Need.Times(f.workers[worker].free, f.left[i])
		f.start(worker, b.Need, n, at, b.Runtime)
		f.rooms.set(room, f.workers[worker].free)
		f.workers[worker].took += n
		if f.left[i] -= n; f.left[i] == 0 {
			f.used(i)
		}
	}
	f.gained = f.gained[:0]
}

func (f *forecast) outlook() Outlook {
	var o Outlook
	waiting := 0
	for _, n := range f.left {
		if n > 0 {
			waiting++
		}
	}
	if waiting > 0 {
		o.Waiting = make([]Batch, 0, waiting)
	}
	for i, n := range f.left {
		if n > 0 {
			b := f.queue[i]
			b.Count = n
			o.Waiting = append(o.Waiting, b)
		}
	}
	for i := range f.workers {
		p := &f.workers[i]
		o.Workers = append(o.Workers, Prospect{Free: p.free, Idle: p.running == 0, Took: p.took, BusyUntil: p.until})
	}
	return o
}

// event is the end of tasks or the connection of a worker.
type event struct {
	at       time.Duration
	worker   int
	connects bool
	need     Resources
	n        int
}

// events is a binary heap, the earliest first. All events of one time are taken before anything starts, so their order
// does not matter.
type events []event

func (h *events) push(e event) {
	*h = append(*h, e)
	q := *h
	for i := len(q) - 1; i > 0; {
		parent := (i - 1) / 2
		if cmp.Compare(q[parent].at, q[i].at) <= 0 {
			return
		}
		q[parent], q[i] = q[i], q[parent]
		i = parent
	}
}

func (h *events) pop() event {
	q := *h
	first := q[0]
	last := len(q) - 1
	q[0] = q[last]
	*h = q[:last]
	q = *h
	for i := 0; ; {
		least := i
		for _, child := range [...]int{2*i + 1, 2*i + 2} {
			if child < last && q[child].at < q[least].at {
				least = child
			}
		}
		if least == i {
			return first
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}
