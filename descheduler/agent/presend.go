package agent

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent/agentdecide"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/descheduler/checkpoint/transport"
)

// presending gathers what decides whether memory is sent before the freeze.
func (a *Agent) presending(entry ledger.Entry, m *v1alpha1.Migration, target *v1alpha1.TargetReport) agentdecide.Presending {
	_, able := a.backends[entry.Backend].Source.(checkpoint.Pager)
	return agentdecide.Presending{
		Able: able, MemoryBytes: entry.MemoryBytes, Above: a.PresendAbove, Begun: entry.PresentTo == reachedAs(target),
		Left: m.Status.Plan.DeadlineAt.Sub(a.Clock.Now()),
	}
}

// startPresend starts to send memory. No more containers than may be frozen at the same time have sent theirs, and this agent
// remembers their pages: others run on until there is room.
func (a *Agent) startPresend(ctx context.Context, key types.NamespacedName, entry ledger.Entry, m *v1alpha1.Migration) {
	a.freezing.Lock()
	defer a.freezing.Unlock()
	if a.isCrowded(entry.ID) || a.remembering(entry.ID) >= a.Limits.Moves {
		a.requeueAtNextEnd(key)
		return
	}
	a.start(ctx, key, entry.ID, agentdecide.Presend, func(ctx context.Context) error { return a.presend(ctx, entry, m) })
}

// remembering returns of how many other containers the agent remembers pages, or is about to.
func (a *Agent) remembering(id ledger.ID) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for other, j := range a.jobs {
		if other != id && j.action == agentdecide.Presend && a.early[other] == nil {
			n++
		}
	}
	for other := range a.early {
		if other != id {
			n++
		}
	}
	return n
}

// presend sends the memory of a container that runs. If it fails, the move continues without: the dump has all of the state.
func (a *Agent) presend(ctx context.Context, entry ledger.Entry, m *v1alpha1.Migration) error {
	source, able := a.backends[entry.Backend].Source.(checkpoint.Pager)
	target := a.targetOf(m)
	if !able || target == nil || target.Address == "" {
		return errors.New("the target has not reported its address")
	}
	most := a.presending(entry, m, target).For()
	entry.PresentTo = reachedAs(target) // first: if this ends the agent, the next one continues without
	if err := a.ledger.Put(entry); err != nil {
		return notRecorded(entry, err)
	}
	early, err := transport.NewEarly(roomFor(entry.MemoryBytes, a.Limits.ImageBytes))
	if err != nil {
		return err
	}
	start := a.Clock.Now()
	sender := transport.Sender{Clock: a.Clock, Stalled: a.Limits.Stalled}
	wire, err := sender.Presend(ctx, transport.Identity{Key: entry.Key, Certificate: entry.Certificate}, peerOf(entry, target), early, start.Add(most),
		func(visit func([]byte) error) error { return source.Pages(ctx, entry.Container, visit) })
	took := a.Clock.Since(start)
	log := a.Log.WithValues("migration", entry.Namespace+"/"+entry.Name, "pages", early.Pages(), "bytes", wire, "took", took)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		log.Info("Failed to send memory before the freeze; the container is moved without", "error", err.Error())
		return nil
	}
	log.Info("Sent memory before the freeze")
	a.metrics.presend(wire, took)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.early[entry.ID] = early
	return nil
}

// earlyOf returns the pages that a target has; nil for none.
func (a *Agent) earlyOf(id ledger.ID) *transport.Early {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.early[id]
}

// forgetEarly forgets the pages that a target has.
func (a *Agent) forgetEarly(id ledger.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.early, id)
}

// roomFor returns how many bytes of memory may be sent before the freeze: all of it, and some of what changes meanwhile.
func roomFor(memory, most int64) int64 {
	return min(memory+memory/4, most)
}
