// Package cluster models a cluster as decisions about machines and pod moves see it, and the actions that they can
// request.
//
// A controller or the simulator fills in a [State] and passes it to the functions of autoscaler/fleet/fleetdecide and
// moves, which return a [Plan]. All times are durations, not timestamps, so a decision needs no clock.
package cluster

import (
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
)

// Pod is a pending or running pod.
type Pod struct {
	// Item holds the pod's unique name and its size. Runtime is the expected remaining runtime of a batch pod: the
	// whole runtime while it is pending, 0 when it is overdue, and 0 for services.
	packing.Item
	// Guessed means that the Runtime of a batch pod is a default because nothing is known about it. The pod is not
	// expected to end soon.
	Guessed bool
	// Successor is what the pod requests that a controller would create in place of this one after an eviction. It is
	// nil if that is Size.
	Successor *packing.Size
	// Controller identifies the controller that would create that pod, for people too. It is empty if there is none, or
	// if the caller does not need it.
	Controller string
	// Class is batch or service.
	Class class.Class
	// Arch is the CPU architecture that the pod needs, as in GOARCH; empty means any.
	Arch string
	// Waited is how long a pending pod has been unschedulable. For a pod of State.Recent it is the time since it
	// arrived.
	Waited time.Duration
	// Ran is how much work of a running batch pod a restart would repeat.
	Ran time.Duration
	// Nominated means that a machine that is not ready yet was bought for this pending pod. The pod chooses before
	// others, and nothing more is bought for it.
	Nominated bool
	// Fixed means that no plan may move the pod.
	Fixed bool
	// Repeats means that the pod begins its work again when its machine is interrupted: a batch pod that does not opt in to
	// being moved with its state.
	Repeats bool
	// Expendable means that the pod keeps no machine, and that no machine is bought for it. On a node it takes the room that
	// a purchase counts, because the scheduler preempts it for a pod that would fit in its place.
	Expendable bool
	// Held is a human-readable reason why the pod may not be moved now. It is empty if the pod may be moved or the
	// reason is unknown.
	Held string
	// Ways are the methods by which the pod may leave its node. If zero, the planner's configuration decides.
	Ways Ways
	// Resided is how long the pod has been on its node, however it got there.
	Resided time.Duration
	// Overdue is how long a batch pod has run beyond its expected runtime.
	Overdue time.Duration
	// Promised is the node on which room is reserved for a pending pod; empty if none.
	Promised string
	// EnergyWeight is the weight of energy against runtime, in [0, 1], that is set on the pod or its namespace. It is
	// nil if none is set or the caller does not need it.
	EnergyWeight *float64
	// Demands are the pod's other scheduling constraints; nil if there are none. Only the planners of purchases and
	// moves evaluate those that depend on other pods.
	Demands *constraint.Pod
	// Spread is the soft topology spread constraint of a pending pod over zones, as a key of [State.Spreads]; empty if there
	// is none.
	Spread string
	// Namespace is the pod's namespace, and Images are the images of its containers, sorted and without duplicates.
	// Both are empty if the caller does not need them.
	Namespace string
	Images    []string
}

// Elsewhere returns the pod that would be on another node in place of this one. Its size is that of the successor.
func (p Pod) Elsewhere() Pod {
	if p.Successor != nil {
		p.Size, p.Successor = *p.Successor, nil
	}
	return p
}

// Scheduled compares pods in scheduling order: services by size first, then batch pods by runtime.
func Scheduled(a, b Pod) int {
	switch {
	case a.Class != b.Class && a.Class == class.Service:
		return -1
	case a.Class != b.Class:
		return 1
	case a.Class == class.Service:
		return packing.LargestFirst(a.Item, b.Item)
	default:
		return packing.LongestFirst(a.Item, b.Item)
	}
}

// Phase is a phase in the lifecycle of a machine.
type Phase int

const (
	// Ordered machines have been bought and are paid for, but accept no pods yet.
	Ordered Phase = iota
	// Ready machines accept pods.
	Ready
	// Leaving machines accept no more pods because they are being drained.
	Leaving
)

