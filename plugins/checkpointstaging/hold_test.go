package checkpointstaging

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/fixtures"
)

// recording implements the part of the framework that the plugin calls while it holds a pod.
type recording struct{ fwk.Handle }

func (recording) EventRecorder() fixtures.EventRecorder { return events.NewFakeRecorder(100) }

// fake is a Migration in memory, with its pods.
type fake struct {
	notifier notifier
	mu       sync.Mutex
	// m is the Migration, or nil if it is gone.
	m *v1alpha1.Migration
	// stale is what cached returns, if it is set.
	stale *v1alpha1.Migration
	// version counts its changes.
	version int
	// gonePods are the UIDs of pods that are gone, deletedPods of pods that are being deleted.
	gonePods, deletedPods map[types.UID]bool
	// unread is what cached returns, unreachable what live returns and denied what reserve
	// returns, if they are set.
	unread, unreachable, denied error
	// between runs before the next write, if it is set.
	between func(*v1alpha1.Migration)
	// writes are the reservations written, "" for none.
	writes []string
	// cleared counts how often the nominated node was cleared.
	cleared int
}

func (f *fake) clearNominatedNode(context.Context, *corev1.Pod) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cleared++
	return nil
}

func newFake() *fake {
	return &fake{version: 1, gonePods: map[types.UID]bool{}, deletedPods: map[types.UID]bool{}, m: &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "move", UID: "migration-uid", ResourceVersion: "1"},
		Spec:       v1alpha1.MigrationSpec{PodName: "job-0"},
		Status: v1alpha1.MigrationStatus{Order: v1alpha1.OrderPrepare, Plan: &v1alpha1.MigrationPlan{
			PodUID: "job-0", DeadlineAt: metav1.NewTime(noon.Add(10 * time.Minute)), RestoredPod: "job-0-moved", Backend: v1alpha1.BackendContainerd}},
	}}
}

// change changes the Migration as another component would, and notifies the plugin.
func (f *fake) change(change func(*v1alpha1.Migration)) {
	f.mu.Lock()
	f.edit(change)
	f.mu.Unlock()
	f.notifier.notify("migration-uid")
}

func (f *fake) edit(change func(*v1alpha1.Migration)) {
	m := f.m.DeepCopy()
	change(m)
	f.version++
	m.ResourceVersion = fmt.Sprint(f.version)
	f.m = m
}

func (f *fake) cached(_, _ string) (*v1alpha1.Migration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stale != nil {
		return f.stale, f.unread
	}
	return f.m, f.unread
}

