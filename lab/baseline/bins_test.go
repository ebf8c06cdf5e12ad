package baseline

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/test/fixtures"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func newBins() *bins {
	return &bins{clock: clocktesting.NewFakePassiveClock(noon), learner: runtimes.NewLearner(), finishes: map[types.UID]time.Time{}}
}

// ending returns a batch pod that is expected to end at that time after noon.
func ending(name string, after time.Duration) *corev1.Pod {
	return fixtures.Pod(name, 1, 1, fixtures.Batch("1m"), func(p *corev1.Pod) {
		p.Annotations[v1alpha1.AnnotationExpectedFinish] = runtimes.Format(noon.Add(after))
	})
}

func nodeWith(name string, pods ...*corev1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(fixtures.Node(name, 1000, 1000))
	return info
}

// scores returns the scores of all nodes for a pod.
func scores(t *testing.T, b *bins, pod *corev1.Pod, infos []fwk.NodeInfo) map[string]int64 {
	t.Helper()
	if status := b.PreScore(t.Context(), nil, pod, infos); !status.IsSuccess() {
		t.Fatal(status)
	}
	all := map[string]int64{}
	for _, info := range infos {
		score, status := b.Score(t.Context(), nil, pod, info)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		all[info.Node().Name] = score
	}
	return all
}

func TestBinsAreTriedOwnFirstThenUpwardThenDownward(t *testing.T) {
	t.Parallel()
	service := fixtures.Pod("web", 1, 1)
	infos := []fwk.NodeInfo{
		nodeWith("empty"),
		nodeWith("bin-1", ending("a", 7*time.Minute)),
		nodeWith("bin-2", ending("b", 11*time.Minute), ending("c", time.Minute)), // the longest counts
		nodeWith("bin-3", ending("d", 16*time.Minute)),
		nodeWith("bin-2-too", ending("e", 14*time.Minute)),
		nodeWith("services", service, ending("f", time.Minute)),
		nodeWith("overdue", ending("g", -time.Hour)),
		nodeWith("unknown", fixtures.Pod("h", 1, 1, fixtures.Batch("1h"))),
	}
	tests := []struct {
		name string
		pod  *corev1.Pod
		want map[string]int64
	}{
		{"a pod of bin 2", fixtures.Pod("p", 1, 1, fixtures.Batch("12m")),
			map[string]int64{"bin-2": 100, "bin-2-too": 100, "bin-3": 99, "services": 98, "bin-1": 97, "empty": 96, "overdue": 96, "unknown": 96}},
		{"the end of a bin is the next", fixtures.Pod("p", 1, 1, fixtures.Batch("15m")),
			map[string]int64{"bin-3": 100, "services": 99, "bin-2": 98, "bin-2-too": 98, "bin-1": 97, "empty": 96, "overdue": 96, "unknown": 96}},
		{"a short pod", fixtures.Pod("p", 1, 1, fixtures.Batch("1m")),
			map[string]int64{"empty": 100, "overdue": 100, "unknown": 100, "bin-1": 99, "bin-2": 98, "bin-2-too": 98, "bin-3": 97, "services": 96}},
		{"a pod of no such bin", fixtures.Pod("p", 1, 1, fixtures.Batch("1h")),
			map[string]int64{"services": 100, "bin-3": 99, "bin-2": 98, "bin-2-too": 98, "bin-1": 97, "empty": 96, "overdue": 96, "unknown": 96}},
		{"a service, in the last bin", fixtures.Pod("p", 1, 1),
			map[string]int64{"services": 100, "bin-3": 99, "bin-2": 98, "bin-2-too": 98, "bin-1": 97, "empty": 96, "overdue": 96, "unknown": 96}},
		{"a pod of which nothing is known, ten minutes", fixtures.Pod("p", 1, 1, fixtures.Batch("")),
			map[string]int64{"bin-2": 100, "bin-2-too": 100, "bin-3": 99, "services": 98, "bin-1": 97, "empty": 96, "overdue": 96, "unknown": 96}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, scores(t, newBins(), tc.pod, infos)); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheHundredthBinAndThoseAfterItScoreNothing(t *testing.T) {
	t.Parallel()
	var infos []fwk.NodeInfo
	for i := range 110 {
		infos = append(infos, nodeWith(fmt.Sprint("n", i), ending(fmt.Sprint("p", i), time.Duration(i)*binWidth+time.Second)))
	}
	got := scores(t, newBins(), fixtures.Pod("p", 1, 1, fixtures.Batch("1s")), infos)
	for name, want := range map[string]int64{"n0": 100, "n1": 99, "n99": 1, "n100": 0, "n109": 0} {
		if got[name] != want {
			t.Errorf("%s scores %d, want %d", name, got[name], want)
		}
	}
}

func TestAPodPlacedButNotWrittenYetCountsWithItsReservation(t *testing.T) {
	t.Parallel()
	b := newBins()
	b.learner.Observe("default", "render", 21*time.Minute)
	placed := fixtures.Pod("placed", 1, 1, fixtures.Batch("7m"))
	learned := fixtures.Pod("learned", 1, 1, fixtures.Batch(""), func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationCategory] = "render" })
	service := fixtures.Pod("service", 1, 1)
	for _, p := range []*corev1.Pod{placed, learned, service} {
		if status := b.Reserve(t.Context(), nil, p, "n"); !status.IsSuccess() {
			t.Fatal(status)
		}
	}
	if len(b.finishes) != 2 {
		t.Errorf("%d ends are noted, want those of two batch pods", len(b.finishes))
	}
	infos := []fwk.NodeInfo{nodeWith("empty"), nodeWith("one", placed), nodeWith("four", learned)}
	next := fixtures.Pod("next", 1, 1, fixtures.Batch("6m"))
	if diff := cmp.Diff(map[string]int64{"one": 100, "four": 99, "empty": 98}, scores(t, b, next, infos)); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
	b.Unreserve(t.Context(), nil, placed, "n")
	if diff := cmp.Diff(map[string]int64{"four": 100, "one": 99, "empty": 99}, scores(t, b, next, infos)); diff != "" {
		t.Errorf("scores after the reservation is released (-want +got):\n%s", diff)
	}
}

func TestReservationsOfPodsLongOverAreForgotten(t *testing.T) {
	t.Parallel()
	b := newBins()
	for i := range 3 * 4096 {
		b.clock = clocktesting.NewFakePassiveClock(noon.Add(time.Duration(i) * time.Second))
		b.Reserve(t.Context(), nil, fixtures.Pod(fmt.Sprint("p", i), 1, 1, fixtures.Batch("1m")), "n")
	}
	if n := len(b.finishes); n > 4096+60 {
		t.Errorf("%d ends are kept, want at most one sweep's worth", n)
	}
	if _, ok := b.finishes[types.UID(fmt.Sprint("p", 3*4096-1))]; !ok {
		t.Error("the last is forgotten too")
	}
}
