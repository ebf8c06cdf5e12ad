package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"supercargo.dev/supercargo/cli/auditor"
	"supercargo.dev/supercargo/cli/costreport"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/energy/powerquery"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/text/jsondoc"
)

func newReportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Report a cluster's cost, nodes, power and energy",
		Example: `  # What does each team cost?
  supercargo report cost --by label=team

  # Energy of the last day, by namespace, workload and machine type
  supercargo report energy --prometheus http://prometheus.monitoring:9090

  # What do nodes draw now, and by which meters?
  supercargo report power --prometheus http://prometheus.monitoring:9090

  # What nodes were there in the last day, and what is available on them?
  supercargo report nodes --prometheus http://localhost:9090`,
		Args: command.OnlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	cmd.AddCommand(newReportCostCommand(), newReportEnergyCommand(), newReportNodesCommand(), newReportPowerCommand())
	return cmd
}

// mostAnswerBytes is the maximum size of a response: some hundred thousand pods.
const mostAnswerBytes = 256 << 20

// timeOf returns the time of a flag, or otherwise if it is not given.
func timeOf(errs *input.Faults, flag, text string, otherwise time.Time) time.Time {
	if text == "" {
		return otherwise
	}
	t, err := time.Parse(time.RFC3339, text)
	errs.If(err != nil, "--%s %q: must be a time such as 2026-01-31T15:00:00Z", flag, text)
	return t
}

// meterFlags are the flags about the meters of nodes.
type meterFlags struct {
	power, query string
	named        bool // --power was given
	ratedWatts   float64
	sources      command.Words // the values of --power
}

// add adds the flags; the sources of power are the values of --power, the first by default.
func (f *meterFlags) add(cmd *cobra.Command, sources ...string) {
	f.sources = sources
	last := len(sources) - 1
	flags := cmd.Flags()
	flags.StringVar(&f.power, "power", sources[0], "source of power: "+strings.Join(sources[:last], ", ")+" or "+sources[last])
	flags.StringVar(&f.query, "power-query", "", "`PromQL` that returns watts, one sample per node; replaces --power")
	flags.Float64Var(&f.ratedWatts, "rated-watts", 0, "highest plausible `watts` of a node; higher readings are dropped; 0 for no limit")
	f.sources.Complete(cmd, "power")
}

// preset validates the flags and returns the queries to use, which are empty for power by a model.
func (f *meterFlags) preset(errs *input.Faults) powerquery.Preset {
	preset, err := powerquery.ByName(f.power)
	if f.power != powerquery.Modelled || !slices.Contains(f.sources, f.power) {
		errs.In("--power", err)
	}
	errs.If(f.query != "" && f.named, "--power and --power-query are mutually exclusive")
	errs.If(!(f.ratedWatts >= 0) || math.IsInf(f.ratedWatts, 0), "--rated-watts %v: must be 0 or more", f.ratedWatts)
	if f.query != "" {
		return powerquery.Own(f.query)
	}
	return preset
}

// reportCostFlags are the flags of `supercargo report cost`.
type reportCostFlags struct {
	cluster *command.ClusterFlags
	asked   []string // the names of the given flags that select the cluster
	pricingFlags
	file, by, output string
	ofNodes          []string // the names of the given flags about prices of nodes, which a recording does not use
}

