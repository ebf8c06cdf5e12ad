package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
)

// TestAMoveReachesItsEndAlthoughAgentsStartAgain at each point of it: they know only what is on their
// disk.
func TestAMoveReachesItsEndAlthoughAgentsStartAgain(t *testing.T) {
	for name, which := range map[string]func(*cluster) []*node{
		"the source": func(c *cluster) []*node { return []*node{c.from} },
		"the target": func(c *cluster) []*node { return []*node{c.to} },
		"both":       func(c *cluster) []*node { return []*node{c.from, c.to} },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, nil)
			m := c.move(t, nil)
			for _, order := range []v1alpha1.MigrationOrder{v1alpha1.OrderPrepare, v1alpha1.OrderFreeze, v1alpha1.OrderKill, v1alpha1.OrderClean} {
				m.carryOut(order)
				for _, n := range which(c) {
					c.start(t, n)
				}
				c.settled(t)
			}
			m.wantSteps(v1alpha1.SourceCleaned, v1alpha1.TargetCleaned)
			m.wantContainer(checkpoint.Gone)
			m.wantNothingLeft()
		})
	}
}

// TestAnAgentThatWasKilledContinues where it was: its last action may be done, and not recorded.
func TestAnAgentThatWasKilledContinues(t *testing.T) {
	for _, method := range []string{"Freeze", "Dump", "Archive"} {
		t.Run(method, func(t *testing.T) {
			c := newCluster(t, nil)
			m := c.move(t, nil)
			freezeUntil(t, m, c.from.backend.blocks(method))
			m.interrupt()
			if method == "Freeze" {
				if err := c.from.backend.Backend.Freeze(t.Context(), m.container()); err != nil {
					t.Fatal(err)
				}
			}
			c.start(t, c.from)
			c.settled(t)
			m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
			m.wantContainer(checkpoint.Frozen)
			if s := m.migration().Status.Source; s.FrozenAt == nil {
				t.Error("the report does not say since when the container is frozen")
			}
		})
	}
}

// TestALedgerThatWasLostIsReported: the container continues on Thaw anyway.
func TestALedgerThatWasLostIsReported(t *testing.T) {
	const message = "the agent's ledger was lost"
	for _, method := range []string{"Dump", "Archive"} {
		t.Run(method, func(t *testing.T) {
			c := newCluster(t, nil)
			m := c.move(t, nil)
			freezeUntil(t, m, c.from.backend.blocks(method))
			m.interrupt()
			removeLedger(t, m)
			c.start(t, c.from)
			c.settled(t)
			m.wantFailure(ledger.SourceRole, "DumpLost", message)
			m.wantContainer(checkpoint.Frozen)
			m.carryOut(v1alpha1.OrderThaw)
			m.wantContainer(checkpoint.Running)
		})
	}
}

// TestADumpThatIsVoidIsTakenAgain: the agent before let the container continue and recorded that.
func TestADumpThatIsVoidIsTakenAgain(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	freezeUntil(t, m, c.from.backend.blocks("Archive"))
	m.interrupt()
	entry, _ := m.entry(ledger.SourceRole)
	entry.Stage = terms.Freezing
	if err := c.from.ledger.Put(entry); err != nil {
		t.Fatal(err)
	}
	c.from.backend.on("Archive", nil)
	c.settled(t)
	m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
	if want := []string{"Inspect", "Freeze", "Dump", "Archive", "Dump", "Archive"}; !slices.Equal(c.from.backend.calls(), want) {
		t.Errorf("the source did %v, want %v", c.from.backend.calls(), want)
	}
}

// TestAnAgentThatEndsLetsAContainerContinue if the target cannot have its state. The next agent
// freezes it again and completes the move.
func TestAnAgentThatEndsLetsAContainerContinue(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	freezeUntil(t, m, c.from.backend.blocks("Archive"))
	m.interrupt()
	c.from.release(t.Context())
	m.wantContainer(checkpoint.Running)
	entry, _ := m.entry(ledger.SourceRole)
	if entry.Stage != terms.Freezing || !entry.ThawedAt.Equal(noon) {
		t.Errorf("the ledger says %+v", entry)
	}

	c.start(t, c.from)
	c.settled(t)
	m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
	m.wantContainer(checkpoint.Frozen)
	if want := []string{"Freeze", "Dump", "Archive"}; !slices.Equal(c.from.backend.calls(), want) {
		t.Errorf("the next agent did %v, want %v", c.from.backend.calls(), want)
	}
	c.from.release(t.Context())
	m.wantContainer(checkpoint.Frozen) // its copy may run
}

