package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/policy"
	"supercargo.dev/supercargo/test/kit/commandtest"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// simulateScenario is small, and every policy buys a machine for it.
const simulateScenario = `apiVersion: supercargo.dev/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  horizon: 20m
  flavors:
  - {name: m1.medium, cpu: "2", memory: 8Gi, pricePerHour: 0.1371, wattsIdle: 40, wattsFull: 95}
  nodes: [{flavor: m1.medium}]
  workload:
    pods:
    - {name: job, class: batch, cpu: 500m, memory: 2Gi, arrival: 1m, runtime: 3m, count: 9}
    - {name: web, class: service, cpu: 100m, memory: 400Mi}
    - {name: huge, class: batch, cpu: 3, memory: 1Gi, runtime: 1m}
    patterns:
    - {shape: stable, rate: 1/m, mix: {batch_small: 1}}
`

// listed returns the names of the files in a directory.
func listed(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestTheServedBoundDoesNotDependOnThePoliciesNamed also checks that the policy that is run only for
// its waiting times is not shown.
func TestTheServedBoundDoesNotDependOnThePoliciesNamed(t *testing.T) {
	t.Parallel()
	for _, scenario := range []string{simulateScenario, strings.ReplaceAll(simulateScenario, "class: service", "class: batch, runtime: 1m")} {
		bounds := map[string]float64{}
		for _, policies := range []string{"default,supercargo", "supercargo"} {
			code, stdout, stderr := supercargo(t, scenario, "simulate", "-f", "-", "-o", "json", "--policy", policies)
			var document struct {
				Policies []struct {
					Name                                                          string
					LowerBoundDollars, ServedBoundDollars, ServedBoundWaitSeconds float64
				}
			}
			if err := json.Unmarshal([]byte(stdout), &document); code != command.ExitOK || err != nil {
				t.Fatalf("exit code %d, %v: %s", code, err, stderr)
			}
			if n := strings.Count(policies, ",") + 1; len(document.Policies) != n {
				t.Fatalf("%d policies, want %d", len(document.Policies), n)
			}
			for _, p := range document.Policies {
				if p.ServedBoundDollars < p.LowerBoundDollars || p.LowerBoundDollars <= 0 {
					t.Errorf("policy %s: served bound %v, lower bound %v", p.Name, p.ServedBoundDollars, p.LowerBoundDollars)
				}
				bounds[policies] = p.ServedBoundDollars
			}
		}
		if bounds["supercargo"] != bounds["default,supercargo"] {
			t.Errorf("bounds are %v, want one", bounds)
		}
	}
}

func TestSimulateIsTheSameToTheByteWhenItIsToBe(t *testing.T) {
	t.Parallel()
	run := func() string {
		code, stdout, stderr := supercargo(t, simulateScenario, "simulate", "-f", "-", "-o", "json", "--deterministic")
		if code != command.ExitOK {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		for _, name := range policy.Names() {
			if !regexp.MustCompile("seed 1, policy " + name + `: simulated in \d+\.`).MatchString(stderr) {
				t.Errorf("stderr is %q, want how long %s took", stderr, name)
			}
		}
		if n := strings.Count(stdout, `"wallSeconds": 0,`); n != len(policy.Names()) {
			t.Errorf("wallSeconds is 0 %d times, want once for each policy", n)
		}
		return stdout
	}
	if diff := cmp.Diff(run(), run()); diff != "" {
		t.Errorf("a second run differs (-first +second):\n%s", diff)
	}
}

func TestSimulatePrintsATableOfAllPoliciesByDefault(t *testing.T) {
	t.Parallel()
	dir := commandtest.Directory(t, map[string]string{"s.yaml": simulateScenario})
	code, stdout, stderr := supercargo(t, "", "simulate", "-f", filepath.Join(dir, "s.yaml"))
	if code != command.ExitOK || stderr != "" || !strings.HasPrefix(stdout, "Scenario small, seed 1, 6 policies.") {
		t.Fatalf("exit code %d, stderr %q, stdout %q, want a table", code, stderr, stdout)
	}
	for _, name := range policy.Names() {
		if !strings.Contains(stdout, "\n"+name+" ") {
			t.Errorf("the table has no policy %s:\n%s", name, stdout)
		}
	}
}

func TestSimulateRefusesBadInput(t *testing.T) {
	t.Parallel()
	with := func(text, instead string) string {
		if !strings.Contains(simulateScenario, text) {
			t.Fatalf("the scenario has no %q", text)
		}
		return strings.Replace(simulateScenario, text, instead, 1)
	}
	tracing := with("    patterns:\n    - {shape: stable, rate: 1/m, mix: {batch_small: 1}}\n", "    traces: [{file: t.csv}]\n")
	tests := []struct {
		name     string
		scenario string
		files    map[string]string
		args     []string
		want     []string
	}{
		{"a field that is none", with("  horizon", "  horizont"), nil, nil, []string{"s.yaml:5: spec.horizont: ", "must be one of"}},
		{"a negative size", with("memory: 2Gi", "memory: -2Gi"), nil, nil, []string{`s.yaml:11: spec.workload.pods[0].memory: "-2Gi" must be 0 or more`}},
		{"no number", with("0.1371", ".nan"), nil, nil, []string{`s.yaml:7: spec.flavors[0].pricePerHour: ".nan" is not a plain decimal number`}},
		{"NaN", with("cpu: 500m", "cpu: NaN"), nil, nil, []string{`s.yaml:11: spec.workload.pods[0].cpu: "NaN" `}},
		{"a trace that is not there", tracing, nil, nil, []string{"s.yaml:14: spec.workload.traces[0].file: ", "t.csv"}},
		{"a trace without a column", tracing, map[string]string{"t.csv": "arrival_s,cpu_milli,runtime_s\n1,1,1\n"}, nil, []string{"t.csv:1: ", "memory_mib"}},
		{"an empty trace", tracing, map[string]string{"t.csv": ""}, nil, []string{"t.csv: is empty: must have a header row"}},
		{"a trace with a bad number", tracing, map[string]string{"t.csv": "arrival_s,cpu_milli,memory_mib,runtime_s\n1,1,1,1\n1,1,-1,1\n"}, nil, []string{"t.csv:3: memory_mib: \"-1\""}},
		{"too many intervals", with("horizon: 20m", "horizon: 1000h\n  schedulingInterval: 1s"), nil, nil, []string{"s.yaml: spec.horizon: 1000h0m0s is more than 2000000 times"}},
		{"work for ages that is drawn", with("horizon: 20m\n  flavors:\n  - {", "horizon: 20m\n  schedulingInterval: 1s\n  flavors:\n  - {speed: 0.000005, "), nil, []string{"--repeat", "2"},
			[]string{"s.yaml: spec.horizon: pod ", " may run until ", "4000000 times"}},
		{"names that clash when drawn", with("name: web", "name: pattern-0-batch-small-3"), nil, nil, []string{"s.yaml: ", "pattern-0-batch-small-3"}},
		{"two faults at once", with("horizon: 20m", "horizon: -20m\n  autoscale: maybe"), nil, nil, []string{"spec.horizon", "spec.autoscale"}},
		{"no YAML", "{", nil, nil, []string{"s.yaml:"}},
		{"an unknown policy", simulateScenario, nil, []string{"--policy", "cheapest"}, []string{`--policy: policy "cheapest" must be one of default, `}},
		{"a policy twice", simulateScenario, nil, []string{"--policy", "htas,coca", "--policy", "htas"}, []string{"--policy: htas is set twice"}},
		{"no policy", simulateScenario, nil, []string{"--policy", ""}, []string{"--policy: must be one of default, "}},
		{"an unknown output", simulateScenario, nil, []string{"-o", "xml"}, []string{`--output "xml": must be table or json`}},
		{"no runs", simulateScenario, nil, []string{"--repeat", "0"}, []string{"--repeat 0: must be from 1 to 1000"}},
		{"too many runs", simulateScenario, nil, []string{"--repeat", "1001"}, []string{"--repeat 1001: must be from 1 to 1000"}},
		{"a seed that is none", simulateScenario, nil, []string{"--seed", "-1"}, []string{"--seed"}},
		{"an argument", simulateScenario, nil, []string{"x"}, []string{"unknown command"}},
		{"a folder for a report", simulateScenario, nil, []string{"--report", "/"}, []string{"--report: / is a directory: must be a file"}},
		{"a report in no folder", simulateScenario, nil, []string{"--report", "/none/at/all.html"}, []string{"--report: ", "/none/at"}},
		{"placements in no folder", simulateScenario, nil, []string{"--placements", "/none/at/all.csv"}, []string{"--placements: ", "/none/at"}},
		{"one file for two things", simulateScenario, nil, []string{"--report", "x", "--placements", "x"}, []string{"--placements: x is also the file of --report"}},
		{"flags and scenario at once", with("  horizon", "  horizont"), nil, []string{"-o", "xml", "--policy", "cheapest", "--repeat", "-2"},
			[]string{"--output", "--policy", "--repeat -2", "s.yaml:5: spec.horizont"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := commandtest.Directory(t, tc.files)
			path := filepath.Join(dir, "s.yaml")
			testfile.Write(t, path, tc.scenario)
			code, stdout, stderr := supercargo(t, "", append([]string{"simulate", "-f", path}, tc.args...)...)
			if code != command.ExitUsage || stdout != "" || stderr == "" {
				t.Errorf("exit code %d, stdout %q and stderr %q, want %d and errors on stderr alone", code, stdout, stderr, command.ExitUsage)
			}
			for _, want := range tc.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr is\n%s\nwant it to contain %s", stderr, want)
				}
			}
		})
	}
}

