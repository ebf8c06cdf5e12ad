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

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent/agentdecide"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
	"supercargo.dev/supercargo/test/kit/testapi"
)

func TestEachOrderIsCarriedOutUpToTheEndOfTheMove(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)

	m.carryOut(v1alpha1.OrderPrepare)
	m.wantSteps(v1alpha1.SourcePrepared, v1alpha1.TargetPrepared)
	m.wantContainer(checkpoint.Running)
	status := m.migration().Status
	if s := status.Source; s.MemoryBytes != memory || s.Certificate == "" || s.Requirements == "" || s.FrozenAt != nil {
		t.Errorf("the source reports %+v", s)
	}
	if r := status.Target; r.Node != "to" || r.Address != "127.0.0.1:"+c.to.port || r.Certificate == "" {
		t.Errorf("the target reports %+v", r)
	}

	m.carryOut(v1alpha1.OrderFreeze)
	m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
	m.wantContainer(checkpoint.Frozen)
	status = m.migration().Status
	if s := status.Source; s.FrozenAt == nil || !s.FrozenAt.Time.Equal(noon) || s.DumpBytes != memory || s.ShipBytes != memory || s.ShipTries != 1 {
		t.Errorf("the source reports %+v", s)
	}
	if r := status.Target; r.Digest == "" || r.StagedBytes != memory {
		t.Errorf("the target reports %+v", r)
	}
	m.wantImage()
	if want := []string{"Inspect", "Freeze", "Dump", "Archive"}; !slices.Equal(c.from.backend.calls(), want) {
		t.Errorf("the source did %v, want %v", c.from.backend.calls(), want)
	}

	m.carryOut(v1alpha1.OrderKill)
	m.wantSteps(v1alpha1.SourceKilled, v1alpha1.TargetStaged)
	m.wantContainer(checkpoint.Gone)
	m.wantImage()

	m.carryOut(v1alpha1.OrderClean)
	m.wantSteps(v1alpha1.SourceCleaned, v1alpha1.TargetCleaned)
	m.wantNothingLeft()
	if slices.Contains(c.from.backend.calls(), "Thaw") {
		t.Error("a container that was to be killed continued")
	}
}

// TestThawUndoesWhatWasDone at each point of the move, also while an action runs.
func TestThawUndoesWhatWasDone(t *testing.T) {
	for at, reach := range map[string]func(*testing.T, *moving){
		"before anything":    func(*testing.T, *moving) {},
		"prepared":           func(t *testing.T, m *moving) { m.carryOut(v1alpha1.OrderPrepare) },
		"shipped":            func(t *testing.T, m *moving) { m.carryOut(v1alpha1.OrderPrepare); m.carryOut(v1alpha1.OrderFreeze) },
		"while it freezes":   func(t *testing.T, m *moving) { freezeUntil(t, m, m.from.backend.blocks("Freeze")) },
		"while it dumps":     func(t *testing.T, m *moving) { freezeUntil(t, m, m.from.backend.blocks("Dump")) },
		"while it ships":     func(t *testing.T, m *moving) { freezeUntil(t, m, m.from.backend.blocks("Archive")) },
		"while it is staged": func(t *testing.T, m *moving) { freezeUntil(t, m, m.to.backend.blocks("Stage")) },
	} {
		t.Run(at, func(t *testing.T) {
			c := newCluster(t, nil)
			m := c.move(t, nil)
			reach(t, m)
			frozen := m.frozen()
			m.carryOut(v1alpha1.OrderThaw)
			m.wantSteps(v1alpha1.SourceThawed, v1alpha1.TargetCleaned)
			m.wantContainer(checkpoint.Running)
			if entry, known := m.entry(ledger.SourceRole); known && (entry.Stage != terms.Removed || entry.Key != "") {
				t.Errorf("the source keeps %+v", entry)
			}
			if thawed := m.migration().Status.Source.ThawedAt; frozen && at != "while it freezes" && (thawed == nil || !thawed.Time.Equal(noon)) {
				t.Errorf("thawed at %v, want %v", thawed, noon)
			}
			m.carryOut(v1alpha1.OrderClean)
			m.wantSteps(v1alpha1.SourceCleaned, v1alpha1.TargetCleaned)
			m.wantNothingLeft()
			m.wantContainer(checkpoint.Running)
		})
	}
}

