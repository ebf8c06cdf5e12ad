package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent/agentdecide"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
)

// maxSteps is how many steps one migration may do in a row before others get their turn.
const maxSteps = 8

// readTimeout bounds the read of a Migration, because the work without the API server waits for
// it.
const readTimeout = 15 * time.Second

// job is a long action.
type job struct {
	key    types.NamespacedName
	action agentdecide.Action
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// errOrderChanged is the cause of a job's cancellation.
var errOrderChanged = errors.New("the order has changed")

// next reconciles one Migration of the queue. It returns false once the queue is shut down.
func (a *Agent) next(ctx context.Context) bool {
	key, shut := a.queue.Get()
	if shut {
		return false
	}
	defer a.queue.Done(key)
	if err := a.reconcile(ctx, key); err != nil {
		if ctx.Err() == nil {
			a.Log.Error(err, "Failed to reconcile the Migration; retrying", "migration", key)
		}
		a.queue.AddRateLimited(key)
		return true
	}
	if !a.isBusy(key) {
		a.queue.Forget(key) // a running action may fail again, and its back-off must grow then
	}
	return true
}

// isBusy reports whether an action is running for a Migration.
func (a *Agent) isBusy(key types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, j := range a.jobs {
		if j.key == key {
			return true
		}
	}
	return false
}

// reconcile reconciles a Migration, in each role that this agent has in it.
func (a *Agent) reconcile(ctx context.Context, key types.NamespacedName) error {
	defer a.health.reconciling(key, a.Clock.Now())()
	m, err := a.read(ctx, key)
	if err != nil {
		return errors.Join(err, a.reconcileAlone(ctx, key)) // without the order, only what needs none
	}
	var errs []error
	for _, id := range a.roles(key, m) {
		mine := m
		if m != nil && string(m.UID) != id.Migration {
			mine = nil // the entry is of an earlier Migration of the same name
		}
		errs = append(errs, a.step(ctx, key, id, mine))
	}
	return errors.Join(errs...)
}

// reconcileAlone reconciles a Migration that cannot be read.
func (a *Agent) reconcileAlone(ctx context.Context, key types.NamespacedName) error {
	var errs []error
	for _, id := range a.roles(key, nil) {
		for again := id.Role == ledger.SourceRole; again; {
			next, err := a.stepAlone(ctx, key, id)
			errs = append(errs, err)
			again = next && err == nil
		}
	}
	return errors.Join(errs...)
}

// read reads a Migration live; nil if it does not exist.
func (a *Agent) read(ctx context.Context, key types.NamespacedName) (*v1alpha1.Migration, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var m v1alpha1.Migration
	err := a.api.Get(ctx, key, &m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Migration %s: %w", key, err)
	}
	return &m, nil
}

// roles returns the roles that this agent has, or had, in a Migration.
func (a *Agent) roles(key types.NamespacedName, m *v1alpha1.Migration) []ledger.ID {
	var ids []ledger.ID
	add := func(id ledger.ID) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if m != nil {
		if plan := m.Status.Plan; plan != nil && a.nodes.mine(plan.SourceNode) {
			add(ledger.ID{Migration: string(m.UID), Node: plan.SourceNode, Role: ledger.SourceRole})
		}
		if reserved := m.Status.Reservation; reserved != nil && a.nodes.mine(reserved.Node) {
			add(ledger.ID{Migration: string(m.UID), Node: reserved.Node, Role: ledger.TargetRole})
		}
		// A target that failed before it wrote a ledger entry must still be cleaned, even if its
		// reservation has gone to another node.
		if reported := m.Status.Target; reported != nil && a.nodes.mine(reported.Node) {
			add(ledger.ID{Migration: string(m.UID), Node: reported.Node, Role: ledger.TargetRole})
		}
	}
	for _, entry := range a.ledger.All() {
		if entry.Namespace == key.Namespace && entry.Name == key.Name {
			add(entry.ID)
		}
	}
	return ids
}

// step decides and acts for one role until there is nothing more to do at once.
func (a *Agent) step(ctx context.Context, key types.NamespacedName, id ledger.ID, m *v1alpha1.Migration) error {
	for range maxSteps {
		var again bool
		var err error
		if id.Role == ledger.SourceRole {
			again, m, err = a.stepSource(ctx, key, id, m)
		} else {
			again, m, err = a.stepTarget(ctx, key, id, m)
		}
		if err != nil || !again {
			return err
		}
	}
	a.queue.Add(key)
	return nil
}

// busy returns the running action of a role.
func (a *Agent) busy(id ledger.ID) agentdecide.Action {
	a.mu.Lock()
	defer a.mu.Unlock()
	if j := a.jobs[id]; j != nil {
		return j.action
	}
	return agentdecide.Nothing
}

// start runs an action in the background, and requeues the Migration when it ends. A role has one
// action at a time: start returns false if one is running.
func (a *Agent) start(ctx context.Context, key types.NamespacedName, id ledger.ID, action agentdecide.Action, run func(context.Context) error) bool {
	ctx, j := a.begin(ctx, key, id, action)
	if j == nil {
		return false
	}
	go func() {
		err := run(ctx)
		a.end(ctx, id, j, err)
	}()
	return true
}

// begin registers an action; the job is nil if another is running.
func (a *Agent) begin(ctx context.Context, key types.NamespacedName, id ledger.ID, action agentdecide.Action) (context.Context, *job) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.jobs[id] != nil {
		return ctx, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	j := &job{key: key, action: action, cancel: cancel, done: make(chan struct{})}
	a.jobs[id] = j
	a.running.Add(1)
	return ctx, j
}

// end records the result of an action.
func (a *Agent) end(ctx context.Context, id ledger.ID, j *job, err error) {
	cancelled := ctx.Err() != nil
	j.cancel(nil)
	a.mu.Lock()
	delete(a.jobs, id)
	failure := checkpoint.AsFailure(err)
	if failure != nil && !cancelled {
		a.failures[id] = failure
	}
	waiting := a.crowded
	a.crowded = map[types.NamespacedName]bool{}
	a.mu.Unlock()
	close(j.done)
	defer a.running.Done()
	for other := range waiting {
		a.queue.Add(other)
	}
	log := a.Log.WithValues("migration", j.key, "node", id.Node, "role", id.Role, "action", j.action)
	switch {
	case err == nil:
		log.V(2).Info("Done")
	case cancelled:
		log.V(2).Info("Cancelled because the order has changed or the agent is shutting down")
	case failure != nil:
		log.Info("Failed", "reason", failure.Reason, "message", failure.Message)
	default:
		log.Error(err, "Failed; retrying")
		a.queue.AddRateLimited(j.key)
		return
	}
	a.queue.Forget(j.key)
	a.queue.Add(j.key)
}

// cancel cancels the running action of a role. It does not wait for its end.
func (a *Agent) cancel(id ledger.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if j := a.jobs[id]; j != nil {
		j.cancel(errOrderChanged)
	}
}

// failed returns the unreported failure of a role.
func (a *Agent) failed(id ledger.ID) *checkpoint.Failure {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failures[id]
}

// fail stores the failure of a role until it is reported.
func (a *Agent) fail(id ledger.ID, failure *checkpoint.Failure) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures[id] = failure
}

// clearFailure clears a failure.
func (a *Agent) clearFailure(id ledger.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.failures, id)
}

// requeueAtNextEnd requeues a Migration when any action ends.
func (a *Agent) requeueAtNextEnd(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.crowded[key] = true
}

// ended reports whether a Migration is Finished.
func ended(m *v1alpha1.Migration) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.MigrationFinished)
}

// handedOver reports whether the new pod has begun to take the old one's place. It is written before
// the first write of the handover.
func handedOver(m *v1alpha1.Migration) bool {
	return m.Status.Commit == v1alpha1.CommitHandedOver
}
