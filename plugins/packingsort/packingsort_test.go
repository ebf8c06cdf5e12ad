package packingsort

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"

	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/test/fixtures"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newPlugin() *Plugin {
	return &Plugin{learner: runtimes.NewLearner(), frozen: lru.New(maxFrozen)}
}

// queued is the queue entry of a pod when it is created.
func queued(t testing.TB, pod *corev1.Pod) *framework.QueuedPodInfo {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return queuedAt(info, pod.CreationTimestamp.Time)
}

func queuedAt(info *framework.PodInfo, at time.Time) *framework.QueuedPodInfo {
	q := &framework.QueuedPodInfo{PodInfo: info}
	q.Timestamp = at // which later versions have in a struct of its own
	return q
}

func createdAt(after time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(epoch.Add(after)) }
}

func priority(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &n }
}

func TestOrderOfTheQueue(t *testing.T) {
	const mi, gi = int64(1) << 20, int64(1) << 30
	now := createdAt(0)
	tests := []struct {
		name string
		want []*corev1.Pod // in order; the queue gets them shuffled
	}{
		{"batch by runtime descending", []*corev1.Pod{
			fixtures.Pod("c", 1, 1, fixtures.Batch("12h"), now), fixtures.Pod("b", 1, 1, fixtures.Batch("11h"), now),
			fixtures.Pod("a", 9000, 9*gi, fixtures.Batch("1m"), now)}},
		{"services by memory class, then CPU class", []*corev1.Pod{
			fixtures.Pod("d", 100, 8*gi, now), fixtures.Pod("c", 800, 2*gi, now),
			fixtures.Pod("b", 100, 2*gi, now), fixtures.Pod("a", 1, mi, now)}},
		{"sizes of one class by age", []*corev1.Pod{
			fixtures.Pod("b", 100, 1100*mi, createdAt(0)), fixtures.Pod("a", 101, 1200*mi, createdAt(time.Second))}},
		{"priority before all else", []*corev1.Pod{
			fixtures.Pod("a", 1, 1, priority(1), createdAt(time.Hour)), fixtures.Pod("b", 9000, 9*gi, now),
			fixtures.Pod("c", 9000, 9*gi, priority(-1), createdAt(-time.Hour))}},
		{"a small pod that has waited for ten minutes before any large one", []*corev1.Pod{
			fixtures.Pod("a", 1, 1, now), fixtures.Pod("b", 1, 1, fixtures.Batch("9000h"), createdAt(maxLead)),
			fixtures.Pod("c", 1<<40, math.MaxInt64, createdAt(maxLead))}},
		{"a malformed runtime counts as the default", []*corev1.Pod{
			fixtures.Pod("c", 1, 1, fixtures.Batch("11m"), now), fixtures.Pod("b", 1, 1, fixtures.Batch("soon"), now),
			fixtures.Pod("a", 1, 1, fixtures.Batch("9m"), now)}},
		{"equals by name", []*corev1.Pod{fixtures.Pod("a", 1, 1, now), fixtures.Pod("b", 1, 1, now)}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p, r := newPlugin(), rand.New(rand.NewPCG(1, 1))
			var want []string
			queue := make([]waiting, 0, len(tc.want))
			for _, pod := range tc.want {
				want = append(want, pod.Name)
				queue = append(queue, queued(t, pod))
			}
			r.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
			slices.SortFunc(queue, func(a, b waiting) int {
				if p.Less(a, b) {
					return -1
				}
				return 1
			})
			var got []string
			for _, q := range queue {
				got = append(got, nameOf(q).name)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

// failedAt is the queue entry of a pod after the given number of attempts, the last of which failed the given time
// after the epoch.
func failedAt(t testing.TB, pod *corev1.Pod, after time.Duration, attempts int, rejectedBy ...string) *framework.QueuedPodInfo {
	q := queued(t, pod)
	q.Timestamp, q.Attempts, q.UnschedulableCount = epoch.Add(after), attempts, attempts
	q.UnschedulablePlugins = sets.New(rejectedBy...)
	return q
}

func TestFailedPodsStandBehindPodsCreatedBeforeTheyFailed(t *testing.T) {
	const gi = int64(1) << 30
	pod := func(name string, change ...func(*corev1.Pod)) *corev1.Pod {
		return fixtures.Pod(name, 100, gi/4, change...)
	}
	hour := fixtures.Batch("100h")
	tests := []struct {
		name string
		want []*framework.QueuedPodInfo // in order
	}{
		{"a new pod before a large and old one that failed since", []*framework.QueuedPodInfo{
			queued(t, pod("new", createdAt(time.Hour))),
			failedAt(t, pod("old", hour, createdAt(0)), time.Hour+time.Second, 7, "NodeResourcesFit")}},
		{"a failed pod before those created long after", []*framework.QueuedPodInfo{
			failedAt(t, pod("old", createdAt(0)), time.Hour, 1, "NodeResourcesFit"),
			queued(t, pod("new", createdAt(time.Hour+maxLead+retryWindow)))}},
		{"size decides among pods that failed in one window, whichever failed first", []*framework.QueuedPodInfo{
			failedAt(t, pod("c", fixtures.Batch("12h"), createdAt(0)), 9*time.Second, 3),
			failedAt(t, pod("b", fixtures.Batch("11h"), createdAt(0)), 5*time.Second, 1),
			failedAt(t, pod("a", fixtures.Batch("1m"), createdAt(0)), 0, 1)}},
		{"so does age, and no large pod overtakes one ten minutes older", []*framework.QueuedPodInfo{
			failedAt(t, pod("small", createdAt(0)), time.Hour+time.Second, 9),
			failedAt(t, pod("large", hour, createdAt(maxLead)), time.Hour, 9)}},
		{"the earlier window first", []*framework.QueuedPodInfo{
			failedAt(t, pod("small", createdAt(time.Minute)), time.Hour-time.Second, 1),
			failedAt(t, pod("large", hour, createdAt(0)), time.Hour, 1)}},
		{"an error counts as a failure", []*framework.QueuedPodInfo{
			queued(t, pod("new", createdAt(time.Hour))),
			failedAt(t, pod("old", hour, createdAt(0)), time.Hour, 1)}},
		{"a pod that only its narrowed node rejected keeps its place", []*framework.QueuedPodInfo{
			failedAt(t, pod("narrowed", hour, createdAt(0)), time.Hour, 1, "BestFit", "NodeAffinity"),
			failedAt(t, pod("batch", createdAt(0)), time.Hour, 1, "TimeBin"),
			queued(t, pod("new", createdAt(time.Second)))}},
		{"but not a second time", []*framework.QueuedPodInfo{
			queued(t, pod("new", createdAt(time.Second))),
			failedAt(t, pod("narrowed", hour, createdAt(0)), time.Hour, 2, "BestFit", "NodeAffinity")}},
		{"priority before all else", []*framework.QueuedPodInfo{
			failedAt(t, pod("high", priority(1), createdAt(0)), time.Hour, 9),
			queued(t, pod("new", createdAt(0)))}},
		{"an API server's clock that is ahead holds no new pod back", []*framework.QueuedPodInfo{
			queuedAt(queued(t, pod("new", createdAt(time.Hour))).PodInfo, epoch),
			failedAt(t, pod("old", createdAt(0)), time.Second, 1)}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlugin()
			for i, a := range tc.want {
				for _, b := range tc.want[i+1:] {
					if !p.Less(a, b) || p.Less(b, a) {
						t.Errorf("%s does not stand before %s", a.Pod.Name, b.Pod.Name)
					}
				}
			}
		})
	}
}

// manyPods returns new and failed pods of all sizes, some of them equal except for their names.
func manyPods(t *testing.T, n int, r *rand.Rand) []*framework.QueuedPodInfo {
	pods := make([]*framework.QueuedPodInfo, n)
	for i := range pods {
		pod := fixtures.Pod(fmt.Sprintf("p%03d", i), r.Int64N(64000), r.Int64N(1<<40), createdAt(time.Duration(r.Int64N(3600))*time.Second))
		switch i % 4 {
		case 0:
			fixtures.Batch(time.Duration(1 + r.Int64N(int64(100*time.Hour))).String())(pod)
		case 1:
			pod = fixtures.Pod(pod.Name, 100, 1<<30, createdAt(0))
		}
		pods[i] = queued(t, pod)
		if r.IntN(2) == 0 {
			after := max(pod.CreationTimestamp.Sub(epoch), time.Duration(3500+r.IntN(100))*time.Second)
			pods[i] = failedAt(t, pod, after, 1+r.IntN(3), [][]string{nil, {"NodeResourcesFit"}, {"BestFit"}}[r.IntN(3)]...)
		}
	}
	return pods
}

func TestTheOrderIsTotalAndTransitive(t *testing.T) {
	p := newPlugin()
	pods := manyPods(t, 120, rand.New(rand.NewPCG(5, 5)))
	for _, a := range pods {
		if p.Less(a, a) {
			t.Fatalf("%s is before itself", a.Pod.Name)
		}
		for _, b := range pods {
			if a != b && p.Less(a, b) == p.Less(b, a) {
				t.Fatalf("%s and %s are in no order", a.Pod.Name, b.Pod.Name)
			}
			for _, c := range pods {
				if p.Less(a, b) && p.Less(b, c) && !p.Less(a, c) {
					t.Fatalf("%s is before %s, that before %s, but not the first before the last", a.Pod.Name, b.Pod.Name, c.Pod.Name)
				}
			}
		}
	}
}

// TestNobodyWaitsLongerThanTheBound checks the bound on starvation for every pair of pods.
func TestNobodyWaitsLongerThanTheBound(t *testing.T) {
	p := newPlugin()
	pods := manyPods(t, 300, rand.New(rand.NewPCG(7, 7)))
	stock := &queuesort.PrioritySort{}
	for _, a := range pods {
		for _, b := range pods {
			if !p.Less(a, b) {
				continue
			}
			younger := a.Pod.CreationTimestamp.Sub(b.Pod.CreationTimestamp.Time)
			switch {
			case failed(a) == failed(b) && younger > maxLead && (!failed(a) || a.Timestamp.Truncate(retryWindow).Equal(b.Timestamp.Truncate(retryWindow))):
				t.Fatalf("%s overtakes %s, which is %v older", a.Pod.Name, b.Pod.Name, younger)
			case failed(a) && !failed(b) && b.Attempts == 0 && stock.Less(b, a):
				t.Fatalf("%s has failed since the new pod %s came, and stands before it; the stock order has it behind", a.Pod.Name, b.Pod.Name)
			case !failed(a) && failed(b) && a.Pod.CreationTimestamp.Sub(b.Timestamp) > maxLead+retryWindow:
				t.Fatalf("%s overtakes %s, which failed more than %v before it was created", a.Pod.Name, b.Pod.Name, maxLead+retryWindow)
			}
		}
	}
}

// TestKeysAreConstantInKubernetesQueue guards the heaps of kube-scheduler's own queue: pods are created, tried, fail,
// back off and are activated, and the key of a pod may change only while the pod is not in the queue.
func TestKeysAreConstantInKubernetesQueue(t *testing.T) {
	metrics.Register()
	logger := klog.FromContext(t.Context())
	p, r, clk := newPlugin(), rand.New(rand.NewPCG(3, 3)), clocktesting.NewFakeClock(epoch)
	held := map[name]key{} // the keys of the pods in the queue, as first seen there
	check := func(info waiting) {
		n, k := nameOf(info), p.keyOf(info)
		if first, ok := held[n]; ok && first != k {
			t.Fatalf("the key of pod %s changed from %v to %v in the queue", n.name, first, k)
		}
		held[n] = k
	}
	q := queue.NewTestQueue(t.Context(), func(a, b waiting) bool {
		check(a)
		check(b)
		return p.Less(a, b)
	}, queue.WithClock(clk))
	pods, failures := 0, 0
	for i := range 5000 {
		clk.Step(time.Duration(r.IntN(500)) * time.Millisecond)
		switch {
		case pods == 0 || r.IntN(20) == 0 && pods < 50:
			pod := fixtures.Pod(fmt.Sprintf("p%04d", i), 1+r.Int64N(64000), 1+r.Int64N(1<<40), createdAt(clk.Since(epoch).Truncate(time.Second)))
			enqueue(t.Context(), q, pod)
			pods++
		case len(q.PodsInActiveQ())+len(q.PodsInBackoffQ()) == 0:
			q.MoveAllToActiveOrBackoffQueue(logger, framework.EventUnschedulableTimeout, nil, nil, nil)
			clk.Step(time.Second)
		default:
			tried, err := pop(logger, q)
			if err != nil {
				t.Fatal(err)
			}
			delete(held, nameOf(tried))
			if r.IntN(20) == 0 { // it fits
				q.Done(tried.Pod.UID)
				pods--
				continue
			}
			tried.UnschedulablePlugins = sets.New([]string{"NodeResourcesFit", "BestFit"}[r.IntN(2)])
			if err := requeue(logger, q, tried); err != nil {
				t.Fatal(err)
			}
			failures++
		}
	}
	if failures < 1000 {
		t.Errorf("only %d attempts failed: the test shows little", failures)
	}
}

// TestALearnedRuntimeDoesNotMoveAWaitingPod guards the queue's heap.
func TestALearnedRuntimeDoesNotMoveAWaitingPod(t *testing.T) {
	p := newPlugin()
	learned := func(p *corev1.Pod) {
		fixtures.Batch("")(p)
		delete(p.Annotations, "supercargo.dev/runtime")
		p.Annotations["supercargo.dev/category"] = "render"
	}
	early := queued(t, fixtures.Pod("early", 1, 1, learned, createdAt(0)))
	other := queued(t, fixtures.Pod("other", 1, 1, fixtures.Batch("1h"), createdAt(0)))
	if p.Less(early, other) {
		t.Fatal("a pod of the default runtime goes before one of an hour")
	}
	for range 40 {
		p.learner.Observe("default", "render", 100*time.Hour)
	}
	if p.Less(early, other) {
		t.Error("a waiting pod was moved by what was learned since")
	}
	if late := queued(t, fixtures.Pod("late", 1, 1, learned, createdAt(0))); !p.Less(late, other) {
		t.Error("a new pod does not use what was learned")
	}
}

func TestSizeClass(t *testing.T) {
	tests := []struct {
		amount int64
		want   int
	}{{-5, 0}, {0, 0}, {49, 0}, {50, 1}, {99, 1}, {100, 2}, {199, 2}, {200, 3}, {math.MaxInt64, sizeClasses - 1}}
	for _, tc := range tests {
		if got := sizeClass(tc.amount, 50); got != tc.want {
			t.Errorf("sizeClass(%d) = %d, want %d", tc.amount, got, tc.want)
		}
	}
}

func TestLeadGrowsAndStaysBelowItsBound(t *testing.T) {
	last := time.Duration(-1)
	for _, d := range []time.Duration{0, time.Second, time.Minute, 4 * time.Minute, 5 * time.Minute, time.Hour, 100 * time.Hour, runtimes.Max} {
		got := leadOfRuntime(d)
		if got <= last || got > maxLead {
			t.Errorf("lead of %v is %v, after %v for less", d, got, last)
		}
		last = got
	}
	if got := leadOfRuntime(halfLead); got != maxLead/2 {
		t.Errorf("lead of %v is %v, want half of %v", halfLead, got, maxLead)
	}
	if got := leadOfSize(math.MaxInt64, math.MaxInt64); got > maxLead || got <= leadOfSize(1<<30, 1000) {
		t.Errorf("lead of the largest size is %v", got)
	}
}

func BenchmarkLess(b *testing.B) {
	p := newPlugin()
	batch := queued(b, fixtures.Pod("a", 100, 1<<30, fixtures.Batch("10m"), createdAt(0)))
	service := queued(b, fixtures.Pod("b", 100, 1<<30, createdAt(0)))
	b.ReportAllocs()
	for b.Loop() {
		p.Less(batch, service)
	}
}
