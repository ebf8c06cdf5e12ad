package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/probe"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/regress"
	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// probeCommand measures the prediction error of a profile that is learned from probes. It runs
// node-agent's probe on this machine in cgroups with a CPU limit, as containers have, and with several
// amounts of memory. For each size, it learns from all other sizes and predicts this one. It runs several
// rounds, in which the limits alternate. It prints JSON: for the median of each size, and for the minimum,
// which is the time of a machine that runs nothing else, like a node that is probed.
//
// If the machine has no meter, energy is modelled: CPU time times the power of a CPU above idle from the
// table. The command needs root, to make cgroups (v1 or v2).
func probeCommand() *cobra.Command {
	var o probes
	cmd := &cobra.Command{
		Use: "probe", Short: "Measure how well profiles learned from probes predict other sizes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.measure(cmd.Context()) },
	}
	cmd.Flags().StringVar(&o.binary, "node-agent", "bin/node-agent", "program that has the probe")
	cmd.Flags().StringVar(&o.cpu, "cpu", "250m,500m", "limits on CPU time")
	cmd.Flags().StringVar(&o.memory, "memory", "16Mi,32Mi,64Mi,128Mi,256Mi", "amounts of memory")
	cmd.Flags().IntVar(&o.amount, "amount", 100, "percent of the standard piece of work")
	cmd.Flags().IntVar(&o.rounds, "rounds", 5, "how often each size is run")
	cmd.Flags().Float64Var(&o.quiet, "quiet", 0, "begin a round only when so many programs want to run, or fewer, on the last minute's average (0: whenever)")
	return cmd
}

type probes struct {
	binary, cpu, memory string
	amount, rounds      int
	quiet               float64
}

// Result is the output.
type Result struct {
	Date    time.Time `json:"date"`
	Threads int       `json:"threads"`
	Rounds  int       `json:"rounds"`
	// Load is the load average at the beginning of each round.
	Load []float64 `json:"load"`
	// Modelled is the number of runs in which energy was not measured.
	Modelled int     `json:"modelled"`
	Median   Verdict `json:"median"`
	Least    Verdict `json:"least"`
}

// Verdict contains the errors of predicting sizes from the others.
type Verdict struct {
	Sizes   []Size     `json:"sizes"`
	Runtime Errors     `json:"runtime"`
	Energy  Errors     `json:"energy"`
	Learned [2]Learned `json:"learned"`
}

// Size contains the measurements of one size, and its prediction from the others.
type Size struct {
	MilliCPU  int64      `json:"milliCPU"`
	MiB       int64      `json:"MiB"`
	Seconds   float64    `json:"seconds"`
	Range     [2]float64 `json:"secondsFromTo"`
	Joules    float64    `json:"joules"`
	Predicted Predicted  `json:"predicted"`
}

// Predicted is the prediction of a profile that was learned without the size.
type Predicted struct {
	Seconds float64 `json:"seconds"`
	Joules  float64 `json:"joules"`
}

// Errors contains relative errors.
type Errors struct {
	Mean float64 `json:"mean"`
	Most float64 `json:"most"`
}

// Learned contains the model learned from all sizes.
type Learned struct {
	Of       string         `json:"of"`
	Terms    []profile.Term `json:"terms"`
	RSquared float64        `json:"rSquared"`
	Spread   float64        `json:"spread"`
}

func (o *probes) measure(ctx context.Context) error {
	sizes, err := probe.ParseSizes(o.cpu, o.memory)
	if err != nil {
		return err
	}
	result := Result{Date: time.Now().UTC().Truncate(time.Second), Threads: runtime.NumCPU(), Rounds: o.rounds}
	power := probe.Power{Threads: result.Threads}
	power.Model, _ = energy.BuiltIn().CPUs("", "", float64(result.Threads))
	took := map[profile.Size][]profile.Sample{}
	for round := range o.rounds {
		load, err := o.waitForQuiet(ctx)
		if err != nil {
			return err
		}
		result.Load = append(result.Load, load)
		for _, milliCPU := range sizes.MilliCPU {
			report, err := o.run(ctx, milliCPU)
			if err != nil {
				return fmt.Errorf("round %d with %d m: %w", round+1, milliCPU, err)
			}
			samples, modelled := report.Samples(power)
			result.Modelled += modelled
			for _, s := range samples {
				took[s.Size] = append(took[s.Size], s)
			}
		}
	}
	if result.Median, err = judge(typical(sizes, took, regress.Median), took); err != nil {
		return err
	}
	if result.Least, err = judge(typical(sizes, took, slices.Min[[]float64]), took); err != nil {
		return err
	}
	return jsondoc.Write(os.Stdout, result)
}

// waitForQuiet returns the load average once it is low enough, or after ten minutes.
func (o *probes) waitForQuiet(ctx context.Context) (float64, error) {
	const patience = 10 * time.Minute
	for begin := time.Now(); ; {
		text, err := os.ReadFile("/proc/loadavg")
		if err != nil {
			return 0, err
		}
		load, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
		if err != nil || o.quiet <= 0 || load <= o.quiet || time.Since(begin) > patience {
			return load, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(5 * time.Second):
		}
	}
}

