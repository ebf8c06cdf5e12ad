package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // kube-scheduler logs how it reads its configuration
	os.Exit(m.Run())
}

// theScenario reads one of the scenarios of HTAS.
func theScenario(t *testing.T, name string) *scenario.Scenario {
	t.Helper()
	text := testfile.Read(t, filepath.Join("..", "..", "test", "scenarios", "htas-"+name+".yaml"))
	sc, err := scenario.Read(name, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

func byName(t *testing.T, name string) sim.Policy {
	t.Helper()
	p, err := ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// moved is how each policy moves pods. In these runs, default and most-allocated evict few pods,
// and only services.
var moved = map[string]struct{ migrates, evicts, movesServices, loses, mixes bool }{
	"default":        {evicts: true, movesServices: true, mixes: true},
	"most-allocated": {evicts: true, movesServices: true, mixes: true},
	"coca":           {evicts: true, movesServices: true, loses: true, mixes: true},
	"stratus":        {migrates: true, mixes: true},
	"htas":           {migrates: true},
	"supercargo":     {migrates: true, evicts: true, movesServices: true, mixes: true},
}

func TestPoliciesServeTheExperimentsOfHTAS(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			migrations, evictions, mixed := 0, 0, 0
			var lost time.Duration
			for _, shape := range []string{"stable", "growing", "cycle", "on-off"} {
				sc := theScenario(t, shape)
				pods, err := sc.Arrivals(1)
				if err != nil {
					t.Fatal(err)
				}
				r, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Pods: pods, Seed: 1, Policy: byName(t, name)})
				if err != nil {
					t.Fatal(err)
				}
				if r.Pending != 0 || r.Failed != 0 || r.Scheduled != len(pods) || r.CostMicroDollars < sim.LowerBound(sc, pods) {
					t.Errorf("%s: %d of %d pods scheduled, %d pending, %d failed, for %d micro-dollars", shape, r.Scheduled, len(pods), r.Pending, r.Failed, r.CostMicroDollars)
				}
				migrations, evictions, lost = migrations+r.Migrations, evictions+r.Evictions, lost+r.LostWork
				mixed += mixes(r, pods)
				if !moved[name].movesServices && servicesMoved(r, pods) {
					t.Errorf("%s: a service was moved", shape)
				}
			}
			if may := moved[name]; (migrations > 0) != may.migrates || (evictions > 0) != may.evicts || (lost > 0) != may.loses || (mixed > 0) != may.mixes {
				t.Errorf("%d migrations, %d evictions that lost %v, %d machines with both classes, want some as in %+v", migrations, evictions, lost, mixed, may)
			}
		})
	}
}

// mixes counts the machines that have run pods of both classes.
func mixes(r *sim.Result, pods []scenario.Pod) int {
	of := map[string]class.Class{}
	for _, p := range pods {
		of[p.Name] = p.Class
	}
	seen, mixed := map[string]class.Class{}, map[string]bool{}
	for _, p := range r.Placements {
		if first, ok := seen[p.Node]; ok && first != of[p.Pod] {
			mixed[p.Node] = true
		}
		seen[p.Node] = of[p.Pod]
	}
	return len(mixed)
}

// servicesMoved reports whether a service was placed more than once.
func servicesMoved(r *sim.Result, pods []scenario.Pod) bool {
	times := map[string]int{}
	for _, p := range r.Placements {
		times[p.Pod]++
	}
	return slices.ContainsFunc(pods, func(p scenario.Pod) bool { return p.Class == class.Service && times[p.Name] > 1 })
}

func TestAnUnknownPolicyIsRefusedWithTheKnownOnes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Default", "heats"} {
		_, err := ByName(name)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("policy %q must be one of default, most-allocated, coca, stratus, htas, supercargo", name)) {
			t.Errorf("policy %q: error %v, want the names of all", name, err)
		}
	}
}

