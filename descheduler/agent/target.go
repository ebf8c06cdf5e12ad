package agent

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent/agentdecide"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
	"supercargo.dev/supercargo/descheduler/checkpoint/transport"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/internal/text/plural"
)

// stepTarget decides and acts once for the target of a migration. m is nil if it is gone. It
// returns whether to decide again at once, and the updated Migration.
func (a *Agent) stepTarget(ctx context.Context, key types.NamespacedName, id ledger.ID, m *v1alpha1.Migration) (bool, *v1alpha1.Migration, error) {
	entry, known := a.ledger.Get(id)
	if !known && m != nil && m.Status.Plan != nil {
		plan := m.Status.Plan
		entry = ledger.Entry{
			ID: id, Namespace: m.Namespace, Name: m.Name, Since: a.Clock.Now(), Backend: plan.Backend,
			Image: checkpoint.Image{Node: id.Node, Container: plan.Container, Migration: id.Migration},
		}
	}
	seen, err := a.observeTarget(ctx, id, m, entry, known)
	if err != nil {
		return false, m, err
	}
	decision := agentdecide.ForTarget(seen)
	if failure := a.failed(id); failure != nil {
		switch {
		case m == nil || !seen.Reserved || m.Status.Order != v1alpha1.OrderPrepare && m.Status.Order != v1alpha1.OrderFreeze:
			a.clearFailure(id) // no longer relevant
		case seen.Busy == agentdecide.Nothing:
			decision = agentdecide.TargetDecision{Do: agentdecide.Report, Step: v1alpha1.TargetFailed, Reason: failure.Reason, Message: failure.Message}
		}
	}
	return a.actTarget(ctx, key, entry, m, decision)
}

// observeTarget gathers the input of the decision.
func (a *Agent) observeTarget(ctx context.Context, id ledger.ID, m *v1alpha1.Migration, entry ledger.Entry, known bool) (agentdecide.Target, error) {
	t := agentdecide.Target{
		Exists: m != nil, Known: known, Busy: a.busy(id), Stage: entry.Stage,
	}
	if m == nil {
		return t, nil
	}
	t.Ended, t.Order = ended(m), m.Status.Order
	t.Reserved = m.Status.Reservation != nil && m.Status.Reservation.Node == id.Node
	t.SourceReady = m.Status.Source != nil && m.Status.Source.Certificate != "" && m.Status.Source.Requirements != ""
	if r := m.Status.Target; r != nil && r.Node == id.Node {
		t.Step = r.Step
		address, err := a.nodes.address(id.Node)
		t.Moved = err == nil && r.Address != address // an unknown address cannot be reported either
	}
	if backend := a.backends[entry.Backend].Target; t.Stage == terms.Staged && t.Busy == agentdecide.Nothing && t.Order == v1alpha1.OrderFreeze && backend != nil {
		has, err := backend.Has(ctx, entry.Image)
		if err != nil {
			return t, fmt.Errorf("find the checkpoint of migration %s: %w", entry.Migration, err)
		}
		t.Lost = !has
	}
	return t, nil
}

// actTarget carries out a decision.
func (a *Agent) actTarget(ctx context.Context, key types.NamespacedName, entry ledger.Entry, m *v1alpha1.Migration, d agentdecide.TargetDecision) (bool, *v1alpha1.Migration, error) {
	id := entry.ID
	switch d.Do {
	case agentdecide.Cancel:
		a.cancel(id)
	case agentdecide.Report:
		updated, err := a.reportTarget(ctx, m, entry, d)
		return err == nil && updated != nil, updated, err
	case agentdecide.Forget:
		return m != nil, m, a.ledger.Remove(id)
	case agentdecide.Prepare:
		a.start(ctx, key, id, d.Do, func(ctx context.Context) error { return a.prepareTarget(ctx, entry, m) })
	case agentdecide.Remove:
		a.start(ctx, key, id, d.Do, func(ctx context.Context) error { return a.removeTarget(ctx, entry) })
	}
	return false, m, nil
}

// prepareTarget checks whether the image can be received and restored, and makes a certificate.
func (a *Agent) prepareTarget(ctx context.Context, entry ledger.Entry, m *v1alpha1.Migration) error {
	backend := a.backends[entry.Backend].Target
	if backend == nil {
		return unable{entry.Backend}.fail()
	}
	var err error
	if entry.Image.Requirements, err = capability.ParseRequirements(m.Status.Source.Requirements); err != nil {
		return checkpoint.Fail(v1alpha1.MigrationReasonNotSupported, "read the requirements in the report of the source's agent: %v", err)
	}
	entry.MemoryBytes, entry.Image.Pod = m.Status.Source.MemoryBytes, m.Status.Reservation.PodUID
	if err := a.roomToStage(entry); err != nil {
		return err
	}
	if err := a.ledger.Put(entry); err != nil { // before the pod is expected, so that it is not swept
		return err
	}
	if err := backend.Able(ctx, entry.Image); err != nil {
		return err
	}
	now := a.Clock.Now()
	self, err := transport.NewIdentity("target "+entry.Migration, now.Add(-certificateSkew), m.Status.Plan.DeadlineAt.Add(certificateGrace))
	if err != nil {
		return err
	}
	entry.Key, entry.Certificate, entry.Stage = self.Key, self.Certificate, terms.Expecting
	return a.ledger.Put(entry)
}

