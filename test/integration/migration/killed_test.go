//go:build migration

package migration

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/test/kit"
)

// The descheduler is killed at its first write, at its second, and so on until a run has
// no such write any more; just before the write and just after it. Each time a fresh one
// must end where an undisturbed one does.
func TestWhereverItIsKilledTheJobSeesNothingOfTheMove(t *testing.T) {
	t.Parallel()
	const atOnce = 3 // runs, which wait for most of their time
	var next, last atomic.Int64
	var all sync.WaitGroup
	last.Store(math.MaxInt64)
	for range atOnce {
		all.Go(func() {
			for !t.Failed() {
				run := next.Add(1) - 1
				at, sent := run/2+1, run%2 == 1
				if at > last.Load() {
					return
				}
				name := map[bool]string{false: "before", true: "after"}[sent]
				t.Run(fmt.Sprintf("%s write %d", name, at), func(t *testing.T) {
					c := kit.NewCut(at, sent)
					b := newBench(t, fmt.Sprintf("kill-%s-%d", name, at), 2)
					b.killedOnce(c)
					if !c.Broken() {
						last.Store(at) // this is how many there are
					}
					t.Logf("killed %s: %s", name, c.What)
				})
			}
		})
	}
	all.Wait()
	if n := last.Load(); n < 10 || n > 40 {
		t.Errorf("the run without a descheduler killed has %d writes", n)
	}
}

// killedOnce moves a pod by a descheduler whose connection may be cut, and by a fresh one
// then.
func (b *bench) killedOnce(c *kit.Cut) {
	b.Helper()
	b.job(1, batchv1.IndexedCompletion)
	stop, failed := b.startDescheduler(func(o *app.Options) { o.Config.Wrap(c.Wrap) })
	b.Cleanup(func() {
		if stop(); !c.Broken() && failed() != nil {
			b.Errorf("the descheduler: %v", failed())
		}
	})
	b.meanwhile = func() {
		if c.Broken() {
			b.meanwhile = func() {}
			stop()
			b.log.Logger(b.name).Info("cut", "what", c.What)
			b.deschedule()
		}
	}
	old := b.pods()[0]
	b.move(old.Name)
	m := b.ends("move-"+old.Name, v1alpha1.MigrationSucceeded)
	b.took(&old, m)
	b.healthy("work", 1)
}
