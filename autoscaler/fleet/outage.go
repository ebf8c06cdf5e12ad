package fleet

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// A round waits for patience until its own fleet's provider answers. After that the fleet is suspended while the
// provider has until askTimeout. A provider that failed, or was late the last time, is awaited for shortPatience only.
// So are those of other fleets, whose last answer counts.
const (
	patience, shortPatience = 5 * time.Second, 50 * time.Millisecond
	askTimeout              = time.Minute
	// actTimeout is the maximum time of one order, release or clean-up. The next round finds out what was cut off and
	// continues it.
	actTimeout = time.Minute
	// A failed provider is asked again after firstRetry, which doubles with each failure up to lastRetry.
	firstRetry, lastRetry = time.Second, 2 * time.Minute
)

// known is what is known of a fleet's machines.
type known struct {
	inventory *provider.Inventory // nil before the first answer
	// failures is the number of failures of the provider in a row. err is the last one, and retry is when to ask again.
	failures int
	err      error
	retry    time.Time
	// generation is that of the fleet's spec at the last failure: another one may fix it.
	generation int64
	// late reports that the last answer took longer than patience.
	late bool
	// question is the last one; nil if the fleet's own round has used its answer, or if it failed.
	question *question
	// held reports that a round of the fleet uses its provider: no other round may ask it meanwhile.
	held bool
}

// patience returns how long a round waits for an answer after asking.
func (k *known) patience(own bool) time.Duration {
	if k.failures > 0 || k.late || !own && k.inventory != nil {
		return shortPatience
	}
	return patience
}

// question is one request for the machines of a fleet. done is closed when it is answered.
type question struct {
	provider   provider.Provider // it may remember what it observed
	generation int64             // of the fleet's spec
	asked      time.Time
	by         string // the fleet whose round asks
	done       chan struct{}

	// The fields below are protected by Reconciler.mu. awaited are the fleets whose rounds continued without the answer,
	// with the machines that they used instead; for nil, any answer starts a round.
	awaited   map[string]*provider.Inventory
	at        time.Time // the time of the answer
	inventory *provider.Inventory
	err       error
}

// errPending is returned while the provider of the round's own fleet is being asked.
var errPending = errors.New("a request to its provider is in progress")

// inventory asks a fleet's provider for its machines, and returns them with the provider that answered, which may have
// been asked by another round. If the provider of another fleet fails or is late, the result is its last answer, so
// that what that fleet has on order still counts; nil if there was none. For the round's own fleet it fails: with
// errPending, with a *waiting if the provider does not answer or failed, or with the provider's refusal. On success the
// round holds its provider until releaseProvider.
func (r *round) inventory(ctx context.Context, f *v1alpha1.NodeFleet, p provider.Provider) (*provider.Inventory, provider.Provider, error) {
	for {
		q, wait := r.inquire(ctx, f, p)
		q.answeredWithin(ctx, wait)
		if inventory, p, err := r.take(ctx, f, q, wait); !errors.Is(err, errOvertaken) {
			return inventory, p, err
		}
	}
}

// errOvertaken is returned if a round of another fleet has asked again meanwhile.
var errOvertaken = errors.New("another request to its provider is in progress")

// take uses the answer to a question, or continues without it.
func (r *round) take(ctx context.Context, f *v1alpha1.NodeFleet, q *question, wait time.Duration) (*provider.Inventory, provider.Provider, error) {
	own := f.Name == r.fleet.Name
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.known[f.UID]
	switch {
	case q == nil:
		return r.without(f, k)
	case !q.answered():
		loud := own && !k.late && k.failures == 0
		k.late = k.late || own || wait == patience
		r.setKnown(f.UID, k)
		q.await(r.fleet.Name, own, k.inventory)
		if loud {
			return nil, nil, r.unreachable(fmt.Errorf("no response within %v", patience), 0)
		}
		return r.without(f, k)
	case k.question != q && !own:
		return r.without(f, k)
	case k.question != q && q.err == nil:
		return nil, nil, errOvertaken
	case q.err != nil:
		return r.refusedOrFailed(ctx, f, k, q.err)
	}
	delete(q.awaited, r.fleet.Name)
	fresh := known{inventory: q.inventory.Clone(), late: k.late && q.at.Sub(q.asked) > patience, question: q}
	if own {
		if fresh.question, fresh.held = nil, true; q.by != f.Name && q.asked.Before(r.now) {
			r.wakeIn(mostRest) // changes that started the round may be missing
		}
		if r.report != nil {
			delete(r.report.Last, v1alpha1.FleetReasonProviderUnreachable) // so that the next outage is reported again
		}
	}
	r.setKnown(f.UID, fresh)
	return q.inventory.Clone(), q.provider, nil
}

// inquire returns the question to wait for, and for how long; nil if there is none. It asks a new one unless one is
// unanswered, or the round was waiting for the answer.
func (r *round) inquire(ctx context.Context, f *v1alpha1.NodeFleet, p provider.Provider) (*question, time.Duration) {
	own := f.Name == r.fleet.Name
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.known[f.UID]
	now := r.Clock.Now()
	if q := k.question; q != nil && q.answered() {
		_, awaited := q.awaited[r.fleet.Name]
		if q.generation != f.Generation || q.err == nil && (!awaited || now.Sub(q.at) > patience) {
			k.question = nil // for another spec, or from before the round
		}
	}
	switch {
	case k.held && !own:
		return nil, 0
	case k.question != nil:
		return k.question, max(0, k.question.asked.Add(k.patience(own)).Sub(now))
	case k.failures > 0 && k.generation == f.Generation && now.Before(k.retry):
		return nil, 0
	}
	k.question = r.question(ctx, f, p, now)
	r.setKnown(f.UID, k)
	return k.question, k.patience(own)
}

