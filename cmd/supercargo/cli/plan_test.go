package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/cli/planfile"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/test/kit/commandtest"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/plancheck"
)

const (
	planPods = "name,cpu_milli,memory_mib,count,arch,class,runtime_s\n" +
		"web,1000,2048,6,,service,\n" +
		"job,1500,1024,4,amd64,batch,600\n" +
		"edge,500,512,,arm64,,\n" +
		"huge,64000,1024,,,,\n"
	planFlavorsCSV = "name,cpu,memory_gib,price_per_hour,arch,machine_type,max_pods\n" +
		"small,2,4,0.10,,,\n" +
		"large,8,16,0.38,amd64,m7,3\n" +
		"arm,2,4,0.08,arm64,,\n"
)

// planInputs writes pods and flavors and returns the flags that name them.
func planInputs(t *testing.T, pods, flavors string) []string {
	t.Helper()
	dir := commandtest.Directory(t, map[string]string{"pods.csv": pods, "flavors.csv": flavors})
	return []string{"plan", "--pods", filepath.Join(dir, "pods.csv"), "--flavors", filepath.Join(dir, "flavors.csv")}
}

// readPlanned decodes the document on stdout. It repeats the field names that scripts use.
func readPlanned(t *testing.T, stdout string) (got planned) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(stdout))
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if _, err := decoder.Token(); err != io.EOF || !strings.HasSuffix(stdout, "}\n") {
		t.Errorf("after the document comes more (%v)", err)
	}
	return got
}

type planned struct {
	Machines []struct {
		Flavor string `json:"flavor"`
		Count  int    `json:"count"`
	} `json:"machines"`
	Assignments []struct {
		Pod     string `json:"pod"`
		Machine string `json:"machine"`
	} `json:"assignments"`
	PricePerHour      float64 `json:"pricePerHour"`
	LowerBoundPerHour float64 `json:"lowerBoundPerHour"`
	Gap               float64 `json:"gap"`
	Unplaceable       []struct {
		Pod    string `json:"pod"`
		Reason string `json:"reason"`
	} `json:"unplaceable"`
	ElapsedMillis float64 `json:"elapsedMillis"`
}

func TestAPlanCostsBetweenItsBoundAndItsGap(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := supercargo(t, "", append(planInputs(t, planPods, planFlavorsCSV), "-o", "json")...)
	if code != command.ExitOK || stderr != "" {
		t.Fatalf("exit code %d and stderr %q, want 0 and nothing", code, stderr)
	}
	got := readPlanned(t, stdout)
	if len(got.Unplaceable) != 1 || got.Unplaceable[0].Pod != "huge" || !strings.Contains(got.Unplaceable[0].Reason, "CPU") {
		t.Errorf("unplaceable are %v, want huge for its CPU", got.Unplaceable)
	}
	if got.LowerBoundPerHour <= 0 || got.LowerBoundPerHour > got.PricePerHour || got.ElapsedMillis <= 0 {
		t.Errorf("price %v, bound %v, %v ms, want a bound between 0 and the price, and some time", got.PricePerHour, got.LowerBoundPerHour, got.ElapsedMillis)
	}
	if want := got.PricePerHour/got.LowerBoundPerHour - 1; math.Abs(got.Gap-want) > 1e-9 {
		t.Errorf("gap %v, want %v", got.Gap, want)
	}
}

// machineOf is a flavor as the checker below sees it.
type machineOf struct {
	milliCPU, mib, pods, microDollars int
	arch                              string
}

