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
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/runtime"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/bill"
	"supercargo.dev/supercargo/energy/powerquery"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/input/manifest"
	"supercargo.dev/supercargo/internal/platform/promql/prometheus"
)

// reportEnergyFlags are the flags of `supercargo report energy`.
type reportEnergyFlags struct {
	file, save, profiles  string
	server                prometheus.Config
	meter                 meterFlags
	from, to              string
	since, step           time.Duration
	price, carbon         float64
	priceFile, carbonFile string
	output, page          string
	top                   int
	hasPrice, hasCarbon   bool // the flags were given
	hasSince              bool
}

func newReportEnergyCommand() *cobra.Command {
	var flags reportEnergyFlags
	cmd := &cobra.Command{
		Use:   "energy {--prometheus URL | -f FILE}",
		Short: "Report who used a cluster's energy, in joules, dollars and CO2",
		Long: `Report who used a cluster's energy: by namespace, by workload and by machine type, with measured and
modelled energy apart. The command queries a server that answers PromQL (Prometheus, Thanos, Mimir,
VictoriaMetrics or Supercargo's metrics adapter), or reads what an earlier run saved.

Power comes from Supercargo's node agents, Kepler or node-exporter (--power), or from your own query
that returns watts with one sample per node (--power-query). Without meters, --power=model estimates
power from machine types and their CPU utilisation. MachineProfiles (--machine-profiles) state the
power of your own machine types: use the output of "kubectl get machineprofiles -o yaml" or of
"supercargo fit power -o yaml".

Pods share the power above idle by the CPU time that they used, and idle power by their requests as a
share of the node's allocatable resources. The rest is unallocated. The parts always add up to the
whole. docs/energy-report.md lists the series that are read.

Prices and carbon intensities are one value per kWh, or a CSV file with the columns time (RFC 3339),
zone (of the node; empty for all other zones) and dollars_per_kwh or grams_per_kwh. Each row holds
until the next row of its zone.`,
		Example: `  supercargo report energy --prometheus http://prometheus.monitoring:9090

  # Report a week of Kepler's readings with hourly prices, as a page, and save it for later
  supercargo report energy --prometheus http://localhost:9090 --power kepler --since 168h \
    --price-file prices.csv --carbon-file carbon.csv --report energy.html --save week.json

  # Report the same week at another price, as JSON
  supercargo report energy -f week.json --price 0.31 -o json

  # Without meters: model power by the cluster's MachineProfiles, else by the built-in table
  kubectl get machineprofiles -o yaml >profiles.yaml
  supercargo report energy --prometheus http://localhost:9090 --power model --machine-profiles profiles.yaml

  # Read power from a power distribution unit
  supercargo report energy --prometheus http://localhost:9090 --power-query 'sum by (node) (pdu_outlet_watts)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			changed := cmd.Flags().Changed
			flags.hasPrice, flags.hasCarbon, flags.hasSince, flags.meter.named = changed("price"), changed("carbon"), changed("since"), changed("power")
			return runReportEnergy(cmd.Context(), flags, time.Now(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&flags.file, "filename", "f", "", "`file` that an earlier run saved with --save; - for standard input")
	f.StringVar(&flags.save, "save", "", "`file` to save the observations to, for -f")
	flags.server.AddFlags(f)
	f.DurationVar(&flags.server.Timeout, "timeout", time.Minute, "timeout of one query")
	flags.meter.add(cmd, powerquery.Supercargo, powerquery.Kepler, powerquery.NodeExporter, powerquery.Modelled)
	f.StringVar(&flags.profiles, "machine-profiles", "", "`file` of MachineProfiles; the power that they state takes precedence over the built-in table")
	f.StringVar(&flags.from, "from", "", "start `time`, such as 2026-01-31T15:00:00Z (default: --since before the end)")
	f.StringVar(&flags.to, "to", "", "end `time` (default: now)")
	f.DurationVar(&flags.since, "since", 24*time.Hour, "how long before the end to start")
	f.DurationVar(&flags.step, "step", 0, "length of the slices of time within which usage counts as constant, 30s or more (default: about 300 slices of 5m or more)")
	f.Float64Var(&flags.price, "price", 0, "`dollars` per kWh (default: energy is not priced)")
	f.StringVar(&flags.priceFile, "price-file", "", "`file` of prices by time and zone")
	f.Float64Var(&flags.carbon, "carbon", 0, "`grams` of CO2 equivalent per kWh (default: emissions are not computed)")
	f.StringVar(&flags.carbonFile, "carbon-file", "", "`file` of carbon intensities by time and zone")
	command.AddOutput(cmd, &flags.output, command.TableOrJSON, "")
	f.IntVar(&flags.top, "top", 20, "rows of each table to print as text; the rest is summed")
	f.StringVar(&flags.page, "report", "", "HTML `file` to write")
	return cmd
}

// energyReport is the validated input of a report, and its observations.
type energyReport struct {
	flags    reportEnergyFlags
	prices   bill.Tariffs
	power    profile.StatedPower // stated by MachineProfiles
	preset   powerquery.Preset
	from, to time.Time
	step     time.Duration

	observed  []bill.Slice
	tally     powerquery.Tally
	powerFrom string
}

func runReportEnergy(ctx context.Context, flags reportEnergyFlags, now time.Time, stdin io.Reader, stdout, stderr io.Writer) error {
	r, err := readEnergyReport(flags, now)
	if err != nil {
		return command.BadInput(err)
	}
	if flags.file != "" {
		err = command.BadInput(r.load(stdin))
	} else {
		err = r.observe(ctx, stderr)
	}
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted before all observations were read: %w", err)
		}
		return err
	}
	if flags.save != "" {
		if err := command.WriteWhole(flags.save, func(w io.Writer) error { return bill.Write(w, r.powerFrom, r.observed) }); err != nil {
			return fmt.Errorf("--save: %w", err)
		}
	}
	return r.publish(stdout)
}

// readEnergyReport validates the flags and reads the tariffs, and returns all errors.
func readEnergyReport(flags reportEnergyFlags, now time.Time) (*energyReport, error) {
	r, errs := &energyReport{flags: flags}, flags.check()
	r.preset = flags.meter.preset(&errs)
	r.from, r.to = flags.span(&errs, now)
	r.step = flags.step
	if r.step == 0 {
		const slices = 300
		r.step = max(5*time.Minute, (r.to.Sub(r.from)/slices).Truncate(time.Minute)+time.Minute)
	}
	var profiles, price, carbon error
	r.power, profiles = statedPower(flags.profiles)
	r.prices.Price, price = readTariff("price", flags.hasPrice, flags.price, flags.priceFile, tariff.Dollars.Column())
	r.prices.Carbon, carbon = readTariff("carbon", flags.hasCarbon, flags.carbon, flags.carbonFile, tariff.Grams.Column())
	return r, errors.Join(append(errs, profiles, price, carbon)...)
}

// check validates the flags that need no file.
func (f reportEnergyFlags) check() input.Faults {
	errs := input.Faults{command.TableOrJSON.Check("output", f.output), f.checkInput()}
	if f.server.URL != "" {
		server := f.server
		server.MaxBytes = prometheus.DefaultMaxBytes
		errs.In("--prometheus", server.Validate())
	}
	errs.If(f.step != 0 && f.step < powerquery.SampleEvery, "--step %v: must be at least %v", f.step, powerquery.SampleEvery)
	errs.If(f.top < 1, "--top %d: must be 1 or more", f.top)
	return errs
}

// checkInput validates that there is one input, and no flag that it does not use.
func (f reportEnergyFlags) checkInput() error {
	switch {
	case (f.file == "") == (f.server.URL == ""):
		return errors.New("either --prometheus with the URL of a server, or -f with a saved file is required")
	case f.file == "":
		return nil
	case f.meter.query != "" || f.meter.named || f.from != "" || f.to != "" || f.hasSince || f.step != 0:
		return errors.New("-f: the file determines the meters, the period and the slices: omit --power, --power-query, --from, --to, --since and --step")
	}
	return nil
}

// span returns the time range of the report.
func (f reportEnergyFlags) span(errs *input.Faults, now time.Time) (from, to time.Time) {
	wrong := len(*errs)
	to = timeOf(errs, "to", f.to, now.Truncate(time.Second))
	from = timeOf(errs, "from", f.from, to.Add(-f.since))
	errs.If(f.from != "" && f.hasSince, "--from and --since are mutually exclusive")
	span := to.Sub(from)
	errs.If(len(*errs) == wrong && (span < powerquery.SampleEvery || span > 10*366*24*time.Hour), "from %s to %s: must be a period of half a minute to ten years (--from, --to, --since)",
		from.Format(time.RFC3339), to.Format(time.RFC3339))
	return from, to
}

// readTariff returns the tariff of a flag or a file; without either, an empty one.
func readTariff(flag string, given bool, flat float64, path, column string) (tariff.Tariff, error) {
	switch {
	case given && path != "":
		return tariff.Tariff{}, fmt.Errorf("--%[1]s and --%[1]s-file are mutually exclusive", flag)
	case given && (math.IsNaN(flat) || math.IsInf(flat, 0)):
		return tariff.Tariff{}, fmt.Errorf("--%s %v: must be a number", flag, flat)
	case given:
		return tariff.Flat(flat), nil
	case path == "":
		return tariff.Tariff{}, nil
	}
	var t tariff.Tariff
	err := command.ReadNamed("--"+flag+"-file", path, func(file io.Reader) error {
		var err error
		if t, err = tariff.Read(file, column); err != nil {
			return fmt.Errorf("--%s-file %s: %w", flag, path, err)
		}
		return nil
	})
	return t, err
}

// load reads saved observations.
func (r *energyReport) load(stdin io.Reader) error {
	read := func(file io.Reader) error {
		var err error
		if r.powerFrom, r.observed, err = bill.ReadFile(file); err != nil {
			return fmt.Errorf("-f %s: %w", r.flags.file, err)
		}
		return nil
	}
	if r.flags.file == "-" {
		return read(stdin)
	}
	return command.ReadNamed("-f", r.flags.file, read)
}

// observe queries the server.
func (r *energyReport) observe(ctx context.Context, stderr io.Writer) error {
	server := r.flags.server
	server.MaxBytes = mostAnswerBytes
	client, err := prometheus.New(server)
	if err != nil {
		return command.BadInput(fmt.Errorf("--prometheus: %w", err))
	}
	defer client.Close()
	o := powerquery.Observer{Querier: client, Power: powerquery.Meter{
		Querier: client, Preset: r.preset, Limits: energy.Limits{Rated: energy.Watts(r.flags.meter.ratedWatts)},
	}}
	if r.flags.meter.power == powerquery.Modelled {
		o.Power = powerquery.Model{Querier: client, Power: r.power.Of}
	}
	var progress func(done, all int)
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		progress = func(done, all int) { fmt.Fprintf(stderr, "\r%d of %d slices ", done, all) }
		defer fmt.Fprint(stderr, "\r\x1b[K")
	}
	r.powerFrom = cmp.Or(r.flags.meter.query, r.flags.meter.power)
	r.observed, r.tally, err = o.Observe(ctx, r.from, r.to, r.step, progress)
	return err
}

// mostProfileBytes is the maximum size of a file of MachineProfiles: some thousand with their models.
const mostProfileBytes = 16 << 20

// statedPower reads the power that MachineProfiles in a file state for their machine types. Profiles
// without power are ignored; of two profiles for one type, the one with the first name is used. Without
// a file the result is empty.
func statedPower(path string) (profile.StatedPower, error) {
	power := profile.StatedPower{}
	if path == "" {
		return power, nil
	}
	err := command.ReadNamed("--machine-profiles", path, func(file io.Reader) error {
		limited := &io.LimitedReader{R: file, N: mostProfileBytes + 1}
		manifests, err := manifest.Parse(path, limited)
		if limited.N == 0 {
			err = fmt.Errorf("%s: is larger than %d bytes", path, mostProfileBytes)
		}
		if err != nil {
			return fmt.Errorf("--machine-profiles: %w", err)
		}
		slices.SortStableFunc(manifests, func(a, b manifest.Manifest) int { return cmp.Compare(a.Object.GetName(), b.Object.GetName()) })
		for _, m := range manifests {
			var o v1alpha1.MachineProfile
			if gvk := m.Object.GroupVersionKind(); gvk != v1alpha1.GroupVersion.WithKind("MachineProfile") {
				return fmt.Errorf("--machine-profiles: %s: must contain only objects of kind MachineProfile in %s", m, v1alpha1.GroupVersion)
			}
			err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.Object.Object, &o)
			if err = errors.Join(err, power.Add(&o)); err != nil {
				return fmt.Errorf("--machine-profiles: %s: %w", m, err)
			}
		}
		return nil
	})
	return power, err
}

// publish prints the bill and writes the page.
func (r *energyReport) publish(stdout io.Writer) error {
	report := bill.Report{
		Bill: bill.Make(r.observed, r.prices, func(machineType string) (energy.Watts, bool) {
			m, ok := r.power.OfType(machineType)
			return m.Idle, ok
		}),
		PowerFrom: r.powerFrom, Dropped: r.tally.Counts, HasPrice: r.prices.Price.Known(), HasCarbon: r.prices.Carbon.Known(),
	}
	if report.From.IsZero() {
		report.From, report.To = r.from, r.to
	}
	report.AddNotes(r.observed, r.powerFrom == powerquery.Modelled, r.tally.Nameless)
	if r.flags.page != "" {
		if err := command.WriteWhole(r.flags.page, report.WriteHTML); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
	}
	if r.flags.output == "json" {
		return report.WriteJSON(stdout)
	}
	return report.WriteTable(stdout, r.flags.top)
}
