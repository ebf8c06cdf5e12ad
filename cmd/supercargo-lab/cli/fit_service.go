package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/text/jsondoc"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/lab/fit"
)

// fitServiceFlags are the flags of `supercargo fit service`.
type fitServiceFlags struct {
	file      string
	columns   queueing.Columns
	most      time.Duration
	fixedRate bool
	slo       time.Duration
	peakRate  float64
	output    string
	// Whether the flags were given.
	hasMost, hasSLO, hasPeakRate bool
}

func newFitServiceCommand() *cobra.Command {
	var flags fitServiceFlags
	cmd := &cobra.Command{
		Use:   "service -f FILE",
		Short: "Fit a service's queueing model to measured response times",
		Long: `Read how many replicas served how many requests, and their response times, and print the constants of
the queueing model that ReplicaPolicies use. In this model a replica serves mu = mu_b + c/lambda
requests per second at a total arrival rate of lambda, and alpha is the weight of the last mean
response time in the next one. With -o yaml the output is a patch for a ReplicaPolicy.

FILE is a CSV file with a header and one row per step, such as a minute. All steps have the same
length. Rows are in order of time:

  time        RFC 3339 or seconds; must increase; optional
  replicas    replicas that served, 1 or more
  rate_per_s  arrival rate, requests per second
  response_s  mean response time, in seconds

Flags give other column names. The command skips a row whose rate or response time is empty, NaN or 0,
and the row after it, whose past is unknown. At least six rows must remain.

The model describes a steady queue. Rows in which a backlog grew or shrank mislead the fit. Use
--max-response to leave out rows of an overloaded service, for example ten times the usual response
time.

If all arrival rates are similar, mu_b and c cannot be told apart, and the command fails. --fixed-rate
sets c to 0. With --slo and --peak-rate, the command also prints how many replicas the model needs.`,
		Example: `  supercargo fit service -f service.csv

  # Patch a ReplicaPolicy with the model
  supercargo fit service -f service.csv --slo 150ms --peak-rate 600 -o yaml |
    kubectl patch replicapolicy web -n shop --type merge --patch-file /dev/stdin

  # Fit to the samples of a simulation
  supercargo replicas -f requests.csv --law inversequeue --samples samples.csv
  supercargo fit service -f samples.csv --time-column time_s --replicas-column ready \
    --rate-column measured_rate_per_s --max-response 250ms`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := cmd.Flags().Changed
			flags.columns.NeedsTime, flags.hasMost, flags.hasSLO, flags.hasPeakRate = given("time-column"), given("max-response"), given("slo"), given("peak-rate")
			return command.BadInput(fitService(flags, cmd.InOrStdin(), cmd.OutOrStdout()))
		},
	}
	f := cmd.Flags()
	command.AddInput(cmd, &flags.file, "`file` of measurements, - for standard input (required)", "")
	f.StringVar(&flags.columns.Time, "time-column", "time", "`column` of the time")
	f.StringVar(&flags.columns.Replicas, "replicas-column", "replicas", "`column` of the replicas")
	f.StringVar(&flags.columns.ArrivalRate, "rate-column", "rate_per_s", "`column` of the arrival rate, requests/s")
	f.StringVar(&flags.columns.Response, "response-column", "response_s", "`column` of the mean response time, in seconds")
	f.DurationVar(&flags.most, "max-response", 0, "leave out rows with a longer mean response time; 0 keeps all")
	f.BoolVar(&flags.fixedRate, "fixed-rate", false, "fit a service rate that does not depend on the arrival rate (c = 0)")
	f.DurationVar(&flags.slo, "slo", 0, "target for the mean response time; requires --peak-rate (default: none)")
	f.Float64Var(&flags.peakRate, "peak-rate", 0, "highest expected arrival rate, requests/s; requires --slo (default: none)")
	command.AddOutput(cmd, &flags.output, command.TableJSONOrYAML, " for a patch of a ReplicaPolicy")
	return cmd
}

// check returns all errors in the flags.
func (f *fitServiceFlags) check() error {
	var errs input.Faults
	errs = append(errs, command.TableJSONOrYAML.Check("output", f.output))
	errs.If(f.file == "", "-f is required: a file of measurements, or - for standard input")
	errs.If(f.hasMost && f.most <= 0, "--max-response %v: must be more than 0", f.most)
	errs.If(f.hasSLO != f.hasPeakRate, "--slo and --peak-rate must be set together")
	// The limits of a ReplicaPolicy.
	errs.If(f.hasSLO && (f.slo < time.Millisecond || f.slo > time.Hour || f.slo%time.Microsecond != 0), "--slo %v: must be from 1ms to 1h, in whole microseconds", f.slo)
	errs.If(f.hasPeakRate && !(f.peakRate >= 1e-3 && f.peakRate <= 1e7), "--peak-rate %v: must be from 0.001 to 10000000 requests per second", f.peakRate)
	return errors.Join(errs...)
}