// TestPlanOverfillsNoMachine checks the plans against the two input files.
func TestPlanOverfillsNoMachine(t *testing.T) {
	t.Parallel()
	flavors := map[string]machineOf{
		"small": {2000, 4096, 110, 100_000, "amd64"}, // the defaults of a scenario's flavor
		"large": {8000, 16384, 3, 380_000, "amd64"},
		"arm":   {2000, 4096, 110, 80_000, "arm64"},
	}
	type pod struct {
		milliCPU, mib int
		arch          string
	}
	pods := map[string]pod{"edge": {500, 512, "arm64"}}
	for i := range 6 {
		pods[fmt.Sprintf("web-%d", i)] = pod{1000, 2048, ""}
	}
	for i := range 4 {
		pods[fmt.Sprintf("job-%d", i)] = pod{1500, 1024, "amd64"}
	}
	prices := map[string]float64{}
	for _, algorithm := range []string{"greedy", "supercargo"} {
		code, stdout, stderr := supercargo(t, "", append(planInputs(t, planPods, planFlavorsCSV), "-o", "json", "--algorithm", algorithm)...)
		if code != command.ExitOK {
			t.Fatalf("%s: exit code %d: %s", algorithm, code, stderr)
		}
		got := readPlanned(t, stdout)
		prices[algorithm] = got.PricePerHour
		left, price := map[string]machineOf{}, 0
		for _, m := range got.Machines {
			for n := range m.Count {
				left[fmt.Sprintf("%s-%d", m.Flavor, n)] = flavors[m.Flavor]
				price += flavors[m.Flavor].microDollars
			}
		}
		if math.Abs(float64(price)/1e6-got.PricePerHour) > 1e-9 {
			t.Errorf("%s: price %v, the machines cost %d millionths", algorithm, got.PricePerHour, price)
		}
		used := map[string]bool{}
		var names []string
		for _, a := range got.Assignments {
			m, bought := left[a.Machine]
			p, known := pods[a.Pod]
			if !bought || !known || p.arch != "" && p.arch != m.arch {
				t.Errorf("%s: pod %s goes to %s of architecture %q", algorithm, a.Pod, a.Machine, m.arch)
			}
			m.milliCPU, m.mib, m.pods = m.milliCPU-p.milliCPU, m.mib-p.mib, m.pods-1
			if m.milliCPU < 0 || m.mib < 0 || m.pods < 0 {
				t.Errorf("%s: %s is over-filled: %+v left", algorithm, a.Machine, m)
			}
			left[a.Machine], used[a.Machine] = m, true
			names = append(names, a.Pod)
		}
		if len(used) != len(left) {
			t.Errorf("%s: %d machines are bought and %d used", algorithm, len(left), len(used))
		}
		if !slices.IsSorted(names) || len(slices.Compact(names)) != len(pods) {
			t.Errorf("%s: %v are assigned, want each of %d pods once and by name", algorithm, names, len(pods))
		}
	}
	if prices["supercargo"] > prices["greedy"] {
		t.Errorf("supercargo costs %v and greedy %v, want no more", prices["supercargo"], prices["greedy"])
	}
}

// TestGreedyBuysByUseForItsPrice compares greedy with algorithm 3, worked by hand. Both one small and
// one big machine hold two pods of 1 CPU and 2 GiB; both have the same use, so the cheaper wins. With
// four pods, big has twice the use for less than twice the price.
func TestGreedyBuysByUseForItsPrice(t *testing.T) {
	t.Parallel()
	const flavors = "name,cpu,memory_gib,price_per_hour\nsmall,2,4,0.10\nbig,4,8,0.19\n"
	for pods, want := range map[string]string{
		"name,cpu_milli,memory_mib,count\np,1000,2048,2\n": "[{small 1}] 0.1",
		"name,cpu_milli,memory_mib,count\np,1000,2048,4\n": "[{big 1}] 0.19",
		"name,cpu_milli,memory_mib,count\np,1000,2048,6\n": "[{big 1} {small 1}] 0.29",
		// Batch pods choose as services do: a price per hour does not depend on runtimes.
		"name,cpu_milli,memory_mib,count,class,runtime_s\np,1000,2048,5,batch,60\nq,1000,2048,1,service,\n": "[{big 1} {small 1}] 0.29",
	} {
		_, stdout, stderr := supercargo(t, "", append(planInputs(t, pods, flavors), "-o", "json", "--algorithm", "greedy")...)
		got := readPlanned(t, stdout)
		if is := fmt.Sprint(got.Machines, " ", got.PricePerHour); is != want {
			t.Errorf("%q: plan is %s (stderr %q), want %s", pods, is, stderr, want)
		}
	}
}

func TestPlanIsTheSameToTheByteWhenItIsToBe(t *testing.T) {
	t.Parallel()
	reversed := strings.Split(strings.TrimSpace(planPods), "\n")
	slices.Reverse(reversed[1:])
	for _, algorithm := range []string{"greedy", "supercargo"} {
		var first string
		for i, pods := range []string{planPods, planPods, strings.Join(reversed, "\n")} {
			code, stdout, stderr := supercargo(t, "", append(planInputs(t, pods, planFlavorsCSV), "-o", "json", "--deterministic", "--algorithm", algorithm)...)
			if code != command.ExitOK || !strings.Contains(stdout, `"elapsedMillis": 0,`) {
				t.Fatalf("exit code %d, stderr %q, want no time in %s", code, stderr, stdout)
			}
			if i == 0 {
				first = stdout
			}
			if diff := cmp.Diff(first, stdout); diff != "" {
				t.Errorf("%s, run %d differs (-first +this):\n%s", algorithm, i, diff)
			}
		}
	}
}

