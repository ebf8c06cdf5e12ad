package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// One round runs at a time. So that a provider that does not answer holds up its own fleet
// alone, a round waits for an answer for no longer than patience. Then the provider has until
// askTimeout, beside the queue, and the fleet holds. One that failed, or was late the last
// time, is waited for no longer than shortPatience.
const (
	patience, shortPatience = 5 * time.Second, 50 * time.Millisecond
	askTimeout              = time.Minute
	// actTimeout is how long one order, one release or one clean-up may take. What is cut off
	// is found and carried on by the next round.
	actTimeout = time.Minute
	// A provider that failed is asked again after firstRetry, and after twice as long each time
	// that it fails again, up to lastRetry.
	firstRetry, lastRetry = time.Second, 2 * time.Minute
)

// known is what is known of the machines of a fleet.
type known struct {
	inventory *provider.Inventory // nil if it has never been told
	// failures counts those of its provider in a row; err is the last, and retry is when to ask
	// again.
	failures int
	err      error
	retry    time.Time
	// generation is that of the fleet's spec at the last failure: another may mend it.
	generation int64
	// late says that the last answer outlasted patience.
	late bool
	// question is being asked, or was answered and not used; nil if there is none.
	question *question
}

// patience is how long a round waits for an answer.
func (k *known) patience() time.Duration {
	switch {
	case k.question != nil:
		return 0 // an earlier round has waited
	case k.failures > 0 || k.late:
		return shortPatience
	}
	return patience
}

// question is one question for the machines of a fleet. The answer may be read once done is
// closed.
type question struct {
	provider   provider.Provider // that is asked: it may remember what it saw
	generation int64             // of the fleet's spec
	asked      time.Time
	done       chan struct{}
	late       atomic.Bool // the round that asked has not waited
	inventory  *provider.Inventory
	err        error
}

// errPending is returned while the provider of the round's own fleet is being asked.
var errPending = errors.New("its provider is being asked")

// inventory asks a fleet's provider for its machines, and returns with them the provider that
// told them, which may have been asked by an earlier round. If that of another fleet fails or is
// late, the machines are those that it told last, so that what that fleet has on order still
// counts; nil if it has told none. The fleet's own round says what is wrong: it fails with
// errPending, with a *waiting if the provider is silent or failed, or as the provider refused.
func (r *round) inventory(ctx context.Context, f *v1alpha1.NodeFleet, p provider.Provider) (*provider.Inventory, provider.Provider, error) {
	k := r.known[f.UID]
	if q := k.question; q != nil && q.answered() && (q.generation != f.Generation || q.err == nil && r.now.Sub(q.asked) > askTimeout) {
		k.question = nil // what it told is of another spec, or too old
	}
	if k.question == nil && k.failures > 0 && k.generation == f.Generation && r.now.Before(k.retry) {
		return r.without(f, k)
	}
	wait := k.patience()
	if k.question == nil {
		k.question = r.question(ctx, f, p)
	}
	if !k.question.answeredWithin(ctx, wait) {
		loud := !k.late && k.failures == 0
		k.late = true
		r.know(f.UID, k)
		if loud && f.Name == r.fleet.Name {
			return nil, nil, r.unreachable(fmt.Errorf("it has not answered within %v", patience), 0)
		}
		return r.without(f, k)
	}
	q := k.question
	k.question = nil
	if err := q.err; err != nil {
		return r.refusedOrFailed(ctx, f, k, err)
	}
	took := r.Clock.Now().Sub(q.asked)
	r.know(f.UID, known{inventory: q.inventory.Clone(), late: k.late && took > patience})
	if f.Name == r.fleet.Name && r.memory != nil {
		delete(r.memory.said, unreachableReason) // the next outage is told again
	}
	return q.inventory, q.provider, nil
}

// question asks beside the queue, and starts a round of the fleet if the one that asked has not
// waited for the answer.
func (r *round) question(ctx context.Context, f *v1alpha1.NodeFleet, p provider.Provider) *question {
	q := &question{provider: p, generation: f.Generation, asked: r.now, done: make(chan struct{})}
	name, wake := f.Name, r.wake
	go func() {
		within, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		q.inventory, q.err = p.Observe(within)
		if q.err != nil && within.Err() != nil && ctx.Err() == nil {
			q.err = fmt.Errorf("it has not answered within %v: %w", askTimeout, q.err)
		}
		close(q.done)
		if q.late.Load() && wake != nil {
			wake(name)
		}
	}()
	return q
}

// answeredWithin waits for the answer. If it does not come in time, its arrival starts a round.
func (q *question) answeredWithin(ctx context.Context, wait time.Duration) bool {
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-q.done:
			return true
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if q.answered() {
		return true
	}
	q.late.Store(true)
	return q.answered() // if it came in between, it may have started no round
}

func (q *question) answered() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

// refusedOrFailed takes in that a provider has answered with an error. One that refuses is
// there, and asked again in the next round.
func (r *round) refusedOrFailed(ctx context.Context, f *v1alpha1.NodeFleet, k known, err error) (*provider.Inventory, provider.Provider, error) {
	own, refused := f.Name == r.fleet.Name, (*provider.Refused)(nil)
	switch {
	case ctx.Err() != nil:
		return nil, nil, fmt.Errorf("take stock of fleet %s: %w", f.Name, err)
	case errors.As(err, &refused):
		r.know(f.UID, known{inventory: k.inventory})
		if own {
			return nil, nil, fmt.Errorf("take stock of fleet %s: %w", f.Name, err)
		}
		return k.inventory.Clone(), nil, nil
	case !own:
		log.FromContext(ctx).Error(err, "taking stock of another fleet; its machines are taken to be those that were there last", "fleet", f.Name)
	}
	return r.without(f, r.fail(f, err))
}

// fail notes that the provider of a fleet has failed, and when to ask it again.
func (r *round) fail(f *v1alpha1.NodeFleet, err error) known {
	k := r.known[f.UID]
	k.err, k.question, k.generation = err, nil, f.Generation
	k.retry = r.Clock.Now().Add(min(lastRetry, firstRetry<<min(k.failures, 10)))
	k.failures++
	r.know(f.UID, k)
	return k
}

// without is what a round does that goes without an answer: that of the fleet itself holds.
func (r *round) without(f *v1alpha1.NodeFleet, k known) (*provider.Inventory, provider.Provider, error) {
	switch {
	case f.Name != r.fleet.Name:
		return k.inventory.Clone(), nil, nil
	case k.err == nil:
		return nil, nil, errPending
	}
	wait := max(settling, k.retry.Sub(r.Clock.Now()))
	if k.question != nil {
		wait = 0 // the answer starts the next round
	}
	return nil, nil, r.unreachable(k.err, wait)
}

const unreachableReason = "ProviderUnreachable"

// unreachable is why a fleet holds whose provider is silent or fails. The next round is due
// after the time given; 0 leaves it as it is.
func (r *round) unreachable(err error, again time.Duration) error {
	if again > 0 {
		r.again = again
	}
	return &waiting{unreachableReason, "no machine is bought or released: the provider cannot be asked for the fleet's machines: " + err.Error()}
}

// asking calls a provider to change something, for a limited time.
func (r *round) asking(ctx context.Context, call func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	err := call(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the provider has not answered within %v: %w", actTimeout, err)
		r.fail(r.fleet, err)
	}
	return err
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