func (f *fake) live(ctx context.Context, namespace, name string) (*v1alpha1.Migration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if namespace != "default" || name != "move" {
		return nil, fmt.Errorf("asked for %s/%s", namespace, name)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return f.m, f.unreachable
}

func (f *fake) reserve(_ context.Context, read *v1alpha1.Migration, r *v1alpha1.MigrationReservation) (*v1alpha1.Migration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.denied != nil {
		return nil, f.denied
	}
	if f.between != nil {
		f.edit(f.between)
		f.between = nil
	}
	if read.ResourceVersion != f.m.ResourceVersion {
		return nil, apierrors.NewConflict(v1alpha1.GroupVersion.WithResource(resource).GroupResource(), read.Name, nil)
	}
	f.edit(func(m *v1alpha1.Migration) { m.Status.Reservation = r })
	node := ""
	if r != nil {
		node = r.Node
	}
	f.writes = append(f.writes, node)
	return f.m, nil
}

func (f *fake) subscribe(uids ...types.UID) (<-chan struct{}, func()) {
	return f.notifier.subscribe(uids)
}

func (f *fake) pod(_, name string, uid types.UID) *corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gonePods[uid] {
		return nil
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
	if f.deletedPods[uid] {
		pod.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	return pod
}

// remove deletes a pod, and notifies the plugin.
func (f *fake) remove(uid types.UID) {
	f.mu.Lock()
	f.gonePods[uid] = true
	f.mu.Unlock()
	f.notifier.notify(uid)
}

func (f *fake) written() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%q", f.writes)
}

// holding is a plugin that holds a pod on node b.
type holding struct {
	t     *testing.T
	p     *Plugin
	f     *fake
	clock *clocktesting.FakeClock
	cycle fwk.CycleState
	pod   *corev1.Pod
	stop  context.CancelFunc
	done  chan *fwk.Status
}

// startHold starts to hold a pod, with the Migration as prepared.
func startHold(t *testing.T, prepare func(*fake)) *holding {
	t.Helper()
	p, f := newPlugin()
	if prepare != nil {
		prepare(f)
	}
	h := &holding{t: t, p: p, f: f, clock: p.clock.(*clocktesting.FakeClock), cycle: framework.NewCycleState(), pod: moved(checkpoint), done: make(chan *fwk.Status, 1)}
	if _, status := p.PreFilter(t.Context(), h.cycle, h.pod, infos(able("b", "avx2", "sse4_2"))); !status.IsSuccess() {
		t.Fatal(status)
	}
	ctx, stop := context.WithCancel(t.Context())
	h.stop = stop
	t.Cleanup(stop)
	go func() { h.done <- p.PreBind(ctx, h.cycle, h.pod, "b") }()
	return h
}

// waits blocks until the plugin waits.
func (h *holding) waits() {
	h.t.Helper()
	for !h.clock.HasWaiters() {
		select {
		case status := <-h.done:
			h.t.Fatalf("the pod is not held any more: %v", status)
		case <-h.t.Context().Done():
			h.t.Fatal("the plugin does not come to wait")
		case <-time.After(time.Millisecond): // let the plugin proceed
		}
	}
}

// ends returns how the hold ended, after calling Unreserve as the scheduler does.
func (h *holding) ends() *fwk.Status {
	h.t.Helper()
	select {
	case status := <-h.done:
		if !status.IsSuccess() {
			h.p.Unreserve(context.WithoutCancel(h.t.Context()), h.cycle, h.pod, "b")
			if h.f.cleared != 1 {
				h.t.Errorf("the nominated node was cleared %d times, want once", h.f.cleared)
			}
		}
		return status
	case <-time.After(time.Minute):
		h.t.Fatal("the pod is held still")
		return nil
	}
}

func (h *holding) want(status *fwk.Status, code fwk.Code, message, writes string) {
	h.t.Helper()
	if status.Code() != code || !strings.Contains(status.Message(), message) {
		h.t.Errorf("ended with %v %q, want %v %q", status.Code(), status.Message(), code, message)
	}
	if got := h.f.written(); got != writes {
		h.t.Errorf("reservations written: %s, want %s", got, writes)
	}
}

func TestAPodIsHeldOnItsReservedNodeUntilItsCheckpointIsThere(t *testing.T) {
	h := startHold(t, nil)
	h.waits()
	if r := h.f.m.Status.Reservation; r == nil || r.Node != "b" || r.PodUID != "job-0-moved" || !r.Time.Time.Equal(noon) {
		t.Errorf("reservation %+v", r)
	}
	h.f.change(func(m *v1alpha1.Migration) { m.Status.Order = v1alpha1.OrderFreeze })
	h.f.change(func(m *v1alpha1.Migration) {
		m.Status.Target = &v1alpha1.TargetReport{Node: "b", Step: v1alpha1.TargetPrepared}
	})
	h.clock.Step(6 * time.Minute) // more than the timeout, less than the deadline
	h.waits()
	h.f.change(func(m *v1alpha1.Migration) { m.Status.Target.Step = v1alpha1.TargetStaged })
	h.want(h.ends(), fwk.Success, "", `["b"]`)
	// Binding fails for another reason: the checkpoint stays on its node.
	h.p.Unreserve(t.Context(), h.cycle, h.pod, "b")
	h.want(nil, fwk.Success, "", `["b"]`)
}

func TestAPodThatIsNotBoundForAnotherReasonFreesItsNodeWhileAnotherWouldDo(t *testing.T) {
	h := startHold(t, nil)
	h.waits()
	h.f.mu.Lock()
	h.f.unreachable = apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource(resource).GroupResource(), "move", nil)
	h.f.mu.Unlock()
	h.clock.Step(5 * time.Minute)
	status := <-h.done
	h.f.unreachable = nil
	h.p.Unreserve(t.Context(), h.cycle, h.pod, "b")
	h.want(status, fwk.Error, "hold pod default/job-0-moved on node b for migration default/move", `["b" ""]`)
}