func TestPlanPrintsATableByDefault(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := supercargo(t, "", planInputs(t, planPods+"giant,1,900000,5,,,\n", planFlavorsCSV)...)
	if code != command.ExitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	for _, want := range []string{
		"11 pods on ", "/h (supercargo).", "Any plan costs at least $", " % above the cheapest there is.", "Planned in 0.",
		"\nFLAVOR ", "\narm     4         7     0.0800    0.3200\n", "\nMACHINE ", "\narm-0 ",
		"\n6 pods have no machine:\n", "  giant-0, giant-1, giant-2 and 2 more: ", "  huge: ", "CPU", "memory",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the table lacks %q:\n%s", want, stdout)
		}
	}
}

func TestAPlanOfManyMachinesShowsTheFirst(t *testing.T) {
	t.Parallel()
	const mostShown = 20
	const flavors = "name,cpu,memory_gib,price_per_hour\nsmall,2,4,0.1\n"
	var pods strings.Builder
	pods.WriteString("name,cpu_milli,memory_mib\n")
	for i := range 45 {
		fmt.Fprintf(&pods, "p-%d,2000,%d\n", i, 80*i)
	}
	_, stdout, _ := supercargo(t, "", planInputs(t, pods.String(), flavors)...)
	if n := strings.Count(stdout, "\nsmall-"); n != mostShown || !strings.Contains(stdout, "\n... and 25 more, which -o json lists.\n") {
		t.Errorf("%d machines are shown, want %d and how many there are more:\n%s", n, mostShown, stdout)
	}
}

func TestMachinesThatAreAlikeShareALine(t *testing.T) {
	t.Parallel()
	for flavors, want := range map[string]string{
		"name,cpu,memory_gib,price_per_hour\nsmall,2,4,0.1\n":           "\nMACHINE        PODS  CPU    MEMORY  WHY\nsmall-0 to 44  1     100 %  0 %     ",
		"name,cpu,memory_gib,price_per_hour,zones\nsmall,2,4,0.1,b;a\n": "\nMACHINE        ZONE  PODS  CPU    MEMORY  WHY\nsmall-0 to 44  a     1     100 %  0 %     ",
	} {
		_, stdout, _ := supercargo(t, "", planInputs(t, "name,cpu_milli,memory_mib,count\np,2000,1,45\n", flavors)...)
		if !strings.Contains(stdout, want) || strings.Count(stdout, "\nsmall-") != 1 {
			t.Errorf("the table lacks %q:\n%s", want, stdout)
		}
	}
}

func TestPlanReadsPodsFromStdinAndTraces(t *testing.T) {
	t.Parallel()
	args := planInputs(t, "", planFlavorsCSV)
	args[2] = "-"
	for _, pods := range []string{
		"name,cpu_milli,memory_mib\na,1,1\n",
		"arrival_s,cpu_milli,memory_mib,runtime_s\n5,1,1,1\n",
	} {
		code, stdout, stderr := supercargo(t, pods, append(args, "-o", "json")...)
		if got := readPlanned(t, stdout); code != command.ExitOK || len(got.Assignments) != 1 {
			t.Errorf("%q: exit code %d, stderr %q, want one pod in %s", pods, code, stderr, stdout)
		}
	}
}

