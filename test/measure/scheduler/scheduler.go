// Package scheduler measures every workload of test/schedulerperf several times, each time in its own process and
// with the profiles in turn, and writes summary.json: the means side by side and their ratios, which apply to
// other machines, too.
package scheduler

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// Command returns the subcommand that measures the scheduler.
func Command() *cobra.Command {
	var binary, dir, out, only string
	var rounds int
	cmd := &cobra.Command{
		Use: "scheduler", Short: "Measure the whole scheduler with Kubernetes' scheduler_perf", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), binary, dir, out, rounds, only) },
	}
	f := cmd.Flags()
	f.StringVar(&binary, "binary", "bin/schedulerperf.test", "test binary of test/schedulerperf")
	f.StringVar(&dir, "package", "test/schedulerperf", "folder of the package, in which the binary is run")
	f.StringVar(&out, "out", "dist/schedulerperf", "folder for the data")
	f.IntVar(&rounds, "rounds", 3, "how often to run every workload")
	f.StringVar(&only, "only", ".", "regular expression of the workloads to run")
	return cmd
}

func run(ctx context.Context, binary, dir, out string, rounds int, only string) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("read --only: %w", err)
	}
	names, err := workloads(filepath.Join(dir, "testdata", "workloads.yaml"))
	if err != nil {
		return err
	}
	all := len(names)
	names = slices.DeleteFunc(names, func(name string) bool { return !wanted.MatchString(name) })
	if len(names) == 0 {
		return fmt.Errorf("--only %q matches none of the %d workloads", only, all)
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	sums := map[string]*Figures{}
	for round := range rounds {
		for i, name := range names {
			fmt.Fprintf(os.Stderr, "round %d of %d, workload %d of %d: %s\n", round+1, rounds, i+1, len(names), name)
			data := filepath.Join(out, fmt.Sprintf("%s-%d", name, round+1))
			if err := measure(ctx, binary, dir, name, data); err != nil {
				return fmt.Errorf("measure %s: %w", name, err)
			}
			if sums[name] == nil {
				sums[name] = newFigures(name)
			}
			if err := sums[name].add(data); err != nil {
				return fmt.Errorf("read the figures of %s: %w", name, err)
			}
		}
	}
	file, err := os.Create(filepath.Join(out, "summary.json"))
	if err != nil {
		return err
	}
	err = jsondoc.Write(io.MultiWriter(os.Stdout, file), summarise(sums, time.Now()))
	return errors.Join(err, file.Close())
}

// workloads returns the names of the test cases in a scheduler_perf file.
func workloads(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var cases []struct {
		Name string `json:"name"`
	}
	if err := yaml.Unmarshal(text, &cases); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	names := make([]string, len(cases))
	for i, c := range cases {
		names[i] = c.Name
	}
	return names, nil
}

// measure runs one workload once and leaves only its data in data.
func measure(ctx context.Context, binary, dir, name, data string) error {
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^$", "-test.bench", "/^"+name+"$", "-test.benchtime", "1ns",
		"-test.timeout", "30m", "-data-items-dir", data)
	cmd.Dir = dir
	output := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w:\n%s", err, output.Bytes()[max(0, output.Len()-4000):])
	}
	return nil
}

// Figures contains the means over all rounds of one workload.
type Figures struct {
	Profile             string  `json:"profile"`
	Nodes               string  `json:"nodes"`
	Rounds              int     `json:"rounds"`
	PodsPerSecond       float64 `json:"podsPerSecond"`
	AlgorithmMeanMicros float64 `json:"algorithmMeanMicros"`
	AttemptMeanMicros   float64 `json:"attemptMeanMicros"`
}

func newFigures(name string) *Figures {
	cut := strings.LastIndex(name, "-")
	return &Figures{Profile: name[:cut], Nodes: name[cut+1:]}
}

// add adds the results of one more round to the means.
func (f *Figures) add(data string) error {
	files, err := filepath.Glob(filepath.Join(data, "*.json"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("%s holds %d data files, want 1", data, len(files))
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	var content struct {
		DataItems []struct {
			Data   map[string]float64 `json:"data"`
			Unit   string             `json:"unit"`
			Labels map[string]string  `json:"labels"`
		} `json:"dataItems"`
	}
	if err := json.Unmarshal(text, &content); err != nil {
		return fmt.Errorf("read %s: %w", files[0], err)
	}
	f.Rounds++
	for _, item := range content.DataItems {
		mean := item.Data["Average"]
		switch item.Labels["Metric"] {
		case "SchedulingThroughput":
			f.PodsPerSecond += (mean - f.PodsPerSecond) / float64(f.Rounds)
		case "scheduler_scheduling_algorithm_duration_seconds":
			f.AlgorithmMeanMicros += (1000*mean - f.AlgorithmMeanMicros) / float64(f.Rounds) // reported in ms
		case "scheduler_scheduling_attempt_duration_seconds":
			f.AttemptMeanMicros += (1000*mean - f.AttemptMeanMicros) / float64(f.Rounds)
		}
	}
	return nil
}

// Summary is the content of summary.json.
type Summary struct {
	Time    time.Time `json:"time"`
	Figures []Figures `json:"figures"`
	// ThroughputRatio is pods per second of Supercargo over default, by nodes.
	ThroughputRatio map[string]float64 `json:"throughputRatio"`
	// AlgorithmRatio is the mean algorithm time of Supercargo over default, by nodes.
	AlgorithmRatio map[string]float64 `json:"algorithmRatio"`
	// AlgorithmGrowth is the mean algorithm time on 5000 nodes over that on 500, by profile.
	AlgorithmGrowth map[string]float64 `json:"algorithmGrowth"`
}

func summarise(sums map[string]*Figures, now time.Time) Summary {
	s := Summary{Time: now.UTC().Truncate(time.Second), ThroughputRatio: map[string]float64{}, AlgorithmRatio: map[string]float64{}, AlgorithmGrowth: map[string]float64{}}
	for _, f := range sums {
		s.Figures = append(s.Figures, *f)
		if base, ok := sums["default-"+f.Nodes]; ok && f.Profile == "supercargo" {
			s.ThroughputRatio[f.Nodes] = f.PodsPerSecond / base.PodsPerSecond
			s.AlgorithmRatio[f.Nodes] = f.AlgorithmMeanMicros / base.AlgorithmMeanMicros
		}
		if small, ok := sums[f.Profile+"-500"]; ok && f.Nodes == "5000" {
			s.AlgorithmGrowth[f.Profile] = f.AlgorithmMeanMicros / small.AlgorithmMeanMicros
		}
	}
	slices.SortFunc(s.Figures, func(a, b Figures) int {
		return cmp.Or(cmp.Compare(len(a.Nodes), len(b.Nodes)), cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Profile, b.Profile))
	})
	return s
}
