// Package replicas measures the cost of many ReplicaPolicies for one autoscaler: CPU, memory, evaluations
// and writes. The API server is real, measurements come from a server that implements
// Prometheus' API, and the autoscaler is the program itself. Pods exist only as objects: nothing runs.
package replicas

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"supercargo.dev/supercargo/internal/text/jsondoc"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/measure/process"
)

// Summary is the output.
type Summary struct {
	Policies int `json:"policies"`
	Pods     int `json:"pods"`
	// IntervalSeconds is the control interval: each policy is evaluated ten times in it.
	IntervalSeconds float64 `json:"intervalSeconds"`
	MeasuredSeconds float64 `json:"measuredSeconds"`
	// Cores is the CPU time of the autoscaler per second of measured time.
	Cores float64 `json:"cores"`
	// PeakMemoryMiB is the peak resident memory since its start.
	PeakMemoryMiB float64 `json:"peakMemoryMiB"`
	// EvaluationsPerSecond, QueriesPerSecond, ScalingsPerSecond and StatusWritesPerSecond are the rates of
	// evaluations, queries, changes of replicas and status writes of all policies.
	EvaluationsPerSecond  float64 `json:"looksPerSecond"`
	QueriesPerSecond      float64 `json:"queriesPerSecond"`
	ScalingsPerSecond     float64 `json:"scalingsPerSecond"`
	StatusWritesPerSecond float64 `json:"statusWritesPerSecond"`
	// DecisionMicroseconds is the mean time of a law for a decision.
	DecisionMicroseconds float64 `json:"decisionMicroseconds"`
	// Missing is the number of evaluations with missing measurements, in the measured time.
	Missing float64 `json:"missing"`
}

type options struct {
	binary         string
	policies       int
	interval, last time.Duration
}

// Command returns the subcommand that measures ReplicaPolicies.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "replicas", Short: "Measure what ReplicaPolicies cost one autoscaler", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.binary, "binary", "bin/autoscaler", "autoscaler")
	f.IntVar(&o.policies, "policies", 1000, "how many policies")
	f.DurationVar(&o.interval, "interval", 250*time.Second, "control interval; each policy looks ten times in it")
	f.DurationVar(&o.last, "lasts", 2*time.Minute, "for how long to measure")
	return cmd
}

func run(ctx context.Context, o options) (err error) {
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return err
	}
	site, err := kit.NewSites(playground.Options{NoControllerManager: true, NoScheduler: true, NoKwok: true}).Get()
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	defer func() { err = errors.Join(err, site.Stop()) }()
	source := newSource()
	defer source.Close()
	fmt.Fprintf(os.Stderr, "making %d services\n", o.policies)
	if err := populate(ctx, site.Client, o.policies, o.interval); err != nil {
		return err
	}
	metrics, err := process.FreeAddress()
	if err != nil {
		return err
	}
	log, err := os.CreateTemp("", "autoscaler-*.log")
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(binary, "--kubeconfig", site.KubeconfigPath(), "--leader-elect=false", "--metrics-url", source.URL,
		"--metrics-bind-address", metrics, "--health-probe-bind-address", "0")
	fmt.Fprintf(os.Stderr, "starting the autoscaler, which logs to %s\n", log.Name())
	stop, err := process.Start(cmd, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	summary, err := measure(ctx, o, cmd.Process.Pid, metrics, source)
	if err != nil {
		return err
	}
	return jsondoc.Write(os.Stdout, summary)
}

// measure waits until every policy has been evaluated, and until half of them have been evaluated again, and
// then computes the difference of two readings.
func measure(ctx context.Context, o options, pid int, metrics string, source *source) (*Summary, error) {
	fmt.Fprintln(os.Stderr, "waiting for the first evaluations")
	var evaluations float64
	var unread error
	err := wait.PollUntilContextTimeout(ctx, time.Second, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		r, err := read(ctx, pid, metrics, source)
		evaluations, unread = r.evaluations, err
		return err == nil && evaluations >= float64(o.policies)*3/2, nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the first evaluations: %v of them: %w", evaluations, errors.Join(err, unread))
	}
	fmt.Fprintf(os.Stderr, "measuring for %v\n", o.last)
	before, err := read(ctx, pid, metrics, source)
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(o.last):
	}
	after, err := read(ctx, pid, metrics, source)
	if err != nil {
		return nil, err
	}
	seconds := after.at.Sub(before.at).Seconds()
	evaluations = after.evaluations - before.evaluations
	return &Summary{
		Policies: o.policies, Pods: o.policies * podsOfEach, IntervalSeconds: o.interval.Seconds(), MeasuredSeconds: seconds,
		Cores: (after.cpu - before.cpu).Seconds() / seconds, PeakMemoryMiB: after.peakMiB,
		EvaluationsPerSecond: evaluations / seconds, QueriesPerSecond: float64(after.queries-before.queries) / seconds,
		ScalingsPerSecond: (after.scalings - before.scalings) / seconds, StatusWritesPerSecond: (after.writes - before.writes) / seconds,
		DecisionMicroseconds: 1e6 * (after.deciding - before.deciding) / evaluations, Missing: after.missing - before.missing,
	}, nil
}
