//go:build chaos

package chaos

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/chaos/trend"
)

// measure is a sampled quantity. Over the second half of a soak it may grow by a share of its mean or
// by few, whichever is more.
type measure struct {
	name  string
	share float64
	few   float64
}

var measures = []measure{
	{residentBytes, 0.2, 8 << 20},
	{goroutines, 0.15, 10},
	{openWatches, 0.1, 2},
}

const (
	// residentBytes is the resident memory of the process, read from /proc.
	residentBytes = "resident_bytes"
	// goroutines is read from /metrics. The node agent does not serve it.
	goroutines = "go_goroutines"
	// openWatches is the number of watches at the API server, counted by the proxy.
	openWatches = "open_watches"
)

// fewestSamples is the number of samples that a judgement needs.
const fewestSamples = 4

// soakReport is the result of a soak.
type soakReport struct {
	Seed     uint64         `json:"seed"`
	Seconds  float64        `json:"seconds"`
	Jobs     int            `json:"jobs"`
	Services int            `json:"services"`
	Moves    int            `json:"migrations"`
	Restarts map[string]int `json:"restarts"`
	Series   []*series      `json:"series"`
	Broken   []string       `json:"broken"`
}

// series is one measure of one replica.
type series struct {
	Replica string `json:"replica"`
	Measure string `json:"measure"`
	// Growth is the growth over the second half, as a share of its mean. It is judged if there are
	// enough samples since the last start of the replica.
	Growth  float64   `json:"growth"`
	Judged  bool      `json:"judged"`
	Seconds []float64 `json:"seconds"`
	Values  []float64 `json:"values"`
	// run is the run of the replica that the samples belong to.
	run int
}

// TestMemoryGoroutinesAndWatchesStayFlat creates and deletes work for the duration of the flag,
// without faults.
func TestMemoryGoroutinesAndWatchesStayFlat(t *testing.T) {
	w := start(t)
	t.Logf("seed %d; events and logs in %s", *seedFlag, w.out)
	if wrong := w.settled(time.Now()); wrong != "" {
		t.Fatalf("the cluster does not work: %s", wrong)
	}
	r := &soakReport{Seed: *seedFlag, Restarts: map[string]int{}}
	k := w.begin(new(int32(120))) // accumulating objects would fill caches
	all := w.sample(t.Context())
	k.end()
	r.Jobs, r.Services, r.Moves = k.sums.Jobs, k.sums.Services, k.sums.Migrations
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		s.judge(r)
		r.Series = append(r.Series, s)
	}
	for _, one := range w.replicas() {
		if one.runs > 1 {
			r.Restarts[one.name] = one.runs - 1
		}
	}
	if wrong := w.rest(); wrong != "" {
		r.Broken = append(r.Broken, fmt.Sprintf("no rest within %v: %s", restPatience, wrong))
	}
	r.Broken = append(r.Broken, w.crashes()...)
	r.Seconds = lastsFlag.Seconds()
	for _, line := range r.Broken {
		t.Errorf("%s (repeat with CHAOS_SEED=%d)", line, *seedFlag)
	}
	w.log(r)
}

// sample periodically reads all measures of all replicas until the soak ends.
func (w *world) sample(ctx context.Context) map[string]*series {
	all := map[string]*series{}
	began := time.Now()
	tick := time.NewTicker(*everyFlag)
	defer tick.Stop()
	over := time.After(*lastsFlag)
	for {
		for _, r := range w.replicas() {
			values, err := r.read(ctx)
			if err != nil {
				w.events.note("not sampled", map[string]any{"replica": r.name, "why": err.Error()})
				continue
			}
			r.mu.Lock()
			run := r.runs
			r.mu.Unlock()
			for _, m := range measures {
				key := r.name + " " + m.name
				value, measured := values[m.name]
				if !measured {
					continue
				}
				if all[key] == nil {
					all[key] = &series{Replica: r.name, Measure: m.name}
				}
				all[key].add(run, time.Since(began).Seconds(), value)
			}
		}
		select {
		case <-ctx.Done():
			return all
		case <-over:
			return all
		case <-tick.C:
		}
	}
}

// add adds a sample. A new run discards the samples of the previous one.
func (s *series) add(run int, seconds, value float64) {
	if run != s.run {
		s.run, s.Seconds, s.Values = run, nil, nil
	}
	s.Seconds, s.Values = append(s.Seconds, seconds), append(s.Values, value)
}

// judge computes the growth of a series, and reports it as broken if it is too much.
func (s *series) judge(r *soakReport) {
	var samples []trend.Sample
	for i := range s.Seconds {
		samples = append(samples, trend.Sample{Seconds: s.Seconds[i], Value: s.Values[i]})
	}
	half := trend.SecondHalf(samples)
	s.Growth, s.Judged = trend.Growth(half), len(half) >= fewestSamples
	mean := 0.0
	for _, one := range half {
		mean += one.Value / float64(len(half))
	}
	m := measures[slices.IndexFunc(measures, func(m measure) bool { return m.name == s.Measure })]
	if s.Judged && s.Growth > m.share && s.Growth*mean > m.few {
		r.Broken = append(r.Broken, fmt.Sprintf("%s of %s grew by %.0f %% of its mean of %.0f over the second half", s.Measure, s.Replica, 100*s.Growth, mean))
	}
}

// read reads the measures of a replica.
func (r *replica) read(ctx context.Context) (map[string]float64, error) {
	resident, err := r.resident()
	if err != nil {
		return nil, err
	}
	values := map[string]float64{openWatches: float64(r.proxy.Watches()), residentBytes: resident}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.metrics, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := unlimited.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", r.metrics, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text, is := strings.CutPrefix(lines.Text(), goroutines+" "); is {
			if values[goroutines], err = strconv.ParseFloat(text, 64); err != nil {
				return nil, err
			}
		}
	}
	return values, lines.Err()
}

// resident returns the resident memory of the process in bytes.
func (r *replica) resident() (float64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return 0, fmt.Errorf("%s does not run", r.name)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", r.process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("%s: %q is not what the kernel says of memory", r.name, text)
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()), err
}
