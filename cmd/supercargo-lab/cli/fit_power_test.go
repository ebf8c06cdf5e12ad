package cli

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/lab/fit"
	"supercargo.dev/supercargo/test/data"
	"supercargo.dev/supercargo/test/kit/commandtest"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// fitted runs the command and returns what it prints as JSON.
func fitted(t *testing.T, stdin string, args ...string) fit.Power {
	t.Helper()
	code, stdout, stderr := supercargo(t, stdin, append([]string{"fit", "power", "-o", "json"}, args...)...)
	if code != command.ExitOK || stderr != "" {
		t.Fatalf("exit code %d and stderr %q, want 0 and nothing", code, stderr)
	}
	var p fit.Power
	testfile.JSON(t, stdout, &p)
	return p
}

// TestFitPowerFollowsAMeasuredSeries: the power of a real machine is predicted within 8 % by its cycles
// or counters. Busy time predicts it less well, because the clock rate varied.
func TestFitPowerFollowsAMeasuredSeries(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, columns string
		last, between float64 // the greatest accepted mean error, in percent
	}{
		{"by cycles", "--load-column=cpu_cycles_per_s", 8, 8},
		{"by CPU time", "--load-column=cpu_time_ms_per_s", 13, 13},
		{"by counters", "--counter-columns=cpu_cycles_per_s,cpu_time_ms_per_s,cpu_instructions_per_s,cache_misses_per_s", 8, 8},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := fitted(t, data.NodePower, "-f", "-", "--time-column=elapsed_s", "--watts-column=platform_power_w", tc.columns)
			t.Logf("fitted %.2f %%, last half %.2f %%, between %.2f %%", p.Fitted.MeanErrorPercent, p.HeldOut.LastHalf.MeanErrorPercent, p.HeldOut.Between.MeanErrorPercent)
			if q := p.HeldOut.LastHalf; !(q.MeanErrorPercent > 0 && q.MeanErrorPercent < tc.last) || q.Samples != 1101 {
				t.Errorf("%+v on the last half, want less than %v %%", q, tc.last)
			}
			if q := p.HeldOut.Between; !(q.MeanErrorPercent > 0 && q.MeanErrorPercent < tc.between) {
				t.Errorf("%+v on every other twentieth, want less than %v %%", q, tc.between)
			}
			if !(p.Fitted.MeanErrorPercent < p.HeldOut.Between.MeanErrorPercent) {
				t.Errorf("%.2f %% on what it was fitted to, and %.2f %% on what not: it is not fitted to all", p.Fitted.MeanErrorPercent, p.HeldOut.Between.MeanErrorPercent)
			}
			if q := p.Fitted; p.Samples != 2202 || q.Samples != 2202 || !(q.MeanErrorPercent < tc.between) {
				t.Errorf("%+v on %d samples that it was fitted to", q, p.Samples)
			}
		})
	}
}

// TestFitPowerPrintsWhatAMachineProfileHolds: the YAML output is a MachineProfile that gives the
// measured power.
func TestFitPowerPrintsWhatAMachineProfileHolds(t *testing.T) {
	t.Parallel()
	path := commandtest.File(t, commandtest.MachineCSV(300))
	code, stdout, stderr := supercargo(t, "", "fit", "power", "-f", path, "--machine-type", "EPYC_64", "-o", "yaml")
	if code != command.ExitOK || stderr != "" {
		t.Fatalf("exit code %d and stderr %q, want 0 and nothing", code, stderr)
	}
	var o v1alpha1.MachineProfile
	testfile.StrictYAML(t, stdout, &o)
	m, err := profile.PowerOf(&o)
	if err != nil {
		t.Fatal(err)
	}
	for u, want := range map[float64]energy.Watts{0: 60, 0.25: 105, 0.5: 150, 0.75: 180, 1: 210} {
		if got := m.At(u); math.Abs(float64(got-want)) > 1.5 {
			t.Errorf("%v W at %v, want %v", got, u, want)
		}
	}
	if o.Kind != "MachineProfile" || o.APIVersion != "supercargo.dev/v1alpha1" || o.Spec.MachineType != "EPYC_64" || o.Name != profile.NameOf("EPYC_64") {
		t.Errorf("%s %s %s of %s", o.APIVersion, o.Kind, o.Name, o.Spec.MachineType)
	}
	if strings.Contains(stdout, "status") || strings.Contains(stdout, "models") || !strings.HasPrefix(stdout, "# Fitted to 300 samples, utilisation 0 to 1.") {
		t.Errorf("applying this changes more than power, or it does not say how good it is:\n%s", stdout)
	}
	if p := fitted(t, "", "-f", path); fmt.Sprint(p.Power) != fmt.Sprint(o.Spec.Power) || p.Seen == nil || *p.Seen != (fit.Range{Least: 0, Most: 1}) || p.HeldOut.LastHalf.MeanErrorPercent > 1 {
		t.Errorf("%+v, want power %v", p, o.Spec.Power)
	}
}

