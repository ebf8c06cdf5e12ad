// Package round measures one round of a NodeFleet on large clusters: the time, the memory and the requests of the
// shipped reconciler, with the provider for cluster-api. The API server is in memory: it answers at once, so that the
// time is that of the autoscaler alone.
package round

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// Figures contains the measurements of one round.
type Figures struct {
	Nodes   int    `json:"nodes"`
	Pods    int    `json:"pods"`
	Flavors int    `json:"flavors"`
	Case    string `json:"case"`
	// ObserveSeconds is the time of the round without the decision: to read and interpret the cluster, and to carry out
	// the decision on an API server that answers at once. DecideSeconds is the time of the decision, CPUSeconds the
	// processor time of both, with that of collecting garbage.
	ObserveSeconds float64 `json:"observeSeconds"`
	DecideSeconds  float64 `json:"decideSeconds"`
	CPUSeconds     float64 `json:"cpuSeconds"`
	// PeakBytes is the greatest memory of the process during the round, with the cached objects. GarbageBytes is what
	// the round has allocated in total.
	PeakBytes    uint64 `json:"peakBytes"`
	GarbageBytes uint64 `json:"garbageBytes"`
	// APIRequests are the requests to the API server: all writes, and the reads that do not come from the cache. Evictions
	// are those of them that evict a pod.
	APIRequests int `json:"apiRequests"`
	Evictions   int `json:"evictions"`
	// Decision is what the round decided.
	Decision string `json:"decision,omitempty"`
}

// options are the flags.
type options struct {
	nodes, flavors []int
	cases          []string
	rounds         int
	profile        string
	processor      bool
}

// Command returns the subcommand that measures rounds.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "round", Short: "Measure a round of a NodeFleet on large clusters", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.IntSliceVar(&o.nodes, "nodes", []int{1000, 5000}, "numbers of nodes, with 20 pods each")
	f.IntSliceVar(&o.flavors, "flavors", []int{200, 757}, "numbers of flavors, of those of AWS in us-east-1; at most 757")
	f.StringSliceVar(&o.cases, "cases", caseNames(), "what happens in the measured round")
	f.IntVar(&o.rounds, "rounds", 1, "how often to measure each; the fastest counts")
	f.BoolVar(&o.processor, "processor-time", false, "measure the processor time of the process in place of the time by the clock, where other processes compute too")
	f.StringVar(&o.profile, "profile", "", "file for the CPU profile of the measured rounds")
	return cmd
}

func run(ctx context.Context, o options) error {
	for _, name := range o.cases {
		if !slices.Contains(caseNames(), name) {
			return fmt.Errorf("--cases: %q: must be one of %v", name, caseNames())
		}
	}
	all := []*Figures{}
	for _, nodes := range o.nodes {
		for _, flavors := range o.flavors {
			for _, name := range o.cases {
				best, err := fastest(ctx, o, nodes, flavors, name)
				if err != nil {
					return fmt.Errorf("measure %s with %d nodes and %d flavors: %w", name, nodes, flavors, err)
				}
				fmt.Fprintf(os.Stderr, "%d nodes, %d flavors, %s: observed in %.2f s, decided in %.2f s, %.2f s of CPU, %d MiB, %d requests: %s\n",
					nodes, flavors, name, best.ObserveSeconds, best.DecideSeconds, best.CPUSeconds, best.PeakBytes>>20, best.APIRequests, best.Decision)
				all = append(all, best)
			}
		}
	}
	return jsondoc.Write(os.Stdout, all)
}

// fastest measures a case several times, each with a cluster of its own.
func fastest(ctx context.Context, o options, nodes, flavors int, name string) (best *Figures, err error) {
	for range o.rounds {
		f, err := once(ctx, o, nodes, flavors, name)
		if err != nil {
			return nil, err
		}
		if best == nil || f.ObserveSeconds+f.DecideSeconds < best.ObserveSeconds+best.DecideSeconds {
			best = f
		}
	}
	return best, nil
}

// once measures a round after another one, which has filled the caches of the autoscaler, and in which it was paused, so
// that nothing is under way.
func once(ctx context.Context, o options, nodes, flavors int, name string) (*Figures, error) {
	s, err := newSite(nodes, flavors, cases[name], o.processor)
	if err != nil {
		return nil, err
	}
	if err := s.pause(true); err != nil {
		return nil, err
	}
	if _, err := s.round(ctx); err != nil {
		return nil, err
	}
	if err := s.pause(false); err != nil {
		return nil, err
	}
	s.change(cases[name])
	f := &Figures{Nodes: nodes, Pods: s.pods(), Flavors: flavors, Case: name}
	debug.FreeOSMemory() // what was made to build the cluster is no memory of the autoscaler
	peak := watchMemory()
	stop, err := startProfile(o.profile)
	if err != nil {
		return nil, err
	}
	decided, sent, cpu, allocated := s.deciding(), s.api.Sent(), cpuTime(), allocations()
	took, err := s.round(ctx)
	f.CPUSeconds, f.GarbageBytes = (cpuTime() - cpu).Seconds(), allocations()-allocated
	stop()
	f.PeakBytes = peak()
	if err != nil {
		return nil, err
	}
	f.DecideSeconds = s.deciding() - decided
	f.ObserveSeconds = took.Seconds() - f.DecideSeconds
	f.APIRequests, f.Evictions = s.api.Sent()-sent, int(s.api.Evictions.Load())
	f.Decision, err = s.decision()
	return f, err
}

// watchMemory samples the memory of the process until the returned function is called, which returns the maximum.
func watchMemory() (peak func() uint64) {
	var most uint64
	done, ended := make(chan struct{}), sync.WaitGroup{}
	ended.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, memory())
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() uint64 {
		close(done)
		ended.Wait()
		return most
	}
}

// memory returns what the process has from the operating system.
func memory() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

// allocations returns what the process has allocated since its start.
func allocations() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// cpuTime returns the processor time of the process.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0 // not possible for the own process
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// startProfile writes a profile of the CPU to a file, if there is one, until the returned function is called.
func startProfile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	to, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("create the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(to); err != nil {
		return nil, fmt.Errorf("start the profile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		_ = to.Close() // a profile that is cut short does not open
	}, nil
}
