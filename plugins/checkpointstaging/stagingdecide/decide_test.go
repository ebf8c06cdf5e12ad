package stagingdecide_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/plugins/checkpointstaging/stagingdecide"
)

var (
	noon     = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	deadline = noon.Add(10 * time.Minute)
	timeout  = 5 * time.Minute
	pod      = stagingdecide.Pod{Name: "job-0-moved", UID: "pod-uid", Migration: "migration-uid"}
)

type change = func(*v1alpha1.Migration)

// migration is a Migration whose new pod can be placed.
func migration(changes ...change) *v1alpha1.Migration {
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "move", UID: "migration-uid"},
		Spec:       v1alpha1.MigrationSpec{PodName: "job-0"},
		Status: v1alpha1.MigrationStatus{
			Phase: v1alpha1.MigrationReserving, Order: v1alpha1.OrderPrepare,
			Plan: &v1alpha1.MigrationPlan{DeadlineAt: metav1.NewTime(deadline), RestoredPod: pod.Name, Backend: v1alpha1.BackendContainerd},
		},
	}
	for _, c := range changes {
		c(m)
	}
	return m
}

func order(o v1alpha1.MigrationOrder) change {
	return func(m *v1alpha1.Migration) { m.Status.Order = o }
}

func phase(p v1alpha1.MigrationPhase) change {
	return func(m *v1alpha1.Migration) { m.Status.Phase = p }
}

func backend(b v1alpha1.MigrationBackend) change {
	return func(m *v1alpha1.Migration) { m.Status.Plan.Backend = b }
}

func reserved(node, uid string) change {
	return func(m *v1alpha1.Migration) {
		m.Status.Reservation = &v1alpha1.MigrationReservation{Node: node, PodUID: uid}
	}
}

func target(node string, step v1alpha1.TargetStep) change {
	return func(m *v1alpha1.Migration) {
		m.Status.Target = &v1alpha1.TargetReport{Node: node, Step: step, Reason: "ImageMissing", Message: "pull busybox first"}
	}
}

func source(step v1alpha1.SourceStep) change {
	return func(m *v1alpha1.Migration) { m.Status.Source = &v1alpha1.SourceReport{Step: step} }
}

const (
	freeze = v1alpha1.OrderFreeze
	kill   = v1alpha1.OrderKill
)

func TestAPodIsPlacedWhereItsMigrationIs(t *testing.T) {
	own := reserved("b", "pod-uid")
	tests := []struct {
		name    string
		m       *v1alpha1.Migration
		now     time.Time
		node    string
		refusal string
	}{
		{"anywhere at first", migration(), noon, "", ""},
		{"anywhere as long as no order is given", migration(order("")), noon, "", ""},
		{"anywhere again although a node was reserved", migration(own), noon, "", ""},
		{"on its reserved node once its checkpoint is on the way", migration(order(freeze), own), noon, "b", ""},
		{"and later", migration(order(kill), own, target("b", v1alpha1.TargetStaged)), deadline.Add(time.Hour), "b", ""},
		{"nowhere if another pod has the reservation", migration(order(freeze), reserved("b", "other")), noon, "", "has lost its reservation after order Freeze"},
		{"nowhere if nothing is reserved", migration(order(freeze)), noon, "", "has lost its reservation"},
		{"nowhere without a migration", nil, noon, "", "is the new pod of a migration that no longer exists"},
		{"nor with one that has come in its place", migration(func(m *v1alpha1.Migration) { m.UID = "later" }), noon, "", "that no longer exists"},
		{"nor without a plan", migration(func(m *v1alpha1.Migration) { m.Status.Plan = nil }), noon, "", "without a plan"},
		{"nor if it is a copy of the new pod", migration(func(m *v1alpha1.Migration) { m.Status.Plan.RestoredPod = "original" }), noon, "", "which is original"},
		{"nor in a roll-back that has just begun", migration(order(freeze), own, phase(v1alpha1.MigrationRollingBack)), noon, "", "in phase RollingBack"},
		{"nor after it", migration(order(v1alpha1.OrderThaw), own), noon, "", "with order Thaw"},
		{"nor after the end", migration(order(v1alpha1.OrderClean)), noon, "", "with order Clean"},
		{"nor after a success", migration(phase(v1alpha1.MigrationSucceeded)), noon, "", "in phase Succeeded"},
		{"nor after a refusal", migration(phase(v1alpha1.MigrationRefused)), noon, "", "in phase Refused"},
		{"nor where the agent cannot do it", migration(own, target("b", v1alpha1.TargetFailed)), noon, "",
			"cannot be restored on node b: ImageMissing: pull busybox first"},
		{"nor past the deadline", migration(), deadline, "", "exceeded the deadline of its migration, 2026-01-01T12:10:00Z"},
		{"nor past the deadline on its way", migration(order(freeze), own), deadline, "", "exceeded the deadline of its migration"},
		{"up to the deadline", migration(), deadline.Add(-1), "", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := stagingdecide.Place(tc.m, pod, tc.now)
			if got.Node != tc.node || !strings.Contains(got.Refusal, tc.refusal) || (got.Refusal == "") != (tc.refusal == "") {
				t.Errorf("got %+v, want node %q, refusal %q", got, tc.node, tc.refusal)
			}
		})
	}
}

