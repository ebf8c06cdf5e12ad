package powerquery_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/bill"
	"supercargo.dev/supercargo/energy/powerquery"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// noon is the time of the tests.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// history is a store with Prometheus' own engine. Samples are added when it is queried because they must be in
// chronological order.
type history struct {
	*store.Store
	t    *testing.T
	left []sample
}

type sample struct {
	at     time.Time
	series labels.Labels
	value  float64
}

// Query implements promql.Querier.
func (h *history) Query(ctx context.Context, expression string, at time.Time) ([]promql.Sample, error) {
	slices.SortStableFunc(h.left, func(a, b sample) int { return a.at.Compare(b.at) })
	a := h.Appender(ctx)
	for _, s := range h.left {
		if _, err := a.Append(0, s.series, 0, s.at.UnixMilli(), s.value, nil, nil, storage.AOptions{}); err != nil {
			return nil, errors.Join(err, a.Rollback())
		}
	}
	h.left = nil
	if err := a.Commit(); err != nil {
		return nil, err
	}
	return h.Store.Query(ctx, expression, at)
}

func open(t *testing.T) *history {
	t.Helper()
	o := store.Defaults()
	o.Dir, o.Clock, o.Log = t.TempDir(), clocktesting.NewFakePassiveClock(noon), testr.New(t)
	s, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &history{Store: s, t: t}
}

const every = 15 * time.Second

// put fills a series, given as name, value, name, value, with samples every 15 s between two times in minutes after
// noon. value is called with seconds after noon.
func (h *history) put(from, to float64, value func(second float64) float64, series ...string) {
	for second := math.Round(from * 60); second <= math.Round(to*60); second += every.Seconds() {
		h.left = append(h.left, sample{noon.Add(time.Duration(second) * time.Second), labels.FromStrings(series...), value(second)})
	}
}

func always(v float64) func(float64) float64 { return func(float64) float64 { return v } }

// counting returns a counter that grows at a constant rate per second.
func counting(perSecond float64) func(float64) float64 {
	return func(second float64) float64 { return (second + 3600) * perSecond }
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)) }

func roughly(a, b float64) bool { return math.Abs(a-b) <= 0.1*b }

func meter(t *testing.T, h *history, preset string) powerquery.Meter {
	t.Helper()
	p, err := powerquery.ByName(preset)
	if err != nil {
		t.Fatal(err)
	}
	return powerquery.Meter{Querier: h, Preset: p, Limits: energy.Limits{MaxAge: 2 * time.Minute, Rated: 1000}}
}

