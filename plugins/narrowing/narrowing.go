// Package narrowing lets a packing plugin give the scheduler the one node that it would choose anyway, instead of all
// nodes.
//
// kube-scheduler filters only the nodes that PreFilter returns and does not try others, so a wrong narrowing would
// leave a pod pending that fits elsewhere. Narrowing is therefore done only if the result is proven on the snapshot of
// the same cycle:
//
//   - the profile is strict, so that no other score can outvote packing, and every filter in it is on a list of known
//     ones;
//   - the pod is plain: it has only neutral volumes, no claims, does not move with its state, and tolerates the taints of
//     no tainted node;
//   - the node has room, is not tainted or cordoned, and accepts pods of the class;
//   - if other filters apply (node selectors, required affinity, hard spreading, host ports, required anti-affinity of
//     running pods, nominated pods), the profile's own filters pass on the node;
//   - no soft preference may choose another node that fits the pod equally well.
//
// In every other case the scheduler considers all nodes. If a proven node is rejected after all, [Narrower.Rescue]
// makes the pod be tried on all nodes without preemption, and narrowing pauses for a while.
package narrowing

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

const (
	// maxTried bounds the nodes tried for one pod if the tightest ones keep failing the proof, at about 3 µs each,
	// before all nodes are considered.
	maxTried = 64
	// distrust is how long narrowing pauses after a filter has rejected a proven node. A lasting cause then costs one
	// pod an attempt now and then; a transient one, such as a short nomination, is forgotten.
	distrust = 5 * time.Minute
	// maxRescued bounds the pods that are remembered between a rescue and their next attempt.
	maxRescued = 4096

	stateKey fwk.StateKey = "supercargo.dev/narrowing"
)

// Options configure a [Narrower].
type Options struct {
	// Handle is the framework of the profile.
	Handle fwk.Handle
	// Plugin is the packing plugin that narrows.
	Plugin string
	// Never switches narrowing off; nodes are still mirrored for scoring.
	Never bool
	// Cycle is the width of a time bin; 0 means no time bins.
	Cycle time.Duration
	// Finish returns when a pod on a node is expected to end, and false for a pod that does not count. It may be nil if
	// there are no time bins.
	Finish func(*corev1.Pod) (time.Time, bool)
	// Clock returns the current time.
	Clock clock.PassiveClock
}

// Narrower mirrors the scheduler's snapshot for one packing plugin of one profile. Narrow, Rescue and Score belong to
// the scheduling cycle, which handles one pod at a time; they are not safe for concurrent use.
type Narrower struct {
	options Options
	mirror  mirror
	rescued *lru.Cache // UIDs of pods to be tried on all nodes
	// distrusted is the time until which narrowing pauses.
	distrusted time.Time
	// tied is a reused buffer for the nodes that fit a pod equally well.
	tied []fwk.NodeInfo

	inspect sync.Once
	profile profile
}

// New returns a Narrower with an empty mirror.
func New(o Options) *Narrower {
	RegisterMetrics()
	return &Narrower{
		options: o,
		mirror:  mirror{cycle: o.Cycle, finish: o.Finish, barriers: barriers{}},
		rescued: lru.New(maxRescued),
	}
}

// Request is a pod to be placed.
type Request struct {
	Pod   *corev1.Pod
	Class class.Class
	// Runtime is the expected runtime of a batch pod, or 0.
	Runtime time.Duration
}

// narrowed is stored in the cycle state of a pod that was narrowed.
type narrowed struct {
	by   *Narrower
	node string
}

// Clone returns the same value, because it is immutable.
func (n *narrowed) Clone() fwk.StateData { return n }

// TimeBins reports whether the TimeBin plugin scores batch pods in this profile.
func (n *Narrower) TimeBins() bool {
	n.inspectOnce()
	return n.profile.timeBins
}

func (n *Narrower) inspectOnce() {
	n.inspect.Do(func() {
		n.profile = inspect(n.options.Handle, n.options.Plugin)
		if n.options.Never {
			n.profile.hindrance = "the plugin's arguments disable narrowing"
		}
		if n.profile.hindrance != "" {
			klog.InfoS("Evaluating all nodes for every pod", "profile", n.options.Handle.ProfileName(),
				"plugin", n.options.Plugin, "reason", n.profile.hindrance)
		}
	})
}

