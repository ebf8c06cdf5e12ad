package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/manifests"
)

const gi = int64(1) << 30

var (
	medium = Flavor{Name: "m1.medium", Size: packing.Size{MemoryBytes: 8 * gi, MilliCPU: 2000}, MaxPods: 110, MicroDollarsPerHour: 137_100}
	xlarge = Flavor{Name: "m1.xlarge", Size: packing.Size{MemoryBytes: 32 * gi, MilliCPU: 8000}, MaxPods: 110, MicroDollarsPerHour: 547_900}
	stock  = []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
)

func job(name string, memory int64, arrival, runtime time.Duration) Pod {
	return Pod{Name: name, Class: class.Batch, Size: packing.Size{MemoryBytes: memory, MilliCPU: 100}, Arrival: arrival, Runtime: runtime}
}

func machines(flavor Flavor, n int) []Machine {
	all := make([]Machine, n)
	for i := range all {
		all[i] = Machine{Name: fmt.Sprintf("%s-%d", flavor.Name, i), Flavor: flavor, Class: class.Any}
	}
	return all
}

func run(t testing.TB, input Input) *Result {
	t.Helper()
	if input.SchedulingInterval == 0 {
		input.SchedulingInterval = 20 * time.Second
	}
	if input.BillingPeriod == 0 {
		input.BillingPeriod = time.Minute
	}
	r, err := Run(t.Context(), input)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPodsThatFindNoRoomAreTriedAgainWhenSomeComesFree(t *testing.T) {
	for name, configuration := range map[string][]byte{"stock": stock, "supercargo": manifests.SchedulerConfig} {
		t.Run(name, func(t *testing.T) {
			r := run(t, Input{Configuration: configuration, Machines: machines(medium, 1), Pods: []Pod{
				job("first", 6*gi, 0, 65*time.Second),
				job("second", 6*gi, time.Second, time.Minute),
				job("never", 9*gi, 2*time.Second, time.Minute),
				job("small", 2*gi, 3*time.Second, time.Minute),
			}})
			want := []Placement{{0, "first", "m1.medium-0"}, {3 * time.Second, "small", "m1.medium-0"}, {80 * time.Second, "second", "m1.medium-0"}}
			if diff := cmp.Diff(want, r.Placements); diff != "" {
				t.Errorf("placements (-want +got):\n%s", diff)
			}
			if r.Submitted != 4 || r.Scheduled != 3 || r.Completed != 3 || r.Pending != 1 {
				t.Errorf("counts %+v", r)
			}
			if r.Makespan != 140*time.Second || r.Over != r.Makespan {
				t.Errorf("makespan %v, over %v, want 2m20s", r.Makespan, r.Over)
			}
			if want := int64(3 * 137_100 / 60); r.CostMicroDollars != want {
				t.Errorf("three started minutes cost %d, want %d", r.CostMicroDollars, want)
			}
		})
	}
}

func TestServicesRunToTheEnd(t *testing.T) {
	service := Pod{Name: "web", Class: class.Service, Size: packing.Size{MemoryBytes: gi, MilliCPU: 1000}}
	leaves := service
	leaves.Name, leaves.Runtime = "short", 10*time.Minute
	r := run(t, Input{Configuration: stock, Machines: machines(medium, 1), Pods: []Pod{service, leaves}, Horizon: time.Hour})
	if r.Over != time.Hour || r.Completed != 1 || r.Scheduled != 2 {
		t.Errorf("over %v, completed %d, scheduled %d", r.Over, r.Completed, r.Scheduled)
	}
	if want := 1000.0 * 4200; r.UsedMilliCPUSeconds != want {
		t.Errorf("%v milli-CPU seconds were used, want %v", r.UsedMilliCPUSeconds, want)
	}
}

func TestSupercargoPutsJobsThatEndTogetherOnOneMachine(t *testing.T) {
	r := run(t, Input{Configuration: manifests.SchedulerConfig, Machines: machines(medium, 2), Pods: []Pod{
		job("long-0", 5*gi, 0, time.Hour), job("short-0", 4*gi, 0, 2*time.Minute),
		job("long-1", gi, time.Second, time.Hour), job("short-1", gi, time.Second, 2*time.Minute),
	}})
	at := map[string]string{}
	for _, p := range r.Placements {
		at[p.Pod] = p.Node
	}
	if at["long-0"] != at["long-1"] || at["short-0"] != at["short-1"] || at["long-0"] == at["short-0"] {
		t.Errorf("placements %v", at)
	}
}

// workload is random, with many ties between the nodes of the stock profile.
func workload(n int, seed uint64) []Pod {
	r := rand.New(rand.NewPCG(seed, 0))
	pods := make([]Pod, n)
	for i := range pods {
		pods[i] = job(fmt.Sprintf("pod-%d", i), (1+r.Int64N(4))*gi/2, time.Duration(r.Int64N(int64(time.Hour))), time.Duration(1+r.Int64N(int64(20*time.Minute))))
		if i%4 == 0 {
			pods[i].Class = class.Service
		}
		if i%3 == 0 {
			pods[i].Category = fmt.Sprint(i % 5)
		}
	}
	return pods
}

func TestTheSameInputGivesTheSameResult(t *testing.T) {
	for name, configuration := range map[string][]byte{"stock": stock, "supercargo": manifests.SchedulerConfig} {
		t.Run(name, func(t *testing.T) {
			input := Input{Configuration: configuration, Machines: append(machines(medium, 10), machines(xlarge, 3)...), Pods: workload(400, 1), Seed: 7}
			first := run(t, input)
			before := runtime.GOMAXPROCS(1)
			second := run(t, input)
			runtime.GOMAXPROCS(before)
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("a second run differs (-first +second):\n%s", diff)
			}
		})
	}
}