// TestKeplersZonesAreNotAddedUp checks that only packages of several sockets are added up.
func TestKeplersZonesAreNotAddedUp(t *testing.T) {
	h := open(t)
	for zone, watts := range map[string]float64{"package": 50, "core": 30, "uncore": 5, "dram": 7, "psys": 120} {
		for _, socket := range []string{"0", "1"} {
			h.put(-30, 0, always(watts), "__name__", "kepler_node_cpu_watts", "node_name", "a", "zone", zone, "path", "/sys/"+zone+socket, "instance", "10.0.0.7:28282")
		}
	}
	h.put(-30, -1, always(40), "__name__", "kepler_node_cpu_watts", "node_name", "b", "zone", "package", "path", "/sys/package0")
	nodes, tally, err := meter(t, h, powerquery.Kepler).Read(t.Context(), noon.Add(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if a := nodes["a"]; a.Watts != 100 || a.Source != energy.SourceKepler || !a.At.Equal(noon) {
		t.Errorf("node a: %+v, want 100 W, ten seconds old", a)
	}
	if b, ok := nodes["b"]; ok {
		t.Errorf("node b: %+v, want nothing: a sample of a minute ago is no longer current", b)
	}
	if tally.Counts.Of(energy.Sound) != 1 {
		t.Errorf("%+v", tally)
	}
	used, _, err := meter(t, h, powerquery.Kepler).Used(t.Context(), noon.Add(-10*time.Minute), noon)
	if err != nil || !near(float64(used["a"].Measured), 60_000) || used["a"].Covered != 10*time.Minute {
		t.Errorf("%+v, %v; want 60 kJ of node a", used, err)
	}
	if b := used["b"]; b.Covered < 9*time.Minute || b.Covered > 10*time.Minute || !near(float64(b.Measured), 40*b.Covered.Seconds()) {
		t.Errorf("node b used %+v, want 40 W for some nine minutes", b)
	}
}

// TestNodeExportersCountersGivePower checks that packages and memory are added up, without duplicates, on nodes with
// and without memory counters.
func TestNodeExportersCountersGivePower(t *testing.T) {
	h := open(t)
	a := []string{"instance", "a:9100", "job", "node"}
	h.put(-30, 0, counting(50), append([]string{"__name__", "node_rapl_package_joules_total", "index", "0", "path", "/sys/class/powercap/intel-rapl:0"}, a...)...)
	h.put(-30, 0, counting(60), append([]string{"__name__", "node_rapl_package_joules_total", "index", "1", "path", "/sys/class/powercap/intel-rapl:1"}, a...)...)
	h.put(-30, 0, counting(50), append([]string{"__name__", "node_rapl_package_joules_total", "index", "0", "path", "/sys/class/powercap/intel-rapl-mmio:0"}, a...)...)
	h.put(-30, 0, counting(40), append([]string{"__name__", "node_rapl_core_joules_total", "index", "0", "path", "/sys/class/powercap/intel-rapl:0:0"}, a...)...)
	h.put(-30, 0, counting(10), append([]string{"__name__", "node_rapl_dram_joules_total", "index", "0", "path", "/sys/class/powercap/intel-rapl:0:2"}, a...)...)
	h.put(-30, 0, counting(70), "__name__", "node_rapl_package_joules_total", "index", "0", "node", "b", "instance", "10.0.0.8:9100")
	nodes, _, err := meter(t, h, powerquery.NodeExporter).Read(t.Context(), noon)
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes) != 2 || !near(float64(nodes["a"].Watts), 120) || !near(float64(nodes["b"].Watts), 70) || nodes["b"].Source != energy.SourceNodeExporter {
		t.Errorf("%+v, want 120 W of a and 70 W of b", nodes)
	}
}

// TestCountersThatDoNotMoveGiveNoPower: in a virtual machine, the counters may be shown and never updated. No computer
// draws 0 W.
func TestCountersThatDoNotMoveGiveNoPower(t *testing.T) {
	h := open(t)
	h.put(-30, 0, always(0), "__name__", "kepler_node_cpu_watts", "zone", "package", "path", "/sys/package0", "node_name", "a", "instance", "10.0.0.5:28282")
	h.put(-30, 0, always(7e6), "__name__", "node_rapl_package_joules_total", "index", "0", "path", "/sys/class/powercap/intel-rapl:0", "node", "a", "instance", "10.0.0.5:9100")
	for _, preset := range []string{powerquery.Kepler, powerquery.NodeExporter} {
		if now, _, err := meter(t, h, preset).Read(t.Context(), noon); err != nil || len(now) > 0 {
			t.Errorf("%s: %+v, %v, want no reading", preset, now, err)
		}
		if used, _, err := meter(t, h, preset).Used(t.Context(), noon.Add(-10*time.Minute), noon); err != nil || used["a"].Covered > 0 {
			t.Errorf("%s: %+v, %v, want nothing known", preset, used, err)
		}
	}
}

// TestWhatIsScrapedTwiceCountsOnce: each exporter is scraped by two jobs, and two replicas of kube-state-metrics export
// the same pods.
func TestWhatIsScrapedTwiceCountsOnce(t *testing.T) {
	h := open(t)
	for _, job := range []string{"monitors", "annotations"} {
		for _, socket := range []string{"0", "1"} {
			path := "/sys/class/powercap/intel-rapl:" + socket
			h.put(-30, 0, always(40), "__name__", "kepler_node_cpu_watts", "zone", "package", "path", path, "node_name", "a", "instance", "10.0.0.5:28282", "job", job)
			h.put(-30, 0, counting(30), "__name__", "node_rapl_package_joules_total", "index", socket, "path", path, "node", "a", "instance", "10.0.0.5:9100", "job", job)
			h.put(-30, 0, counting(5), "__name__", "node_rapl_dram_joules_total", "index", socket, "path", path, "node", "a", "instance", "10.0.0.5:9100", "job", job)
		}
		for _, container := range []string{"one", "two"} {
			h.put(-30, 0, always(0.5), "__name__", "kube_pod_container_resource_requests", "resource", "cpu", "container", container, "namespace", "shop", "pod", "web-0", "node", "a", "instance", job)
			h.put(-30, 0, counting(0.25), "__name__", "container_cpu_usage_seconds_total", "container", container, "namespace", "shop", "pod", "web-0", "instance", "a:10250", "job", job)
		}
		h.put(-30, 0, always(1), "__name__", "kube_pod_status_phase", "phase", "Running", "namespace", "shop", "pod", "web-0", "instance", job)
		h.put(-30, 0, always(1), "__name__", "kube_pod_info", "namespace", "shop", "pod", "db-0", "node", "a", "instance", job)
		h.put(-30, 0, counting(0.125), "__name__", "pod_cpu_usage_seconds_total", "namespace", "shop", "pod", "db-0", "instance", "a:10250", "job", job)
	}
	for preset, watts := range map[string]float64{powerquery.Kepler: 80, powerquery.NodeExporter: 70} {
		now, _, err := meter(t, h, preset).Read(t.Context(), noon)
		if err != nil || !near(float64(now["a"].Watts), watts) {
			t.Errorf("%s: %+v, %v, want %v W", preset, now, err, watts)
		}
		used, _, err := meter(t, h, preset).Used(t.Context(), noon.Add(-10*time.Minute), noon)
		if err != nil || !near(float64(used["a"].Measured), 600*watts) {
			t.Errorf("%s: %+v, %v, want %v J in ten minutes", preset, used, err, 600*watts)
		}
	}
	observed, _, err := powerquery.Observer{Power: meter(t, h, powerquery.Kepler), Querier: h}.Observe(t.Context(), noon.Add(-10*time.Minute), noon, 10*time.Minute, nil)
	if err != nil || len(observed) != 1 || len(observed[0].Pods) != 2 {
		t.Fatalf("%+v, %v, want two pods in one slice", observed, err)
	}
	if db, web := observed[0].Pods[0], observed[0].Pods[1]; !near(*db.Used, 0.125) || !near(*web.Used, 0.5) || !near(web.Requested, 1) {
		t.Errorf("db-0 used %v cores, web-0 %v of %v, want 0.125, and 0.5 of 1", *db.Used, *web.Used, web.Requested)
	}
}

// TestOurOwnMetersKeepWhatTheyAre checks that measured and modelled energy stay separate.
func TestOurOwnMetersKeepWhatTheyAre(t *testing.T) {
	h := open(t)
	for _, s := range []struct {
		from, to, watts float64
		source, kind    string
	}{{-30, -4, 80, "model", "modelled"}, {-3.75, 0, 50, "rapl", "measured"}} {
		// The counter of the model stops when there is a meter.
		h.put(s.from, 0, func(second float64) float64 { return (min(second, s.to*60) - s.from*60) * s.watts },
			"__name__", "supercargo_node_energy_joules_total", "node", "a", "source", s.source, "kind", s.kind)
		h.put(s.from, s.to, always(s.watts), "__name__", "supercargo_node_power_watts", "node", "a", "source", s.source, "kind", s.kind)
		h.put(s.from, s.to, func(second float64) float64 { return float64(noon.Unix()) + second - 1 },
			"__name__", "supercargo_node_power_reading_timestamp_seconds", "node", "a", "source", s.source, "kind", s.kind)
	}
	m := meter(t, h, powerquery.Supercargo)
	nodes, _, err := m.Read(t.Context(), noon)
	if a := nodes["a"]; err != nil || a.Watts != 50 || a.Source != energy.SourceRAPL || a.Age(noon) != time.Second {
		t.Errorf("%+v, %v", nodes, err)
	}
	used, _, err := m.Used(t.Context(), noon.Add(-10*time.Minute), noon)
	u := used["a"]
	if err != nil || u.Covered != 10*time.Minute || !roughly(float64(u.Modelled), 360*80) || !roughly(float64(u.Measured), 240*50) {
		t.Errorf("%+v, %v; want some six minutes of 80 W and four of 50 W", used, err)
	}
}

func TestWhatPodsHadOfTheirNodes(t *testing.T) {
	h := open(t)
	power := func(node string, watts float64) {
		h.put(-30, 0, always(watts), "__name__", "supercargo_node_power_watts", "node", node, "source", "rapl", "kind", "measured")
		h.put(-30, 0, counting(watts), "__name__", "supercargo_node_energy_joules_total", "node", node, "source", "rapl", "kind", "measured")
	}
	power("a", 100)
	power("b", 60)
	power("c", 30)
	h.put(-30, 0, always(1), "__name__", "supercargo_node_ready", "node", "c", "machine_type", "tiny")
	h.put(-30, 0, always(2), "__name__", "supercargo_node_allocatable", "node", "c", "machine_type", "tiny", "resource", "cpu")
	h.put(-30, 0, always(1<<30), "__name__", "supercargo_node_allocatable", "node", "c", "machine_type", "tiny", "resource", "memory")
	h.put(-30, 0, always(1), "__name__", "supercargo_node_info", "node", "a", "machine_type", "big", "zone", "eu-1", "arch", "amd64", "power_model", "")
	h.put(-30, 0, always(1), "__name__", "kube_node_labels", "node", "a", "label_node_kubernetes_io_instance_type", "other")
	h.put(-30, 0, always(1), "__name__", "kube_node_labels", "node", "b", "label_node_kubernetes_io_instance_type", "small", "label_topology_kubernetes_io_zone", "eu-2")
	h.put(-30, 0, always(8), "__name__", "supercargo_node_allocatable_cores", "node", "a")
	h.put(-30, 0, always(4), "__name__", "kube_node_status_allocatable", "node", "b", "resource", "cpu", "unit", "core")
	// web is known to kube-scheduler and to kube-state-metrics, and must not count twice.
	web := []string{"namespace", "shop", "pod", "web-6c5bd9f4b8-x7k2p", "node", "a"}
	h.put(-30, 0, always(2), append([]string{"__name__", "kube_pod_resource_request", "resource", "cpu", "unit", "cores", "scheduler", "default"}, web...)...)
	h.put(-30, 0, always(2), append([]string{"__name__", "kube_pod_container_resource_requests", "resource", "cpu", "container", "main"}, web...)...)
	h.put(-30, 0, always(1<<30), append([]string{"__name__", "kube_pod_resource_request", "resource", "memory", "unit", "bytes"}, web...)...)
	h.put(-30, 0, counting(1.5), "__name__", "container_cpu_usage_seconds_total", "namespace", "shop", "pod", "web-6c5bd9f4b8-x7k2p", "container", "main")
	h.put(-30, 0, counting(1.6), "__name__", "container_cpu_usage_seconds_total", "namespace", "shop", "pod", "web-6c5bd9f4b8-x7k2p", "container", "") // the pod's own cgroup
	// train is known only to kube-state-metrics, has two containers, and ended half way through. Its request is
	// exported until the pod is deleted.
	for _, container := range []string{"one", "two"} {
		h.put(-30, 0, always(0.5), "__name__", "kube_pod_container_resource_requests", "resource", "cpu", "container", container, "namespace", "jobs", "pod", "train-0-bcdfg", "node", "b")
	}
	h.put(-30, 0, func(second float64) float64 {
		if second < -300 {
			return 1
		}
		return 0
	}, "__name__", "kube_pod_status_phase", "phase", "Running", "namespace", "jobs", "pod", "train-0-bcdfg")
	h.put(-30, 0, always(1), "__name__", "kube_pod_owner", "namespace", "jobs", "pod", "train-0-bcdfg", "owner_kind", "Job", "owner_name", "train")
	// idle requests nothing and uses some CPU; forgotten has neither.
	for _, pod := range []string{"idle", "forgotten"} {
		h.put(-30, 0, always(1), "__name__", "kube_pod_info", "namespace", "jobs", "pod", pod, "node", "b", "host_ip", "10.0.0.2")
	}
	h.put(-30, 0, counting(0.25), "__name__", "pod_cpu_usage_seconds_total", "namespace", "jobs", "pod", "idle")

	// db moves to another node under its name: its use counts where it was for longer.
	db := []string{"__name__", "kube_pod_resource_request", "resource", "cpu", "namespace", "shop", "pod", "db-0", "node"}
	h.put(-30, -12, always(1), append(slices.Clone(db), "a")...)
	h.put(-11.5, 0, always(1), append(slices.Clone(db), "b")...)
	h.put(-30, 0, counting(0.5), "__name__", "pod_cpu_usage_seconds_total", "namespace", "shop", "pod", "db-0")

	// batch is known only to the metrics adapter and to the kubelet.
	h.put(-30, 0, always(0.5), "__name__", "supercargo_pod_requested", "resource", "cpu", "namespace", "jobs", "pod", "batch-29471040-x7k2p", "node", "c",
		"owner_kind", "Job", "owner_name", "batch-29471040")
	h.put(-30, 0, counting(0.75), "__name__", "pod_cpu_usage_seconds_total", "namespace", "jobs", "pod", "batch-29471040-x7k2p", "node", "c", "job", "kubelets")

	o := powerquery.Observer{Power: meter(t, h, powerquery.Supercargo), Querier: h}
	var told []int
	observed, tally, err := o.Observe(t.Context(), noon.Add(-15*time.Minute), noon, 10*time.Minute, func(done, all int) { told = append(told, done, all) })
	if err != nil {
		t.Fatal(err)
	}
	if len(observed) != 2 || !slices.Equal(told, []int{1, 2, 2, 2}) || tally.Counts.Of(energy.Sound) != 6 {
		t.Fatalf("%d slices, progress %v, %+v; want ten minutes and five", len(observed), told, tally)
	}
	last := observed[1]
	if !last.From.Equal(noon.Add(-5*time.Minute)) || !last.To.Equal(noon) {
		t.Errorf("the last slice is from %v to %v", last.From, last.To)
	}
	wantNodes := []bill.Node{
		{Name: "a", MachineType: "big", Zone: "eu-1", Cores: 8, Energy: energy.Usage{Measured: 60_000, Covered: 10 * time.Minute}},
		{Name: "b", MachineType: "small", Zone: "eu-2", Cores: 4, Energy: energy.Usage{Measured: 36_000, Covered: 10 * time.Minute}},
		{Name: "c", MachineType: "tiny", Cores: 2, Energy: energy.Usage{Measured: 18_000, Covered: 10 * time.Minute}},
	}
	for i := range observed[0].Nodes { // rounding of rates
		u := &observed[0].Nodes[i].Energy
		u.Measured = energy.Joules(math.Round(float64(u.Measured)))
	}
	if !slices.Equal(observed[0].Nodes, wantNodes) {
		t.Errorf("nodes are %+v, want %+v", observed[0].Nodes, wantNodes)
	}
	wantPods := []bill.Pod{
		{Namespace: "jobs", Name: "batch-29471040-x7k2p", Workload: "batch", Node: "c", Requested: 0.5, Used: new(float64(0.75))},
		{Namespace: "jobs", Name: "idle", Workload: "idle", Node: "b", Requested: 0, Used: new(float64(0.25))},
		{Namespace: "jobs", Name: "train-0-bcdfg", Workload: "train", Node: "b", Requested: 1},
		{Namespace: "shop", Name: "db-0", Workload: "db", Node: "b", Requested: 0.65, Used: new(float64(0.5))},
		{Namespace: "shop", Name: "db-0", Workload: "db", Node: "a", Requested: 0.35, Used: new(float64(0))},
		{Namespace: "shop", Name: "web-6c5bd9f4b8-x7k2p", Workload: "web", Node: "a", Requested: 2, Used: new(float64(1.5))},
	}
	checkPods(t, "the first ten minutes", observed[0].Pods, wantPods)
	wantPods = slices.Delete(wantPods, 2, 3) // it has ended
	wantPods = slices.Delete(wantPods, 3, 4) // it has moved
	wantPods[2].Requested = 1
	checkPods(t, "the last five minutes", last.Pods, wantPods)
}

func checkPods(t *testing.T, when string, got, want []bill.Pod) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %+v, want %+v", when, got, want)
	}
	for i, p := range got {
		if math.Abs(p.Requested-want[i].Requested) > 0.11 || (p.Used == nil) != (want[i].Used == nil) || p.Used != nil && math.Abs(*p.Used-*want[i].Used) > 0.01 {
			t.Errorf("%s: %+v, want %+v", when, p, want[i])
		}
		p.Requested, p.Used = want[i].Requested, want[i].Used
		if p != want[i] {
			t.Errorf("%s: %+v, want %+v", when, p, want[i])
		}
	}
}

