package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/cmd/supercargo-lab/cli"
	"supercargo.dev/supercargo/test/kit/commandtest"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// demoOutcome contains the fields of one profile that scripts read.
type demoOutcome struct {
	Name                     string
	PodsCreated              int
	PodsBound                int
	PodsNeverBound           int
	NodesUsedMean            float64
	NodesUsedPeak            int
	CPUUtilizationPercent    float64
	MemoryUtilizationPercent float64
	DollarsPerHour           float64
	TimeToBindMeanSeconds    float64
}

// TestDemoComparesTheProfiles replays 40 small pods on six machines, any one of which could hold them all,
// with both profiles on a real control plane.
func TestDemoComparesTheProfiles(t *testing.T) {
	var trace strings.Builder
	trace.WriteString("name,arrival_s,cpu_milli,memory_mib,runtime_s,class\n")
	for i := range 40 {
		fmt.Fprintf(&trace, "pod-%02d,%d,100,128,1000,%s\n", i, i*10, []string{"batch", "service"}[i%2])
	}
	code, stdout, stderr := demo(t, trace.String(), "name,cpu,memory_gib,price_per_hour\nsmall,4,8,0.1\nlarge,8,16,0.25\n",
		"--nodes", "6", "--duration", "10s", "--time-scale", "100", "-o", "json") // the last pod has one second to be bound
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	var doc struct {
		Profiles []demoOutcome
		Cluster  struct{ Nodes, MilliCPU int }
	}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	if err := decoder.Decode(&doc); err != nil || decoder.More() {
		t.Fatalf("stdout is not one JSON document (%v):\n%s", err, stdout)
	}
	for _, fault := range commandtest.Demo.Faults(stdout) {
		t.Error(fault)
	}
	if doc.Cluster.Nodes != 6 || doc.Cluster.MilliCPU != 36_000 || len(doc.Profiles) != 2 {
		t.Fatalf("document is %+v, want six nodes with 36 cores and two profiles", doc)
	}
	for i, name := range []string{"default", "supercargo"} {
		checkOutcome(t, name, doc.Profiles[i])
	}
	stock, ours := doc.Profiles[0], doc.Profiles[1]
	if stock.NodesUsedPeak != 6 || ours.NodesUsedPeak != 1 {
		t.Errorf("%d and %d nodes used at most, want the stock profile to spread over 6 and ours to pack on 1", stock.NodesUsedPeak, ours.NodesUsedPeak)
	}
	if !(ours.DollarsPerHour < stock.DollarsPerHour) {
		t.Errorf("ours costs %v $/h, want less than the stock profile's %v", ours.DollarsPerHour, stock.DollarsPerHour)
	}
}

// checkOutcome checks properties that do not depend on the scheduler.
func checkOutcome(t *testing.T, name string, o demoOutcome) {
	t.Helper()
	if o.Name != name || o.PodsCreated != 40 || o.PodsBound != 40 || o.PodsNeverBound != 0 {
		t.Errorf("outcome is %+v, want profile %s with 40 pods created and bound", o, name)
	}
	if !(o.NodesUsedMean > 0 && o.NodesUsedMean <= float64(o.NodesUsedPeak)) {
		t.Errorf("%s: %v nodes on average and %d at most", name, o.NodesUsedMean, o.NodesUsedPeak)
	}
	if !(o.CPUUtilizationPercent > 0 && o.CPUUtilizationPercent <= 100) || !(o.MemoryUtilizationPercent > 0 && o.MemoryUtilizationPercent <= 100) {
		t.Errorf("%s: utilisation is %v %% and %v %%", name, o.CPUUtilizationPercent, o.MemoryUtilizationPercent)
	}
	if !(o.TimeToBindMeanSeconds > 0 && o.DollarsPerHour > 0) {
		t.Errorf("%s: time to bind is %v s, price %v $/h", name, o.TimeToBindMeanSeconds, o.DollarsPerHour)
	}
}

