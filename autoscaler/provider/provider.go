// Package provider is the interface through which a NodeFleet gets machines. Each folder below it is one
// implementation.
package provider

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// Provider buys and releases machines. Buy and Release may be called concurrently, each for a different flavor;
// otherwise implementations need not be safe for concurrent use.
//
// Both writes are idempotent: repeating one after a crash, with the same arguments, changes nothing that was already
// done.
type Provider interface {
	// Observe reads the flavors and machines. It reads the numbers of machines from the source of truth, not from a
	// cache, so that it observes the effects of Buy and Release.
	Observe(ctx context.Context) (*Inventory, error)

	// Buy changes the desired number of machines of a flavor to to, if it is still from. It returns ErrChanged if
	// another client has changed that number. A smaller number deletes no existing machine: Buy returns ErrChanged if
	// there are more than to. The intent names the decision.
	Buy(ctx context.Context, intent, flavor string, from, to int) error

	// Release releases machines of a flavor whose desired number is from. A machine that is already leaving is no
	// error. It returns ErrChanged if another client has changed the number of machines, or if one of them is gone,
	// because then another has replaced it.
	Release(ctx context.Context, intent, flavor string, from int, machines []string) error
}

// ErrChanged reports that the state on which the decision is based has changed. Observe and decide again.
var ErrChanged = errors.New("another client has changed the number of machines")

// ErrConflict is an ErrChanged of a write that conflicted with another, which need not concern the number of machines:
// the same write may be retried at once.
var ErrConflict = fmt.Errorf("the write conflicts with another one: %w", ErrChanged)

// Refused reports that nothing can be done until a user repairs what Message says. Reason is the reason of the
// condition.
type Refused struct{ Reason, Message string }

// Error returns the message.
func (r *Refused) Error() string { return r.Message }

// Cleaner is a Provider that can find leftovers.
type Cleaner interface {
	// Clean removes leftovers: machines that were created twice for one order, and nodes whose machines are gone. It
	// touches only objects with the fleet's marks, and relies on the last Observe.
	Clean(ctx context.Context) error
}

// Inventory is the flavors that can be bought and the existing machines.
type Inventory struct {
	// Flavors are the flavors, ordered by name.
	Flavors []Flavor
	// Machines are the existing machines, ordered by name.
	Machines []Machine
	// Quota is what the seller still allows, for all flavors together.
	Quota cluster.Limits
	// Rivals are others that buy machines in this cluster, ordered by name.
	Rivals []Rival
}

// Rival is another program, or a part of one, that buys machines for pending pods.
type Rival struct {
	// Name identifies it for users, such as NodePool default.
	Name string
	// Serves reports whether it may buy a machine for a pending pod. It may err on the side of true, so that no pod gets
	// two machines.
	Serves func(*corev1.Pod) bool
	// Apart tells users how to have only one of them buy for a pod, as a sentence.
	Apart string
}

// Clone returns a copy whose lists may be changed. The clone of nil is nil.
func (i *Inventory) Clone() *Inventory {
	if i == nil {
		return nil
	}
	c := *i
	c.Flavors, c.Machines = slices.Clone(i.Flavors), slices.Clone(i.Machines)
	return &c
}

// Mixed reports whether the flavor has machines of an older template. What was recorded as the size of its machines may
// then be theirs.
func (i *Inventory) Mixed(flavor string) bool {
	return slices.ContainsFunc(i.Machines, func(m Machine) bool { return m.Flavor == flavor && m.Outdated })
}

// Unlimited is the Max of a flavor of which any number may be bought.
const Unlimited = math.MaxInt32

// Flavor is a kind of machine.
type Flavor struct {
	// Name is unique in its fleet.
	Name string
	// InstanceType is the seller's name of the instance type; empty if unknown.
	InstanceType string
	// PricedAs is the name under which the fleet's pricing has its price; empty for that of InstanceType, else Name.
	PricedAs string
	// Size is what pods can use of one machine, including the pods of DaemonSets. MaxPods is the maximum number of
	// pods.
	Size    packing.Size
	MaxPods int64
	// Extended are the extended resources that pods can use of one machine, such as GPUs, by name; Size has none of them. A
	// resource that is stated counts even if the node that was seen does not have it: its driver may not have published it yet.
	Extended map[corev1.ResourceName]int64
	// EphemeralStorage is what pods can use of the ephemeral storage of one machine, in bytes, including the pods of DaemonSets;
	// nil if that is unknown. Attaches is how many volumes of each CSI driver its node can attach, if that is stated; nil if not.
	EphemeralStorage *int64
	Attaches         map[string]int64
	// Presumed reports that the provider only presumes Extended and EphemeralStorage: what the fleet's pricing states of the
	// flavor replaces them.
	Presumed bool
	// Seen reports that Size and MaxPods are those of an existing machine, not the stated ones. Template identifies
	// what machines are made from: machines of the same template are alike.
	Seen     bool
	Template string
	// Unsized reports that the Problem is only that the size of machines is not stated, and that none can be seen.
	Unsized bool
	// Sold is what one machine counts against the Quota.
	Sold packing.Size
	// Labels and Taints are those of its nodes, without the hostname.
	Labels map[string]string
	Taints []corev1.Taint
	// Stated are the taints that are stated for machines of the flavor, whether or not a node has them. Other taints of
	// a node may be startup taints.
	Stated []corev1.Taint
	// MicroDollarsPerHour is the price that the provider knows; HasPrice reports whether it knows one.
	MicroDollarsPerHour int64
	HasPrice            bool
	// Min and Max bound the number of machines, Max by [Unlimited] if nothing does; Want is the desired number.
	Min, Max, Want int
	// Blocked is how many of the desired machines are not made before machines that are being deleted are gone. When
	// that will be is unknown.
	Blocked int
	// JoinTimeout, UnneededTime and Threshold override those of the fleet if they are not nil. Threshold is a fraction.
	JoinTimeout, UnneededTime *time.Duration
	Threshold                 *float64
	// Problem is why no machine of the flavor can be bought; empty if one can. Named reports that the fleet names the
	// flavor, instead of using all flavors of the seller, so that users must repair the Problem.
	Problem string
	Named   bool
	// Held is why neither the number of machines of the flavor nor any machine of it may be changed; empty if they may.
	// It is also a Problem, and why the flavor is Kept.
	Held string
	// Kept is why no machine of the flavor may be released, nor its number lowered; empty if they may. More may be bought.
	Kept string
	// Warning is what endangers the pods on its machines, which can be bought nevertheless; empty if nothing does.
	Warning string
}

// Machine is a machine, from its order until it is no longer billed.
type Machine struct {
	// Name is unique in its fleet.
	Name string
	// Flavor is the name of its flavor.
	Flavor string
	// Node is the name of its node; empty until it has one.
	Node string
	// Unidentified is why the node on the machine is unknown; empty if it is known, or known not to exist. Pods may run
	// on such a machine, so it must not be released regardless of its other fields. It has no Node.
	Unidentified string
	// Ordered is the time of the order.
	Ordered time.Time
	// Failed is the error of a machine that will never come, else empty. Waits is what the provider waits for, if it
	// reports that.
	Failed, Waits string
	// Leaving reports that the machine is being released.
	Leaving bool
	// Outdated reports that the machine is known to be of an older template than its flavor: others may differ from it. A
	// change of the template may be known before that. RolledOut reports that the provider replaces such machines itself.
	Outdated, RolledOut bool
}
