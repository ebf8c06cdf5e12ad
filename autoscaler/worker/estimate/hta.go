package estimate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
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
	p, wanted := outset(c, s, o)
	switch wait := settling(c, s, now); {
	case wait > 0:
		p.Recheck = wait
		p.Reason = fmt.Sprintf("last resized less than one initialisation time (%v) ago; %s", c.InitTime, p.prospects())
	case s.serving() < c.Min || s.serving() > c.Max:
		p.restore(c, s)
	case p.Waiting > 0:
		p.add(c, s, wanted)
	default:
		p.drain(idleThen(s, o), s.serving()-c.Min)
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

// outset returns a plan to do nothing, with what is foreseen, and the number of workers that would hold all waiting
// tasks.
func outset(c Pool, s State, o Outlook) (p Plan, wanted int) {
	p.Recheck = c.Cycle
	for i := range o.Waiting {
		p.Waiting += o.Waiting[i].Count
	}
	wanted, p.Unplaceable = Require(o.Waiting, c.Worker, max(0, c.Max-s.serving()))
	p.Reason = p.prospects()
	return p, wanted
}

func (p *Plan) prospects() string {
	if p.Waiting == 0 {
		return "no tasks wait at the end of the window"
	}
	return fmt.Sprintf("%d tasks wait at the end of the window", p.Waiting)
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
		p.Reason = fmt.Sprintf("%d workers are below the minimum of %d", s.serving(), c.Min)
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
	p.Reason = fmt.Sprintf("%d workers are above the maximum of %d", s.serving(), c.Max)
}

// add adds the wanted workers, if any.
func (p *Plan) add(c Pool, s State, wanted int) {
	room := max(0, c.Max-s.serving())
	switch {
	case wanted > 0:
		p.Add = wanted
		p.Recheck = c.InitTime
		p.Reason = fmt.Sprintf("%s: %d workers for them", p.prospects(), p.Add)
		if p.Add == room {
			p.Reason += fmt.Sprintf(", which reaches the maximum of %d", c.Max)
		}
	case room == 0:
		p.Reason = fmt.Sprintf("%s, but the pool has its maximum of %d workers", p.prospects(), c.Max)
	default:
		p.Reason = fmt.Sprintf("%s, but no worker can hold any of them: %s", p.prospects(), strings.Join(p.Unplaceable, ", "))
	}
}

// drain drains up to most workers, from the end of the order, because tasks look for room from the start.
func (p *Plan) drain(names []string, most int) {
	if most <= 0 || len(names) == 0 {
		return
	}
	if len(names) > most {
		names = names[len(names)-most:]
	}
	p.Drain = slices.Clone(names)
	p.Reason = fmt.Sprintf("%s, and %d workers are idle by then and took no task", p.prospects(), len(names))
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
