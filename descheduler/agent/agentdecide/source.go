// Package agentdecide determines what the agent of a node does next for one migration. Its input is the
// Migration, the agent's own ledger and the state of the container; its output is one action. The
// agent does it, observes again and decides again, until there is nothing to do. So it continues
// after a crash wherever it was.
//
// Invariants, tested for every combination of inputs:
//
//   - A container is frozen only on order Freeze, after the report has said so.
//   - A frozen container continues only on order Thaw or Clean, when the Migration is Finished,
//     when the Migration is gone, its pod is still wanted and the new pod does not exist, or when
//     its time is over or the agent ends while the target cannot have its state yet. It never
//     continues after an order to kill it, or after the new pod began to take its place.
//   - A container continues without an order only if no copy of it can run: the last bytes of its
//     state were not sent. Its dump is never sent afterwards.
//   - Memory is sent before the freeze only on order Freeze, to a target that was reached, while the container runs.
//   - A dump is not shipped, or reported as shipped, once the container has run since.
package agentdecide

import (
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
)

// Action is one thing to do.
type Action string

const (
	// Nothing means to wait until something changes.
	Nothing Action = ""
	// Cancel cancels the running action. The agent decides again once it has ended.
	Cancel Action = "Cancel"
	// Prepare inspects the container, makes a certificate and writes the ledger.
	Prepare Action = "Prepare"
	// Reach checks that the target's agent can be reached, while the container still runs.
	Reach Action = "Reach"
	// Presend sends memory pages to the target while the container still runs. It may fail.
	Presend Action = "Presend"
	// NoteExpiry writes into the ledger that the container continues without an order, and that
	// its dump is void.
	NoteExpiry Action = "NoteExpiry"
	// NoteFreeze writes into the ledger that the container is about to be frozen.
	NoteFreeze Action = "NoteFreeze"
	// Freeze freezes the container.
	Freeze Action = "Freeze"
	// Dump dumps its state.
	Dump Action = "Dump"
	// Ship sends the dump to the target.
	Ship Action = "Ship"
	// NoteKill writes into the ledger that the container is to be killed, so that it is never
	// thawed again, whatever happens to the Migration.
	NoteKill Action = "NoteKill"
	// Kill kills the container.
	Kill Action = "Kill"
	// Thaw thaws the container.
	Thaw Action = "Thaw"
	// Remove removes everything that was made for the migration, except the ledger's entry.
	Remove Action = "Remove"
	// Forget removes the migration's entry from the ledger.
	Forget Action = "Forget"
	// Report reports the step of the decision.
	Report Action = "Report"
)

// Pod is the state of the pod of a Migration that is gone.
type Pod string

const (
	// PodUnknown means that the API server was not asked or did not answer.
	PodUnknown Pod = ""
	// PodWanted means that it exists and is not being deleted.
	PodWanted Pod = "Wanted"
	// PodLeaving means that it is being deleted.
	PodLeaving Pod = "Leaving"
	// PodGone means that it does not exist.
	PodGone Pod = "Gone"
)

// Source is what the agent of the source node observes.
type Source struct {
	// Exists: the API server has the Migration, with the known UID. An agent that cannot reach
	// the API server does not use ForSource.
	Exists bool
	// Ended: the Migration is Finished.
	Ended bool
	// Order is the Migration's order.
	Order v1alpha1.MigrationOrder
	// HandedOver: the new pod is taking the old one's place, or has it.
	HandedOver bool
	// Step is the last step that this agent reported; empty for none.
	Step v1alpha1.SourceStep
	// TargetReady: the target's agent listens. TargetStaged: it has all of the state.
	TargetReady, TargetStaged bool
	// Known: the ledger has an entry. The fields from here to Reached are from it.
	Known bool
	// Stage is how far the state is moved, and Fate what is decided about the container.
	Stage terms.Stage
	Fate  terms.Fate
	// Overdue: the time has passed for which the container may be frozen without being sent.
	Overdue bool
	// Reached: the target's agent has answered.
	Reached bool
	// Presends: memory is to be sent before the freeze, and this was not begun yet; see [Presending].
	Presends bool
	// Container is the container's state.
	Container terms.State
	// Pod and NewPod are set only if the Migration is gone. NewPod: the state was sent, and the
	// pod exists that has its copy.
	Pod    Pod
	NewPod bool
	// Busy is the running action, or Nothing.
	Busy Action
}

