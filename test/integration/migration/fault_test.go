package migration

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// hasEvents waits for Events about a migration with these reasons.
func (b *bench) hasEvents(m *v1alpha1.Migration, reasons ...string) {
	b.Helper()
	b.Eventually("Events are there", func() string {
		var list eventsv1.EventList
		if err := b.List(b.Context(), &list, client.InNamespace(b.Space)); err != nil {
			return err.Error()
		}
		said := ""
		for _, e := range list.Items {
			if e.Regarding.UID == m.UID {
				said += e.Reason + " "
			}
		}
		for _, reason := range reasons {
			if !strings.Contains(said, reason) {
				return "only: " + said
			}
		}
		return ""
	})
}

func phase(want v1alpha1.MigrationPhase) func(*v1alpha1.MigrationStatus) bool {
	return func(s *v1alpha1.MigrationStatus) bool { return s.Phase == want }
}

// silentAt makes the source send no report of a step.
func silentAt(step v1alpha1.SourceStep) func(*v1alpha1.Migration, *v1alpha1.SourceReport) bool {
	return func(_ *v1alpha1.Migration, r *v1alpha1.SourceReport) bool { return r.Step != step }
}

// failsAt makes the source fail instead of reaching a step.
func failsAt(step v1alpha1.SourceStep, reason string) func(*v1alpha1.Migration, *v1alpha1.SourceReport) bool {
	return func(_ *v1alpha1.Migration, r *v1alpha1.SourceReport) bool {
		if r.Step == step {
			r.Step, r.Reason, r.Message = v1alpha1.SourceFailed, reason, "as scripted"
		}
		return true
	}
}

func targetFailsAt(step v1alpha1.TargetStep, reason string) func(*v1alpha1.Migration, *v1alpha1.TargetReport) bool {
	return func(_ *v1alpha1.Migration, r *v1alpha1.TargetReport) bool {
		if r.Step == step {
			r.Step, r.Reason, r.Message = v1alpha1.TargetFailed, reason, "as scripted"
		}
		return true
	}
}

// stageNothing prevents the target from reporting a staged image.
func stageNothing(_ *v1alpha1.Migration, r *v1alpha1.TargetReport) bool {
	return r.Step != v1alpha1.TargetStaged
}