// Node is a machine.
type Node struct {
	// Name is unique.
	Name string
	// Flavor is the name of the machine's flavor.
	Flavor string
	// Class is the class of pods that the machine accepts.
	Class class.Class
	// Capacity is what pods can use of the machine in total (allocatable), and GPUs are those of the machine, including those
	// that pods of DaemonSets use.
	Capacity packing.Size
	GPUs     extended.GPUs
	// MaxPods is the maximum number of pods; nil means unlimited.
	MaxPods *int64
	// Arch is the CPU architecture, as in GOARCH.
	Arch string
	// Host holds the labels and taints; nil if no pod depends on them.
	Host *constraint.Host
	// UnderUsed and UnneededFor, if not nil, override for this node the utilisation below which it is under-used and
	// how long it must have been under-used.
	UnderUsed   *float64
	UnneededFor *time.Duration
	// Kept means that the node is neither drained nor released. KeptFor is a human-readable reason, if known.
	Kept    bool
	KeptFor string
	// MicroDollarsPerHour is the price.
	MicroDollarsPerHour int64
	// Outdated means that new machines of the flavor may differ from this one: its template has changed since.
	Outdated bool
	// Phase is the phase in the machine's lifecycle.
	Phase Phase
	// Due is the expected time until an ordered machine is ready.
	Due time.Duration
	// Age is how long the machine has been paid for.
	Age time.Duration
	// Pods are the pods on the node and those on their way to it, sorted by name.
	Pods []Pod
	// Incoming is the number of pods on their way to the node.
	Incoming int
	// Waits means that a Leaving node is only cordoned: its remaining pods end by themselves, and none is being moved.
	// The node can be uncordoned.
	Waits bool
	// Until is how long the plan that cordoned the node still expects those pods to stay. It is negative if they should
	// have ended already.
	Until time.Duration
}

// Used returns the total requests of the pods on the node.
func (n *Node) Used() packing.Size {
	var used packing.Size
	for i := range n.Pods {
		used.MilliCPU += n.Pods[i].Size.MilliCPU
		used.MemoryBytes += n.Pods[i].Size.MemoryBytes
		used.Extended = used.Extended.Plus(n.Pods[i].Size.Extended)
	}
	return used
}

// Free returns the capacity that no pod requests.
func (n *Node) Free() packing.Size { return n.Capacity.Minus(n.Used()) }

// Remaining returns the longest expected remaining runtime of the batch pods on the node, 0 if there are none. Services
// do not count.
func (n *Node) Remaining() time.Duration {
	var longest time.Duration
	for i := range n.Pods {
		longest = max(longest, n.Pods[i].Runtime)
	}
	return longest
}

// Has reports whether a pod of the class is on the node or on its way to it.
func (n *Node) Has(c class.Class) bool {
	return slices.ContainsFunc(n.Pods, func(p Pod) bool { return p.Class == c })
}

// Suits reports whether class, architecture, labels and taints allow the pod on the node, regardless of free room.
func (n *Node) Suits(p *Pod) bool {
	return n.Class.Takes(p.Class) && (p.Arch == "" || p.Arch == n.Arch) &&
		(p.Demands == nil || n.Host == nil || p.Demands.Admits(n.Host) == "")
}

// Takes reports whether the node can hold the given number of pods, whatever their size.
func (n *Node) Takes(pods int) bool { return n.MaxPods == nil || int64(pods) <= *n.MaxPods }

// HasRoom reports whether the node suits the pod and has room for it.
func (n *Node) HasRoom(p *Pod) bool {
	return n.Takes(len(n.Pods)+1) && p.Size.Fits(n.Free()) && n.Suits(p) && n.attaches(p)
}

// attaches reports whether the node has the volumes and ephemeral storage of the pod as well.
func (n *Node) attaches(p *Pod) bool {
	if !p.Demands.Attaches() {
		return true
	}
	attached := n.Attached()
	return attached.Refuses(p.Demands, n.Host) == ""
}

// Attached returns what the pods on the node take of its volumes and ephemeral storage.
func (n *Node) Attached() (all constraint.Attached) {
	for i := range n.Pods {
		all.Add(n.Pods[i].Demands)
	}
	return all
}

// Flavor is a kind of machine that can be bought.
type Flavor struct {
	// Name is unique.
	Name string
	// Size is what pods can use of one machine (allocatable).
	Size packing.Size
	// GPUs are those of one machine. If there are any, machines of the flavor are bought only for pods that request some.
	GPUs extended.GPUs
	// Resources are the names of the extended resources, for people; nil if they are unknown.
	Resources *extended.Names
	// MaxPods is the maximum number of pods on one machine; nil means unlimited.
	MaxPods *int64
	// Arch is the CPU architecture, as in GOARCH.
	Arch string
	// Host holds the labels and taints of its nodes; nil if no pod depends on them.
	Host *constraint.Host
	// Most is how many more machines can be bought; nil means unlimited.
	Most *int
	// MicroDollarsPerHour is the price of one machine.
	MicroDollarsPerHour int64
	// Interruptions is how often the seller is expected to interrupt a machine, in a million machine-hours: 50,000 is 0.05
	// interruptions an hour. It is 0 for machines that are not interrupted.
	Interruptions int64
}