// SourceDecision is an action, and for Report the step and the reason.
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
	case s.Fate == terms.Kill || s.HandedOver || s.Order == v1alpha1.OrderKill:
		return s.kill()
	case s.Ended || s.Order == v1alpha1.OrderThaw || s.Order == v1alpha1.OrderClean:
		return s.thaw()
	case s.expires():
		return s.expire()
	case s.Busy != Nothing:
		return SourceDecision{}
	case s.Step == v1alpha1.SourceFailed:
		return SourceDecision{} // a frozen container stays frozen until order Thaw, or until it expires
	case s.Order == v1alpha1.OrderFreeze:
		return s.freeze()
	case s.Order == v1alpha1.OrderPrepare:
		return s.prepare()
	}
	return SourceDecision{}
}

// frozenHere reports whether this agent may have frozen the container: it does not thaw what
// others froze. The report counts too, since a ledger may be lost with its disk.
func (s Source) frozenHere() bool {
	switch s.Step {
	case v1alpha1.SourceFrozen, v1alpha1.SourceDumped, v1alpha1.SourceShipped, v1alpha1.SourceFailed:
		return true
	}
	return s.Stage.MayBeFrozen()
}

// unsent reports whether no copy of the container can run: the target cannot have all of its
// state, and the container is not to be killed.
func (s Source) unsent() bool {
	return s.Known && !s.Stage.MayRunElsewhere() && !s.TargetStaged && s.Fate != terms.Kill && !s.HandedOver
}

// expires reports whether the container has been frozen for as long as it may, or would be if
// frozen now.
func (s Source) expires() bool {
	return s.unsent() && (s.Fate == terms.Thaw || s.Overdue && (s.frozenHere() || s.Order == v1alpha1.OrderFreeze))
}

// expire lets the container continue, and reports it.
func (s Source) expire() SourceDecision {
	switch {
	case s.Busy == Thaw:
		return SourceDecision{}
	case s.Busy != Nothing:
		return do(Cancel)
	case s.Fate != terms.Thaw:
		return do(NoteExpiry)
	case s.Container == terms.Frozen:
		return do(Thaw)
	case s.Container == terms.Unknown:
		return SourceDecision{} // the runtime does not answer: retry
	case s.Step == v1alpha1.SourceFailed:
		return SourceDecision{}
	case s.gone():
		return endedEarly()
	}
	return fail(v1alpha1.MigrationReasonFreezeExpired, "the deadline has passed and the target does not have the container's state: the container continues on this node; check whether the descheduler runs, and what the target's agent waited for")
}

// endedEarly is the failure of a container that has ended.
func endedEarly() SourceDecision {
	return fail(v1alpha1.MigrationReasonContainerGone, "the container ended before its move was complete")
}

// ForSourceAlone decides for the agent of the source node while the API server is unreachable.
// Fields that come from the API server are not set. An overdue container continues; everything
// else waits.
func ForSourceAlone(s Source) SourceDecision {
	if !s.Stage.MayBeFrozen() || !s.expires() {
		return SourceDecision{}
	}
	if d := s.expire(); d.Do != Report {
		return d
	}
	return SourceDecision{}
}

// ForSourceAtEnd decides for an agent that shuts down and may not come back; no action is
// running. A container whose state was not sent continues. The next agent freezes it again and
// takes its state again, so the move continues too.
func ForSourceAtEnd(s Source) SourceDecision {
	if s.Stage.MayBeFrozen() && s.unsent() && s.Container == terms.Frozen {
		return do(Thaw)
	}
	return SourceDecision{}
}

// orphaned decides for a Migration that is gone.
func (s Source) orphaned() SourceDecision {
	switch {
	case !s.Known:
		return SourceDecision{}
	case s.Busy == Kill || s.Busy == Thaw || s.Busy == Remove || s.Busy == Forget:
		return SourceDecision{}
	case s.Busy != Nothing:
		return do(Cancel)
	case s.Container == terms.Frozen && s.Stage.MayBeFrozen():
		switch {
		case s.Fate == terms.Kill, s.Pod == PodLeaving, s.Pod == PodGone:
			return do(Kill) // it must not continue: it, or its pod, was ordered to end
		case s.Pod == PodWanted && !s.NewPod:
			return do(Thaw)
		}
		return SourceDecision{} // hold: the controller removes one of the two pods
	case s.Container == terms.Unknown:
		return SourceDecision{} // hold
	case s.Fate == terms.Kill && s.Container == terms.Running:
		return do(Kill)
	case s.Stage != terms.Removed:
		return do(Remove)
	}
	return do(Forget)
}

