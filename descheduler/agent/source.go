package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent/agentdecide"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
	"supercargo.dev/supercargo/descheduler/checkpoint/transport"
)

// certificateGrace is how long after the deadline a certificate is valid, and certificateSkew how
// long before now: clocks differ.
const (
	certificateGrace = 10 * time.Minute
	certificateSkew  = time.Minute
	// thawGrace is how long after the deadline a container whose state was not sent stays frozen.
	// The controller orders Thaw at the deadline, which should come first, and clocks differ.
	thawGrace = time.Minute
	// endTimeout bounds the work for one container when the agent shuts down.
	endTimeout = 20 * time.Second
	// reachTries is how often the agent tries to reach the target, which may be restarting. The
	// container runs meanwhile. With the queue's back-off this takes 10 s.
	reachTries = 9
)

// stepSource decides and acts once for the source of a migration. m is nil if it is gone. It
// returns whether to decide again at once, and the updated Migration.
func (a *Agent) stepSource(ctx context.Context, key types.NamespacedName, id ledger.ID, m *v1alpha1.Migration) (bool, *v1alpha1.Migration, error) {
	busy := a.busy(id) // first: an action that ends later is not in an entry that was read before
	entry, known := a.ledger.Get(id)
	if !known && m != nil {
		entry = newSourceEntry(id, m, a.Clock.Now())
	}
	seen, err := a.observeSource(ctx, busy, m, entry, known)
	if err != nil {
		return false, m, err
	}
	decision := agentdecide.ForSource(seen)
	if failure := a.failed(id); failure != nil {
		switch {
		case m == nil || m.Status.Order != v1alpha1.OrderPrepare && m.Status.Order != v1alpha1.OrderFreeze:
			a.clearFailure(id) // no longer relevant
		case seen.Busy == agentdecide.Nothing:
			decision = agentdecide.SourceDecision{Do: agentdecide.Report, Step: v1alpha1.SourceFailed, Reason: failure.Reason, Message: failure.Message}
		}
	}
	return a.actSource(ctx, key, entry, m, decision)
}

// stepAlone is stepSource while the API server is unreachable.
func (a *Agent) stepAlone(ctx context.Context, key types.NamespacedName, id ledger.ID) (bool, error) {
	busy := a.busy(id)
	entry, known := a.ledger.Get(id)
	if !known || !entry.Stage.MayBeFrozen() {
		return false, nil
	}
	seen := a.remembered(entry)
	if seen.Busy = busy; busy == agentdecide.Nothing {
		var err error
		if seen.Container, err = a.stateOf(ctx, entry); err != nil {
			return false, err
		}
	}
	again, _, err := a.actSource(ctx, key, entry, nil, agentdecide.ForSourceAlone(seen))
	return again, err
}

// endDumps ends the dumps that an agent before this one has begun. They are of no use, and a dump that
// hangs holds its container.
func (a *Agent) endDumps(ctx context.Context) {
	for _, entry := range a.ledger.All() {
		backend := a.backends[entry.Backend].Source
		if entry.Role != ledger.SourceRole || entry.Stage != terms.Freezing || backend == nil {
			continue
		}
		if err := backend.Interrupt(ctx, entry.Container, a.workDir(entry)); err != nil {
			a.Log.Error(err, "Failed to end the dump that another agent has begun; retrying before the container continues", "migration", entry.Namespace+"/"+entry.Name)
		}
	}
}

// release lets containers continue before the agent ends, if the target cannot have their state:
// the agent may not come back. No action is running, and ctx has ended.
func (a *Agent) release(ctx context.Context) {
	for _, entry := range a.ledger.All() {
		if entry.Role != ledger.SourceRole || !entry.Stage.MayBeFrozen() {
			continue
		}
		if err := a.releaseOne(context.WithoutCancel(ctx), entry); err != nil {
			a.Log.Error(err, "Failed to resume the container; it stays frozen until an agent runs on the node again", "migration", entry.Namespace+"/"+entry.Name)
		}
	}
}