// TestWhatNodesAreHoldsBetweenWrites checks slices shorter than two and a half minutes, the interval at which the
// adapter writes unchanged values.
func TestWhatNodesAreHoldsBetweenWrites(t *testing.T) {
	h := open(t)
	h.put(-30, 0, always(100), "__name__", "supercargo_node_power_watts", "node", "a", "source", "rapl", "kind", "measured")
	h.put(-30, 0, counting(100), "__name__", "supercargo_node_energy_joules_total", "node", "a", "source", "rapl", "kind", "measured")
	h.put(-3, -2.5, always(1), "__name__", "supercargo_node_ready", "node", "a", "machine_type", "tiny")
	h.put(-3, -2.5, always(4), "__name__", "supercargo_node_allocatable", "node", "a", "machine_type", "tiny", "resource", "cpu")
	o := powerquery.Observer{Power: meter(t, h, powerquery.Supercargo), Querier: h}
	observed, _, err := o.Observe(t.Context(), noon.Add(-time.Minute), noon, powerquery.SampleEvery, nil)
	if err != nil || len(observed) != 2 {
		t.Fatalf("%d slices, %v, want 2", len(observed), err)
	}
	for _, s := range observed {
		if len(s.Nodes) != 1 || s.Nodes[0].Cores != 4 || s.Nodes[0].MachineType != "tiny" {
			t.Errorf("at %v nodes are %+v, want one with 4 cores of type tiny", s.From, s.Nodes)
		}
	}
}