// freezeUntil orders Freeze and returns while a back-end waits in a method.
func freezeUntil(t *testing.T, m *moving, entered <-chan struct{}) {
	t.Helper()
	m.carryOut(v1alpha1.OrderPrepare)
	m.order(v1alpha1.OrderFreeze)
	m.until(t, entered)
}

// TestAnAgentThatMissedKillKillsOnClean, since the new pod has taken the place of the old one.
func TestAnAgentThatMissedKillKillsOnClean(t *testing.T) {
	for name, commit := range map[string]v1alpha1.MigrationCommit{
		"handed over": v1alpha1.CommitHandedOver, "frozen": v1alpha1.CommitFrozen,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, nil)
			m := c.move(t, nil)
			m.carryOut(v1alpha1.OrderPrepare)
			m.carryOut(v1alpha1.OrderFreeze)
			m.change(func(s *v1alpha1.MigrationStatus) {
				s.Order, s.Commit = v1alpha1.OrderClean, commit
			})
			c.settled(t)
			want := checkpoint.Gone
			if commit == v1alpha1.CommitFrozen {
				want = checkpoint.Running
			}
			m.wantContainer(want)
			m.wantNothingLeft()
		})
	}
}

func TestAFinishedMigrationLeavesNothing(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	m.carryOut(v1alpha1.OrderFreeze)
	m.change(func(s *v1alpha1.MigrationStatus) {
		s.Conditions = []metav1.Condition{{Type: v1alpha1.MigrationFinished, Status: metav1.ConditionTrue, Reason: "Failed"}}
	})
	c.settled(t)
	m.wantContainer(checkpoint.Running)
	m.wantNothingLeft()
}

// TestAMigrationThatIsGone: the container continues if its pod is wanted, and ends if it is not. An
// agent that does not know holds it.
func TestAMigrationThatIsGone(t *testing.T) {
	unread := errors.New("the API server answers no questions about pods")
	remove := func(t *testing.T, m *moving, finalizers ...string) {
		pod := &corev1.Pod{}
		testapi.Get(t, m.api, m.key, pod)
		pod.Finalizers = finalizers
		if err := errors.Join(m.api.Update(t.Context(), pod), m.api.Delete(t.Context(), pod)); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		pod  func(*testing.T, *moving)
		want checkpoint.State
	}{
		"and its pod is wanted":    {func(*testing.T, *moving) {}, checkpoint.Running},
		"and its pod is leaving":   {func(t *testing.T, m *moving) { remove(t, m, "example.com/hold") }, checkpoint.Gone},
		"and its pod is gone":      {func(t *testing.T, m *moving) { remove(t, m) }, checkpoint.Gone},
		"and its pod is not known": {func(_ *testing.T, m *moving) { m.away = unread }, checkpoint.Frozen},
		"and its new pod exists":   {func(t *testing.T, m *moving) { testapi.Create(t, m.api, m.newPod()) }, checkpoint.Frozen},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, nil)
			m := c.move(t, nil)
			m.carryOut(v1alpha1.OrderPrepare)
			m.carryOut(v1alpha1.OrderFreeze)
			m.deleteMigration()
			tc.pod(t, m)
			if err := c.settle(t); !errors.Is(err, c.away) {
				t.Errorf("error %v, want %v", err, c.away)
			}
			c.away = nil
			m.wantContainer(tc.want)
			if tc.want != checkpoint.Frozen {
				m.wantNothingLeft()
			}
		})
	}
}

// newPod returns the pod that gets the state of the container.
func (m *moving) newPod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.key.Namespace, Name: newPodOf(m.key.Name)}}
}