// fitService reads a series, fits a model and prints it. All its errors are input errors.
func fitService(flags fitServiceFlags, stdin io.Reader, w io.Writer) error {
	if err := flags.check(); err != nil {
		return err
	}
	flags.columns.MostResponse = flags.most.Seconds()
	var samples []queueing.Sample
	err := readMeasured(flags.file, stdin, func(file io.Reader) (err error) {
		samples, err = queueing.ReadSamples(file, flags.columns)
		return err
	})
	if err != nil {
		return err
	}
	s, err := fit.NewService(samples, flags.fixedRate)
	if err != nil {
		return fmt.Errorf("-f %s: %w", flags.file, err)
	}
	if flags.hasSLO {
		if err := s.Model.CheckSLO(flags.slo.Seconds(), flags.peakRate); err != nil {
			return fmt.Errorf("--slo: %w", err)
		}
		if err := s.Need(flags.slo, flags.peakRate); err != nil {
			return fmt.Errorf("--peak-rate: %w", err)
		}
	}
	switch flags.output {
	case "json":
		return jsondoc.Write(w, s)
	case "yaml":
		return writeServicePatch(w, s)
	}
	return printServiceFit(w, s)
}

// writeServicePatch prints the fields of a ReplicaPolicy that describe the service, as a merge patch,
// which does not change other fields.
func writeServicePatch(w io.Writer, s *fit.Service) error {
	type spec struct {
		SLO     *v1alpha1.ServiceLevel `json:"slo,omitempty"`
		Service fit.ServiceConstants   `json:"service"`
	}
	patch := struct {
		Spec spec `json:"spec"`
	}{spec{Service: s.Service}}
	if s.Needed != nil {
		patch.Spec.SLO = &v1alpha1.ServiceLevel{ResponseTime: s.Needed.SLO}
	}
	text, err := yaml.Marshal(patch)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Fitted to %s, %g to %g replicas at %.6g to %.6g requests/s:\n", plural.Count(s.Samples, "sample"), s.Replicas.Least, s.Replicas.Most, s.Rates.Least, s.Rates.Most)
	fmt.Fprintf(&b, "# mu_b %g requests/s, c %g, alpha %g%s; %s\n", s.Model.MuB, s.Model.C, s.Model.Alpha, alphaNote(s), serviceErrorText(s))
	if s.Needed != nil {
		fmt.Fprintf(&b, "# %s\n", neededText(s.Needed))
	}
	b.Write(text)
	_, err = io.WriteString(w, b.String())
	return err
}

// alphaNote returns a warning if alpha is at its upper limit.
func alphaNote(s *fit.Service) string {
	if s.Model.Alpha == queueing.DefaultMaxAlpha {
		return " (the upper limit of the fit: the steps may be too short)"
	}
	return ""
}

// poor is the R² below which a fit should not be used.
const poor = 0.5

func serviceErrorText(s *fit.Service) string {
	text := fmt.Sprintf("error %.3g s (root of the mean square), R² %.3f", s.ResidualSeconds, s.RSquared)
	if s.RSquared < poor {
		text += ": the model explains little of the measurements; --max-response leaves out rows of an overloaded service"
	}
	return text
}

func neededText(n *fit.Needed) string {
	return fmt.Sprintf("%s or more for %v at %g requests/s, with a response time of %.3g s by the model", plural.Count(n.Replicas, "replica"), n.SLO.Duration, n.ArrivalRate, n.ResponseSeconds)
}

func printServiceFit(w io.Writer, s *fit.Service) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("Samples", "%d", s.Samples)
	if s.LeftOut > 0 {
		line("Rows left out", "%d", s.LeftOut)
	}
	line("Replicas seen", "%g to %g", s.Replicas.Least, s.Replicas.Most)
	line("Arrival rates seen", "%.6g to %.6g requests/s", s.Rates.Least, s.Rates.Most)
	line("mu_b", "%g requests/s", s.Model.MuB)
	line("c", "%g requests²/s²", s.Model.C)
	line("alpha", "%g%s", s.Model.Alpha, alphaNote(s))
	line("Fit", "%s", serviceErrorText(s))
	if s.Needed != nil {
		line("Needed", "%s", neededText(s.Needed))
	}
	line("To simulate it", "supercargo replicas --mu-b %g --mu-c %g --alpha %g", s.Model.MuB, s.Model.C, s.Model.Alpha)
	return t.Flush()
}
