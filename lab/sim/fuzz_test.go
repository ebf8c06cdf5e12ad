package sim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"supercargo.dev/supercargo/lab/policy"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// fuzzSeeds are small valid scenarios. They may name trace.csv and flavors.csv.
var fuzzSeeds = []string{
	`apiVersion: supercargo.dev/v1alpha1
kind: Scenario
metadata: {name: written-out}
spec:
  horizon: 10m
  schedulingInterval: 20s
  scalingInterval: 1m
  acquisitionLag: {mean: 40s, sd: 4s}
  billingPeriod: 1m
  billedFrom: ready
  releaseLag: 5s
  migration: {bandwidth: 1200M, bytesPerMemory: 1.0, fixed: 2s}
  flavors:
  - {name: small, cpu: "2", memory: 4Gi, pricePerHour: 0.0686, wattsIdle: 40, wattsFull: 95}
  - {name: large, cpu: "8", memory: 32Gi, pricePerHour: 0.5479, arch: arm64, speed: 0.5, maxPods: 3}
  nodes:
  - {flavor: small, count: 2, class: Batch}
  - {flavor: large, class: Service}
  homogeneousFlavor: small
  maxNodes: 8
  workload:
    pods:
    - {name: job, class: batch, cpu: 500m, memory: 2Gi, arrival: 3s, runtime: 90s, category: a, count: 6}
    - {name: web, class: service, cpu: 100m, memory: 400Mi, lifetime: 4m, count: 3}
    - {name: arm, class: batch, cpu: 1, memory: 1Gi, arrival: 1m, runtime: 1m, arch: arm64}
    - {name: big, class: service, cpu: 9, memory: 1Gi}
`,
	`apiVersion: supercargo.dev/v1alpha1
kind: Scenario
metadata: {name: recorded}
spec:
  horizon: 20m
  flavorsFile: flavors.csv
  releaseLag: 1m
  maxNodes: 5
  workload:
    traces:
    - {file: trace.csv, timeScale: 2.0, limit: 8}
    - {name: again, file: trace.csv}
`,
	`apiVersion: supercargo.dev/v1alpha1
kind: Scenario
metadata: {name: drawn}
spec:
  horizon: 15m
  autoscale: false
  flavors: [{name: m1.medium, cpu: "2", memory: 8Gi, pricePerHour: 0.1371}]
  nodes: [{flavor: m1.medium, count: 2}]
  taskKinds:
  - {name: tiny, class: batch, cpu: 0, memory: 0, runtime: {min: 1ms, max: 20s}}
  workload:
    patterns:
    - {shape: on-off, rate: 2/m, period: 5m, on: 2m, mix: {batch_small: 5, nginx: 1, tiny: 2}}
    - {shape: growing, rate: 1/m, peakRate: 2/m, mix: {batch_large: 1}}
`,
	`apiVersion: supercargo.dev/v1alpha1
kind: Scenario
metadata: {name: moved}
spec:
  horizon: 1h
  billingPeriod: 30s
  migration: {bandwidth: 100M, fixed: 30s}
  flavors:
  - {name: a, cpu: "1", memory: 1Gi, pricePerHour: 0.0198}
  - {name: b, cpu: "8", memory: 32Gi, pricePerHour: 0.5479}
  nodes: [{flavor: b, count: 2}, {flavor: a}]
  workload:
    pods:
    - {name: long, class: batch, cpu: 100m, memory: 300Mi, runtime: 50m, count: 3}
    - {name: wide, class: batch, cpu: 7, memory: 20Gi, runtime: 3m, count: 4}
    - {name: last, class: batch, cpu: 100m, memory: 300Mi, arrival: 30m, runtime: 10m, count: 9}
    - {name: web, class: service, cpu: 100m, memory: 400Mi, arrival: 5m}
`,
	`apiVersion: supercargo.dev/v1alpha1
kind: Scenario
metadata: {name: suited}
spec:
  horizon: 20m
  autoscale: false
  rescheduling: {interval: 20s, residence: 10s, gain: 1, pods: 2}
  namespaces: [{name: green, energyWeight: 1}]
  flavors:
  - {name: fast, cpu: "2", memory: 4Gi, pricePerHour: 0, wattsIdle: 40, wattsFull: 95}
  - {name: frugal, cpu: "4", memory: 4Gi, pricePerHour: 0, speed: 0.5, wattsIdle: 5, wattsFull: 20}
  - {name: board, cpu: "4", memory: 4Gi, pricePerHour: 0, speed: 0.2, arch: arm64, wattsIdle: 1, wattsFull: 9}
  nodes: [{flavor: fast}, {flavor: frugal}, {flavor: board}]
  workload:
    pods:
    - {name: asks, class: batch, cpu: 1, memory: 300Mi, runtime: 2m, energyWeight: 0, count: 4}
    - {name: again, class: batch, cpu: 1, memory: 300Mi, runtime: 3m, migration: restart, category: c, count: 4}
    - {name: with, class: batch, cpu: 1, memory: 300Mi, arrival: 1m, runtime: 3m, migration: checkpoint, namespace: green, count: 3}
    - {name: never, class: batch, cpu: 500m, memory: 300Mi, arrival: 1m, runtime: 3m, migration: never}
`,
}

