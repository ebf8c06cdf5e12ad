package policy

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/lab/outcome"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// heatsScenario reads the experiment of HEATS.
func heatsScenario(t *testing.T) *scenario.Scenario {
	t.Helper()
	text := testfile.Read(t, filepath.Join("..", "..", "test", "scenarios", "heats.yaml"))
	sc, err := scenario.Read("heats.yaml", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

// experiment has the results of the policies for all seeds.
type experiment map[string][]outcome.Policy

func runHEATS(t *testing.T, sc *scenario.Scenario, policies ...string) experiment {
	t.Helper()
	seeds := uint64(5)
	if testing.Short() {
		seeds = 3
	}
	all := experiment{}
	for seed := uint64(1); seed <= seeds; seed++ {
		pods, err := sc.Arrivals(seed)
		if err != nil {
			t.Fatal(err)
		}
		report := outcome.Report{}
		for _, name := range policies {
			r, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Pods: pods, Seed: seed, Policy: byName(t, name)})
			if err != nil {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
			if r.Completed != len(pods) {
				t.Fatalf("%s, seed %d: %d of %d tasks were completed", name, seed, r.Completed, len(pods))
			}
			report.Policies = append(report.Policies, r.Outcome(name, sim.Bounds{}, 0))
		}
		report.SameEnd()
		for _, p := range report.Policies {
			all[p.Name] = append(all[p.Name], p)
		}
	}
	return all
}

// mean returns the mean of a figure over the seeds.
func (x experiment) mean(policy string, of func(outcome.Policy) float64) float64 {
	sum := 0.0
	for _, p := range x[policy] {
		sum += of(p)
	}
	return sum / float64(len(x[policy]))
}

// more returns by how many percent the mean of one policy is above that of another.
func (x experiment) more(policy, than string, of func(outcome.Policy) float64) float64 {
	return 100 * (x.mean(policy, of)/x.mean(than, of) - 1)
}

func ownEnd(p outcome.Policy) float64     { return p.EnergyJoules }
func sameEnd(p outcome.Policy) float64    { return p.Energy.SameEndJoules }
func tasks(p outcome.Policy) float64      { return p.Energy.TaskJoules }
func makespan(p outcome.Policy) float64   { return p.MakespanSeconds }
func runtimeOf(p outcome.Policy) float64  { return p.Runtime.Mean }
func responseOf(p outcome.Policy) float64 { return p.Response.Mean }

// TestHEATSWeighsEnergyAgainstRuntime compares the experiment with the paper's headline, for each
// reading of its energy and its runtime in docs/simulation.md.
func TestHEATSWeighsEnergyAgainstRuntime(t *testing.T) {
	t.Parallel()
	x := runHEATS(t, heatsScenario(t), "default", "heats-0", "heats-1")
	for what, of := range map[string]func(outcome.Policy) float64{"energy to the end of the run": ownEnd, "energy to the same end": sameEnd, "energy of the tasks": tasks} {
		if saved := -x.more("heats-1", "default", of); !(saved >= 7.1) {
			t.Errorf("%s: energy alone saves %.1f %% against default, want 7.1", what, saved)
		}
		if saved := -x.more("heats-1", "heats-0", of); !(saved >= 8.5) {
			t.Errorf("%s: energy alone saves %.1f %% against runtime alone, want 8.5", what, saved)
		}
	}
	for what, of := range map[string]func(outcome.Policy) float64{"makespan": makespan, "mean runtime": runtimeOf, "mean response": responseOf} {
		if longer := x.more("heats-1", "default", of); !(longer <= 7) {
			t.Errorf("%s: energy alone takes %.1f %% longer than default, want at most 7", what, longer)
		}
		if longer := x.more("heats-0", "default", of); !(longer <= 0) {
			t.Errorf("%s: runtime alone takes %.1f %% longer than default, want no longer", what, longer)
		}
	}
	// TestLongTasksMoveToMachinesThatSuitThemBetter covers the effect of moves on this.
	if longer := x.more("heats-1", "heats-0", makespan); !(longer <= 7) {
		t.Errorf("makespan: energy alone takes %.1f %% longer than runtime alone, want at most 7", longer)
	}
}

// TestEnergyDoesNotRiseWithItsWeight covers the weights from runtime only to energy only.
func TestEnergyDoesNotRiseWithItsWeight(t *testing.T) {
	t.Parallel()
	var weights []string
	for tenths := range 11 {
		weights = append(weights, heatsPrefix+strconv.FormatFloat(float64(tenths)/10, 'f', -1, 64))
	}
	x := runHEATS(t, heatsScenario(t), weights...)
	for what, of := range map[string]func(outcome.Policy) float64{"to the end of the run": ownEnd, "to the same end": sameEnd, "of the tasks": tasks} {
		for i, h := range weights[1:] {
			// Scores are whole numbers from 1 to 100, so machine types that differ by less than a
			// point are equal for some weights and not for others.
			const tolerance = 1 // percent
			if rise := x.more(h, weights[i], of); !(rise <= tolerance) {
				t.Errorf("%s takes %.1f %% more energy %s than %s", h, rise, what, weights[i])
			}
		}
		if fall := -x.more("heats-1", "heats-0", of); !(fall > 5) {
			t.Errorf("the energy %s falls by %.1f %% from one end to the other: the weight does nothing", what, fall)
		}
	}
}

func TestTheWeightDecidesWhereTheFirstTaskGoes(t *testing.T) {
	t.Parallel()
	sc := heatsScenario(t)
	pods, err := sc.Arrivals(1)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"heats-0": "eiger", "heats-0.000000": "eiger", "heats-0.5": "cervino", "heats-1": "cervino"} {
		r, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Pods: pods[:1], Seed: 1, Policy: byName(t, name)})
		if err != nil {
			t.Fatal(err)
		}
		if r.Placements[0].Flavor != want {
			t.Errorf("%s puts the first task on %s, want %s", name, r.Placements[0].Flavor, want)
		}
	}
}

