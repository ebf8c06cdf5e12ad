package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/lab/playground/controlplane"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/fixtures"
)

// TestTheSimulatorPlacesAsAPlaygroundDoes feeds the same pods one by one to the simulator's scheduler and to
// a kube-scheduler on a real API server, and compares every placement. Both evaluate all nodes, one at a
// time, and break ties by the same seed, because kube-scheduler chooses among equal nodes at random.
func TestTheSimulatorPlacesAsAPlaygroundDoes(t *testing.T) {
	for _, profile := range []struct {
		name          string
		configuration []byte
	}{{"stock", controlplane.StockSchedulerConfig}, {"supercargo", manifests.SchedulerConfig}} {
		t.Run(profile.name, func(t *testing.T) {
			configuration, ties, err := sim.BreakTies(append([]byte("parallelism: 1\npercentageOfNodesToScore: 100\n"), profile.configuration...), 5)
			if err != nil {
				t.Fatal(err)
			}
			simulated, err := sim.NewScheduler(t.Context(), sim.SchedulerOptions{Configuration: configuration, Clock: clock.RealClock{}, Plugins: ties})
			if err != nil {
				t.Fatal(err)
			}
			p, client := controlPlane(t)
			for i := range 30 { // created in the order in which a new scheduler lists them: by name
				n := fixtures.Node(fmt.Sprintf("node-%02d", i), int64(2000*(1+i%3)), int64(8*(1+i%4))*gi)
				createNode(t, client, n)
				simulated.AddNode(n)
			}
			l := openLedger(t, client, nil)
			var extra []app.Option
			for name, factory := range ties {
				extra = append(extra, app.WithPlugin(name, factory))
			}
			if _, err := p.StartScheduler(t.Context(), configuration, extra...); err != nil {
				t.Fatal(err)
			}
			r, spread := rand.New(rand.NewPCG(9, 9)), map[string]bool{}
			for i := range 150 {
				pod := fixtures.Pod(fmt.Sprintf("pod-%03d", i), 50*(1+r.Int64N(8)), (1+r.Int64N(8))*gi/4)
				pod.CreationTimestamp.Time = time.Now()
				if i%3 == 0 {
					fixtures.Batch([]string{"1m", "20m", "3h"}[r.IntN(3)])(pod)
				}
				a := simulated.Attempt(pod)
				if a.Err != nil {
					t.Fatal(a.Err)
				}
				if _, err := simulated.Assume(pod, a); err != nil {
					t.Fatal(err)
				}
				pod.CreationTimestamp.Reset()
				if got := l.placeOne(pod); got != a.Node {
					t.Fatalf("pod %s is on %s, the simulator chose %s", pod.Name, got, a.Node)
				}
				spread[a.Node] = true
			}
			if len(spread) < 5 {
				t.Errorf("only %d nodes were used: the comparison says little", len(spread))
			}
		})
	}
}