func TestAHeldPodIsBoundWhenItCanStartAndNotBefore(t *testing.T) {
	own := reserved("b", "pod-uid")
	wait := func(until time.Time) stagingdecide.Next {
		return stagingdecide.Next{Step: stagingdecide.Wait, Until: until}
	}
	giveUp := func(reason string) stagingdecide.Next {
		return stagingdecide.Next{Step: stagingdecide.GiveUp, Reason: reason}
	}
	undo := func(reason string) stagingdecide.Next {
		return stagingdecide.Next{Step: stagingdecide.GiveUp, Reason: reason, Undo: true}
	}
	bind, reserve := stagingdecide.Next{Step: stagingdecide.Bind}, stagingdecide.Next{Step: stagingdecide.Reserve}
	limit := noon.Add(timeout)
	tests := []struct {
		name string
		m    *v1alpha1.Migration
		held func(*stagingdecide.Held)
		now  time.Time
		want stagingdecide.Next
	}{
		{"a node is reserved first", migration(), nil, noon, reserve},
		{"in the place of one that was reserved before", migration(reserved("a", "pod-uid")), nil, noon, reserve},
		{"or for a pod before this one", migration(reserved("b", "before")), nil, noon, reserve},
		{"then it waits for the agents", migration(own), nil, noon, wait(limit)},
		{"and while its checkpoint is on the way", migration(own, order(freeze), target("b", v1alpha1.TargetPrepared)), nil, noon, wait(deadline)},
		{"until that is staged", migration(own, order(freeze), target("b", v1alpha1.TargetStaged)), nil, noon, bind},
		{"even at the last moment", migration(own, order(freeze), target("b", v1alpha1.TargetStaged)), nil, deadline.Add(time.Hour), bind},
		{"not somewhere else", migration(own, order(freeze), target("a", v1alpha1.TargetStaged)), nil, noon, wait(deadline)},
		{"nor for a report from before the order", migration(own, target("b", v1alpha1.TargetStaged)), nil, noon, wait(limit)},
		{"an image that is cleaned up is not there", migration(own, order(freeze), target("b", v1alpha1.TargetCleaned)), nil, noon, wait(deadline)},
		{"a scheduler that comes late finds it staged", migration(own, order(kill), target("b", v1alpha1.TargetStaged)), nil, noon, bind},

		{"it gives up when the migration is gone", nil, nil, noon, giveUp("Gone")},
		{"or another", migration(own, func(m *v1alpha1.Migration) { m.UID = "later" }), nil, noon, giveUp("Gone")},
		{"or without a plan", migration(own, func(m *v1alpha1.Migration) { m.Status.Plan = nil }), nil, noon, giveUp("Gone")},
		{"when it is rolled back, and leaves the agent its word", migration(own, order(freeze), phase(v1alpha1.MigrationRollingBack)), nil, noon, giveUp("RollingBack")},
		{"even if staged", migration(own, order(v1alpha1.OrderThaw), target("b", v1alpha1.TargetStaged)), nil, noon, giveUp("Thaw")},
		{"when the pod is deleted", migration(own, order(freeze), target("b", v1alpha1.TargetStaged)),
			func(h *stagingdecide.Held) { h.Deleted = true }, noon, giveUp("Deleted")},
		{"when the agent fails, and takes its word back", migration(own, order(freeze), target("b", v1alpha1.TargetFailed)), nil, noon, undo("TargetFailed")},
		{"when the agents do not come", migration(own), nil, limit, undo("Timeout")},
		{"not before", migration(own), nil, limit.Add(-1), wait(limit)},
		{"earlier if the deadline is", migration(own, func(m *v1alpha1.Migration) { m.Status.Plan.DeadlineAt = metav1.NewTime(noon.Add(time.Minute)) }),
			nil, noon.Add(time.Minute), undo("Timeout")},
		{"when the checkpoint is late", migration(own, order(freeze)), nil, deadline, undo("Timeout")},
		{"at the deadline, however long the timeout", migration(own), func(h *stagingdecide.Held) { h.Timeout = time.Hour }, deadline, undo("Timeout")},
		{"nothing is reserved past the deadline", migration(), nil, deadline, undo("Timeout")},
		{"when the reservation is given to another", migration(reserved("b", "other")), func(h *stagingdecide.Held) { h.Reserved = true }, noon, giveUp("Lost")},
		{"or undone", migration(), func(h *stagingdecide.Held) { h.Reserved = true }, noon, giveUp("Lost")},
		{"when the checkpoint goes to another node", migration(reserved("a", "pod-uid"), order(freeze)), nil, noon, giveUp("Lost")},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			h := stagingdecide.Held{Pod: pod, Node: "b", Since: noon, Timeout: timeout}
			if tc.held != nil {
				tc.held(&h)
			}
			got := h.Next(tc.m, tc.now)
			if (got.Message != "") != (got.Step == stagingdecide.GiveUp) {
				t.Errorf("message %q with step %s", got.Message, got.Step)
			}
			if got.Message = ""; got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestWhatIsSaidOfAPodThatIsAbandonedHelps(t *testing.T) {
	h := stagingdecide.Held{Pod: pod, Node: "b", Since: noon, Timeout: timeout, Reserved: true}
	own := reserved("b", "pod-uid")
	for want, next := range map[string]stagingdecide.Next{
		"was held on node b for 5m0s":                            h.Next(migration(own), noon.Add(timeout)),
		"exceeded the deadline of its migration, 2026-01-01T12:": h.Next(migration(own, order(freeze)), deadline),
		"it now belongs to pod UID other on node c":              h.Next(migration(reserved("c", "other")), noon),
		"has lost its reservation: the reservation was released": h.Next(migration(), noon),
		"on node b: ImageMissing: pull busybox first":            h.Next(migration(own, target("b", v1alpha1.TargetFailed)), noon),
		"is being deleted":                                       stagingdecide.Held{Pod: pod, Node: "b", Deleted: true}.Next(migration(own), noon),
	} {
		if !strings.Contains(next.Message, want) {
			t.Errorf("message %q does not say %q", next.Message, want)
		}
	}
}

func TestAPodIsTriedAgainWhenItsMigrationLetsIt(t *testing.T) {
	own := reserved("b", "pod-uid")
	tests := []struct {
		name          string
		before, after *v1alpha1.Migration
		want          bool
	}{
		{"the scheduler hears of the migration", nil, migration(), true},
		{"it gets a plan", migration(func(m *v1alpha1.Migration) { m.Status.Plan = nil }), migration(), true},
		{"the reservation is undone", migration(own), migration(), true},
		{"a reservation comes back", migration(order(freeze)), migration(order(freeze), own), true},
		{"the order pins it", migration(own), migration(own, order(freeze)), true},
		{"a report", migration(own), migration(own, source(v1alpha1.SourcePrepared)), false},
		{"a first reservation", migration(), migration(own), false},
		{"the end", migration(own), migration(own, order(v1alpha1.OrderThaw)), false},
		{"the reservation is undone with its checkpoint on the way", migration(own, order(freeze)), migration(order(freeze)), false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := stagingdecide.Reconsider(tc.before, tc.after, pod); got != tc.want {
				t.Errorf("tried again: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestWhateverTheMigrationSaysThePodIsNotBoundTooEarly goes through random states, most of which cannot occur, and
// checks each step against the two rules of the package.
func TestWhateverTheMigrationSaysThePodIsNotBoundTooEarly(t *testing.T) {
	steps := map[stagingdecide.Step]int{}
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 0))
		m := randomMigration(r)
		h := stagingdecide.Held{Pod: pod, Node: "b", Since: noon, Timeout: timeout,
			Reserved: r.IntN(2) == 0, Deleted: r.IntN(8) == 0}
		now := noon.Add(time.Duration(r.IntN(12)) * time.Minute)
		next := h.Next(m, now)
		steps[next.Step]++
		if wrong := breach(h, m.Status, next, now); wrong != "" {
			t.Fatalf("seed %d: %s: %+v of %+v, held %+v", seed, wrong, next, m.Status, h)
		}
	}
	for _, step := range []stagingdecide.Step{stagingdecide.Bind, stagingdecide.Reserve, stagingdecide.Wait, stagingdecide.GiveUp} {
		if steps[step] < 100 {
			t.Errorf("step %s came %d times: too few for a test", step, steps[step])
		}
	}
}

// breach returns the rule that a step violates.
func breach(h stagingdecide.Held, s v1alpha1.MigrationStatus, next stagingdecide.Next, now time.Time) string {
	own := s.Reservation != nil && s.Reservation.Node == "b" && s.Reservation.PodUID == "pod-uid"
	switch next.Step {
	case stagingdecide.Bind:
		switch {
		case !own || h.Deleted:
			return "bound without a reservation"
		case !staged(s):
			return "started without its checkpoint"
		}
	case stagingdecide.Reserve:
		if s.Order != "Prepare" {
			return "reserved again for a checkpoint that is on its way"
		}
	case stagingdecide.Wait:
		if !own || !next.Until.After(now) {
			return "held for nothing"
		}
	case stagingdecide.GiveUp:
		if next.Undo && (s.Order == "Thaw" || s.Order == "Clean" || s.Phase == "RollingBack") {
			return "undone from the agent that has to clean up"
		}
	}
	return ""
}

func staged(s v1alpha1.MigrationStatus) bool {
	return (s.Order == "Freeze" || s.Order == "Kill") && s.Target != nil && s.Target.Node == "b" && s.Target.Step == "Staged"
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func randomMigration(r *rand.Rand) *v1alpha1.Migration {
	m := migration(
		order(pick(r, v1alpha1.OrderPrepare, freeze, freeze, kill, kill, v1alpha1.OrderThaw, v1alpha1.OrderClean)),
		phase(pick(r, v1alpha1.MigrationReserving, v1alpha1.MigrationMoving, v1alpha1.MigrationHandingOver, v1alpha1.MigrationRollingBack)),
		backend(pick(r, v1alpha1.BackendContainerd, v1alpha1.BackendSimulated)))
	if r.IntN(4) > 0 {
		reserved(pick(r, "a", "b", "b", "b"), pick(r, "pod-uid", "pod-uid", "pod-uid", "other"))(m)
	}
	if r.IntN(3) > 0 {
		target(pick(r, "a", "b", "b"), pick(r, v1alpha1.TargetPrepared, v1alpha1.TargetStaged, v1alpha1.TargetStaged, v1alpha1.TargetCleaned, v1alpha1.TargetFailed))(m)
	}
	if r.IntN(3) > 0 {
		source(pick(r, v1alpha1.SourcePrepared, v1alpha1.SourceFrozen, v1alpha1.SourceShipped, v1alpha1.SourceKilled, v1alpha1.SourceCleaned))(m)
	}
	return m
}