// TestWhereNobodyMeasuresAModelSaysWhatNodesUsed uses the measurements of kubelets where there are some, else requests.
func TestWhereNobodyMeasuresAModelSaysWhatNodesUsed(t *testing.T) {
	h := open(t)
	machine := func(name, machineType string, from, cores float64) {
		h.put(from, 0, always(1), "__name__", "supercargo_node_ready", "node", name, "machine_type", machineType)
		h.put(from, 0, always(cores), "__name__", "supercargo_node_capacity", "node", name, "machine_type", machineType, "resource", "cpu")
	}
	machine("used", "big", -30, 8)
	machine("asked", "big", -30, 8)
	machine("empty", "big", -30, 8)
	machine("late", "", -5, 4)
	for _, job := range []string{"kubelets", "monitors"} { // the kubelet is scraped by two jobs, and used 4 cores
		h.put(-30, 0, counting(4), "__name__", "pod_cpu_usage_seconds_total", "namespace", "x", "pod", "p", "node", "used", "job", job)
	}
	h.put(-30, 0, always(1), "__name__", "supercargo_pod_requested", "resource", "cpu", "namespace", "x", "pod", "p", "node", "used")
	h.put(-30, 0, always(2), "__name__", "supercargo_pod_requested", "resource", "cpu", "namespace", "x", "pod", "q", "node", "asked")
	h.put(-30, 0, always(2), "__name__", "kube_node_status_capacity", "resource", "cpu", "node", "other")
	m := powerquery.Model{Querier: h, Power: func(machineType string, cores float64) energy.Model {
		if machineType == "big" {
			return energy.Model{Idle: 50, Full: 130}
		}
		return energy.Model{Idle: energy.Watts(cores), Full: energy.Watts(2 * cores)}
	}}
	used, tally, err := m.Used(t.Context(), noon.Add(-10*time.Minute), noon)
	if err != nil {
		t.Fatal(err)
	}
	for name, watts := range map[string]float64{"used": 90, "asked": 70, "empty": 50, "late": 4, "other": 2} {
		u := used[name]
		if u.Measured != 0 || !near(float64(u.Modelled), watts*u.Covered.Seconds()) || u.Covered+u.Gaps != 10*time.Minute {
			t.Errorf("%s used %+v, want %v W", name, u, watts)
		}
		if want := map[bool]time.Duration{true: 5*time.Minute + 30*time.Second, false: 10 * time.Minute}[name == "late"]; u.Covered > want || u.Covered < want-time.Minute {
			t.Errorf("%s is known for %v, want some %v", name, u.Covered, want)
		}
	}
	if len(used) != 5 || tally.Counts.Of(energy.Sound) != 5 {
		t.Errorf("%d nodes, %+v", len(used), tally)
	}
	if _, _, err := m.Used(t.Context(), noon.Add(-time.Second), noon); err == nil {
		t.Error("it answers for a second")
	}
}

func TestTooShortATimeIsRefused(t *testing.T) {
	h := open(t)
	o := powerquery.Observer{Power: meter(t, h, powerquery.Kepler), Querier: h}
	for _, times := range [][2]time.Duration{{time.Second, time.Minute}, {time.Hour, time.Second}} {
		if _, _, err := o.Observe(t.Context(), noon.Add(-times[0]), noon, times[1], nil); err == nil {
			t.Errorf("%v can be checked in slices of %v", times[0], times[1])
		}
	}
}
