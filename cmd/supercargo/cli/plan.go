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

	"supercargo.dev/supercargo/lab/planfile"
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
		Use:   "plan --pods pods.csv --flavors flavors.csv",
		Short: "Find the cheapest machines that hold a set of pods, and say which machine takes which pod",
		Long: `Plans what to buy for pods that fit nowhere: which machines, how many of each, and
which pod goes where, so that the price per hour is as low as it can be found. All
pods are there at once, and no machine is over-filled. Beside the price stands a
lower bound: what any plan must pay.

Pods are a CSV file with the columns name, cpu_milli and memory_mib and, where
wanted, count, arch, class and runtime_s. A trace of simulate is read too; when its
pods come does not matter. Batch pods and services may share machines, since a flavor
of a catalogue takes both, and runtimes do not count, since prices are per hour.

Or they are Kubernetes pods as YAML or JSON, such as kubectl prints, whose node
selectors, affinities, tolerations, topology spread and host ports are then honoured.
Preferences are not. Pods that have ended and those of DaemonSets are left out.

Flavors are a CSV file with the columns name, cpu, memory_gib and price_per_hour and,
where wanted, arch (amd64), max_pods (110), zones (a;b), labels (key=value;key=value),
taints (key=value:Effect;key:Effect), machine_type, watts_idle and watts_full. cpu and
memory are what pods can use. Nodes of flavors without zones are in no zone.

Algorithms: supercargo (the best there is here) and greedy (algorithm 3 of the HTAS
paper: one machine after the other, each time the one most used for its price; for
pods that demand nothing but room).`,
		Example: `  supercargo plan --pods test/data/openb/pods.csv --flavors test/data/aws/flavors.csv

  # As JSON, the same bytes each time
  supercargo plan --pods pods.csv --flavors flavors.csv -o json --deterministic

  # Machines for everything that a cluster runs
  kubectl get pods -A -o yaml | supercargo plan --pods - --flavors flavors.csv

  # Why these machines, and what the next best cost
  supercargo plan --pods pods.csv --flavors flavors.csv --explain

  # What the algorithm of the paper would buy
  supercargo plan --pods pods.csv --flavors flavors.csv --algorithm greedy`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runPlan(cmd.Context(), flags, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.pods, "pods", "", "file of pods, - for stdin (required)")
	f.StringVar(&flags.flavors, "flavors", "", "file of machines that can be bought (required)")
	f.StringVar(&flags.algorithm, "algorithm", planAlgorithmNames()[0], "how to plan: "+strings.Join(planAlgorithmNames(), " or "))
	addOutput(cmd, &flags.output, tableOrJSON, "")
	f.DurationVar(&flags.deadline, "deadline", 0, "print the best plan found in this time; 0 waits until the algorithm is done")
	f.BoolVar(&flags.deterministic, "deterministic", false, "leave out how long planning took, so that output depends on the input alone")
	f.BoolVar(&flags.explain, "explain", false, "say what the next best plans cost: plan again without each flavor that is bought, of the eight that most is spent on")
	words(planAlgorithmNames()).complete(cmd, "algorithm")
	return cmd
}

func runPlan(ctx context.Context, flags planFlags, stdin io.Reader, stdout io.Writer) error {
	algorithm, request, err := readPlan(ctx, flags, stdin)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted before planning began: %w", ctx.Err())
	}
	if err != nil {
		return badInput(err)
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

// planWithin plans for about so long, 0 meaning without limit. It fails when ctx ends;
// what is still running then continues until the process ends.
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

// planAlgorithmNames are the values of --algorithm, the default first.
func planAlgorithmNames() []string {
	var names []string
	for _, a := range planfile.Algorithms() {
		names = append(names, a.Name)
	}
	return names
}

// readPlan reads and checks everything before anything is planned, and reports
// every fault.
func readPlan(ctx context.Context, flags planFlags, stdin io.Reader) (planfile.Algorithm, *planfile.Request, error) {
	var errs []error
	at := slices.Index(planAlgorithmNames(), flags.algorithm)
	if at < 0 {
		errs = append(errs, fmt.Errorf("--algorithm %q: want %s", flags.algorithm, strings.Join(planAlgorithmNames(), " or ")))
	}
	errs = append(errs, tableOrJSON.check("output", flags.output))
	if flags.deadline < 0 {
		errs = append(errs, fmt.Errorf("--deadline %v: want a time above 0, or 0 for none", flags.deadline))
	}
	var pods *planfile.Pods
	var flavors []planfile.Flavor
	if flags.pods == "" {
		errs = append(errs, errors.New("--pods: name the file of pods, or - for stdin"))
	} else {
		var err error
		pods, err = readPlanPods(ctx, flags.pods, stdin)
		errs = append(errs, err)
	}
	if flags.flavors == "" {
		errs = append(errs, errors.New("--flavors: name the file of machines that can be bought"))
	} else {
		var err error
		flavors, err = readPlanFlavors(flags.flavors)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return planfile.Algorithm{}, nil, err
	}
	file := flags.pods
	if file == "-" {
		file = "stdin"
	}
	algorithm := planfile.Algorithms()[at]
	request, err := planfile.NewRequest(file, pods, flavors)
	if err == nil {
		if err = algorithm.Refuses(request); err != nil {
			err = fmt.Errorf("--algorithm %s: %w", algorithm.Name, err)
		}
	}
	return algorithm, request, err
}

// readPlanPods reads the pods. It waits for stdin as long as ctx lasts.
func readPlanPods(ctx context.Context, path string, stdin io.Reader) (pods *planfile.Pods, err error) {
	if path == "-" {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return planfile.ReadPods("stdin", untilDone(ctx, stdin))
	}
	err = readNamed("--pods", path, func(in io.Reader) error {
		pods, err = planfile.ReadPods(path, in)
		return err
	})
	return pods, err
}

func readPlanFlavors(path string) (flavors []planfile.Flavor, err error) {
	err = readNamed("--flavors", path, func(in io.Reader) error {
		flavors, err = planfile.ReadFlavors(path, in)
		return err
	})
	return flavors, err
}
