package halfempty

import (
	"sync"
	"time"
)

// Clock is the clock of a measured program. It runs with that of the computer while the program computes, it is
// stopped while the world is changed, and it is put forward over the time for which the program waits. It is safe for
// concurrent use.
type Clock struct {
	mu     sync.Mutex
	began  time.Time
	offset time.Duration
	still  time.Time // the time at which it is stopped; zero if it runs
	run    func() time.Time
}

// NewClock returns a clock that runs, at the time of the computer. A processor clock runs with the processor time of the
// process, which other processes do not prolong; that of several threads counts as if they ran one after another.
func NewClock(processor bool) *Clock {
	c := &Clock{began: time.Now(), run: time.Now}
	if processor {
		began, since := c.began, Used()
		c.run = func() time.Time { return began.Add(Used() - since) }
	}
	return c
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time {
	if !c.still.IsZero() {
		return c.still
	}
	return c.run().Add(c.offset)
}

// Since returns the time that has passed on the clock.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Elapsed returns the time that has passed on the clock since its start.
func (c *Clock) Elapsed() time.Duration { return c.Since(c.began) }

// Advance puts the clock forward.
func (c *Clock) Advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += by
	if !c.still.IsZero() {
		c.still = c.still.Add(by)
	}
}

// Restart makes the present the start of the clock.
func (c *Clock) Restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = c.now()
}

// Stop stops the clock until the returned function is called.
func (c *Clock) Stop() (run func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.still = c.now()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.offset = c.still.Sub(c.run())
		c.still = time.Time{}
	}
}
