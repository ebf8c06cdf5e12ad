package workerdecide

import (
	"maps"
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

// learnRuntimes learns from tasks that have ended since the last reading.
//
// A manager does not list tasks that have ended. If all of them are of one category, their mean runtime is the growth
// of the manager's total execution time divided by their number: exact, however rarely the manager is queried.
// Otherwise, a task that ran before and is no longer listed is assumed to have ended in the middle of the interval, and
// a task that was never seen running is assumed to have taken half of the interval. A task that is back in the queue
// was lost and is no sample. Neither is a task whose category has no more tasks done than before, because it failed or
// was cancelled.
func (m *Memory) learnRuntimes(r *Reading, now time.Time) {
	last, next := m.last, readingAt(r, now)
	if between := now.Sub(last.at); !last.at.IsZero() && between > 0 {
		m.learnEnded(last, next, r.Tasks, between)
	}
	m.last = next
}

func readingAt(r *Reading, now time.Time) lastReading {
	l := lastReading{at: now, executed: r.Queue.ExecutedGood, done: map[string]int64{}, running: map[int64]ran{}}
	for _, c := range countedWithTime(r) {
		l.done[c.Name] = c.Done
	}
	for i := range r.Tasks {
		if t := &r.Tasks[i]; runs(t) {
			l.running[t.ID] = ran{category: t.Category, since: max(0, t.Now.Sub(t.Started))}
		}
	}
	return l
}

// countedWithTime returns the categories as the manager counted them when it summed the execution time: those in the
// queue's own answer. Tasks may have ended before it answers the query for categories; those answers serve only if the
// queue's answer lists none.
func countedWithTime(r *Reading) []answer.Category {
	if len(r.Queue.Categories) > 0 {
		return r.Queue.Categories
	}
	return r.Categories
}

func runs(t *answer.Task) bool { return t.State == answer.Running && !t.Started.IsZero() }

func (m *Memory) learnEnded(last, next lastReading, listed []answer.Task, between time.Duration) {
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
	vanished := gone(last.running, listed, between)
	for name, n := range done {
		took := vanished[name]
		slices.Sort(took) // map order is random
		for i := range n {
			if i < len(took) {
				m.category(name).observe(took[i], 1)
			} else {
				m.category(name).observe(between/2, 1)
			}
		}
	}
}

// gone returns, by category, the assumed runtimes of tasks that ran before and neither run nor wait now.
func gone(ran map[int64]ran, listed []answer.Task, between time.Duration) map[string][]time.Duration {
	left := maps.Clone(ran)
	for i := range listed {
		if t := &listed[i]; t.State == answer.Waiting || runs(t) {
			delete(left, t.ID)
		}
	}
	took := map[string][]time.Duration{}
	for _, t := range left {
		took[t.category] = append(took[t.category], t.since+between/2)
	}
	return took
}

// observe adds n tasks that have each run for took.
//
// If the last [sameAgain] runtimes are all above twice or below half of the mean of those before, the tasks have
// changed: the earlier ones are discarded.
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

// longestRuntime exceeds the runtime of any task; sums of such runtimes do not overflow.
const longestRuntime = 365 * 24 * time.Hour

// sameAgain is the number of consecutive runtimes that indicate a change.
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

// expect returns the expected runtime of a task of the category, given that one of them has run for ran.
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

// learnNeeds stores the greatest need of the listed tasks of each category, and the greatest use by a finished task
// that the manager's monitor has measured.
func (m *Memory) learnNeeds(kinds kinds, categories []answer.Category) {
	for name, k := range kinds {
		if k.need.source != "" {
			c := m.category(name)
			c.Need, c.Source = k.need.Resources, k.need.source
		}
	}
	for i := range categories {
		c := m.lookup(categories[i].Name)
		if used := categories[i].Measured(); c != nil && stated(used) {
			c.Used = amounts(used)
		}
	}
}
