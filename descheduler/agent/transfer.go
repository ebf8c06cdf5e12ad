package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
	"supercargo.dev/supercargo/descheduler/checkpoint/transport"
)

// reachedAs identifies a target in the ledger.
func reachedAs(target *v1alpha1.TargetReport) string { return target.Node + " " + target.Address }

// peerOf returns the receiver of a container's state.
func peerOf(entry ledger.Entry, target *v1alpha1.TargetReport) transport.Peer {
	return transport.Peer{Address: target.Address, Certificate: target.Certificate, Migration: entry.Migration, Node: target.Node}
}

// reach checks that the target can be reached, so that a firewall or a wrong clock is found while
// the container still runs.
func (a *Agent) reach(ctx context.Context, _ checkpoint.Source, entry ledger.Entry, m *v1alpha1.Migration) error {
	target := a.targetOf(m)
	if target == nil || target.Address == "" {
		return errors.New("the target has not reported its address")
	}
	sender := transport.Sender{Clock: a.Clock, Stalled: a.Limits.Stalled}
	err := sender.Reach(ctx, transport.Identity{Key: entry.Key, Certificate: entry.Certificate}, peerOf(entry, target))
	if err != nil && ctx.Err() == nil && checkpoint.AsFailure(err) == nil {
		if entry.ReachTries++; entry.ReachTries >= reachTries {
			return checkpoint.Fail(v1alpha1.MigrationReasonTransferFailed, "%v, after %d attempts: check that the agents can reach each other", err, entry.ReachTries)
		}
		return errors.Join(err, a.ledger.Put(entry)) // the target may report another address meanwhile
	}
	if err != nil {
		return err
	}
	entry.Reached = reachedAs(target)
	return a.ledger.Put(entry)
}

