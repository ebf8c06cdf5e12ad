package drain

import (
	"fmt"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
)

// Do is what to do next with a pod that is to leave a node.
type Do int

const (
	// Stay does nothing now: the pod is on its way out, or is waited for.
	Stay Do = iota
	// Migrate asks for a Migration of the pod.
	Migrate
	// Restart asks for a Migration that starts the pod anew elsewhere.
	Restart
	// Evict asks for its eviction.
	Evict
	// GiveUp leaves the node as it is: the pod is not going to leave it.
	GiveUp
)

// MostTries is how many Migrations of one pod may be rolled back until it is not tried
// again.
const MostTries = 3

// Leaver is a pod on a node that is being emptied.
type Leaver struct {
	// Ways are those by which it may leave now, and Held is why not by the others.
	Ways cluster.Ways
	Held string
	// Restart says that a Migration can start it anew elsewhere.
	Restart bool
	// Budget is the PodDisruptionBudget that forbids for now to take it away; empty if none
	// does.
	Budget string
	// Going says that it is being deleted.
	Going bool
	// Ends is when it is expected to end by itself; zero if that is not known.
	Ends time.Time
	// Moving says that a Migration of it is in flight, RolledBack how many have been
	// rolled back, be they still there or only remembered by the pod, Refused why the last one
	// was refused; empty if it was not.
	Moving     bool
	RolledBack int
	Refused    string
	// LastTry is the greatest number of a Migration of it that is there; 0 if none is.
	LastTry int
}

// Step is what to do next with a pod.
type Step struct {
	Do Do
	// Try is the number of the Migration to make, from 1.
	Try int
	// Target is the node that the pod is to go to; empty leaves that to the scheduler.
	Target string
	// Why says it in words.
	Why string
}

// late is for how long beyond its expected end a pod is waited for before it is moved
// after all.
const late = time.Minute

// Next says what to do next with a pod on the marked node. A pod that ends by the time by
// which the node is to be empty is waited for. Others leave with their state if they may,
// or else are evicted; where neither is allowed but they end by themselves, they are waited
// for too, for as long as whoever empties the node has patience. So is one that a
// PodDisruptionBudget holds for now. One that was to be moved and cannot be is not waited
// for beyond the time that was planned with.
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
	case p.asksForMigration() && p.Ways.Has(cluster.Migrate):
		return Step{Do: Migrate, Try: p.nextTry(), Why: "it is moved with its state"}
	case p.asksForMigration():
		return Step{Do: Restart, Try: p.nextTry(), Why: "it is started again elsewhere"}
	case p.Ways.Has(cluster.Evict):
		return Step{Do: Evict, Why: "it may be started again elsewhere"}
	case p.Ways.Has(cluster.Wait) && !p.Ways.Has(cluster.Migrate):
		return Step{Why: "it ends by itself"}
	}
	return Step{Do: GiveUp, Why: p.stays()}
}

// WaitsFor reports whether a pod on the marked node is only waited for: nobody moves it, and
// nobody is going to.
func (m Mark) WaitsFor(p Leaver, now time.Time) bool {
	return !p.Going && !p.Moving && p.Budget == "" && m.Next(p, now).Do == Stay
}

// nextTry returns a number that no earlier Migration of the pod has, be it there or only
// remembered.
func (p *Leaver) nextTry() int { return max(p.RolledBack, p.LastTry) + 1 }

// asksForMigration reports whether a Migration can take the pod away, and has not been
// tried in vain.
func (p *Leaver) asksForMigration() bool {
	return (p.Ways.Has(cluster.Migrate) || p.Ways.Has(cluster.Evict) && p.Restart) && p.Refused == "" && p.RolledBack < MostTries
}

// stays says why a pod is not going to leave.
func (p *Leaver) stays() string {
	switch {
	case p.Refused != "":
		return p.Refused
	case p.RolledBack >= MostTries:
		return fmt.Sprintf("%d migrations of it were rolled back", p.RolledBack)
	case p.Held != "":
		return p.Held
	}
	return "it must not be moved"
}
