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
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/lru"

	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/test/fixtures"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newPlugin() *Plugin {
	return &Plugin{learner: runtimes.NewLearner(), frozen: lru.New(maxFrozen)}
}

func queued(t testing.TB, pod *corev1.Pod) fwk.QueuedPodInfo {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return &framework.QueuedPodInfo{PodInfo: info, Timestamp: epoch}
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
			queue := make([]fwk.QueuedPodInfo, 0, len(tc.want))
			for _, pod := range tc.want {
				want = append(want, pod.Name)
				queue = append(queue, queued(t, pod))
			}
			r.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
			slices.SortFunc(queue, func(a, b fwk.QueuedPodInfo) int {
				if p.Less(a, b) {
					return -1
				}
				return 1
			})
			var got []string
			for _, q := range queue {
				got = append(got, q.GetPodInfo().GetPod().Name)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoPodIsOvertakenByOneMuchYounger is the bound on starvation, and
// TestOrderOfTheQueue's last words made general: the order is total.
func TestNoPodIsOvertakenByOneMuchYounger(t *testing.T) {
	p, r := newPlugin(), rand.New(rand.NewPCG(5, 5))
	var pods []fwk.QueuedPodInfo
	for i := range 300 {
		pod := fixtures.Pod(fmt.Sprintf("p%03d", i), r.Int64N(64000), r.Int64N(1<<40), createdAt(time.Duration(r.Int64N(int64(time.Hour)))))
		if i%2 == 0 {
			fixtures.Batch(time.Duration(1 + r.Int64N(int64(100*time.Hour))).String())(pod)
		}
		pods = append(pods, queued(t, pod))
	}
	for _, a := range pods {
		for _, b := range pods {
			podA, podB := a.GetPodInfo().GetPod(), b.GetPodInfo().GetPod()
			if a != b && p.Less(a, b) == p.Less(b, a) {
				t.Fatalf("%s and %s are in no order", podA.Name, podB.Name)
			}
			if p.Less(a, b) && podA.CreationTimestamp.Sub(podB.CreationTimestamp.Time) > maxLead {
				t.Fatalf("%s overtakes %s, which is more than %v older", podA.Name, podB.Name, maxLead)
			}
		}
	}
	slices.SortFunc(pods, func(a, b fwk.QueuedPodInfo) int {
		if p.Less(a, b) {
			return -1
		}
		return 1
	})
	for i := range pods {
		for j := i + 1; j < len(pods); j++ {
			if p.Less(pods[j], pods[i]) {
				t.Fatalf("the order is not transitive at %d and %d", i, j)
			}
		}
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
