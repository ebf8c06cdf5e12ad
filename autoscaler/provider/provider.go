// Package provider is the port through which a NodeFleet gets machines. Each
// folder below it is one adapter.
package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// Provider gives machines and takes them back. Buy and Release may be called by several
// goroutines at a time, each for a flavor of its own; otherwise implementations need not be safe
// for concurrent use.
//
// Both writes are idempotent: doing one again after a crash, with the same
// arguments, changes nothing that was done before.
type Provider interface {
	// Observe reads what can be bought and what there is. The numbers of machines
	// come from the source of truth, not from a cache: what Buy and Release have
	// done is seen.
	Observe(ctx context.Context) (*Inventory, error)

	// Buy makes the machines of a flavor as many as to, if there are still to be
	// as many as from. It returns ErrChanged if somebody else has changed their
	// number. To want fewer takes none away that there is: it returns ErrChanged if there
	// are more than to. The intent names the decision.
	Buy(ctx context.Context, intent, flavor string, from, to int) error

	// Release releases machines of a flavor of which there are to be as many as
	// from. A machine that is going is no fault. It returns ErrChanged if somebody
	// else has changed the number of machines, or one of them has gone: then another
	// has come in its place.
	Release(ctx context.Context, intent, flavor string, from int, machines []string) error
}

// ErrChanged says that the world is no longer what the decision was made for.
// Observe again and decide anew.
var ErrChanged = errors.New("the number of machines has been changed by somebody else")

// ErrConflict is an ErrChanged of a write that met another, of which it is not known that it
// concerned the number of machines: the same may be tried again at once.
var ErrConflict = fmt.Errorf("the write met another: %w", ErrChanged)

// Refused says that nothing can be done until somebody puts right what Message says.
// Reason is one word for it, as conditions have it.
type Refused struct{ Reason, Message string }

// Error returns the message.
func (r *Refused) Error() string { return r.Message }

// Cleaner is a Provider that can find things left behind that nobody needs.
type Cleaner interface {
	// Clean removes them: machines that were made twice for one order, and nodes whose
	// machines have gone. It touches nothing that does not carry the fleet's marks, and
	// goes by what the Observe before it has seen.
	Clean(ctx context.Context) error
}

// Inventory is what can be bought and what there is.
type Inventory struct {
	// Flavors are ordered by name.
	Flavors []Flavor
	// Machines are ordered by name.
	Machines []Machine
	// Quota is what the seller still allows for, of all flavors together.
	Quota cluster.Limits
}

// Clone returns a copy whose lists may be changed. That of nil is nil.
func (i *Inventory) Clone() *Inventory {
	if i == nil {
		return nil
	}
	c := *i
	c.Flavors, c.Machines = slices.Clone(i.Flavors), slices.Clone(i.Machines)
	return &c
}

// Flavor is a kind of machine.
type Flavor struct {
	// Name is unique in its fleet.
	Name string
	// InstanceType is how the seller calls it; empty if that is not known.
	InstanceType string
	// Size is what pods can use of one machine, before the pods of DaemonSets.
	// MaxPods is how many pods it takes.
	Size    packing.Size
	MaxPods int64
	// Seen says that Size and MaxPods are those of a machine that there is, and not what
	// is promised. Template names what machines are made from: as long as it is the same,
	// they are alike.
	Seen     bool
	Template string
	// Sold is what the seller counts one machine for against the Quota.
	Sold packing.Size
	// Labels and Taints are those that its nodes have. The hostname is missing.
	Labels map[string]string
	Taints []corev1.Taint
	// Stated are the taints that somebody has stated for machines of the flavor, whether or not
	// a node has them. Others on a node may be there only until it has started.
	Stated []corev1.Taint
	// MicroDollarsPerHour is the price that the provider knows; HasPrice is whether
	// it knows one.
	MicroDollarsPerHour int64
	HasPrice            bool
	// Min and Max bound the number of machines; Want is how many there are to be.
	Min, Max, Want int
	// JoinTimeout, UnneededTime and Threshold override those of the fleet where they
	// are not nil. Threshold is a share.
	JoinTimeout, UnneededTime *time.Duration
	Threshold                 *float64
	// Problem says why no machine of it can be bought; empty if one can. Named says that
	// it is not one among all that the seller has: the fleet asks for it by name, and a
	// Problem is for somebody to put right.
	Problem string
	Named   bool
	// Warning says what threatens pods on its machines, which can be bought nevertheless;
	// empty if nothing does.
	Warning string
}

// Machine is a machine, from its order until it is no longer paid for.
type Machine struct {
	// Name is unique in its fleet.
	Name string
	// Flavor is the name of its flavor.
	Flavor string
	// Node is the name of its node; empty until it has one.
	Node string
	// Unidentified says why it is not known which node is on the machine; empty if it is
	// known, or known that there is none. There may be pods on such a machine: whatever
	// else is said of it, it must not be released. It has no Node.
	Unidentified string
	// Ordered is when it was asked for.
	Ordered time.Time
	// Failed says what went wrong if the machine is never going to come; else it is
	// empty. Waits says what the provider waits for, where it tells.
	Failed, Waits string
	// Leaving says that it has been asked to go.
	Leaving bool
}
