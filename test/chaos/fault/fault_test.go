package fault

import (
	"slices"
	"testing"
)

var cluster = Cluster{Leaders: []string{"autoscaler", "descheduler"}, Agents: []string{"node-agent"}, Disk: true}

func draw(s *Source, n int) (all []Fault) {
	for range n {
		all = append(all, s.Next())
	}
	return all
}

func TestTheSameSeedGivesTheSameFaults(t *testing.T) {
	one, two := draw(New(7, cluster), 60), draw(New(7, cluster), 60)
	if !slices.Equal(one, two) {
		t.Errorf("%v, then %v", one, two)
	}
	if slices.Equal(one, draw(New(8, cluster), 60)) {
		t.Error("another seed gives the same faults")
	}
}

func TestEachKindComesBeforeAnyComesAgain(t *testing.T) {
	s := New(3, cluster)
	for range 3 {
		seen := map[Kind]bool{}
		for _, f := range draw(s, len(shapes)) {
			if seen[f.Kind] {
				t.Errorf("%s comes again", f.Kind)
			}
			seen[f.Kind] = true
		}
	}
}

func TestAKindHitsAllProgramsInTime(t *testing.T) {
	hit := map[Kind]map[string]bool{}
	for _, f := range draw(New(5, cluster), 3*len(shapes)) {
		if hit[f.Kind] == nil {
			hit[f.Kind] = map[string]bool{}
		}
		hit[f.Kind][f.Program] = true
	}
	for kind, want := range map[Kind]int{Kill: 2, Drop: 3, BlackHole: 3, RestartEtcd: 1} {
		if len(hit[kind]) != want {
			t.Errorf("%s hits %v, want %d programs", kind, hit[kind], want)
		}
	}
	if hit[Kill]["node-agent"] {
		t.Error("a leader of the agents is killed: they have none")
	}
}

func TestAPausedOrSilentLeaderMissesItsLease(t *testing.T) {
	for _, f := range draw(New(11, cluster), 20*len(shapes)) {
		if (f.Kind == Pause || f.Kind == BlackHole) && f.Lasts <= Lease {
			t.Errorf("%v: no longer than the Lease", f)
		}
	}
}

func TestWithoutADiskNoneIsFull(t *testing.T) {
	without := cluster
	without.Disk = false
	for _, f := range draw(New(1, without), 4*len(shapes)) {
		if f.Kind == FullDisk {
			t.Fatal(f)
		}
	}
}
