package replay

import (
	"context"
	"strconv"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/packing"
)

// stream returns pods that arrive at an interval and run for a second.
func stream(n int, every time.Duration, milliCPU int64) []trace.Pod {
	pods := make([]trace.Pod, n)
	for i := range pods {
		pods[i] = trace.Pod{Item: packing.Item{
			Name: "p" + strconv.Itoa(i), Arrival: time.Duration(i) * every, Runtime: time.Second, Size: packing.Size{MilliCPU: milliCPU, MemoryBytes: 1},
		}}
	}
	return pods
}

// greatest replays pods at their own speed for ten seconds on a cluster whose calls that create and bind pods take so
// long, and returns the greatest lags that it reported.
func greatest(ctx context.Context, t *testing.T, pods []trace.Pod, create, bind time.Duration) (most Progress) {
	t.Helper()
	inner := clusterThatBinds(ctx, t, bind)
	client := &busyClient{Interface: inner, CoreV1Interface: inner.CoreV1(), PodInterface: inner.CoreV1().Pods("default"), takes: create}
	_, err := Run(ctx, Options{
		Client: client, Pods: pods, Scale: Scale{Arrivals: 1, Lifetimes: 1}, Window: 10 * time.Second, Concurrency: 1,
		Progress: func(p Progress) {
			most.CreateLag, most.BindLag = max(most.CreateLag, p.CreateLag), max(most.BindLag, p.BindLag)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return most
}

func TestARunReportsHowFarTheClusterIsBehindTheTrace(t *testing.T) {
	for _, tc := range []struct {
		name         string
		pods         []trace.Pod
		create, bind time.Duration
		createLag    [2]time.Duration // from, to
		bindLag      [2]time.Duration
	}{
		{"a cluster that keeps up is not behind", stream(50, 200*time.Millisecond, 100), 0, 0, [2]time.Duration{}, [2]time.Duration{}},
		{
			"an API server that takes twice as long as pods are apart is ever further behind",
			stream(50, 200*time.Millisecond, 100), 400 * time.Millisecond, 0, [2]time.Duration{time.Second, 2 * time.Second}, [2]time.Duration{0, 400 * time.Millisecond},
		},
		{
			"a scheduler that takes twice as long as pods are apart is behind, the API server is not",
			stream(50, 200*time.Millisecond, 100), 0, 400 * time.Millisecond, [2]time.Duration{}, [2]time.Duration{time.Second, 3 * time.Second},
		},
		{
			"a pod that fits nowhere among many says nothing of the scheduler",
			append(stream(50, 200*time.Millisecond, 100), trace.Pod{Item: packing.Item{Name: "huge", Arrival: time.Second, Runtime: time.Second, Size: packing.Size{MilliCPU: 5000}}}),
			0, 0, [2]time.Duration{}, [2]time.Duration{},
		},
		{"pods that wait for room, as the scheduler has reported, do not wait for it", stream(50, 200*time.Millisecond, 5000), 0, 0, [2]time.Duration{}, [2]time.Duration{}},
		{"a few pods that fit nowhere say nothing of the scheduler", stream(4, 200*time.Millisecond, 5000), 0, 0, [2]time.Duration{}, [2]time.Duration{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(ctx context.Context, t *testing.T) {
				got := greatest(ctx, t, tc.pods, tc.create, tc.bind)
				if got.CreateLag < tc.createLag[0] || got.CreateLag > tc.createLag[1] {
					t.Errorf("creation is up to %s behind, want from %s to %s", got.CreateLag, tc.createLag[0], tc.createLag[1])
				}
				if got.BindLag < tc.bindLag[0] || got.BindLag > tc.bindLag[1] {
					t.Errorf("binding is up to %s behind, want from %s to %s", got.BindLag, tc.bindLag[0], tc.bindLag[1])
				}
			})
		})
	}
}
