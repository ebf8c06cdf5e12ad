package drain

import (
	"fmt"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
)

// Do is the next action for a pod that is to leave a node.
type Do int

const (
	// Stay does nothing now: the pod is already leaving, or is waited for.
	Stay Do = iota
	// Migrate requests a Migration that keeps the pod's state.
	Migrate
	// Evict requests an eviction of the pod.
	Evict
	// GiveUp ends the drain because the pod is not going to leave.
	GiveUp
)

// MostTries is the number of rolled-back Migrations of one pod after which no further one is made.
const MostTries = 3

// Leaver is a pod on a node that is being drained.
type Leaver struct {
	// Ways are the methods by which the pod may leave now. Held is the reason why it may not leave by the others.
	Ways cluster.Ways
	Held string
	// Budget is the PodDisruptionBudget that currently forbids disrupting the pod; empty if none does.
	Budget string
	// Going means that the pod is being deleted.
	Going bool
	// Ends is when the pod is expected to end by itself; zero if unknown.
	Ends time.Time
	// Moving means that a Migration of the pod is in progress. RolledBack is how many have been rolled back, including
	// deleted ones that the pod records. Refused is why the last one was refused; empty if it was not.
	Moving     bool
	RolledBack int
	Refused    string
	// LastTry is the greatest number of an existing Migration of the pod; 0 if there is none.
	LastTry int
}

// Step is the next action for a pod.
type Step struct {
	Do Do
	// Try is the number of the Migration to create, from 1.
	Try int
	// Target is the target node; if empty, the scheduler decides.
	Target string
	// Why is a human-readable reason.
	Why string
}

// late is how long after its expected end a pod is still waited for before it is moved.
const late = time.Minute

// Next returns the next action for a pod on the marked node. A pod that is expected to end by m.Until is waited for.
// Other pods are migrated if possible, else evicted. If neither is allowed but the pod ends by itself, it is waited for
// too; the owner of the drain decides for how long. A pod that a PodDisruptionBudget protects is also waited for. A pod
// that should have been moved but cannot be is not waited for beyond the planned time.
func (m Mark) Next(p Leaver, now time.Time) Step {
	waits := p.Ways.Has(cluster.Wait) && !p.Ends.IsZero()
	switch {
	case p.Going:
		return Step{Why: "it is being deleted"}
	case p.Moving:
		return Step{Why: "it is being moved"}
	case waits && !p.Ends.After(m.Until) && now.Before(p.Ends.Add(late)):
		return Step{Why: fmt.Sprintf("it ends at %s", p.Ends.UTC().Format("15:04:05"))}
	case p.asksForMigration() && p.Budget != "":
		return Step{Why: p.Budget}
	case p.asksForMigration():
		return Step{Do: Migrate, Try: p.nextTry(), Why: "it will be moved with its state"}
	case p.Ways.Has(cluster.Evict):
		return Step{Do: Evict, Why: "it can be restarted on another node"}
	case p.Ways.Has(cluster.Wait) && !p.Ways.Has(cluster.Migrate):
		return Step{Why: "it ends by itself"}
	}
	return Step{Do: GiveUp, Why: p.stays()}
}

// WaitsFor reports whether a pod on the marked node is only waited for, and is neither being moved nor going to be.
func (m Mark) WaitsFor(p Leaver, now time.Time) bool {
	return !p.Going && !p.Moving && p.Budget == "" && m.Next(p, now).Do == Stay
}

// nextTry returns a number that no earlier Migration of the pod has, including deleted ones that the pod records.
func (p *Leaver) nextTry() int { return max(p.RolledBack, p.LastTry) + 1 }

// asksForMigration reports whether a Migration can move the pod and none was refused or rolled back too often.
func (p *Leaver) asksForMigration() bool {
	return p.Ways.Has(cluster.Migrate) && p.Refused == "" && p.RolledBack < MostTries
}

// stays returns the reason why a pod is not going to leave.
func (p *Leaver) stays() string {
	switch {
	case p.Refused != "":
		return p.Refused
	case p.RolledBack >= MostTries:
		return fmt.Sprintf("%d of its migrations were rolled back", p.RolledBack)
	case p.Held != "":
		return p.Held
	}
	return "it must not be moved"
}
