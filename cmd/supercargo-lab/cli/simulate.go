package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/comparison"
	"supercargo.dev/supercargo/lab/policy"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// simulateFlags are the flags of `supercargo simulate`.
type simulateFlags struct {
	scenario      string
	policies      []string
	seed          uint64
	repeat        int
	output        string
	report        string
	placements    string
	deterministic bool
	verbose       bool
	prices        string
}

// simulation is the validated input of the flags.
type simulation struct {
	flags    simulateFlags
	scenario *scenario.Scenario
	policies []sim.Policy
	plan     *comparison.Plan
	prices   []catalogue.Price
	notes    []string // about data that the recording lacks
}

// Limits of the input.
const (
	maxRepeat    = 1000
	maxFileBytes = 256 << 20
)

func newSimulateCommand() *cobra.Command {
	var flags simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate -f scenario.yaml",
		Short: "Simulate a workload under several policies, and compare their bills",
		Long: `Run the workload of a scenario under each policy in virtual time. The real scheduler places
the pods with the policy's own configuration. The policy buys, drains and deletes machines.
The command prints what each policy cost, how long pods waited and how full the machines
were, beside a lower bound on the cost of any policy.

Policies that run by default:
  default         stock kube-scheduler, and an autoscaler that adds one machine of one type
                  in each round
  most-allocated  the same, with the MostAllocated score
  coca, stratus, htas
                  as published
  supercargo      Supercargo's defaults

Policies to name with --policy:
  heats-H         weighs energy against runtime with weight H, from 0 (runtime only) to 1
                  (energy only). It learns from probes of the machines, and migrates running
                  pods to better machines
Append -dollars or -grams to weigh the cost or the carbon emissions of energy in each
machine's zone instead of joules. A weight that a pod or its namespace states takes
precedence. If flavors state their power, the output lists energy by machine type.

The same scenario, seed and policy give the same figures on every machine.

If the simulation of a policy fails, the others continue. The output then has their figures and
the reason of the failure, and the exit code is 1.`,
		Example: `  supercargo simulate -f scenario.yaml

  # Simulate a recording of a cluster
  supercargo simulate -f week.csv --policy default,supercargo

  # The same, of a cluster with spot machines, whose prices a recording does not have
  supercargo simulate -f week.csv --prices prices.csv

  # Compare two policies over ten seeds, as JSON
  supercargo simulate -f scenario.yaml --policy default,supercargo --repeat 10 -o json

  # Weigh energy against runtime, over five seeds
  supercargo simulate -f test/scenarios/heats.yaml --policy default,heats-0,heats-0.618,heats-1 --repeat 5

  # Write a page with charts over time, and the placement of each pod
  supercargo simulate -f scenario.yaml --report report.html --placements placements.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSimulate(cmd.Context(), flags, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	command.AddInput(cmd, &flags.scenario, "`file` of a scenario or a recording, - for standard input (required)", "")
	f.StringVar(&flags.prices, "prices", "", "CSV `file` with columns name and price_per_hour, and optionally spot_price_per_hour: prices of the instance types that have none in a recording")
	f.StringSliceVar(&flags.policies, "policy", policy.Names(), "policies to run; the others are compared with the first")
	f.Uint64Var(&flags.seed, "seed", 1, "random seed of the workload and of ties")
	f.IntVar(&flags.repeat, "repeat", 1, "number of seeds to run, from --seed on; with more than 1 the output has mean, minimum and maximum")
	command.AddOutput(cmd, &flags.output, command.TableOrJSON, "")
	f.StringVar(&flags.report, "report", "", "HTML `file` to write")
	f.StringVar(&flags.placements, "placements", "", "CSV `file` to write all placements to")
	f.BoolVar(&flags.deterministic, "deterministic", false, "leave out how long the simulation took, so that the output depends only on the input")
	f.BoolVar(&flags.verbose, "verbose", false, "if the simulation of a policy panics, print the stack on stderr")
	command.Words(policy.Names()).CompleteList(cmd, "policy")
	return cmd
}

func runSimulate(ctx context.Context, flags simulateFlags, stdin io.Reader, stdout, stderr io.Writer) error {
	s, err := readSimulation(ctx, flags, stdin)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted before the simulation began: %w", ctx.Err())
	}
	if err != nil {
		return command.BadInput(err)
	}
	for _, note := range s.notes {
		fmt.Fprintf(stderr, "%s: %s\n", flags.scenario, note)
	}
	return s.run(ctx, stdout, stderr)
}

// run simulates, and publishes what has ended even if some policies failed.
func (s *simulation) run(ctx context.Context, stdout, stderr io.Writer) error {
	klog.SetLogger(logr.Discard()) // kube-scheduler logs how it reads its configuration
	progress := newSimulateProgress(stderr, s.plan.Runs())
	result, err := s.plan.Run(ctx, progress.set)
	progress.end()
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted before the simulation was complete: %w", err)
		}
		return err
	}
	if s.flags.deterministic {
		for i := range result.Runs {
			r := &result.Runs[i]
			fmt.Fprintf(stderr, "seed %d, policy %s: simulated in %.3f s\n", r.Seed, r.Policy, r.Wall.Seconds())
			r.Wall = 0
		}
	}
	if s.flags.verbose {
		for _, stack := range result.Stacks() {
			fmt.Fprintln(stderr, stack)
		}
	}
	return errors.Join(s.publish(result, stdout), result.Err())
}

// readSimulation reads and validates all input before anything is run, and returns all errors.
func readSimulation(ctx context.Context, flags simulateFlags, stdin io.Reader) (*simulation, error) {
	var errs input.Faults
	s := &simulation{flags: flags}
	errs = append(errs, command.TableOrJSON.Check("output", flags.output))
	errs.If(flags.repeat < 1 || flags.repeat > maxRepeat, "--repeat %d: must be from 1 to %d", flags.repeat, maxRepeat)
	if len(flags.policies) == 0 {
		errs = append(errs, fmt.Errorf("--policy: must be one of %s", strings.Join(policy.Names(), ", ")))
	}
	for i, name := range flags.policies {
		p, err := policy.ByName(name)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("--policy: %w", err))
		case slices.Contains(flags.policies[:i], name):
			errs = append(errs, fmt.Errorf("--policy: %s is set twice", name))
		}
		s.policies = append(s.policies, p)
	}
	errs = append(errs, command.CheckWritable("--report", flags.report), command.CheckWritable("--placements", flags.placements))
	errs.If(flags.report != "" && flags.report == flags.placements, "--placements: %s is also the file of --report: use another file", flags.placements)
	if flags.prices != "" {
		errs = append(errs, command.ReadPrices(flags.prices, &s.prices))
	}
	if flags.scenario == "" {
		errs = append(errs, errors.New("--filename is required: the scenario file, or - for standard input"))
	} else {
		errs = append(errs, s.read(ctx, stdin))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, s.draw()
}

// read reads the scenario. It waits for stdin until ctx ends.
func (s *simulation) read(ctx context.Context, stdin io.Reader) error {
	name, dir := s.flags.scenario, filepath.Dir(s.flags.scenario)
	var in io.Reader
	if name == "-" {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		name, dir, in = "stdin", ".", command.UntilDone(ctx, stdin)
	} else {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	begin := bufio.NewReader(in)
	if head, _ := begin.Peek(len(trace.RecordingHeader)); trace.IsRecording(head) {
		return s.readRecording(name, begin)
	}
	if s.flags.prices != "" {
		return fmt.Errorf("--prices: %s is not a recording: the flavors of a scenario have their own prices", name)
	}
	text, err := command.ReadBounded(name, begin, scenario.MaxBytes)
	if err != nil {
		return err
	}
	s.scenario, err = scenario.Read(name, text, func(path string) ([]byte, error) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return command.ReadBounded(path, f, maxFileBytes)
	})
	return err
}

// readRecording reads a file of `supercargo record`.
func (s *simulation) readRecording(name string, in io.Reader) error {
	text, err := command.ReadBounded(name, in, maxFileBytes)
	if err != nil {
		return err
	}
	rec, err := trace.ReadRecording(name, bytes.NewReader(text))
	if err != nil {
		return err
	}
	scenario.StatePrices(rec, s.prices)
	s.scenario, s.notes, err = scenario.FromRecording(filepath.Base(name), rec)
	return err
}

// draw generates the workloads.
func (s *simulation) draw() (err error) {
	if s.plan, err = comparison.New(s.scenario, s.policies, s.flags.seed, s.flags.repeat); err != nil {
		return fmt.Errorf("%s: %w", command.InputName(s.flags.scenario), err)
	}
	return nil
}