func TestTheRoomIsGivenAwayWhenNothingCanComeOfIt(t *testing.T) {
	set := func(change func(*v1alpha1.Migration)) func(*holding) {
		return func(h *holding) { h.f.change(change) }
	}
	tests := []struct {
		name          string
		happens       func(*holding)
		says, written string
	}{
		{"the agent fails", set(func(m *v1alpha1.Migration) {
			m.Status.Target = &v1alpha1.TargetReport{Node: "b", Step: v1alpha1.TargetFailed, Reason: "ImageMissing", Message: "pull it"}
		}), "cannot be restored on node b: ImageMissing: pull it", `["b" ""]`},
		{"nobody comes", func(h *holding) { h.clock.Step(5 * time.Minute) }, "was held on node b for 5m0s", `["b" ""]`},
		{"the checkpoint is late", func(h *holding) {
			h.f.change(func(m *v1alpha1.Migration) { m.Status.Order = v1alpha1.OrderFreeze })
			h.clock.Step(10 * time.Minute)
		}, "exceeded the deadline of its migration", `["b" ""]`},
		{"it is rolled back", set(func(m *v1alpha1.Migration) { m.Status.Order = v1alpha1.OrderThaw }), "with order Thaw", `["b"]`},
		{"the migration goes", func(h *holding) {
			h.f.mu.Lock()
			h.f.m = nil
			h.f.mu.Unlock()
			h.f.notifier.notify("migration-uid")
		}, "a migration that no longer exists", `["b"]`},
		{"the pod goes", func(h *holding) { h.f.remove("job-0-moved") }, "is being deleted", `["b"]`},
		{"the pod is told to go", func(h *holding) {
			h.f.mu.Lock()
			h.f.deletedPods["job-0-moved"] = true
			h.f.mu.Unlock()
			h.f.notifier.notify("job-0-moved")
		}, "is being deleted", `["b"]`},
		{"another takes the reservation", set(func(m *v1alpha1.Migration) { m.Status.Reservation.PodUID = "other" }), "has lost its reservation: it now belongs to pod UID other", `["b"]`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			h := startHold(t, nil)
			h.waits()
			tc.happens(h)
			h.want(h.ends(), fwk.Unschedulable, tc.says, tc.written)
		})
	}
}

func TestASchedulerThatStartsAgainContinuesWithTheReservationThereIs(t *testing.T) {
	h := startHold(t, func(f *fake) {
		f.m.Status.Order = v1alpha1.OrderFreeze
		f.m.Status.Reservation = &v1alpha1.MigrationReservation{Node: "b", PodUID: "job-0-moved"}
	})
	h.waits()
	h.f.change(func(m *v1alpha1.Migration) {
		m.Status.Target = &v1alpha1.TargetReport{Node: "b", Step: v1alpha1.TargetStaged}
	})
	h.want(h.ends(), fwk.Success, "", `[]`)
}

func TestASchedulerThatStopsLeavesTheReservationToTheNext(t *testing.T) {
	h := startHold(t, nil)
	h.waits()
	h.stop()
	status := <-h.done
	stopped, stop := context.WithCancel(t.Context())
	stop()
	h.p.Unreserve(stopped, h.cycle, h.pod, "b")
	h.want(status, fwk.Error, "the scheduler is shutting down", `["b"]`)
}

func TestAReservationIsNotWrittenOverAnOrderThatCameInBetween(t *testing.T) {
	h := startHold(t, func(f *fake) {
		f.between = func(m *v1alpha1.Migration) {
			m.Status.Order = v1alpha1.OrderFreeze
			m.Status.Reservation = &v1alpha1.MigrationReservation{Node: "a", PodUID: "job-0-moved"}
		}
	})
	h.want(h.ends(), fwk.Unschedulable, "has lost its reservation: it now belongs to pod UID job-0-moved on node a", `[]`)
}

func TestAReservationIsWrittenAgainAfterAChangeThatDoesNotMatter(t *testing.T) {
	h := startHold(t, func(f *fake) {
		f.between = func(m *v1alpha1.Migration) {
			m.Status.Source = &v1alpha1.SourceReport{Step: v1alpha1.SourcePrepared}
		}
	})
	h.waits()
	h.f.change(func(m *v1alpha1.Migration) { m.Status.Order = v1alpha1.OrderClean })
	h.want(h.ends(), fwk.Unschedulable, "with order Clean", `["b"]`)
}

