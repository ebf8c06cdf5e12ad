package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// createdAt is a pod that was created at a time.
func createdAt(name string, at time.Time) *corev1.Pod {
	p := testPod(name, 1000, 1024, time.Hour)
	p.CreationTimestamp = metav1.NewTime(at)
	return p
}

func podsThatCame(came []arrival) (names []string) {
	for _, c := range came {
		names = append(names, c.pod.Name)
	}
	return names
}

func TestPodsThatCameLatelyAreRememberedTheLastFirst(t *testing.T) {
	var a arrivals
	if came, watched := a.recent(epoch, time.Hour); len(came) > 0 || watched != 0 {
		t.Errorf("%v came within %v before anything was seen", podsThatCame(came), watched)
	}
	a.observe(nil, createdAt("old", epoch.Add(-time.Minute)), epoch)
	for i := range 3 {
		at := epoch.Add(time.Duration(i) * 10 * time.Second)
		p := createdAt(fmt.Sprintf("p%d", i), at)
		a.observe(nil, p, at)
		a.observe(p, p, at.Add(time.Second))
	}
	a.observe(createdAt("p0", epoch), nil, epoch.Add(25*time.Second)) // it came all the same
	for _, tc := range []struct {
		now, within time.Duration
		want        []string
		watched     time.Duration
	}{
		{25 * time.Second, time.Minute, []string{"p2", "p1", "p0"}, 25 * time.Second},
		{25 * time.Second, 15 * time.Second, []string{"p2"}, 15 * time.Second},
		{time.Hour, time.Minute, nil, time.Minute},
	} {
		came, watched := a.recent(epoch.Add(tc.now), tc.within)
		if diff := cmp.Diff(tc.want, podsThatCame(came)); diff != "" || watched != tc.watched {
			t.Errorf("at %v, watched for %v, want %v; pods (-want +got):\n%s", tc.now, watched, tc.watched, diff)
		}
	}
}

func TestWhenManyPodsComeThoseOfAShorterTimeStandForThem(t *testing.T) {
	var a arrivals
	last := epoch
	for i := range mostArrivals + 100 {
		last = epoch.Add(time.Duration(i) * time.Millisecond)
		a.observe(nil, createdAt(fmt.Sprint(i), last), last)
	}
	came, watched := a.recent(last, time.Hour)
	if len(came) != mostArrivals || watched != (mostArrivals-1)*time.Millisecond {
		t.Errorf("%d pods within %v", len(came), watched)
	}
}

// TestAPodWaitsSinceItWasSeenToHaveNoRoom: conditions round down to seconds.
func TestAPodWaitsSinceItWasSeenToHaveNoRoom(t *testing.T) {
	at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
	pod := func() *corev1.Pod {
		p := createdAt("p", epoch)
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(epoch),
		}}
		return p
	}
	tests := []struct {
		name string
		do   func(a *arrivals)
		want time.Time
	}{
		{"seen at once", func(a *arrivals) { a.observe(nil, pod(), at(700)) }, at(700)},
		{"seen again", func(a *arrivals) { a.observe(nil, pod(), at(300)); a.observe(pod(), pod(), at(900)) }, at(300)},
		{"seen too late to be true, as after a restart", func(a *arrivals) { a.observe(nil, pod(), at(1000)) }, at(0)},
		{"never seen", func(*arrivals) {}, at(0)},
		{"a clock that is behind", func(a *arrivals) { a.observe(nil, pod(), at(-1)) }, at(0)},
		{"bound in between", func(a *arrivals) {
			a.observe(nil, pod(), at(-5000))
			a.observe(pod(), createdAt("p", epoch), at(-4000))
			a.observe(createdAt("p", epoch), pod(), at(200))
		}, at(200)},
		{"another of that name", func(a *arrivals) {
			a.observe(nil, pod(), at(-5000))
			a.observe(pod(), nil, at(-4000))
			a.observe(nil, pod(), at(200))
		}, at(200)},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var a arrivals
			tc.do(&a)
			if got := a.since("default/p", epoch); !got.Equal(tc.want) {
				t.Errorf("it waits since %v, want %v", got.Sub(epoch), tc.want.Sub(epoch))
			}
		})
	}
}

// TestWhatTheWatchTellsReachesTheArrivals goes by the handler of Events.
func TestWhatTheWatchTellsReachesTheArrivals(t *testing.T) {
	m := newModel(t, nil, nil)
	matters := m.r.podMatters()
	pod := createdAt("p", epoch)
	matters.Create(event.CreateEvent{Object: pod})
	if came, _ := m.r.came.recent(epoch, time.Hour); len(came) != 1 {
		t.Errorf("%v came", podsThatCame(came))
	}
	waiting := waitingPod(pod.DeepCopy())
	matters.Update(event.UpdateEvent{ObjectOld: pod, ObjectNew: waiting})
	if len(m.r.came.waiting) != 1 {
		t.Errorf("%v wait", m.r.came.waiting)
	}
	matters.Delete(event.DeleteEvent{Object: waiting})
	if len(m.r.came.waiting) != 0 {
		t.Errorf("%v wait after it has gone", m.r.came.waiting)
	}
}
