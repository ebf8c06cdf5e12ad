package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/cli/planfile"
	"supercargo.dev/supercargo/cmd/internal/command"
)

// planFlags are the flags of `supercargo plan`.
type planFlags struct {
	pods                   string
	flavors                string
	algorithm              string
	output                 string
	deadline               time.Duration
	deterministic, explain bool
}

func newPlanCommand() *cobra.Command {
	var flags planFlags
	cmd := &cobra.Command{
		Use:   "plan -f pods.csv --flavors flavors.csv",
		Short: "Find the cheapest machines for a set of pods",
		Long: `Find the cheapest set of machines for a set of pods: which machines, how many of each, and
which pod runs on which machine. The command minimises the total price per hour. It prints
a lower bound beside the price: no plan can cost less.

Pods are a CSV file with the columns name, cpu_milli and memory_mib, and optionally count,
arch, class and runtime_s. A trace for the simulate command also works; arrival times are
ignored. Batch pods and services may share machines. Runtimes are ignored, because prices
are per hour.

Pods can also be Kubernetes pods in YAML or JSON, as kubectl prints them. The plan then
respects node selectors, required affinities, tolerations, topology spread constraints and
host ports. It ignores preferences, finished pods, pods of DaemonSets and objects that are
not pods.

Flavors are a CSV file with the columns name, cpu, memory_gib and price_per_hour, and
optionally arch (default amd64), max_pods (110), zones (a;b), labels (key=value;key=value),
taints (key=value:Effect;key:Effect), machine_type, watts_idle and watts_full. The columns
cpu and memory_gib state what pods can use. Nodes of a flavor without zones have no zone.

Algorithms:
  supercargo  the default: finds the cheapest mix and respects all constraints
  greedy      algorithm 3 of the HTAS paper: buys one machine at a time, each time the one
              with the highest utilisation per dollar; only for pods without constraints`,
		Example: `  supercargo plan -f test/data/openb/pods.csv --flavors test/data/aws/flavors.csv

  # Print JSON that is the same in each run
  supercargo plan -f pods.csv --flavors flavors.csv -o json --deterministic

  # Plan machines for all pods of a cluster
  kubectl get pods -A -o yaml | supercargo plan -f - --flavors flavors.csv

  # Explain the choice, and print what the next best plans cost
  supercargo plan -f pods.csv --flavors flavors.csv --explain

  # Use the algorithm of the HTAS paper
  supercargo plan -f pods.csv --flavors flavors.csv --algorithm greedy`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runPlan(cmd.Context(), flags, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	command.AddInput(cmd, &flags.pods, "`file` of pods, - for standard input (required)", "pods")
	f.StringVar(&flags.flavors, "flavors", "", "CSV `file` of the machines that can be bought (required)")
	f.StringVar(&flags.algorithm, "algorithm", planAlgorithmNames()[0], "how to plan: "+strings.Join(planAlgorithmNames(), " or "))
	command.AddOutput(cmd, &flags.output, command.TableOrJSON, "")
	f.DurationVar(&flags.deadline, "deadline", 0, "stop the search after this time and print the best plan; 0 for no limit")
	f.BoolVar(&flags.deterministic, "deterministic", false, "leave out how long planning took, so that the output depends only on the input")
	f.BoolVar(&flags.explain, "explain", false, "print what the next best plans cost: plan again without each of the eight flavors with the highest total cost")
	command.Words(planAlgorithmNames()).Complete(cmd, "algorithm")
	return cmd
}

func runPlan(ctx context.Context, flags planFlags, stdin io.Reader, stdout io.Writer) error {
	algorithm, request, err := readPlan(ctx, flags, stdin)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted before planning began: %w", ctx.Err())
	}
	if err != nil {
		return command.BadInput(err)
	}
	plan := func(r *planfile.Request) (planfile.Outcome, error) {
		return planWithin(ctx, func(stop func() bool) planfile.Outcome { return algorithm.Plan(r, stop) }, flags.deadline)
	}
	start := time.Now()
	outcome, err := plan(request)
	if err != nil {
		return fmt.Errorf("interrupted before the plan was complete: %w", err)
	}
	elapsed := time.Since(start)
	if flags.deterministic {
		elapsed = 0
	}
	document := planfile.NewDocument(algorithm.Name, request, outcome, elapsed)
	if flags.explain {
		if err := document.Compare(request, plan); err != nil {
			return err
		}
	}
	if flags.output == "json" {
		return document.Write(stdout)
	}
	return document.WriteTable(stdout)
}

// planWithin plans for about the given time; 0 means no limit. It returns an error when ctx ends; the
// plan then continues in the background until it notices.
func planWithin(ctx context.Context, plan func(stop func() bool) planfile.Outcome, limit time.Duration) (planfile.Outcome, error) {
	start := time.Now()
	stop := func() bool { return ctx.Err() != nil || limit > 0 && time.Since(start) >= limit }
	done := make(chan planfile.Outcome, 1)
	go func() { done <- plan(stop) }()
	select {
	case <-ctx.Done():
		return planfile.Outcome{}, ctx.Err()
	case o := <-done:
		return o, ctx.Err()
	}
}

// planAlgorithmNames returns the values of --algorithm, the default first.
func planAlgorithmNames() []string {
	var names []string
	for _, a := range planfile.Algorithms() {
		names = append(names, a.Name)
	}
	return names
}

// readPlan reads and validates all input before anything is planned, and returns all errors.
func readPlan(ctx context.Context, flags planFlags, stdin io.Reader) (planfile.Algorithm, *planfile.Request, error) {
	var errs []error
	at := slices.Index(planAlgorithmNames(), flags.algorithm)
	if at < 0 {
		errs = append(errs, fmt.Errorf("--algorithm %q: must be %s", flags.algorithm, strings.Join(planAlgorithmNames(), " or ")))
	}
	errs = append(errs, command.TableOrJSON.Check("output", flags.output))
	if flags.deadline < 0 {
		errs = append(errs, fmt.Errorf("--deadline %v: must be more than 0, or 0 for no limit", flags.deadline))
	}
	var pods *planfile.Pods
	var flavors []planfile.Flavor
	if flags.pods == "" {
		errs = append(errs, errors.New("-f is required: the file of pods, or - for standard input"))
	} else {
		var err error
		pods, err = readPlanPods(ctx, flags.pods, stdin)
		errs = append(errs, err)
	}
	if flags.flavors == "" {
		errs = append(errs, errors.New("--flavors is required: the file of machines that can be bought"))
	} else {
		var err error
		flavors, err = readPlanFlavors(flags.flavors)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return planfile.Algorithm{}, nil, err
	}
	algorithm := planfile.Algorithms()[at]
	request, err := planfile.NewRequest(command.InputName(flags.pods), pods, flavors)
	if err == nil {
		if err = algorithm.Refuses(request); err != nil {
			err = fmt.Errorf("--algorithm %s: %w", algorithm.Name, err)
		}
	}
	return algorithm, request, err
}

// readPlanPods reads the pods. It waits for stdin until ctx ends.
func readPlanPods(ctx context.Context, path string, stdin io.Reader) (pods *planfile.Pods, err error) {
	err = command.ReadInput(ctx, path, stdin, func(name string, in io.Reader) (err error) {
		pods, err = planfile.ReadPods(name, in)
		return err
	})
	return pods, err
}

func readPlanFlavors(path string) (flavors []planfile.Flavor, err error) {
	err = command.ReadNamed("--flavors", path, func(in io.Reader) error {
		flavors, err = planfile.ReadFlavors(path, in)
		return err
	})
	return flavors, err
}