func TestPlanRefusesBadInput(t *testing.T) {
	t.Parallel()
	const header = "name,cpu_milli,memory_mib,count,arch,class,runtime_s\n"
	tests := []struct {
		name, pods, flavors string
		args                []string
		want                []string
	}{
		{"no pods", "", "", nil, []string{"pods.csv: is empty: must have a header row"}},
		{"no rows", header, "", nil, []string{"pods.csv: has a header but no rows"}},
		{"a missing column", "name,cpu_milli\na,1\n", "", nil, []string{"pods.csv:1: memory_mib: is missing from the header: the pod list requires name,cpu_milli,memory_mib"}},
		{"a column that is none", "name,cpu_milli,memory_mib,gpu\na,1,1,1\n", "", nil, []string{"pods.csv:1: gpu: is not a column of the pod list: must be one of name,"}},
		{"a pod without a name", header + ",1,1,,,,\n", "", nil, []string{`pods.csv:2: name: "" is not a valid pod name`}},
		{"a name twice", header + "a,1,1,,,,\na,1,1,,,,\n", "", nil, []string{`pods.csv:3: name: "a" is also the name of a pod at line 2`}},
		{"a name that a count makes twice", header + "a-1,1,1,,,,\na,1,1,2,,,\n", "", nil, []string{`pods.csv:3: name: "a-1" is also the name`}},
		{"no number", header + "a,x,1,,,,\n", "", nil, []string{`pods.csv:2: cpu_milli: "x" is not a plain decimal number`}},
		{"a negative number", header + "a,1,-1,,,,\n", "", nil, []string{`pods.csv:2: memory_mib: "-1" must be 0 or more`}},
		{"an unknown class", header + "a,1,1,,,fast,\n", "", nil, []string{`pods.csv:2: class: "fast" must be batch, service or empty`}},
		{"a negative runtime", header + "a,1,1,,,batch,-1\n", "", nil, []string{`pods.csv:2: runtime_s: "-1" must be 0 or more`}},
		{"a count of none", header + "a,1,1,0,,,\n", "", nil, []string{`pods.csv:2: count: "0" must be 1 or more`}},
		{"too many pods", header + "a,1,1,1000000,,,\nb,1,1,,,,\n", "", nil, []string{"pods.csv:3: exceeds the limit of 1000000 pods"}},
		{"no price", "", "name,cpu,memory_gib,price_per_hour\nf,1,1,\n", nil, []string{"flavors.csv:2: price_per_hour: is empty: a number is required"}},
		{"a flavor's column that is none", "", "name,cpu,memory_gib,price_per_hour,gpu\nf,1,1,1,1\n", nil, []string{"flavors.csv:1: gpu: is not a column of the flavor catalogue"}},
		{"faults of both files and the flags", header + "a,x,1,,,,\n", "name,cpu,memory_gib,price_per_hour\nf,1,1,\n", []string{"-o", "xml", "--algorithm", "best", "--deadline", "-1s"},
			[]string{"pods.csv:2", "flavors.csv:2", `--output "xml": must be table or json`, `--algorithm "best": must be supercargo or greedy`, "--deadline -1s: must be more than 0"}},
		{"a deadline that is no time", planPods, planFlavorsCSV, []string{"--deadline", "soon"}, []string{"--deadline"}},
		{"an argument", planPods, planFlavorsCSV, []string{"x"}, []string{"unknown command"}},
		{"files that are not there", planPods, planFlavorsCSV, []string{"--pods", "none.csv", "--flavors", "nothing.csv"}, []string{"-f: open none.csv", "--flavors: open nothing.csv"}},
		{"no files", planPods, planFlavorsCSV, []string{"--pods", "", "--flavors", ""}, []string{"-f is required: the file", "--flavors is required: the file"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pods, flavors := tc.pods, tc.flavors
			if pods == "" && flavors != "" {
				pods = planPods
			} else if flavors == "" {
				flavors = planFlavorsCSV
			}
			code, stdout, stderr := supercargo(t, "", append(planInputs(t, pods, flavors), tc.args...)...)
			if code != command.ExitUsage || stdout != "" {
				t.Errorf("exit code %d and stdout %q, want %d and nothing", code, stdout, command.ExitUsage)
			}
			for _, want := range tc.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr is\n%s\nwant it to contain %s", stderr, want)
				}
			}
		})
	}
}

func TestPodsThatNothingHoldsAreNoFailure(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := supercargo(t, "", append(planInputs(t, "name,cpu_milli,memory_mib\nhuge,99000,1\n", planFlavorsCSV), "-o", "json")...)
	if code != command.ExitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	got := readPlanned(t, stdout)
	if len(got.Machines) != 0 || len(got.Unplaceable) != 1 || got.PricePerHour != 0 || got.LowerBoundPerHour != 0 || got.Gap != 0 {
		t.Errorf("plan is %+v, want one unplaceable pod and no price", got)
	}
	for _, field := range []string{`"machines": []`, `"assignments": []`} {
		if !strings.Contains(stdout, field) {
			t.Errorf("output lacks %s:\n%s", field, stdout)
		}
	}
}

func TestAnInterruptedPlanFails(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs strings.Builder
	code := run(ctx, append([]string{"supercargo"}, planInputs(t, planPods, planFlavorsCSV)...), strings.NewReader(""), &out, &errs)
	if code != command.ExitFailed || out.Len() > 0 || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("exit code %d, stdout %q, stderr %q, want that it was interrupted", code, out.String(), errs.String())
	}
}

