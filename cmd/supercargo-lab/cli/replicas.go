package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/replicas"
	"supercargo.dev/supercargo/lab/replicas/catalogue"
	"supercargo.dev/supercargo/lab/replicas/decider"
	"supercargo.dev/supercargo/lab/replicas/loop"
	"supercargo.dev/supercargo/lab/replicas/plant"
)

// replicasFlags are the flags of `supercargo replicas`.
type replicasFlags struct {
	trace       string
	scale       float64
	interpolate bool
	laws        []string
	goal        law.Goal
	modelError  float64
	start       int
	podStart    time.Duration
	podStop     time.Duration
	oneByOne    bool
	dead        int
	timeout     time.Duration
	connections int
	warmup      time.Duration
	warmupGiven bool
	response    time.Duration
	seed        uint64
	output      string
	samples     string
}

// replicasRun is the validated input of the flags: one run for each law.
type replicasRun struct {
	flags  replicasFlags
	rates  []trace.Rate
	peak   float64
	config loop.Config // without a law
	laws   []loop.Decider
}

func newReplicasCommand() *cobra.Command {
	flags := replicasFlags{goal: law.DefaultGoal()}
	service := plant.Default()
	cmd := &cobra.Command{
		Use:   "replicas -f requests.csv --law LAW",
		Short: "Simulate a service and a law that sets its replicas, on a trace of arrival rates",
		Long: `Simulate a service behind a load balancer, request by request, in virtual time. The service
is an M/M/N queue with a bounded backlog, a timeout, and replicas that take time to start. A
control law sets the number of replicas. The command prints how often the mean response time
of a control interval exceeded the SLO, and the cost of the replicas in replicas times
control intervals.

The trace is a CSV file with the columns time_s and rate_per_s. A rate holds until the next
row. With --interpolate, rates are interpolated linearly instead.

A replica serves mu = mu_b + c/lambda requests per second at a total arrival rate of lambda.
The defaults are those of the InverseQueue paper. With them, a single request takes longer
than 0.1 s above 706 requests/s; use --scale with higher rates. The command rejects an SLO
that no number of replicas can meet at the highest rate of the trace.

Laws:
` + describeLaws() + `
predictive, inversequeue and doublethreshold are the decisions of a ReplicaPolicy with that
law and the defaults of its kind. The others exist only in this command, for comparison.

The figures leave out a warm-up of 500 minutes, or none if the trace is shorter than twice
that. The same input and seed give the same figures.`,
		Example: `  supercargo replicas -f test/data/web/wikipedia.csv --interpolate --law inversequeue

  # Compare several laws with a custom SLO, as JSON
  supercargo replicas -f requests.csv --law inversequeue,hpa --slo 200ms -o json

  # Write every sample of a law to a file
  supercargo replicas -f requests.csv --law doublethreshold --samples samples.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags.warmupGiven = cmd.Flags().Changed("warmup")
			return runReplicas(cmd.Context(), flags, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f, g := cmd.Flags(), &flags.goal
	command.AddInput(cmd, &flags.trace, "CSV `file` of arrival rates, - for standard input (required)", "trace")
	f.Float64Var(&flags.scale, "scale", 1, "factor to multiply the rates of the trace by")
	f.BoolVar(&flags.interpolate, "interpolate", false, "interpolate rates linearly instead of holding each until the next")
	f.StringSliceVar(&flags.laws, "law", []string{catalogue.Names()[0]}, "laws to run: "+catalogue.Known())
	f.DurationVar(&g.SLO, "slo", g.SLO, "target for the mean response time")
	f.DurationVar(&g.Interval, "interval", g.Interval, "control interval; doublethreshold and hpa have intervals of their own")
	f.Float64Var(&g.Model.MuB, "mu-b", g.Model.MuB, "basic service rate of a replica, requests/s")
	f.Float64Var(&g.Model.C, "mu-c", g.Model.C, "c of the service rate mu_b + c/lambda; 0 for a fixed rate")
	f.Float64Var(&g.Model.Alpha, "alpha", g.Model.Alpha, "weight of the last response time in the queueing model of the laws")
	f.Float64Var(&flags.modelError, "model-error", 0, "relative error of the laws' model: 0.1 makes them assume a service 10 % faster than it is; 0 for none")
	f.IntVar(&flags.start, "start-replicas", 0, "initial replicas; 0 for what the model needs at the first rate")
	f.DurationVar(&flags.podStart, "pod-start", service.Start, "how long a replica takes to start")
	f.DurationVar(&flags.podStop, "pod-stop", service.Stop, "how long a replica takes to stop; 0 for at once")
	f.BoolVar(&flags.oneByOne, "one-by-one", false, "start and stop replicas one after the other, not all at once")
	f.IntVar(&flags.dead, "dead-pods", 0, "requested replicas that never become Ready; 0 for none")
	f.DurationVar(&flags.timeout, "timeout", service.Timeout, "how long a request waits before it is abandoned; 0 for no limit")
	f.IntVar(&flags.connections, "connections", service.Connections, "requests in service and queued per replica, beyond which requests are rejected; 0 for no limit")
	f.IntVar(&g.Min, "min", g.Min, "minimum replicas")
	f.IntVar(&g.Max, "max", g.Max, "maximum replicas")
	f.DurationVar(&flags.response, "response-window", 0, "window over which laws see the mean response time (1m in the InverseQueue paper); 0 for the time since the previous sample")
	f.DurationVar(&flags.warmup, "warmup", 500*time.Minute, "initial part of the trace to leave out of the figures")
	f.Uint64Var(&flags.seed, "seed", 1, "seed of the random arrivals and service times")
	command.AddOutput(cmd, &flags.output, command.TableOrJSON, "")
	f.StringVar(&flags.samples, "samples", "", "CSV `file` to write every sample to; with one law only")
	command.Words(catalogue.Names()).CompleteList(cmd, "law")
	return cmd
}

func describeLaws() string {
	var b strings.Builder
	for _, name := range catalogue.Names() {
		fmt.Fprintf(&b, "  %-16s %s\n", name, catalogue.Describe(name))
	}
	fmt.Fprintf(&b, "  %-16s hpa with a target of N %% utilisation in place of 50 %%\n", "hpa-N")
	return b.String()
}

func runReplicas(ctx context.Context, flags replicasFlags, stdin io.Reader, stdout io.Writer) error {
	run, err := readReplicas(ctx, flags, stdin)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted before the run began: %w", ctx.Err())
	}
	if err != nil {
		return command.BadInput(err)
	}
	results, err := run.play(ctx)
	if err != nil {
		return err
	}
	document := replicas.NewDocument(flags.trace, run.config, run.names(), results)
	if flags.output == "json" {
		return document.WriteJSON(stdout)
	}
	return document.WriteTable(stdout)
}

// play runs all laws, GOMAXPROCS at a time.
func (r *replicasRun) play(ctx context.Context) ([]loop.Result, error) {
	results := make([]loop.Result, len(r.laws))
	samples, err := newSampleFile(r.flags.samples)
	if err != nil {
		return nil, err
	}
	group := errgroup.Group{}
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, l := range r.laws {
		c := r.config
		c.Decider = l
		c.Stop = func() bool { return ctx.Err() != nil }
		c.OnStep = samples.add
		group.Go(func() error {
			var err error
			results[i], err = loop.Run(c)
			return err
		})
	}
	err = errors.Join(group.Wait(), samples.close())
	if ctx.Err() != nil {
		return nil, fmt.Errorf("interrupted before the run was complete: %w", ctx.Err())
	}
	return results, err
}

func (r *replicasRun) names() (names []string) {
	for _, l := range r.laws {
		names = append(names, l.Name())
	}
	return names
}

// sampleFile is the file of --samples. Without a path it does nothing.
type sampleFile struct {
	file        *os.File
	buffer      *bufio.Writer
	evaluations *replicas.EvaluationWriter
}

func newSampleFile(path string) (*sampleFile, error) {
	if path == "" {
		return &sampleFile{}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--samples: %w", err)
	}
	buffer := bufio.NewWriter(f)
	return &sampleFile{file: f, buffer: buffer, evaluations: replicas.NewEvaluationWriter(buffer)}, nil
}

func (l *sampleFile) add(s loop.Step) {
	if l.file != nil {
		l.evaluations.Add(s)
	}
}

func (l *sampleFile) close() error {
	if l.file == nil {
		return nil
	}
	if err := errors.Join(l.evaluations.Flush(), l.buffer.Flush(), l.file.Close()); err != nil {
		return fmt.Errorf("--samples: write %s: %w", l.file.Name(), err)
	}
	return nil
}

// readReplicas reads and validates all input before anything is run, and returns all errors.
func readReplicas(ctx context.Context, flags replicasFlags, stdin io.Reader) (*replicasRun, error) {
	errs := []error{checkReplicasFlags(flags)}
	r := &replicasRun{flags: flags}
	if flags.trace == "" {
		errs = append(errs, errors.New("-f is required: a CSV file of arrival rates, or - for standard input"))
	} else {
		errs = append(errs, r.readRates(ctx, stdin))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := r.flags.goal.Model.CheckSLO(flags.goal.SLO.Seconds(), r.peak); err != nil {
		return nil, fmt.Errorf("--slo: %w, or use a smaller --scale", err)
	}
	if err := r.configure(); err != nil {
		return nil, err
	}
	return r, r.makeLaws()
}

// checkReplicasFlags returns all errors in the flags that do not depend on the trace.
func checkReplicasFlags(flags replicasFlags) error {
	var errs []error
	for i, name := range flags.laws {
		switch {
		case !catalogue.Knows(name):
			errs = append(errs, fmt.Errorf("--law %q: must be %s", name, catalogue.Known()))
		case slices.Contains(flags.laws[:i], name):
			errs = append(errs, fmt.Errorf("--law: %s is set twice", name))
		}
	}
	errs = append(errs, command.TableOrJSON.Check("output", flags.output))
	g := flags.goal
	for _, check := range []struct {
		ok         bool
		flag, want string
		value      any
	}{
		{len(flags.laws) > 0, "law", catalogue.Known(), ""},
		{flags.scale > 0 && flags.scale <= 1e6, "scale", "more than 0, up to a million", flags.scale},
		{flags.modelError > -1 && flags.modelError < 10, "model-error", "more than -1 and less than 10", flags.modelError},
		{g.SLO > 0, "slo", "more than 0", g.SLO},
		{g.Interval >= time.Second, "interval", "1s or more", g.Interval},
		{queueing.Model{MuB: g.Model.MuB}.Validate() == nil, "mu-b", "more than 0 requests per second", g.Model.MuB},
		{queueing.Model{MuB: 1, C: g.Model.C}.Validate() == nil, "mu-c", "0 or more", g.Model.C},
		{queueing.Model{MuB: 1, Alpha: g.Model.Alpha}.Validate() == nil, "alpha", "0 or more and less than 1", g.Model.Alpha},
		{g.Min >= 1, "min", "1 or more", g.Min},
		{g.Max >= g.Min && g.Max <= queueing.MaxServers, "max", fmt.Sprintf("from --min to %d", queueing.MaxServers), g.Max},
		{flags.start >= 0 && flags.start <= queueing.MaxServers, "start-replicas", fmt.Sprintf("from 0 to %d", queueing.MaxServers), flags.start},
		{flags.podStart >= 0, "pod-start", "0 or more", flags.podStart},
		{flags.podStop >= 0, "pod-stop", "0 or more", flags.podStop},
		{flags.timeout >= 0 && (flags.timeout > 0 || flags.connections == 0), "timeout", "0 or more, and more than 0 if --connections is set", flags.timeout},
		{flags.connections >= 0, "connections", "0 or more", flags.connections},
		{flags.warmup >= 0, "warmup", "0 or more", flags.warmup},
		{flags.response >= 0, "response-window", "0 or more", flags.response},
		{flags.samples == "" || len(flags.laws) == 1, "samples", "used with one law only", flags.samples},
	} {
		if !check.ok {
			errs = append(errs, fmt.Errorf("--%s %v: must be %s", check.flag, check.value, check.want))
		}
	}
	return errors.Join(append(errs, command.CheckWritable("--samples", flags.samples))...)
}

// readRates reads the rates. It waits for stdin until ctx ends.
func (r *replicasRun) readRates(ctx context.Context, stdin io.Reader) (err error) {
	err = command.ReadInput(ctx, r.flags.trace, stdin, func(name string, in io.Reader) (err error) {
		r.rates, err = trace.ReadRates(name, in)
		return err
	})
	for i := range r.rates {
		r.rates[i].PerSecond *= r.flags.scale
		r.peak = max(r.peak, r.rates[i].PerSecond)
	}
	return err
}

// configure configures the service and the run.
func (r *replicasRun) configure() error {
	f := r.flags
	warmup := f.warmup
	horizon := loop.Horizon(r.rates)
	if !f.warmupGiven && horizon < 2*warmup {
		warmup = 0
	}
	if warmup >= horizon {
		return fmt.Errorf("--warmup %v: must be shorter than the trace, which lasts %v", warmup, horizon)
	}
	start := f.start
	if start == 0 {
		start, _ = f.goal.Servers(r.rates[0].PerSecond, f.goal.SLO.Seconds())
	}
	r.config = loop.Config{
		Plant: plant.Config{Model: f.goal.Model, Timeout: f.timeout, Connections: f.connections, Start: f.podStart, Stop: f.podStop,
			OneByOne: f.oneByOne, Replicas: start, Dead: f.dead},
		Rates: r.rates, Interpolate: f.interpolate, SLO: f.goal.SLO, Interval: f.goal.Interval, Warmup: warmup, ResponseWindow: f.response, Seed: f.seed,
	}
	return nil
}

// makeLaws creates the laws, with their model of the service.
func (r *replicasRun) makeLaws() error {
	options := catalogue.Options{Goal: r.flags.goal, PeakRate: r.peak}
	options.Model.MuB *= 1 + r.flags.modelError
	options.Model.C *= 1 + r.flags.modelError
	for _, name := range r.flags.laws {
		l, err := decider.New(name, options)
		if err != nil {
			return fmt.Errorf("--law: %w", err)
		}
		r.laws = append(r.laws, l)
	}
	return nil
}