// roomToStage fails if the image is too large, or if the node would exceed its limits.
func (a *Agent) roomToStage(entry ledger.Entry) error {
	if entry.MemoryBytes > a.Limits.ImageBytes {
		return checkpoint.Fail(v1alpha1.MigrationReasonTooLarge, "the container uses %d bytes of memory, more than the maximum of %d for a checkpoint on this node: raise --max-image-bytes of the node agents",
			entry.MemoryBytes, a.Limits.ImageBytes)
	}
	images, bytes := a.othersStaged(entry.ID)
	return a.fits(images+1, bytes+entry.MemoryBytes)
}

// othersStaged returns the number and total size of the other images that the node has or
// expects. An expected image counts with the size that its source reports, or with the bytes
// received if these are more: the source may be wrong, or lie.
func (a *Agent) othersStaged(id ledger.ID) (images int, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, other := range a.ledger.All() {
		switch {
		case other.Role != ledger.TargetRole || other.Node != id.Node || other.ID == id:
			continue
		case other.Staged != nil:
			bytes += other.Staged.Bytes
		default:
			bytes += max(other.MemoryBytes, a.arrived[other.ID]) + a.keptBytes(other.ID)
		}
		images++
	}
	return images, bytes
}

// fits fails if the images exceed the node's limits.
func (a *Agent) fits(images int, bytes int64) error {
	if images <= a.Limits.Images && bytes <= a.Limits.TotalBytes {
		return nil
	}
	return checkpoint.Fail(v1alpha1.MigrationReasonNoRoom, "the node would hold %s with %d bytes, and its maximum is %d with %d: wait until other migrations end, or raise --max-images and --max-total-bytes of the node agents",
		plural.Count(images, "checkpoint"), bytes, a.Limits.Images, a.Limits.TotalBytes)
}

// removeTarget removes the image, and the leftovers of an interrupted staging.
func (a *Agent) removeTarget(ctx context.Context, entry ledger.Entry) error {
	a.dropPages(entry.ID)
	if backend := a.backends[entry.Backend].Target; backend != nil {
		if err := backend.Remove(ctx, entry.Image); err != nil {
			return fmt.Errorf("remove the checkpoint of migration %s: %w", entry.Migration, err)
		}
	}
	entry.Stage, entry.Staged, entry.Key = terms.Removed, nil, ""
	return a.ledger.Put(entry)
}

// session returns the session of an expected checkpoint; false if none is expected.
func (a *Agent) session(ctx context.Context, migration, node string) (transport.Session, bool) {
	entry, known := a.ledger.Get(ledger.ID{Migration: migration, Node: node, Role: ledger.TargetRole})
	if !known || !accepts(entry) {
		return transport.Session{}, false
	}
	m, err := a.read(ctx, types.NamespacedName{Namespace: entry.Namespace, Name: entry.Name})
	if err != nil || !expects(m, migration, node) {
		return transport.Session{}, false
	}
	return transport.Session{
		Migration: migration, Node: node, Peer: m.Status.Source.Certificate,
		Self: transport.Identity{Key: entry.Key, Certificate: entry.Certificate}, Until: m.Status.Plan.DeadlineAt.Add(certificateGrace),
	}, true
}

// accepts reports whether a target accepts the state, which it may also get again.
func accepts(entry ledger.Entry) bool {
	return entry.Stage == terms.Expecting || entry.Stage == terms.Staged
}

// expects reports whether a Migration, just read, wants a node to receive a checkpoint.
func expects(m *v1alpha1.Migration, migration, node string) bool {
	return m != nil && string(m.UID) == migration && !ended(m) && m.Status.Order == v1alpha1.OrderFreeze && m.Status.Plan != nil && m.Status.Source != nil &&
		m.Status.Reservation != nil && m.Status.Reservation.Node == node
}