func TestPoliciesWithoutASoundWeightAreRefused(t *testing.T) {
	t.Parallel()
	for _, h := range []string{"", "-0.1", "1.1", "1.000001", "2", "NaN", "Inf", "0x1p-2", "1e-1", ".5", "0.", "0.1234567", " 0", "0,5"} {
		if _, err := ByName("heats-" + h); err == nil || !strings.Contains(err.Error(), "must be a number from 0 to 1") {
			t.Errorf("heats-%q: error %v, want one that says what would be right", h, err)
		}
	}
	if _, err := ByName("heat-1"); err == nil || !strings.Contains(err.Error(), "heats-H") {
		t.Errorf("error %v of an unknown policy does not mention heats-H", err)
	}
}

// TestProfilesAreLearnedFromProbes compares the learned profiles with the runtime and energy of a
// task, computed by hand from the scenario.
func TestProfilesAreLearnedFromProbes(t *testing.T) {
	t.Parallel()
	sc := heatsScenario(t)
	perCore := map[string]float64{"eiger": (511.0 - 145) / 48, "moleson": (58.5 - 19) / 8, "cervino": (241 - 41.8) / 88, "vully": (2.58 - 1.2) / 4}
	for i := range sc.Flavors {
		f := &sc.Flavors[i]
		learned, unusable, err := profile.Learn(sim.ProfileSamples(f))
		if err != nil || unusable > 0 {
			t.Fatalf("%s: %d unusable samples, error %v", f.Name, unusable, err)
		}
		size := profile.Size{MilliCPU: 2000, MemoryBytes: 100 << 20}
		energy, runtime := learned.Energy.Predict(size, 0), learned.Runtime.Predict(size, 0)
		seconds := 60 / f.Speed
		if want := 2 * perCore[f.Name] * seconds; math.Abs(energy.Value/want-1) > 0.01 || energy.Trust < 0.99 {
			t.Errorf("%s: a probe of two cores takes %v, want %v J", f.Name, energy, want)
		}
		if math.Abs(runtime.Value/seconds-1) > 0.01 || runtime.Trust < 0.99 {
			t.Errorf("%s: a probe takes %v, want %v s", f.Name, runtime, seconds)
		}
	}
}

func TestWithoutPowerHEATSPlacesAsDefaultDoes(t *testing.T) {
	t.Parallel()
	sc := heatsScenario(t)
	for i := range sc.Flavors {
		f := &sc.Flavors[i]
		f.MilliwattsIdle, f.MilliwattsFull = 0, 0
	}
	pods, err := sc.Arrivals(1)
	if err != nil {
		t.Fatal(err)
	}
	var placed [2][]sim.Placement
	for i, name := range []string{"default", "heats-1"} {
		r, err := sim.Run(t.Context(), sim.Input{Scenario: sc, Pods: pods[:100], Seed: 1, Policy: byName(t, name)})
		if err != nil {
			t.Fatal(err)
		}
		placed[i] = r.Placements
	}
	for i := range placed[0] {
		if placed[0][i] != placed[1][i] {
			t.Fatalf("placement %d is %+v with default and %+v with heats-1", i, placed[0][i], placed[1][i])
		}
	}
}