func TestFitPowerPrintsATable(t *testing.T) {
	t.Parallel()
	code, stdout, _ := supercargo(t, commandtest.MachineCSV(300), "fit", "power", "-f", "-")
	words := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{"Samples 300", "Utilisation seen 0 to 1", "Idle power 60.0 W", "Full power 210.0 W", "50:60", "% on the last half", "% on every other twentieth"} {
		if code != command.ExitOK || !strings.Contains(words, want) {
			t.Errorf("exit %d, no %q:\n%s", code, want, stdout)
		}
	}
}

func TestFitPowerByCountersSaysItsParts(t *testing.T) {
	t.Parallel()
	p := fitted(t, data.NodePower, "-f", "-", "--watts-column=platform_power_w", "--counter-columns=cpu_cycles_per_s,cache_misses_per_s")
	if p.Power != nil || p.Seen != nil || p.ByCounters == nil || len(p.ByCounters.Counters) != 2 {
		t.Fatalf("%+v", p)
	}
	full := p.ByCounters.IdleWatts
	for i, name := range []string{"cpu_cycles_per_s", "cache_misses_per_s"} {
		c := p.ByCounters.Counters[i]
		if c.Column != name || !(c.Full > 0) || len(c.Rises) != 5 {
			t.Errorf("%+v, want five parts of %s", c, name)
		}
		for _, r := range c.Rises {
			full += r
		}
	}
	if !(p.ByCounters.IdleWatts > 100 && full > 300 && full < 500) {
		t.Errorf("%v W to %v W, want about 171 to 396", p.ByCounters.IdleWatts, full)
	}
	code, stdout, _ := supercargo(t, data.NodePower, "fit", "power", "-f", "-", "--watts-column=platform_power_w", "--counter-columns=cpu_cycles_per_s,cache_misses_per_s")
	if code != command.ExitOK || !strings.Contains(stdout, "cache_misses_per_s") || !strings.Contains(stdout, "rises by") {
		t.Errorf("exit %d:\n%s", code, stdout)
	}
}

func TestFitPowerRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	bad := testfile.New(t, "bad.csv", "time,watts,utilization\n0,1,0\n1,1,150\n")
	for _, tc := range []struct {
		name, stdin, args string
		says              []string
	}{
		{"no file", "", "", []string{"-f"}},
		{"no such file", "", "-f none.csv", []string{"-f", "none.csv"}},
		{"file, line and column", "", "-f " + bad, []string{bad, "line 3", "column utilization", `"150"`}},
		{"too few", commandtest.MachineCSV(39), "-f -", []string{"-f -", "first half", "19 samples", "at least 20"}},
		{"too few for so many counters", commandtest.MachineCSV(59), "-f - --counter-columns time,utilization,watts", []string{"3 counters", "at least 30"}},
		{"a wrong name of load", commandtest.MachineCSV(60), "-f - --load-column none", []string{"line 1", "column none"}},
		{"no load", "watts,load\n" + strings.Repeat("5,0\n", 60), "-f - --load-column load", []string{"the load is 0"}},
		{"two measures of load", "", "-f - --load-column a --counter-columns b", []string{"--load-column", "--counter-columns", "mutually exclusive"}},
		{"a wrong name of time", commandtest.MachineCSV(60), "-f - --time-column when", []string{"column when"}},
		{"too many counters", "", "-f - --counter-columns a,b,c,d,e,f,g,h,i", []string{"--counter-columns", "at most 8"}},
		{"a profile by counters", "", "-f - -o yaml --machine-type x --counter-columns a,b", []string{"-o yaml", "--counter-columns"}},
		{"a profile of nothing", commandtest.MachineCSV(60), "-f - -o yaml", []string{"-o yaml", "--machine-type"}},
		{"no machine type", commandtest.MachineCSV(60), "-f - --machine-type -x-", []string{"--machine-type", "-x-"}},
		{"no such output", commandtest.MachineCSV(60), "-f - -o xml", []string{"--output", "xml"}},
	} {
		code, stdout, stderr := supercargo(t, tc.stdin, append([]string{"fit", "power"}, strings.Fields(tc.args)...)...)
		if code != command.ExitUsage || stdout != "" {
			t.Errorf("%s: exit %d and %q, want 2 and nothing", tc.name, code, stdout)
		}
		for _, part := range tc.says {
			if !strings.Contains(stderr, part) {
				t.Errorf("%s: %q, want %q in it", tc.name, stderr, part)
			}
		}
	}
}