func newReportCostCommand() *cobra.Command {
	flags := reportCostFlags{cluster: command.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:   "cost [-f FILE]",
		Short: "Report what each namespace or team costs, and what is idle",
		Long: `Report what the machines of a cluster cost, divided over the pods on them: by namespace, or by the
values of a pod label. A pod pays for the greater of the shares of the CPU and the memory of its node
that it requests. If the pods of a node request more than it has in this way, they share its price in
proportion. The rest is idle. The rows always add up to the bill.

The command reads the current cluster of the kubeconfig, and reports the cost per hour and month. With
-f, it reads the output of kubectl, or a file of "supercargo record": then it reports the cost of the
recorded period. A recording has no labels.

Prices are those of an audit: docs/audit.md lists their sources. In a recording, they are the recorded
ones, and --prices for flavors without one. Nodes without a price are listed, and left out with their
pods.`,
		Example: `  # What does each namespace cost now?
  supercargo report cost

  # What does each team cost, for a spreadsheet?
  supercargo report cost --by label=team -o csv >teams.csv

  # The same of a dump
  kubectl get nodes,pods -A -o json >dump.json
  supercargo report cost -f dump.json --by label=team

  # What did each namespace cost in the recorded week?
  supercargo record --output-file week.csv --duration 168h
  supercargo report cost -f week.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.Flags().Visit(func(f *pflag.Flag) {
				switch _, is := f.Annotations[command.OfCluster]; {
				case is:
					flags.asked = append(flags.asked, f.Name)
				case f.Name == "region" || f.Name == "discount" || strings.HasPrefix(f.Name, "default-price-"):
					flags.ofNodes = append(flags.ofNodes, f.Name)
				}
			})
			return runReportCost(cmd.Context(), flags, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags.cluster.AddTo(cmd, false)
	command.AddInput(cmd, &flags.file, "`file` with the output of kubectl get -o yaml or -o json, or of supercargo record; - for standard input (default: the cluster itself)", "")
	cmd.Flags().StringVar(&flags.by, "by", "namespace", "what to divide the cost by: namespace, or label=KEY for the values of a pod `label`")
	flags.addPricing(cmd)
	command.AddOutput(cmd, &flags.output, command.TableJSONOrCSV, "")
	command.Words{"namespace"}.Complete(cmd, "by")
	return cmd
}

// check validates the flags, and returns all errors.
func (f *reportCostFlags) check() (by costreport.By, pricing auditor.Pricing, err error) {
	errs := input.Faults{command.TableJSONOrCSV.Check("output", f.output)}
	by, err = costreport.ParseBy(f.by)
	errs.If(err != nil, "--by %v", err)
	if by.Label != "" {
		for _, problem := range validation.IsQualifiedName(by.Label) {
			errs.If(true, "--by %q: is not the key of a label: %s", f.by, problem)
		}
	}
	if f.file != "" {
		for _, flag := range f.asked {
			errs = append(errs, fmt.Errorf("--%s and -f are mutually exclusive: one selects a cluster, the other a file", flag))
		}
	}
	pricing, err = f.pricing()
	return by, pricing, errors.Join(append(errs, err)...)
}

func runReportCost(ctx context.Context, flags reportCostFlags, stdin io.Reader, stdout io.Writer) error {
	by, pricing, err := flags.check()
	if err != nil {
		return command.BadInput(err)
	}
	report, err := flags.read(ctx, by, pricing, stdin)
	if err != nil {
		return err
	}
	switch flags.output {
	case "json":
		return jsondoc.Write(stdout, report)
	case "csv":
		return report.WriteCSV(stdout)
	}
	return report.WriteTable(stdout)
}

// read reads the cluster or the file, and divides its cost.
func (f *reportCostFlags) read(ctx context.Context, by costreport.By, pricing auditor.Pricing, stdin io.Reader) (report *costreport.Report, err error) {
	if f.file == "" {
		read, err := readObjects(ctx, f.cluster, "", stdin)
		if err != nil {
			return nil, err
		}
		return costreport.OfCluster(read, pricing, by), nil
	}
	err = command.ReadInput(ctx, f.file, stdin, func(name string, in io.Reader) error {
		begin := bufio.NewReader(in)
		if head, _ := begin.Peek(len(trace.RecordingHeader)); trace.IsRecording(head) {
			report, err = f.ofRecording(name, begin, by, pricing)
			return err
		}
		read, err := objects.Dump(name, begin)
		if err == nil {
			report = costreport.OfCluster(read, pricing, by)
		}
		return err
	})
	return report, command.BadInput(err)
}

// ofRecording divides the cost of a recording.
func (f *reportCostFlags) ofRecording(name string, in io.Reader, by costreport.By, pricing auditor.Pricing) (*costreport.Report, error) {
	var errs input.Faults
	errs.If(by.Label != "", "--by %s: %s is a recording, which has no labels of pods: use --by namespace", f.by, name)
	for _, flag := range f.ofNodes {
		errs.If(true, "--%s: %s is a recording, which has prices: use --prices for flavors without one", flag, name)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	recording, err := trace.ReadRecording(name, in)
	if err != nil {
		return nil, err
	}
	return costreport.OfRecording(recording, pricing.Own), nil
}