// TestAContainerWhoseMigrationIsGoneContinuesWhenItsNewPodIsGone, and not before: its copy may run.
func TestAContainerWhoseMigrationIsGoneContinuesWhenItsNewPodIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		order v1alpha1.MigrationOrder
		want  checkpoint.State
	}{
		"its state was sent":  {v1alpha1.OrderFreeze, checkpoint.Frozen},
		"it was never frozen": {v1alpha1.OrderPrepare, checkpoint.Running},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, nil)
			m := c.move(t, nil)
			m.carryOut(v1alpha1.OrderPrepare)
			testapi.Create(t, c.api, m.newPod())
			if tc.order != v1alpha1.OrderPrepare {
				m.carryOut(tc.order)
			}
			m.deleteMigration()
			c.settled(t)
			m.wantContainer(tc.want)
			if err := c.api.Delete(t.Context(), m.newPod()); err != nil {
				t.Fatal(err)
			}
			c.settled(t)
			m.wantContainer(checkpoint.Running)
			m.wantNothingLeft()
		})
	}
}

// TestAMigrationOfTheSameNameIsNotTheSame: its agents have received no order for the one before.
func TestAMigrationOfTheSameNameIsNotTheSame(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	m.carryOut(v1alpha1.OrderFreeze)
	next := m.migration()
	m.deleteMigration()
	next.ResourceVersion, next.UID = "", uidOf(9)
	next.Status.Source, next.Status.Target, next.Status.Order = nil, nil, v1alpha1.OrderPrepare
	testapi.Create(t, c.api, next)
	c.settled(t)
	m.wantContainer(checkpoint.Running)
	for _, role := range []ledger.Role{ledger.SourceRole, ledger.TargetRole} {
		if entry, known := m.entry(role); known {
			t.Errorf("the entry of the Migration before is left: %+v", entry)
		}
	}
	if m.migration().Status.Source == nil {
		t.Error("nothing is reported to the new Migration")
	}
}

// TestTheDeadline: a container whose state the target cannot have continues a minute after it.
func TestTheDeadline(t *testing.T) {
	for name, tc := range map[string]struct {
		after   time.Duration
		disturb func(*testing.T, *moving)
		want    checkpoint.State
	}{
		"has not come":                          {deadline + thawGrace, nil, checkpoint.Frozen},
		"has passed":                            {deadline + thawGrace + 1, nil, checkpoint.Running},
		"passes while the API server is away":   {deadline + thawGrace + 1, func(_ *testing.T, m *moving) { m.away = errors.New("away") }, checkpoint.Running},
		"passes while the ledger has no disk":   {deadline + thawGrace + 1, removeLedger, checkpoint.Running},
		"passes when a copy may have been sent": {deadline + thawGrace + 1, noteSent, checkpoint.Frozen},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, nil)
			m := c.move(t, nil)
			freezeUntil(t, m, c.from.backend.blocks("Archive"))
			c.clock.step(tc.after)
			if tc.disturb != nil {
				tc.disturb(t, m)
			}
			for range 10 {
				blocked := agentdecide.Ship
				if tc.want == checkpoint.Running {
					blocked = agentdecide.Nothing // it is cancelled
				}
				if err := m.step(blocked); !errors.Is(err, c.away) {
					t.Errorf("error %v, want %v", err, c.away)
				}
			}
			c.away = nil
			m.wantContainer(tc.want)
			if tc.want == checkpoint.Running {
				if err := os.MkdirAll(filepath.Join(c.from.StateDir, "ledger"), 0o700); err != nil {
					t.Fatal(err)
				}
				c.settled(t)
				m.wantFailure(ledger.SourceRole, "FreezeExpired", "the deadline has passed")
			}
			m.carryOut(v1alpha1.OrderThaw) // ends what runs
			m.wantContainer(checkpoint.Running)
		})
	}
}

func removeLedger(t *testing.T, m *moving) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(m.from.StateDir, "ledger")); err != nil {
		t.Fatal(err)
	}
}

func noteSent(t *testing.T, m *moving) {
	t.Helper()
	entry, _ := m.entry(ledger.SourceRole)
	entry.Stage = terms.Sent
	if err := m.from.ledger.Put(entry); err != nil {
		t.Fatal(err)
	}
}