// run runs the probe in a cgroup with a CPU limit.
func (o *probes) run(ctx context.Context, milliCPU int64) (report probe.Report, err error) {
	group, remove, err := limit(milliCPU)
	if err != nil {
		return report, err
	}
	state, err := os.MkdirTemp("", "probeperf")
	if err != nil {
		return report, errors.Join(err, remove())
	}
	defer func() { err = errors.Join(err, os.RemoveAll(state), remove()) }()
	// The shell enters the group before it becomes the probe.
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(group, "cgroup.procs"), o.binary, "probe", "--unlimited", "--sysfs=",
		"--report=-", "--state-dir="+state, "--cpu="+strconv.FormatInt(milliCPU, 10)+"m", "--memory="+o.memory, "--amount="+strconv.Itoa(o.amount))
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		return report, fmt.Errorf("%s probe: %w: %s", o.binary, err, log.String())
	}
	return report, json.Unmarshal(out.Bytes(), &report)
}

// limit makes a cgroup with a CPU limit and the greatest weight, so that it gets this CPU time even if other
// processes run. It also returns a function that removes it.
func limit(milliCPU int64) (group string, remove func() error, err error) {
	const period = 100_000 // µs, the default of Kubernetes
	quota := strconv.FormatInt(milliCPU*period/1000, 10)
	group = filepath.Join("/sys/fs/cgroup/cpu", "probeperf-"+strconv.Itoa(os.Getpid()))
	set := map[string]string{"cpu.cfs_quota_us": quota, "cpu.shares": "262144"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil { // version 2
		group = filepath.Join("/sys/fs/cgroup", filepath.Base(group))
		set = map[string]string{"cpu.max": quota + " " + strconv.Itoa(period), "cpu.weight": "10000"}
	}
	if err := os.Mkdir(group, 0o755); err != nil {
		return "", nil, fmt.Errorf("make a cgroup: %w: run as root, where cgroups can be made", err)
	}
	remove = func() error { return os.Remove(group) }
	for name, value := range set {
		if err := os.WriteFile(filepath.Join(group, name), []byte(value), 0o600); err != nil {
			return "", nil, errors.Join(fmt.Errorf("limit CPU time: %w", err), remove())
		}
	}
	return group, remove, nil
}

// typical returns one sample for each size, computed by the function of from all rounds.
func typical(sizes probe.Sizes, took map[profile.Size][]profile.Sample, of func([]float64) float64) []profile.Sample {
	var all []profile.Sample
	for _, size := range sizes.Points() {
		var seconds, joules []float64
		for _, s := range took[size] {
			seconds, joules = append(seconds, s.Runtime.Seconds()), append(joules, float64(s.Energy))
		}
		all = append(all, profile.Sample{
			Size: size, Runtime: time.Duration(of(seconds) * float64(time.Second)), Energy: energy.Joules(of(joules)),
		})
	}
	return all
}

// judge predicts each size from the others.
func judge(samples []profile.Sample, took map[profile.Size][]profile.Sample) (v Verdict, err error) {
	var offRuntime, offEnergy []float64
	for i, s := range samples {
		p, _, err := profile.Learn(slices.Delete(slices.Clone(samples), i, i+1))
		if err != nil {
			return v, err
		}
		seconds, joules := p.Runtime.Predict(s.Size, 0).Value, p.Energy.Predict(s.Size, 0).Value
		offRuntime = append(offRuntime, math.Abs(seconds/s.Runtime.Seconds()-1))
		offEnergy = append(offEnergy, math.Abs(joules/float64(s.Energy)-1))
		size := Size{
			MilliCPU: s.Size.MilliCPU, MiB: s.Size.MemoryBytes >> 20, Seconds: s.Runtime.Seconds(), Joules: float64(s.Energy),
			Range: [2]float64{math.Inf(1), 0}, Predicted: Predicted{seconds, joules},
		}
		for _, t := range took[s.Size] {
			size.Range = [2]float64{min(size.Range[0], t.Runtime.Seconds()), max(size.Range[1], t.Runtime.Seconds())}
		}
		v.Sizes = append(v.Sizes, size)
	}
	v.Runtime, v.Energy = errorsOf(offRuntime), errorsOf(offEnergy)
	p, _, err := profile.Learn(samples)
	if err != nil {
		return v, err
	}
	v.Learned = [2]Learned{
		{"runtime", p.Runtime.Terms, p.Runtime.Quality.RSquared, p.Runtime.Quality.Spread},
		{"energy", p.Energy.Terms, p.Energy.Quality.RSquared, p.Energy.Quality.Spread},
	}
	return v, nil
}

func errorsOf(off []float64) (e Errors) {
	for _, o := range off {
		e.Mean += o / float64(len(off))
		e.Most = max(e.Most, o)
	}
	return e
}
