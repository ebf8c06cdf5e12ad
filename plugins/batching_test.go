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
// other processes. Nodes have room for -benchtime 10000x.
func BenchmarkEqualPodsAttempt(b *testing.B) {
	for _, pod := range []struct {
		name          string
		milliCPU, fit int64
	}{{"fill", 3000, 1}, {"share", 100, 40}} {
		for _, profile := range batchers {
			for _, nodes := range []int{500, 5000} {
				b.Run(fmt.Sprintf("%s/%s/nodes=%d", pod.name, profile.name, nodes), func(b *testing.B) {
					s := scheduling.NewScheduler(b, profile.configuration, clock.RealClock{}, profile.others)
					for i := range nodes {
						s.AddNode(fixtures.Node(fmt.Sprintf("node-%05d", i), 4000, 32<<30))
					}
					b.ReportAllocs()
					alone, i, before := 0, 0, onCPU(b)
					for ; b.Loop(); i++ {
						alone += attemptQueued(b, s, fixtures.Pod(fmt.Sprintf("pod-%d", i), pod.milliCPU, 500<<20), i >= nodes*int(pod.fit)/2)
						if b.Failed() {
							return
						}
					}
					b.ReportMetric(float64(onCPU(b)-before)/float64(i), "cpu-ns/op")
					b.ReportMetric(float64(alone)/float64(i), "one-node/op")
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

// attemptQueued takes a pod through the queue, which counts the cycles that batching compares, and returns 1 if only
// one node was evaluated. A pod that leaves is removed at once, so that nodes do not fill up.
func attemptQueued(b *testing.B, s *scheduling.Scheduler, pod *corev1.Pod, leaves bool) int {
	s.Enqueue(pod)
	if _, err := s.SchedulingQueue.Pop(klog.Background()); err != nil {
		b.Fatal(err)
	}
	placed, a := s.Place(pod)
	if a.Err != nil {
		b.Fatal(a.Err)
	}
	s.SchedulingQueue.Done(pod.UID)
	if leaves {
		if err := s.RemovePod(placed); err != nil {
			b.Fatal(err)
		}
	}
	if a.Evaluated == 1 {
		return 1
	}
	return 0
}
