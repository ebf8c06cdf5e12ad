package energyperformance

import (
	"context"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/energy/profile"
	"supercargo.dev/supercargo/internal/energy/score"
	"supercargo.dev/supercargo/test/fixtures"
)

// handle is the part of the framework that the plugin uses.
type handle struct {
	fwk.Handle
	recorder *events.FakeRecorder
}

func (h handle) EventRecorder() events.EventRecorder { return h.recorder }

type fixed profile.Set

func (f fixed) Machines() profile.Set { return profile.Set(f) }

func plugin(machines profile.Set, namespaces ...*corev1.Namespace) *Plugin {
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, ns := range namespaces {
		_ = store.Add(ns) // a store of the memory takes all
	}
	return &Plugin{handle: handle{recorder: events.NewFakeRecorder(10)}, clock: clock.RealClock{}, machines: fixed(machines),
		namespaces: corelisters.NewNamespaceLister(store), weight: 0.25, idleCounts: true}
}

func TestTheNamespaceSpeaksForItsPods(t *testing.T) {
	green := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: map[string]string{v1alpha1.AnnotationEnergyWeight: "0.9"}}}
	pod := fixtures.Pod("p", 1, 1)
	if got := plugin(nil, green).weightOf(pod); got != (score.Weight{H: 0.9, Origin: score.FromNamespace}) {
		t.Errorf("%+v, want that of the namespace", got)
	}
	if got := plugin(nil).weightOf(pod); got != (score.Weight{H: 0.25, Origin: score.FromProfile}) {
		t.Errorf("%+v, want that of the profile: nothing is known of the namespace", got)
	}
	pod.Annotations[v1alpha1.AnnotationEnergyWeight] = "0.1"
	if got := plugin(nil, green).weightOf(pod); got != (score.Weight{H: 0.1, Origin: score.FromPod}) {
		t.Errorf("%+v, want that of the pod", got)
	}
}

func TestWithoutPreScoreAllNodesAreNeutral(t *testing.T) {
	info := framework.NewNodeInfo()
	info.SetNode(fixtures.Node("n", 1, 1))
	if got, status := plugin(nil).Score(t.Context(), framework.NewCycleState(), nil, info); got != score.Neutral || !status.IsSuccess() {
		t.Errorf("%d, %v; want neutral", got, status)
	}
}

func TestNothingKnownSkipsScoring(t *testing.T) {
	info := framework.NewNodeInfo()
	info.SetNode(fixtures.Node("n", 1, 1, typed("sparc")))
	for name, machines := range map[string]profile.Set{"no machines": nil, "none of these": {"xeon": model(1, 1)}} {
		if status := plugin(machines).PreScore(t.Context(), framework.NewCycleState(), fixtures.Pod("p", 1, 1), []fwk.NodeInfo{info}); !status.IsSkip() {
			t.Errorf("%s: %v, want to be skipped", name, status)
		}
	}
}

// TestKindsFollowTheNodes: a node is read again when it changes, and what has gone is
// forgotten in the end.
func TestKindsFollowTheNodes(t *testing.T) {
	var k kinds
	info := framework.NewNodeInfo()
	kindOf := func() kind {
		k.learn([]fwk.NodeInfo{info})
		of, _ := k.of(info)
		return of
	}
	info.SetNode(fixtures.Node("n", 1, 1, typed("a")))
	if got := kindOf(); got != 1 {
		t.Errorf("an idle node of the first type is of kind %d, want 1", got)
	}
	pod := fixtures.Pod("p", 1, 1)
	info.AddPod(pod)
	if got := kindOf(); got != 0 {
		t.Errorf("with a pod it is of kind %d, want 0", got)
	}
	info.SetNode(fixtures.Node("n", 1, 1, typed("b")))
	if got := kindOf(); got != 2 {
		t.Errorf("a busy node of the second type is of kind %d, want 2", got)
	}
	for range 3 * spare {
		info.SetNode(fixtures.Node("n", 1, 1, typed("b")))
		kindOf()
	}
	if len(k.byGeneration) > spare+8 || len(k.types) != 1 {
		t.Errorf("%d generations and types %v are kept of one node", len(k.byGeneration), k.types)
	}
}

func typed(machineType string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[v1alpha1.LabelMachineType] = machineType }
}

func model(joules, seconds float64) *profile.Machine {
	of := func(v float64) profile.Model {
		return profile.Model{Terms: []profile.Term{profile.One, profile.CPU, profile.OnePerCPU}, Coefficients: []float64{v, v / 100, v / 50},
			Range: profile.Range{Most: profile.Size{MilliCPU: 4000, MemoryBytes: 8 << 30}, LeastValue: v, MostValue: 2 * v}}
	}
	m := &profile.Machine{Profile: profile.Profile{Energy: of(joules), Runtime: of(seconds)}}
	m.Power.Idle, m.Power.Full = 50, 200
	return m
}

// cluster has nodes of four machine types and of one that is not known, every other of them
// busy, each with ten pods of DaemonSets before any other.
func cluster(nodes int) (profile.Set, []fwk.NodeInfo) {
	machines := profile.Set{"a": model(1000, 50), "b": model(400, 200), "c": model(600, 100), "d": model(700, 80)}
	types := []string{"a", "b", "c", "d", "e"}
	infos := make([]fwk.NodeInfo, nodes)
	for i := range infos {
		var pods []*corev1.Pod
		for range 10 {
			pods = append(pods, fixtures.Pod("agent", 1, 1, func(p *corev1.Pod) {
				yes := true
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: &yes}}
			}))
		}
		if i%2 == 0 {
			pods = append(pods, fixtures.Pod("p", 1, 1))
		}
		info := framework.NewNodeInfo(pods...)
		info.SetNode(fixtures.Node("n", 8000, 32<<30, typed(types[i%len(types)])))
		infos[i] = info
	}
	return machines, infos
}

// schedule runs the plugin for one pod over all nodes.
func schedule(ctx context.Context, p *Plugin, pod *corev1.Pod, infos []fwk.NodeInfo) int64 {
	state, sum := framework.NewCycleState(), int64(0)
	p.PreScore(ctx, state, pod, infos)
	for _, info := range infos {
		s, _ := p.Score(ctx, state, pod, info)
		sum += s
	}
	return sum
}

// TestScoringANodeAllocatesNothing: what is allocated for a pod does not depend on how many
// nodes there are.
func TestScoringANodeAllocatesNothing(t *testing.T) {
	pod := fixtures.Pod("p", 500, 1<<30)
	allocated := func(nodes int) float64 {
		machines, infos := cluster(nodes)
		p := plugin(machines)
		return testing.AllocsPerRun(10, func() { schedule(t.Context(), p, pod, infos) })
	}
	if few, many := allocated(10), allocated(2000); many != few {
		t.Errorf("%v allocations for 10 nodes and %v for 2000, want as many", few, many)
	}
}

// BenchmarkPod is the whole cost of one pod over all nodes; ns/node is what PreScore and
// Score together cost a node, cpu-ns/node the same in time on the CPU, which does not count
// the time for which others have it.
func BenchmarkPod(b *testing.B) {
	pod := fixtures.Pod("p", 500, 1<<30)
	const nodes = 5000
	machines, infos := cluster(nodes)
	p := plugin(machines)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ReportAllocs()
	before := onCPU(b)
	for b.Loop() {
		schedule(b.Context(), p, pod, infos)
	}
	b.ReportMetric(float64((onCPU(b)-before).Nanoseconds())/float64(b.N)/nodes, "cpu-ns/node")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/nodes, "ns/node")
}

// onCPU is for how long the thread has been on a CPU.
func onCPU(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
