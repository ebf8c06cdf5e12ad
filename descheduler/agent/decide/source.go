// Package decide says what the agent of a node does next for one migration. It is given
// what the Migration says, what the agent's own ledger says and what the container
// does, and returns one thing to do. The agent does it, looks again and asks again,
// until there is nothing to do. So it continues after a crash where it was, whatever that
// was.
//
// What holds at all times, and is tested for every combination of what may be seen:
//
//   - A container is frozen only on order Freeze, after the report has said so.
//   - A container that was frozen continues only on order Thaw, or when the Migration is
//     gone and its pod is still wanted, or when its time is over or the agent ends while
//     the target cannot have its state yet; never once it was ordered to be killed, or
//     once the new pod began to take its place.
//   - A container continues without an order only if no copy of it can run: the last bytes of
//     its state were not sent. What was dumped is never sent afterwards.
//   - Nothing that was dumped is shipped, or called shipped, once the container has run
//     since.
package decide

import (
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
)

// Action is one thing to do.
type Action string

const (
	// Nothing is to wait until something changes.
	Nothing Action = ""
	// Cancel the action under way, and ask again once it has ended.
	Cancel Action = "Cancel"
	// Prepare is to look, to make a certificate and to write the ledger.
	Prepare Action = "Prepare"
	// Reach is to find out whether the target's agent can be sent something, while the
	// container still runs.
	Reach Action = "Reach"
	// NoteExpiry writes into the ledger that the container continues by itself, and that what
	// was dumped of it is of no use.
	NoteExpiry Action = "NoteExpiry"
	// NoteFreeze writes into the ledger that the container is about to be frozen.
	NoteFreeze Action = "NoteFreeze"
	// Freeze the container.
	Freeze Action = "Freeze"
	// Dump its state.
	Dump Action = "Dump"
	// Ship the dump to the target.
	Ship Action = "Ship"
	// NoteKill writes into the ledger that the container is to die, so that it is never
	// thawed again, whatever becomes of the Migration.
	NoteKill Action = "NoteKill"
	// Kill the container.
	Kill Action = "Kill"
	// Thaw the container.
	Thaw Action = "Thaw"
	// Remove what was made for the migration, but for the ledger.
	Remove Action = "Remove"
	// Forget the migration: its entry in the ledger goes.
	Forget Action = "Forget"
	// Report the step of the decision.
	Report Action = "Report"
)

// Pod is what is known of the pod whose Migration is gone.
type Pod string

const (
	// PodUnknown says that the API server has not said.
	PodUnknown Pod = ""
	// PodWanted says that it is there, and not being deleted.
	PodWanted Pod = "Wanted"
	// PodLeaving says that it is being deleted.
	PodLeaving Pod = "Leaving"
	// PodGone says that it is not there.
	PodGone Pod = "Gone"
)

// Source is what the agent of the source node sees.
type Source struct {
	// Exists says that the API server has the Migration, with the UID that is known. An
	// agent that cannot tell does not ask what to do.
	Exists bool
	// Ended says that the Migration is Finished.
	Ended bool
	// Order is what is to be done.
	Order v1alpha1.MigrationOrder
	// HandedOver says that the new pod takes the old one's place, or has it.
	HandedOver bool
	// Step is what this agent has reported; empty for nothing.
	Step v1alpha1.SourceStep
	// TargetReady says that the target's agent listens, and TargetStaged that it has it
	// all.
	TargetReady, TargetStaged bool
	// Stateless says that nothing is taken: the container is started anew.
	Stateless bool
	// Known says that the ledger has an entry, and the rest what it says.
	Known bool
	// FreezeNoted: the container may have been frozen by this agent.
	FreezeNoted bool
	// Dumped: its state is in the work folder.
	Dumped bool
	// Sent: the target may have all of it, whether it has confirmed that or not.
	Sent bool
	// Shipped: the target has confirmed it.
	Shipped bool
	// Overdue: the time is over for which the container may be frozen without being
	// Sent.
	Overdue bool
	// Expired: the container goes on since it was overdue.
	Expired bool
	// Reached: the target's agent has answered.
	Reached bool
	// KillNoted: the container is to die.
	KillNoted bool
	// Removed: nothing is left in the work folder.
	Removed bool
	// Container is what it does.
	Container terms.State
	// Pod is asked for only if the Migration is gone.
	Pod Pod
	// Busy is the action that is under way, or Nothing.
	Busy Action
}

// SourceDecision is what to do, and the step and the reason of a report.
type SourceDecision struct {
	Do      Action
	Step    v1alpha1.SourceStep
	Reason  string
	Message string
}