func TestAPolicyKnowsItsName(t *testing.T) {
	t.Parallel()
	if Names()[0] != "default" {
		t.Errorf("the first policy is %s, want the baseline", Names()[0])
	}
	for _, name := range Names() {
		if p := byName(t, name); p.Name != name || p.Scheduler == nil || p.Controller == nil || p.Groups != (name == "htas") {
			t.Errorf("policy %s is %+v", name, p)
		}
	}
	if p := HTASWith(time.Minute, time.Hour); p.Name != "htas" || !p.Groups {
		t.Errorf("policy htas with other times is %+v", p)
	}
}

// profiles returns the arguments of each plugin in each profile of a configuration.
func profiles(t *testing.T, configuration []byte) map[string]map[string]map[string]any {
	t.Helper()
	var config struct {
		Profiles []struct {
			SchedulerName string
			PluginConfig  []struct {
				Name string
				Args map[string]any
			}
		}
	}
	testfile.YAML(t, configuration, &config)
	all := map[string]map[string]map[string]any{}
	for _, p := range config.Profiles {
		all[p.SchedulerName] = map[string]map[string]any{}
		for _, c := range p.PluginConfig {
			all[p.SchedulerName][c.Name] = c.Args
		}
	}
	return all
}

func TestTimeBinsAreAsWideAsTheScalingIntervalWhereTheyAreUsed(t *testing.T) {
	t.Parallel()
	three := func(c string) map[string]map[string]map[string]any {
		bin := map[string]map[string]any{"TimeBin": {"scalingCycle": c}}
		return map[string]map[string]map[string]any{"default-scheduler": bin, "batch-packing": bin, "service-packing": {}}
	}
	for _, tc := range []struct {
		interval time.Duration
		want     string
	}{
		{5 * time.Minute, "5m0s"}, {90 * time.Second, "1m30s"},
		{time.Millisecond, "1s"}, {48 * time.Hour, "24h0m0s"}, // limited by the plugin
	} {
		got := timeBins(manifests.SchedulerConfig)(&scenario.Scenario{ScalingInterval: tc.interval})
		if diff := cmp.Diff(three(tc.want), profiles(t, got)); diff != "" {
			t.Errorf("at an interval of %v (-want +got):\n%s", tc.interval, diff)
		}
	}
	with := withScalingCycle([]byte(`
profiles:
- schedulerName: one
  plugins: {multiPoint: {enabled: [{name: TimeBin}]}}
  pluginConfig: [{name: BestFit, args: {narrowing: Never}}]
- schedulerName: two
  plugins: {score: {enabled: [{name: TimeBinLike}]}}
- schedulerName: three
`), time.Minute)
	want := map[string]map[string]map[string]any{
		"one": {"BestFit": {"narrowing": "Never"}, "TimeBin": {"scalingCycle": "1m0s"}}, "two": {}, "three": {},
	}
	if diff := cmp.Diff(want, profiles(t, with)); diff != "" {
		t.Errorf("other plugins' arguments (-want +got):\n%s", diff)
	}
}

func TestSchedulersTakeTheConfigurationOfEveryPolicyAtAnyInterval(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		for _, interval := range []time.Duration{1, 5 * time.Minute, scenario.MaxDuration} {
			p := byName(t, name)
			options := sim.SchedulerOptions{Configuration: p.Scheduler(&scenario.Scenario{ScalingInterval: interval}), Clock: &sim.Clock{}}
			if p.Plugins != nil {
				var err error
				if options.Plugins, err = p.Plugins(&scenario.Scenario{}, options.Clock); err != nil {
					t.Fatal(err)
				}
			}
			s, err := sim.NewScheduler(t.Context(), options)
			if err != nil {
				t.Errorf("policy %s at an interval of %v: %v", name, interval, err)
			} else if s.Profiles["default-scheduler"] == nil {
				t.Errorf("policy %s has no profile default-scheduler", name)
			}
		}
	}
}