func (a *Agent) releaseOne(ctx context.Context, entry ledger.Entry) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	seen := a.remembered(entry)
	var err error
	if seen.Container, err = a.stateOf(ctx, entry); err != nil {
		return err
	}
	if agentdecide.ForSourceAtEnd(seen).Do != agentdecide.Thaw {
		return nil
	}
	// Written before the thaw: a dump must not be sent once the container has run. It is frozen
	// again later.
	entry.Stage, entry.Dump, entry.DumpBytes = terms.Freezing, 0, 0
	if err := a.ledger.Put(entry); err != nil {
		return err
	}
	if err := a.letRun(ctx, a.backends[entry.Backend].Source, entry); err != nil {
		return err
	}
	a.Log.Info("The agent is shutting down: the container continues, and is frozen again when an agent runs on the node again", "migration", entry.Namespace+"/"+entry.Name, "container", entry.Container.String())
	entry.ThawedAt = a.Clock.Now()
	return a.ledger.Put(entry)
}

// newSourceEntry returns the entry of a migration before any action.
func newSourceEntry(id ledger.ID, m *v1alpha1.Migration, now time.Time) ledger.Entry {
	plan := m.Status.Plan
	return ledger.Entry{
		ID: id, Namespace: m.Namespace, Name: m.Name, Since: now, Backend: plan.Backend, ThawAfter: plan.DeadlineAt.Add(thawGrace),
		NewPod: plan.RestoredPod,
		Container: checkpoint.Container{
			Node: id.Node, Namespace: m.Namespace, Pod: m.Spec.PodName, PodUID: plan.PodUID, Name: plan.Container, ID: plan.ContainerID,
		},
	}
}

// remembered returns the observation that the ledger alone gives.
func (a *Agent) remembered(entry ledger.Entry) agentdecide.Source {
	return agentdecide.Source{
		Known: true, Stage: entry.Stage, Fate: entry.Fate,
		Overdue: !entry.ThawAfter.IsZero() && a.Clock.Now().After(entry.ThawAfter),
	}
}

// stateOf returns the state of a container; Unknown if this node does not have the back-end.
func (a *Agent) stateOf(ctx context.Context, entry ledger.Entry) (checkpoint.State, error) {
	backend := a.backends[entry.Backend].Source
	if backend == nil {
		return checkpoint.Unknown, nil
	}
	state, err := backend.State(ctx, entry.Container)
	if err != nil {
		return state, fmt.Errorf("inspect %s: %w", entry.Container, err)
	}
	return state, nil
}

// observeSource gathers the input of the decision.
func (a *Agent) observeSource(ctx context.Context, busy agentdecide.Action, m *v1alpha1.Migration, entry ledger.Entry, known bool) (agentdecide.Source, error) {
	s := a.remembered(entry)
	s.Exists, s.Known, s.Busy = m != nil, known, busy
	if m != nil {
		s.Ended, s.Order, s.HandedOver = ended(m), m.Status.Order, handedOver(m)
		if r := m.Status.Source; r != nil {
			s.Step = r.Step
		}
		if r := a.targetOf(m); r != nil {
			s.TargetReady = r.Step == v1alpha1.TargetPrepared && r.Address != ""
			s.Reached = entry.Reached == reachedAs(r)
			s.TargetStaged = r.Step == v1alpha1.TargetStaged
			s.Presends = m.Status.Plan != nil && a.presending(entry, m, r).For() > 0
		}
	}
	if s.Busy != agentdecide.Nothing {
		return s, nil // a runtime that dumps does not answer well
	}
	if m == nil {
		var err error
		if s.Pod, err = a.podOf(ctx, entry.Container); err != nil {
			return s, err
		}
		if s.NewPod, err = a.hasNewPod(ctx, entry); err != nil {
			return s, err
		}
	}
	var err error
	s.Container, err = a.stateOf(ctx, entry)
	return s, err
}

// targetOf returns the target's report, if it is of the node that has the reservation.
func (a *Agent) targetOf(m *v1alpha1.Migration) *v1alpha1.TargetReport {
	if r := m.Status.Target; r != nil && m.Status.Reservation != nil && r.Node == m.Status.Reservation.Node {
		return r
	}
	return nil
}

// noteFreeze notes that a container is about to be frozen, unless the limit of Moves is reached.
// Then the container runs on until there is room.
func (a *Agent) noteFreeze(key types.NamespacedName, entry ledger.Entry) (bool, error) {
	a.freezing.Lock()
	defer a.freezing.Unlock()
	if a.isCrowded(entry.ID) {
		a.requeueAtNextEnd(key)
		return false, nil
	}
	entry.Stage = terms.Freezing
	return true, a.ledger.Put(entry)
}

