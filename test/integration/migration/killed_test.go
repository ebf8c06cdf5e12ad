package migration

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/test/kit"
)

// The descheduler is killed just after its first write, after its second, and so on, until a run has no such write. A
// new one must then reach the same result as an undisturbed one.
func TestWhereverItIsKilledTheJobSeesNothingOfTheMove(t *testing.T) {
	t.Parallel()
	const atOnce = 3 // runs that wait most of the time
	n := kit.KillAtEveryWrite(t, atOnce, func(t *testing.T, name string, c *kit.Cut) { newBench(t, name, 2).killedOnce(c) })
	if n < 10 || n > 40 {
		t.Errorf("the run without a descheduler killed has %d writes", n)
	}
}

// killedOnce moves a pod with a descheduler whose connection may be cut, and then with a new one.
func (b *bench) killedOnce(c *kit.Cut) {
	b.Helper()
	b.job(1, batchv1.IndexedCompletion)
	b.StartAfterCut("the descheduler", c, b.Start(b.descheduler(func(o *app.Options) { o.Config.Wrap(c.Wrap) })), func() { b.deschedule() })
	old := b.Pods()[0]
	b.move(old.Name)
	m := b.ends("move-"+old.Name, v1alpha1.MigrationSucceeded)
	b.took(&old, m)
	b.healthy("work", 1)
}
