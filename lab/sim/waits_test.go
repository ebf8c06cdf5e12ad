package sim_test

import (
	"testing"

	"supercargo.dev/supercargo/internal/cluster"
)

// closing makes pods leave medium-0 by the given method, the last one expected after 90 s.
func closing(moves ...cluster.Move) cluster.Plan {
	return cluster.Plan{Drains: []cluster.Drain{{Node: "medium-0", Moves: moves, Until: 90 * s, Reason: "the script says so"}}}
}

func TestPodsOfOneNodeLeaveInDifferentWays(t *testing.T) {
	t.Parallel()
	c := &script{plans: plans{20 * s: closing(
		cluster.Move{Pod: "killed", Target: "wide-0", Method: cluster.Evict}, cluster.Move{Pod: "moved", Target: "wide-0", Method: cluster.Migrate},
		cluster.Move{Pod: "waits", Method: cluster.Wait}), 40 * s: {}}}
	h := simulate(t, scene(pair), c, job("killed", ten, 0, 100*s), job("moved", ten, 0, 100*s), job("waits", gi, 0, 60*s), job("new", gi, 30*s, s))
	h.expect(t, "killed", "0s started: medium-0", "20s evicted: medium-0", "20s started: wide-0", "2m0s ended: wide-0")
	h.expect(t, "moved", "0s started: medium-0", "20s frozen, on its way to the node: wide-0", "32s moved: wide-0", "1m52s ended: wide-0")
	h.expect(t, "waits", "0s started: medium-0", "1m0s ended: medium-0")
	h.expect(t, "new", "30s started: wide-0", "31s ended: wide-0") // the cordoned node accepts none
	h.expect(t, "medium-0", "0s asked for", "0s ready", "1m0s asked to go")
	if h.Migrations != 1 || h.Evictions != 1 || h.LostWork != 20*s {
		t.Errorf("counts %s", h.counts())
	}
	n := nodeOf(t, c.at(t, 40*s), "medium-0")
	if n.Phase != cluster.Leaving || !n.Waits || n.Until != 70*s {
		t.Errorf("the node has phase %d, only waits %t, until %v; want Leaving, and that it waits for 70 s more", n.Phase, n.Waits, n.Until)
	}
}

func TestANodeThatOnlyWaitsCanBeOpenedAgain(t *testing.T) {
	t.Parallel()
	uncordon := cluster.Plan{Uncordon: []cluster.Stay{{Node: "medium-0", Reason: "the script says so"}}}
	c := &script{plans: plans{20 * s: closing(cluster.Move{Pod: "waits", Method: cluster.Wait}), 40 * s: uncordon, 60 * s: {}}}
	h := simulate(t, scene(pair), c, job("waits", gi, 0, 60*s), job("new", gi, 45*s, 30*s))
	h.expect(t, "new", "45s started: medium-0", "1m15s ended: medium-0")
	h.expect(t, "medium-0", "0s asked for", "0s ready")
	if n := nodeOf(t, c.at(t, 60*s), "medium-0"); n.Phase != cluster.Ready || n.Waits || h.Events["drainsDropped"] != 1 {
		t.Errorf("the node has phase %d, only waits %t, %d drains are dropped; want it Ready and one dropped", n.Phase, n.Waits, h.Events["drainsDropped"])
	}
}

func TestANodeIsNotOpenedWhilePodsMoveOffIt(t *testing.T) {
	t.Parallel()
	plan := closing(cluster.Move{Pod: "moved", Target: "wide-0"}, cluster.Move{Pod: "waits", Method: cluster.Wait})
	c := &script{plans: plans{20 * s: plan, 40 * s: {}}}
	simulate(t, scene(pair), c, job("moved", 2*ten, 0, 100*s), job("waits", gi, 0, 90*s))
	if n := nodeOf(t, c.at(t, 40*s), "medium-0"); n.Phase != cluster.Leaving || n.Waits {
		t.Errorf("the node has phase %d, only waits %t, while a pod is being moved", n.Phase, n.Waits)
	}
}