func TestFlagsOfPlanCompleteTheirValues(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"--algorithm": "supercargo\ngreedy\n", "-o": "table\njson\n"} {
		_, stdout, _ := supercargo(t, "", "__complete", "plan", flag, "")
		if !strings.HasPrefix(stdout, want) {
			t.Errorf("%s completes to %q, want %q", flag, stdout, want)
		}
	}
}

// planManifests are three pods with anti-affinity, and one that must be in zone b.
const planManifests = `apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: db-0, namespace: prod, labels: {app: db}}
  spec: &db
    containers: [{name: db, image: db, resources: {requests: {cpu: 100m, memory: 64Mi}}}]
    affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: db-1, namespace: prod, labels: {app: db}}, spec: *db}
- {apiVersion: v1, kind: Pod, metadata: {name: db-2, namespace: prod, labels: {app: db}}, spec: *db}
- apiVersion: v1
  kind: Pod
  metadata: {name: web}
  spec:
    nodeName: somewhere-else
    nodeSelector: {topology.kubernetes.io/zone: b}
    containers: [{name: web, image: web}]
`

const planZones = "name,cpu,memory_gib,price_per_hour,zones,taints\nsmall,2,4,0.1,a;b,\nspot,2,4,0.01,a;b,spot:NoSchedule\n"

func TestPlanHonoursWhatManifestsDemand(t *testing.T) {
	t.Parallel()
	dir := commandtest.Directory(t, map[string]string{"pods.yaml": planManifests, "flavors.csv": planZones})
	podsFile, flavorsFile := filepath.Join(dir, "pods.yaml"), filepath.Join(dir, "flavors.csv")
	code, stdout, stderr := supercargo(t, "", "plan", "--pods", podsFile, "--flavors", flavorsFile, "-o", "json")
	if code != command.ExitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var d planfile.Document
	testfile.JSON(t, stdout, &d)
	pods, err := planfile.ReadPods(podsFile, strings.NewReader(planManifests))
	if err != nil {
		t.Fatal(err)
	}
	flavors, err := planfile.ReadFlavors(flavorsFile, strings.NewReader(planZones))
	if err != nil {
		t.Fatal(err)
	}
	if err := plancheck.Plan(pods.Pods, flavors, d); err != nil {
		t.Errorf("the plan is wrong: %v", err)
	}
	if len(d.Purchases) < 3 {
		t.Errorf("machines are %+v, want three at least", d.Purchases)
	}
	if len(d.Unplaceable) != 0 || len(d.Assignments) != 4 {
		t.Errorf("%d pods are assigned, unplaceable are %v, want 4 and none", len(d.Assignments), d.Unplaceable)
	}
}

func TestGreedyRefusesPodsThatDemandMoreThanRoom(t *testing.T) {
	t.Parallel()
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]\n"
	const flavors = "name,cpu,memory_gib,price_per_hour,zones\nsmall,2,4,0.1,a;b\n"
	for demand, want := range map[string]string{
		"": "",
		"  nodeSelector: {topology.kubernetes.io/zone: b}\n":                              "pod p has constraints (node selector topology.kubernetes.io/zone=b): use supercargo",
		"  containers: [{name: c, image: i, ports: [{containerPort: 1, hostPort: 1}]}]\n": "pod p has constraints (depends on other pods): use supercargo",
	} {
		text := pod + demand
		if strings.Contains(demand, "containers") {
			text = strings.Split(pod, "  containers")[0] + demand
		}
		args := planInputs(t, "", flavors)
		args[2] = "-"
		code, _, stderr := supercargo(t, text, append(args, "--algorithm", "greedy")...)
		if want == "" && code != command.ExitOK || want != "" && code != command.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, stderr %q, want %q", demand, code, stderr, want)
		}
	}
}

func TestDemandsThatNoServerWouldTakeAreBadInput(t *testing.T) {
	t.Parallel()
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: n}\nspec:\n  containers: [{name: c, image: i}]\n" +
		"  affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchExpressions: [{key: a, operator: Near}]}}]}}\n"
	args := planInputs(t, "", planFlavorsCSV)
	args[2] = "-"
	code, stdout, stderr := supercargo(t, pod, args...)
	if code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, "stdin: ") || !strings.Contains(stderr, "pod n/p") || !strings.Contains(stderr, "spec.affinity.podAffinity") {
		t.Errorf("exit code %d, stderr %q, want the pod and its field", code, stderr)
	}
}

