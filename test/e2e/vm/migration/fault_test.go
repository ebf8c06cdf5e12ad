//go:build vm

package migration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/moves"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// whole checks that a counter that was not moved continues, and that it printed every value exactly once.
func (w *town) whole(pod string, seen *output) {
	w.Helper()
	w.Continued(pod)
	if err := workload.CheckTicks(workload.Join(seen.ticks(), w.Ticks(pod)), 1); err != nil {
		w.Error(err)
	}
}

// whenFrozen runs a command on the source as soon as its agent has frozen a container, and sends its error. The
// time between freeze and dump is too short for a command over ssh, so a script on the machine waits.
func (w *town) whenFrozen(command string) <-chan error {
	w.Helper()
	done := make(chan error, 1)
	ctx := w.Context()
	go func() {
		_, err := w.first.Run(ctx, `grep -q -m 1 'step="Frozen"' <(journalctl -fu node-agent -n 0 -o cat 2>/dev/null)
`+command)
		done <- err
	}()
	w.Eventually("the machine watches its agent", func(ctx context.Context) error {
		_, err := w.first.Run(ctx, "pgrep -f '^journalctl -fu node-agent'")
		return err
	})
	return done
}

func TestTheAgentOfTheSourceIsKilledBetweenTheFreezeAndTheDump(t *testing.T) {
	w := twoOf(t, older, older)
	w.starts(w.first, w.Pod("counter", cluster.Images["counter"]))
	killed := w.whenFrozen("systemctl kill -s KILL node-agent")
	before := w.follow("counter")
	m := w.moves("counter")
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	m = w.Until(m, "is frozen", func(m *v1alpha1.Migration) error {
		if m.Status.Source == nil || m.Status.Source.Step == v1alpha1.SourcePrepared {
			return fmt.Errorf("the source says %+v", m.Status.Source)
		}
		return nil
	})
	if m.Status.Source.Step != v1alpha1.SourceFrozen {
		t.Fatalf("the agent was killed too late: it says %+v", m.Status.Source)
	}
	if _, err := w.first.Run(w.Context(), "systemctl reset-failed node-agent; systemctl start node-agent"); err != nil {
		t.Fatal(err)
	}
	m = w.Succeeded(m)
	w.LogDuration(m)
	w.continues(before, m.Status.Plan.RestoredPod)
}

func TestClocksFiveMinutesApartAreFoundBeforeTheFreeze(t *testing.T) {
	w := twoOf(t, older, older)
	w.starts(w.first, w.Pod("counter", cluster.Images["counter"]))
	before := w.follow("counter")
	for _, ahead := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
		if err := w.second.SetClock(w.Context(), ahead); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.second.SetClock(context.WithoutCancel(w.Context()), 0); err != nil {
				t.Error(err)
			}
		})
		m := w.RolledBack(w.moves("counter"), "clock")
		t.Logf("a clock that is %v off: %s", ahead, moves.EndMessage(m))
		if m.Status.Source == nil || m.Status.Source.FrozenAt != nil {
			t.Errorf("the counter was frozen: %+v", m.Status.Source)
		}
	}
	w.whole("counter", before)
}

func TestAReadOnlyRootWithoutTmpIsRefusedBeforeTheFreeze(t *testing.T) {
	w := twoOf(t, older, older)
	pod := w.Pod("counter", cluster.Images["counter"])
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)}
	w.starts(w.first, pod)
	before := w.follow("counter")
	m := w.End(w.moves("counter"))
	if m.Status.Phase != v1alpha1.MigrationRefused || m.Status.Source == nil || m.Status.Source.FrozenAt != nil || !strings.Contains(moves.EndMessage(m), "/tmp") {
		t.Errorf("it ended as %s: %s; the source says %+v; want it Refused without a freeze, and a message about /tmp", m.Status.Phase, moves.EndMessage(m), m.Status.Source)
	}
	w.whole("counter", before)
}
