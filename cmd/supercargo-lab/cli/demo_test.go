package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/lab/compressed"
	"supercargo.dev/supercargo/lab/demo"
	"supercargo.dev/supercargo/lab/playground/controlplane"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// demoFile writes an input file of the demo.
func demoFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testfile.Write(t, path, content)
	return path
}

func TestDemoRefusesBadInput(t *testing.T) {
	badTrace := demoFile(t, "trace.csv", "arrival_s,cpu_milli,memory_mib,runtime_s\n1,x,1,1\n1,1,-2,1\n")
	badFlavors := demoFile(t, "flavors.csv", "name,cpu,memory_gib,price_per_hour\nA B,1,1,1\n")
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{"no nodes", []string{"--nodes", "0"}, []string{"--nodes 0: must be from 1 to 5000"}},
		{"no time", []string{"--duration", "1ms"}, []string{"--duration 1ms: must be from 1s to 24h0m0s"}},
		{"no time on the fleet", []string{"--fleet-duration", "1ms"}, []string{"--fleet-duration 1ms: must be from 1s to 24h0m0s, or 0"}},
		{"a slowdown that speeds up", []string{"--max-slowdown", "0.5"}, []string{"--max-slowdown 0.5: must be from 1 to 100"}},
		{"no scale", []string{"--time-scale", "0"}, []string{"--time-scale 0: must be more than 0"}},
		{"a scale that is no number", []string{"--time-scale", "NaN"}, []string{"--time-scale NaN"}},
		{"an unknown output", []string{"-o", "xml"}, []string{`--output "xml": must be table or json`}},
		{"an unknown profile", []string{"--profile", "best"}, []string{`--profile "best": must be default or supercargo`}},
		{"no profile", []string{"--profile", ""}, []string{"--profile: must name at least one"}},
		{"no such trace", []string{"--trace", "none.csv"}, []string{"-f: open none.csv"}},
		{"no such flavors", []string{"--flavors", "none.csv"}, []string{"--flavors: open none.csv"}},
		{"no such configuration", []string{"--scheduler-config", "none.yaml"}, []string{"--scheduler-config: open none.yaml"}},
		{"a bad trace", []string{"--trace", badTrace}, []string{badTrace + ":2: cpu_milli: \"x\"", badTrace + ":3: memory_mib: \"-2\""}},
		{"a flavor that names no node", []string{"--flavors", badFlavors}, []string{`"A B" cannot be part of a node's name`}},
		{"several faults", []string{"--nodes", "0", "--trace", badTrace}, []string{"--nodes 0", "trace.csv:2"}},
		{"an argument", []string{"x"}, []string{"unknown command"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := supercargo(t, "", append([]string{"demo"}, tc.args...)...)
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

func TestDemoRunsTheStockProfileFirst(t *testing.T) {
	in, err := readDemoInput(t.Context(), demoFlags{nodes: 9, duration: time.Second, timeScale: 10, maxSlowdown: 1, profiles: []string{ourProfile, stockProfile}, output: "table"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Profiles) != 2 || in.Profiles[0].Name != stockProfile || in.Profiles[1].Name != ourProfile {
		t.Fatalf("profiles are %v, want the stock one first", in.Profiles)
	}
}

func TestTheFleetsReplayOfTheDemoIsTheOtherOneSlowedDown(t *testing.T) {
	flags := demoFlags{nodes: 9, duration: 40 * time.Second, timeScale: 600, maxSlowdown: 1, profiles: []string{stockProfile, ourProfile}, output: "table"}
	in, err := readDemoInput(t.Context(), flags, nil)
	if err != nil || in.Fleet != nil {
		t.Fatalf("without --fleet the fleet's replay is %v, %v, want none", in.Fleet, err)
	}
	flags.fleet = true
	for own, want := range map[time.Duration]demo.FleetInput{
		0:                {Duration: 100 * time.Second, TimeScale: 240},
		20 * time.Second: {Duration: 20 * time.Second, TimeScale: 1200},
	} {
		flags.fleetDuration = own
		in, err := readDemoInput(t.Context(), flags, nil)
		if err != nil {
			t.Fatal(err)
		}
		if in.Fleet.Duration != want.Duration || in.Fleet.TimeScale != want.TimeScale {
			t.Errorf("with --fleet-duration %v it takes %v and lifetimes are compressed by %v, want %v and %v",
				own, in.Fleet.Duration, in.Fleet.TimeScale, want.Duration, want.TimeScale)
		}
		want, err := compressed.SchedulerConfig(want.TimeScale)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := in.Fleet.Scheduler(in.Fleet.TimeScale); err != nil || !bytes.Equal(got, want) {
			t.Errorf("with --fleet-duration %v the time bins are those of another scale: %v\n%s", own, err, got)
		}
	}
	flags.profiles = []string{stockProfile}
	if in, err = readDemoInput(t.Context(), flags, nil); err != nil {
		t.Fatal(err)
	}
	want, err := compressed.Scheduler(controlplane.StockSchedulerConfig)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := in.Fleet.Scheduler(1); err != nil || !bytes.Equal(got, want) {
		t.Errorf("with the stock profile alone the fleet's scheduler is another: %v\n%s", err, got)
	}
}

func TestDemoReadsATraceFromStandardInput(t *testing.T) {
	flags := demoFlags{nodes: 1, duration: time.Second, timeScale: 10, maxSlowdown: 1, profiles: []string{stockProfile}, output: "table", trace: "-"}
	in, err := readDemoInput(t.Context(), flags, strings.NewReader("arrival_s,cpu_milli,memory_mib,runtime_s\n0,100,1,1\n5,100,1,1\n"))
	if err != nil || in.TraceName != "stdin" || len(in.Workload.Pods) != 2 {
		t.Fatalf("it reads %v, %v; want the two pods of standard input", in.Workload, err)
	}
	code, stdout, stderr := supercargo(t, "arrival_s,cpu_milli,memory_mib,runtime_s\n0,x,1,1\n", "demo", "-f", "-")
	if code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, `stdin:2: cpu_milli: "x"`) {
		t.Errorf("exit code %d, stdout %q, stderr %q; want a refusal that names line 2 of standard input", code, stdout, stderr)
	}
}
