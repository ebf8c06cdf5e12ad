package estimate

import (
	"testing"
	"time"

	"supercargo.dev/supercargo/test/kit/sentences"
)

// TestEachReasonOfAPlanIsSaidWhereItIsTrueAndNotWhereItIsNot has all sentences of the laws.
func TestEachReasonOfAPlanIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	say := func(law func(Pool, State, time.Time) (Plan, error), s State, change ...func(*Pool)) string {
		c := limits
		for _, f := range change {
			f(&c)
		}
		p, err := law(c, s, noon)
		if err != nil {
			t.Fatal(err)
		}
		return p.Reason
	}
	most := func(n int) func(*Pool) { return func(c *Pool) { c.Max = n } }
	least := func(n int) func(*Pool) { return func(c *Pool) { c.Min = n } }
	huge := Batch{Category: "huge", Need: Resources{MilliCores: 4000}, Runtime: time.Hour, Count: 1}
	waits := func(n int) State { return pool(0, 0, tasks(9+n, time.Hour)) }
	one, two := say(HTA, waits(1)), say(HTA, waits(2))
	uncounted := func(s State) State { s.Uncounted = 3; return s }
	oneOfMany, twoOfMany, noneOfMany := say(HTA, uncounted(waits(1))), say(HTA, uncounted(waits(2))), say(HTA, uncounted(pool(9, Unknown)))
	resized := func(ago time.Duration) string {
		s := waits(2)
		s.Resized = noon.Add(-ago)
		return say(HTA, s)
	}
	last := nine(0, Unknown)
	last.Workers[2].Running = nil
	idle, oneIdle, busy := say(HTA, pool(3, 300*time.Second)), say(HTA, last), say(HTA, nine(0, Unknown))
	kept := say(HTA, pool(3, 300*time.Second), least(2))
	full, tooLarge, fullAndTooLarge := say(HTA, waits(2), most(3)), say(HTA, pool(0, 0, huge)), say(HTA, pool(0, 0, huge), most(3))
	unmeasured, long := say(Supercargo, nine(12*time.Second, Unknown, tasks(9, Unknown))), say(Supercargo, nine(20*time.Second, Unknown, tasks(9, Unknown)))
	sentences.Check(t, []string{"hta.go", "supercargo.go"}, []sentences.Case{
		{"no tasks", idle, one},
		{"%s%s %s at the end of the window", one, unmeasured},
		{" that justifies workers", oneOfMany, one},
		{" that justify workers", noneOfMany, oneOfMany},
		{"less than one initialisation time (%v) has passed since the last decision to resize; %s", resized(limits.InitTime - time.Second), resized(limits.InitTime)},
		{"the pool has %s, fewer than its minimum of %d", say(HTA, pool(0, 0), least(4)), say(HTA, pool(0, 0), least(3))},
		{"the pool has %s, more than its maximum of %d", say(HTA, pool(0, 0), most(2)), say(HTA, pool(0, 0), most(3))},
		{"%s, but no new worker can hold %s: %s", fullAndTooLarge, full},
		{"any of them", say(HTA, pool(0, 0, huge, huge)), tooLarge},
		{"%s, but the pool has its maximum of %s", full, fullAndTooLarge},
		{", which reaches the maximum of %d", say(HTA, waits(2), most(4)), say(HTA, waits(2), most(5))},
		{"; some fit no new worker: ", say(HTA, pool(0, 0, tasks(10, time.Hour), huge)), one},
		{"%s, and %s idle by then without a task from the queue", idle, busy},
		{"1 worker is", oneIdle, idle},
		{"%d workers are", idle, oneIdle},
		{"; the minimum is %d", kept, idle},
		{"tasks of unmeasured categories are waiting: short ones finish within %v", unmeasured, long},
	}, nil)
	if twoOfMany != "2 tasks that justify workers wait at the end of the window: 1 worker for them" || two != "2 tasks wait at the end of the window: 1 worker for them" || one != "1 task waits at the end of the window: 1 worker for it" {
		t.Errorf("it says %q, %q and %q", twoOfMany, two, one)
	}
}
