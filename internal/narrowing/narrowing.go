// Package narrowing lets a packing plugin hand the scheduler the one node that it
// would end up with anyway, instead of all nodes.
//
// kube-scheduler filters only the names that PreFilter returns and does not try
// others, so a wrong narrowing would leave a pod pending that fits elsewhere.
// Narrowing is therefore done only where the answer is proven on the snapshot of
// this very cycle:
//
//   - the profile is strict, so that no other score could change the outcome, and
//     every filter in it is known to be neutral for plain pods;
//   - the pod is plain: only room, taints and class decide where it may go, and
//     it tolerates the taints of no tainted node;
//   - no pod with required anti-affinity exists, which could repel it;
//   - the node has room, is not tainted or cordoned, and has room still when the
//     pods nominated to it are counted.
//
// In every other case the scheduler looks at all nodes. Should a proven node be
// rejected all the same, [Narrower.Rescue] sends the pod back to be tried on all
// nodes, nobody is preempted for it, and the filter that disproved the list is
// never trusted again.
package narrowing

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/packing"
)

const (
	// maxTried bounds the look-ups for one pod when the tightest nodes keep
	// failing the proof, which only nominated pods can cause.
	maxTried = 64
	// maxRescued bounds how many pods are remembered between a rescue and their
	// next attempt.
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
	// Cycle is the width of a time bin; 0 makes no time bins.
	Cycle time.Duration
	// Finish returns when a pod on a node is expected to end, and false for a
	// pod that does not count. It may be nil when there are no time bins.
	Finish func(*corev1.Pod) (time.Time, bool)
	// Clock tells the time.
	Clock clock.PassiveClock
}

// Narrower mirrors the scheduler's snapshot for one packing plugin of one
// profile. Narrow, Rescue and Score belong to the scheduling cycle, which
// kube-scheduler runs one pod at a time; they are not safe for concurrent use.
type Narrower struct {
	options Options
	mirror  mirror
	rescued *lru.Cache // UIDs of pods to be tried on all nodes

	inspect sync.Once
	profile profile
}

// New returns a Narrower that has not looked at anything yet.
func New(o Options) *Narrower {
	registerMetrics()
	return &Narrower{
		options: o,
		mirror:  mirror{cycle: o.Cycle, finish: o.Finish, barriers: barriers{}},
		rescued: lru.New(maxRescued),
	}
}

// Request is a pod to be placed, as the plugin sees it.
type Request struct {
	Pod   *corev1.Pod
	Class class.Class
	// Runtime is the expected runtime of a batch pod, or 0.
	Runtime time.Duration
}

// narrowed is kept in the cycle state of a pod that was narrowed.
type narrowed struct {
	by   *Narrower
	node string
}

// Clone returns the same value: it never changes.
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
			n.profile.hindrance = "the plugin's arguments say so"
		}
		if n.profile.hindrance != "" {
			klog.InfoS("All nodes are looked at for every pod", "profile", n.options.Handle.ProfileName(),
				"plugin", n.options.Plugin, "reason", n.profile.hindrance)
		}
	})
}

// Narrow returns the one node that takes the pod, or nil when the scheduler must
// look at all nodes. Cost for n nodes: the comparison of n generations (see
// mirror), O(√n) for each node changed since the last call, O(√n) for the search.
func (n *Narrower) Narrow(state fwk.CycleState, r Request) *fwk.PreFilterResult {
	n.inspectOnce()
	node, result := n.find(r)
	attempts.WithLabelValues(n.options.Plugin, result).Inc()
	if node == "" {
		return nil
	}
	state.Write(stateKey, &narrowed{by: n, node: node})
	return &fwk.PreFilterResult{NodeNames: sets.New(node)}
}

