package scenario

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/clip"
	"supercargo.dev/supercargo/test/kit/testfile"
)

const (
	head = "apiVersion: supercargo.dev/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n  horizon: 2h\n"
	oneF = "  flavors: [{name: f, cpu: 2, memory: 8Gi, pricePerHour: 0.1371}]\n"
	base = head + oneF // 6 lines: what tests add begins at line 7
)

// files opens the files that the tests refer to.
func files(path string) ([]byte, error) {
	text, ok := map[string]string{
		"pods.csv":    "arrival_s,cpu_milli,memory_mib,runtime_s,name,class,category,arch\n90,100,1,60,b,,c,arm64\n30,200,2,120,a,service,,\n8000,1,1,1,late,batch,,\n",
		"end.csv":     "arrival_s,cpu_milli,memory_mib,runtime_s,name\n7200,1,1,1,at\n7200.000000001,1,1,1,after\n",
		"long.csv":    "arrival_s,cpu_milli,memory_mib,runtime_s,name\n0,1,1,315360001,a\n",
		"name.csv":    "arrival_s,cpu_milli,memory_mib,runtime_s,name\n0,1,1,1," + strings.Repeat("a", 252) + "\n",
		"openb.csv":   "name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos,creation_time,deletion_time\na,1,1,2,600,BE,1,2\n",
		"flavors.csv": "name,cpu,memory_gib,price_per_hour,arch,max_pods\nz,2,8,0.1,arm64,20\ny,1,1,0.05,,\n",
		"bad.csv":     "arrival_s,cpu_milli,memory_mib,runtime_s\nNaN,1,1,1\n",
		"badf.csv":    "name,cpu,memory_gib,price_per_hour\na,-1,1,1\n",
	}[path]
	if !ok {
		return nil, errors.New("no such file")
	}
	return []byte(text), nil
}

