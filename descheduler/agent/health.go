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
	// stuckAfter is after how long one look at a Migration has not come to an end by
	// itself: all that it asks for has shorter bounds.
	stuckAfter = 5 * time.Minute
	// runtimeEvery is how often a runtime is asked at most, however often the agent is, and
	// runtimeTimeout how long that may take.
	runtimeEvery   = 10 * time.Second
	runtimeTimeout = 4 * time.Second
)

// health knows how the agent is. It is live if its loop continues: to start it again helps
// against nothing else. It is ready if it also follows the API server and the container
// runtime answers.
type health struct {
	clock   clock.PassiveClock
	resync  time.Duration
	runtime func(context.Context) error

	mu      sync.Mutex
	ticked  time.Time // the last round of resync
	looking map[types.NamespacedName]time.Time
	synced  []func() bool
	asked   error // what the API server last said to lists and watches
	known   time.Time
	answer  error // of the runtime, at known
}

func newHealth(c clock.PassiveClock, resync time.Duration, runtime func(context.Context) error) *health {
	return &health{clock: c, resync: resync, runtime: runtime, ticked: c.Now(), looking: map[types.NamespacedName]time.Time{}}
}

// ticks notes that the loop goes round.
func (h *health) ticks(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ticked = now
}

// looks notes that a Migration is being looked at. The returned function notes the end.
func (h *health) looks(key types.NamespacedName, now time.Time) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looking[key] = now
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.looking, key)
	}
}

// follows notes what is followed, by whether all of it was seen once.
func (h *health) follows(synced func() bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.synced = append(h.synced, synced)
}

// asks notes what became of a list or a watch, and returns that.
func (h *health) asks(ctx context.Context, err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() == nil {
		h.asked = err
	}
	return err
}

// live says what is wrong with the loop.
func (h *health) live() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	if idle := now.Sub(h.ticked); idle > stuckAfter+h.resync {
		return fmt.Errorf("the agent has not looked at its Migrations for %s", idle.Round(time.Second))
	}
	for key, since := range h.looking {
		if took := now.Sub(since); took > stuckAfter {
			return fmt.Errorf("looking at Migration %s has not ended for %s", key, took.Round(time.Second))
		}
	}
	return nil
}

// ready says what keeps the agent from taking part in moves.
func (h *health) ready(ctx context.Context) error {
	return errors.Join(h.live(), h.followed(), h.runs(ctx))
}

func (h *health) followed() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked != nil {
		return fmt.Errorf("follow the API server: %w", h.asked)
	}
	if len(h.synced) == 0 {
		return errors.New("follow the API server: the agent is about to start")
	}
	for _, synced := range h.synced {
		if !synced() {
			return errors.New("follow the API server: not all Migrations and Nodes that concern this agent were read yet")
		}
	}
	return nil
}

// runs asks the runtime, unless it was asked just now.
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
		answer = fmt.Errorf("ask the container runtime: %w", answer)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known, h.answer = h.clock.Now(), answer
	return answer
}

// answers serves a check: 503 with what is wrong.
func answers(check func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}
