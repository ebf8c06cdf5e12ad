// Package schedulerperf measures Supercargo's scheduler against the stock one with Kubernetes' own
// scheduler_perf: a real API server and etcd, a real scheduler, and nodes that are only objects.
//
// `make bench-scheduler` runs it with test/measure/scheduler, which starts each workload in its own process:
// scheduler_perf does not reset the histogram of the algorithm's duration, so a second workload in one
// process would report the mean of both. An etcd binary must be on PATH.
package schedulerperf

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	_ "k8s.io/component-base/logs/json/register" // scheduler_perf logs in JSON on request
	benchmark "k8s.io/kubernetes/test/integration/scheduler_perf"
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

func BenchmarkPerfScheduling(b *testing.B) {
	benchmark.RunBenchmarkPerfScheduling(b, filepath.Join("testdata", "workloads.yaml"), "supercargo", plugins.Registry(clock.RealClock{}))
}
