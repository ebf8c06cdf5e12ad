package energyperformance

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	configv1 "supercargo.dev/supercargo/api/config/v1"
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// handle implements the part of the framework that the plugin uses.
type handle struct {
	fwk.Handle
	recorder *events.FakeRecorder
}

func (h handle) EventRecorder() fixtures.EventRecorder { return h.recorder }

type fixed profile.Set

func (f fixed) Machines() profile.Set { return profile.Set(f) }

func plugin(machines profile.Set, namespaces ...*corev1.Namespace) *Plugin {
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, ns := range namespaces {
		_ = store.Add(ns) // an in-memory store never fails
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

// TestKindsFollowTheNodes: a node is read again when it changes, and outdated entries are dropped eventually.
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
	if len(k.byGeneration) > spare+8 || len(k.places) != 1 {
		t.Errorf("%d generations and places %v are kept of one node", len(k.byGeneration), k.places)
	}
}

// TestWhatATariffIsGoodForIsSaidWhenItChanges runs in a synctest bubble, in which time advances when all goroutines
// wait.
func TestWhatATariffIsGoodForIsSaidWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := make(chan string, 10)
		log := funcr.New(func(_, args string) { lines <- args }, funcr.Options{})
		path, begin := filepath.Join(t.TempDir(), "prices.csv"), time.Now()
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), log))
		recorder := events.NewFakeRecorder(10)
		prices := followTariff(ctx, &configv1.EnergyTariff{
			File: path, Unit: configv1.EnergyDollars, RefreshInterval: metav1.Duration{Duration: time.Minute}, MaxAge: metav1.Duration{Duration: 90 * time.Minute},
		}, clock.RealClock{}, func() events.EventRecorder { return recorder })
		said := func(want string) {
			t.Helper()
			if got := <-lines; !strings.Contains(got, want) {
				t.Errorf("%s\nis said, want %q", got, want)
			}
		}
		said("no such file")
		if len(recorder.Events) != 0 {
			t.Errorf("%q is told while the plugin is made, when nobody takes Events", <-recorder.Events)
		}
		told := func(want string) {
			t.Helper()
			synctest.Wait()
			var all []string
			for len(recorder.Events) > 0 {
				all = append(all, <-recorder.Events)
			}
			if len(all) != 1 || !strings.Contains(all[0], want) || !strings.Contains(all[0], path) {
				t.Errorf("%q is told, want %q and the file, once", all, want)
			}
		}
		time.Sleep(10 * time.Minute) // virtual time: ten refreshes of a missing file
		told("Warning TariffUnreadable")
		write := func(text string) {
			t.Helper()
			testfile.Write(t, path, "time,zone,dollars_per_kwh\n"+text)
		}
		row := func(zone string, after time.Duration) string {
			return begin.Add(after).UTC().Format(time.RFC3339) + "," + zone + ",0.25\n"
		}
		write(row("a", 0) + row("b", time.Hour))
		said("some zones have no price")
		told("Normal TariffUsable")
		if got := prices.At("a", time.Now()); got.PerKWh != 0.25 || time.Since(begin) != 11*time.Minute {
			t.Errorf("%+v after %v, want 0.25 a minute after it was written", got, time.Since(begin))
		}
		said("all zones have a price")
		if since := time.Since(begin); since != time.Hour {
			t.Errorf("it is said after %v, want an hour", since)
		}
		said("some zones have no price")
		said("no zone has a price")
		if since := time.Since(begin); since != 151*time.Minute || prices.At("b", time.Now()).Known {
			t.Errorf("it is said after %v, want after an hour and 90 min", since)
		}
		told("Warning TariffExpired")
		write("x")
		said("line 2")
		told("Warning TariffInvalid")
		cancel()
		synctest.Wait()
		if len(lines) != 0 {
			t.Errorf("%d lines more", len(lines))
		}
	})
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

// cluster has nodes of four machine types and of an unknown one, in three zones. Half of the nodes are busy, each with
// ten pods of DaemonSets before any other.
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
		info.SetNode(fixtures.Node("n", 8000, 32<<30, typed(types[i%len(types)]), func(n *corev1.Node) {
			n.Labels[corev1.LabelTopologyZone] = "eu-west-1"[:7+i%3]
		}))
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

// TestScoringANodeAllocatesNothing: allocations for a pod do not depend on the number of nodes.
func TestScoringANodeAllocatesNothing(t *testing.T) {
	pod := fixtures.Pod("p", 500, 1<<30)
	for name, with := range map[string]func(*Plugin) *Plugin{"joules": func(p *Plugin) *Plugin { return p }, "prices": priced} {
		allocated := func(nodes int) float64 {
			machines, infos := cluster(nodes)
			p := with(plugin(machines))
			return testing.AllocsPerRun(10, func() { schedule(t.Context(), p, pod, infos) })
		}
		if few, many := allocated(30), allocated(2000); many != few {
			t.Errorf("%s: %v allocations for 30 nodes and %v for 2000, want as many", name, few, many)
		}
	}
}

// dear is a price that differs between zones.
type dear struct{}

func (dear) At(zone string, _ time.Time) tariff.Price {
	return tariff.Price{PerKWh: float64(len(zone)), Known: true}
}

// priced weights joules by their price.
func priced(p *Plugin) *Plugin {
	p.CountBy(dear{})
	return p
}

// BenchmarkPod measures the total cost of one pod over all nodes. ns/node is the cost of PreScore and Score for each
// node; cpu-ns/node is the same in CPU time, which excludes the time of other processes.
func BenchmarkPod(b *testing.B) { benchmarkPod(b, func(p *Plugin) *Plugin { return p }) }

// BenchmarkPricedPod is the same with prices in three zones.
func BenchmarkPricedPod(b *testing.B) { benchmarkPod(b, priced) }

func benchmarkPod(b *testing.B, with func(*Plugin) *Plugin) {
	pod := fixtures.Pod("p", 500, 1<<30)
	const nodes = 5000
	machines, infos := cluster(nodes)
	p := with(plugin(machines))
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

// onCPU returns the CPU time of the thread.
func onCPU(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