func read(t *testing.T, text string) *Scenario {
	t.Helper()
	s, err := Read("s.yaml", []byte(text), files)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatIsNotStatedHasItsDefault(t *testing.T) {
	want := &Scenario{
		Name: "test", Horizon: 2 * time.Hour, SchedulingInterval: 20 * time.Second, ScalingInterval: 5 * time.Minute,
		AcquisitionLag: Lag{Mean: 150 * time.Second}, BillingPeriod: time.Minute, BilledFrom: FromOrder, ReleaseLag: 5 * time.Second,
		Migration:         Migration{BitsPerSecond: 1_200_000_000, BytesPerMemory: 1, Fixed: 2 * time.Second},
		Rescheduling:      Rescheduling{Interval: time.Minute, Residence: 10 * time.Minute, Gain: 10, Pods: 20},
		Flavors:           []Flavor{{Flavor: catalogue.Flavor{Flavor: cluster.Flavor{Name: "f", Size: packing.Size{MilliCPU: 2000, MemoryBytes: 8 << 30}, MicroDollarsPerHour: 137_100, Arch: "amd64", MaxPods: new(int64(110))}, MachineType: "f"}, Speed: 1}},
		HomogeneousFlavor: "f", Autoscale: true, MaxNodes: 1000, TaskKinds: BuiltInKinds(),
	}
	if diff := cmp.Diff(want, read(t, base)); diff != "" {
		t.Errorf("scenario (-want +got):\n%s", diff)
	}
}

func weight(h float64) *float64 { return &h }

func TestEveryFieldIsRead(t *testing.T) {
	got := read(t, head+`
  schedulingInterval: 10s
  scalingInterval: 1m30s
  acquisitionLag: {mean: 157s, sd: 4200ms}
  billingPeriod: 1h
  billedFrom: ready
  releaseLag: 0s
  migration: {bandwidth: 2.5G, bytesPerMemory: 0.25, fixed: 1s}
  rescheduling: {interval: 0s, residence: 30s, gain: 5, pods: 3}
  namespaces: [{name: green, energyWeight: 1}, {name: plain}]
  flavors:
  - {name: a.b, cpu: "0.5", memory: 0.3Gi, pricePerHour: 0, machineType: xeon, wattsIdle: 40, wattsFull: 95.5, speed: 0.8, arch: arm64, maxPods: 20,
     powerCurve: [{utilization: 0.1, watts: 60.5}, {utilization: 0.5, watts: 80}], zone: north}
  - {name: g, cpu: 1500m, memory: 1G, pricePerHour: 1}
  electricity: [{pricePerKWh: 0.25}, {zone: north, gramsPerKWh: [{from: 0s, value: 30.5}, {from: 1h, value: 400}]}]
  nodes: [{flavor: g, count: 2, class: Service}, {flavor: a.b, class: Batch}, {flavor: g, class: Any}]
  homogeneousFlavor: a.b
  autoscale: false
  maxNodes: 4
  taskKinds:
  - {name: huge_one, class: batch, cpu: 8, memory: 1Ti, runtime: {min: 1m, max: 2m}, category: c, arch: arm64, energyWeight: 1, namespace: green, migration: restart}
  - {name: api, class: service, cpu: 0, memory: 100, lifetime: 30m, energyWeight: {min: 0.25, max: 1}}
  workload:
    pods:
    - {name: job.1, class: batch, cpu: 100m, memory: 0.9Gi, arrival: 1s, runtime: 3m, category: small, energyWeight: 0.618, migration: checkpoint, count: 3, arch: amd64}
    - {name: web, class: service, cpu: 1, memory: 400Mi, lifetime: 2h}
    - {name: web-2, class: service, cpu: 1, memory: 400Mi}
    traces: [{file: pods.csv, timeScale: 3, limit: 2, name: t, energyWeight: 0, namespace: green, migration: never}]
    patterns:
    - {shape: stable, rate: 0.5/s, mix: {nginx: 1}}
    - {name: g, shape: growing, rate: 0/h, peakRate: 12/m, exponent: 1.5, mix: {huge_one: 0.5, api: 2}}
    - {shape: growing, rate: 1/h, peakRate: 30/h, mix: {nginx: 1}}
    - {shape: cycle, rate: 6/m, peakRate: 6/m, period: 30m, mix: {nginx: 1}}
    - {shape: on-off, rate: 1/m, period: 30m, on: 10m, mix: {nginx: 1}}
    - {shape: burst, count: 7, period: 30m, on: 10m, mix: {nginx: 1}}
`)
	mix := []Share{{"nginx", 1_000_000}}
	want := &Scenario{
		Name: "test", Horizon: 2 * time.Hour, SchedulingInterval: 10 * time.Second, ScalingInterval: 90 * time.Second,
		AcquisitionLag: Lag{157 * time.Second, 4200 * time.Millisecond}, BillingPeriod: time.Hour, BilledFrom: FromReady,
		Migration:    Migration{2_500_000_000, 0.25, time.Second},
		Rescheduling: Rescheduling{Residence: 30 * time.Second, Gain: 5, Pods: 3},
		Namespaces:   []Namespace{{"green", weight(1)}, {"plain", nil}},
		Flavors: []Flavor{
			{catalogue.Flavor{Flavor: cluster.Flavor{Name: "a.b", Size: packing.Size{MilliCPU: 500, MemoryBytes: 322_122_547}, Arch: "arm64", MaxPods: new(int64(20))}, MachineType: "xeon", MilliwattsIdle: 40_000, MilliwattsFull: 95_500}, 0.8,
				[]PowerPoint{{0.1, 60_500}, {0.5, 80_000}}, "north"},
			{catalogue.Flavor{Flavor: cluster.Flavor{Name: "g", Size: packing.Size{MilliCPU: 1500, MemoryBytes: 1e9}, MicroDollarsPerHour: 1e6, Arch: "amd64", MaxPods: new(int64(110))}, MachineType: "g"}, 1, nil, ""},
		},
		Electricity: []Electricity{
			{DollarsPerKWh: Course{{0, 0.25}}},
			{Zone: "north", GramsPerKWh: Course{{0, 30.5}, {time.Hour, 400}}},
		},
		Nodes:             []Nodes{{"g", 2, class.Service}, {"a.b", 1, class.Batch}, {"g", 1, class.Any}},
		HomogeneousFlavor: "a.b", MaxNodes: 4,
		Workload: Workload{
			Pods: []Task{
				{Pod{Pod: cluster.Pod{Item: packing.Item{Name: "job.1", Size: packing.Size{MemoryBytes: 966_367_642, MilliCPU: 100}, Arrival: time.Second, Runtime: 3 * time.Minute}, Class: class.Batch, Arch: "amd64", EnergyWeight: weight(0.618)},
					Category: "small", Migration: MoveWithState}, 3},
				{Pod{Pod: cluster.Pod{Item: packing.Item{Name: "web", Size: packing.Size{MemoryBytes: 400 << 20, MilliCPU: 1000}}, Class: class.Service}, Lifetime: 2 * time.Hour}, 1},
				{Pod{Pod: cluster.Pod{Item: packing.Item{Name: "web-2", Size: packing.Size{MemoryBytes: 400 << 20, MilliCPU: 1000}}, Class: class.Service}}, 1},
			},
			Traces: []Trace{{Name: "t", TimeScale: 3, Limit: 2, Pods: []Pod{
				{Pod: cluster.Pod{Item: packing.Item{Name: "t-a", Size: packing.Size{MemoryBytes: 2 << 20, MilliCPU: 200}, Arrival: 10 * time.Second}, Class: class.Service, EnergyWeight: weight(0), Namespace: "green"}, Lifetime: 40 * time.Second,
					Migration: MoveNever},
				{Pod: cluster.Pod{Item: packing.Item{Name: "t-b", Size: packing.Size{MemoryBytes: 1 << 20, MilliCPU: 100}, Arrival: 30 * time.Second, Runtime: 20 * time.Second}, Class: class.Batch, Arch: "arm64", EnergyWeight: weight(0), Namespace: "green"},
					Category: "c", Migration: MoveNever},
			}}},
			Patterns: []Pattern{
				{Name: "pattern-0", Shape: Stable, BaseRate: 0.5, Mix: mix},
				{Name: "g", Shape: Growing, PeakRate: 0.2, Exponent: 1.5, Mix: []Share{{"api", 2_000_000}, {"huge_one", 500_000}}},
				{Name: "pattern-2", Shape: Growing, BaseRate: 1.0 / 3600, PeakRate: 30.0 / 3600, Exponent: 2, Mix: mix},
				{Name: "pattern-3", Shape: Cycle, BaseRate: 0.1, PeakRate: 0.1, Period: 30 * time.Minute, Mix: mix},
				{Name: "pattern-4", Shape: OnOff, BaseRate: 1.0 / 60, Period: 30 * time.Minute, On: 10 * time.Minute, Mix: mix},
				{Name: "pattern-5", Shape: Burst, Count: 7, Period: 30 * time.Minute, On: 10 * time.Minute, Mix: mix},
			},
		},
		TaskKinds: []TaskKind{
			{Name: "api", Class: class.Service, Size: packing.Size{MemoryBytes: 100}, MinRuntime: 30 * time.Minute, MaxRuntime: 30 * time.Minute, Category: "api", Weights: &WeightRange{0.25, 1}},
			{Name: "batch_large", Class: class.Batch, Size: packing.Size{MemoryBytes: 966_367_642, MilliCPU: 300}, MinRuntime: 9 * time.Minute, MaxRuntime: 12 * time.Minute, Category: "batch_large"},
			{Name: "batch_med", Class: class.Batch, Size: packing.Size{MemoryBytes: 644_245_095, MilliCPU: 200}, MinRuntime: 4 * time.Minute, MaxRuntime: 8 * time.Minute, Category: "batch_med"},
			{Name: "batch_small", Class: class.Batch, Size: packing.Size{MemoryBytes: 322_122_548, MilliCPU: 100}, MinRuntime: time.Minute, MaxRuntime: 4 * time.Minute, Category: "batch_small"},
			{Name: "huge_one", Class: class.Batch, Size: packing.Size{MemoryBytes: 1 << 40, MilliCPU: 8000}, MinRuntime: time.Minute, MaxRuntime: 2 * time.Minute, Category: "c", Arch: "arm64", EnergyWeight: weight(1), Namespace: "green", Migration: MoveByRestart},
			{Name: "nginx", Class: class.Service, Size: packing.Size{MemoryBytes: 429_496_730, MilliCPU: 100}, Category: "nginx"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scenario (-want +got):\n%s", diff)
	}
}

func TestFlavorsComeFromACatalogue(t *testing.T) {
	s := read(t, head+"  flavorsFile: flavors.csv\n  nodes: [{flavor: z}]\n")
	want := []Flavor{
		{catalogue.Flavor{Flavor: cluster.Flavor{Name: "y", Size: packing.Size{MilliCPU: 1000, MemoryBytes: 1 << 30}, MicroDollarsPerHour: 50_000, Arch: "amd64", MaxPods: new(int64(110))}, MachineType: "y"}, 1, nil, ""},
		{catalogue.Flavor{Flavor: cluster.Flavor{Name: "z", Size: packing.Size{MilliCPU: 2000, MemoryBytes: 8 << 30}, MicroDollarsPerHour: 100_000, Arch: "arm64", MaxPods: new(int64(20))}, MachineType: "z"}, 1, nil, ""},
	}
	if diff := cmp.Diff(want, s.Flavors); diff != "" || s.HomogeneousFlavor != "z" {
		t.Errorf("homogeneous %q, want z; flavors (-want +got):\n%s", s.HomogeneousFlavor, diff)
	}
}

func TestPodsOfATraceAfterTheHorizonAreLeftOut(t *testing.T) {
	s := read(t, base+"  workload: {traces: [{file: pods.csv}]}\n")
	if n := len(s.Workload.Traces[0].Pods); n != 2 {
		t.Errorf("%d pods within 7200 s, want 2", n)
	}
	s = read(t, base+"  workload: {traces: [{file: end.csv}]}\n")
	if pods := s.Workload.Traces[0].Pods; len(pods) != 1 || pods[0].Name != "at" {
		t.Errorf("pods %v, want the one that arrives at the horizon", pods)
	}
}

// TestFaultsSayWhereAndWhatWouldBeRight adds one line to a valid scenario and expects one fault.
func TestFaultsSayWhereAndWhatWouldBeRight(t *testing.T) {
	pattern := func(s string) string { return "  workload: {patterns: [{mix: {nginx: 1}, " + s + "}]}" }
	pod := func(s string) string { return "  workload: {pods: [{cpu: 1, memory: 1Gi, " + s + "}]}" }
	kind := func(s string) string { return "  taskKinds: [{cpu: 1, memory: 1Gi, " + s + "}]" }
	tests := []struct{ line, want string }{
		{"  color: red", `s.yaml:7: spec.color: is not a known field: must be one of horizon, `},
		{"  horizon: 3h", `s.yaml:7: spec.horizon: is set twice`},
		{"  schedulingInterval: 0s", `spec.schedulingInterval: "0s" must be more than 0`},
		{"  schedulingInterval: 20", `spec.schedulingInterval: "20" must be a duration with a unit, such as 20s`},
		{"  scalingInterval: -5m", `spec.scalingInterval: "-5m" must be 0 or more`},
		{"  scalingInterval: 100000h", `spec.scalingInterval: "100000h" must be at most 87600h0m0s`},
		{"  scalingInterval: +5m", `"+5m" must be a duration`},
		{"  billingPeriod:", `spec.billingPeriod: is empty: must be a duration`},
		{"  billingPeriod: [1m]", `spec.billingPeriod: is a list: must be a duration`},
		{"  billedFrom: boot", `spec.billedFrom: "boot"`},
		{"  releaseLag: NaN", `spec.releaseLag: "NaN" must be a duration`},
		{"  acquisitionLag: {sd: 4s}", `s.yaml:7: spec.acquisitionLag.mean: is required: must be a duration such as 157s`},
		{"  acquisitionLag: {mean: 1s, sd: x}", `spec.acquisitionLag.sd: "x" must be a duration`},
		{"  acquisitionLag: soon", `spec.acquisitionLag: "soon" must be a duration`},
		{"  migration: {bandwidth: 0}", `spec.migration.bandwidth: "0" must be more than 0`},
		{"  migration: {bandwidth: 1200Mi}", `spec.migration.bandwidth: "1200Mi" has an unknown unit: must be bits per second such as 1200M`},
		{"  migration: {bandwidth: M}", `spec.migration.bandwidth: "M" must be bits per second`},
		{"  migration: {bytesPerMemory: Inf}", `spec.migration.bytesPerMemory: "Inf" is not a plain decimal number`},
		{"  migration: {bytesPerMemory: 1001}", `spec.migration.bytesPerMemory: "1001" must be at most 1000`},
		{"  migration: {fixed: 2}", `spec.migration.fixed: "2" must be a duration`},
		{"  flavorsFile: flavors.csv", `spec.flavorsFile: is mutually exclusive with flavors`},
		{"  nodes: {flavor: f}", `spec.nodes: is an object: must be a list`},
		{"  nodes: [{flavor: g}]", `s.yaml:7: spec.nodes[0].flavor: "g" is not a known flavor: must be one of f`},
		{"  nodes: [{count: 1}]", `spec.nodes[0].flavor: is required: must be the name of a flavor`},
		{"  nodes: [{flavor: f, count: 0}]", `spec.nodes[0].count: "0" must be more than 0`},
		{"  nodes: [{flavor: f, count: 1.5}]", `spec.nodes[0].count: "1.5" must be a whole number`},
		{"  nodes: [{flavor: f, count: 1e3}]", `spec.nodes[0].count: "1e3" is not a plain decimal number`},
		{"  nodes: [{flavor: f, count: 99999999999999999999}]", `spec.nodes[0].count: "99999999999999999999" must be at most 100000`},
		{"  nodes: [{flavor: f, count: 1001}]", `spec.nodes: has 1001 machines: must have at most 1000, which is maxNodes`},
		{"  nodes: [{flavor: f, class: Both}]", `spec.nodes[0].class: "Both" must be Any, Batch or Service`},
		{"  homogeneousFlavor: g", `spec.homogeneousFlavor: "g" is not a known flavor: must be one of f`},
		{"  autoscale: maybe", `spec.autoscale: "maybe" must be true or false`},
		{"  autoscale: false", `spec.autoscale: is false: at least one node is required`},
		{"  maxNodes: 0", `spec.maxNodes: "0" must be more than 0`},
		{"  workload: {jobs: []}", `spec.workload.jobs: is not a known field: must be one of pods, traces, patterns`},
		{"  workload: {pods: [*x]}", `is not valid YAML: unknown anchor 'x' referenced`},
		{"  homogeneousFlavor: &x f\n  autoscale: *x", `s.yaml:8: spec.autoscale: is an alias, which is not supported`},
		{"  workload: {traces: [{file: bad.csv}]}", `bad.csv:2: arrival_s: "NaN" is not a plain decimal number`},
		{"  workload: {traces: [{file: long.csv}]}", `spec.workload.traces[0].file: pod "a" runs for longer than the maximum of 87600h0m0s`},
		{"  workload: {traces: [{file: name.csv, name: b}]}", `is longer than 253 bytes with the name of the entry as prefix`},
		{"  nodes: [" + strings.Repeat("1,", MaxEntries) + "1]", `spec.nodes: has 10001 elements: must have at most 10000`},
		{"  scalingInterval: 87600h0m0.000000001s", `spec.scalingInterval: "87600h0m0.000000001s" must be at most`},
		{"  workload: {traces: [{limit: 1}]}", `spec.workload.traces[0].file: is required`},
		{"  workload: {traces: [{file: nope}]}", `spec.workload.traces[0].file: read nope: no such file`},
		{"  workload: {traces: [{file: pods.csv, limit: 0}]}", `traces[0].limit: "0" must be more than 0`},
		{"  workload: {traces: [{file: pods.csv, timeScale: 0}]}", `traces[0].timeScale: "0" must be more than 0`},
		{"  workload: {traces: [{file: pods.csv, name: X}]}", `traces[0].name: "X" is not a valid name`},
		{"  workload: {traces: [{file: pods.csv}, {file: pods.csv}]}", `spec.workload.traces[1]: has a pod "a", which this or an earlier entry has too`},
		{pod("name: a, class: batch"), `spec.workload.pods[0].runtime: is required for a batch pod`},
		{pod("name: a, class: batch, runtime: 0s"), `pods[0].runtime: "0s" must be more than 0`},
		{pod("name: a, class: batch, runtime: 1s, lifetime: 1s"), `pods[0].lifetime: is only for services`},
		{pod("name: a, class: service, runtime: 1s"), `pods[0].runtime: is only for batch pods`},
		{pod("name: a, class: Batch, runtime: 1s"), `pods[0].class: "Batch" must be batch or service`},
		{pod("name: A, class: service"), `pods[0].name: "A" is not a valid pod name`},
		{pod("class: service"), `pods[0].name: is required`},
		{pod("name: a, class: service, count: 1000001"), `pods[0].count: "1000001" must be at most`},
		{pod("name: a, class: service, arrival: 7201s"), `pods[0].arrival: "7201s" is after the horizon: must be at most 2h0m0s`},
		{pod("name: a, class: service, energyWeight: 1.1"), `pods[0].energyWeight: "1.1" must be at most 1`},
		{pod("name: a, class: service, namespace: A"), `pods[0].namespace: "A" is not a valid namespace`},
		{pod("name: a, class: service, migration: always"), `pods[0].migration: "always" must be checkpoint, restart or never`},
		{"  namespaces: [{energyWeight: 1}]", `spec.namespaces[0].name: is required`},
		{"  namespaces: [{name: a, energyWeight: 2}]", `spec.namespaces[0].energyWeight: "2" must be at most 1`},
		{"  namespaces: [{name: a}, {name: a}]", `spec.namespaces[1]: is a second entry for namespace "a"`},
		{kind("name: k, class: service, energyWeight: {min: 0.5, max: 0.4}"), `taskKinds[0].energyWeight.min: "0.5" must be at most max`},
		{kind("name: k, class: service, energyWeight: {min: 0}"), `taskKinds[0].energyWeight.max: is required`},
		{kind("name: k, class: service, energyWeight: {min: 0, max: 1.5}"), `taskKinds[0].energyWeight.max: "1.5" must be at most`},
		{"  rescheduling: {interval: soon}", `spec.rescheduling.interval: "soon" must be a duration`},
		{"  rescheduling: {gain: 0}", `spec.rescheduling.gain: "0" must be more than 0`},
		{"  rescheduling: {gain: 101}", `spec.rescheduling.gain: "101" must be at most 100`},
		{"  rescheduling: {pods: 0}", `spec.rescheduling.pods: "0" must be more than 0`},
		{pod("name: a, class: service, arch: x_86"), `pods[0].arch: "x_86" must be an architecture`},
		{pod("name: a, class: service, category: \"\\x01\""), `is not a valid category`},
		{pod("name: a, class: service}, {cpu: 1, memory: 1, name: a, class: service"), `spec.workload.pods[1]: has a pod "a"`},
		{pod("name: " + strings.Repeat("a", 252) + ", class: service, count: 2"), `is too long for a pod name`},
		{pattern("shape: square, rate: 1/s"), `spec.workload.patterns[0].shape: "square" must be stable, growing`},
		{pattern("shape: stable, rate: 1"), `patterns[0].rate: "1" must be a rate such as 0.5/s, 12/m or 30/h`},
		{pattern("shape: stable, rate: -1/s"), `patterns[0].rate: "-1/s" must be 0 or more`},
		{pattern("shape: stable, rate: 0/s"), `patterns[0].rate: "0/s" must be more than 0`},
		{pattern("shape: stable, rate: 1/s, on: 1m"), `patterns[0].on: does not apply to the shape stable`},
		{pattern("shape: stable, rate: 1000/s"), `patterns[0]: creates up to 7200000 pods`},
		{pattern("shape: growing, rate: 1/s"), `patterns[0].peakRate: is required for the shape growing`},
		{pattern("shape: growing, rate: 2/m, peakRate: 1/m"), `patterns[0].peakRate: "1/m" must be at least rate`},
		{pattern("shape: growing, rate: 2/m, peakRate: 3/m, exponent: 101"), `patterns[0].exponent: "101" must be at most`},
		{pattern("shape: cycle, rate: 2/m, peakRate: 3/m"), `patterns[0].period: is required`},
		{pattern("shape: on-off, rate: 2/m, period: 1m, on: 2m"), `patterns[0].on: "2m" must be at most period`},
		{pattern("shape: stable"), `patterns[0].rate: is required for the shape stable`},
		{pattern("shape: burst, period: 1m, on: 1m"), `patterns[0].count: is required for the shape burst`},
		{pattern("shape: burst, period: 1m, on: 1m, count: 0"), `patterns[0].count: "0" must be more than 0`},
		{pattern("shape: burst, period: 1m, on: 1m, count: 5, rate: 1/s"), `patterns[0].rate: does not apply to the shape burst`},
		{pattern("shape: burst, period: 1m, on: 2m, count: 5"), `patterns[0].on: "2m" must be at most period`},
		{pattern("shape: burst, period: 1s, on: 1s, count: 900000"), `patterns[0]: creates up to 6480000000 pods`},
		{pattern("shape: on-off, rate: 1/s, period: 1m, on: 1m, count: 5"), `patterns[0].count: does not apply to the shape on-off`},
		{pattern("name: a, shape: stable, rate: 1/m}, {mix: {nginx: 1}, name: a, shape: stable, rate: 1/m"), `two patterns with the name "a"`},
		{"  workload: {patterns: [{shape: stable, rate: 1/m, mix: {apache: 1}}]}", `patterns[0].mix.apache: "apache" is not a known task kind: must be one of batch_large, batch_med, batch_small, nginx`},
		{"  workload: {patterns: [{shape: stable, rate: 1/m, mix: {}}]}", `patterns[0].mix: has no task kind`},
		{"  workload: {patterns: [{shape: stable, rate: 1/m, mix: [nginx]}]}", `patterns[0].mix: is a list: must be weights`},
		{"  workload: {patterns: [{shape: stable, rate: 1/m, mix: {nginx: 0}}]}", `patterns[0].mix.nginx: "0" must be more than 0`},
		{"  workload: {patterns: [{shape: stable, rate: 70/s, mix: {nginx: 1}}, {shape: stable, rate: 70/s, mix: {nginx: 1}}]}", `spec.workload: has about 1008000 pods`},
		{kind("name: nginx, class: service"), `spec.taskKinds[0].name: "nginx" is also the name of another kind`},
		{kind("name: k, class: batch"), `taskKinds[0].runtime: is required`},
		{kind("name: k, class: batch, runtime: {min: 2s, max: 1s}"), `taskKinds[0].runtime.min: "2s" must be at most max`},
		{kind("name: k, class: batch, runtime: 1us"), `taskKinds[0]: must have a runtime in whole milliseconds`},
		{kind("name: K, class: service"), `taskKinds[0].name: "K" is not a valid kind`},
	}
	for _, tc := range tests {
		t.Run(clip.Cell(tc.line), func(t *testing.T) { checkFault(t, base+tc.line+"\n", tc.want) })
	}
}

func TestBoundsAreInclusive(t *testing.T) {
	for _, line := range []string{
		"  scalingInterval: 87600h",
		"  workload: {pods: [{name: a, class: service, cpu: 1, memory: 1, count: 1000000, arrival: 2h}]}",
		"  workload: {traces: [{file: name.csv}]}",
		"  nodes: [{flavor: f, count: 1000}]",
	} {
		read(t, base+line+"\n")
	}
}

func TestFaultsOfFlavors(t *testing.T) {
	tests := []struct{ fields, want string }{
		{"cpu: 1, memory: 1Gi, pricePerHour: 1", `s.yaml:6: spec.flavors[0].name: is required`},
		{"name: '', cpu: 1, memory: 1Gi, pricePerHour: 1", `flavors[0].name: "" is not a valid name`},
		{"name: f, cpu: 0, memory: 1Gi, pricePerHour: 1", `flavors[0].cpu: "0" must be more than 0`},
		{"name: f, cpu: 0.0001, memory: 1Gi, pricePerHour: 1", `flavors[0].cpu: "0.0001" must be a multiple of 1/1000`},
		{"name: f, cpu: 1e3, memory: 1Gi, pricePerHour: 1", `flavors[0].cpu: "1e3" must be cores or milli-CPU`},
		{"name: f, cpu: 1, memory: 8 GB, pricePerHour: 1", `flavors[0].memory: "8 GB" must be an amount such as 300Mi`},
		{"name: f, cpu: 1, memory: 99999999Ti, pricePerHour: 1", `flavors[0].memory: "99999999Ti" is too large`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: $1", `flavors[0].pricePerHour: "$1" is not a plain decimal number`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: 0.0000001", `flavors[0].pricePerHour: "0.0000001" must be a multiple of 1/1000000`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: 1, speed: 0", `flavors[0].speed: "0" must be more than 0`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: 1, wattsIdle: 1", `flavors[0]: must have both or neither of wattsIdle and wattsFull`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: 1, wattsIdle: 2, wattsFull: 1", `flavors[0].wattsIdle: "2" must be at most wattsFull`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: 1, powerCurve: [{utilization: 0.5, watts: 2}]", `flavors[0].powerCurve: requires wattsIdle and wattsFull`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: 1, wattsIdle: 1, wattsFull: 3, powerCurve: [{utilization: 0.5, watts: 2}, {utilization: 0.5, watts: 2}]", `flavors[0].powerCurve[1].utilization: "0.5" must be between 0 and 1`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: 1, wattsIdle: 1, wattsFull: 3, powerCurve: [{utilization: 1, watts: 2}]", `flavors[0].powerCurve[0].utilization: "1" must be between 0 and 1`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: 1, wattsIdle: 1, wattsFull: 3, powerCurve: [{utilization: 0.2, watts: 0.9}]", `flavors[0].powerCurve[0].watts: "0.9" must be from wattsIdle`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: 1, wattsIdle: 1, wattsFull: 3, powerCurve: [{utilization: 0.2, watts: 3.1}]", `flavors[0].powerCurve[0].watts: "3.1" must be from wattsIdle`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: 1, wattsIdle: 1, wattsFull: 3, powerCurve: [{watts: 2}]", `flavors[0].powerCurve[0].utilization: is required`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: 1, machineType: a b", `flavors[0].machineType: "a b" is not a valid label value`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: 1, arch: AMD", `flavors[0].arch: "AMD" must be an architecture`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: 1, maxPods: 0", `flavors[0].maxPods: "0" must be more than 0`},
		{"name: f, cpu: 1, memory: 1Gi, pricePerHour: 1}, {name: f, cpu: 1, memory: 1Gi, pricePerHour: 1", `flavors[1].name: "f" is also the name of another flavor`},
	}
	for _, tc := range tests {
		t.Run(tc.fields, func(t *testing.T) { checkFault(t, head+"  flavors: [{"+tc.fields+"}]\n", tc.want) })
	}
}

func TestFaultsOfElectricity(t *testing.T) {
	tests := []struct{ line, want string }{
		{"electricity: [{zone: a}, {zone: a}]", `spec.electricity[1]: is a second entry for zone "a"`},
		{"electricity: [{pricePerKWh: -1}]", `electricity[0].pricePerKWh: "-1" must be 0 or more`},
		{"electricity: [{pricePerKWh: {from: 0s}}]", `electricity[0].pricePerKWh: is an object: must be a list`},
		{"electricity: [{gramsPerKWh: [{from: 1s, value: 3}]}]", `electricity[0].gramsPerKWh[0].from: "1s" must be 0s for the first step`},
		{"electricity: [{gramsPerKWh: [{from: 0s, value: 3}, {from: 0s, value: 3}]}]", `gramsPerKWh[1].from: "0s" must be later`},
		{"electricity: [{gramsPerKWh: [{from: 0s}]}]", `gramsPerKWh[0].value: is required`},
	}
	for _, tc := range tests {
		t.Run(tc.line, func(t *testing.T) { checkFault(t, base+"  "+tc.line+"\n", tc.want) })
	}
	checkFault(t, head+"  flavors: [{name: f, cpu: 1, memory: 1Gi, pricePerHour: 1, zone: moon}]\n", `flavors[0].zone: "moon" must be a zone of spec.electricity`)
}

func TestCoursesStayUntilTheirNextStep(t *testing.T) {
	c := Course{{0, 3}, {time.Minute, 5}}
	for _, tc := range []struct {
		at, until time.Duration
		value     float64
	}{{0, time.Minute, 3}, {time.Minute - 1, time.Minute, 3}, {time.Minute, 0, 5}, {time.Hour, 0, 5}} {
		if value, until := c.At(tc.at); value != tc.value || until != tc.until {
			t.Errorf("at %v: %v until %v, want %v until %v", tc.at, value, until, tc.value, tc.until)
		}
	}
	if value, until := (Course{}).At(time.Hour); value != 0 || until != 0 {
		t.Errorf("an empty course is %v until %v", value, until)
	}
}

func TestFaultsOfDocuments(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "s.yaml: is empty: must contain a Scenario"},
		{"no object", "- a\n", "s.yaml:1: is a list: must be an object with the fields apiVersion, kind"},
		{"no YAML", "a: b\n c: d\n", "s.yaml:2: is not valid YAML: "},
		{"two documents", base + "---\n" + base, "begins a second document"},
		{"another kind", strings.Replace(base, "Scenario", "Pod", 1), `s.yaml:2: kind: "Pod" must be Scenario`},
		{"another version", strings.Replace(base, "v1alpha1", "v2", 1), `s.yaml:1: apiVersion: "supercargo.dev/v2" must be supercargo.dev/v1alpha1`},
		{"no name", strings.Replace(base, "name: test", "", 1), `s.yaml:3: metadata.name: is required`},
		{"no horizon", strings.Replace(base, "  horizon: 2h\n", "", 1), `s.yaml:5: spec.horizon: is required: must be a duration such as 2h`},
		{"no flavors", head, `spec.flavors: is required: must have at least one flavor`},
		{"no catalogue", head + "  flavorsFile: nope.csv\n", `s.yaml:6: spec.flavorsFile: read nope.csv: no such file`},
		{"no path", head + "  flavorsFile: ''\n", `spec.flavorsFile: "" must be the path`},
		{"a bad catalogue", head + "  flavorsFile: badf.csv\n", `badf.csv:2: cpu: "-1" must be 0 or more`},
		{"too large", strings.Repeat("#", MaxBytes+1), "s.yaml: is larger than 4194304 bytes"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) { checkFault(t, tc.text, tc.want) })
	}
}