// kill decides for order Kill, and for order Clean after a handover.
func (s Source) kill() SourceDecision {
	clean := s.Ended || s.Order == v1alpha1.OrderClean
	switch s.Busy {
	case Presend, Dump, Ship, Prepare, Freeze, Thaw:
		return do(Cancel)
	case Nothing:
	default:
		return SourceDecision{}
	}
	switch {
	case s.Step == v1alpha1.SourceCleaned && !s.Known:
		return SourceDecision{}
	case s.Order != v1alpha1.OrderKill && !clean && s.Fate != terms.Kill:
		return SourceDecision{} // the handover began, but Kill is not ordered yet
	case s.Fate != terms.Kill && !s.gone():
		return do(NoteKill)
	case !s.gone():
		return do(Kill)
	case s.Step != v1alpha1.SourceKilled && s.Step != v1alpha1.SourceCleaned:
		return report(v1alpha1.SourceKilled)
	case clean:
		return s.clean()
	}
	return SourceDecision{}
}

// gone reports whether the container has ended. State Unknown does not count.
func (s Source) gone() bool { return s.Container == terms.Gone }

// thaw decides for orders Thaw and Clean without a handover.
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
		return SourceDecision{} // the runtime does not answer: retry
	case s.Known && s.Stage != terms.Removed:
		return do(Remove)
	case s.Step != v1alpha1.SourceThawed && s.Step != v1alpha1.SourceCleaned:
		return report(v1alpha1.SourceThawed)
	case s.Ended || s.Order == v1alpha1.OrderClean:
		return s.clean()
	}
	return SourceDecision{}
}

// clean is the end of both paths.
func (s Source) clean() SourceDecision {
	switch {
	case s.Known && s.Stage != terms.Removed:
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
		return fail(v1alpha1.MigrationReasonContainerGone, "the container has ended: its state cannot be moved")
	case !s.Known:
		return do(Prepare)
	case s.Step != v1alpha1.SourcePrepared:
		return report(v1alpha1.SourcePrepared)
	}
	return SourceDecision{}
}

func (s Source) freeze() SourceDecision {
	switch {
	case s.Container == terms.Unknown:
		return SourceDecision{} // the runtime does not answer: retry
	case s.Container == terms.Gone:
		return endedEarly()
	case !s.Known && (s.Step == v1alpha1.SourceFrozen || s.Step == v1alpha1.SourceDumped): // it may also have resumed the container
		return fail(v1alpha1.MigrationReasonDumpLost, "the agent's ledger was lost: place its state folder on a persistent disk")
	case s.takesAgain():
		return report(v1alpha1.SourceFrozen)
	case s.Container == terms.Running && s.past():
		return fail(v1alpha1.MigrationReasonThawed, "something else resumed the container after its state was dumped: the dump is outdated; do not resume containers that are being moved")
	}
	switch s.Step {
	case v1alpha1.SourcePrepared:
		return s.beforeFreeze()
	case v1alpha1.SourceFrozen:
		switch {
		case s.Container == terms.Running:
			return do(Freeze)
		case !s.Stage.HasDump():
			return do(Dump)
		}
		return report(v1alpha1.SourceDumped)
	case v1alpha1.SourceDumped:
		switch {
		case !s.Stage.HasDump():
			return fail(v1alpha1.MigrationReasonDumpLost, "the dump was lost: keep the agent's work folder across restarts of the agent")
		case s.Stage == terms.Shipped || s.TargetStaged:
			return report(v1alpha1.SourceShipped)
		}
		return do(Ship)
	}
	return SourceDecision{}
}

// beforeFreeze decides up to the report that the container is about to be frozen.
func (s Source) beforeFreeze() SourceDecision {
	switch {
	case !s.Known:
		return do(Prepare) // the ledger was lost: nothing was frozen yet
	case !s.TargetReady:
		return SourceDecision{}
	case !s.Stage.MayBeFrozen() && !s.Reached:
		return do(Reach)
	case !s.Stage.MayBeFrozen() && s.Presends && s.Container == terms.Running:
		return do(Presend)
	case !s.Stage.MayBeFrozen():
		return do(NoteFreeze)
	}
	return report(v1alpha1.SourceFrozen)
}

// takesAgain reports whether an earlier agent reported a dump, then let the container continue
// when it shut down and noted that the dump is void. The dump was not sent, so another can
// replace it.
func (s Source) takesAgain() bool {
	return s.Step == v1alpha1.SourceDumped && s.Known && s.Stage == terms.Freezing && s.unsent()
}

// past reports whether the container's state was taken.
func (s Source) past() bool {
	return s.Stage.HasDump() || s.Step == v1alpha1.SourceDumped || s.Step == v1alpha1.SourceShipped
}

func do(a Action) SourceDecision { return SourceDecision{Do: a} }

func report(step v1alpha1.SourceStep) SourceDecision {
	return SourceDecision{Do: Report, Step: step}
}

func fail(reason, message string) SourceDecision {
	return SourceDecision{Do: Report, Step: v1alpha1.SourceFailed, Reason: reason, Message: message}
}
