package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/replay"
	"supercargo.dev/supercargo/lab/report"
	"supercargo.dev/supercargo/test/data"
	"supercargo.dev/supercargo/test/kit/commandtest"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// bundled returns the trace of the demo.
func bundled(t *testing.T) *trace.Trace {
	t.Helper()
	workload, err := trace.Read("openb/pods.csv", strings.NewReader(data.OpenbPods))
	if err != nil {
		t.Fatal(err)
	}
	return workload
}

// example returns a small document with a saving of one half.
func example(t *testing.T) *Document {
	t.Helper()
	workload := bundled(t)
	flavors, err := catalogue.ReadFlavors("aws/flavors.csv", strings.NewReader(data.AWSFlavors))
	if err != nil {
		t.Fatal(err)
	}
	in := &Input{TraceName: "bundled openb extract", Workload: workload, Flavors: flavors, Nodes: 9}
	doc := newDocument(in, replay.Scale{Arrivals: 20, Lifetimes: 10}, []report.Machine{
		{MilliCPU: 1000, MemoryBytes: 1 << 30, MicroDollarsPerHour: 100_000},
		{MilliCPU: 2000, MemoryBytes: 1 << 30, MicroDollarsPerHour: 250_000},
	})
	usage := report.Usage{
		Window: 2 * time.Second, PodsCreated: 10, PodsBound: 8, PodsNeverBound: 2, NodesUsedPeak: 4, NodesUsedMean: 3,
		CPUUtilisation: 0.25, MemoryUtilisation: 0.5, MicroDollarsPerHour: 4_000_000, BindMean: 10 * time.Millisecond,
	}
	doc.add("default", usage, &replay.Result{})
	usage.MicroDollarsPerHour /= 2
	usage.CPUUtilisation *= 2
	doc.add("supercargo", usage, &replay.Result{Retries: 3})
	return doc
}

func TestDemoTableSetsTheProfilesSideBySide(t *testing.T) {
	var out bytes.Buffer
	if err := example(t).WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	squeezed := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"1200 pods (1049 batch) of the bundled openb extract on 2 nodes of 8 flavors, 2 s with each profile.",
		"Arrivals come 20 times as fast as recorded, lifetimes pass 10 times as fast.",
		"Requests for GPUs are ignored", "Ignored columns: num_gpu, gpu_milli, gpu_spec, pod_phase.",
		"default supercargo difference",
		"pods bound 8 8 +0.0 %", "nodes used, mean 3.0 3.0 +0.0 %",
		"CPU utilisation of used nodes 25.0 % 50.0 % +100.0 %",
		"dollars per hour of used nodes 4.00 2.00 -50.0 %",
		"time to bind, mean 0.010 s 0.010 s", "time to bind, 95th percentile 0.000 s 0.000 s A node",
		"only used nodes are paid for",
	} {
		if !strings.Contains(squeezed, want) {
			t.Errorf("table is\n%s\nwant it to contain %s", out.String(), want)
		}
	}
}

func TestOneOfAThingIsSingular(t *testing.T) {
	doc := example(t)
	doc.Trace.Pods, doc.Cluster.Nodes, doc.Cluster.Flavors = 1, 1, doc.Cluster.Flavors[:1]
	doc.Fleet = &Fleet{PodsBound: 1, MachinesPeak: 1, Consolidation: &Consolidation{Migrations: 1, Jobs: 1, JobsFailed: 1, MachinesBefore: 1}}
	var out bytes.Buffer
	if err := doc.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	doc.Fleet.PodsNeverBound, doc.Fleet.PodsBound = 1, 0
	out.WriteString(doc.Fleet.bill())
	for _, want := range []string{
		"1 pod (1049 batch) of the bundled openb extract on 1 node of 1 flavor,", "\n1 pod bound, 0 never;", "\n1 machine at the peak",
		"\n1 migration, each", "; 1 Job, 1 failure.", "\n1 machine for $", "because 1 of 1 pod ended before it had a machine",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it says\n%s\nwant it to say %q", out.String(), want)
		}
	}
}

