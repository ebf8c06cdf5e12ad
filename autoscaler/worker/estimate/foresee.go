package estimate

import (
	"cmp"
	"slices"
	"time"
)

// Outlook is a pool as it will be at the end of a window, if nobody resizes it and
// nothing is submitted.
type Outlook struct {
	// Waiting are the tasks that still wait, in the order of the queue.
	Waiting []Batch
	// Workers are in the order of the state's.
	Workers []Prospect
}

// Prospect is what becomes of a worker within a window.
type Prospect struct {
	Free Resources
	// Idle says that it runs nothing at the end of the window.
	Idle bool
	// Took is how many of the waiting tasks it was given.
	Took int
	// BusyUntil is when the last task that it has been given ends, from now; [Unknown]
	// if nobody can say, and 0 if it has none.
	BusyUntil time.Duration
}

// Foresee plays a window through: tasks end and free what they occupied,
// workers connect, and waiting tasks start. What happens at the very end of the
// window still counts.
//
// Tasks start in the order of the queue, each on the first worker with room for it. One
// that fits nowhere is skipped and later ones are tried. The algorithm of the paper adds
// up what all workers have free; here a task never straddles two workers, and every
// resource counts.
//
// The state must be valid. Cost: O(b + n·log b) for b batches that wait and n runs of equal
// tasks that start or end in the window; more only where needs are many and there is enough
// of one thing for these and of another for those.
func Foresee(s State, window time.Duration) Outlook {
	f := newForecast(s, window)
	for at, more := time.Duration(0), true; more; at, more = f.next() {
		f.advance(at)
		f.dispatch(at)
	}
	return f.outlook()
}

// forecast is a window being played through.
type forecast struct {
	window  time.Duration
	workers []place
	queue   []Batch // as it was
	left    []int   // of each batch of the queue
	behind  []int   // each: the next batch of the same need, or none
	shapes  []shape
	of      []int // each: the number of its need
	tree    *tree // of the needs of the batches that are first of theirs, negated, if needs are many
	events  events
	gained  []int // workers that have more room than before
	rooms   tree  // of what these have free
}

// place is a worker with what it has free.
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
	first, last int // batches in the queue; first is none when no task waits any more
}

// none is no batch.
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

// fewShapes is how many needs are looked at one by one, in less time than a tree takes.
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

// first returns the first batch of the queue, from one on, of which a task fits, or none.
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

// used takes a batch out of the queue of which no task waits any more.
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

// shapeIndex numbers needs in the order in which they are first asked for. Most queues have
// few: those are compared, which takes less time than to hash one.
type shapeIndex struct {
	few    []Resources
	more   map[Resources]int
	expect int // how many there may be, once they are many
}

// find returns the number of a need, and whether it had one.
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

// next returns when something happens next, if anything does within the window.
func (f *forecast) next() (time.Duration, bool) {
	if len(f.events) == 0 {
		return 0, false
	}
	return f.events[0].at, true
}

// advance lets happen what happens at one moment.
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

// dispatch starts what fits. Between two moments nothing that waits fits anywhere: it is
// enough to look at the workers that have gained room. At one moment room only shrinks: a
// need that fits none of them is not tried again.
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
		if room == none { // one has enough of this and another of that
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

// event is tasks that end or a worker that connects.
type event struct {
	at       time.Duration
	worker   int
	connects bool
	need     Resources
	n        int
}

// events is a binary heap, the earliest first. Those of one moment are all taken before
// anything starts: their order does not matter.
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