func TestWhatGoesWrongBeforeTheHandOverLeavesThePodWhereItWas(t *testing.T) {
	type source = func(*v1alpha1.Migration, *v1alpha1.SourceReport) bool
	type target = func(*v1alpha1.Migration, *v1alpha1.TargetReport) bool
	short := func(s *v1alpha1.MigrationSpec) { s.Deadline = metav1.Duration{Duration: 10 * time.Second} }
	for _, tc := range []struct {
		name   string
		source source
		target target
		spec   []func(*v1alpha1.MigrationSpec)
		// at is the phase in which spoil is called.
		at     v1alpha1.MigrationPhase
		spoil  func(*bench, *v1alpha1.Migration)
		phase  v1alpha1.MigrationPhase
		reason string
	}{
		{name: "cancel-early", source: silentAt(v1alpha1.SourcePrepared), at: v1alpha1.MigrationReserving, spoil: cancel},
		{name: "cancel-frozen", target: stageNothing, at: v1alpha1.MigrationMoving, spoil: cancel},
		{name: "deadline-early", source: silentAt(v1alpha1.SourcePrepared), spec: []func(*v1alpha1.MigrationSpec){short}, phase: v1alpha1.MigrationRolledBack, reason: "DeadlineExceeded"},
		{name: "deadline-frozen", target: stageNothing, spec: []func(*v1alpha1.MigrationSpec){short}, phase: v1alpha1.MigrationRolledBack, reason: "DeadlineExceeded"},
		{name: "cordon", target: stageNothing, at: v1alpha1.MigrationMoving, spoil: cordonTarget, phase: v1alpha1.MigrationRolledBack, reason: "TargetCordoned"},
		{name: "node-gone", target: stageNothing, at: v1alpha1.MigrationMoving, spoil: removeTarget, phase: v1alpha1.MigrationRolledBack, reason: "TargetGone"},
		{name: "no-room", target: targetFailsAt(v1alpha1.TargetPrepared, "NoRoom"), phase: v1alpha1.MigrationRolledBack, reason: "NoRoom"},
		{name: "bad-archive", target: targetFailsAt(v1alpha1.TargetStaged, "InvalidArchive"), phase: v1alpha1.MigrationRolledBack, reason: "InvalidArchive"},
		{name: "dump", source: failsAt(v1alpha1.SourceDumped, "DumpFailed"), phase: v1alpha1.MigrationRolledBack, reason: "DumpFailed"},
		{name: "ship", source: failsAt(v1alpha1.SourceShipped, "TransferFailed"), phase: v1alpha1.MigrationRolledBack, reason: "TransferFailed"},
		{name: "tcp", source: failsAt(v1alpha1.SourcePrepared, "OpenConnections"), phase: v1alpha1.MigrationRefused, reason: "OpenConnections"},
		{name: "new-deleted", target: stageNothing, at: v1alpha1.MigrationMoving, spoil: deleteNewPod, phase: v1alpha1.MigrationRolledBack, reason: "NewPodGone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "bad-"+tc.name, 2)
			b.agents.script(tc.source, tc.target)
			b.deschedule()
			b.job(1, batchv1.NonIndexedCompletion)
			old := b.Pods()[0]
			m := b.move(old.Name, tc.spec...)
			if tc.spoil != nil {
				tc.spoil(b, b.is(m.Name, "is "+string(tc.at), phase(tc.at)))
			}
			if tc.phase == "" {
				b.Eventually("the Migration is gone", func() string {
					if b.Find(m.Name, m) {
						return "in phase " + string(m.Status.Phase)
					}
					return ""
				})
			} else {
				kind := v1alpha1.MigrationFinished
				if m = b.ends(m.Name, tc.phase); tc.phase == v1alpha1.MigrationRefused {
					kind = v1alpha1.MigrationEligible
				}
				if c := condition(m, kind); !strings.Contains(c.Reason+c.Message, tc.reason) {
					t.Errorf("does not say %s: %+v", tc.reason, c)
				}
				b.hasEvents(m, string(tc.phase))
			}
			if pods := b.healthy("work", 1); pods[0].UID != old.UID || pods[0].Status.Phase != corev1.PodRunning {
				t.Errorf("pod %s, %s", pods[0].Name, pods[0].Status.Phase)
			}
			if b.agents.standing() > 0 {
				t.Error("the pod is frozen")
			}
		})
	}
}

func cancel(b *bench, m *v1alpha1.Migration) {
	b.Helper()
	if err := b.Delete(b.Context(), m); err != nil {
		b.Fatal(err)
	}
}

func cordonTarget(b *bench, m *v1alpha1.Migration) {
	b.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Status.Reservation.Node}}
	if err := b.Patch(b.Context(), node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
		b.Fatal(err)
	}
}

func removeTarget(b *bench, m *v1alpha1.Migration) {
	b.Helper()
	if err := b.Delete(b.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Status.Reservation.Node}}); err != nil {
		b.Fatal(err)
	}
}

func deleteNewPod(b *bench, m *v1alpha1.Migration) {
	b.Helper()
	// Without a grace period, in which the Migration would say NewPodDeleted.
	if err := b.Delete(b.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: m.Status.Plan.RestoredPod}}, client.GracePeriodSeconds(0)); err != nil {
		b.Fatal(err)
	}
}

// The old pod has been handed over when the Migration is deleted: the migration is finished.
func TestACancellationAfterTheHandOverComesTooLate(t *testing.T) {
	t.Parallel()
	b := newBench(t, "late", 2)
	b.agents.script(silentAt(v1alpha1.SourceKilled), nil)
	b.deschedule()
	b.job(1, batchv1.NonIndexedCompletion)
	old := b.Pods()[0]
	b.move(old.Name)
	m := b.is("move-"+old.Name, "hands over", func(s *v1alpha1.MigrationStatus) bool { return s.Order == v1alpha1.OrderKill })
	cancel(b, m)
	b.agents.script(silentAt(""), nil)
	b.Eventually("the Migration is gone", func() string {
		if b.Find(m.Name, &v1alpha1.Migration{}) {
			return "there"
		}
		return ""
	})
	b.took(&old, m)
	b.healthy("work", 1)
}