// checkFault expects exactly one fault with the wanted text.
func checkFault(t *testing.T, text, want string) {
	t.Helper()
	s, err := Read("s.yaml", []byte(text), files)
	var all *table.Errors
	if s != nil || !errors.As(err, &all) {
		t.Fatalf("accepted, or refused with %T %v; want %s", err, err, want)
	}
	if len(all.List) != 1 || !strings.Contains(err.Error(), want) {
		t.Errorf("faults:\n%v\nwant one:\n%s", err, want)
	}
}

func TestAllFaultsAreListedByLineUpToABound(t *testing.T) {
	_, err := Read("s.yaml", []byte(head+"  maxNodes: x\n  nodes: [{count: y}]\n  flavorsFile: badf.csv\n"), files)
	want := `s.yaml:6: spec.maxNodes: "x" is not a plain decimal number such as 12 or 0.5
s.yaml:7: spec.nodes[0].count: "y" is not a plain decimal number such as 12 or 0.5
s.yaml:7: spec.nodes[0].flavor: is required: must be the name of a flavor
badf.csv:2: cpu: "-1" must be 0 or more`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
	_, err = Read("s.yaml", []byte(base+strings.Repeat("  x: 1\n", 3000)), files)
	if err == nil || !strings.HasSuffix(err.Error(), "\n... and 2980 more") || strings.Count(err.Error(), "\n") != table.MaxErrors {
		t.Errorf("got %d lines ending in %.60q", strings.Count(fmt.Sprint(err), "\n"), fmt.Sprint(err)[len(fmt.Sprint(err))-50:])
	}
}