// isCrowded reports whether the node has reached the limit of Moves.
func (a *Agent) isCrowded(id ledger.ID) bool {
	frozen := 0
	for _, entry := range a.ledger.All() {
		if entry.Role == ledger.SourceRole && entry.Node == id.Node && entry.Stage.MayBeFrozen() && entry.Stage != terms.Shipped {
			frozen++
		}
	}
	return frozen >= a.Limits.Moves
}

// podOf returns the state of the pod of a Migration that is gone.
func (a *Agent) podOf(ctx context.Context, c checkpoint.Container) (agentdecide.Pod, error) {
	pod, err := a.pod(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.Pod})
	switch {
	case apierrors.IsNotFound(err):
		return agentdecide.PodGone, nil
	case err != nil:
		return agentdecide.PodUnknown, fmt.Errorf("get pod %s/%s: %w", c.Namespace, c.Pod, err)
	case string(pod.UID) != c.PodUID:
		return agentdecide.PodGone, nil
	case pod.DeletionTimestamp != nil:
		return agentdecide.PodLeaving, nil
	}
	return agentdecide.PodWanted, nil
}

// hasNewPod reports whether the pod exists that may run with the state of a container.
func (a *Agent) hasNewPod(ctx context.Context, entry ledger.Entry) (bool, error) {
	if !entry.Stage.MayRunElsewhere() || entry.NewPod == "" {
		return false, nil
	}
	_, err := a.pod(ctx, types.NamespacedName{Namespace: entry.Namespace, Name: entry.NewPod})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("get pod %s/%s: %w", entry.Namespace, entry.NewPod, err)
	}
	return err == nil, nil
}

// actSource carries out a decision.
func (a *Agent) actSource(ctx context.Context, key types.NamespacedName, entry ledger.Entry, m *v1alpha1.Migration, d agentdecide.SourceDecision) (bool, *v1alpha1.Migration, error) {
	id := entry.ID
	switch d.Do {
	case agentdecide.Nothing:
		return false, m, nil
	case agentdecide.Cancel:
		a.cancel(id)
		return false, m, nil
	case agentdecide.Report:
		updated, err := a.reportSource(ctx, m, entry, d)
		return err == nil && updated != nil, updated, err
	case agentdecide.NoteFreeze:
		noted, err := a.noteFreeze(key, entry)
		if failure := checkpoint.AsFailure(notRecorded(entry, err)); failure != nil {
			a.fail(id, failure)
			return true, m, nil
		}
		return noted, m, err
	case agentdecide.Presend:
		a.startPresend(ctx, key, entry, m)
		return false, m, nil
	case agentdecide.NoteExpiry:
		entry.Fate = terms.Thaw
		err := a.ledger.Put(entry)
		if err == nil {
			return true, m, nil
		}
		// The container must not stay frozen until the disk works or has room. Without the note, a
		// state that was dumped before is not sent either: stillFrozen prevents that.
		a.Log.Error(err, "The deadline has passed, and this could not be recorded: check the disk of --state-dir; the container continues", "migration", entry.Name)
		d.Do = agentdecide.Thaw
	case agentdecide.NoteKill:
		entry.Fate = terms.Kill
		return true, m, a.ledger.Put(entry)
	case agentdecide.Forget:
		return m != nil, m, a.ledger.Remove(id)
	}
	backend := a.backends[entry.Backend].Source
	if backend == nil {
		backend = unable{entry.Backend}
	}
	run := map[agentdecide.Action]func(context.Context, checkpoint.Source, ledger.Entry, *v1alpha1.Migration) error{
		agentdecide.Prepare: a.prepareSource, agentdecide.Reach: a.reach, agentdecide.Freeze: a.freeze, agentdecide.Dump: a.dump, agentdecide.Ship: a.ship,
		agentdecide.Kill: a.kill, agentdecide.Thaw: a.thaw, agentdecide.Remove: a.removeSource,
	}[d.Do]
	a.start(ctx, key, id, d.Do, func(ctx context.Context) error {
		err := run(ctx, backend, entry, m)
		switch d.Do {
		case agentdecide.Prepare, agentdecide.Reach, agentdecide.Freeze, agentdecide.Dump, agentdecide.Ship:
			return notRecorded(entry, err)
		}
		return err
	})
	return false, m, nil
}