// TestAContainerIsNotFrozenAfterItsDeadline: the order comes too late.
func TestAContainerIsNotFrozenAfterItsDeadline(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	c.clock.step(deadline + thawGrace + 1)
	m.carryOut(v1alpha1.OrderFreeze)
	m.wantFailure(ledger.SourceRole, "FreezeExpired", "the deadline has passed")
	if m.frozen() {
		t.Error("the container was frozen")
	}
}

// TestOnlySoManyContainersAreFrozenAtOnce: the next is frozen once a state has been sent.
func TestOnlySoManyContainersAreFrozenAtOnce(t *testing.T) {
	c := newCluster(t, func(c *Config) { c.Limits.Moves = 1 })
	one, two := c.move(t, nil), c.move(t, nil)
	c.settled(t)
	entered := c.from.backend.blocks("Archive")
	one.order(v1alpha1.OrderFreeze)
	c.until(t, entered)
	two.order(v1alpha1.OrderFreeze)
	for range 3 {
		if err := two.step(agentdecide.Nothing); err != nil {
			t.Fatal(err)
		}
	}
	one.wantContainer(checkpoint.Frozen)
	two.wantContainer(checkpoint.Running)
	if !c.from.crowded[two.key] {
		t.Error("the second does not wait for the end of an action")
	}
	c.from.backend.on("Archive", nil)
	one.order(v1alpha1.OrderThaw)
	c.settled(t)
	one.wantContainer(checkpoint.Running)
	two.wantContainer(checkpoint.Frozen)
	two.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
}

// TestAnActionThatIsCancelledHasNotFailed, whatever it says: the deadline is the reason.
func TestAnActionThatIsCancelledHasNotFailed(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	entered := make(chan struct{})
	c.from.backend.on("Dump", func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		return checkpoint.Fail(v1alpha1.MigrationReasonDumpFailed, "it was interrupted")
	})
	freezeUntil(t, m, entered)
	c.clock.step(deadline + thawGrace + 1)
	c.settled(t)
	m.wantFailure(ledger.SourceRole, "FreezeExpired", "the deadline has passed")
	m.wantContainer(checkpoint.Running)
}

// TestAContainerThatWasShippedMakesRoomForTheNext although it is still frozen.
func TestAContainerThatWasShippedMakesRoomForTheNext(t *testing.T) {
	c := newCluster(t, func(c *Config) { c.Limits.Moves = 1 })
	for range 2 {
		m := c.move(t, nil)
		m.carryOut(v1alpha1.OrderPrepare)
		m.carryOut(v1alpha1.OrderFreeze)
		m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
		m.wantContainer(checkpoint.Frozen)
	}
}

// losesAnswers stages what it receives, and does not confirm it.
type losesAnswers struct{ *scripted }

func (b losesAnswers) Stage(ctx context.Context, i checkpoint.Image, tar checkpoint.Verified) (checkpoint.Staged, error) {
	_, err := b.scripted.Stage(ctx, i, tar)
	return checkpoint.Staged{}, errors.Join(err, errors.New("the answer is lost"))
}

// TestAContainerWhoseCopyMayRunStaysFrozen after its deadline and after its agent, until an order
// comes: the target has its state and could not confirm that.
func TestAContainerWhoseCopyMayRunStaysFrozen(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	c.to.backends[v1alpha1.BackendSimulated] = checkpoint.Backend{Target: losesAnswers{c.to.backend}}
	m.carryOut(v1alpha1.OrderPrepare)
	m.carryOut(v1alpha1.OrderFreeze)
	m.wantFailure(ledger.SourceRole, "TransferFailed", "the answer is lost")
	c.clock.step(deadline + thawGrace + 1)
	c.settled(t)
	m.wantContainer(checkpoint.Frozen)
	c.from.release(t.Context())
	m.wantContainer(checkpoint.Frozen)
	m.carryOut(v1alpha1.OrderThaw)
	m.wantContainer(checkpoint.Running)
}
