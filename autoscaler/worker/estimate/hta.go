package estimate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/text/plural"
)

// HTA implements algorithm 1 of the paper. It decides on the state at the end of one initialisation time: if tasks
// still wait, it adds workers that hold all of them concurrently, even if other workers have fragments free; if nothing
// waits, it drains the workers that are idle by then; otherwise it does nothing. The paper scales down exactly while
// tasks wait that do not fit, and not at all once the queue is empty: its lines 19 and 22 are swapped here.
//
// A worker that takes a task from the queue within the window is not drained, even if it is idle at the end, because
// draining would take that task from it. The number of workers stays within Min and Max, including starting workers but
// not draining ones.
//
// Recheck is one initialisation time after adding, the end of the longest running task after draining, and otherwise
// one cycle. Within one initialisation time of a resize there is no other one: requested workers may still be starting,
// even if Workers shows none of them.
//
// It fails on invalid limits or an invalid state, and then returns no plan.
func HTA(c Pool, s State, now time.Time) (Plan, error) {
	if err := check(c, s); err != nil {
		return Plan{}, err
	}
	o := Foresee(s, c.InitTime)
	p := outset(c, s, o)
	wanted, _ := Require(o.Waiting, c.Worker, c.room(s)+1)
	p.Limited = wanted > c.room(s)
	switch wait := settling(c, s, now); {
	case wait > 0:
		p.Recheck = wait
		p.settle(c)
	case s.serving() < c.Min || s.serving() > c.Max:
		p.restore(c, s)
	case p.Waiting > 0:
		p.add(c, s, wanted)
	default:
		p.drain(c, s, idleThen(s, o))
		if len(p.Drain) > 0 {
			p.Recheck = cmp.Or(longest(s), c.InitTime)
		}
	}
	return p, nil
}

func check(c Pool, s State) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("limits of the pool: %w", err)
	}
	if err := s.Validate(); err != nil {
		return fmt.Errorf("state of the pool: %w", err)
	}
	return nil
}

// outset returns a plan to do nothing, with what is foreseen.
func outset(c Pool, s State, o Outlook) (p Plan) {
	p.Recheck, p.Waiting, p.Uncounted = c.Cycle, countOf(o.Waiting), s.Uncounted
	for i := range o.Waiting {
		if b := &o.Waiting[i]; !b.Need.Fits(c.Worker) && !slices.Contains(p.Unplaceable, b.Category) {
			p.Unplaceable = append(p.Unplaceable, b.Category)
		}
	}
	p.Reason = p.prospects()
	return p
}

// countOf returns the number of tasks.
func countOf(waiting []Batch) (n int) {
	for i := range waiting {
		n += waiting[i].Count
	}
	return n
}

// room returns how many workers may be added.
func (c Pool) room(s State) int { return max(0, c.Max-s.serving()) }

// prospects describes the queue at the end of the window.
func (p *Plan) prospects() string {
	tasks, which := "no tasks", ""
	if p.Waiting > 0 {
		tasks = plural.Count(p.Waiting, "task")
	}
	if p.Uncounted > 0 {
		which = plural.Form(p.Waiting, " that justifies workers", " that justify workers")
	}
	return fmt.Sprintf("%s%s %s at the end of the window", tasks, which, plural.Form(p.Waiting, "waits", "wait"))
}

// settle gives the reason why the pool is not resized yet. Where a pool only observes, its last decision has resized
// nothing.
func (p *Plan) settle(c Pool) {
	p.Reason = fmt.Sprintf("less than one initialisation time (%v) has passed since the last decision to resize; %s", c.InitTime.Round(time.Second/10), p.prospects())
}

// settling returns the time until the next resize is allowed. A resize in the future means that the clock was set back;
// it counts as now.
func settling(c Pool, s State, now time.Time) time.Duration {
	if s.Resized.IsZero() {
		return 0
	}
	return c.InitTime - max(0, now.Sub(s.Resized))
}

// restore brings a pool back within its limits, if these have changed or workers were lost. It drains the workers that
// are idle soonest, ties from the end of the order.
func (p *Plan) restore(c Pool, s State) {
	if missing := c.Min - s.serving(); missing > 0 {
		p.Add = missing
		p.Recheck = c.InitTime
		p.Reason = fmt.Sprintf("the pool has %s, fewer than its minimum of %d", plural.Count(s.serving()-c.Foreign, "worker"), c.Min-c.Foreign)
		return
	}
	var serving []int
	for i := range slices.Backward(s.Workers) {
		if !s.Workers[i].Draining {
			serving = append(serving, i)
		}
	}
	slices.SortStableFunc(serving, func(a, b int) int { return cmp.Compare(s.Workers[a].busy(), s.Workers[b].busy()) })
	for _, i := range serving[:s.serving()-c.Max] {
		p.Drain = append(p.Drain, s.Workers[i].Name)
	}
	p.Reason = fmt.Sprintf("the pool has %s, more than its maximum of %d", plural.Count(s.serving()-c.Foreign, "worker"), c.Max-c.Foreign)
}

// add adds the wanted workers, as many as may be added.
func (p *Plan) add(c Pool, s State, wanted int) {
	room := c.room(s)
	p.Add = min(wanted, room)
	unplaceable := strings.Join(p.Unplaceable, ", ")
	switch {
	case wanted == 0:
		p.Reason = fmt.Sprintf("%s, but no new worker can hold %s: %s", p.prospects(), plural.Form(p.Waiting, "it", "any of them"), unplaceable)
		return
	case p.Add == 0:
		p.Reason = fmt.Sprintf("%s, but the pool has its maximum of %s", p.prospects(), plural.Count(c.Max-c.Foreign, "worker"))
		return
	}
	p.Recheck = c.InitTime
	p.Reason = fmt.Sprintf("%s: %s for %s", p.prospects(), plural.Count(p.Add, "worker"), plural.Form(p.Waiting, "it", "them"))
	if p.Add == room {
		p.Reason += fmt.Sprintf(", which reaches the maximum of %d", c.Max-c.Foreign)
	}
	if unplaceable != "" {
		p.Reason += "; some fit no new worker: " + unplaceable
	}
}

// drain drains the workers down to the minimum, from the end of the order, because tasks look for room from the start.
func (p *Plan) drain(c Pool, s State, names []string) {
	most := s.serving() - c.Min
	if most <= 0 || len(names) == 0 {
		return
	}
	idle := len(names)
	names = names[max(0, idle-most):]
	p.Drain = slices.Clone(names)
	p.Reason = fmt.Sprintf("%s, and %s idle by then without a task from the queue", p.prospects(), plural.Form(idle, "1 worker is", fmt.Sprintf("%d workers are", idle)))
	if len(names) < idle {
		p.Reason += fmt.Sprintf("; the minimum is %d", c.Min-c.Foreign)
	}
}

// idleThen returns the workers that run nothing at the end of a window and took nothing from the queue within it.
func idleThen(s State, o Outlook) []string {
	var names []string
	for i, p := range o.Workers {
		if w := &s.Workers[i]; !w.Draining && p.Idle && p.Took == 0 {
			names = append(names, w.Name)
		}
	}
	return names
}

// longest returns when the last running task with a known runtime ends, from now.
func longest(s State) time.Duration {
	var last time.Duration
	for i := range s.Workers {
		for _, r := range s.Workers[i].Running {
			if r.Left != Unknown {
				last = max(last, r.Left)
			}
		}
	}
	return last
}

// busy returns when the last task of the worker ends, from now.
func (w *Worker) busy() time.Duration {
	var last time.Duration
	for _, r := range w.Running {
		last = max(last, r.Left)
	}
	return last
}