func (n *Narrower) find(r Request) (node, result string) {
	if n.profile.hindrance != "" || n.extended(r.Pod) {
		return "", resultProfile
	}
	if _, ok := n.rescued.Get(r.Pod.UID); ok {
		n.rescued.Remove(r.Pod.UID)
		return "", resultScanAll
	}
	size, ok := requests(r.Pod)
	if !ok || !plain(r.Pod) {
		return "", resultPod
	}
	infos := n.options.Handle.SnapshotSharedLister().NodeInfos()
	if repelling, err := infos.HavePodsWithRequiredAntiAffinityList(); err != nil || len(repelling) > 0 {
		return "", resultCluster
	}
	if !n.mirror.sync(infos, n.options.Clock.Now()) {
		return "", resultProfile
	}
	if n.mirror.barriers.tolerated(r.Pod) {
		return "", resultPod
	}
	return n.search(r, size)
}

func (n *Narrower) extended(pod *corev1.Pod) bool {
	for _, e := range n.options.Handle.Extenders() {
		if e.IsInterested(pod) {
			return true
		}
	}
	return false
}

func (n *Narrower) search(r Request, size packing.Size) (node, result string) {
	view := n.mirror.view(anyClass)
	if n.profile.classes && !class.EveryNode(r.Pod) {
		view = n.mirror.view(r.Class)
	}
	tried := 0
	for candidate := range view.Fitting(admits(size), r.Runtime) {
		if tried++; tried > maxTried {
			return "", resultCluster
		}
		fits, known := n.fitsBesideNominated(r.Pod, size, candidate)
		if !known {
			return "", resultCluster
		}
		if fits {
			return candidate.Name, resultNarrowed
		}
	}
	return "", resultNoFit
}

// fitsBesideNominated reports whether the pod fits the node also when the pods
// nominated to it, of equal or higher priority, are there: kube-scheduler filters
// with and without them. It reports known = false when one of them has
// constraints of its own.
func (n *Narrower) fitsBesideNominated(pod *corev1.Pod, size packing.Size, node packing.IndexedNode) (fits, known bool) {
	nominated := n.options.Handle.NominatedPodsForNode(node.Name)
	if len(nominated) == 0 {
		return true, true
	}
	free, slots := node.Free, n.mirror.slots(node.Name)
	for _, p := range nominated {
		other := p.GetPod()
		if other.UID == pod.UID || corev1helpers.PodPriority(other) < corev1helpers.PodPriority(pod) {
			continue
		}
		asked, ok := requests(other)
		if !ok || !plain(other) {
			return false, false
		}
		free, slots = free.Minus(asked), slots-1
	}
	return admits(size).Fits(free) && slots > 0, true
}

// Rescue handles a pod that failed to be scheduled. When it had been narrowed, it
// is sent back to be tried on all nodes, and Rescue returns a status that keeps
// later PostFilter plugins from preempting anyone for it; otherwise nil.
func Rescue(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) *fwk.Status {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil // not narrowed
	}
	at := data.(*narrowed)
	rejection := statuses.Get(at.node)
	at.by.rescue(klog.FromContext(ctx), pod, at.node, rejection)
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
		fmt.Sprintf("node %s had room but was rejected by %s; the pod is tried on all nodes next", at.node, rejection.Plugin()))
}

func (n *Narrower) rescue(logger klog.Logger, pod *corev1.Pod, node string, rejection *fwk.Status) {
	attempts.WithLabelValues(n.options.Plugin, resultRescued).Inc()
	// A pod may have been nominated to the node since it was proven. Without that
	// excuse, a filter that rejects a proven node is not what the list says it is.
	if plugin := rejection.Plugin(); plugin != "" && len(n.options.Handle.NominatedPodsForNode(node)) == 0 {
		n.profile.hindrance = fmt.Sprintf("filter plugin %s rejected a node for a plain pod", plugin)
		logger.Error(nil, "All nodes are looked at for every pod from now on", "plugin", n.options.Plugin,
			"reason", n.profile.hindrance, "pod", klog.KObj(pod), "node", klog.KRef("", node), "rejection", rejection.Message())
	}
	n.rescued.Add(pod.UID, nil)
	n.options.Handle.Activate(logger, map[string]*corev1.Pod{string(pod.UID): pod})
}
