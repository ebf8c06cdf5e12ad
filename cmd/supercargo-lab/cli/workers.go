package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	workerdecide "supercargo.dev/supercargo/autoscaler/worker/workerdecide"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/definition"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/workers"
)

// workersFlags are the flags of `supercargo workers`.
type workersFlags struct {
	tasks         string
	initTime      time.Duration
	initDeviation time.Duration
	seed          uint64
	startWorkers  int
	minWorkers    int
	maxWorkers    int
	worker        string
	law           string
	cycle         time.Duration
	expectedInit  time.Duration
	pricePerHour  float64
	billingPeriod time.Duration
	output        string
	decisions     string
}

func newWorkersCommand() *cobra.Command {
	var flags workersFlags
	cmd := &cobra.Command{
		Use:   "workers -f tasks.csv",
		Short: "Simulate a workflow on a pool of workers that a law scales",
		Long: `Simulate a workflow on a pool of workers, as a manager such as Work Queue would run it, while
a law sets the number of workers. The command prints how long the workflow took, how many
cores were idle, how many were missing, and what the workers cost.

Tasks are a CSV file with the columns id, category, cores, memory_mib, runtime_s and
cpu_fraction (the share of its cores that a task keeps busy), and optionally parents (ids
separated by ;) and stage. A task is ready when its parents and all tasks of lower stages
have finished.

Laws:
  supercargo, hta  the decisions of a WorkerPool with law Supercargo or HTA and the defaults
                   of its kind. They see what a manager reports: its queue, and how many
                   tasks have finished
  hta-paper        the algorithm of the HTA paper, with corrections. It also sees the runtime
                   of each finished task
  hpa-N            the HorizontalPodAutoscaler with a target of N percent CPU utilisation. It
                   kills the tasks of the workers that it removes

Waste is the integral over time of the cores of connected workers that no task occupies.
Shortage is the integral of the cores that waiting tasks request.`,
		Example: `  supercargo workers -f test/scenarios/workers/blast.csv --start-workers 3 --max-workers 20

  # Use the stock autoscaler, and print JSON
  supercargo workers -f test/scenarios/workers/blast.csv --start-workers 3 --max-workers 20 --law hpa-20 -o json

  # State how long workers take to start
  supercargo workers -f tasks.csv --init-time 5m --expected-init-time 5m

  # Write each decision with its reason to a file
  supercargo workers -f tasks.csv --init-time 157.4s --init-sd 4.2s --decisions decisions.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runWorkers(cmd.Context(), flags, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	command.AddInput(cmd, &flags.tasks, "CSV `file` of tasks, - for standard input (required)", "tasks")
	f.DurationVar(&flags.initTime, "init-time", 157*time.Second, "mean time from the request for a worker until it accepts tasks")
	f.DurationVar(&flags.initDeviation, "init-sd", 0, "standard deviation of --init-time; 0 if it does not vary")
	f.Uint64Var(&flags.seed, "seed", 1, "seed of the times that workers take to come")
	f.IntVar(&flags.startWorkers, "start-workers", 3, "initial workers")
	f.IntVar(&flags.minWorkers, "min-workers", 0, "workers that are kept at least; 0 for none (hpa-N: 1 or more)")
	f.IntVar(&flags.maxWorkers, "max-workers", 20, "maximum workers; for supercargo and hta, workers that are leaving count")
	f.StringVar(&flags.worker, "worker", "cores=3,memory=12Gi", "size of a worker: cores=N,memory=QUANTITY")
	f.StringVar(&flags.law, "law", "supercargo", "law: supercargo, hta, hta-paper or hpa-N with a target of N percent")
	f.DurationVar(&flags.cycle, "interval", 0, "spec.scaling.interval: time between queries of the manager (default that of a WorkerPool; hta-paper 30s)")
	f.DurationVar(&flags.expectedInit, "expected-init-time", 0, "spec.scaling.expectedInitTime: start-up time of workers to assume until one has been measured (default that of a WorkerPool)")
	f.Float64Var(&flags.pricePerHour, "price-per-hour", 0.19, "dollars that a worker costs per hour")
	f.DurationVar(&flags.billingPeriod, "billing-period", time.Minute, "billing period: each started one is paid in full, from the request for a worker to its end")
	command.AddOutput(cmd, &flags.output, command.TableOrJSON, "")
	f.StringVar(&flags.decisions, "decisions", "", "CSV `file` to write each decision to")
	command.Words{"supercargo", "hta", "hta-paper", "hpa-20", "hpa-50"}.Complete(cmd, "law")
	return cmd
}

func runWorkers(ctx context.Context, flags workersFlags, stdin io.Reader, stdout io.Writer) error {
	plan, law, err := readWorkers(ctx, flags, stdin)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted before the run began: %w", ctx.Err())
	}
	if err != nil {
		return command.BadInput(err)
	}
	type ended struct {
		result workers.Result
		err    error
	}
	done := make(chan ended, 1)
	go func() {
		result, err := workers.Run(plan, law)
		done <- ended{result, err}
	}()
	var run ended
	select {
	case <-ctx.Done():
		return fmt.Errorf("interrupted before the workflow ended: %w", ctx.Err())
	case run = <-done:
	}
	if run.err != nil {
		return fmt.Errorf("run %s: %w", command.InputName(flags.tasks), run.err)
	}
	if flags.decisions != "" {
		if err := command.WriteWhole(flags.decisions, run.result.WriteDecisions); err != nil {
			return fmt.Errorf("--decisions: %w", err)
		}
	}
	document := workers.NewDocument(flags.law, len(plan.Tasks), run.result)
	if flags.output == "json" {
		return document.WriteJSON(stdout)
	}
	return document.WriteTable(stdout)
}

// readWorkers reads and validates all input before anything is run, and returns all errors.
func readWorkers(ctx context.Context, flags workersFlags, stdin io.Reader) (workers.Plan, workers.Law, error) {
	errs := []error{flags.check()}
	worker, err := parseWorker(flags.worker)
	if err != nil {
		errs = append(errs, fmt.Errorf("--worker %q: %w", flags.worker, err))
	}
	pool, err := poolOf(flags, worker)
	if err != nil {
		return workers.Plan{}, nil, err
	}
	law, err := newLaw(flags, worker, pool)
	if err != nil {
		errs = append(errs, err)
	}
	var tasks []trace.Task
	if flags.tasks == "" {
		errs = append(errs, errors.New("-f is required: the file of tasks, or - for standard input"))
	} else {
		errs = append(errs, command.ReadInput(ctx, flags.tasks, stdin, func(name string, in io.Reader) (err error) {
			tasks, err = trace.ReadTasks(name, in)
			return err
		}))
	}
	plan := workers.Plan{
		Tasks: tasks, Worker: worker, Start: flags.startWorkers, Max: flags.maxWorkers,
		InitTime: scenario.Lag{Mean: flags.initTime, SD: flags.initDeviation}, Seed: flags.seed,
		MicroDollarsPerHour: int64(math.Round(flags.pricePerHour * 1e6)), BillingPeriod: flags.billingPeriod,
		IdleTimeout: pool.Worker.IdleTimeout.Duration,
	}
	if err := errors.Join(errs...); err != nil {
		return plan, law, err
	}
	if err := plan.Validate(); err != nil {
		return plan, law, fmt.Errorf("%s: %w", command.InputName(flags.tasks), err)
	}
	return plan, law, nil
}

// mostWorkers is the maximum number of workers of a run.
const mostWorkers = 100_000

// check validates the flags that need no file.
func (f workersFlags) check() error {
	errs := []error{command.TableOrJSON.Check("output", f.output)}
	for _, flag := range []struct {
		name  string
		value any
		ok    bool
		want  string
	}{
		{"init-time", f.initTime, f.initTime > 0, "more than 0"},
		{"init-sd", f.initDeviation, f.initDeviation >= 0 && f.initDeviation <= f.initTime/6, "from 0 to a sixth of --init-time"},
		{"max-workers", f.maxWorkers, f.maxWorkers >= 1 && f.maxWorkers <= mostWorkers, fmt.Sprintf("from 1 to %d", mostWorkers)},
		{"min-workers", f.minWorkers, f.minWorkers >= 0 && f.minWorkers <= f.maxWorkers, "from 0 to --max-workers"},
		{"start-workers", f.startWorkers, f.startWorkers >= 0 && f.startWorkers <= f.maxWorkers, "from 0 to --max-workers"},
		{"interval", f.cycle, f.cycle >= 0, "0 or more"},
		{"expected-init-time", f.expectedInit, f.expectedInit >= 0, "0 or more"},
		{"price-per-hour", f.pricePerHour, f.pricePerHour >= 0 && f.pricePerHour <= 1e6, "from 0 to 1000000 dollars"},
		{"billing-period", f.billingPeriod, f.billingPeriod >= time.Second && f.billingPeriod <= 24*time.Hour, "from 1s to 24h"},
	} {
		if !flag.ok {
			errs = append(errs, fmt.Errorf("--%s %v: must be %s", flag.name, flag.value, flag.want))
		}
	}
	return errors.Join(errs...)
}

// parseWorker parses the resources of a worker.
func parseWorker(text string) (estimate.Resources, error) {
	var r estimate.Resources
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if seen[name] {
			return r, fmt.Errorf("%s is set twice", name)
		}
		seen[name] = true
		quantity, err := resource.ParseQuantity(value)
		if err != nil || quantity.Sign() <= 0 {
			return r, fmt.Errorf("%q is not an amount of %s above 0: must be as in cores=3,memory=12Gi", value, name)
		}
		switch name {
		case "cores":
			r.MilliCores = quantity.MilliValue()
		case "memory":
			r.MemoryBytes = quantity.Value()
		default:
			return r, fmt.Errorf("%q is not a resource of workers: must be cores or memory", name)
		}
	}
	switch r.MemoryBytes = workerdecide.WholeMiB(r.MemoryBytes); {
	case !seen["cores"] || !seen["memory"]:
		return r, errors.New("must have both cores and memory, such as cores=3,memory=12Gi")
	case r.MilliCores%1000 != 0 || r.MemoryBytes == 0:
		return r, errors.New("must have whole cores and 1Mi of memory or more, as a worker of Work Queue has")
	}
	return r, nil
}

// poolOf returns the spec of a WorkerPool for the flags, with the defaults of its kind.
func poolOf(f workersFlags, worker estimate.Resources) (*v1alpha1.WorkerPoolSpec, error) {
	scaling := map[string]any{}
	if f.law == "hta" {
		scaling["law"] = string(v1alpha1.WorkerLawHTA)
	}
	for field, value := range map[string]time.Duration{"interval": f.cycle, "expectedInitTime": f.expectedInit} {
		if value > 0 {
			scaling[field] = value.String()
		}
	}
	var pool v1alpha1.WorkerPool
	err := definition.Complete("workerpools", map[string]any{"spec": map[string]any{
		"manager": map[string]any{}, "scaling": scaling,
		"worker": map[string]any{"resources": map[string]any{
			"cores": worker.MilliCores / 1000, "memory": resource.NewQuantity(worker.MemoryBytes, resource.BinarySI).String(),
		}},
		"limits": map[string]any{"min": int64(f.minWorkers), "max": int64(f.maxWorkers)},
	}}, &pool)
	return &pool.Spec, err
}

// newLaw returns the law with the name in the flags.
func newLaw(f workersFlags, worker estimate.Resources, pool *v1alpha1.WorkerPoolSpec) (workers.Law, error) {
	switch f.law {
	case "supercargo", "hta":
		return &workers.Pool{Config: workerdecide.ConfigOf(pool)}, nil
	case "hta-paper":
		return &workers.PaperHTA{Limits: estimate.Pool{Worker: worker, Min: f.minWorkers, Max: f.maxWorkers, Cycle: cmp.Or(f.cycle, 30*time.Second)}}, nil
	}
	var percent int
	if n, err := fmt.Sscanf(f.law, "hpa-%d", &percent); n != 1 || err != nil || f.law != fmt.Sprintf("hpa-%d", percent) || percent < 1 || percent > 100 {
		return nil, fmt.Errorf("--law %q: must be supercargo, hta, hta-paper or hpa-N with N from 1 to 100", f.law)
	}
	return &workers.HPA{Target: float64(percent) / 100, Min: max(1, f.minWorkers), Max: f.maxWorkers}, nil
}