func TestFilesAreRefusedWithoutAWayToOpenThem(t *testing.T) {
	_, err := Read("s.yaml", []byte(head+"  flavorsFile: flavors.csv\n"), nil)
	if err == nil || !strings.Contains(err.Error(), "reading other files is not supported here") {
		t.Errorf("got %v", err)
	}
}

func TestTheScenariosOfThePaperAreRead(t *testing.T) {
	for _, shape := range []Shape{Stable, Growing, Cycle, OnOff} {
		t.Run(string(shape), func(t *testing.T) {
			name := filepath.Join("..", "..", "test", "scenarios", "htas-"+string(shape)+".yaml")
			text := testfile.Read(t, name)
			s, err := Read(name, text, nil)
			if err != nil {
				t.Fatal(err)
			}
			if s.Name != "htas-"+string(shape) || len(s.Workload.Patterns) != 1 || s.Workload.Patterns[0].Shape != shape {
				t.Errorf("is %q with patterns %+v", s.Name, s.Workload.Patterns)
			}
			prices := map[string]int64{"t3.xsmall": 19800, "m3.xsmall": 34400, "m3.small": 68600, "m1.medium": 137100, "m1.large": 274600, "m1.xlarge": 547900}
			for _, f := range s.Flavors {
				if prices[f.Name] != f.MicroDollarsPerHour {
					t.Errorf("%s costs %d micro-dollars per hour, want %d", f.Name, f.MicroDollarsPerHour, prices[f.Name])
				}
			}
			pods, err := s.Arrivals(1)
			if err != nil {
				t.Fatal(err)
			}
			// 480 on average; five standard deviations are 110.
			if len(pods) < 370 || len(pods) > 590 || len(s.Flavors) != len(prices) {
				t.Errorf("%d pods and %d flavors, want about 480 and %d", len(pods), len(s.Flavors), len(prices))
			}
		})
	}
}