// question asks asynchronously. The answer starts rounds for the fleets in awaited.
func (r *round) question(ctx context.Context, f *v1alpha1.NodeFleet, p provider.Provider, now time.Time) *question {
	q := &question{provider: p, generation: f.Generation, asked: now, by: r.fleet.Name, done: make(chan struct{}), awaited: map[string]*provider.Inventory{}}
	go func() {
		within, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		inventory, err := p.Observe(within)
		if err != nil && within.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no response within %v: %w", askTimeout, err)
		}
		for _, fleet := range r.answer(q, inventory, err) {
			r.awaken(fleet)
		}
	}()
	return q
}

// answer records the answer to a question, and returns the fleets for which it starts a round.
func (r *Reconciler) answer(q *question, inventory *provider.Inventory, err error) (wakes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.inventory, q.err, q.at = inventory, err, r.Clock.Now()
	close(q.done)
	for fleet, before := range q.awaited {
		if before == nil || err == nil && !reflect.DeepEqual(before, inventory) {
			wakes = append(wakes, fleet)
		}
	}
	return wakes
}

// await makes the answer start a round of a fleet: always if it is about its own machines, else only if they differ
// from those that the round used.
func (q *question) await(fleet string, own bool, before *provider.Inventory) {
	switch {
	case own:
		before = nil
	case before == nil:
		before = &provider.Inventory{}
	}
	q.awaited[fleet] = before
}

// answeredWithin waits at most the given time for the answer.
func (q *question) answeredWithin(ctx context.Context, wait time.Duration) {
	if q == nil || wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-q.done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (q *question) answered() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

// pending returns the question, or nil if it has been answered.
func (q *question) pending() *question {
	if q != nil && q.answered() {
		return nil
	}
	return q
}

// lastInventory returns the last known machines of a fleet; nil if there was no answer yet.
func (r *Reconciler) lastInventory(fleet types.UID) *provider.Inventory {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[fleet].inventory.Clone()
}

// releaseProvider ends the use of the provider by the fleet's own round.
func (r *round) releaseProvider() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k, is := r.known[r.fleet.UID]; is {
		k.held = false
		r.setKnown(r.fleet.UID, k)
	}
}

// refusedOrFailed handles an error of a provider. A provider that refuses is available, and is asked again in the next
// round. The caller must hold r.mu.
func (r *round) refusedOrFailed(ctx context.Context, f *v1alpha1.NodeFleet, k known, err error) (*provider.Inventory, provider.Provider, error) {
	own, refused := f.Name == r.fleet.Name, (*provider.Refused)(nil)
	switch {
	case ctx.Err() != nil:
		return nil, nil, fmt.Errorf("list the machines of fleet %s: %w", f.Name, err)
	case errors.As(err, &refused):
		r.setKnown(f.UID, known{inventory: k.inventory, held: k.held, question: k.question.pending()})
		if own {
			return nil, nil, fmt.Errorf("list the machines of fleet %s: %w", f.Name, err)
		}
		return k.inventory.Clone(), nil, nil
	case !own:
		log.FromContext(ctx).Error(err, "Failed to list the machines of another fleet, using the last known ones", "fleet", f.Name)
	}
	return r.without(f, r.fail(f, err))
}

// fail records a failure of a fleet's provider, and when to ask again. The caller must hold r.mu.
func (r *round) fail(f *v1alpha1.NodeFleet, err error) known {
	k := r.known[f.UID]
	k.err, k.question, k.generation = err, k.question.pending(), f.Generation
	k.retry = r.Clock.Now().Add(min(lastRetry, firstRetry<<min(k.failures, 10)))
	k.failures++
	r.setKnown(f.UID, k)
	return k
}

// without returns the result without an answer. The round's own fleet is suspended.
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

// unreachable suspends a fleet whose provider fails or does not answer. The next round is due after again; 0 leaves it
// unchanged.
func (r *round) unreachable(err error, again time.Duration) error {
	if again > 0 {
		r.again = again
	}
	return &waiting{v1alpha1.FleetReasonProviderUnreachable, "no machine is bought or released, because the last request to the fleet's provider failed: " + err.Error()}
}

// asking calls a provider to change something, with a timeout.
func (r *round) asking(ctx context.Context, call func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	err := call(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("no response from the provider within %v: %w", actTimeout, err)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fail(r.fleet, err)
	}
	return err
}

// setKnown sets what is known of a fleet. The caller must hold r.mu.
func (r *Reconciler) setKnown(fleet types.UID, k known) {
	if r.known == nil {
		r.known = map[types.UID]known{}
	}
	r.known[fleet] = k
}

// recordOrder records the desired number of machines of a flavor, for other fleets that read it before the provider is
// asked again.
func (r *round) recordOrder(flavor string, want int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	inventory := r.known[r.fleet.UID].inventory
	if inventory == nil {
		return
	}
	at := slices.IndexFunc(inventory.Flavors, func(f provider.Flavor) bool { return f.Name == flavor })
	if at >= 0 {
		inventory.Flavors[at].Want = want
	}
}