// notRecorded returns a failure if the ledger could not be written because its disk is full, so that
// the controller has the container continue, and the given error otherwise. To retry could keep the
// container frozen until the disk has room.
func notRecorded(entry ledger.Entry, err error) error {
	if isFull(err) && checkpoint.AsFailure(err) == nil {
		return checkpoint.Fail(v1alpha1.MigrationReasonNoRoom, "record the state of %s: %v: free space on the disk of --state-dir", entry.Container, err)
	}
	return err
}

// prepareSource does all checks that are possible while the container runs.
func (a *Agent) prepareSource(ctx context.Context, b checkpoint.Source, entry ledger.Entry, m *v1alpha1.Migration) error {
	facts, err := b.Inspect(ctx, entry.Container)
	if err != nil {
		return err
	}
	if facts.MemoryBytes > a.Limits.ImageBytes {
		return checkpoint.Fail(v1alpha1.MigrationReasonTooLarge, "%s uses %d bytes of memory, more than the maximum of %d for a checkpoint: raise --max-image-bytes of the node agents",
			entry.Container, facts.MemoryBytes, a.Limits.ImageBytes)
	}
	if facts.VolumeBytes > a.Limits.ImageBytes-facts.MemoryBytes {
		return checkpoint.Fail(v1alpha1.MigrationReasonTooLarge, "%s has more in its emptyDirs and in /dev/shm than the %d bytes that a checkpoint may have besides its memory: raise --max-image-bytes of the node agents, or remove files",
			entry.Container, a.Limits.ImageBytes-facts.MemoryBytes)
	}
	self, err := transport.NewIdentity("source "+entry.Migration, a.Clock.Now().Add(-certificateSkew), m.Status.Plan.DeadlineAt.Add(certificateGrace))
	if err != nil {
		return err
	}
	entry.Key, entry.Certificate = self.Key, self.Certificate
	entry.MemoryBytes, entry.Requirements = facts.MemoryBytes, facts.Requirements.Encode()
	a.rooming.Lock()
	defer a.rooming.Unlock()
	if err := a.roomToDump(entry); err != nil {
		return err
	}
	return a.ledger.Put(entry)
}

// memoryReserve is the memory of a node that no dump may use. The kubelet evicts pods when less than 100 MiB are available,
// and the dump may be larger than expected.
const memoryReserve = 256 << 20

// roomToDump fails if the work folder or the memory of the node cannot hold the dump in addition to
// those that are already expected.
func (a *Agent) roomToDump(entry ledger.Entry) error {
	if entry.Backend == v1alpha1.BackendSimulated {
		return nil
	}
	expected := int64(0)
	for _, other := range a.ledger.All() {
		if other.Role == ledger.SourceRole && other.ID != entry.ID && (other.Stage == terms.Idle || other.Stage == terms.Freezing) {
			expected += other.MemoryBytes
		}
	}
	free, err := freeBytes(a.WorkDir)
	if err != nil {
		return fmt.Errorf("measure the free space of the work folder: %w", err)
	}
	if free -= expected; entry.MemoryBytes > free {
		return checkpoint.Fail(v1alpha1.MigrationReasonNoRoom, "%s uses %d bytes of memory, and the work folder of the agent on its node has only %d bytes free that no other migration needs: raise --work-size, or wait until other migrations end",
			entry.Container, entry.MemoryBytes, max(free, 0))
	}
	if a.FreeMemory == nil {
		return nil
	}
	if free, err = a.FreeMemory(); err != nil {
		return fmt.Errorf("measure the free memory of the node: %w", err)
	}
	if free -= expected + memoryReserve; entry.MemoryBytes > free {
		return checkpoint.Fail(v1alpha1.MigrationReasonNoRoom, "%s uses %d bytes of memory, and its node has only %d bytes available for its dump: the dump is in memory. Wait until the node has more, or move other pods away first",
			entry.Container, entry.MemoryBytes, max(free, 0))
	}
	return nil
}

