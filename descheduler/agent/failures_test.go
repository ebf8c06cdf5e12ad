package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
)

var errFull = fmt.Errorf("write: %w", syscall.ENOSPC)

// TestTheSourceRefusesAContainerWhileItRuns, says why, and leaves nothing.
func TestTheSourceRefusesAContainerWhileItRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		limits       func(*Config)
		change       func(*corev1.Pod, *v1alpha1.Migration)
		inspect      error
		volumes      int64
		reason, part string
	}{
		"that has ended": {change: func(p *corev1.Pod, _ *v1alpha1.Migration) { p.Status.Phase = corev1.PodSucceeded }, reason: "NotRunning", part: "is not running"},
		"that is too large": {limits: func(c *Config) { c.Limits.ImageBytes = memory - 1 }, reason: "TooLarge",
			part: "uses 1000 bytes of memory, more than the maximum of 999"},
		"with too much in its volumes": {limits: func(c *Config) { c.Limits.ImageBytes = memory + 9 }, volumes: 10, reason: "TooLarge",
			part: "in /dev/shm than the 9 bytes that a checkpoint may have besides its memory"},
		"that the work folder has no room for": {
			limits: func(c *Config) { c.Limits.ImageBytes = 1 << 62 },
			change: func(p *corev1.Pod, m *v1alpha1.Migration) {
				p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(1<<61, resource.BinarySI)
				m.Status.Plan.Backend = v1alpha1.BackendContainerd
			}, reason: "NoRoom", part: "raise --work-size"},
		"that the node has no memory for": {
			limits: func(c *Config) { c.FreeMemory = func() (int64, error) { return memoryReserve + memory - 1, nil } },
			change: func(_ *corev1.Pod, m *v1alpha1.Migration) { m.Status.Plan.Backend = v1alpha1.BackendContainerd }, reason: "NoRoom",
			part: "its node has only 999 bytes available"},
		"of a back-end that the node does not have": {change: func(_ *corev1.Pod, m *v1alpha1.Migration) { m.Status.Plan.Backend = "Other" }, reason: "NotSupported",
			part: "does not support back-end Other"},
		"that its back-end refuses": {inspect: checkpoint.Fail(v1alpha1.MigrationReasonOpenConnections, "it has connections"), reason: "OpenConnections", part: "it has connections"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, tc.limits)
			m := c.move(t, tc.change)
			c.from.backend.volumes = tc.volumes
			if tc.inspect != nil {
				c.from.backend.fails("Inspect", tc.inspect)
			}
			m.carryOut(v1alpha1.OrderPrepare)
			m.wantFailure(ledger.SourceRole, tc.reason, tc.part)
			m.carryOut(v1alpha1.OrderFreeze)
			if m.frozen() || m.migration().Status.Target != nil {
				t.Error("the move continues after the refusal")
			}
			m.carryOut(v1alpha1.OrderThaw)
			if tc.reason == "NotSupported" {
				return // the state of the container is not known here; the controller does not wait for long
			}
			m.wantSteps(v1alpha1.SourceThawed, v1alpha1.TargetCleaned)
			m.carryOut(v1alpha1.OrderClean)
			m.wantNothingLeft()
		})
	}
}

// TestAnUnexpectedErrorIsRetried in every action, and the move reaches its end.
func TestAnUnexpectedErrorIsRetried(t *testing.T) {
	for _, method := range []string{"Inspect", "Freeze", "Dump", "Kill", "Forget", "Able", "Remove"} {
		t.Run(method, func(t *testing.T) {
			c := newCluster(t, nil)
			m := c.move(t, nil)
			for _, n := range []*node{c.from, c.to} {
				failed := false
				n.backend.on(method, func(context.Context) error {
					if failed {
						return nil
					}
					failed = true
					return errors.New("the runtime is busy")
				})
			}
			for _, order := range []v1alpha1.MigrationOrder{v1alpha1.OrderPrepare, v1alpha1.OrderFreeze, v1alpha1.OrderKill, v1alpha1.OrderClean} {
				m.carryOut(order)
			}
			m.wantSteps(v1alpha1.SourceCleaned, v1alpha1.TargetCleaned)
			m.wantContainer(checkpoint.Gone)
			m.wantNothingLeft()
		})
	}
}

