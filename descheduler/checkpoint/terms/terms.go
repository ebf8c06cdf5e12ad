// Package terms holds the terms that decisions about containers share with the code that acts on
// them.
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
