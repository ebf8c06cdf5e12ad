package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/text/jsondoc"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/lab/fit"
)

// fitPowerFlags are the flags of `supercargo fit power`.
type fitPowerFlags struct {
	file, machineType        string
	time, watts, utilization string
	load                     string
	counters                 []string
	output                   string
	hasTime, hasUtilization  bool // the flags were given
}

func newFitPowerCommand() *cobra.Command {
	var flags fitPowerFlags
	cmd := &cobra.Command{
		Use:   "power -f FILE",
		Short: "Fit a machine's power model to measurements",
		Long: `Read power and load measurements of a machine and print the coefficients of its power model: idle
power, power at full load, and the curve between them. With -o yaml the output is a MachineProfile
for kubectl apply; node agents of that machine type use it where they have no meter. The command
"supercargo report energy --power model" reads the same file with --machine-profiles.

FILE is a CSV file with a header and one row per measurement, in order of time, with 40 rows or more:

  time         RFC 3339 or seconds; must increase; optional
  watts        measured power, above 0
  utilization  the busy share of the CPU at that time, 0 to 1

Flags give other column names. Instead of utilization, --load-column names any quantity that grows
with the work done, such as CPU cycles per second; its highest value counts as full load.
--counter-columns fits a curve to each of several such quantities. That follows power better if the
mix of work changes, but a MachineProfile cannot hold it.

The command validates the model on measurements that it did not fit: it predicts the last half of the
file from the first half, and every other twentieth of the file from the remaining ones.`,
		Example: `  supercargo fit power -f series.csv

  # Model the nodes of a type without meters by one node with a meter
  supercargo fit power -f series.csv --machine-type epyc-64 -o yaml | kubectl apply --server-side -f -

  # Fit to CPU cycles, and to several counters
  supercargo fit power -f node.csv --watts-column platform_power_w --load-column cpu_cycles_per_s
  supercargo fit power -f node.csv --watts-column platform_power_w \
    --counter-columns cpu_cycles_per_s,cpu_instructions_per_s,cache_misses_per_s -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags.hasTime, flags.hasUtilization = cmd.Flags().Changed("time-column"), cmd.Flags().Changed("utilization-column")
			return command.BadInput(fitPower(flags, cmd.InOrStdin(), cmd.OutOrStdout()))
		},
	}
	f := cmd.Flags()
	command.AddInput(cmd, &flags.file, "`file` of measurements, - for standard input (required)", "")
	f.StringVar(&flags.machineType, "machine-type", "", "`name` of the machine type, as in the labels of its nodes; required for -o yaml")
	f.StringVar(&flags.time, "time-column", "time", "`column` of the time")
	f.StringVar(&flags.watts, "watts-column", "watts", "`column` of the power")
	f.StringVar(&flags.utilization, "utilization-column", "utilization", "`column` of the utilisation, 0 to 1")
	f.StringVar(&flags.load, "load-column", "", "`column` of a quantity that grows with the work done; replaces the utilisation")
	f.StringSliceVar(&flags.counters, "counter-columns", nil, "`columns` of several quantities that grow with the work done; replace the utilisation")
	command.AddOutput(cmd, &flags.output, command.TableJSONOrYAML, " for a MachineProfile")
	return cmd
}

// check returns all errors in the flags.
func (f *fitPowerFlags) check() error {
	var errs input.Faults
	errs = append(errs, command.TableJSONOrYAML.Check("output", f.output))
	errs.If(f.file == "", "-f is required: a file of measurements, or - for standard input")
	given := 0
	for _, is := range []bool{f.hasUtilization, f.load != "", len(f.counters) > 0} {
		if is {
			given++
		}
	}
	errs.If(given > 1, "--utilization-column, --load-column and --counter-columns are mutually exclusive")
	errs.If(len(f.counters) > maxCounters, "--counter-columns: has %d columns: must have at most %d", len(f.counters), maxCounters)
	errs.If(f.output == "yaml" && len(f.counters) > 0, "-o yaml: a MachineProfile has only power by utilisation: omit --counter-columns, or use -o json")
	errs.If(f.output == "yaml" && f.machineType == "", "-o yaml: --machine-type is required: a MachineProfile describes one machine type")
	if f.machineType != "" {
		wrong := validation.IsValidLabelValue(f.machineType)
		errs.If(len(wrong) > 0, "--machine-type %q: must be a label value: %s", f.machineType, strings.Join(wrong, "; "))
	}
	return errors.Join(errs...)
}

// maxCounters limits the duration of a fit. Machines have fewer counters that are independent of each
// other.
const maxCounters = 8

// columns returns the columns to read.
func (f *fitPowerFlags) columns() energy.Columns {
	c := energy.Columns{Time: f.time, NeedsTime: f.hasTime, Watts: f.watts, MostRate: 1e18}
	switch {
	case len(f.counters) > 0:
		c.Rates = f.counters
	case f.load != "":
		c.Rates = []string{f.load}
	default:
		c.Rates, c.MostRate = []string{f.utilization}, 1
	}
	return c
}

// fitPower reads a series, fits a model and prints it. All its errors are input errors.
func fitPower(flags fitPowerFlags, stdin io.Reader, w io.Writer) error {
	if err := flags.check(); err != nil {
		return err
	}
	var samples []energy.Activity
	err := readMeasured(flags.file, stdin, func(file io.Reader) (err error) {
		samples, err = energy.ReadSeries(file, flags.columns())
		return err
	})
	if err != nil {
		return err
	}
	var p *fit.Power
	if len(flags.counters) > 0 {
		p, err = fit.ByCounters(samples, flags.counters)
	} else {
		p, err = fit.ByUtilization(samples, flags.load != "")
	}
	if err != nil {
		return fmt.Errorf("-f %s: %w", flags.file, err)
	}
	p.MachineType = flags.machineType
	switch flags.output {
	case "json":
		return jsondoc.Write(w, p)
	case "yaml":
		return writePowerProfile(w, p)
	}
	return printPowerFit(w, p)
}

// writePowerProfile prints a MachineProfile with only the power of the machine, so that applying it
// does not change other fields of an existing one.
func writePowerProfile(w io.Writer, p *fit.Power) error {
	type named struct {
		Name string `json:"name"`
	}
	type spec struct {
		MachineType string                 `json:"machineType"`
		Power       *v1alpha1.MachinePower `json:"power"`
	}
	text, err := yaml.Marshal(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   named  `json:"metadata"`
		Spec       spec   `json:"spec"`
	}{v1alpha1.GroupVersion.String(), "MachineProfile", named{profile.NameOf(p.MachineType)}, spec{p.MachineType, p.Power}})
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Fitted to %s, utilisation %.3g to %.3g. Mean error:\n", plural.Count(p.Samples, "sample"), p.Seen.Least, p.Seen.Most)
	for _, line := range powerErrors(p) {
		fmt.Fprintf(&b, "# %s\n", line)
	}
	b.Write(text)
	_, err = io.WriteString(w, b.String())
	return err
}

func powerErrors(p *fit.Power) []string {
	return []string{
		fmt.Sprintf("%.2f %% on the last half, when fitted to the first half alone", p.HeldOut.LastHalf.MeanErrorPercent),
		fmt.Sprintf("%.2f %% on every other twentieth, when fitted to those in between", p.HeldOut.Between.MeanErrorPercent),
		fmt.Sprintf("%.2f %% on the samples that it was fitted to, R² %.3f", p.Fitted.MeanErrorPercent, p.Fitted.RSquared),
	}
}

func printPowerFit(w io.Writer, p *fit.Power) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	if p.MachineType != "" {
		line("Machine type", "%s", p.MachineType)
	}
	line("Samples", "%d", p.Samples)
	if p.Power != nil {
		line("Utilisation seen", "%.3g to %.3g", p.Seen.Least, p.Seen.Most)
		if p.FullLoad > 0 {
			line("Full load", "%g", p.FullLoad)
		}
		line("Idle power", "%.1f W", p.Power.IdleWatts.AsApproximateFloat64())
		line("Full power", "%.1f W", p.Power.FullWatts.AsApproximateFloat64())
		var points []string
		for _, q := range p.Power.Curve {
			points = append(points, fmt.Sprintf("%d:%d", q.UtilizationPercent, q.PowerPercent))
		}
		curve := "a straight line"
		if len(points) > 0 {
			curve = strings.Join(points, "  ") + "  (% of utilisation : % of the power above idle)"
		}
		line("Curve", "%s", curve)
	}
	if c := p.ByCounters; c != nil {
		line("Idle power", "%.1f W", c.IdleWatts)
		for _, part := range c.Counters {
			var rises []string
			for _, r := range part.Rises {
				rises = append(rises, fmt.Sprintf("%.1f", math.Abs(r))) // no -0.0
			}
			line(part.Column, "up to %.4g: rises by %s W", part.Full, strings.Join(rises, ", "))
		}
	}
	for i, text := range powerErrors(p) {
		name := ""
		if i == 0 {
			name = "Mean error"
		}
		line(name, "%s", text)
	}
	return t.Flush()
}
