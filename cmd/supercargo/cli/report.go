package cli

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/energy/powerquery"
	"supercargo.dev/supercargo/internal/input"
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