func (a *Agent) freeze(ctx context.Context, b checkpoint.Source, entry ledger.Entry, _ *v1alpha1.Migration) error {
	if err := b.Freeze(ctx, entry.Container); err != nil {
		return err
	}
	entry.FrozenAt, entry.ThawedAt = a.Clock.Now(), time.Time{}
	return a.ledger.Put(entry)
}

// workDir returns the folder of a migration's dump.
func (a *Agent) workDir(entry ledger.Entry) string {
	return filepath.Join(a.WorkDir, entry.Migration)
}

func (a *Agent) kill(ctx context.Context, b checkpoint.Source, entry ledger.Entry, _ *v1alpha1.Migration) error {
	a.forgetEarly(entry.ID)
	if err := b.Interrupt(ctx, entry.Container, a.workDir(entry)); err != nil {
		return err
	}
	return b.Kill(ctx, entry.Container)
}

func (a *Agent) thaw(ctx context.Context, b checkpoint.Source, entry ledger.Entry, m *v1alpha1.Migration) error {
	switch {
	case entry.Fate == terms.Thaw:
		a.Log.Info("The deadline has passed and the container's state was not sent: the container continues",
			"migration", entry.Name, "pod", entry.Container.Namespace+"/"+entry.Container.Pod, "container", entry.Container.Name)
	case m == nil:
		a.Log.Info("The Migration was deleted and its pod was not: the container continues",
			"migration", entry.Name, "pod", entry.Container.Namespace+"/"+entry.Container.Pod, "container", entry.Container.Name)
	}
	if err := a.letRun(ctx, b, entry); err != nil {
		return err
	}
	entry.ThawedAt, entry.Stage = a.Clock.Now(), terms.Idle
	return a.ledger.Put(entry)
}

// letRun thaws a container. What dumps it holds its processes too, and ends first.
func (a *Agent) letRun(ctx context.Context, b checkpoint.Source, entry ledger.Entry) error {
	a.forgetEarly(entry.ID)
	return errors.Join(b.Interrupt(ctx, entry.Container, a.workDir(entry)), b.Thaw(ctx, entry.Container))
}

// removeSource removes the dump, and the key, which is no longer needed.
func (a *Agent) removeSource(ctx context.Context, b checkpoint.Source, entry ledger.Entry, _ *v1alpha1.Migration) error {
	a.forgetEarly(entry.ID)
	dir := a.workDir(entry)
	if err := b.Interrupt(ctx, entry.Container, dir); err != nil {
		return err
	}
	if err := b.Forget(ctx, entry.Container, dir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the dump of %s: %w", entry.Container, err)
	}
	entry.Stage, entry.Key = terms.Removed, ""
	return a.ledger.Put(entry)
}

// unable stands in for a back-end that this node does not have.
type unable struct{ name v1alpha1.MigrationBackend }

func (u unable) fail() error {
	return checkpoint.Fail(v1alpha1.MigrationReasonNotSupported, "the agent of this node does not support back-end %s: see annotation %s of the node", u.name, v1alpha1.AnnotationCapability)
}

// Inspect fails, so that nothing later is called.
func (u unable) Inspect(context.Context, checkpoint.Container) (checkpoint.Facts, error) {
	return checkpoint.Facts{}, u.fail()
}

// State returns Unknown.
func (u unable) State(context.Context, checkpoint.Container) (checkpoint.State, error) {
	return checkpoint.Unknown, nil
}

// Freeze fails.
func (u unable) Freeze(context.Context, checkpoint.Container) error { return u.fail() }

// Thaw fails.
func (u unable) Thaw(context.Context, checkpoint.Container) error { return u.fail() }

// Kill fails.
func (u unable) Kill(context.Context, checkpoint.Container) error { return u.fail() }

// Dump fails.
func (u unable) Dump(context.Context, checkpoint.Container, string) (int64, error) {
	return 0, u.fail()
}

// Archive fails.
func (u unable) Archive(context.Context, checkpoint.Container, string, io.Writer) error {
	return u.fail()
}

// Interrupt does nothing.
func (u unable) Interrupt(context.Context, checkpoint.Container, string) error { return nil }

// Forget does nothing.
func (u unable) Forget(context.Context, checkpoint.Container, string) error { return nil }

var _ checkpoint.Source = unable{}
