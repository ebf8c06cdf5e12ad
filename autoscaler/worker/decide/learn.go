package decide

import (
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

// learnRuntimes learns from tasks that have ended since the look before.
//
// A manager lists no tasks that have ended. Where all that ended since are of one category,
// their mean runtime is what the manager's total execution time grew by, shared among them:
// exact however rarely it is asked. Else a task that ran before and is not listed any more
// has ended in between, in the middle for all that is known, and one that was never seen to
// run took half of the time between. A task that is back in the queue was lost and teaches
// nothing, nor does one whose category has no more tasks done than before: it failed or was
// cancelled.
func (m *Memory) learnRuntimes(r *Reading, now time.Time) {
	last, next := &m.last, lookAt(r, now)
	if between := now.Sub(last.at); !last.at.IsZero() && between > 0 {
		m.learnEnded(last, &next, between)
	}
	m.last = next
}

func lookAt(r *Reading, now time.Time) lastLook {
	l := lastLook{at: now, executed: r.Queue.ExecutedGood, done: map[string]int64{}, running: make(map[int64]ran, len(r.Tasks))}
	for i := range r.Categories {
		l.done[r.Categories[i].Name] = r.Categories[i].Done
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		switch {
		case t.State == answer.Waiting:
			l.running[t.ID] = ran{since: waits}
		case t.State == answer.Running && !t.Started.IsZero():
			l.running[t.ID] = ran{category: t.Category, since: max(0, t.Now.Sub(t.Started))}
		}
	}
	return l
}

// waits marks a task that is listed and does not run.
const waits = time.Duration(-1)

func (m *Memory) learnEnded(last, next *lastLook, between time.Duration) {
	done := map[string]int{}
	for name, n := range next.done {
		if before, known := last.done[name]; known && n > before {
			done[name] = int(min(n-before, MaxRecent))
		}
	}
	if len(done) == 1 && next.executed > last.executed {
		for name, n := range done {
			all := next.done[name] - last.done[name]
			m.category(name).observe((next.executed-last.executed)/time.Duration(all), n)
		}
		return
	}
	vanished := map[string][]time.Duration{}
	for id, t := range last.running {
		if _, listed := next.running[id]; !listed && t.since != waits {
			vanished[t.category] = append(vanished[t.category], t.since+between/2)
		}
	}
	for name, n := range done {
		took := vanished[name]
		slices.Sort(took) // whatever the order of a map
		for i := range n {
			if i < len(took) {
				m.category(name).observe(took[i], 1)
			} else {
				m.category(name).observe(between/2, 1)
			}
		}
	}
}

// observe notes that n tasks have ended after so long each.
//
// Where the last [sameAgain] all took over twice or under half of the mean of those before,
// the tasks have become others: those before are forgotten.
func (c *Category) observe(took time.Duration, n int) {
	for range n {
		c.Recent = append(c.Recent, min(max(time.Millisecond, took), longestRuntime))
		c.Ended++
		if k := len(c.Recent) - sameAgain; k >= sameAgain && becameOthers(c.Recent[:k], c.Recent[k:]) {
			c.Recent = c.Recent[k:]
			c.Relearned++
		}
		if len(c.Recent) > MaxRecent {
			c.Recent = c.Recent[1:]
		}
	}
}

// longestRuntime is more than any task runs; sums of such do not overflow.
const longestRuntime = 365 * 24 * time.Hour

// sameAgain is how many runtimes in a row make a change.
const sameAgain = 3

func becameOthers(before, after []time.Duration) bool {
	old := Category{Recent: before}
	mean := old.Mean()
	longer, shorter := true, true
	for _, d := range after {
		longer = longer && d/2 > mean
		shorter = shorter && d < mean/2
	}
	return longer || shorter
}

// expect returns how long a task of the category runs of which one has run for so long.
func (c *Category) expect(ran time.Duration) time.Duration {
	if c == nil || len(c.Recent) == 0 {
		return estimate.Unknown
	}
	var r estimate.Runtimes
	for _, d := range c.Recent {
		r.Observe(d)
	}
	return r.Expect(ran)
}

// learnNeeds notes what a task of each category occupies at most, by what is listed now.
func (m *Memory) learnNeeds(needs map[string]need) {
	for name, n := range needs {
		c := m.category(name)
		c.Need, c.Source = n.Resources, n.source
	}
}