// dump takes the state of a frozen container. If the back-end and the target allow it, the state is sent meanwhile.
func (a *Agent) dump(ctx context.Context, b checkpoint.Source, entry ledger.Entry, m *v1alpha1.Migration) error {
	follower, able := b.(checkpoint.Follower)
	target := a.targetOf(m)
	if !able || target == nil || target.Address == "" {
		return a.dumpOnly(ctx, b, &entry)
	}
	dir := a.workDir(entry)
	if err := errors.Join(b.Interrupt(ctx, entry.Container, dir), os.RemoveAll(dir)); err != nil { // no earlier dump is followed
		return fmt.Errorf("remove an earlier dump of %s: %w", entry.Container, err)
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	dumped, ended := make(chan struct{}), make(chan transfer, 1)
	send := a.sending(b, entry, target)
	go func() {
		ended <- send(sending, func() error { // dump waits meanwhile
			entry.Stage = terms.Sent // from here on a copy may be restored, so the original must not continue without an order
			return a.ledger.Put(entry)
		}, func(w io.Writer) error { return follower.Follow(sending, entry.Container, dir, dumped, w) })
	}()
	if err := a.dumpOnly(ctx, b, &entry); err != nil {
		stop()
		<-ended
		return err
	}
	start := a.Clock.Now()
	close(dumped)
	result := <-ended
	return a.sent(ctx, b, entry, start, result)
}

// dumpOnly dumps the state of a container into its work folder.
func (a *Agent) dumpOnly(ctx context.Context, b checkpoint.Source, entry *ledger.Entry) error {
	start := a.Clock.Now()
	if entry.FrozenAt.IsZero() {
		entry.FrozenAt = start // the agent was killed after freezing, before it recorded the time
	}
	bytes, err := b.Dump(ctx, entry.Container, a.workDir(*entry))
	if err != nil {
		return a.whyNotDumped(*entry, err)
	}
	if bytes > a.Limits.ImageBytes {
		return checkpoint.Fail(v1alpha1.MigrationReasonTooLarge, "the dump of %s has %d bytes, more than the maximum of %d: raise --max-image-bytes of the node agents",
			entry.Container, bytes, a.Limits.ImageBytes)
	}
	if err := stillFrozen(ctx, b, entry.Container); err != nil {
		return err
	}
	entry.Stage, entry.DumpBytes, entry.Dump = terms.Dumped, bytes, a.Clock.Since(start)
	return a.ledger.Put(*entry)
}

// leastFree is the free space below which a work folder counts as full: CRIU can then not even log
// why it failed.
const leastFree = 64 << 10

// whyNotDumped returns a failure if the work folder is full, so that the container continues, and
// the given error otherwise.
func (a *Agent) whyNotDumped(entry ledger.Entry, err error) error {
	if failure := checkpoint.AsFailure(err); failure != nil && failure.Reason == v1alpha1.MigrationReasonNoRoom {
		return err
	}
	free, unknown := freeBytes(a.WorkDir)
	if isFull(err) || unknown == nil && free < leastFree && entry.Backend != v1alpha1.BackendSimulated {
		return checkpoint.Fail(v1alpha1.MigrationReasonNoRoom, "dump %s: the work folder is full: raise --work-size of the node agents (%v)", entry.Container, err)
	}
	return err
}

// stillFrozen fails if the container runs, since its dump is then outdated, or has ended.
func stillFrozen(ctx context.Context, b checkpoint.Source, c checkpoint.Container) error {
	switch state, err := b.State(ctx, c); {
	case err != nil:
		return fmt.Errorf("inspect %s: %w", c, err)
	case state == checkpoint.Unknown:
		return fmt.Errorf("inspect %s: its state is unknown", c)
	case state == checkpoint.Gone:
		return checkpoint.Fail(v1alpha1.MigrationReasonContainerGone, "%s ended while it was frozen", c)
	case state != checkpoint.Frozen:
		return checkpoint.Fail(v1alpha1.MigrationReasonThawed, "%s was frozen and is now %s: something else resumed it, so its checkpoint is outdated", c, state)
	}
	return nil
}

// ship sends a dump that was not sent while it was written.
func (a *Agent) ship(ctx context.Context, b checkpoint.Source, entry ledger.Entry, m *v1alpha1.Migration) error {
	target := a.targetOf(m)
	if target == nil || target.Address == "" {
		return errors.New("the target has not reported its address")
	}
	if err := stillFrozen(ctx, b, entry.Container); err != nil {
		return err
	}
	start := a.Clock.Now()
	result := a.sending(b, entry, target)(ctx, func() error {
		entry.Stage = terms.Sent // from here on a copy may be restored, so the original must not continue without an order
		return a.ledger.Put(entry)
	}, func(w io.Writer) error { return b.Archive(ctx, entry.Container, a.workDir(entry), w) })
	return a.sent(ctx, b, entry, start, result)
}

// transfer is the result of sending a container's state.
type transfer struct {
	transport.Sent
	err error
}

// sending returns a function that sends what write writes. It calls note before the last bytes.
func (a *Agent) sending(b checkpoint.Source, entry ledger.Entry, target *v1alpha1.TargetReport) func(ctx context.Context, note func() error, write func(io.Writer) error) transfer {
	return func(ctx context.Context, note func() error, write func(io.Writer) error) transfer {
		sender := transport.Sender{
			Clock: a.Clock, Tries: a.Limits.Tries, Pause: tryPause, Stalled: a.Limits.Stalled, Early: a.earlyOf(entry.ID),
			BeforeEnd: func() error {
				// The target must not get all of it if something else resumed the container: it would
				// run twice.
				if err := stillFrozen(ctx, b, entry.Container); err != nil {
					return err
				}
				return note()
			},
		}
		sent, err := sender.Send(ctx, transport.Identity{Key: entry.Key, Certificate: entry.Certificate}, peerOf(entry, target), write)
		return transfer{sent, err}
	}
}

// sent notes the result of a transfer that the container has waited for since start.
func (a *Agent) sent(ctx context.Context, b checkpoint.Source, entry ledger.Entry, start time.Time, result transfer) error {
	entry.Ship += a.Clock.Since(start)
	entry.ShipTries += int32(result.Tries)
	if result.err != nil {
		return errors.Join(result.err, a.ledger.Put(entry))
	}
	if err := stillFrozen(ctx, b, entry.Container); err != nil {
		return err
	}
	a.forgetEarly(entry.ID)
	entry.ShipBytes = result.WireBytes
	if model, ok := b.(interface {
		Shipped(sent, dumped int64) int64
	}); ok {
		entry.ShipBytes = model.Shipped(result.WireBytes, entry.DumpBytes)
	}
	entry.Stage, entry.Sum = terms.Shipped, result.Sum
	return a.ledger.Put(entry)
}
