package plugins_test

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/plugins"
	"supercargo.dev/supercargo/plugins/bestfit"
	"supercargo.dev/supercargo/plugins/nodeclass"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/scheduling"
)

// signing is the stock profile without the default spreading of the pods of Services, which prevents batching.
const signing = stockConfiguration + `
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - {name: PodTopologySpread, args: {defaultingType: List}}
`

// signedServices is a strict profile for services, in which all plugins sign pods if they are those of [signed].
// Narrowing is off: it leaves one node, of which nothing can be reused.
const signedServices = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: PackingSort}, {name: NodeClass}, {name: BestFit, weight: 10000}]
      disabled: [{name: PrioritySort}]
    postFilter:
      enabled: [{name: BestFit}]
  pluginConfig:
  - {name: BestFit, args: {narrowing: Never}}
  - {name: PodTopologySpread, args: {defaultingType: List}}
`

// signedClass and signedFit are plugins with the signature that they could give: pods of one class get the same nodes,
// and the same scores if they request the same resources, which the stock plugin NodeResourcesFit signs.
type (
	signedClass struct{ *nodeclass.Plugin }
	signedFit   struct{ *bestfit.Plugin }
)

func (signedClass) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	of, _ := class.OfPod(pod)
	return []fwk.SignFragment{{Key: "supercargo.dev/class", Value: fmt.Sprintf("%s, every node %t", of, class.EveryNode(pod))}}, nil
}

func (signedFit) SignPod(_ context.Context, _ *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}

// signed replaces plugins by those that sign.
func signed() runtime.Registry {
	shipped := plugins.Registry(clock.RealClock{})
	return runtime.Registry{
		nodeclass.Name: func(ctx context.Context, args apiruntime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			p, err := shipped[nodeclass.Name](ctx, args, handle)
			if err != nil {
				return nil, err
			}
			return signedClass{p.(*nodeclass.Plugin)}, nil
		},
		bestfit.Name: func(ctx context.Context, args apiruntime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			p, err := shipped[bestfit.Name](ctx, args, handle)
			if err != nil {
				return nil, err
			}
			return signedFit{p.(*bestfit.Plugin)}, nil
		},
	}
}

// TestBatchingWouldNotPackByBestFit is why no packing plugin signs pods: kube-scheduler takes the nodes of later pods of a
// batch from the scores of the first, of which there are 101. Each pod here fills a node, and 300 nodes have different
// amounts of memory.
func TestBatchingWouldNotPackByBestFit(t *testing.T) {
	const nodes = 300
	for _, tc := range []struct {
		name   string
		others runtime.Registry
		exact  bool
	}{{"signed", signed(), false}, {"not signed", nil, true}} {
		t.Run(tc.name, func(t *testing.T) {
			s := scheduling.NewScheduler(t, signedServices, clock.RealClock{}, tc.others)
			memory := map[string]int64{}
			for i := range nodes {
				name := fmt.Sprintf("node-%03d", i)
				memory[name] = 32<<30 + int64(i*7%nodes)<<20
				s.AddNode(fixtures.Node(name, 4000, memory[name]))
			}
			before, looser := int64(0), 0
			for i := range nodes / 2 {
				placed, _ := placeQueued(t, s, fixtures.Pod(fmt.Sprintf("pod-%d", i), 3000, 1<<30))
				if t.Failed() {
					return
				}
				if memory[placed.Spec.NodeName] < before {
					looser++ // an earlier pod left out this node, which fits better
				}
				before = memory[placed.Spec.NodeName]
			}
			if (looser == 0) != tc.exact {
				t.Errorf("%d of %d pods are on nodes that an earlier pod should have been given, want none: %t", looser, nodes/2, tc.exact)
			}
		})
	}
}

// batchers are the profiles that the benchmarks below compare.
var batchers = []struct {
	name, configuration string
	others              runtime.Registry
}{
	{"stock", stockConfiguration, nil},
	{"stock-batching", signing, nil},
	{"supercargo-narrowing", scheduling.StrictConfiguration, nil},
	{"supercargo-signing", signedServices, signed()},
	{"supercargo-neither", signedServices, nil},
}

// BenchmarkEqualPodsAttempt places equal pods that each fill a node, and equal pods of which many share a node. From
// Kubernetes 1.37 on, kube-scheduler batches both if all plugins of a profile sign them; before, only the former.
// one-node/op is the part of the pods for which only one node was evaluated; cpu-ns/op is the time without that of
// other processes.
func BenchmarkEqualPodsAttempt(b *testing.B) {
	for _, pod := range []struct {
		name     string
		milliCPU int64
		perNode  int
	}{{"fill", 3000, 1}, {"share", 100, 40}} {
		for _, profile := range batchers {
			for _, nodes := range []int{500, 5000} {
				b.Run(fmt.Sprintf("%s/%s/nodes=%d", pod.name, profile.name, nodes), func(b *testing.B) {
					s := scheduling.NewScheduler(b, profile.configuration, clock.RealClock{}, profile.others)
					for i := range nodes {
						s.AddNode(fixtures.Node(fmt.Sprintf("node-%05d", i), 4000, 32<<30))
					}
					b.ReportAllocs()
					alone, before, placed := 0, onCPU(b), []*corev1.Pod{}
					for i := 0; b.Loop(); i++ {
						on, a := placeQueued(b, s, fixtures.Pod(fmt.Sprintf("pod-%d", i), pod.milliCPU, 500<<20))
						if b.Failed() {
							return
						}
						if placed = append(placed, on); a.Evaluated == 1 {
							alone++
						}
						if oldest := i - nodes*pod.perNode/2; oldest >= 0 { // so that the nodes do not fill up
							if err := s.RemovePod(placed[oldest]); err != nil {
								b.Fatal(err)
							}
						}
					}
					b.ReportMetric(float64(onCPU(b)-before)/float64(len(placed)), "cpu-ns/op")
					b.ReportMetric(float64(alone)/float64(len(placed)), "one-node/op")
				})
			}
		}
	}
}

// onCPU returns the CPU time of the process in nanoseconds.
func onCPU(b *testing.B) int64 {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// placeQueued takes a pod through the queue, which counts the cycles that batching compares, and places it.
func placeQueued(tb testing.TB, s *scheduling.Scheduler, pod *corev1.Pod) (*corev1.Pod, scheduling.Attempt) {
	tb.Helper()
	s.Enqueue(pod)
	if _, err := s.SchedulingQueue.Pop(klog.Background()); err != nil {
		tb.Fatal(err)
	}
	placed, a := s.Place(pod)
	if a.Err != nil {
		tb.Fatal(a.Err)
	}
	s.SchedulingQueue.Done(pod.UID)
	return placed, a
}