func TestAPodIsHeldOnWhileTheAPIServerDoesNotAnswer(t *testing.T) {
	h := startHold(t, nil)
	h.waits()
	h.f.mu.Lock()
	h.f.unreachable = errUnreachable
	h.f.mu.Unlock()
	h.f.change(func(m *v1alpha1.Migration) {
		m.Status.Order = v1alpha1.OrderFreeze
		m.Status.Target = &v1alpha1.TargetReport{Node: "b", Step: v1alpha1.TargetStaged}
	})
	for range 3 {
		h.waits()
		h.clock.Step(retry)
	}
	h.f.mu.Lock()
	h.f.unreachable = nil
	h.f.mu.Unlock()
	h.f.notifier.notify("migration-uid")
	h.want(h.ends(), fwk.Success, "", `["b"]`)
}

func TestAPodIsNotHeldOnANodeThatCannotBeReserved(t *testing.T) {
	forbidden := apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("migrations").GroupResource(), "move", nil)
	t.Run("no right to read", func(t *testing.T) {
		h := startHold(t, func(f *fake) { f.unreachable = forbidden })
		h.want(h.ends(), fwk.Error, "forbidden", `[]`)
	})
	t.Run("no answer", func(t *testing.T) {
		h := startHold(t, func(f *fake) { f.unreachable = errUnreachable })
		h.want(h.ends(), fwk.Error, "connection refused", `[]`)
	})
	t.Run("no right to write", func(t *testing.T) {
		h := startHold(t, func(f *fake) { f.denied = forbidden })
		h.want(h.ends(), fwk.Error, "reserve the node", `[]`)
	})
}

func TestAReservationIsUndoneAlsoIfTheMigrationChangesMeanwhile(t *testing.T) {
	h := startHold(t, nil)
	h.waits()
	h.f.mu.Lock()
	h.f.between = func(m *v1alpha1.Migration) { m.Status.Phase = v1alpha1.MigrationReserving }
	h.f.mu.Unlock()
	h.clock.Step(5 * time.Minute)
	h.want(h.ends(), fwk.Unschedulable, "was held", `["b" ""]`)
}

func TestAReservationOfAnotherIsNotUndone(t *testing.T) {
	h := startHold(t, nil)
	h.waits()
	h.f.mu.Lock()
	h.f.between = func(m *v1alpha1.Migration) { m.Status.Reservation.Node = "a" }
	h.f.mu.Unlock()
	h.clock.Step(5 * time.Minute)
	h.want(h.ends(), fwk.Unschedulable, "was held", `["b"]`)
}

func TestAPodThatWasNotHeldHasNothingToUndo(t *testing.T) {
	p, f := newPlugin()
	f.m.Status.Reservation = &v1alpha1.MigrationReservation{Node: "b", PodUID: "job-0-moved"} // from the previous scheduler
	cycle, pod := framework.NewCycleState(), moved(checkpoint)
	if _, status := p.PreFilter(t.Context(), cycle, pod, infos(able("b", "avx2", "sse4_2"))); !status.IsSuccess() {
		t.Fatal(status)
	}
	p.Unreserve(t.Context(), cycle, pod, "b") // rejected by another plugin
	if got := f.written(); got != "[]" {
		t.Errorf("reservations written: %s, want none", got)
	}
}

func TestAStaleCacheDoesNotMakeThePodLoseItsReservation(t *testing.T) {
	h := startHold(t, nil)
	h.waits()
	h.f.mu.Lock()
	h.f.stale = h.f.m.DeepCopy()
	h.f.stale.Status.Reservation, h.f.stale.ResourceVersion = nil, "1"
	h.f.mu.Unlock()
	h.f.change(func(m *v1alpha1.Migration) {
		m.Status.Order = v1alpha1.OrderFreeze
		m.Status.Target = &v1alpha1.TargetReport{Node: "b", Step: v1alpha1.TargetStaged}
	})
	h.want(h.ends(), fwk.Success, "", `["b"]`)
}

func TestASignalWakesThoseWhoWait(t *testing.T) {
	var b notifier
	b.notify("a") // no subscriber
	one, endOne := b.subscribe([]types.UID{"a", "b"})
	two, endTwo := b.subscribe([]types.UID{"b"})
	b.notify("a")
	b.notify("a")
	if len(one) != 1 || len(two) != 0 {
		t.Errorf("%d and %d values, want 1 and 0", len(one), len(two))
	}
	endOne()
	b.notify("b")
	if len(one) != 1 || len(two) != 1 {
		t.Errorf("%d and %d values, want 1 and 1", len(one), len(two))
	}
	if endTwo(); len(b.waiting) != 0 {
		t.Errorf("%d objects are kept although nobody waits", len(b.waiting))
	}
}