// Narrow returns the one node that fits the pod, or nil if the scheduler must consider all nodes. The PreFilter of the
// stock filters must have run. Cost for n nodes: the comparison of n generations (see mirror), O(√n) for each node
// changed since the last call, O(√n) for the search, and for pods with constraints the profile's filters on each node
// tried, 64 at most.
func (n *Narrower) Narrow(ctx context.Context, state fwk.CycleState, r Request) *fwk.PreFilterResult {
	n.inspectOnce()
	node, result := n.find(ctx, state, r)
	attempts.WithLabelValues(n.options.Plugin, result).Inc()
	if node == "" {
		return nil
	}
	state.Write(stateKey, &narrowed{by: n, node: node})
	return &fwk.PreFilterResult{NodeNames: sets.New(node)}
}

func (n *Narrower) find(ctx context.Context, state fwk.CycleState, r Request) (node, result string) {
	if n.profile.hindrance != "" || n.extended(r.Pod) {
		return "", resultProfile
	}
	if _, ok := n.rescued.Get(r.Pod.UID); ok {
		n.rescued.Remove(r.Pod.UID)
		return "", resultScanAll
	}
	now := n.options.Clock.Now()
	if now.Before(n.distrusted) {
		return "", resultPaused
	}
	size, ok := requests(r.Pod)
	if !ok || !narrowable(r.Pod) {
		return "", resultPod
	}
	if !n.mirror.sync(n.options.Handle.SnapshotSharedLister().NodeInfos(), now) {
		return "", resultProfile
	}
	if n.mirror.barriers.tolerated(r.Pod) {
		return "", resultPod
	}
	if node, result = n.search(ctx, state, r, size); node != "" && n.contested(ctx, state, r, node) {
		return "", resultTie
	}
	return node, result
}

func (n *Narrower) extended(pod *corev1.Pod) bool {
	for _, e := range n.options.Handle.Extenders() {
		if e.IsInterested(pod) {
			return true
		}
	}
	return false
}

// viewFor returns the index of the nodes with or without GPUs that may fit the pod.
func (n *Narrower) viewFor(r Request, gpus bool) *packing.Index {
	if n.profile.classes && !class.EveryNode(r.Pod) {
		return n.mirror.view(viewKey{r.Class, gpus})
	}
	return n.mirror.view(viewKey{anyClass, gpus})
}

// search returns the tightest node that fits the pod: of those without GPUs, or else of those with GPUs.
func (n *Narrower) search(ctx context.Context, state fwk.CycleState, r Request, size packing.Size) (node, result string) {
	proof, tried := n.prove(state, r.Pod), 0
	for _, gpus := range []bool{false, true} {
		if gpus && n.mirror.gpus.nodes == 0 {
			break
		}
		for candidate := range n.viewFor(r, gpus).Fitting(admits(size), r.Runtime) {
			if tried++; tried > maxTried {
				return "", resultCluster
			}
			fits, known := proof.takes(ctx, candidate)
			if !known {
				return "", resultCluster
			}
			if fits {
				return candidate.Name, resultNarrowed
			}
		}
	}
	return "", resultNoFit
}

// Rescue handles a pod that failed to be scheduled. If it had been narrowed, it is activated to be tried on all nodes,
// and Rescue returns a status that prevents later PostFilter plugins from preempting for it. Otherwise it returns nil.
func Rescue(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) *fwk.Status {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil // not narrowed
	}
	at := data.(*narrowed)
	rejection := statuses.Get(at.node)
	at.by.rescue(ctx, pod, at.node, rejection)
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
		fmt.Sprintf("node %s had room but was rejected by %s; the next attempt evaluates all nodes", at.node, rejection.Plugin()))
}

func (n *Narrower) rescue(ctx context.Context, pod *corev1.Pod, node string, rejection *fwk.Status) {
	logger := klog.FromContext(ctx)
	attempts.WithLabelValues(n.options.Plugin, resultRescued).Inc()
	// A pod may have been nominated to the node since the proof. Otherwise, a filter that rejects a proven node does
	// not behave as the list assumes.
	if plugin := rejection.Plugin(); plugin != "" && n.nominated(ctx, node) == 0 {
		n.distrusted = n.options.Clock.Now().Add(distrust)
		logger.Error(nil, "Temporarily evaluating all nodes for every pod", "plugin", n.options.Plugin, "until", n.distrusted,
			"reason", fmt.Sprintf("filter plugin %s rejected a node that had passed all filters of the proof", plugin),
			"pod", klog.KObj(pod), "node", klog.KRef("", node), "rejection", rejection.Message())
	}
	n.rescued.Add(pod.UID, nil)
	n.options.Handle.Activate(logger, map[string]*corev1.Pod{string(pod.UID): pod})
}
