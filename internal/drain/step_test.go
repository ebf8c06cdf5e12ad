package drain

import (
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
)

func TestWhatIsNextForAPodThatIsToLeave(t *testing.T) {
	mark := Mark{Owner: "f", Since: noon, Until: noon.Add(10 * time.Minute)}
	wait, migrate, evict := cluster.WaysOf(cluster.Wait), cluster.WaysOf(cluster.Migrate), cluster.WaysOf(cluster.Evict)
	soon, late := noon.Add(5*time.Minute), noon.Add(time.Hour)
	tests := []struct {
		name string
		pod  Leaver
		now  time.Time
		want Step
	}{
		{"one that may not", Leaver{}, noon, Step{Do: GiveUp, Why: "it must not be moved"}},
		{"one that may not, and why", Leaver{Held: "it says so"}, noon, Step{Do: GiveUp, Why: "it says so"}},
		{"one that is being deleted, even if it may not", Leaver{Going: true}, noon, Step{Why: "it is being deleted"}},
		{"one that is being moved", Leaver{Moving: true, Ways: evict}, noon, Step{Why: "it is being moved"}},
		{"with its state before restarting", Leaver{Ways: migrate | evict}, noon, Step{Do: Migrate, Try: 1, Why: "it will be moved with its state"}},
		{"again if that is all", Leaver{Ways: evict}, noon, Step{Do: Evict, Why: "it can be restarted on another node"}},
		{"one that ends in time is waited for", Leaver{Ways: wait | migrate, Ends: soon}, noon, Step{Why: "it ends at 12:05:00"}},
		{"at the last moment too", Leaver{Ways: wait | evict, Ends: mark.Until}, noon, Step{Why: "it ends at 12:10:00"}},
		{"but not a moment later", Leaver{Ways: wait | evict, Ends: mark.Until.Add(1)}, noon, Step{Do: Evict, Why: "it can be restarted on another node"}},
		{"nor one that is late", Leaver{Ways: wait | migrate, Ends: soon}, soon.Add(time.Minute), Step{Do: Migrate, Try: 1, Why: "it will be moved with its state"}},
		{"one of which the end is not known is not", Leaver{Ways: wait | migrate}, noon, Step{Do: Migrate, Try: 1, Why: "it will be moved with its state"}},
		{"one that can only end is waited for", Leaver{Ways: wait, Ends: late}, noon, Step{Why: "it ends by itself"}},
		{"however late it is", Leaver{Ways: wait, Ends: noon}, late, Step{Why: "it ends by itself"}},
		{"a migration that was rolled back is tried again", Leaver{Ways: migrate, RolledBack: 2}, noon, Step{Do: Migrate, Try: 3, Why: "it will be moved with its state"}},
		{"under a name that none has that is there", Leaver{Ways: migrate, RolledBack: 1, LastTry: 3}, noon, Step{Do: Migrate, Try: 4, Why: "it will be moved with its state"}},
		{"but not without end", Leaver{Ways: migrate, RolledBack: 3}, noon, Step{Do: GiveUp, Why: "3 of its migrations were rolled back"}},
		{"then again, if that is allowed", Leaver{Ways: migrate | evict, RolledBack: 3}, noon, Step{Do: Evict, Why: "it can be restarted on another node"}},
		{"what was refused is not tried again", Leaver{Ways: migrate, Refused: "EmptyDirUnsupported"}, noon, Step{Do: GiveUp, Why: "EmptyDirUnsupported"}},
		{"not even one that ends, if that is late", Leaver{Ways: migrate | wait, Refused: "EmptyDirUnsupported", Ends: late}, noon, Step{Do: GiveUp, Why: "EmptyDirUnsupported"}},
		{"one that ends in time is waited for then", Leaver{Ways: migrate | wait, Refused: "EmptyDirUnsupported", Ends: soon}, noon, Step{Why: "it ends at 12:05:00"}},
		{"a budget holds a migration", Leaver{Ways: migrate, Budget: "PodDisruptionBudget b"}, noon, Step{Why: "PodDisruptionBudget b"}},
		{"an eviction is asked for: the API server knows better", Leaver{Ways: evict, Budget: "PodDisruptionBudget b"}, noon, Step{Do: Evict, Why: "it can be restarted on another node"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := mark.Next(tc.pod, tc.now); got != tc.want {
				t.Errorf("next is %+v, want %+v", got, tc.want)
			}
		})
	}
}
