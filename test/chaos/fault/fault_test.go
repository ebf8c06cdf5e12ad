package fault

import (
	"slices"
	"testing"
)

var cluster = Cluster{Leaders: []string{"autoscaler", "descheduler"}, Agents: []string{"node-agent"}, Kinds: Playground}

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
		for _, f := range draw(s, len(Playground)) {
			if seen[f.Kind] {
				t.Errorf("%s comes again", f.Kind)
			}
			seen[f.Kind] = true
		}
	}
}

func TestAKindHitsAllProgramsInTime(t *testing.T) {
	hit := map[Kind]map[string]bool{}
	for _, f := range draw(New(5, cluster), 3*len(Playground)) {
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
	for _, f := range draw(New(11, cluster), 20*len(Playground)) {
		if (f.Kind == Pause || f.Kind == BlackHole) && f.Lasts <= Lease {
			t.Errorf("%v: no longer than the Lease", f)
		}
	}
}

func TestOnlyFaultsOfTheClusterCome(t *testing.T) {
	nodes := cluster
	nodes.Kinds = Nodes
	seen := map[Kind]bool{}
	for _, f := range draw(New(1, nodes), len(Nodes)) {
		seen[f.Kind] = true
		if !slices.Contains(Nodes, f.Kind) {
			t.Errorf("%v is no fault of a cluster with real nodes", f)
		}
	}
	if len(seen) != len(Nodes) {
		t.Errorf("%d of %d kinds came: %v", len(seen), len(Nodes), seen)
	}
}