// TestDemoSaysWhatIsWrongWithASchedulerConfiguration runs the demo up to the start of a scheduler.
func TestDemoSaysWhatIsWrongWithASchedulerConfiguration(t *testing.T) {
	config := filepath.Join(t.TempDir(), "scheduler.yaml")
	const content = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{plugins: {score: {enabled: [{name: NoSuch}]}}}]\n"
	testfile.Write(t, config, content)
	code, stdout, stderr := demo(t, "arrival_s,cpu_milli,memory_mib,runtime_s\n0,1,1,1\n", "name,cpu,memory_gib,price_per_hour\na,1,1,1\n",
		"--nodes", "1", "--profile", "supercargo", "--scheduler-config", config)
	if code != 2 || stdout != "" || !strings.Contains(stderr, config) || !strings.Contains(stderr, "NoSuch") {
		t.Errorf("exit code %d, stdout %q, stderr\n%s\nwant code 2 and an error that names the file and the plugin", code, stdout, stderr)
	}
}

// demo runs `supercargo demo` in this process on the given trace and flavors.
func demo(t *testing.T, trace, flavors string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"trace.csv": trace, "flavors.csv": flavors} {
		testfile.Write(t, filepath.Join(dir, name), content)
	}
	args = append([]string{"supercargo", "demo", "--fleet=false", "--trace", filepath.Join(dir, "trace.csv"), "--flavors", filepath.Join(dir, "flavors.csv")}, args...)
	var out, errs bytes.Buffer
	code = cli.Main(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// TestDemoShowsAFleetThatGrowsAndShrinks replays ten pods that come at once, and a last one at the end, on
// machines that are bought for them, and then consolidates Jobs.
func TestDemoShowsAFleetThatGrowsAndShrinks(t *testing.T) {
	var trace strings.Builder
	trace.WriteString("name,arrival_s,cpu_milli,memory_mib,runtime_s,class\n")
	for i := range 10 {
		fmt.Fprintf(&trace, "pod-%02d,0,900,512,500,batch\n", i)
	}
	trace.WriteString("last,1000,100,128,100,batch\n")
	code, stdout, stderr := demo(t, trace.String(), "name,cpu,memory_gib,price_per_hour\nsmall,4,8,0.1\nlarge,10,16,0.2\n",
		"--fleet", "--nodes", "4", "--duration", "25s", "--fleet-duration", "25s", "--time-scale", "50", "--profile", "supercargo", "-o", "json")
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	var doc struct {
		Cluster struct{ DollarsPerHour float64 }
		Fleet   struct {
			PodsBound, MachinesPeak, MachinesEnd int
			DollarsPerHour, FixedDollarsPerHour  float64
			Course                               []struct{ Machines int }
			Flavors                              []struct{ Flavor string }
			LastDecision                         string
			Consolidation                        struct {
				Jobs, JobsFailed, Migrations, MachinesBefore, MachinesAfter int
				DollarsPerHourBefore, DollarsPerHourAfter                   float64
			}
		}
	}
	testfile.JSON(t, stdout, &doc)
	for _, fault := range commandtest.DemoFleet.Faults(stdout) {
		t.Error(fault)
	}
	f := doc.Fleet
	if f.PodsBound < 10 || f.MachinesPeak < 1 || f.MachinesEnd != 0 || len(f.Flavors) == 0 || f.Flavors[0].Flavor != "large" && f.Flavors[len(f.Flavors)-1].Flavor != "large" {
		t.Errorf("the fleet is %+v, want ten pods on a large machine, and none in the end", f)
	}
	if !(f.DollarsPerHour > 0) || !(f.DollarsPerHour < f.FixedDollarsPerHour) || f.FixedDollarsPerHour != doc.Cluster.DollarsPerHour {
		t.Errorf("$%v/h are paid, $%v/h for the fixed cluster", f.DollarsPerHour, f.FixedDollarsPerHour)
	}
	if len(f.Course) < 3 || f.LastDecision == "" {
		t.Errorf("the course is %v, the last decision %q", f.Course, f.LastDecision)
	}
	c := f.Consolidation
	if c.Jobs != 18 || c.JobsFailed != 0 || c.Migrations == 0 || c.MachinesAfter >= c.MachinesBefore || c.DollarsPerHourAfter >= c.DollarsPerHourBefore {
		t.Errorf("the consolidation is %+v, want half of the Jobs moved together, on fewer machines for less, and none failed", c)
	}
}
