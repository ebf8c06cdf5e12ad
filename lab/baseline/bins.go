package baseline

import (
	"context"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/plugins/learning"
)

// BinName is the name of the Stratus plugin.
const BinName = "RuntimeBins"

// binWidth is the width of the time bins of Stratus, the same as in HTAS.
const binWidth = 5 * time.Minute

// lastBin is the bin of services, which never end. Unlike the bin of packing.Endless, which Stratus
// does not have, it is an ordinary bin.
const lastBin = math.MaxInt64 - 1

// bins is the Stratus scheduler as HTAS describes it (sections 2 and 6.3): runtime bins that hold
// services and batch pods together. It scores only the bin; within a bin the stock scores decide. A
// service never ends, so it is in the last bin.
type bins struct {
	clock   clock.PassiveClock
	learner *runtimes.Learner
	// finishes are the expected finishes of placed pods. A periodic sweep removes overdue entries.
	finishes map[types.UID]time.Time
	scores   map[string]int64 // of the current pod, by node
}

var (
	_ fwk.PreScorePlugin = (*bins)(nil)
	_ fwk.ScorePlugin    = (*bins)(nil)
	_ fwk.ReservePlugin  = (*bins)(nil)
)

// BinPlugins returns the registry with the Stratus plugin.
func BinPlugins(_ *scenario.Scenario, clk clock.PassiveClock) (runtime.Registry, error) {
	return runtime.Registry{BinName: func(ctx context.Context, _ apiruntime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return &bins{
			clock: clk, learner: learning.Shared(ctx, handle.ClientSet()), finishes: map[types.UID]time.Time{},
		}, nil
	}}, nil
}

// Name implements fwk.Plugin.
func (b *bins) Name() string { return BinName }

// PreScore ranks the bins: the pod's own bin first, then longer bins in ascending order, then
// shorter bins in descending order.
func (b *bins) PreScore(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, infos []fwk.NodeInfo) *fwk.Status {
	own := int64(lastBin)
	if isBatch(pod) {
		own = packing.BinOf(runtimes.EstimateOf(pod, b.learner, runtimes.Default).Runtime, binWidth)
	}
	of, all := make(map[string]int64, len(infos)), make([]int64, 0, len(infos))
	for _, info := range infos {
		bin := b.bin(info)
		of[info.Node().Name] = bin
		all = append(all, bin)
	}
	slices.SortFunc(all, func(x, y int64) int { return packing.CompareBins(own, x, y) })
	all = slices.Compact(all)
	b.scores = make(map[string]int64, len(of))
	for name, bin := range of {
		b.scores[name] = max(0, fwk.MaxNodeScore-int64(slices.Index(all, bin)))
	}
	return nil
}

// bin returns the bin of the longest-running pod on the node.
func (b *bins) bin(info fwk.NodeInfo) int64 {
	var bin int64
	for _, p := range info.GetPods() {
		pod := p.GetPod()
		if !isBatch(pod) {
			return lastBin
		}
		finish, ok := runtimes.Written(pod)
		if !ok {
			finish = b.finishes[pod.UID]
		}
		bin = max(bin, packing.BinOf(finish.Sub(b.clock.Now()), binWidth))
	}
	return bin
}

// Score implements fwk.ScorePlugin.
func (b *bins) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	return b.scores[info.Node().Name], nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (b *bins) ScoreExtensions() fwk.ScoreExtensions { return nil }

// Reserve records the expected finish of the pod.
func (b *bins) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	if isBatch(pod) {
		now := b.clock.Now()
		b.finishes[pod.UID] = now.Add(runtimes.EstimateOf(pod, b.learner, runtimes.Default).Runtime)
		if len(b.finishes)%4096 == 0 { // overdue and unknown pods are both in bin 0
			for uid, finish := range b.finishes {
				if finish.Before(now) {
					delete(b.finishes, uid)
				}
			}
		}
	}
	return nil
}

// Unreserve implements fwk.ReservePlugin.
func (b *bins) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	delete(b.finishes, pod.UID)
}

func isBatch(pod *corev1.Pod) bool {
	of, _ := class.OfPod(pod)
	return of == class.Batch
}