// take stages the checkpoint that the source sends.
func (a *Agent) take(ctx context.Context, s transport.Session, tar transport.Body) (receipt transport.Receipt, err error) {
	err = a.receiving(ctx, s, tar, func(ctx context.Context, entry ledger.Entry) (bool, error) {
		if !s.Refers {
			a.dropPages(entry.ID)
		}
		receipt, err = a.stage(ctx, entry, &weighed{Verified: cancellable{tar, ctx}, agent: a, id: entry.ID})
		if failure := checkpoint.AsFailure(err); s.Refers && failure != nil && failure.Reason == v1alpha1.MigrationReasonNoRoom {
			err = fmt.Errorf("%w: %w", transport.ErrNoPages, errors.New(failure.Message)) // there may be room without them
		}
		if err == nil || errors.Is(err, transport.ErrNoPages) {
			a.dropPages(entry.ID)
		}
		return entry.Staged == nil, err // a staged image stays, and only the source gets the error
	})
	return receipt, err
}

// receiving runs do while no other action changes the entry of a session. A retry of the source replaces its earlier try, whose
// connection may not have ended yet. do returns whether its error is one of the migration.
func (a *Agent) receiving(ctx context.Context, s transport.Session, body transport.Body, do func(context.Context, ledger.Entry) (bool, error)) error {
	id := targetID(s)
	a.mu.Lock()
	earlier := a.jobs[id]
	a.mu.Unlock()
	if earlier != nil && earlier.action == agentdecide.Receive {
		earlier.cancel(errors.New("the source retries"))
		select {
		case <-earlier.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	entry, known := a.ledger.Get(id)
	if !known {
		return transport.ErrNotNow
	}
	ctx, j := a.begin(ctx, types.NamespacedName{Namespace: entry.Namespace, Name: entry.Name}, id, agentdecide.Receive)
	if j == nil {
		return transport.ErrNotNow
	}
	// From here on no other action changes the entry.
	stop := context.AfterFunc(ctx, body.Abort) // the source may send nothing for long
	err, matters := transport.ErrNotNow, true
	if entry, known = a.ledger.Get(id); known && accepts(entry) {
		matters, err = do(ctx, entry)
	}
	a.mu.Lock()
	delete(a.arrived, id)
	a.mu.Unlock()
	stop()
	failed := err
	if !matters {
		failed = nil
	}
	a.end(ctx, id, j, failed)
	return err
}

// stage makes the image, unless it was already made from the same archive.
func (a *Agent) stage(ctx context.Context, entry ledger.Entry, tar checkpoint.Verified) (transport.Receipt, error) {
	if entry.Staged != nil {
		if _, err := io.Copy(io.Discard, tar); err != nil {
			return transport.Receipt{}, fmt.Errorf("receive the checkpoint again: %w", err)
		}
		if tar.Sum() != entry.Sum {
			return transport.Receipt{}, checkpoint.Fail(v1alpha1.MigrationReasonInvalidArchive, "another checkpoint of this migration is already staged")
		}
		return transport.Receipt{Sum: entry.Sum, Digest: entry.Staged.Digest, Bytes: entry.Staged.Bytes}, nil
	}
	start := a.Clock.Now()
	staged, err := a.backends[entry.Backend].Target.Stage(ctx, entry.Image, tar)
	if err != nil {
		return transport.Receipt{}, err
	}
	entry.Stage, entry.Staged, entry.Sum, entry.Ship = terms.Staged, &staged, tar.Sum(), a.Clock.Since(start)
	if err := a.ledger.Put(entry); err != nil {
		return transport.Receipt{}, err
	}
	return transport.Receipt{Sum: entry.Sum, Digest: staged.Digest, Bytes: staged.Bytes}, nil
}

// cancellable ends reading when a context ends.
type cancellable struct {
	checkpoint.Verified
	ctx context.Context
}

// Read reads unless the context has ended.
func (c cancellable) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.Verified.Read(p)
	if err != nil && c.ctx.Err() != nil {
		err = context.Cause(c.ctx)
	}
	return n, err
}

// weighEvery is how many bytes may arrive between two checks of the limits.
const weighEvery = 16 << 20

// weighed ends reading when the node has no room for the checkpoint. Its announced size was
// checked before, but a source may send more.
type weighed struct {
	checkpoint.Verified
	agent *Agent
	id    ledger.ID

	came, next int64 // bytes received, and at which count to check next
}

// Read fails once the checkpoint exceeds the limits.
func (w *weighed) Read(p []byte) (int, error) {
	n, err := w.Verified.Read(p)
	if w.came += int64(n); w.came < w.next {
		return n, err
	}
	w.next = w.came + weighEvery
	w.agent.mu.Lock()
	w.agent.arrived[w.id] = w.came
	early := w.agent.keptBytes(w.id)
	w.agent.mu.Unlock()
	images, bytes := w.agent.othersStaged(w.id)
	if no := w.agent.fits(images+1, bytes+w.came+early); no != nil {
		return 0, no
	}
	return n, err
}