// TestAContainerStaysFrozenIfItsAgentCannotThawIt at its end, and the next agent does.
func TestAContainerStaysFrozenIfItsAgentCannotThawIt(t *testing.T) {
	for name, fail := range map[string]func(*testing.T, *moving){
		"its back-end fails": func(_ *testing.T, m *moving) { m.from.backend.fails("Thaw", errors.New("the runtime is down")) },
		"its ledger fails":   removeLedger,
		"its state is unknown": func(t *testing.T, m *moving) {
			dir := filepath.Join(m.from.StateDir, "simulated", "killed")
			if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, nil)
			m := c.move(t, nil)
			freezeUntil(t, m, c.from.backend.blocks("Archive"))
			m.interrupt()
			fail(t, m)
			c.from.release(t.Context())
			if frozen, err := filepath.Glob(filepath.Join(c.from.StateDir, "simulated", "frozen", "*")); err != nil || len(frozen) != 1 {
				t.Errorf("the frozen containers are %v (%v)", frozen, err)
			}
		})
	}
}

// TestATargetThatListensElsewhereSaysSo before the source sends.
func TestATargetThatListensElsewhereSaysSo(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	before := m.migration().Status.Target.Address
	c.start(t, c.to)
	m.carryOut(v1alpha1.OrderFreeze)
	if after := m.migration().Status.Target.Address; after == before || after != "127.0.0.1:"+c.to.port {
		t.Errorf("the target reports %s, before it was %s", after, before)
	}
	m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
}

// TestAnAgentWithoutTheAPIServerDoesNothingElse than what needs no order.
func TestAnAgentWithoutTheAPIServerDoesNothingElse(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	m.carryOut(v1alpha1.OrderFreeze)
	before := c.snapshot(t)
	c.away = errors.New("away")
	c.start(t, c.from)
	if err := c.settle(t); !errors.Is(err, c.away) {
		t.Errorf("error %v", err)
	}
	c.away = nil
	m.wantContainer(checkpoint.Frozen)
	c.settled(t)
	m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
	if len(c.from.backend.calls()) > 0 {
		t.Errorf("the source did %v since %s", c.from.backend.calls(), before)
	}
}

