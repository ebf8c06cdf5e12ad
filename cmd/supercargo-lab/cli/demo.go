package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"supercargo.dev/supercargo/cli/dashboard"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/compressed"
	"supercargo.dev/supercargo/lab/demo"
	"supercargo.dev/supercargo/lab/playground/controlplane"
	"supercargo.dev/supercargo/test/data"
)

// The profiles of the demo, in the order of the runs.
const (
	stockProfile = "default"
	ourProfile   = "supercargo"
)

// demoFlags are the flags of `supercargo demo`.
type demoFlags struct {
	trace           string
	flavors         string
	nodes           int
	duration        time.Duration
	fleetDuration   time.Duration
	timeScale       float64
	maxSlowdown     float64
	schedulerConfig string
	profiles        []string
	output          string
	fleet           bool
	consolidation   bool
	open            bool
}

func newDemoCommand() *cobra.Command {
	var flags demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Compare Supercargo with the stock scheduler on a real trace",
		Long: `Start a control plane on this machine with unequal nodes that kwok simulates. Replay one trace
in compressed time, first with kube-scheduler's default profile, then with Supercargo's. Print
side by side how many pods were bound, how many nodes they used, how full those were, what they
cost and how long pods waited.

Then replay the trace on a cluster that starts without nodes: a NodeFleet buys machines through
cluster-api as pods arrive, and deletes them when they are no longer needed. Finally, drain
half-empty machines by migrating their Jobs with simulated node agents. The demo takes about
five minutes.

The trace and the machines are extracts of public data that ship with this program: 1,200 pods
of a real cluster, and eight cloud machine types with their prices. For pods that requested
GPUs, only CPU and memory count.

All pods arrive within nine tenths of --duration. Lifetimes, and the width of Supercargo's time
bins, are divided by --time-scale: a smaller value makes pods live longer and the cluster
fuller. The fleet part runs slower, by the ratio of --fleet-duration to --duration, because
machines that come and go are more work for the control plane.

The demo runs in real time. On a computer that is too slow or busy, the control plane falls behind
the trace: pods are created and bound late, machines start late, and the fleet buys more of them.
The demo measures this. A replay that the control plane does not keep up with begins again at half
of the speed, with all waits and start-up times twice as long, and the times that the demo prints
are divided by two. It is slowed down to 1/--max-slowdown of the speed at most; if the control
plane does not keep up even then, the demo says so. Figures still vary a little from run to run.`,
		Example: `  supercargo demo

  # Watch it in a browser
  supercargo demo --open

  # Use your own trace and machines, and print JSON
  supercargo demo -f pods.csv --flavors flavors.csv --nodes 100 -o json

  # Compare your own profile with the stock one
  supercargo demo --scheduler-config scheduler.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), flags, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	command.AddInput(cmd, &flags.trace, "`file` with a trace as CSV, or an openb pod list; - is stdin (default: the bundled extract)", "trace")
	f.StringVar(&flags.flavors, "flavors", "", "CSV `file` of machine flavors; default: the bundled catalogue")
	f.IntVar(&flags.nodes, "nodes", 72, "number of nodes, of all flavors in turn")
	f.DurationVar(&flags.duration, "duration", 40*time.Second, "how long to replay the trace with each profile")
	f.DurationVar(&flags.fleetDuration, "fleet-duration", 0, "how long to replay the trace on the fleet; 0 is 2.5 times --duration")
	f.Float64Var(&flags.timeScale, "time-scale", 600, "seconds of a pod's recorded lifetime that pass in one second")
	f.Float64Var(&flags.maxSlowdown, "max-slowdown", 8, "how many times as long a replay may take on a computer that does not keep up; 1 for never longer")
	f.StringVar(&flags.schedulerConfig, "scheduler-config", "", "KubeSchedulerConfiguration `file` that the profile supercargo uses instead of its own")
	f.StringSliceVar(&flags.profiles, "profile", []string{stockProfile, ourProfile}, "profiles to replay the trace with: default, supercargo")
	f.BoolVar(&flags.fleet, "fleet", true, "replay the trace once more on a NodeFleet that buys and deletes machines")
	f.BoolVar(&flags.consolidation, "consolidation", true, "with --fleet, finish half of the fleet's Jobs and consolidate the others by migration")
	f.BoolVar(&flags.open, "open", false, "show the clusters on the dashboard in a browser while the demo runs")
	command.AddOutput(cmd, &flags.output, command.TableOrJSON, "")
	command.Words{stockProfile, ourProfile}.CompleteList(cmd, "profile")
	return cmd
}

func runDemo(ctx context.Context, flags demoFlags, stdin io.Reader, stdout, stderr io.Writer) error {
	input, err := readDemoInput(ctx, flags, stdin)
	if err != nil {
		return command.BadInput(err)
	}
	if flags.open {
		page, err := dashboard.ServePage(ctx, "127.0.0.1:0", nil)
		if err != nil {
			return fmt.Errorf("serve the dashboard: %w", err)
		}
		defer page.End()
		fmt.Fprintln(stderr, page.Address)
		go command.OpenPage(ctx, page.Address, stderr)
		input.Watch = showOn(page, stderr)
	}
	doc, err := demo.Run(ctx, input, demo.NewProgress(stderr))
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted before the comparison was complete: %w", err)
		}
		var wrong *controlplane.InputError
		if errors.As(err, &wrong) && flags.schedulerConfig != "" {
			return command.BadInput(fmt.Errorf("--scheduler-config %s: %w", flags.schedulerConfig, err))
		}
		return err
	}
	if flags.output == "json" {
		return doc.WriteJSON(stdout)
	}
	return doc.WriteTable(stdout)
}

// demoAudits is the audit interval of the demo, whose pods live only seconds. An audit of its few nodes
// takes some hundredths of a second.
const demoAudits = 5 * time.Second

// showOn returns a function that shows a cluster of the demo on the page.
func showOn(page *dashboard.Page, stderr io.Writer) func(context.Context, *rest.Config, time.Duration) {
	return func(ctx context.Context, config *rest.Config, cycle time.Duration) {
		link, err := dashboard.Connect(config)
		if err == nil {
			err = dashboard.Run(ctx, dashboard.Options{Link: link, AuditInterval: demoAudits, Cycle: cycle, Show: page.Server.Show})
		}
		if err != nil {
			fmt.Fprintf(stderr, "the dashboard cannot show this cluster: %v\n", err)
		}
	}
}

// Limits of the flags.
const (
	maxDemoNodes    = 5000
	minDemoDuration = time.Second
	maxDemoDuration = 24 * time.Hour
	maxDemoSlowdown = 100.
)

// readDemoInput reads and validates all input before anything is started, and returns all errors. It waits for stdin until
// ctx ends.
func readDemoInput(ctx context.Context, flags demoFlags, stdin io.Reader) (*demo.Input, error) {
	var errs input.Faults
	in := &demo.Input{Nodes: flags.nodes, Duration: flags.duration, TimeScale: flags.timeScale, MaxSlowdown: flags.maxSlowdown, Consolidation: flags.consolidation}
	errs = append(errs, command.TableOrJSON.Check("output", flags.output))
	errs.If(flags.nodes < 1 || flags.nodes > maxDemoNodes, "--nodes %d: must be from 1 to %d", flags.nodes, maxDemoNodes)
	errs.If(flags.duration < minDemoDuration || flags.duration > maxDemoDuration, "--duration %s: must be from %s to %s", flags.duration, minDemoDuration, maxDemoDuration)
	if d := flags.fleetDuration; d != 0 && (d < minDemoDuration || d > maxDemoDuration) {
		errs = append(errs, fmt.Errorf("--fleet-duration %s: must be from %s to %s, or 0", d, minDemoDuration, maxDemoDuration))
	}
	errs.If(!(flags.timeScale > 0) || math.IsInf(flags.timeScale, 0), "--time-scale %v: must be more than 0", flags.timeScale)
	errs.If(!(flags.maxSlowdown >= 1) || flags.maxSlowdown > maxDemoSlowdown, "--max-slowdown %v: must be from 1 to %v", flags.maxSlowdown, maxDemoSlowdown)
	errs = append(errs, readDemoProfiles(in, flags), readDemoTrace(ctx, in, flags.trace, stdin), readDemoFlavors(in, flags.flavors))
	return in, errors.Join(errs...)
}

// fleetPace is the duration of the replay on the fleet, as a multiple of that on the fixed cluster. One
// CPU of two keeps up with it. At 1 the control plane falls behind, and waiting times and the bill
// depend more on the computer than on the fleet.
const fleetPace = 2.5

// readDemoProfiles adds the selected profiles, and the replay on a fleet with the last of them.
func readDemoProfiles(in *demo.Input, flags demoFlags) error {
	for _, name := range flags.profiles {
		if name != stockProfile && name != ourProfile {
			return fmt.Errorf("--profile %q: must be %s or %s", name, stockProfile, ourProfile)
		}
	}
	var last demo.SchedulerConfig
	for _, name := range []string{stockProfile, ourProfile} {
		if !slices.Contains(flags.profiles, name) {
			continue
		}
		config, err := demoScheduler(name, flags.schedulerConfig)
		if err != nil {
			return err
		}
		in.Profiles = append(in.Profiles, demo.Profile{Name: name, Config: config})
		last = config
	}
	if last == nil {
		return fmt.Errorf("--profile: must name at least one of %s, %s", stockProfile, ourProfile)
	}
	if flags.fleet {
		duration := cmp.Or(flags.fleetDuration, time.Duration(fleetPace*float64(flags.duration)))
		in.Fleet = &demo.FleetInput{Duration: duration, TimeScale: flags.timeScale * flags.duration.Seconds() / duration.Seconds(), Scheduler: last}
	}
	return nil
}

// demoScheduler returns the configuration of a profile. path, if not empty, is a file that replaces Supercargo's
// configuration, at any speed.
func demoScheduler(profile, path string) (demo.SchedulerConfig, error) {
	switch {
	case profile == stockProfile:
		return func(float64) ([]byte, error) { return compressed.Scheduler(controlplane.StockSchedulerConfig) }, nil
	case path == "":
		return compressed.SchedulerConfig, nil
	}
	config, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--scheduler-config: %w", err)
	}
	return func(float64) ([]byte, error) { return config, nil }, nil
}

func readDemoTrace(ctx context.Context, in *demo.Input, path string, stdin io.Reader) (err error) {
	if path == "" {
		in.TraceName = "bundled openb extract"
		in.Workload, err = trace.Read("openb/pods.csv", strings.NewReader(data.OpenbPods))
		return err
	}
	in.TraceName = command.InputName(path)
	return command.ReadInput(ctx, path, stdin, func(name string, r io.Reader) error {
		in.Workload, err = trace.Read(name, r)
		return err
	})
}

func readDemoFlavors(in *demo.Input, path string) (err error) {
	if path == "" {
		in.Flavors, err = catalogue.ReadFlavors("aws/flavors.csv", strings.NewReader(data.AWSFlavors))
		return err
	}
	err = command.ReadNamed("--flavors", path, func(r io.Reader) error {
		in.Flavors, err = catalogue.ReadFlavors(path, r)
		return err
	})
	for _, f := range in.Flavors {
		if problems := validation.IsDNS1123Label(strings.ReplaceAll(f.Name, ".", "-")); len(problems) > 0 {
			err = errors.Join(err, fmt.Errorf("%s: name: %q cannot be part of a node's name: %s", path, f.Name, strings.Join(problems, "; ")))
		}
	}
	return err
}
