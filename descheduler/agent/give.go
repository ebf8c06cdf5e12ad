package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/descheduler/agent/agentdecide"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
)

// givePoll is how often the agent looks whether a checkpoint that the container runtime waits for is staged.
const givePoll = 100 * time.Millisecond

// giving answers the container runtime until ctx ends.
func (a *Agent) giving(ctx context.Context) error {
	if a.RestoreFolder == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	return a.RestoreFolder.Serve(ctx, a.give, func(err error) { a.Log.Error(err, "Failed to answer the container runtime; it asks again") })
}

// give answers the runtime that creates the container of a new pod. While the checkpoint is not staged, it waits.
func (a *Agent) give(ctx context.Context, r restoreapi.Request) (restoreapi.Answer, error) {
	for {
		entry, known := a.expected(r.Pod)
		seen := agentdecide.Asked{
			Known: known, Stage: entry.Stage, Same: entry.Image.Container == r.Container, Busy: a.busy(entry.ID),
			GivenTo: entry.GivenTo, ID: r.ID,
		}
		switch do := agentdecide.ForRuntime(seen); {
		case do.Refuse != "":
			return restoreapi.Answer{Refused: do.Refuse}, nil
		case do.Give:
			answer, done, err := a.giveOnce(ctx, entry, r)
			if done || err != nil {
				return answer, err
			}
		}
		select {
		case <-ctx.Done():
			return restoreapi.Answer{}, context.Cause(ctx)
		case <-a.Clock.After(givePoll):
		}
	}
}

// giveOnce gives a staged checkpoint, unless another action has begun meanwhile. The ledger has the container before the
// answer is sent: after a crash, no other container gets the checkpoint.
func (a *Agent) giveOnce(ctx context.Context, entry ledger.Entry, r restoreapi.Request) (restoreapi.Answer, bool, error) {
	target, ok := a.backends[entry.Backend].Target.(checkpoint.Giver)
	if !ok {
		return restoreapi.Answer{Refused: fmt.Sprintf("back-end %s restores nothing", entry.Backend)}, true, nil
	}
	ctx, j := a.begin(ctx, types.NamespacedName{Namespace: entry.Namespace, Name: entry.Name}, entry.ID, agentdecide.Give)
	if j == nil {
		return restoreapi.Answer{}, false, nil
	}
	answer, done, err := a.giveAlone(ctx, target, entry.ID, r)
	a.end(ctx, entry.ID, j, nil) // the runtime gets the error, and asks again
	return answer, done, err
}

// giveAlone is giveOnce while no other action changes the entry.
func (a *Agent) giveAlone(ctx context.Context, target checkpoint.Giver, id ledger.ID, r restoreapi.Request) (restoreapi.Answer, bool, error) {
	entry, known := a.ledger.Get(id)
	if !known || entry.Stage != terms.Staged || entry.GivenTo != "" && entry.GivenTo != r.ID {
		return restoreapi.Answer{}, false, nil // decide again
	}
	answer, err := target.Give(ctx, entry.Image, r.ID)
	if failure := checkpoint.AsFailure(err); failure != nil {
		return restoreapi.Answer{Refused: failure.Message}, true, nil
	}
	if err != nil {
		return restoreapi.Answer{}, false, err
	}
	entry.GivenTo = r.ID
	if err := a.ledger.Put(entry); err != nil {
		return restoreapi.Answer{}, false, err
	}
	a.Log.Info("Gave a checkpoint to the container runtime", "migration", entry.Namespace+"/"+entry.Name, "pod", r.Pod, "container", r.ID)
	return answer, true, nil
}

// expected returns the entry for a new pod.
func (a *Agent) expected(pod string) (ledger.Entry, bool) {
	for _, entry := range a.ledger.All() {
		if pod != "" && entry.Image.Pod == pod { // entries of sources have none
			return entry, true
		}
	}
	return ledger.Entry{}, false
}

// sweepPods releases pods that no migration expects.
func (a *Agent) sweepPods() error {
	if a.RestoreFolder == "" {
		return nil
	}
	pods, err := a.RestoreFolder.Listed()
	errs := []error{err}
	for _, pod := range pods {
		if _, known := a.expected(pod); !known {
			errs = append(errs, a.RestoreFolder.Release(pod))
		}
	}
	return errors.Join(errs...)
}