// ServesGPUs reports whether a machine of the flavor has no GPUs, or some that pods of this size request in total. Machines
// are bought only if it does: those with GPUs are expensive.
func (f *Flavor) ServesGPUs(size packing.Size) bool {
	return !f.GPUs.Any || size.Extended.Shares(f.GPUs.Amounts)
}

// Takes reports whether one machine can hold the given number of pods, whatever their size.
func (f *Flavor) Takes(pods int) bool { return f.MaxPods == nil || int64(pods) <= *f.MaxPods }

// Sells reports whether n more machines can be bought.
func (f *Flavor) Sells(n int) bool { return f.Most == nil || n <= *f.Most }

// Unlimited returns a copy of the flavor without a limit on the number of machines.
func (f Flavor) Unlimited() Flavor {
	f.Most = nil
	return f
}

// State is a cluster at one moment.
type State struct {
	// Nodes are the machines that are paid for and whose release has not been requested, sorted by name.
	Nodes []Node
	// Pending are the unschedulable pods, sorted by name.
	Pending []Pod
	// Recent are the pods that arrived within the last Lag + ScalingInterval, newest first. Their Runtime is their
	// expected total runtime.
	Recent []Pod
	// Observed is how long arrivals have been observed, capped at that time.
	Observed time.Duration
	// QueueEmpty is how long no batch pod has been pending.
	QueueEmpty time.Duration
	// Flavors are the flavors that can be bought, sorted by name.
	Flavors []Flavor
	// Spreads are, for the soft topology spread constraints of the pending pods, the numbers of pods on nodes that they
	// count, by zone.
	Spreads map[string]map[string]int
	// MaxNodes is the maximum number of machines, including ordered ones.
	MaxNodes int
	// Lag is the expected time from ordering a machine until it is ready. Release is the expected time from requesting
	// its release until it is no longer paid for.
	Lag, Release time.Duration
	// BillingPeriod is the unit of billing. Every started period is paid in full.
	BillingPeriod time.Duration
	// Migration estimates how long moving a pod with its state takes.
	Migration Migration
	// ScalingInterval is the time between two rounds of buying, SchedulingInterval the time between two attempts to
	// schedule pending pods.
	ScalingInterval, SchedulingInterval time.Duration
	// Scaling means that machines may be bought in this round.
	Scaling bool
}

// Migration holds the parameters of the time to migrate a pod.
type Migration struct {
	// BitsPerSecond is the bandwidth. BytesPerMemory is the number of checkpoint bytes per byte of requested memory.
	// Fixed is added to every migration.
	BitsPerSecond  int64
	BytesPerMemory float64
	Fixed          time.Duration
}

// DefaultMigration is the default for migrations: the bandwidth of HTAS (section 5.3), a checkpoint as large as the
// requested memory, and the measured pause of a container with hardly any memory (docs/benchmarks.md).
var DefaultMigration = Migration{BitsPerSecond: 1_200_000_000, BytesPerMemory: 1, Fixed: time.Second}

// Time returns how long migrating a pod that requests memoryBytes of memory takes, rounded up to the millisecond: bytes
// / bandwidth + the fixed part (HTAS, section 5.3). The pod does not run during this time.
func (m Migration) Time(memoryBytes int64) time.Duration {
	if m.BitsPerSecond <= 0 {
		return m.Fixed
	}
	seconds := float64(memoryBytes) * m.BytesPerMemory * 8 / float64(m.BitsPerSecond)
	milliseconds := int64(seconds * 1000)
	if float64(milliseconds) < seconds*1000 {
		milliseconds++
	}
	return time.Duration(milliseconds)*time.Millisecond + m.Fixed
}

// Plan is the result of a decision.
type Plan struct {
	Buy     []Purchase
	Drains  []Drain
	Release []Release
	// Uncordon are nodes that wait for their last pods but whose plan no longer holds. They accept pods again.
	Uncordon []Stay
	// Kept are nodes that stay although they are under-used, with the reason.
	Kept []Stay
	// Transfers are moves of single pods to nodes that suit them better.
	Transfers []Transfer
	// Wake is the time after which the decision should be repeated even if nothing happens; 0 means never.
	Wake time.Duration
}