func TestTheExampleOfPlanWorksFromAFreshClone(t *testing.T) {
	t.Parallel()
	line, _, _ := strings.Cut(strings.TrimSpace(newPlanCommand().Example), "\n")
	args := strings.Fields(strings.ReplaceAll(line, " test/", " ../../../test/"))
	code, stdout, stderr := supercargo(t, "", args[1:]...)
	if args[0] != "supercargo" || code != command.ExitOK || !strings.HasPrefix(stdout, "1200 pods on ") {
		t.Errorf("%s: exit code %d, stderr %q, want a plan and not\n%s", line, code, stderr, stdout)
	}
}

// A deadline in the past still gives a complete plan.
func TestPlanKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := supercargo(t, "", append(planInputs(t, planPods, planFlavorsCSV), "-o", "json", "--deadline", "1ns")...)
	if got := readPlanned(t, stdout); code != command.ExitOK || len(got.Assignments) != 11 || got.Gap < 0 {
		t.Errorf("exit code %d, stderr %q, want all pods in\n%s", code, stderr, stdout)
	}
}

// TestPlanHonoursNodesOfManifests: a running pod needs a machine in zone b, and no pod tolerates the
// taint of the cheapest.
func TestPlanHonoursNodesOfManifests(t *testing.T) {
	t.Parallel()
	const flavors = "name,cpu,memory_gib,price_per_hour,zones,taints\nsmall,2,4,0.1,a;b,\nspot,2,4,0.01,a;b,spot:NoSchedule\n"
	const pods = `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: prod}, spec: {nodeName: old, nodeSelector: {topology.kubernetes.io/zone: b}, containers: [{name: c, image: i}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: learn}, spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: giant}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 99}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: data}, spec: {containers: [{name: c, image: i}], volumes: [{name: disk, persistentVolumeClaim: {claimName: disk-0}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: done}, spec: {containers: []}, status: {phase: Succeeded}}
`
	args := planInputs(t, "", flavors)
	args[2] = "-"
	code, stdout, stderr := supercargo(t, pods, append(args, "-o", "json")...)
	if code != command.ExitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var d planfile.Document
	testfile.JSON(t, stdout, &d)
	for i := range d.Purchases {
		d.Purchases[i].Reason = ""
	}
	if diff := cmp.Diff([]planfile.Purchase{{Machine: "small-0", Flavor: "small", Zone: "b", PricePerHour: 0.1, Pods: 1}}, d.Purchases); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]planfile.Assignment{{Pod: "prod/web", Machine: "small-0"}}, d.Assignments); diff != "" {
		t.Errorf("assignments (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]planfile.Reason{{Pod: "done", Reason: "has ended"}}, d.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	for i, want := range []planfile.Reason{
		{Pod: "data", Reason: "has volume disk (persistentVolumeClaim disk-0), and the nodes that this allows are unknown here"},
		{Pod: "giant", Reason: "CPU"},
		{Pod: "learn", Reason: "requests 1 nvidia.com/gpu, which flavors do not specify"},
	} {
		if len(d.Unplaceable) != 3 || d.Unplaceable[i].Pod != want.Pod || !strings.Contains(d.Unplaceable[i].Reason, want.Reason) {
			t.Errorf("unplaceable are %v, want %v in place %d", d.Unplaceable, want, i)
		}
	}
	code, stdout, _ = supercargo(t, pods, args...)
	if code != command.ExitOK || !strings.Contains(stdout, "\n1 pod needs no machine:\n  done: has ended\n") {
		t.Errorf("exit code %d, want who needs no machine in\n%s", code, stdout)
	}
}

func TestAnAlgorithmIsToldWhenToStop(t *testing.T) {
	t.Parallel()
	untilStopped := func(stop func() bool) planfile.Outcome {
		for !stop() {
			runtime.Gosched()
		}
		return planfile.Outcome{Bound: 7}
	}
	if got, err := planWithin(t.Context(), untilStopped, time.Millisecond); err != nil || got.Bound != 7 {
		t.Errorf("outcome %v, %v, want that of the algorithm", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := planWithin(ctx, untilStopped, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v after an interrupt, want that it was interrupted", err)
	}
	for _, limit := range []time.Duration{0, time.Hour} {
		early := false
		once := func(stop func() bool) planfile.Outcome {
			early = stop()
			return planfile.Outcome{}
		}
		if _, err := planWithin(t.Context(), once, limit); err != nil || early {
			t.Errorf("limit %v: error %v, stopped %v, want neither", limit, err, early)
		}
	}
}