// TestTheTargetRefusesAContainerBeforeItIsFrozen and says why.
func TestTheTargetRefusesAContainerBeforeItIsFrozen(t *testing.T) {
	staged := func(bytes int64) func(*testing.T, *cluster) {
		return func(t *testing.T, c *cluster) {
			t.Helper()
			if err := c.to.ledger.Put(ledger.Entry{
				ID: ledger.ID{Migration: "earlier", Node: "to", Role: ledger.TargetRole}, Namespace: "jobs", Name: "earlier", Staged: &checkpoint.Staged{Bytes: bytes},
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	requires := func(text string) func(*testing.T, *cluster) {
		return func(t *testing.T, c *cluster) {
			t.Helper()
			m := &moving{cluster: c, t: t, key: c.keys[0]}
			if err := c.from.reconcile(t.Context(), m.key); err != nil {
				t.Fatal(err)
			}
			c.from.rest()
			if err := c.from.reconcile(t.Context(), m.key); err != nil {
				t.Fatal(err)
			}
			m.change(func(s *v1alpha1.MigrationStatus) { s.Source.Requirements = text })
		}
	}
	for name, tc := range map[string]struct {
		limits       Limits // of the target
		before       func(*testing.T, *cluster)
		reason, part string
	}{
		"that it cannot restore": {before: func(_ *testing.T, c *cluster) {
			c.to.backend.fails("Able", checkpoint.Fail(v1alpha1.MigrationReasonImageMissing, "the base image is missing"))
		}, reason: "ImageMissing", part: "the base image is missing"},
		"that is too large":                 {limits: Limits{ImageBytes: memory - 1}, reason: "TooLarge", part: "raise --max-image-bytes"},
		"if it has as many as it may":       {limits: Limits{Images: 1}, before: staged(1), reason: "NoRoom", part: "would hold 2 checkpoints with 1001 bytes, and its maximum is 1"},
		"if the others leave no room":       {limits: Limits{TotalBytes: memory}, before: staged(1), reason: "NoRoom", part: "and its maximum is 8 with 1000"},
		"whose requirements it cannot read": {before: requires("nonsense"), reason: "NotSupported", part: "read the requirements"},
		"of a back-end that it lacks":       {before: func(_ *testing.T, c *cluster) { delete(c.to.backends, v1alpha1.BackendSimulated) }, reason: "NotSupported", part: "does not support back-end Simulated"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, func(c *Config) {
				if c.Node == "to" {
					c.Limits.ImageBytes, c.Limits.Images, c.Limits.TotalBytes = tc.limits.ImageBytes, tc.limits.Images, tc.limits.TotalBytes
				}
			})
			m := c.move(t, nil)
			if tc.before != nil {
				tc.before(t, c)
			}
			m.carryOut(v1alpha1.OrderPrepare)
			m.wantFailure(ledger.TargetRole, tc.reason, tc.part)
			m.carryOut(v1alpha1.OrderFreeze)
			if m.frozen() {
				t.Error("the container is frozen although no target expects it")
			}
			m.carryOut(v1alpha1.OrderThaw)
			m.wantSteps(v1alpha1.SourceThawed, v1alpha1.TargetCleaned)
		})
	}
}

// TestAContainerWhoseMoveFailsContinuesOnThaw, and its state is never staged.
func TestAContainerWhoseMoveFailsContinuesOnThaw(t *testing.T) {
	thaw := func(m *moving) func(context.Context) error {
		return func(ctx context.Context) error { return m.from.backend.Backend.Thaw(ctx, m.container()) }
	}
	for name, tc := range map[string]struct {
		limits       func(*Config)
		before       func(*moving)
		reason, part string
	}{
		"it cannot be frozen": {before: func(m *moving) {
			m.from.backend.fails("Freeze", checkpoint.Fail(v1alpha1.MigrationReasonFreezeFailed, "the kernel refuses"))
		},
			reason: "FreezeFailed", part: "the kernel refuses"},
		"it cannot be dumped": {before: func(m *moving) {
			m.from.backend.fails("Dump", checkpoint.Fail(v1alpha1.MigrationReasonDumpFailed, "it has a GPU"))
		},
			reason: "DumpFailed", part: "it has a GPU"},
		"the work folder is full": {before: func(m *moving) { m.from.backend.fails("Dump", errFull) }, reason: "NoRoom", part: "the work folder is full: raise --work-size"},
		"the back-end says that it is full": {before: func(m *moving) {
			m.from.backend.fails("Dump", checkpoint.Fail(v1alpha1.MigrationReasonNoRoom, "no room"))
		}, reason: "NoRoom", part: "no room"},
		"its dump is too large":                {before: func(m *moving) { m.from.Limits.ImageBytes = memory - 1 }, reason: "TooLarge", part: "the dump of container main of pod jobs/work-1 has 1000 bytes"},
		"others resume it while it is dumped":  {before: func(m *moving) { m.from.backend.on("Dump", thaw(m)) }, reason: "Thawed", part: "something else resumed it"},
		"others resume it while it is shipped": {before: func(m *moving) { m.from.backend.on("Archive", thaw(m)) }, reason: "Thawed", part: "something else resumed it"},
		"it ends while it is dumped": {before: func(m *moving) {
			m.from.backend.on("Dump", func(ctx context.Context) error { return m.from.backend.Backend.Kill(ctx, m.container()) })
		}, reason: "ContainerGone", part: "ended while it was frozen"},
		"its target refuses the state": {before: func(m *moving) {
			m.to.backend.fails("Stage", checkpoint.Fail(v1alpha1.MigrationReasonInvalidArchive, "it is no archive"))
		},
			reason: "InvalidArchive", part: "it is no archive"},
		"its target cannot be reached any more": {before: func(m *moving) {
			m.from.backend.on("Dump", func(context.Context) error { m.to.stop(); return nil })
		}, reason: "TransferFailed", part: "after 1 attempt: "},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, tc.limits)
			m := c.move(t, nil)
			m.carryOut(v1alpha1.OrderPrepare)
			tc.before(m)
			m.carryOut(v1alpha1.OrderFreeze)
			m.wantFailure(ledger.SourceRole, tc.reason, tc.part)
			if has, err := c.to.backend.Has(t.Context(), m.image()); has || err != nil {
				t.Errorf("the target has its state: %v (%v)", has, err)
			}
			if entry, _ := m.entry(ledger.SourceRole); entry.Stage.MayRunElsewhere() && tc.reason != "InvalidArchive" {
				t.Error("the state counts as sent")
			}
			m.carryOut(v1alpha1.OrderThaw)
			want := checkpoint.Running
			if name == "it ends while it is dumped" {
				want = checkpoint.Gone
			}
			m.wantContainer(want)
			m.carryOut(v1alpha1.OrderClean)
			m.wantSteps(v1alpha1.SourceCleaned, v1alpha1.TargetCleaned)
		})
	}
}