// Purchase requests one machine.
type Purchase struct {
	// Flavor is the name of the flavor, Class the class of pods that the machine will accept.
	Flavor string
	Class  class.Class
	// Pods are the names of the pods for which the machine is bought.
	Pods []string
	// Reason is a human-readable reason.
	Reason string
}

// Release requests that an empty machine be released.
type Release struct {
	Node   string
	Reason string
}

// Stay is the reason why a node is neither drained nor released, or why it is uncordoned.
type Stay struct {
	Node   string
	Reason string
}

// Drain requests that a machine be drained and released.
type Drain struct {
	Node string
	// Method is how the pods without an entry in Moves leave.
	Method Method
	// Moves are the node's pods, sorted by name, with how they leave and their target nodes. The scheduler decides
	// where evicted pods go; the target only shows that there is room.
	Moves []Move
	// Until is when the last pod is expected to have left.
	Until time.Duration
	// CordonOnly means that the node is only cordoned for now and its pods are left unchanged. When they have left, the
	// machine stays until it is released or the node is uncordoned.
	CordonOnly bool
	// Replacement, if not nil, is bought first. The pods that are still on the node when the replacement is ready move
	// to it, and Moves is empty.
	Replacement *Purchase
	// Saves and Costs are the expected savings and costs of the drain in micro-dollars. Both are 0 if they were not
	// calculated.
	Saves, Costs int64
	Reason       string
}

// Exchange requests machines that replace others. The others are drained and released once the new ones are ready.
type Exchange struct {
	// Nodes are the nodes to drain, sorted by name.
	Nodes []string
	// Buy are the machines to buy first; it may be empty. Their Pods are the pods of Nodes that move to them.
	Buy []Purchase
	// Moves are the other pods of Nodes, sorted by name, with their target nodes, which already exist. As in a [Drain],
	// the target of an evicted pod only shows that there is room.
	Moves []Move
	// Method is how the pods without an entry in Moves or Leave leave.
	Method Method
	// Leave is how the pods of Buy leave, sorted by name, without targets.
	Leave []Move
	// Until is when the last pod is expected to have left.
	Until time.Duration
	// SavesPerHour is the price of Nodes minus that of Buy, in micro-dollars per hour.
	SavesPerHour int64
	// Saves and Costs are the expected savings and costs of the exchange in micro-dollars.
	Saves, Costs int64
	Reason       string
}

// Transfer requests that one pod be moved to another node, whatever happens to its current node.
type Transfer struct {
	// Pod, From and To are the names of the pod, its node and the target node.
	Pod, From, To string
	// Method is [Migrate] (the pod keeps its state) or [Evict] (it starts again).
	Method Method
	// Joules is the expected saving of energy, in total, over the pod's remaining work.
	Joules float64
	// Reason is a human-readable reason.
	Reason string
}

// Move is how one pod leaves its node.
type Move struct {
	// Pod is the name of the pod, Target that of its target node. A pod that is waited for has no target.
	Pod, Target string
	// Method is how the pod leaves.
	Method Method
	// Takes is how much later the pod ends because of the move: the pause of a migration, or the work that is repeated
	// after an eviction.
	Takes time.Duration
	// Costs is the expected cost of the move in micro-dollars, without the price of the nodes; 0 if it was not
	// calculated.
	Costs int64
	// Reason is a human-readable reason for this method; empty if the caller does not need it.
	Reason string
}

// Coupled returns the constraints of the pods on nodes, and of the pending pods that count, whose placement depends on
// other pods: see [constraint.Coupled].
func (s *State) Coupled(counts func(pending *Pod) bool) map[*constraint.Pod]bool {
	return constraint.Coupled(s.demands(counts))
}

// Tracked returns those of the same constraints of which a tracker must know: see [constraint.Tracked].
func (s *State) Tracked(counts func(pending *Pod) bool) map[*constraint.Pod]bool {
	return constraint.Tracked(s.demands(counts))
}

// demands returns the constraints of the pods on nodes, and of the pending pods that count, without duplicates.
func (s *State) demands(counts func(pending *Pod) bool) (all []*constraint.Pod) {
	seen := map[*constraint.Pod]bool{nil: true}
	add := func(d *constraint.Pod) {
		if !seen[d] {
			seen[d] = true
			all = append(all, d)
		}
	}
	for i := range s.Nodes {
		for j := range s.Nodes[i].Pods {
			add(s.Nodes[i].Pods[j].Demands)
		}
	}
	for i := range s.Pending {
		if counts(&s.Pending[i]) {
			add(s.Pending[i].Demands)
		}
	}
	return all
}