func TestAnotherSeedBreaksTiesOtherwise(t *testing.T) {
	input := Input{Configuration: stock, Machines: machines(medium, 10), Pods: workload(20, 1)}
	first := run(t, input)
	input.Seed++
	if cmp.Equal(first.Placements, run(t, input).Placements) {
		t.Error("twenty pods went to the same of ten equal nodes with another seed")
	}
}

// TestRunKeepsItsBooks replays the placements against the machines.
func TestRunKeepsItsBooks(t *testing.T) {
	for seed := range uint64(6) {
		configuration := [][]byte{stock, manifests.SchedulerConfig}[seed%2]
		pods := workload(300, seed)
		byName := map[string]Pod{}
		for _, p := range pods {
			byName[p.Name] = p
		}
		fleet := append(machines(medium, 6), machines(xlarge, 2)...)
		r := run(t, Input{Configuration: configuration, Machines: fleet, Pods: pods, Seed: seed})
		if r.Submitted != len(pods) || r.Scheduled+r.Pending != len(pods) || r.Completed != r.Scheduled || len(r.Placements) != r.Scheduled {
			t.Errorf("seed %d: counts do not add up: %+v", seed, r)
		}
		for _, m := range fleet {
			for _, p := range r.Placements { // the load only grows at placements
				var memory, count int64
				for _, q := range r.Placements {
					if q.Node == m.Name && q.At <= p.At && p.At < q.At+byName[q.Pod].Runtime {
						memory, count = memory+byName[q.Pod].Size.MemoryBytes, count+1
					}
				}
				if memory > m.Flavor.Size.MemoryBytes || count > m.Flavor.MaxPods {
					t.Fatalf("seed %d: %s holds %d pods with %d bytes at %v", seed, m.Name, count, memory, p.At)
				}
			}
		}
		for _, p := range r.Placements {
			if p.At < byName[p.Pod].Arrival {
				t.Errorf("seed %d: pod %s is placed before it comes", seed, p.Pod)
			}
		}
	}
}

func TestBill(t *testing.T) {
	tests := []struct {
		name   string
		price  int64
		held   time.Duration
		period time.Duration
		want   int64
	}{
		{"a started period is paid in full", 60_000_000, time.Second, time.Minute, 1_000_000},
		{"an exact period once", 60_000_000, time.Minute, time.Minute, 1_000_000},
		{"one nanosecond more is the next", 60_000_000, time.Minute + 1, time.Minute, 2_000_000},
		{"nothing held is one period", 60_000_000, 0, time.Minute, 1_000_000},
		{"without a period to the moment", 3_600_000_000, 90 * time.Second, 0, 90_000_000},
		{"fractions are rounded up on the whole", 137_100, 7 * time.Minute, time.Minute, 15_995},
		{"a year of the dearest machine", 1_000_000_000_000, 8760 * time.Hour, time.Hour, 8_760_000_000_000_000},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := Bill(tc.price, tc.held, tc.period); got != tc.want {
				t.Errorf("Bill(%d, %v, %v) = %d, want %d", tc.price, tc.held, tc.period, got, tc.want)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, Input{Configuration: stock, Machines: machines(medium, 1), Pods: workload(5, 1)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was cancelled", err)
	}
}

func TestABadConfigurationIsRefused(t *testing.T) {
	for _, text := range []string{"", "kind: Pod", "{", string(stock) + "profiles: [{schedulerName: other}]\n", string(stock) + "nonsense: 1\n"} {
		if _, err := Run(t.Context(), Input{Configuration: []byte(text)}); err == nil {
			t.Errorf("configuration %q is accepted", text)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	for name, configuration := range map[string][]byte{"stock": stock, "supercargo": manifests.SchedulerConfig} {
		b.Run(name, func(b *testing.B) {
			input := Input{Configuration: configuration, Machines: machines(xlarge, 1500), Pods: workload(8000, 1)}
			b.ReportAllocs()
			for b.Loop() {
				run(b, input)
			}
		})
	}
}