// TestATargetThatCannotBeReachedIsFoundBeforeAnythingIsFrozen after as many attempts as a restart
// of its agent needs.
func TestATargetThatCannotBeReachedIsFoundBeforeAnythingIsFrozen(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	c.to.stop()
	m.carryOut(v1alpha1.OrderFreeze)
	m.wantFailure(ledger.SourceRole, "TransferFailed", "after 9 attempts: check that the agents can reach each other")
	if m.frozen() {
		t.Error("the container was frozen")
	}
}

// TestAPeerThatIsNotTheReportedOneIsNotSent anything: its certificate is another.
func TestAPeerThatIsNotTheReportedOneIsNotSent(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	own := m.migration().Status.Source.Certificate
	m.change(func(s *v1alpha1.MigrationStatus) { s.Target.Certificate = own })
	m.carryOut(v1alpha1.OrderFreeze)
	m.wantSteps(v1alpha1.SourceFailed, v1alpha1.TargetPrepared)
	if m.frozen() {
		t.Error("the container was frozen for a peer that is not the target")
	}
}

// TestAContainerIsNotFrozenForANodeWithoutTheReservation: the agent waits for the report of
// the node that has the reservation.
func TestAContainerIsNotFrozenForANodeWithoutTheReservation(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	m.change(func(s *v1alpha1.MigrationStatus) { s.Reservation.Node, s.Order = "third", v1alpha1.OrderFreeze })
	c.settled(t)
	if m.frozen() {
		t.Error("the container was frozen")
	}
	m.wantSteps(v1alpha1.SourcePrepared, v1alpha1.TargetCleaned)
	if entry, known := m.entry(ledger.TargetRole); known {
		t.Errorf("the node that lost the reservation keeps %+v", entry)
	}
}

// TestAStagedImageThatGoesAwayIsReported while the source is still frozen.
func TestAStagedImageThatGoesAwayIsReported(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *moving){
		"the staged checkpoint was lost": func(t *testing.T, m *moving) {
			if err := m.to.backend.Backend.Remove(t.Context(), m.image()); err != nil {
				t.Fatal(err)
			}
		},
		"the agent's ledger was lost": func(t *testing.T, m *moving) {
			if err := m.to.ledger.Remove(ledger.ID{Migration: m.uid, Node: "to", Role: ledger.TargetRole}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, nil)
			m := c.move(t, nil)
			m.carryOut(v1alpha1.OrderPrepare)
			m.carryOut(v1alpha1.OrderFreeze)
			lose(t, m)
			c.settled(t)
			m.wantFailure(ledger.TargetRole, "ImageLost", name)
			m.wantContainer(checkpoint.Frozen)
			m.carryOut(v1alpha1.OrderThaw)
			m.wantContainer(checkpoint.Running)
		})
	}
}

