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

// A round waits for patience for its own fleet's provider to answer. After that the provider has
// until askTimeout, and the fleet holds. One that failed, or was late the last time, is waited
// for no longer than shortPatience. So are those of other fleets: what they told last counts.
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
	// question is the last; nil if the fleet's own round has used the answer, or it failed.
	question *question
	// held says that a round of the fleet uses its provider: nobody else asks it meanwhile.
	held bool
}

// patience is how long a round waits for an answer, from the question on.
func (k *known) patience(own bool) time.Duration {
	if k.failures > 0 || k.late || !own && k.inventory != nil {
		return shortPatience
	}
	return patience
}

// question is one question for the machines of a fleet. done is closed when it is answered.
type question struct {
	provider   provider.Provider // that is asked: it may remember what it saw
	generation int64             // of the fleet's spec
	asked      time.Time
	by         string // the fleet whose round asks
	done       chan struct{}

	// The rest is protected by Reconciler.mu. awaited are the fleets whose rounds have not
	// waited, with the machines that they went by; nil has any answer start a round.
	awaited   map[string]*provider.Inventory
	at        time.Time // when it was answered
	inventory *provider.Inventory
	err       error
}

// errPending is returned while the provider of the round's own fleet is being asked.
var errPending = errors.New("its provider is being asked")

// inventory asks a fleet's provider for its machines, and returns with them the provider that
// told them, which may have been asked by another round. If that of another fleet fails or is
// late, the machines are those that it told last, so that what that fleet has on order still
// counts; nil if it has told none. The fleet's own round says what is wrong: it fails with
// errPending, with a *waiting if the provider is silent or failed, or as the provider refused.
// If it does not fail, it holds its provider until letGo.
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
var errOvertaken = errors.New("its provider is being asked again")

// take uses the answer to a question, or goes without.
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
		r.know(f.UID, k)
		q.await(r.fleet.Name, own, k.inventory)
		if loud {
			return nil, nil, r.unreachable(fmt.Errorf("it has not answered within %v", patience), 0)
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
	told := known{inventory: q.inventory.Clone(), late: k.late && q.at.Sub(q.asked) > patience, question: q}
	if own {
		if told.question, told.held = nil, true; q.by != f.Name && q.asked.Before(r.now) {
			r.wakeIn(mostRest) // what the round began for may be missing
		}
		if r.memory != nil {
			delete(r.memory.said, unreachableReason) // the next outage is told again
		}
	}
	r.know(f.UID, told)
	return q.inventory.Clone(), q.provider, nil
}

// inquire returns the question to wait for, and for how long; nil if there is none. It is a new one
// unless one is being asked, or the round has been waiting for the answer.
func (r *round) inquire(ctx context.Context, f *v1alpha1.NodeFleet, p provider.Provider) (*question, time.Duration) {
	own := f.Name == r.fleet.Name
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.known[f.UID]
	now := r.Clock.Now()
	if q := k.question; q != nil && q.answered() {
		_, awaited := q.awaited[r.fleet.Name]
		if q.generation != f.Generation || q.err == nil && (!awaited || now.Sub(q.at) > patience) {
			k.question = nil // it is of another spec, or of before the round
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
	r.know(f.UID, k)
	return k.question, k.patience(own)
}

// question asks beside the rounds, and starts those that have not waited for the answer.
func (r *round) question(ctx context.Context, f *v1alpha1.NodeFleet, p provider.Provider, now time.Time) *question {
	q := &question{provider: p, generation: f.Generation, asked: now, by: r.fleet.Name, done: make(chan struct{}), awaited: map[string]*provider.Inventory{}}
	go func() {
		within, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		inventory, err := p.Observe(within)
		if err != nil && within.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("it has not answered within %v: %w", askTimeout, err)
		}
		for _, fleet := range r.answer(q, inventory, err) {
			r.awaken(fleet)
		}
	}()
	return q
}

// answer answers a question, and returns the fleets that have a round for that reason.
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

// await has the answer start a round of a fleet: always if it is about its own machines, and else
// if these are not what it went by.
func (q *question) await(fleet string, own bool, before *provider.Inventory) {
	switch {
	case own:
		before = nil
	case before == nil:
		before = &provider.Inventory{}
	}
	q.awaited[fleet] = before
}

// answeredWithin waits for the answer for some time.
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

// pending returns the question unless it has been answered.
func (q *question) pending() *question {
	if q != nil && q.answered() {
		return nil
	}
	return q
}

// told returns the machines of a fleet as they were told last; nil if they never were.
func (r *Reconciler) told(fleet types.UID) *provider.Inventory {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[fleet].inventory.Clone()
}

// letGo ends that the fleet's own round uses its provider.
func (r *round) letGo() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k, is := r.known[r.fleet.UID]; is {
		k.held = false
		r.know(r.fleet.UID, k)
	}
}

// refusedOrFailed takes in that a provider has answered with an error. One that refuses is
// there, and asked again in the next round. The caller has r.mu.
func (r *round) refusedOrFailed(ctx context.Context, f *v1alpha1.NodeFleet, k known, err error) (*provider.Inventory, provider.Provider, error) {
	own, refused := f.Name == r.fleet.Name, (*provider.Refused)(nil)
	switch {
	case ctx.Err() != nil:
		return nil, nil, fmt.Errorf("take stock of fleet %s: %w", f.Name, err)
	case errors.As(err, &refused):
		r.know(f.UID, known{inventory: k.inventory, held: k.held, question: k.question.pending()})
		if own {
			return nil, nil, fmt.Errorf("take stock of fleet %s: %w", f.Name, err)
		}
		return k.inventory.Clone(), nil, nil
	case !own:
		log.FromContext(ctx).Error(err, "taking stock of another fleet; its machines are taken to be those that were there last", "fleet", f.Name)
	}
	return r.without(f, r.fail(f, err))
}

// fail notes that the provider of a fleet has failed, and when to ask it again. The caller has
// r.mu.
func (r *round) fail(f *v1alpha1.NodeFleet, err error) known {
	k := r.known[f.UID]
	k.err, k.question, k.generation = err, k.question.pending(), f.Generation
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
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fail(r.fleet, err)
	}
	return err
}

// know sets what is known of a fleet. The caller has r.mu.
func (r *Reconciler) know(fleet types.UID, k known) {
	if r.known == nil {
		r.known = map[types.UID]known{}
	}
	r.known[fleet] = k
}

// ordered notes how many machines of a flavor there are to be, for other fleets that look before
// the provider is asked again.
func (r *round) ordered(flavor string, want int) {
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
