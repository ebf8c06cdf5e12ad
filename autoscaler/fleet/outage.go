package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// One round runs at a time, so that a provider that does not answer would stop every fleet.
const (
	// ownTimeout is how long the provider of the round's own fleet may take to tell its
	// machines, otherTimeout how long that of another fleet may.
	ownTimeout   = time.Minute
	otherTimeout = 15 * time.Second
	// otherRetry is for how long the provider of another fleet is not asked after it failed.
	otherRetry = 2 * time.Minute
)

// known is what is known of the machines of a fleet.
type known struct {
	inventory *provider.Inventory // nil if it has never been told
	failed    time.Time           // when its provider last failed; zero if it told since
}

// inventory asks a fleet's provider for its machines. If that of another fleet fails, the
// machines are those that it told last, so that what that fleet has on order still counts;
// nil if it has told none. The fleet's own round says what is wrong.
func (r *round) inventory(ctx context.Context, f *v1alpha1.NodeFleet, p provider.Provider) (*provider.Inventory, error) {
	own := f.Name == r.fleet.Name
	last := r.known[f.UID]
	if !own && !last.failed.IsZero() && r.now.Sub(last.failed) < otherRetry {
		return last.inventory.Clone(), nil
	}
	timeout := otherTimeout
	if own {
		timeout = ownTimeout
	}
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	inventory, err := p.Observe(within)
	if err == nil {
		r.know(f.UID, known{inventory: inventory.Clone()})
		return inventory, nil
	}
	if within.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("its provider has not answered within %v: %w", timeout, err)
	}
	r.know(f.UID, known{inventory: last.inventory, failed: r.now})
	refused := (*provider.Refused)(nil)
	switch {
	case own || ctx.Err() != nil:
		return nil, fmt.Errorf("take stock of fleet %s: %w", f.Name, err)
	case !errors.As(err, &refused):
		log.FromContext(ctx).Error(err, "taking stock of another fleet; its machines are taken to be those that were there last", "fleet", f.Name)
	}
	return last.inventory.Clone(), nil
}

func (r *Reconciler) know(fleet types.UID, k known) {
	if r.known == nil {
		r.known = map[types.UID]known{}
	}
	r.known[fleet] = k
}

// ordered notes how many machines of a flavor there are to be, for the case that the
// provider cannot be asked when another fleet looks.
func (r *round) ordered(flavor string, want int) {
	inventory := r.known[r.fleet.UID].inventory
	if inventory == nil {
		return
	}
	at := slices.IndexFunc(inventory.Flavors, func(f provider.Flavor) bool { return f.Name == flavor })
	if at >= 0 {
		inventory.Flavors[at].Want = want
	}
}
