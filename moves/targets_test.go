package moves

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

// scan is [trial.target] by a check of all rooms.
func (t *trial) scan(pod *cluster.Pod, how fillMode) (best *room) {
	prefer := packing.CompareFit
	if pod.Class == class.Batch && t.config.Cycle > 0 {
		prefer = packing.CompareTimeBin(pod.Runtime, t.config.Cycle)
	}
	for _, to := range t.rooms {
		if !to.accepts() || !to.holds(pod) || best != nil && prefer(to.Node, best.Node) >= 0 || !t.rules.suits(pod, to) ||
			how == withinStay && t.until(pod) > to.stay || t.rules.conflict(pod, to.at) != "" {
			continue
		}
		best = to
	}
	return best
}

// TestTheTargetOfAPodIsThatOfAScan: whatever has been placed, undone, drained and kept before.
func TestTheTargetOfAPodIsThatOfAScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := func(what string, most int) int { return rapid.IntRange(0, most).Draw(t, what) }
		pod := func(name string) cluster.Pod {
			p := cluster.Pod{Item: packing.Item{Name: name, Size: packing.Size{MilliCPU: int64(100 * few("cpu", 6)), MemoryBytes: int64(100 * few("memory", 6))}}, Class: class.Service, Resided: time.Hour}
			if few("batch", 1) == 1 {
				p.Class, p.Runtime = class.Batch, time.Duration(1+few("runtime", 5))*time.Minute
			}
			return p
		}
		s := &cluster.State{MaxNodes: 100}
		for i := range 1 + few("nodes", 12) {
			n := cluster.Node{Name: fmt.Sprintf("n%02d", i), Capacity: packing.Size{MilliCPU: 1000, MemoryBytes: 1000}, Class: class.Any, Phase: cluster.Ready, Kept: few("kept", 3) == 0}
			if few("places", 3) == 0 {
				n.MaxPods = new(int64(few("places", 3)))
			}
			for j := range few("pods", 3) {
				n.Pods = append(n.Pods, pod(fmt.Sprintf("n%02d-%d", i, j)))
			}
			s.Nodes = append(s.Nodes, n)
		}
		r := newPlanning(DrainConfig{Worthwhile: true, Horizon: time.Hour, MoveServices: true, Ways: cluster.WaysOf(cluster.Evict), Cycle: time.Duration(few("cycle", 2)) * time.Minute}, s)
		for range few("trials", 6) {
			from := r.rooms[few("from", len(r.rooms)-1)]
			if from.leaving || from.target {
				continue
			}
			trial := r.try(from.node)
			for i := range few("moves", 6) {
				p, how := pod(fmt.Sprintf("p%d", i)), fillMode(few("how", 2))
				want := trial.scan(&p, how)
				got, _ := trial.target(&p, how)
				if got != want {
					t.Fatalf("pod %+v goes to %+v, want %+v", p, got, want)
				}
				if got != nil {
					trial.put(p, got)
				}
			}
			if few("undo", 1) == 0 {
				trial.rollback()
			} else {
				trial.commit()
			}
		}
	})
}
