// Package terms holds the states of a container and of its move, which decisions share with the code
// that acts on them.
package terms

// State is the state of a container.
type State string

const (
	// Unknown means that the state was not observed.
	Unknown State = ""
	// Running means that its processes run, or could.
	Running State = "Running"
	// Frozen means that it is frozen.
	Frozen State = "Frozen"
	// Gone means that it has ended, or does not exist.
	Gone State = "Gone"
)

// Stage is how far an agent has moved the state of a container. The ledger has it before the agent acts on it.
type Stage string

// The stages of a source follow each other from Idle to Shipped. A container that continues is Idle again; one that continues
// while its agent does not run is Freezing again, and its state is taken again.
const (
	// Idle means that this agent has not frozen the container, or has thawed it, and that the target expects nothing yet.
	Idle Stage = ""
	// Freezing means that this agent may have frozen the container.
	Freezing Stage = "Freezing"
	// Dumped means that the complete state is in the work folder.
	Dumped Stage = "Dumped"
	// Sent means that the target may have all of the state, confirmed or not: from then on the copy may run. It is written before
	// the last bytes are sent.
	Sent Stage = "Sent"
	// Shipped means that the target has confirmed it.
	Shipped Stage = "Shipped"
)

// The stages of a target.
const (
	// Expecting means that the target accepts the state.
	Expecting Stage = "Expecting"
	// Staged means that it has all of it.
	Staged Stage = "Staged"
)

// Removed means, for both, that nothing is left of the migration but the entry of the ledger.
const Removed Stage = "Removed"

// MayBeFrozen reports whether this agent may have frozen the container.
func (s Stage) MayBeFrozen() bool { return s == Freezing || s.HasDump() }

// HasDump reports whether the state of the container was taken.
func (s Stage) HasDump() bool { return s == Dumped || s.MayRunElsewhere() }

// MayRunElsewhere reports whether a copy of the container may run.
func (s Stage) MayRunElsewhere() bool { return s == Sent || s == Shipped }

// Fate is what an agent has decided about a container. It also applies if the Migration no longer exists.
type Fate string

// The fates.
const (
	// Keep means that nothing is decided: the Migration's order counts.
	Keep Fate = ""
	// Thaw means that the container continues without an order, because it was frozen for too long. It is not frozen again for this
	// migration, and its dump is not sent.
	Thaw Fate = "Thaw"
	// Kill means that the container is to be killed and must never continue.
	Kill Fate = "Kill"
)
