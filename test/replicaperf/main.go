// Command replicaperf measures the cost of many ReplicaPolicies for one autoscaler: CPU, memory, evaluations
// and writes, and prints JSON. The API server is real, measurements come from a server that implements
// Prometheus' API, and the autoscaler is the program itself. Pods exist only as objects: nothing runs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"supercargo.dev/supercargo/internal/text/jsondoc"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
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

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "bin/autoscaler", "autoscaler")
	flag.IntVar(&o.policies, "policies", 1000, "how many policies")
	flag.DurationVar(&o.interval, "interval", 250*time.Second, "control interval; each policy looks ten times in it")
	flag.DurationVar(&o.last, "lasts", 2*time.Minute, "for how long to measure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "replicaperf:", err)
		os.Exit(1)
	}
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
	metrics, err := freeAddress()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, binary, "--kubeconfig", site.KubeconfigPath(), "--leader-elect=false", "--metrics-url", source.URL,
		"--metrics-bind-address", metrics, "--health-probe-bind-address", "0")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	log, err := os.CreateTemp("", "replicaperf-*.log")
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	fmt.Fprintf(os.Stderr, "starting the autoscaler, which logs to %s\n", log.Name())
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // ended by the signal
	}()
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
	for deadline := time.Now().Add(5 * time.Minute); ; {
		r, err := read(ctx, pid, metrics, source)
		if err == nil && r.evaluations >= float64(o.policies)*3/2 {
			break
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("wait for the first evaluations: %v of them, %w", r.evaluations, err)
		}
		if err := sleep(ctx, time.Second); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(os.Stderr, "measuring for %v\n", o.last)
	before, err := read(ctx, pid, metrics, source)
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, o.last); err != nil {
		return nil, err
	}
	after, err := read(ctx, pid, metrics, source)
	if err != nil {
		return nil, err
	}
	seconds := after.at.Sub(before.at).Seconds()
	evaluations := after.evaluations - before.evaluations
	return &Summary{
		Policies: o.policies, Pods: o.policies * podsOfEach, IntervalSeconds: o.interval.Seconds(), MeasuredSeconds: seconds,
		Cores: (after.cpu - before.cpu).Seconds() / seconds, PeakMemoryMiB: after.peakMiB,
		EvaluationsPerSecond: evaluations / seconds, QueriesPerSecond: float64(after.queries-before.queries) / seconds,
		ScalingsPerSecond: (after.scalings - before.scalings) / seconds, StatusWritesPerSecond: (after.writes - before.writes) / seconds,
		DecisionMicroseconds: 1e6 * (after.deciding - before.deciding) / evaluations, Missing: after.missing - before.missing,
	}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