// TestALedgerWhoseDiskIsFullIsAFailure: to retry could keep the container frozen for long.
func TestALedgerWhoseDiskIsFullIsAFailure(t *testing.T) {
	entry := ledger.Entry{Container: checkpoint.Container{Namespace: "jobs", Pod: "work", Name: "main"}}
	other := errors.New("the disk is slow")
	known := checkpoint.Fail(v1alpha1.MigrationReasonDumpFailed, "no")
	for name, tc := range map[string]struct {
		err    error
		reason string // empty for the same error
	}{
		"full":                    {errFull, "NoRoom"},
		"over its quota":          {fmt.Errorf("write: %w", syscall.EDQUOT), "NoRoom"},
		"slow":                    {other, ""},
		"full, and another error": {errors.Join(known, errFull), ""},
		"fine":                    {nil, ""},
	} {
		got := notRecorded(entry, tc.err)
		if tc.reason == "" {
			if got != tc.err { //nolint:errorlint // the very same
				t.Errorf("%s: error %v, want %v", name, got, tc.err)
			}
			continue
		}
		if f := checkpoint.AsFailure(got); f == nil || f.Reason != tc.reason {
			t.Errorf("%s: error %v, want a failure %s", name, got, tc.reason)
		}
	}
}

// TestAFailureIsReportedOnceTheAPIServerAnswers, and the container waits meanwhile.
func TestAFailureIsReportedOnceTheAPIServerAnswers(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	m.order(v1alpha1.OrderFreeze)
	c.from.backend.on("Dump", func(context.Context) error {
		c.away = errors.New("the API server is away")
		return checkpoint.Fail(v1alpha1.MigrationReasonDumpFailed, "it has a GPU")
	})
	if err := c.settle(t); !errors.Is(err, c.away) {
		t.Errorf("error %v, want %v", err, c.away)
	}
	c.away = nil
	m.wantContainer(checkpoint.Frozen)
	m.wantSteps(v1alpha1.SourceFrozen, v1alpha1.TargetPrepared)
	c.settled(t)
	m.wantFailure(ledger.SourceRole, "DumpFailed", "it has a GPU")
	if calls := c.from.backend.calls(); slices.Index(calls, "Dump") != len(calls)-1 {
		t.Errorf("the source continues after the failure: %v", calls)
	}
}

// TestAFailureIsForgottenWhenTheOrderChanges before it was reported.
func TestAFailureIsForgottenWhenTheOrderChanges(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.settled(t)
	for _, n := range []*node{c.from, c.to} {
		role := ledger.SourceRole
		if n == c.to {
			role = ledger.TargetRole
		}
		n.fail(ledger.ID{Migration: m.uid, Node: n.name, Role: role}, &checkpoint.Failure{Reason: "DumpFailed", Message: "no"})
	}
	m.carryOut(v1alpha1.OrderThaw)
	m.wantSteps(v1alpha1.SourceThawed, v1alpha1.TargetCleaned)
	for _, n := range []*node{c.from, c.to} {
		if len(n.failures) > 0 {
			t.Errorf("%s keeps %v", n.name, n.failures)
		}
	}
}

// TestOfTwoDumpsThatTheMemoryHoldsOnlyAloneOneIsRefused although both are prepared at once.
func TestOfTwoDumpsThatTheMemoryHoldsOnlyAloneOneIsRefused(t *testing.T) {
	c := newCluster(t, func(c *Config) {
		c.FreeMemory = func() (int64, error) { return memoryReserve + 2*memory - 1, nil }
	})
	dumped := func(_ *corev1.Pod, m *v1alpha1.Migration) { m.Status.Plan.Backend = v1alpha1.BackendContainerd }
	first, second := c.move(t, dumped), c.move(t, dumped)
	first.carryOut(v1alpha1.OrderPrepare)
	refused := second
	if first.migration().Status.Source.Step == v1alpha1.SourceFailed {
		refused = first
	}
	refused.wantFailure(ledger.SourceRole, "NoRoom", "its node has only 999 bytes available")
	if a, b := first.migration().Status.Source.Step, second.migration().Status.Source.Step; a == b {
		t.Errorf("both are %s, want one prepared", a)
	}
}

// TestOfTwoDumpsThatOnlyFitAloneOneIsRefused although both are prepared at once.
func TestOfTwoDumpsThatOnlyFitAloneOneIsRefused(t *testing.T) {
	c := newCluster(t, func(c *Config) { c.Limits.ImageBytes = 1 << 62 })
	free, err := freeBytes(c.from.WorkDir)
	if err != nil {
		t.Fatal(err)
	}
	most := func(p *corev1.Pod, m *v1alpha1.Migration) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(free/10*6, resource.BinarySI)
		m.Status.Plan.Backend = v1alpha1.BackendContainerd
	}
	first, second := c.move(t, most), c.move(t, most)
	first.carryOut(v1alpha1.OrderPrepare)
	refused := second
	if first.migration().Status.Source.Step == v1alpha1.SourceFailed {
		refused = first
	}
	refused.wantFailure(ledger.SourceRole, "NoRoom", "wait until other migrations end")
	if a, b := first.migration().Status.Source.Step, second.migration().Status.Source.Step; a == b {
		t.Errorf("both are %s, want one prepared", a)
	}
}