const (
	fuzzTrace   = "arrival_s,cpu_milli,memory_mib,runtime_s,name,class,category,count,arch\n0,100,300,60,a,batch,x,2,\n30,200,600,0,b,batch,,1,arm64\n45,100,400,300,c,service,,1,\n"
	fuzzFlavors = "name,cpu,memory_gib,price_per_hour,arch,machine_type,max_pods,watts_idle,watts_full\nm3.small,2,4,0.0686,,,,,\nm1.large,4,16,0.2746,arm64,,5,40,95\n"
)

// FuzzSimulate runs any small valid scenario under some policy: it must end, and its books must
// balance.
func FuzzSimulate(f *testing.F) {
	for i, text := range fuzzSeeds {
		for j := range audited() {
			f.Add(text, fuzzTrace, fuzzFlavors, uint64(i), uint8(j))
		}
	}
	f.Fuzz(func(t *testing.T, text, pods, flavors string, seed uint64, which uint8) {
		sc, err := scenario.Read("fuzz.yaml", []byte(text), func(path string) ([]byte, error) {
			switch path {
			case "trace.csv":
				return []byte(pods), nil
			case "flavors.csv":
				return []byte(flavors), nil
			}
			return nil, errors.New("there is no such file")
		})
		if err != nil || !few(sc) {
			return
		}
		drawn, err := sc.Arrivals(seed)
		if err != nil || !brief(sc, drawn) {
			return
		}
		p, err := policy.ByName(audited()[int(which)%len(audited())])
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		l := newLedger(sc, drawn, p)
		input := sim.Input{Scenario: sc, Pods: drawn, Seed: seed, Policy: p}
		r, err := sim.Run(ctx, input.Watched(l.process))
		switch {
		case err != nil && sim.Validate(sc, drawn) == nil && !l.uncountable():
			t.Fatalf("policy %s: %v\n%s", p.Name, err, text)
		case err != nil:
			return
		}
		for _, fault := range l.settle(r) {
			t.Errorf("policy %s: %s", p.Name, fault)
		}
		if l.batchWaits() {
			return
		}
		wait := r.MeanServiceWait()
		if lower, served := sim.LowerBound(sc, drawn), sim.ServedBound(sc, drawn, wait); r.CostMicroDollars < served || served < lower {
			t.Errorf("policy %s: the bill is %d, the bound %d, and %d with services that wait for %v", p.Name, r.CostMicroDollars, lower, served, wait)
		}
	})
}

// few reports whether a scenario has few pods and machines.
func few(sc *scenario.Scenario) bool {
	var pods float64
	for _, p := range sc.Workload.Patterns {
		pods += float64(max(p.BaseRate, p.PeakRate)) * sc.Horizon.Seconds()
	}
	for _, t := range sc.Workload.Traces {
		pods += float64(len(t.Pods))
	}
	for _, t := range sc.Workload.Pods {
		pods += float64(t.Count)
	}
	var machines int64
	for _, n := range sc.Nodes {
		machines += n.Count
	}
	return pods <= 60 && machines <= 20 && len(sc.Flavors) <= 20
}

// brief reports whether there are few decisions from the start until the last pod has ended or is
// abandoned.
func brief(sc *scenario.Scenario, pods []scenario.Pod) bool {
	all := sc.Horizon.Seconds() + 20*max(sc.ScalingInterval, sc.SchedulingInterval).Seconds() + 10*sc.AcquisitionLag.Mean.Seconds()
	for _, p := range pods {
		slowest := 1.0
		for _, f := range sc.Flavors {
			slowest = min(slowest, f.Speed)
		}
		all += p.Runtime.Seconds() / slowest
	}
	return all <= 2000*min(sc.ScalingInterval, sc.SchedulingInterval).Seconds()
}