func TestSimulateWantsAScenario(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--filename is required: the scenario file, or - for standard input": {},
		"none.yaml: no such file": {"-f", "none.yaml"},
		"stdin:1: ":               {"-f", "-"},
	} {
		code, stdout, stderr := supercargo(t, "what: ever\n", append([]string{"simulate"}, args...)...)
		if code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("simulate %v: exit code %d, stdout %q, stderr %q, want %d and %q", args, code, stdout, stderr, command.ExitUsage, want)
		}
	}
	code, _, stderr := supercargo(t, strings.Repeat("#", 5<<20), "simulate", "-f", "-")
	if code != command.ExitUsage || !strings.Contains(stderr, "stdin: is larger than 4194304 bytes") {
		t.Errorf("exit code %d and stderr %q, want that the scenario is too large", code, stderr)
	}
}

func TestSimulateFindsFilesBesideTheScenario(t *testing.T) {
	t.Parallel()
	scenario := strings.Replace(simulateScenario, "    patterns:\n    - {shape: stable, rate: 1/m, mix: {batch_small: 1}}\n", "    traces: [{file: t.csv}]\n", 1)
	dir := commandtest.Directory(t, map[string]string{"s.yaml": scenario, "t.csv": "arrival_s,cpu_milli,memory_mib,runtime_s\n1,1,1,1\n"})
	code, stdout, stderr := supercargo(t, "", "simulate", "-f", filepath.Join(dir, "s.yaml"), "-o", "json", "--policy", "htas")
	if code != command.ExitOK || !strings.Contains(stdout, `"submitted": 12,`) {
		t.Errorf("exit code %d, stderr %q, want 12 pods in %s", code, stderr, stdout)
	}
}

