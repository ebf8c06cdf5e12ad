package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/lab/rightsize"
)

// rightsizeFlags are the flags of `supercargo rightsize`.
type rightsizeFlags struct {
	use        string
	entities   string
	flavors    string
	trainUntil float64
	riskCPU    float64
	riskMemory float64
	output     string
}

func newRightsizeCommand() *cobra.Command {
	var flags rightsizeFlags
	cmd := &cobra.Command{
		Use:   "rightsize --use cpu.csv[,memory.csv] --entities entities.csv --flavors flavors.csv --train-until SECONDS",
		Short: "Replay measured use over machines whose pods request what they use, at a stated risk",
		Long: `Replay measured use of CPU and memory over machines under several policies for requests. The
command prints what the machines cost, and how often their entities used more than they have.

Files of use have a column t_s, the seconds at which an interval begins, and a column for each
entity: a container, a virtual machine, or a job. An empty cell means that nothing was
measured. The file of entities has the columns entity, cpu_requested, mem_requested, start_s
and end_s, in the units of the files of use; an entity without a request asks for the peak of
the learned part. Flavors have the columns name, cpu, memory and price_per_hour, in the units
of the files of use, or memory_gib where these have MiB, and optionally max_pods.

Policies learn from the rows before --train-until. Then the planner of a NodeFleet buys the
cheapest machines that hold the requests, and the rest is judged while policies go on learning:

  requests    requests stay as they are
  vpa         the recommender of the VerticalPodAutoscaler with its defaults
  percentile  the 95th percentile of CPU, and the peak of memory and 15 % more
  supercargo  a request is the entity's share of what its machine needs, so that the machine is
              overloaded no more often than --risk-cpu and --risk-memory say. Requests follow
              what was realised, and entities move away from a machine that is about to be
              overloaded

What a policy decides takes effect one interval later. If there is no file of memory, requests
of memory stay as they are. The command simulates: nothing in a cluster changes requests so.`,
		Example: `  supercargo rightsize --use test/data/usage/google_cpu.csv,test/data/usage/google_mem.csv \
    --entities test/data/usage/google_entities.csv --flavors test/data/usage/flavors_percent.csv --train-until 432000

  # Allow CPU to be overloaded in one of a thousand intervals, and print JSON
  supercargo rightsize --use cpu.csv --entities entities.csv --flavors flavors.csv --train-until 604800 --risk-cpu 0.001 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runRightsize(cmd.Context(), flags, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.use, "use", "", "CSV `file` of the use of CPU, and after a comma that of memory (required)")
	f.StringVar(&flags.entities, "entities", "", "CSV `file` of entities with their requests (required)")
	f.StringVar(&flags.flavors, "flavors", "", "CSV `file` of flavors with their prices (required)")
	f.Float64Var(&flags.trainUntil, "train-until", 0, "end of the learned part, in `seconds` as in the files of use (required)")
	f.Float64Var(&flags.riskCPU, "risk-cpu", 0.01, "share of the intervals in which a machine may have too little CPU")
	f.Float64Var(&flags.riskMemory, "risk-memory", 0.001, "share of the intervals in which a machine may have too little memory")
	command.AddOutput(cmd, &flags.output, command.TableOrJSON, "")
	return cmd
}

func runRightsize(ctx context.Context, flags rightsizeFlags, stdin io.Reader, stdout io.Writer) error {
	config, mib, err := readRightsize(ctx, flags, stdin)
	if err != nil {
		return command.BadInput(err)
	}
	stated := rightsize.Amounts{rightsize.CPU: flags.riskCPU, rightsize.Memory: flags.riskMemory}
	var results []*rightsize.Result
	for _, policy := range []rightsize.Policy{
		rightsize.Requested{}, rightsize.NewVPA(config.Trace, mib), rightsize.NewPercentile(config.Trace), rightsize.NewFit(config.Trace, stated),
	} {
		result, err := rightsize.Run(ctx, config, policy)
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted during policy %s: %w", policy.Name(), ctx.Err())
		}
		if err != nil {
			return fmt.Errorf("policy %s: %w", policy.Name(), err)
		}
		results = append(results, result)
	}
	document := rightsize.NewDocument(config, stated, results)
	if flags.output == "json" {
		return document.WriteJSON(stdout)
	}
	return document.WriteTable(stdout)
}

// readRightsize reads and validates all input, and returns all errors. mib says whether memory is in MiB.
func readRightsize(ctx context.Context, flags rightsizeFlags, stdin io.Reader) (config rightsize.Config, mib bool, err error) {
	if err := flags.check(); err != nil {
		return config, false, err
	}
	var (
		uses     [2]*rightsize.Use
		entities []rightsize.Entity
		flavors  *rightsize.Flavors
		errs     []error
	)
	for i, name := range strings.Split(flags.use, ",") {
		errs = append(errs, command.ReadInput(ctx, name, stdin, func(name string, in io.Reader) (err error) {
			uses[i], err = rightsize.ReadUse(name, in)
			return err
		}))
	}
	errs = append(errs,
		command.ReadInput(ctx, flags.entities, stdin, func(name string, in io.Reader) (err error) {
			entities, err = rightsize.ReadEntities(name, in)
			return err
		}),
		command.ReadInput(ctx, flags.flavors, stdin, func(name string, in io.Reader) (err error) {
			flavors, err = rightsize.ReadFlavors(name, in)
			return err
		}))
	if err := errors.Join(errs...); err != nil {
		return config, false, err
	}
	t, err := rightsize.NewTrace(entities, uses[0], uses[1])
	if err != nil {
		return config, false, err
	}
	config = rightsize.Config{Trace: t, Flavors: flavors.List, TrainUntil: time.Duration(flags.trainUntil * float64(time.Second))}
	return config, flavors.MiB, config.Validate()
}

// check validates the flags that need no file.
func (f rightsizeFlags) check() error {
	errs := []error{command.TableOrJSON.Check("output", f.output)}
	for _, file := range [][2]string{{"use", f.use}, {"entities", f.entities}, {"flavors", f.flavors}} {
		if file[1] == "" {
			errs = append(errs, fmt.Errorf("--%s is required: a CSV file", file[0]))
		}
	}
	if parts := strings.Split(f.use, ","); len(parts) > 2 || len(parts) == 2 && (parts[0] == "" || parts[1] == "") {
		errs = append(errs, fmt.Errorf("--use %q: must be one file, or that of CPU and that of memory with a comma between them", f.use))
	}
	for _, risk := range []struct {
		name  string
		value float64
	}{{"risk-cpu", f.riskCPU}, {"risk-memory", f.riskMemory}} {
		if !(risk.value >= 1e-6 && risk.value <= 0.25) {
			errs = append(errs, fmt.Errorf("--%s %v: must be from 0.000001 to 0.25", risk.name, risk.value))
		}
	}
	if !(f.trainUntil > 0) || math.IsInf(f.trainUntil, 0) || f.trainUntil > 1e9 {
		errs = append(errs, fmt.Errorf("--train-until %v: must be seconds above 0", f.trainUntil))
	}
	return errors.Join(errs...)
}
