package agentdecide

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// TestNoFailureOfASourceSaysWhatIsNotKnown checks the messages for every combination of what an agent may observe.
func TestNoFailureOfASourceSaysWhatIsNotKnown(t *testing.T) {
	everySource(func(s Source) {
		alone := Source{Stage: s.Stage, Fate: s.Fate, Overdue: s.Overdue, Reached: s.Reached}
		if !s.Known && alone != (Source{}) {
			return // these are from the ledger
		}
		d := ForSource(s)
		for part, is := range map[string]bool{
			"the container continues":                  s.Container == terms.Running,
			"the deadline has passed":                  s.Overdue || s.Fate == terms.Thaw,
			"the target does not have the container's": !s.TargetStaged && s.Stage != terms.Sent && s.Stage != terms.Shipped,
			"the container has ended":                  s.Container == terms.Gone,
			"the container ended":                      s.Container == terms.Gone,
			"before its move was complete":             s.Order == v1alpha1.OrderFreeze || s.Order == v1alpha1.OrderPrepare || s.Order == "",
			"something else resumed the container":     s.Container == terms.Running && (s.Known || s.Step == v1alpha1.SourceShipped),
			"the dump was lost":                        s.Known && !dumped(s),
			"the agent's ledger was lost":              !s.Known && (s.Step == v1alpha1.SourceFrozen || s.Step == v1alpha1.SourceDumped),
		} {
			if strings.Contains(d.Message, part) && !is {
				t.Fatalf("it says %q\nseen: %+v", d.Message, s)
			}
		}
	})
}

func TestEachSentenceOfAnAgentIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	source := func(change func(*Source)) string {
		s := Source{Exists: true, Known: true, Order: v1alpha1.OrderFreeze, Container: terms.Frozen, Stage: terms.Freezing}
		change(&s)
		return ForSource(s).Message
	}
	target := func(change func(*Target)) string {
		s := Target{Exists: true, Reserved: true, SourceReady: true, Order: v1alpha1.OrderFreeze, Step: v1alpha1.TargetStaged, Known: true, Stage: terms.Staged}
		change(&s)
		return ForTarget(s).Message
	}
	at := func(step v1alpha1.SourceStep, state terms.State, change ...func(*Source)) string {
		return source(func(s *Source) {
			s.Step, s.Container = step, state
			for _, f := range change {
				f(s)
			}
		})
	}
	expired := func(s *Source) { s.Fate = terms.Thaw }
	unknown := func(s *Source) { s.Known, s.Stage = false, terms.Idle }
	without := func(s *Source) { s.Stage = terms.Idle }
	withDump := func(s *Source) { s.Stage = terms.Dumped }
	preparing := func(state terms.State) string {
		return source(func(s *Source) { s.Order, s.Container = v1alpha1.OrderPrepare, state })
	}
	asked := func(change func(*Asked)) string {
		a := Asked{Known: true, Same: true, Stage: terms.Staged, ID: "new"}
		change(&a)
		return ForRuntime(a).Refuse
	}
	given := asked(func(*Asked) {})
	sentences.Check(t, []string{"*.go"}, []sentences.Case{
		{"the deadline has passed and the target does not have the container's state: the container continues on this node; check whether the descheduler runs, and what the target's agent waited for",
			at(v1alpha1.SourceDumped, terms.Running, expired), at(v1alpha1.SourceDumped, terms.Gone, expired)},
		{"the container ended before its move was complete", at(v1alpha1.SourceDumped, terms.Gone), at(v1alpha1.SourceDumped, terms.Frozen)},
		{"the container has ended: its state cannot be moved", preparing(terms.Gone), preparing(terms.Running)},
		{"something else resumed the container after its state was dumped: the dump is outdated; do not resume containers that are being moved",
			at(v1alpha1.SourceDumped, terms.Running, withDump), at(v1alpha1.SourceDumped, terms.Running, unknown)},
		{"the agent's ledger was lost: place its state folder on a persistent disk", at(v1alpha1.SourceDumped, terms.Frozen, unknown), at(v1alpha1.SourceDumped, terms.Frozen, without)},
		{"the dump was lost: keep the agent's work folder across restarts of the agent", at(v1alpha1.SourceDumped, terms.Frozen, without), at(v1alpha1.SourceDumped, terms.Frozen, unknown)},
		{"the staged checkpoint was lost: the node has restarted, or its files were removed from the agent's state folder", target(func(s *Target) { s.Lost = true }), target(func(*Target) {})},
		{"the agent's ledger was lost, so the staged image is not used: place its state folder on a persistent disk",
			target(func(s *Target) { s.Known, s.Stage = false, terms.Idle }), target(func(*Target) {})},
		{"the migration of this pod has ended: its container does not start", asked(func(a *Asked) { a.Stage = terms.Removed }), given},
		{"the migration of this pod moves another container", asked(func(a *Asked) { a.Same = false }), given},
		{"container %s already continues from the checkpoint, and no checkpoint is restored twice", asked(func(a *Asked) { a.GivenTo = "another" }), asked(func(a *Asked) { a.GivenTo = "new" })},
	}, nil)
}
