// Package schedulerperf measures Supercargo's scheduler against the stock one
// with Kubernetes' own scheduler_perf: a real API server and etcd, a real
// scheduler, nodes that nobody plays.
//
// `make bench-scheduler` runs it; an etcd binary must be on PATH. Beside
// scheduler_perf's data it writes summary.json with the figures side by side and
// their ratios, which are what holds on other machines.
package schedulerperf

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/plugins"
)

func TestMain(m *testing.M) {
	if err := benchmark.InitTests(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n", err)
		os.Exit(1)
	}
	m.Run()
}

// BenchmarkPerfScheduling runs all workloads and writes the summary.
func BenchmarkPerfScheduling(b *testing.B) {
	benchmark.RunBenchmarkPerfScheduling(b, filepath.Join("testdata", "workloads.yaml"), "supercargo", plugins.Registry(clock.RealClock{}))
	dir := flag.Lookup("data-items-dir").Value.String()
	if dir == "" {
		return
	}
	if err := summarise(dir); err != nil {
		b.Fatal(err)
	}
}

// Figures are the means over all rounds of one profile on one number of nodes.
type Figures struct {
	Profile             string  `json:"profile"`
	Nodes               string  `json:"nodes"`
	Rounds              int     `json:"rounds"`
	PodsPerSecond       float64 `json:"podsPerSecond"`
	AlgorithmMeanMicros float64 `json:"algorithmMeanMicros"`
	AttemptMeanMicros   float64 `json:"attemptMeanMicros"`
}

// Summary is the content of summary.json.
type Summary struct {
	Figures []Figures `json:"figures"`
	// ThroughputRatio is pods per second of Supercargo over default, by nodes.
	ThroughputRatio map[string]float64 `json:"throughputRatio"`
	// AlgorithmRatio is the mean algorithm time of Supercargo over default, by nodes.
	AlgorithmRatio map[string]float64 `json:"algorithmRatio"`
	// AlgorithmGrowth is the mean algorithm time on 5000 nodes over that on 500, by profile.
	AlgorithmGrowth map[string]float64 `json:"algorithmGrowth"`
}

// summarise reads the newest data file of scheduler_perf in dir and writes
// summary.json beside it.
func summarise(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "BenchmarkPerfScheduling_benchmark_supercargo_*.json"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("find scheduler_perf's data in %s: %d files, %w", dir, len(files), err)
	}
	text, err := os.ReadFile(slices.Max(files)) // the names end in the time
	if err != nil {
		return err
	}
	var data benchmark.DataItems
	if err := json.Unmarshal(text, &data); err != nil {
		return fmt.Errorf("read %s: %w", slices.Max(files), err)
	}
	out, err := json.MarshalIndent(summaryOf(figuresOf(data.DataItems)), "", "  ")
	if err != nil {
		return err
	}
	fmt.Println(string(out))
	return os.WriteFile(filepath.Join(dir, "summary.json"), append(out, '\n'), 0o644)
}

// figuresOf averages the rounds. Workloads are called PROFILE-NODES-ROUND.
func figuresOf(items []benchmark.DataItem) []Figures {
	sums := map[string]*Figures{}
	for _, item := range items {
		parts := strings.Split(item.Labels["Name"], "/")
		name := parts[1]
		cut := strings.LastIndex(name, "-")
		key := name[:cut]
		f := sums[key]
		if f == nil {
			nodes := strings.LastIndex(key, "-")
			f = &Figures{Profile: key[:nodes], Nodes: key[nodes+1:]}
			sums[key] = f
		}
		mean := item.Data["Average"]
		switch item.Labels["Metric"] {
		case "SchedulingThroughput":
			f.PodsPerSecond += mean
			f.Rounds++
		case "scheduler_scheduling_algorithm_duration_seconds":
			f.AlgorithmMeanMicros += micros(mean, item.Unit)
		case "scheduler_scheduling_attempt_duration_seconds":
			f.AttemptMeanMicros += micros(mean, item.Unit)
		}
	}
	figures := make([]Figures, 0, len(sums))
	for _, f := range sums {
		n := float64(f.Rounds)
		f.PodsPerSecond, f.AlgorithmMeanMicros, f.AttemptMeanMicros = f.PodsPerSecond/n, f.AlgorithmMeanMicros/n, f.AttemptMeanMicros/n
		figures = append(figures, *f)
	}
	slices.SortFunc(figures, func(a, b Figures) int {
		return cmp.Or(cmp.Compare(len(a.Nodes), len(b.Nodes)), cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Profile, b.Profile))
	})
	return figures
}

func micros(value float64, unit string) float64 {
	if unit == "ms" {
		return value * 1e3
	}
	return value * 1e6
}

func summaryOf(figures []Figures) Summary {
	s := Summary{Figures: figures, ThroughputRatio: map[string]float64{}, AlgorithmRatio: map[string]float64{}, AlgorithmGrowth: map[string]float64{}}
	at := map[[2]string]Figures{}
	for _, f := range figures {
		at[[2]string{f.Profile, f.Nodes}] = f
	}
	for _, f := range figures {
		if base, ok := at[[2]string{"default", f.Nodes}]; ok && f.Profile == "supercargo" {
			s.ThroughputRatio[f.Nodes] = f.PodsPerSecond / base.PodsPerSecond
			s.AlgorithmRatio[f.Nodes] = f.AlgorithmMeanMicros / base.AlgorithmMeanMicros
		}
		if small, ok := at[[2]string{f.Profile, "500"}]; ok && f.Nodes == "5000" {
			s.AlgorithmGrowth[f.Profile] = f.AlgorithmMeanMicros / small.AlgorithmMeanMicros
		}
	}
	return s
}
