package kit

import (
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

// KillAtEveryWrite runs subtests for every write of a program, in which the program's connection breaks
// permanently at this write: in one run just before it, and in another just after it. It ends when a run has
// no such write, and returns the number of writes. Each run gets a unique name, valid for a namespace, and
// the connection to cut.
func KillAtEveryWrite(t *testing.T, atOnce int, run func(t *testing.T, name string, c *Cut)) int64 {
	t.Helper()
	end := Series(t, atOnce, func(n int64) bool {
		at, sent := (n+1)/2, n%2 == 0
		when := map[bool]string{false: "before", true: "after"}[sent]
		c := NewCut(at, sent)
		t.Run(fmt.Sprintf("%s write %d", when, at), func(t *testing.T) {
			run(t, fmt.Sprintf("kill-%s-%d", when, at), c)
			if c.Broken() {
				t.Logf("killed %s: %s", when, c.What)
			}
		})
		return c.Broken()
	})
	return (end - 1) / 2
}