func TestSimulateWritesEveryPlacement(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "placements.csv")
	code, _, stderr := supercargo(t, simulateScenario, "simulate", "-f", "-", "--placements", path, "--policy", "default,htas", "--repeat", "2", "--seed", "3")
	if code != command.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	content := testfile.Read(t, path)
	if !bytes.HasPrefix(content, []byte("time_s,pod,node,flavor,reason")) {
		t.Errorf("the file begins %q", content[:min(len(content), 60)])
	}
	rows, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]int{}
	for _, row := range rows[1:] {
		runs[row[5]+" "+row[6]]++
		if row[1] == "job-0" && (row[0] != "60" || row[2] != "m1.medium-0" || row[3] != "m1.medium" || row[4] != "scheduled") {
			t.Errorf("the first job is placed as %v", row)
		}
	}
	for _, run := range []string{"default 3", "htas 3", "default 4", "htas 4"} {
		if runs[run] < 20 {
			t.Errorf("%d placements of %s, want those of at least 20 pods: %v", runs[run], run, runs)
		}
	}
	if len(runs) != 4 {
		t.Errorf("placements of %v, want four runs", runs)
	}
}

func TestSimulateReplacesAReportAsAWhole(t *testing.T) {
	t.Parallel()
	dir := commandtest.Directory(t, map[string]string{"report.html": "old"})
	path := filepath.Join(dir, "report.html")
	code, _, stderr := supercargo(t, simulateScenario, "simulate", "-f", "-", "--report", path, "--policy", "default,htas")
	if code != command.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	content := testfile.Read(t, path)
	if text := string(content); !strings.HasPrefix(strings.ToLower(text), "<!doctype html>") || !strings.HasSuffix(strings.TrimSpace(text), "</html>") || !strings.Contains(text, "htas") {
		t.Errorf("the report is no whole page: %q ... %q", text[:min(len(text), 80)], text[max(0, len(text)-80):])
	}
	if diff := cmp.Diff([]string{"report.html"}, listed(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestAFileThatCannotBeWrittenIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	dir := commandtest.Directory(t, map[string]string{"file": "old"})
	path := filepath.Join(dir, "file")
	err := command.WriteWhole(path, func(w io.Writer) error {
		fmt.Fprint(w, strings.Repeat("new", 10_000))
		return io.ErrShortWrite
	})
	if content, _ := os.ReadFile(path); err == nil || string(content) != "old" {
		t.Errorf("error %v, and the file holds %d bytes, want an error and the old ones", err, len(content))
	}
	if diff := cmp.Diff([]string{"file"}, listed(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestALinkStaysALinkAndAPipeAPipe(t *testing.T) {
	t.Parallel()
	hello := func(w io.Writer) error {
		_, err := io.WriteString(w, "hello")
		return err
	}
	dir := commandtest.Directory(t, map[string]string{"file": "old"})
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if err := command.WriteWhole(link, hello); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(content) != "hello" {
		t.Errorf("behind the link is %q (%v)", content, err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		content, err := os.ReadFile(pipe)
		read <- fmt.Sprint(string(content), err)
	}()
	if err := command.WriteWhole(pipe, hello); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "hello<nil>" {
		t.Errorf("out of the pipe comes %q", got)
	}
	if is, err := os.Lstat(pipe); err != nil || is.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is %v now (%v)", is.Mode(), err)
	}
}

func TestSimulateRepeatsForMeansAndExtremes(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := supercargo(t, simulateScenario, "simulate", "-f", "-", "-o", "json", "--policy", "default,supercargo", "--repeat", "3", "--seed", "5")
	if code != command.ExitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var summary struct {
		Seeds    []uint64
		Policies []struct {
			Name        string
			CostDollars struct{ Mean, Min, Max float64 }
		}
	}
	testfile.JSON(t, stdout, &summary)
	if diff := cmp.Diff([]uint64{5, 6, 7}, summary.Seeds); diff != "" || len(summary.Policies) != 2 {
		t.Fatalf("%d policies, seeds (-want +got):\n%s", len(summary.Policies), diff)
	}
	for _, p := range summary.Policies { // compare with three runs of one seed each
		var costs []float64
		for _, seed := range []string{"5", "6", "7"} {
			_, stdout, _ := supercargo(t, simulateScenario, "simulate", "-f", "-", "-o", "json", "--policy", p.Name, "--seed", seed)
			var one struct {
				Policies []struct{ CostDollars float64 }
			}
			testfile.JSON(t, stdout, &one)
			costs = append(costs, one.Policies[0].CostDollars)
		}
		got, mean := p.CostDollars, (costs[0]+costs[1]+costs[2])/3
		if got.Min != min(costs[0], costs[1], costs[2]) || got.Max != max(costs[0], costs[1], costs[2]) || got.Mean-mean > 1e-9 || mean-got.Mean > 1e-9 {
			t.Errorf("policy %s costs %+v, want mean and extremes of %v", p.Name, got, costs)
		}
	}
	code, stdout, _ = supercargo(t, simulateScenario, "simulate", "-f", "-", "--policy", "default", "--repeat", "2")
	if code != command.ExitOK || !strings.HasPrefix(stdout, "Scenario small, 2 seeds, 1 policy. Mean over the seeds [least, most].") {
		t.Errorf("exit code %d, stdout %q, want a table of means", code, stdout)
	}
}

func TestAnInterruptedSimulationFailsAndLeavesNoFiles(t *testing.T) {
	t.Parallel()
	dir := commandtest.Directory(t, map[string]string{"s.yaml": simulateScenario, "report.html": "old"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	code := Run(ctx, []string{
		"supercargo", "simulate", "-f", filepath.Join(dir, "s.yaml"), "--report", filepath.Join(dir, "report.html"), "--placements", filepath.Join(dir, "p.csv"),
	}, nil, &stdout, &stderr)
	if code != command.ExitFailed || stdout.Len() > 0 || !strings.Contains(stderr.String(), "interrupted before the simulation") {
		t.Errorf("exit code %d, stdout %q, stderr %q, want %d and that it was interrupted", code, &stdout, &stderr, command.ExitFailed)
	}
	if content, _ := os.ReadFile(filepath.Join(dir, "report.html")); string(content) != "old" {
		t.Errorf("the old report holds %q", content)
	}
	if diff := cmp.Diff([]string{"report.html", "s.yaml"}, listed(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// cancelling cancels a context at the end of its input, and then blocks.
type cancelling struct {
	io.Reader
	cancel func()
}

func (c cancelling) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		c.cancel()
		select {} // as a terminal does
	}
	return n, err
}

func TestSimulateCanBeInterruptedWhileItWaitsForStdin(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := Run(ctx, []string{"supercargo", "simulate", "-f", "-"}, cancelling{strings.NewReader("spec:\n"), cancel}, &stdout, &stderr)
	if code != command.ExitFailed || stdout.Len() > 0 || !strings.Contains(stderr.String(), "interrupted before the simulation began") {
		t.Errorf("exit code %d, stdout %q, stderr %q, want %d and that it was interrupted", code, &stdout, &stderr, command.ExitFailed)
	}
}

func TestRunsThatFailAreNamed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := readSimulation(ctx, simulateFlags{scenario: "-", policies: []string{"htas"}, repeat: 1, output: "table", seed: 9}, strings.NewReader(simulateScenario))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	// The error is that of policy default, which runs for the bound, or of htas, whichever fails first.
	named := regexp.MustCompile("simulate policy (default|htas) with seed 9: context canceled")
	if _, err := s.plan.Run(ctx, newSimulateProgress(io.Discard, 1).set); err == nil || !named.MatchString(err.Error()) {
		t.Errorf("error %v, want the policy and the seed", err)
	}
}

func TestTheProgressLineSaysHowMuchIsDoneAndLeft(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		parts   []float64
		elapsed time.Duration
		want    string
	}{
		{[]float64{0, 0}, time.Second, "[..............................]   0 %, 0 of 2 runs, unknown left"},
		{[]float64{1, 0.5, 0}, 30 * time.Second, "[###############...............]  50 %, 1 of 3 runs, 30s left"},
		{[]float64{0.75}, 90 * time.Second, "[######################........]  75 %, 0 of 1 run, 30s left"},
		{[]float64{1, 1}, time.Minute, "[##############################] 100 %, 2 of 2 runs, 0s left"},
	} {
		p := &simulateProgress{parts: tc.parts}
		if got := p.line(tc.elapsed); got != tc.want {
			t.Errorf("the line for %v is %q, want %q", tc.parts, got, tc.want)
		}
	}
}

func TestProgressIsShownOnATerminalAlone(t *testing.T) {
	t.Parallel()
	show := func(terminal bool) string {
		var out bytes.Buffer
		p := newSimulateProgress(&out, 2)
		p.terminal = p.terminal || terminal
		p.set(0, 0.75)
		p.set(1, 1) // too soon after that
		p.end()
		return out.String()
	}
	if got := show(false); got != "" {
		t.Errorf("without a terminal %q is shown", got)
	}
	want := "\r\x1b[K[###########...................]  38 %, 0 of 2 runs, 0s left\r\x1b[K"
	if got := show(true); got != want {
		t.Errorf("on a terminal %q is shown, want %q", got, want)
	}
}

func TestSimulateCompletesPoliciesAndOutputs(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"--policy": strings.Join(policy.Names(), "\n"), "--output": "table\njson"} {
		code, stdout, _ := supercargo(t, "", "__complete", "simulate", flag, "")
		if code != command.ExitOK || !strings.HasPrefix(stdout, want+"\n:4") { // 4: no files
			t.Errorf("exit code %d and completions %q for %s, want %q", code, stdout, flag, want)
		}
	}
}

// TestPricesThatARecordingLacksAreStated has a recording of a spot machine.
func TestPricesThatARecordingLacksAreStated(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	recording := file("week.csv", trace.RecordingHeader+`1795000000,begin,,,plain,,,,,,,,,,,,
1795000000,node,n,,node-1,4000,16384,,,,amd64,,,,m5.xlarge,,58
1795000000,pod,p,jobs,p,1000,1024,batch,,,,60,,,,,
1795000600,stop,,,,,,,,,,,,,,,
`)
	prices := file("prices.csv", "name,price_per_hour,spot_price_per_hour\nm5.xlarge,0.2,0.05\n")
	if code, _, stderr := supercargo(t, "", "simulate", "-f", recording, "--policy", "default"); code != command.ExitUsage || !strings.Contains(stderr, "the price of m5.xlarge is unknown: state it with --prices") {
		t.Errorf("without prices: exit code %d: %s", code, stderr)
	}
	code, stdout, stderr := supercargo(t, "", "simulate", "-f", recording, "--policy", "default", "--prices", prices, "-o", "json", "--deterministic")
	if code != command.ExitOK || !strings.Contains(stdout, `"costDollars"`) {
		t.Errorf("with prices: exit code %d: %s", code, stderr)
	}
	scenario := file("s.yaml", "apiVersion: supercargo.dev/v1alpha1\nkind: Scenario\n")
	if code, _, stderr := supercargo(t, "", "simulate", "-f", scenario, "--prices", prices); code != command.ExitUsage || !strings.Contains(stderr, "--prices: "+scenario+" is not a recording") {
		t.Errorf("of a scenario: exit code %d: %s", code, stderr)
	}
}
