package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// stuckAfter is how long one reconcile of a Migration may take. All its calls have shorter
	// timeouts.
	stuckAfter = 5 * time.Minute
	// runtimeEvery is the minimum time between two checks of the runtime, however often the
	// agent's health is queried. runtimeTimeout bounds each check.
	runtimeEvery   = 10 * time.Second
	runtimeTimeout = 4 * time.Second
)

// health tracks the agent's health. It is live while its loop runs: a restart helps against
// nothing else. It is ready if it also follows the API server and the container runtime answers.
type health struct {
	clock   clock.PassiveClock
	resync  time.Duration
	runtime func(context.Context) error

	mu         sync.Mutex
	ticked     time.Time // of the last resync
	reconciles map[types.NamespacedName]time.Time
	synced     []func() bool
	access     error // the last result of a list or a watch
	known      time.Time
	answer     error // of the runtime, at known
}

func newHealth(c clock.PassiveClock, resync time.Duration, runtime func(context.Context) error) *health {
	return &health{clock: c, resync: resync, runtime: runtime, ticked: c.Now(), reconciles: map[types.NamespacedName]time.Time{}}
}

// resynced notes a resync.
func (h *health) resynced(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ticked = now
}

// reconciling notes that a reconcile of a Migration began. The returned function notes its end.
func (h *health) reconciling(key types.NamespacedName, now time.Time) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reconciles[key] = now
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.reconciles, key)
	}
}

// follows adds an informer, by its HasSynced function.
func (h *health) follows(synced func() bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.synced = append(h.synced, synced)
}

// recordAccess notes the result of a list or a watch, and returns it.
func (h *health) recordAccess(ctx context.Context, err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() == nil {
		h.access = err
	}
	return err
}

// live returns an error if the loop is stuck.
func (h *health) live() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	if idle := now.Sub(h.ticked); idle > stuckAfter+h.resync {
		return fmt.Errorf("the agent has not reconciled its Migrations for %s", idle.Round(time.Second))
	}
	for key, since := range h.reconciles {
		if took := now.Sub(since); took > stuckAfter {
			return fmt.Errorf("the agent has been reconciling Migration %s for %s", key, took.Round(time.Second))
		}
	}
	return nil
}

// ready returns an error if the agent cannot take part in migrations.
func (h *health) ready(ctx context.Context) error {
	return errors.Join(h.live(), h.followed(), h.runs(ctx))
}

func (h *health) followed() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.access != nil {
		return fmt.Errorf("watch the API server: %w", h.access)
	}
	if len(h.synced) == 0 {
		return errors.New("watch the API server: the agent is starting")
	}
	for _, synced := range h.synced {
		if !synced() {
			return errors.New("watch the API server: the caches of Migrations and Nodes have not synced yet")
		}
	}
	return nil
}

// runs checks the runtime, unless its last answer is fresh.
func (h *health) runs(ctx context.Context) error {
	if h.runtime == nil {
		return nil
	}
	h.mu.Lock()
	fresh, answer := h.clock.Since(h.known) < runtimeEvery, h.answer
	h.mu.Unlock()
	if fresh {
		return answer
	}
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	if answer = h.runtime(ctx); answer != nil {
		answer = fmt.Errorf("check the container runtime: %w", answer)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known, h.answer = h.clock.Now(), answer
	return answer
}

// serveCheck serves a check: 503 with the error, or 200.
func serveCheck(check func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}