// TestTheGPUsOfACatalogueAreThoseOfMachines has a catalogue with whole GPUs, shares and other resources.
func TestTheGPUsOfACatalogueAreThoseOfMachines(t *testing.T) {
	const rows = "name,cpu,memory_gib,price_per_hour,extended_resources\na,2,8,0.1,\nb,2,8,1,nvidia.com/gpu=2;example.com/nic=1\nc,2,8,1,alibabacloud.com/gpu-milli=500\nd,2,8,9,nvidia.com/gpu=999\n"
	open := func(string) ([]byte, error) { return []byte(rows), nil }
	s, err := Read("s.yaml", []byte(head+"  flavorsFile: gpus.csv\n  nodes: [{flavor: a}]\n"), open)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int16{0, 2000, 500, 32_000} {
		if f := &s.Flavors[i]; f.Size.Extended != packing.Amounts(want) || f.GPUs.Any != (want > 0) || f.GPUs.Amounts != f.Size.Extended {
			t.Errorf("flavor %s has %v and %+v, want %d thousandths of GPUs", f.Name, f.Size.Extended, f.GPUs, want)
		}
	}
}

// TestGPUsAreReadInThousandths has a flavor with GPUs, so that the pods of an openb pod list have theirs.
func TestGPUsAreReadInThousandths(t *testing.T) {
	const rest = `
  flavors: [{name: f, cpu: 8, memory: 8Gi, pricePerHour: 1, gpus: %s}]
  taskKinds: [{name: k, class: batch, cpu: 1, memory: 1Gi, gpus: 2, runtime: 1m}]
  workload:
    pods: [{name: p, class: batch, cpu: 1, memory: 1Gi, gpus: 0.25, runtime: 1m}]
    traces: [{file: openb.csv}]
`
	s := read(t, head+fmt.Sprintf(rest, "1.5"))
	f := &s.Flavors[0]
	if f.Size.Extended != packing.Amounts(1500) || !f.GPUs.Any || f.GPUs.Amounts != f.Size.Extended || f.Resources.Name(0) != "alibabacloud.com/gpu-milli" {
		t.Errorf("the flavor is %+v, want 1.5 GPUs", f)
	}
	sizes := []packing.Extended{s.Workload.Pods[0].Size.Extended, s.Workload.Traces[0].Pods[0].Size.Extended}
	for _, k := range s.TaskKinds {
		if k.Name == "k" {
			sizes = append(sizes, k.Size.Extended)
		}
	}
	if want := []packing.Extended{packing.Amounts(250), packing.Amounts(1200), packing.Amounts(2000)}; !slices.Equal(sizes, want) {
		t.Errorf("pods have %v, want %v", sizes, want)
	}
	if s := read(t, head+fmt.Sprintf(rest, "0")); s.Flavors[0].GPUs.Any || s.Workload.Traces[0].Pods[0].Size.Extended != (packing.Extended{}) {
		t.Errorf("without GPUs on machines, those of a trace count: %+v", s.Workload.Traces[0].Pods)
	}
}
