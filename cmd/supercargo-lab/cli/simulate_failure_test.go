package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/lab/comparison"
	"supercargo.dev/supercargo/lab/policy"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// decides is a controller.
type decides func(time.Time, *cluster.State) cluster.Plan

func (d decides) Decide(now time.Time, s *cluster.State) cluster.Plan { return d(now, s) }

// faulty returns policies that do not exist, each with another fault.
func faulty(t *testing.T, name string) sim.Policy {
	t.Helper()
	p, err := policy.ByName("default")
	if err != nil {
		t.Fatal(err)
	}
	p.Name = name
	switch name {
	case "impossible", waitsByDefault: // it buys what nobody sells
		p.Controller = func(*scenario.Scenario) sim.Controller {
			return decides(func(time.Time, *cluster.State) cluster.Plan {
				return cluster.Plan{Buy: []cluster.Purchase{{Flavor: "m9.none"}}}
			})
		}
	case "panicking":
		p.Controller = func(*scenario.Scenario) sim.Controller {
			return decides(func(_ time.Time, s *cluster.State) cluster.Plan {
				panic("no such node")
			})
		}
	case "panicking-plugin": // in a goroutine of the scheduler
		p.Scheduler = func(*scenario.Scenario) []byte {
			return []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n" +
				"- schedulerName: default-scheduler\n  plugins: {filter: {enabled: [{name: Panicking}]}}\n")
		}
		p.Plugins = func(*scenario.Scenario, clock.PassiveClock) (schedulerruntime.Registry, error) {
			return schedulerruntime.Registry{"Panicking": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
				return panickingFilter{}, nil
			}}, nil
		}
	default:
		t.Fatalf("no faulty policy %q", name)
	}
	return p
}

const waitsByDefault = "default"

// panickingFilter is a scheduler plugin.
type panickingFilter struct{}

func (panickingFilter) Name() string { return "Panicking" }
func (panickingFilter) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	panic("no such pod")
}

// withFaults reads a simulation of simulateScenario and replaces its policies: a name that begins
// with "faulty " is that of a faulty policy.
func withFaults(t *testing.T, flags simulateFlags, names ...string) *simulation {
	t.Helper()
	flags.scenario, flags.policies, flags.seed, flags.repeat = "-", []string{"htas"}, 9, max(flags.repeat, 1)
	s, err := readSimulation(t.Context(), flags, strings.NewReader(simulateScenario))
	if err != nil {
		t.Fatal(err)
	}
	s.policies = nil
	for _, name := range names {
		if fault, is := strings.CutPrefix(name, "faulty "); is {
			s.policies = append(s.policies, faulty(t, fault))
			continue
		}
		p, err := policy.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		s.policies = append(s.policies, p)
	}
	if s.plan, err = comparison.New(s.scenario, s.policies, flags.seed, flags.repeat); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestThePoliciesThatDoNotFailRunToTheirEnd(t *testing.T) {
	t.Parallel()
	want := simulateDocument(t, withFaults(t, simulateFlags{output: "json", deterministic: true}, "default", "htas"), nil)
	for _, fault := range []struct{ name, reason string }{
		{"impossible", `buy a machine of flavor "m9.none", which is unknown`},
		{"panicking", "it panicked, which is a fault of this program: no such node"},
		{"panicking-plugin", "it panicked, which is a fault of this program: no such pod"},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			fails := []string{"policy " + fault.name + " failed with seed 9: ", fault.reason}
			got := simulateDocument(t, withFaults(t, simulateFlags{output: "json", deterministic: true}, "default", "faulty "+fault.name, "htas"), fails)
			if len(got) != 3 || !bytes.Equal(got[0], want[0]) || !bytes.Equal(got[2], want[1]) {
				t.Errorf("the other policies differ from a comparison without the one that fails")
			}
			var entry map[string]any
			testfile.JSON(t, string(got[1]), &entry)
			if text, _ := entry["error"].(string); entry["name"] != fault.name || !strings.Contains(text, fault.reason) || len(entry) != 2 {
				t.Errorf("the entry is %v, want name and error alone", entry)
			}
		})
	}
}

// simulateDocument runs the simulation and returns the entries of the policies. The parts of the
// error are fails, or there is none.
func simulateDocument(t *testing.T, s *simulation, fails []string) []json.RawMessage {
	t.Helper()
	var stdout, stderr bytes.Buffer
	err := s.run(t.Context(), &stdout, &stderr)
	if (err != nil) != (fails != nil) {
		t.Fatalf("error %v, want %q", err, fails)
	}
	for _, part := range fails {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want %q in it", err, part)
		}
	}
	var document struct{ Policies []json.RawMessage }
	testfile.JSON(t, stdout.String(), &document)
	return document.Policies
}