// ForSource decides for the agent of the source node.
func ForSource(s Source) SourceDecision {
	switch {
	case !s.Exists:
		return s.orphaned()
	case s.KillNoted || s.HandedOver || s.Order == v1alpha1.OrderKill:
		return s.kill()
	case s.Ended || s.Order == v1alpha1.OrderThaw || s.Order == v1alpha1.OrderClean:
		return s.thaw()
	case s.expires():
		return s.expire()
	case s.Busy != Nothing:
		return SourceDecision{}
	case s.Step == v1alpha1.SourceFailed:
		return SourceDecision{} // what was frozen stays frozen until Thaw is ordered, or it expires
	case s.Order == v1alpha1.OrderFreeze:
		return s.freeze()
	case s.Order == v1alpha1.OrderPrepare:
		return s.prepare()
	}
	return SourceDecision{}
}

// frozenHere says that this agent may have frozen the container. What others froze is
// theirs to thaw. The report counts too: a ledger may be lost with its disk.
func (s Source) frozenHere() bool {
	switch s.Step {
	case v1alpha1.SourceFrozen, v1alpha1.SourceDumped, v1alpha1.SourceShipped, v1alpha1.SourceFailed:
		return true
	}
	return s.FreezeNoted
}

// unsent says that no copy of the container can run: the target cannot have all of its
// state, and it was not told to die.
func (s Source) unsent() bool {
	return s.Known && !s.Stateless && !s.Sent && !s.Shipped && !s.TargetStaged && !s.KillNoted && !s.HandedOver
}

// expires says that the container has been frozen for as long as it may, or would if it
// was frozen now.
func (s Source) expires() bool {
	return s.unsent() && (s.Expired || s.Overdue && (s.frozenHere() || s.Order == v1alpha1.OrderFreeze))
}

// expire lets the container go on, and says so.
func (s Source) expire() SourceDecision {
	switch {
	case s.Busy == Thaw:
		return SourceDecision{}
	case s.Busy != Nothing:
		return do(Cancel)
	case !s.Expired:
		return do(NoteExpiry)
	case s.Container == terms.Frozen:
		return do(Thaw)
	case s.Container == terms.Unknown:
		return SourceDecision{} // the runtime does not answer: ask again
	case s.Step != v1alpha1.SourceFailed:
		return fail(terms.ReasonFreezeExpired, "the deadline is over and the target does not have the container's state: the container continues here; see whether the descheduler runs, and what the target's agent waited for")
	}
	return SourceDecision{}
}

// ForSourceAlone decides for the agent of the source node while the API server cannot be
// asked. What only that knows is not set. A container continues once it is overdue; all else
// waits.
func ForSourceAlone(s Source) SourceDecision {
	if !s.FreezeNoted || !s.expires() {
		return SourceDecision{}
	}
	if d := s.expire(); d.Do != Report {
		return d
	}
	return SourceDecision{}
}

// ForSourceAtEnd decides for an agent that ends, and that may not come back: nothing is
// under way any more. A container whose state was not sent continues. An agent that comes
// back freezes it again, and takes its state again: so the move continues too.
func ForSourceAtEnd(s Source) SourceDecision {
	if s.FreezeNoted && s.unsent() && s.Container == terms.Frozen {
		return do(Thaw)
	}
	return SourceDecision{}
}

// orphaned is what is done about a Migration that is gone.
func (s Source) orphaned() SourceDecision {
	switch {
	case !s.Known:
		return SourceDecision{}
	case s.Busy == Kill || s.Busy == Thaw || s.Busy == Remove || s.Busy == Forget:
		return SourceDecision{}
	case s.Busy != Nothing:
		return do(Cancel)
	case s.Container == terms.Frozen && s.FreezeNoted:
		switch {
		case s.KillNoted, s.Pod == PodLeaving, s.Pod == PodGone:
			return do(Kill) // it must not go on: it was told to die, or its pod was
		case s.Pod == PodWanted:
			return do(Thaw)
		}
		return SourceDecision{} // hold
	case s.Container == terms.Unknown:
		return SourceDecision{} // hold
	case s.KillNoted && s.Container == terms.Running && !s.Stateless:
		return do(Kill)
	case !s.Removed:
		return do(Remove)
	}
	return do(Forget)
}

// kill is what order Kill asks for, and what is left of it when order Clean has come.
func (s Source) kill() SourceDecision {
	clean := s.Ended || s.Order == v1alpha1.OrderClean
	switch s.Busy {
	case Dump, Ship, Prepare, Freeze, Thaw:
		return do(Cancel)
	case Nothing:
	default:
		return SourceDecision{}
	}
	switch {
	case s.Step == v1alpha1.SourceCleaned && !s.Known:
		return SourceDecision{}
	case s.Order != v1alpha1.OrderKill && !clean && !s.KillNoted:
		return SourceDecision{} // handing over, but Kill is not ordered yet
	case !s.KillNoted && !s.gone():
		return do(NoteKill)
	case !s.gone() && s.Stateless:
		return SourceDecision{} // the kubelet ends it, since its pod is deleted
	case !s.gone():
		return do(Kill)
	case s.Step != v1alpha1.SourceKilled && s.Step != v1alpha1.SourceCleaned:
		return report(v1alpha1.SourceKilled)
	case clean:
		return s.clean()
	}
	return SourceDecision{}
}

