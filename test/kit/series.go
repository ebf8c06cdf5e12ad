package kit

import (
	"flag"
	"fmt"
	"sync"
	"testing"
)

// Series calls run with 1, 2, 3 and so on, atOnce of them concurrently, until a call reports that it did not
// reach its number. It returns the least such number, or 0 if the test has failed before.
func Series(t *testing.T, atOnce int, run func(n int64) (reached bool)) int64 {
	t.Helper()
	var mu sync.Mutex
	var next, end int64
	take := func() (n int64, more bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next, end == 0 && !t.Failed()
	}
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for n, more := take(); more; n, more = take() {
				if run(n) {
					continue
				}
				mu.Lock()
				if end == 0 || n < end {
					end = n
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return end
}

// killBefore has [KillAtEveryWrite] try twice as many runs: make test-thorough sets it.
var killBefore = flag.Bool("kill-before", false, "kill programs also just before each write, which leaves the same objects as just after the write before it")

// KillAtEveryWrite runs subtests for every write of a program, in which the program's connection breaks
// permanently just after this write; with -kill-before, in another run also just before it. It ends when a run has
// no such write, and returns the number of writes. Each run gets a unique name, valid for a namespace, and
// the connection to cut.
func KillAtEveryWrite(t *testing.T, atOnce int, run func(t *testing.T, name string, c *Cut)) int64 {
	t.Helper()
	end := killEach(t, "after", atOnce, run)
	if *killBefore {
		killEach(t, "before", atOnce, run)
	}
	return end - 1
}

// killEach breaks the connection before or after each write, and returns the number of the first write that no run
// had.
func killEach(t *testing.T, when string, atOnce int, run func(t *testing.T, name string, c *Cut)) int64 {
	t.Helper()
	return Series(t, atOnce, func(at int64) bool {
		c := NewCut(at, when == "after")
		t.Run(fmt.Sprintf("%s write %d", when, at), func(t *testing.T) {
			run(t, fmt.Sprintf("kill-%s-%d", when, at), c)
			if c.Broken() {
				t.Logf("killed %s: %s", when, c.What)
			}
		})
		return c.Broken()
	})
}