func TestABillIsComparedOnlyForTheSameWork(t *testing.T) {
	for _, tc := range []struct {
		never     int
		want, not string
	}{
		{0, "cost $40.00/h (-75 %).", "too slow"},
		{10, "cost $40.00/h (-75 %).", "too slow"}, // 5 %
		{11, "not comparable with the $40.00/h of the fixed cluster, because 11 of 200 pods", "%)"},
		{200, "because 200 of 200 pods", "%)"},
	} {
		r := Fleet{PodsBound: 200 - tc.never, PodsNeverBound: tc.never, DollarsPerHour: 10, FixedDollarsPerHour: 40}
		if got := r.bill(); !strings.Contains(got, "Paid: $10.00/h") || !strings.Contains(got, tc.want) || strings.Contains(got, tc.not) {
			t.Errorf("with %d pods never bound it says %q, want it to say %q", tc.never, got, tc.want)
		}
	}
}

func TestDemoDocumentCarriesUnitsAndWhatWasIgnored(t *testing.T) {
	var out bytes.Buffer
	if err := example(t).WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Trace struct {
			GPUIgnored     bool
			IgnoredColumns []string
		}
		Cluster struct {
			DollarsPerHour float64
			Flavors        []struct{ Nodes int }
		}
		Profiles []map[string]any
	}
	testfile.JSON(t, out.Bytes(), &doc)
	if !doc.Trace.GPUIgnored || len(doc.Trace.IgnoredColumns) != 4 || doc.Cluster.DollarsPerHour != 0.35 {
		t.Errorf("document is %+v, want GPUs and four columns ignored, and 0.35 dollars per hour", doc)
	}
	if len(doc.Cluster.Flavors) != 8 || doc.Cluster.Flavors[0].Nodes != 2 || doc.Cluster.Flavors[7].Nodes != 1 {
		t.Errorf("flavors are %+v, want 9 nodes of 8 flavors in turn", doc.Cluster.Flavors)
	}
	for name, want := range map[string]any{
		"name": "supercargo", "podsNeverBound": 2.0, "cpuUtilizationPercent": 50.0, "dollarsPerHour": 2.0,
		"timeToBindMeanSeconds": 0.01, "windowSeconds": 2.0, "apiRetries": 3.0,
	} {
		if got := doc.Profiles[1][name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// TestTheJSONOfTheDemoIsThatOfItsContract has a document with every part, of a fleet that bought nothing, too.
func TestTheJSONOfTheDemoIsThatOfItsContract(t *testing.T) {
	for bought, watch := range map[string]*fleetWatch{
		"nothing":   {},
		"a machine": {course: []FleetPoint{{Seconds: 1, Machines: 1}}, peaks: map[string]int{playground.DeploymentName("m"): 1}},
	} {
		doc := example(t)
		doc.Fleet = watch.result(&Input{Flavors: []catalogue.Flavor{{Flavor: cluster.Flavor{Name: "m"}}}}, time.Minute, &pace{slowdown: 1})
		doc.Fleet.Consolidation = newConsolidation([]ConsolidationPoint{{Machines: 3}, {Machines: 2, Moved: 4}}, nil, 0)
		var out bytes.Buffer
		if err := doc.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		for _, fault := range append(commandtest.Demo.Faults(out.String()), commandtest.DemoFleet.Faults(out.String())...) {
			t.Errorf("a fleet that bought %s: %s", bought, fault)
		}
	}
}

func TestDemoProgressIsPlainWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out)
	p.begin("default")
	for s := range 22 {
		p.show(replay.Progress{Elapsed: time.Duration(s) * time.Second, Window: 21 * time.Second, Pods: 5, Created: 3})
	}
	p.end()
	want := []string{
		"profile default: replaying the trace",
		"profile default: 10 of 21 s, 3 of 5 pods created, 0 bound, 0 ended",
		"profile default: 20 of 21 s, 3 of 5 pods created, 0 bound, 0 ended",
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(out.String()), "\n")); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestDemoProgressIsABarOnATerminal(t *testing.T) {
	var out bytes.Buffer
	p := &Progress{w: &out, terminal: true}
	p.begin("default")
	p.show(replay.Progress{Elapsed: 15 * time.Second, Window: 10 * time.Second})
	p.end()
	if got := out.String(); !strings.HasPrefix(got, "\r\x1b[Kdefault    [##############################] 0 of 0") || !strings.HasSuffix(got, "\n") {
		t.Errorf("bar is %q, want it full and ended by a new line", got)
	}
}
