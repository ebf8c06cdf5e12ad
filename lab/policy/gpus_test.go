package policy

import (
	"testing"

	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// withGPUs has jobs with shares of GPUs, jobs with none, and one that requests more than any machine has.
const withGPUs = `apiVersion: supercargo.dev/v1alpha1
kind: Scenario
metadata: {name: gpus}
spec:
  horizon: 2h
  flavors:
  - {name: gpu, cpu: 16, memory: 64Gi, pricePerHour: 2, gpus: 2}
  - {name: plain, cpu: 8, memory: 32Gi, pricePerHour: 0.3}
  taskKinds:
  - {name: training, class: batch, cpu: 1, memory: 4Gi, gpus: 0.5, runtime: 10m}
  - {name: plain, class: batch, cpu: 4, memory: 8Gi, runtime: 10m}
  workload:
    pods: [{name: huge, class: batch, cpu: 1, memory: 1Gi, gpus: 3, runtime: 1m}]
    patterns: [{shape: burst, count: 12, period: 1h, on: 1m, mix: {training: 1}}, {shape: burst, count: 20, period: 1h, on: 1m, mix: {plain: 1}}]
`

// TestGPUsAreBoughtForPodsThatRequestThemAndShared checks at every start that no machine has more of its GPUs in use than it has,
// and who got machines with GPUs.
func TestGPUsAreBoughtForPodsThatRequestThemAndShared(t *testing.T) {
	sc, err := scenario.Read("gpus.yaml", []byte(withGPUs), nil)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := sc.Arrivals(1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Pods: pods, Seed: 1, Policy: byName(t, "supercargo")})
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed != 0 || r.Pending != 1 || r.Scheduled != len(pods)-1 {
		t.Fatalf("%d of %d pods scheduled, %d pending, %d failed; want all but one", r.Scheduled, len(pods), r.Pending, r.Failed)
	}
	milliGPUs := map[string]int16{}
	for i := range pods {
		milliGPUs[pods[i].Name] = pods[i].Size.Extended.At(0)
	}
	training, plain := map[string]int{}, map[string]bool{}
	for _, p := range r.Placements {
		if n := milliGPUs[p.Pod]; n > 0 {
			training[p.Node] += int(n)
			if p.Flavor != "gpu" {
				t.Errorf("pod %s with %d thousandths of a GPU runs on %s", p.Pod, n, p.Node)
			}
		} else if p.Flavor == "plain" {
			plain[p.Node] = true
		}
	}
	// Twelve halves take six GPUs in each hour, which three machines have.
	if len(training) == 0 || len(training) > 6 || len(plain) == 0 {
		t.Errorf("machines with GPUs are %v, others %v", training, plain)
	}
	if r.CostMicroDollars < sim.LowerBound(sc, pods) {
		t.Errorf("the cost %d is below the bound %d", r.CostMicroDollars, sim.LowerBound(sc, pods))
	}
}
