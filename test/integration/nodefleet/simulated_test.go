package nodefleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/policy"
	"supercargo.dev/supercargo/lab/replay"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/test/kit"
)

// played is a scenario of three bursts. For the first, the cheapest mix holds five pods on a large and a
// small machine. The one pod of the second fits there. For the third, which comes while the first runs, the
// cheapest mix is again a large and a small machine. The release lag is the time that a fleet takes to
// release a machine: it cordons the node and checks it once more.
const played = `
apiVersion: supercargo.dev/v1alpha1
kind: Scenario
metadata: {name: played}
spec:
  horizon: 1m
  schedulingInterval: 1s
  scalingInterval: 2s
  acquisitionLag: 3s
  billingPeriod: 1s
  releaseLag: 3s
  flavors:
  - {name: small, cpu: "2", memory: 4Gi, pricePerHour: 0.10}
  - {name: large, cpu: "4", memory: 8Gi, pricePerHour: 0.16}
  maxNodes: 40
  workload:
    pods:
    - {name: first, count: 5, class: batch, cpu: 900m, memory: 1Gi, runtime: 30s, arrival: 0s}
    - {name: second, class: batch, cpu: 900m, memory: 1Gi, runtime: 10s, arrival: 12s}
    - {name: third, count: 3, class: batch, cpu: 1900m, memory: 1Gi, runtime: 20s, arrival: 15s}
`

// ledger contains the purchases and releases of a fleet, and their cost.
type ledger struct {
	Bought, Released map[string]int
	dollars          float64
}

// TestAFleetBuysAndReleasesWhatItsSimulationDoes runs one scenario with a NodeFleet, real cluster-api and the
// real scheduler, and in the simulator with the same fields.
func TestAFleetBuysAndReleasesWhatItsSimulationDoes(t *testing.T) {
	t.Parallel()
	sc, err := scenario.Read("played", []byte(played), nil)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := sc.Arrivals(1)
	if err != nil {
		t.Fatal(err)
	}
	simulated := simulate(t, sc, pods)

	b := newBench(t, "played")
	for _, f := range sc.Flavors {
		b.flavor(f.Name, fmt.Sprintf("%dm", f.Size.MilliCPU), fmt.Sprint(f.Size.MemoryBytes), fmt.Sprintf("%.6f", float64(f.MicroDollarsPerHour)/1e6), comesAfter(sc.AcquisitionLag.Mean))
	}
	account := b.account(sc)
	b.fleet("all")
	b.autoscale()
	b.has("all", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
	b.replay(pods)
	b.Eventually("all machines are released", func() string {
		l := account()
		return cmp.Diff(l.Bought, l.Released)
	})

	paid := account()
	t.Logf("bought %v for $%.6f, in the simulation for $%.6f", paid.Bought, paid.dollars, simulated.dollars)
	if diff := cmp.Diff(simulated, paid, cmpopts.IgnoreUnexported(ledger{})); diff != "" {
		t.Errorf("the cluster is unlike the simulation (-simulated +real):\n%s", diff)
	}
	// A cluster on a busy machine takes seconds longer to start, to bind and to reconcile.
	if ratio := paid.dollars / simulated.dollars; ratio < 0.9 || ratio > 1.3 {
		t.Errorf("the machines cost %.2f times what the simulation says", ratio)
	}
}

// simulate runs the scenario with the policy supercargo and the fields of the bench's fleets.
func simulate(t *testing.T, sc *scenario.Scenario, pods []scenario.Pod) ledger {
	t.Helper()
	fields, err := json.Marshal(quick())
	if err != nil {
		t.Fatal(err)
	}
	p := policy.FleetWith(func(s *v1alpha1.NodeFleetSpec) {
		if err := json.Unmarshal(fields, s); err != nil {
			t.Error(err)
		}
	})
	r, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Pods: pods, Seed: 1, Policy: p})
	if err != nil {
		t.Fatal(err)
	}
	l := ledger{Bought: map[string]int{}, dollars: float64(r.CostMicroDollars) / 1e6}
	nodes := map[string]bool{}
	for _, at := range r.Placements {
		if !nodes[at.Node] {
			nodes[at.Node] = true
			l.Bought[at.Flavor]++
		}
	}
	if r.NodesAdded != len(nodes) || r.NodesRemoved != len(nodes) || r.Completed != len(pods) {
		t.Fatalf("the simulation bought %d machines, used %d, released %d and ended %d of %d pods", r.NodesAdded, len(nodes), r.NodesRemoved, r.Completed, len(pods))
	}
	l.Released = l.Bought
	return l
}

// replay creates the pods at their arrivals and deletes them after their runtimes.
func (b *bench) replay(pods []scenario.Pod) {
	b.Helper()
	o := replay.Options{
		Client: b.Site.Playground.Client(), Scale: replay.Scale{Arrivals: 1, Lifetimes: 1}, Namespace: b.Space, NodeSelector: map[string]string{kit.BenchLabel: b.Space},
	}
	for _, p := range pods {
		o.Pods = append(o.Pods, trace.Pod{
			Item: packing.Item{Name: p.Name, Arrival: p.Arrival, Runtime: p.Runtime, Size: packing.Size{MilliCPU: p.Size.MilliCPU, MemoryBytes: p.Size.MemoryBytes}}, Class: class.Batch,
		})
	}
	r, err := replay.Run(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	if len(r.Stays) != len(pods) || r.Lost > 0 {
		b.Fatalf("%d of %d pods were made and %d lost", len(r.Stays), len(pods), r.Lost)
	}
}

// account watches the desired replicas, and returns a function that returns the purchases and releases so
// far. A machine is paid for from the write that orders it until the write that releases it.
func (b *bench) account(sc *scenario.Scenario) func() ledger {
	b.Helper()
	price := map[string]float64{}
	for _, f := range sc.Flavors {
		price[f.Name] = float64(f.MicroDollarsPerHour) / 1e6
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(machineDeployments)
	w, err := b.Site.Client.Watch(context.WithoutCancel(b.Context()), list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{kit.BenchLabel: b.Space})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.Stop)
	var mu sync.Mutex
	l, now, since := ledger{Bought: map[string]int{}, Released: map[string]int{}}, map[string]int{}, time.Now()
	go func() {
		for e := range w.ResultChan() {
			d, ok := e.Object.(*unstructured.Unstructured)
			if !ok || e.Type == watch.Deleted {
				continue
			}
			replicas, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas")
			flavor, n := strings.TrimPrefix(d.GetName(), b.Space+"-"), int(replicas)
			mu.Lock()
			for f, machines := range now {
				l.dollars += float64(machines) * price[f] * time.Since(since).Hours()
			}
			since = time.Now()
			switch change := n - now[flavor]; {
			case change > 0:
				l.Bought[flavor] += change
			case change < 0:
				l.Released[flavor] -= change
			}
			now[flavor] = n
			mu.Unlock()
		}
	}()
	return func() ledger {
		mu.Lock()
		defer mu.Unlock()
		return ledger{Bought: maps.Clone(l.Bought), Released: maps.Clone(l.Released), dollars: l.dollars}
	}
}