// TestLeftoversWithoutAnEntryAreRemoved and nothing else.
func TestLeftoversWithoutAnEntryAreRemoved(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	m.carryOut(v1alpha1.OrderFreeze)
	orphan := string(uidOf(7))
	for _, name := range []string{orphan, "data", "0f0e0d0c"} {
		if err := os.MkdirAll(filepath.Join(c.from.WorkDir, name, "inside"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(c.from.WorkDir, string(uidOf(8))), nil, 0o600); err != nil { // no folder
		t.Fatal(err)
	}
	if err := c.from.sweepOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(c.from.WorkDir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, entry := range left {
		names = append(names, entry.Name())
	}
	if want := []string{"0f0e0d0c", m.uid, string(uidOf(8)), "data"}; !slices.Equal(names, want) {
		t.Errorf("left are %q, want %q", names, want)
	}
	if err := os.RemoveAll(c.from.WorkDir); err != nil {
		t.Fatal(err)
	}
	if err := c.from.sweepOnce(t.Context()); err == nil {
		t.Error("no error without a work folder")
	}
}

// sweeping is a back-end that removes leftovers.
type sweeping struct {
	*scripted
	known func(string) bool
	err   error
}

func (s *sweeping) Sweep(_ context.Context, known func(string) bool) error {
	s.known = known
	return s.err
}

// TestBackEndsRemoveTheirLeftovers of Migrations that are not in the ledger.
func TestBackEndsRemoveTheirLeftovers(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	s := &sweeping{scripted: c.to.backend}
	c.to.backends = map[v1alpha1.MigrationBackend]checkpoint.Backend{v1alpha1.BackendSimulated: {Target: s}}
	if err := c.to.sweepOnce(t.Context()); err != nil || !s.known(m.uid) || s.known("other") {
		t.Errorf("it is told %v of its migration and %v of another, error %v", s.known(m.uid), s.known("other"), err)
	}
	s.err = errors.New("no rights")
	if err := c.to.sweepOnce(t.Context()); !errors.Is(err, s.err) {
		t.Errorf("error %v, want %v", err, s.err)
	}
}

func TestAQueuedMigrationIsReconciledAgainAfterAnError(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, func(*corev1.Pod, *v1alpha1.Migration) {})
	c.away = errors.New("away")
	c.from.queue.Add(m.key)
	if !c.from.next(t.Context()) || c.from.queue.NumRequeues(m.key) != 1 {
		t.Errorf("it is queued again %d times after an error, want once", c.from.queue.NumRequeues(m.key))
	}
	c.away = nil
	c.clock.step(time.Second)
	if !c.from.next(t.Context()) { // after its back-off
		t.Error("the queue has ended")
	}
	c.from.rest()
	for m.migration().Status.Source == nil {
		if !c.from.next(t.Context()) {
			t.Fatal("the queue has ended")
		}
	}
	if c.from.queue.NumRequeues(m.key) != 0 {
		t.Error("its back-off continues to grow")
	}
	c.from.queue.ShutDown()
	for c.from.next(t.Context()) { // what is queued still
	}
}

// TestMigrationsAreReconciledAgainWithoutAnUpdate periodically, since containers end without one, and when a node joins a
// simulation that reports its Migrations.
func TestMigrationsAreReconciledAgainWithoutAnUpdate(t *testing.T) {
	joins := func(t *testing.T, n *node) {
		n.nodes.see(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "late"}})
	}
	for name, tc := range map[string]struct {
		change func(*Config)
		happen func(*testing.T, *node)
	}{
		"each interval": {func(c *Config) { c.Resync = time.Millisecond }, func(t *testing.T, n *node) {
			go func() { _ = n.resync(t.Context()) }()
		}},
		"when a node joins": {func(c *Config) { c.Simulation = &Simulation{Selector: labels.Everything()} }, joins},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, nil)
			m := c.move(t, nil)
			m.carryOut(v1alpha1.OrderPrepare)
			tc.change(&c.from.Config)
			tc.happen(t, c.from)
			ended := time.AfterFunc(30*time.Second, c.from.queue.ShutDown)
			defer ended.Stop()
			if key, closed := c.from.queue.Get(); closed || key != m.key {
				t.Errorf("%v is reconciled, want %v", key, m.key)
			}
		})
	}
}

// TestADumpThatAnotherAgentBeganIsEnded: it may hang, and holds the container then.
func TestADumpThatAnotherAgentBeganIsEnded(t *testing.T) {
	c := newCluster(t, nil)
	m, later := c.move(t, nil), c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	later.carryOut(v1alpha1.OrderPrepare)
	freezeUntil(t, m, c.from.backend.blocks("Dump"))
	m.interrupt()
	c.start(t, c.from)
	c.from.endDumps(t.Context())
	if got := c.from.backend.interrupted; !slices.Equal(got, []string{m.uid}) {
		t.Errorf("the dumps of %v are ended, want that of %s", got, m.uid)
	}
}

// TestNothingContinuesAndNothingIsRemovedBesideADump: CRIU may hold the container although nothing has frozen it.
func TestNothingContinuesAndNothingIsRemovedBesideADump(t *testing.T) {
	for name, tc := range map[string]struct {
		order v1alpha1.MigrationOrder
		never string
	}{
		"killed": {v1alpha1.OrderKill, "Kill"},
		"thawed": {v1alpha1.OrderThaw, "Forget"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, nil)
			m := c.move(t, nil)
			m.carryOut(v1alpha1.OrderPrepare)
			m.carryOut(v1alpha1.OrderFreeze)
			stuck := errors.New("CRIU does not end")
			c.from.backend.fails("Interrupt", stuck)
			m.order(tc.order)
			if err := c.settle(t); err != nil {
				t.Log(err)
			}
			if slices.Contains(c.from.backend.calls(), tc.never) {
				t.Errorf("the calls are %v, want no %s while a dump runs", c.from.backend.calls(), tc.never)
			}
			c.from.backend.fails("Interrupt", nil)
			m.carryOut(tc.order)
			if !slices.Contains(c.from.backend.calls(), tc.never) {
				t.Errorf("the calls are %v, want %s once no dump runs", c.from.backend.calls(), tc.never)
			}
		})
	}
}