// gone says that the container has ended. An unknown state is not that.
func (s Source) gone() bool { return s.Container == terms.Gone }

// thaw is what orders Thaw and Clean ask for where nothing was handed over.
func (s Source) thaw() SourceDecision {
	switch {
	case s.Busy == Thaw || s.Busy == Remove || s.Busy == Forget || s.Busy == Report:
		return SourceDecision{}
	case s.Busy != Nothing:
		return do(Cancel)
	case s.Step == v1alpha1.SourceCleaned && !s.Known:
		return SourceDecision{}
	case s.Container == terms.Frozen && s.frozenHere():
		return do(Thaw)
	case s.Container == terms.Unknown && s.frozenHere():
		return SourceDecision{} // the runtime does not answer: ask again
	case s.Known && !s.Removed:
		return do(Remove)
	case s.Step != v1alpha1.SourceThawed && s.Step != v1alpha1.SourceCleaned:
		return report(v1alpha1.SourceThawed)
	case s.Ended || s.Order == v1alpha1.OrderClean:
		return s.clean()
	}
	return SourceDecision{}
}

// clean is the end of the way, either way.
func (s Source) clean() SourceDecision {
	switch {
	case s.Known && !s.Removed:
		return do(Remove)
	case s.Step != v1alpha1.SourceCleaned:
		return report(v1alpha1.SourceCleaned)
	case s.Known:
		return do(Forget)
	}
	return SourceDecision{}
}

func (s Source) prepare() SourceDecision {
	switch {
	case s.Step != "" && s.Step != v1alpha1.SourcePrepared:
		return SourceDecision{}
	case s.Container == terms.Gone && s.Known:
		return fail(terms.ReasonContainerGone, "the container has ended: there is nothing to move")
	case !s.Known:
		return do(Prepare)
	case s.Step != v1alpha1.SourcePrepared:
		return report(v1alpha1.SourcePrepared)
	}
	return SourceDecision{}
}

func (s Source) freeze() SourceDecision {
	switch {
	case s.Stateless:
		return SourceDecision{}
	case s.Container == terms.Unknown:
		return SourceDecision{} // the runtime does not answer: ask again
	case s.Container == terms.Gone:
		return fail(terms.ReasonContainerGone, "the container has ended before its state was with the target")
	case s.takesAgain():
		return report(v1alpha1.SourceFrozen)
	case s.Container == terms.Running && s.past():
		return fail(terms.ReasonThawed, "the container was resumed by something else after its state was taken: what was taken is of no use; do not resume containers that are being moved")
	}
	switch s.Step {
	case v1alpha1.SourcePrepared:
		return s.beforeFreeze()
	case v1alpha1.SourceFrozen:
		switch {
		case !s.Known:
			return fail(terms.ReasonDumpLost, "the agent's ledger was lost: keep its state folder on a disk")
		case s.Container == terms.Running:
			return do(Freeze)
		case !s.Dumped:
			return do(Dump)
		}
		return report(v1alpha1.SourceDumped)
	case v1alpha1.SourceDumped:
		switch {
		case !s.Dumped:
			return fail(terms.ReasonDumpLost, "what was dumped was lost: keep the agent's work folder while it is being restarted")
		case s.Shipped || s.TargetStaged:
			return report(v1alpha1.SourceShipped)
		}
		return do(Ship)
	}
	return SourceDecision{}
}

// beforeFreeze leads to the report that the container is about to be frozen.
func (s Source) beforeFreeze() SourceDecision {
	switch {
	case !s.Known:
		return do(Prepare) // the ledger was lost: nothing was frozen yet
	case !s.TargetReady:
		return SourceDecision{}
	case !s.FreezeNoted && !s.Reached:
		return do(Reach)
	case !s.FreezeNoted:
		return do(NoteFreeze)
	}
	return report(v1alpha1.SourceFrozen)
}

// takesAgain says that an agent which ended has let the container go on after it had
// reported a dump, and has noted that the dump is of no use. It was not sent, so another
// can take its place.
func (s Source) takesAgain() bool {
	return s.Step == v1alpha1.SourceDumped && s.Known && s.FreezeNoted && !s.Dumped && s.unsent()
}

// past says that the container's state was taken.
func (s Source) past() bool {
	return s.Dumped || s.Step == v1alpha1.SourceDumped || s.Step == v1alpha1.SourceShipped
}

func do(a Action) SourceDecision { return SourceDecision{Do: a} }

func report(step v1alpha1.SourceStep) SourceDecision {
	return SourceDecision{Do: Report, Step: step}
}

func fail(reason, message string) SourceDecision {
	return SourceDecision{Do: Report, Step: v1alpha1.SourceFailed, Reason: reason, Message: message}
}
