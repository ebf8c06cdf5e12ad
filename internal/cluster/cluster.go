// Package cluster is what those who decide about machines and moves see of a
// cluster, and what they may ask for.
//
// A controller or the simulator fills in a [State] and hands it to the functions
// of autoscaler/fleet/decide and internal/moves, whose answer is a [Plan]. All
// times are lengths, not moments: how long something has lasted, or will last.
// So a decision needs no clock.
package cluster

import (
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// Pod is a pod that waits or runs.
type Pod struct {
	// Item has the pod's unique name and size. Runtime is how long a batch pod is
	// still expected to run: all of it while it waits, 0 when it is overdue, and 0
	// for services.
	packing.Item
	// Guessed says that nothing is known of how long a batch pod runs: its Runtime is a
	// default. It is not expected to end soon.
	Guessed bool
	// Class is batch or service.
	Class class.Class
	// Arch is the CPU architecture that it needs, as in GOARCH; empty means any.
	Arch string
	// Waited is how long a waiting pod has found no room, and how long ago a recent
	// one came.
	Waited time.Duration
	// Ran is how much work a running batch pod has done that a restart would
	// repeat.
	Ran time.Duration
	// Nominated says of a waiting pod that a machine on its way was bought for it: it
	// chooses before others, and nothing more is bought for it.
	Nominated bool
	// Fixed says that the pod must not be moved, whatever is planned.
	Fixed bool
	// Held says to a person why it may not be moved now; empty if it may, or if nobody
	// knows.
	Held string
	// Ways are the methods by which it may leave its node. The zero value leaves that to
	// the configuration of whoever plans.
	Ways Ways
	// Resided is for how long it has been on its node, however it came there.
	Resided time.Duration
	// Overdue is for how long a batch pod has run beyond what was expected of it.
	Overdue time.Duration
	// Promised is the node on which room has been promised to a waiting pod; empty for
	// none.
	Promised string
	// EnergyWeight is the weight of energy against runtime that its owner states, for it or
	// for its namespace, in [0, 1]; nil where nothing is stated or nobody asks.
	EnergyWeight *float64
	// Demands are what else it demands of where it runs; nil for nothing. Only the
	// planners of purchases and of moves look at those that depend on other pods.
	Demands *constraint.Pod
	// Namespace is where it is, and Images are those of its containers, ordered, each once.
	// Both are empty where nobody asks.
	Namespace string
	Images    []string
}

// Scheduled orders pods as they are scheduled: services by size, then batch pods by
// runtime.
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

// Phase is where a machine is in its life.
type Phase int

const (
	// Ordered machines have been asked for and are paid for, but take no pods yet.
	Ordered Phase = iota
	// Ready machines take pods.
	Ready
	// Leaving machines take no more pods, because they are being emptied.
	Leaving
	// Asleep machines are in standby and take pods once they have been woken.
	Asleep
)

// Node is a machine.
type Node struct {
	// Name is unique.
	Name string
	// Flavor is the kind of machine.
	Flavor string
	// Class is which pods it takes.
	Class class.Class
	// Capacity is what pods can use of it in all.
	Capacity packing.Size
	// MaxPods is how many pods it takes; nil for any number.
	MaxPods *int64
	// Arch is its CPU architecture, as in GOARCH.
	Arch string
	// Host has its labels and taints; nil where no pod looks at them.
	Host *constraint.Host
	// UnderUsed and UnneededFor, where they are not nil, say for this node below which
	// utilisation it is under-used, and for how long it must have been.
	UnderUsed   *float64
	UnneededFor *time.Duration
	// Kept says that it is neither emptied nor released, whatever is planned; KeptFor says
	// to a person why, where that is known.
	Kept    bool
	KeptFor string
	// MicroDollarsPerHour is its price.
	MicroDollarsPerHour int64
	// Phase is where it is in its life.
	Phase Phase
	// Due is how long an ordered machine is expected to need until it is ready.
	Due time.Duration
	// Age is how long it has been paid for.
	Age time.Duration
	// Pods are those on the node and those on their way to it, ordered by name.
	Pods []Pod
	// Incoming is how many of the pods are on their way.
	Incoming int
	// Waits says of a Leaving node that it is only cordoned: the pods that are still there
	// end by themselves, and none is being moved. It can be uncordoned.
	Waits bool
	// Until is for how long such pods are still expected to be there by the plan that cordoned
	// the node. Below 0 they should have ended.
	Until time.Duration
}

// Used is what the pods on the node request together.
func (n *Node) Used() packing.Size {
	var used packing.Size
	for i := range n.Pods {
		used.MilliCPU += n.Pods[i].Size.MilliCPU
		used.MemoryBytes += n.Pods[i].Size.MemoryBytes
	}
	return used
}

// Free is the capacity that no pod requests.
func (n *Node) Free() packing.Size { return n.Capacity.Minus(n.Used()) }

// Remaining is how long the longest batch pod on the node is expected to run
// still, 0 when there is none. Services do not count.
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

// Suits reports whether class, architecture, labels and taints let the pod run on
// the node, were there room.
func (n *Node) Suits(p *Pod) bool {
	return n.Class.Takes(p.Class) && (p.Arch == "" || p.Arch == n.Arch) &&
		(p.Demands == nil || n.Host == nil || p.Demands.Admits(n.Host) == "")
}

// Takes reports whether the node can hold that many pods, whatever their size.
func (n *Node) Takes(pods int) bool { return n.MaxPods == nil || int64(pods) <= *n.MaxPods }

// HasRoom reports whether the node has room left for the pod, and suits it.
func (n *Node) HasRoom(p *Pod) bool {
	return n.Takes(len(n.Pods)+1) && p.Size.Fits(n.Free()) && n.Suits(p)
}

// Flavor is a kind of machine that can be bought.
type Flavor struct {
	// Name is unique.
	Name string
	// Size is what pods can use of one machine.
	Size packing.Size
	// MaxPods is how many pods one machine takes; nil for any number.
	MaxPods *int64
	// Arch is the CPU architecture, as in GOARCH.
	Arch string
	// Host has the labels and taints of its nodes; nil where no pod looks at them.
	Host *constraint.Host
	// Most is how many more can be bought, nil for any number.
	Most *int
	// MicroDollarsPerHour is the price of one machine.
	MicroDollarsPerHour int64
}

// Takes reports whether one machine can hold that many pods, whatever their size.
func (f *Flavor) Takes(pods int) bool { return f.MaxPods == nil || int64(pods) <= *f.MaxPods }

// Sells reports whether n more can be bought.
func (f *Flavor) Sells(n int) bool { return f.Most == nil || n <= *f.Most }

// Unlimited is the flavor as if any number of it could be bought.
func (f Flavor) Unlimited() Flavor {
	f.Most = nil
	return f
}

// State is a cluster at one moment.
type State struct {
	// Nodes are the machines that are paid for and have not been asked to go,
	// ordered by name.
	Nodes []Node
	// Pending are the pods that found no room, ordered by name.
	Pending []Pod
	// Recent are the pods that came within the last Lag and ScalingInterval
	// together, the last first. Their Runtime is what was expected of them.
	Recent []Pod
	// Observed is for how long arrivals have been watched, that time at most.
	Observed time.Duration
	// QueueEmpty is for how long no batch pod has been pending.
	QueueEmpty time.Duration
	// Flavors can be bought, ordered by name.
	Flavors []Flavor
	// MaxNodes is how many machines there may be, those on order included.
	MaxNodes int
	// Lag is how long a machine is expected to need from order to ready, Release how
	// long from being asked to go until it is no longer paid.
	Lag, Release time.Duration
	// BillingPeriod is the unit of which every started one is paid.
	BillingPeriod time.Duration
	// Migration says how long moving a pod with its state takes.
	Migration Migration
	// ScalingInterval is the time between two rounds of buying, SchedulingInterval
	// that between two looks at pods that wait.
	ScalingInterval, SchedulingInterval time.Duration
	// Scaling says that this is a round in which machines may be bought.
	Scaling bool
}

// Migration is what moving a pod with its state takes.
type Migration struct {
	// BitsPerSecond is the bandwidth; BytesPerMemory how many bytes of checkpoint
	// there are per byte of requested memory; Fixed comes on top.
	BitsPerSecond  int64
	BytesPerMemory float64
	Fixed          time.Duration
}

// DefaultMigration is what is expected of migrations where nobody has said anything else:
// the bandwidth of HTAS (section 5.3), a checkpoint as large as the memory that is
// requested, and the pause of a container with hardly any memory, as measured
// (docs/benchmarks.md).
var DefaultMigration = Migration{BitsPerSecond: 1_200_000_000, BytesPerMemory: 1, Fixed: time.Second}

// Time is how long moving a pod that requests so much memory takes, rounded up to
// the millisecond: bytes / bandwidth + the fixed part (HTAS, section 5.3). The pod
// does not run meanwhile.
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

// Plan is what a decision asks for.
type Plan struct {
	Buy     []Purchase
	Drains  []Drain
	Release []Release
	// Uncordon are nodes that wait for their last pods, and whose plan no longer holds: they
	// take pods again.
	Uncordon []Stay
	// Suspend are empty nodes to put to sleep, Resume those to wake.
	Suspend, Resume []Stay
	// Kept are nodes that stay although they are under-used, for whoever asks why.
	Kept []Stay
	// Transfers are single pods to move to nodes that suit them better.
	Transfers []Transfer
	// Wake is after what time the decision wants to be asked again even if nothing
	// happens; 0 means not.
	Wake time.Duration
}

// Purchase asks for one machine.
type Purchase struct {
	// Flavor is the name of the flavor, Class which pods the machine will take.
	Flavor string
	Class  class.Class
	// Pods are the names of the pods for which it is bought.
	Pods []string
	// Reason says why in words.
	Reason string
}

// Release asks for an empty machine to be released.
type Release struct {
	Node   string
	Reason string
}

// Stay says why a node is neither emptied nor released, or why it sleeps or wakes.
type Stay struct {
	Node   string
	Reason string
}

// Drain asks for a machine to be emptied and released.
type Drain struct {
	Node string
	// Method is how pods leave that have no entry in Moves.
	Method Method
	// Moves are its pods, by name, with how they leave and the nodes they go to. Evicted
	// pods go where the scheduler puts them; the target shows that there is room.
	Moves []Move
	// Until is when the last pod is expected to have left.
	Until time.Duration
	// CordonOnly says that the node is only cordoned for now: nothing is done to its pods, and
	// when they have left, its machine stays until it is released or the node is
	// uncordoned.
	CordonOnly bool
	// Replacement, if not nil, is to be bought first: the pods that are still there
	// when it is ready move to it, and Moves is empty.
	Replacement *Purchase
	// Saves and Costs are what the drain is expected to save and to cost, in
	// micro-dollars; both 0 where it was not worked out.
	Saves, Costs int64
	Reason       string
}

// Exchange asks for machines in the place of others, which are emptied and released
// once the new ones are ready.
type Exchange struct {
	// Nodes are those to empty, by name.
	Nodes []string
	// Buy are the machines to buy first. Their Pods are those of the nodes that are to go
	// there. It may be empty.
	Buy []Purchase
	// Moves are the other pods of the nodes, by name, with the nodes they go to, which are
	// there already. As for a [Drain], targets of evicted pods show that there is room.
	Moves []Move
	// Method is how pods leave that have no entry in Moves or Leave.
	Method Method
	// Leave is how the pods of Buy leave, by name; it has no targets.
	Leave []Move
	// Until is when the last pod is expected to have left.
	Until time.Duration
	// SavesPerHour is the price of the nodes less that of the machines to buy, in
	// micro-dollars.
	SavesPerHour int64
	// Saves and Costs are what the exchange is expected to save and to cost, in
	// micro-dollars.
	Saves, Costs int64
	Reason       string
}

// Transfer asks for one pod to be moved to another node, whatever becomes of its own.
type Transfer struct {
	// Pod, From and To are names: of the pod, of its node, and of the node it goes to.
	Pod, From, To string
	// Method is [Migrate] or [Evict]: with its state, or started anew there.
	Method Method
	// Joules is what the rest of its work is expected to take less, all told.
	Joules float64
	// Reason says it in words.
	Reason string
}

// Move is how one pod leaves its node.
type Move struct {
	// Pod is its name, Target that of the node it goes to. One that waits until it ends has
	// no target.
	Pod, Target string
	// Method is how it leaves.
	Method Method
	// Takes is how much later the pod ends because of it: the time for which it stands
	// still while it is migrated, or the work that it repeats after an eviction.
	Takes time.Duration
	// Costs is what this way is expected to cost, in micro-dollars, beside what the nodes
	// cost: 0 where it was not worked out.
	Costs int64
	// Reason says in words why this way and no other was chosen; empty where nobody asks.
	Reason string
}
