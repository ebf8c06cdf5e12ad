package replicas

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// reading contains the counters of the autoscaler at one time.
type reading struct {
	at          time.Time
	cpu         time.Duration
	peakMiB     float64
	evaluations float64
	missing     float64
	writes      float64
	// scalings is the number of changes of a scale.
	scalings float64
	// deciding is the total time of decisions in seconds.
	deciding float64
	queries  int64
}

// read reads the counters of the process, its metrics, and those of the source.
func read(ctx context.Context, pid int, metrics string, source *source) (r reading, err error) {
	r.at, r.queries = time.Now(), source.asked.Load()
	if r.cpu, err = cpuTime(pid); err != nil {
		return r, err
	}
	if r.peakMiB, err = peakMemory(pid); err != nil {
		return r, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metrics+"/metrics", http.NoBody)
	if err != nil {
		return r, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return r, err
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return r, fmt.Errorf("read the metrics of the autoscaler: %w", err)
	}
	const prefix = "supercargo_replicapolicy_"
	for _, m := range families[prefix+"evaluations_total"].GetMetric() {
		r.evaluations += m.GetCounter().GetValue()
		if label(m, "result") == "missing" {
			r.missing += m.GetCounter().GetValue()
		}
	}
	for _, m := range families[prefix+"scalings_total"].GetMetric() {
		r.scalings += m.GetCounter().GetValue()
	}
	for _, m := range families[prefix+"status_writes_total"].GetMetric() {
		r.writes += m.GetCounter().GetValue()
	}
	for _, m := range families[prefix+"decision_seconds"].GetMetric() {
		r.deciding += m.GetHistogram().GetSampleSum()
	}
	return r, nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// ticksPerSecond is the unit of CPU time in /proc, on every Linux that Go runs on.
const ticksPerSecond = 100

// cpuTime returns the user and system time of a process.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may contain spaces; utime and stime are the 12th and 13th fields after it.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// peakMemory returns the peak resident memory of a process, in MiB.
func peakMemory(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if kib, found := strings.CutPrefix(line, "VmHWM:"); found {
			n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(kib), " kB"), 64)
			return n / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
}