func TestAPolicyThatFailsIsARowOfTheTableAndOfThePage(t *testing.T) {
	t.Parallel()
	for _, repeat := range []int{1, 2} {
		report := filepath.Join(t.TempDir(), "report.html")
		placements := filepath.Join(filepath.Dir(report), "placements.csv")
		s := withFaults(t, simulateFlags{output: "table", report: report, placements: placements, repeat: repeat}, "default", "faulty impossible", "htas")
		var stdout, stderr bytes.Buffer
		if err := s.run(t.Context(), &stdout, &stderr); err == nil {
			t.Error("there is no error, want one for the exit code")
		}
		table, page := stdout.String(), string(testfile.Read(t, report))
		if row := lineOf(table, "impossible "); len(row) < 3 || row[1] != "failed" || strings.Trim(strings.Join(row[2:], ""), "-") != "" {
			t.Errorf("the row is %q, want that it failed and no figures:\n%s", row, table)
		}
		if row := lineOf(table, "htas "); len(row) < 5 || row[1] == "failed" {
			t.Errorf("the row of htas is %q", row)
		}
		for what, text := range map[string]string{"table": table, "page": page} {
			if !strings.Contains(text, "Policy impossible failed: ") || !strings.Contains(text, "m9.none") {
				t.Errorf("the %s does not say why the policy failed:\n%s", what, text)
			}
		}
		if !strings.Contains(page, "<td>failed</td><td>-</td>") || strings.Contains(page, `data-policy="1"`) || !strings.Contains(page, `data-policy="2"`) {
			t.Errorf("the page has no row that says failed, or a chart of the policy that failed")
		}
		if rows := string(testfile.Read(t, placements)); !strings.Contains(rows, ",htas,9") || strings.Contains(rows, "impossible") {
			t.Errorf("placements are not those of the policies that ended")
		}
	}
}

// lineOf returns the words of the first line with the prefix.
func lineOf(text, prefix string) []string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			return strings.Fields(line)
		}
	}
	return nil
}

func TestWithoutTheFirstPolicyNothingIsSaved(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	s := withFaults(t, simulateFlags{output: "table"}, "faulty impossible", "htas", "default")
	if err := s.run(t.Context(), &stdout, &stderr); err == nil {
		t.Error("there is no error, want one for the exit code")
	}
	if row := lineOf(stdout.String(), "htas "); len(row) < 4 || row[1] == "-" || row[2] == "-" || row[3] != "-" {
		t.Errorf("the row is %q, want a cost, its distance from the bound, and no saving", row)
	}
	if want := "Saved: unknown, because impossible, the first policy, failed.\n"; !strings.Contains(stdout.String(), want) {
		t.Errorf("%q is missing in:\n%s", want, &stdout)
	}
}

func TestWithoutDefaultThereIsNoServedBound(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"table", "json"} {
		var stdout, stderr bytes.Buffer
		s := withFaults(t, simulateFlags{output: output}, "htas", "faulty "+waitsByDefault)
		if err := s.run(t.Context(), &stdout, &stderr); err == nil || strings.Count(err.Error(), "m9.none") != 1 {
			t.Errorf("error %v, want the reason once", err)
		}
		const why = "he served bound is unknown with seed 9, because it depends on the waits under policy default, which failed"
		if text := stdout.String(); !strings.Contains(text, why) || strings.Contains(text, "Served bound: ") {
			t.Errorf("the output does not say that the bound is unknown:\n%s", text)
		}
	}
}

func TestIfEveryPolicyFailsTheReasonsAreTheResult(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"table", "json"} {
		for _, repeat := range []int{1, 2} {
			report := filepath.Join(t.TempDir(), "report.html")
			var stdout, stderr bytes.Buffer
			s := withFaults(t, simulateFlags{output: output, repeat: repeat, report: report}, "faulty "+waitsByDefault, "faulty panicking")
			if err := s.run(t.Context(), &stdout, &stderr); err == nil {
				t.Error("there is no error")
			}
			for what, text := range map[string]string{output: stdout.String(), "page": string(testfile.Read(t, report))} {
				if !strings.Contains(text, "m9.none") || !strings.Contains(text, "no such node") {
					t.Errorf("the %s lacks a reason:\n%s", what, text)
				}
			}
			if page := string(testfile.Read(t, report)); !strings.Contains(page, "Every policy failed.") || strings.Contains(page, "<h2>Charts</h2>") {
				t.Errorf("the page has charts of nothing")
			}
		}
	}
}

func TestTheStackOfAPanicIsPrintedIfAskedFor(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct{ name, frame string }{{"panicking", "cli.faulty."}, {"panicking-plugin", "cli.panickingFilter.Filter("}} {
		for _, verbose := range []bool{false, true} {
			var stdout, stderr bytes.Buffer
			s := withFaults(t, simulateFlags{output: "table", verbose: verbose}, "htas", "faulty "+fault.name)
			if err := s.run(t.Context(), &stdout, &stderr); err == nil {
				t.Error("there is no error")
			}
			if got := strings.Contains(stderr.String(), fault.frame); got != verbose {
				t.Errorf("verbose %v: stderr has the stack: %v\n%s", verbose, got, &stderr)
			}
		}
	}
}

func TestAnInterruptionEndsAllPolicies(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := withFaults(t, simulateFlags{output: "table"}, "default", "htas", "supercargo")
	s.policies[1].Controller = func(*scenario.Scenario) sim.Controller {
		return decides(func(time.Time, *cluster.State) cluster.Plan {
			cancel()
			return cluster.Plan{}
		})
	}
	var stdout, stderr bytes.Buffer
	if err := s.run(ctx, &stdout, &stderr); err == nil || !strings.Contains(err.Error(), "interrupted before the simulation was complete") || stdout.Len() > 0 {
		t.Errorf("error %v and output %q, want that it was interrupted", err, &stdout)
	}
}
