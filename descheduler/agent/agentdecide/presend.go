package agentdecide

import "time"

// Presending is what decides whether the memory of a container is sent before it is frozen, and for how long.
type Presending struct {
	// Able: the back-end can read the memory of a container that runs.
	Able bool
	// MemoryBytes is the memory of the container, and Above the least for which it is worth it; 0 for never.
	MemoryBytes, Above int64
	// Begun: it was begun for this target. It is not repeated, nor by an agent that starts later.
	Begun bool
	// Left is the time until the deadline of the Migration.
	Left time.Duration
}

const (
	// maxPresend bounds how long a container waits for its freeze.
	maxPresend = 2 * time.Minute
	// presendShare is the share of the time until the deadline that may be used.
	presendShare = 4
	// leastPresend is a time that is too short to be worth it.
	leastPresend = time.Second
)

// For returns for how long memory may be sent; 0 for not at all.
func (p Presending) For() time.Duration {
	most := min(maxPresend, p.Left/presendShare)
	if !p.Able || p.Above <= 0 || p.MemoryBytes < p.Above || p.Begun || most < leastPresend {
		return 0
	}
	return most
}
