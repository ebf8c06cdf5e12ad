package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/manifests"
)

func TestPodsThatAreUnschedulableAreTriedAgainWhenSomeComesFree(t *testing.T) {
	for name, configuration := range map[string][]byte{"stock": stock, "supercargo": manifests.SchedulerConfig} {
		t.Run(name, func(t *testing.T) {
			r := run(t, sim.Input{Scenario: scene(), Policy: fixed(configuration), Pods: []scenario.Pod{
				job("first", 6*gi, 0, 65*s),
				job("second", 6*gi, s, m),
				job("never", 9*gi, 2*s, m),
				job("small", 2*gi, 3*s, m),
			}})
			want := []sim.Placement{
				{At: 0, Pod: "first", Node: "medium-0", Flavor: "medium", Reason: "scheduled"},
				{At: 3 * s, Pod: "small", Node: "medium-0", Flavor: "medium", Reason: "scheduled"},
				{At: 80 * s, Pod: "second", Node: "medium-0", Flavor: "medium", Reason: "scheduled"},
			}
			if diff := cmp.Diff(want, r.Placements); diff != "" {
				t.Errorf("placements (-want +got):\n%s", diff)
			}
			if r.Submitted != 4 || r.Scheduled != 3 || r.Completed != 3 || r.Pending != 1 || r.Failed != 0 {
				t.Errorf("counts %+v", r)
			}
			if diff := cmp.Diff([]time.Duration{0, 0, 79 * s}, r.Waits); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
			if r.Makespan != 140*s || r.Over != r.Makespan {
				t.Errorf("makespan %v, over %v, want 2m20s", r.Makespan, r.Over)
			}
			if r.CostMicroDollars != 3*dollar {
				t.Errorf("three started minutes cost %d micro-dollars, want three dollars", r.CostMicroDollars)
			}
		})
	}
}

func TestANewPodDoesNotOvertakeOneThatWaitsAndAsksForNoMore(t *testing.T) {
	t.Parallel()
	r := run(t, sim.Input{Scenario: scene(), Policy: fixed(stock), Pods: []scenario.Pod{
		job("runs", 6*gi, 0, 65*s), job("waits", 5*gi, s, m), job("overtakes", 2*gi, 2*s, 10*s), job("new", 6*gi, 70*s, m),
	}})
	var order []string
	for _, p := range r.Placements {
		order = append(order, fmt.Sprint(p.At, " ", p.Pod))
	}
	if diff := cmp.Diff([]string{"0s runs", "2s overtakes", "1m20s waits", "2m40s new"}, order); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
}

func TestServicesRunToTheEnd(t *testing.T) {
	t.Parallel()
	forever, short := service("web", gi, 0, 0), service("short", gi, 0, 10*m)
	forever.Size.MilliCPU, short.Size.MilliCPU = 1000, 1000
	sc := scene(func(sc *scenario.Scenario) { sc.Horizon = time.Hour })
	r := run(t, sim.Input{Scenario: sc, Policy: fixed(stock), Pods: []scenario.Pod{forever, short}})
	if r.Over != time.Hour || r.Completed != 1 || r.Scheduled != 2 || r.Pending != 0 || r.Makespan != 0 {
		t.Errorf("over %v, completed %d, scheduled %d, pending %d, makespan %v", r.Over, r.Completed, r.Scheduled, r.Pending, r.Makespan)
	}
	if want := 1000.0 * 4200; r.UsedMilliCPUSeconds != want {
		t.Errorf("%v milli-CPU seconds were used, want %v", r.UsedMilliCPUSeconds, want)
	}
}

func TestServicesStayUntilTheLastBatchPodHasEnded(t *testing.T) {
	t.Parallel()
	r := run(t, sim.Input{Scenario: scene(), Policy: fixed(stock), Pods: []scenario.Pod{service("web", gi, 0, 0), job("job", gi, 0, 200*s)}})
	if want := 2 * 100 * 200.0; r.UsedMilliCPUSeconds != want {
		t.Errorf("%v milli-CPU seconds were used, want %v", r.UsedMilliCPUSeconds, want)
	}
}

func TestARunWithoutPodsLastsToTheHorizon(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]sim.Policy{"fixed": fixed(stock), "with a controller": (&script{}).policy()} {
		r := run(t, sim.Input{Scenario: scene(func(sc *scenario.Scenario) { sc.Horizon = 10 * m }), Policy: p})
		if r.Over != 10*m || r.CostMicroDollars != 10*dollar || r.Submitted != 0 || r.Makespan != 0 {
			t.Errorf("%s: over %v, cost %d, submitted %d, want 10m for 10 dollars and no pod", name, r.Over, r.CostMicroDollars, r.Submitted)
		}
	}
}

func TestABatchPodWithoutWorkEndsAsItStarts(t *testing.T) {
	t.Parallel()
	r := run(t, sim.Input{Scenario: scene(), Policy: (&script{}).policy(), Pods: []scenario.Pod{job("null", gi, 30*s, 0)}})
	if r.Completed != 1 || r.Makespan != 30*s {
		t.Errorf("completed %d, makespan %v, want 1 at 30s", r.Completed, r.Makespan)
	}
}

func TestSupercargoPutsJobsThatEndTogetherOnOneMachine(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Nodes[0].Count = 2 })
	r := run(t, sim.Input{Scenario: sc, Policy: fixed(manifests.SchedulerConfig), Pods: []scenario.Pod{
		job("long-0", 5*gi, 0, time.Hour), job("short-0", 4*gi, 0, 2*m), job("long-1", gi, s, time.Hour), job("short-1", gi, s, 2*m),
	}})
	at := map[string]string{}
	for _, p := range r.Placements {
		at[p.Pod] = p.Node
	}
	if at["long-0"] != at["long-1"] || at["short-0"] != at["short-1"] || at["long-0"] == at["short-0"] {
		t.Errorf("placements %v", at)
	}
}

func TestAFastMachineHalvesRuntimesOfBatchPodsAlone(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Flavors[0].Speed, sc.Horizon = 2, 90*s })
	h := simulate(t, sc, &script{}, job("job", gi, 0, 101), job("third", gi, 0, 100*s), service("web", gi, 0, 80*s))
	h.expect(t, "job", "0s started: medium-0", "51ns ended: medium-0") // never too early
	h.expect(t, "third", "0s started: medium-0", "50s ended: medium-0")
	h.expect(t, "web", "0s started: medium-0", "1m20s ended: medium-0")
}

func TestASlowMachineStretchesThem(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Flavors[0].Speed = 0.3 })
	h := simulate(t, sc, &script{}, job("job", gi, 0, 3*s))
	h.expect(t, "job", "0s started: medium-0", "10s ended: medium-0")
}

func TestPodsGoToTheirArchitecture(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) {
		sc.Flavors[1].Arch = "arm64"
		sc.Nodes = append(sc.Nodes, nodes("wide", 1))
	})
	arm, other := job("arm", 7*gi, 0, m), job("other", 8*gi, 0, m)
	arm.Arch = "arm64"
	h := simulate(t, sc, &script{}, arm, other)
	h.expect(t, "arm", "0s started: wide-0", "1m0s ended: wide-0")
	h.expect(t, "other", "0s started: medium-0", "1m0s ended: medium-0")
}

func TestClassesOfMachinesBindPoliciesWithGroupsAlone(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) {
		sc.Nodes = []scenario.Nodes{{Flavor: "medium", Count: 1, Class: class.Service}, {Flavor: "wide", Count: 1, Class: class.Batch}}
	})
	for groups, want := range map[bool]string{true: "wide-0", false: "medium-0"} {
		c := &script{}
		p := c.policy()
		p.Groups = groups
		r := run(t, sim.Input{Scenario: sc, Policy: p, Pods: []scenario.Pod{job("job", gi, 0, m)}})
		if r.Placements[0].Node != want {
			t.Errorf("with groups %t the job goes to %s, want %s", groups, r.Placements[0].Node, want)
		}
		if is := nodeOf(t, c.at(t, 0), "medium-0").Class; (is == class.Service) != groups {
			t.Errorf("with groups %t the controller sees class %s", groups, is)
		}
	}
}

func TestPodsThatNoMachineCanHoldArePendingAtOnceWithTheReason(t *testing.T) {
	t.Parallel()
	sized := func(cpu, memory int64, arch string) scenario.Pod {
		p := job("p", memory, 10*s, m)
		p.Size.MilliCPU, p.Arch = cpu, arch
		return p
	}
	grouped := func(sc *scenario.Scenario) { sc.Autoscale, sc.Nodes[0].Class = false, class.Service }
	thin := func(sc *scenario.Scenario) { sc.Flavors[1].Size.MilliCPU = 1000 }
	tests := []struct {
		name   string
		pod    scenario.Pod
		change func(*scenario.Scenario)
		want   string
	}{
		{"too much CPU", sized(4001, gi, ""), nil, "asks for more CPU than any machine has"},
		{"too much memory", sized(1, 16*gi+1, ""), nil, "asks for more memory than any machine has"},
		{"both, on machines apart", sized(2000, 16*gi, ""), thin, "no one machine has both the CPU and the memory it asks for"},
		{"an architecture that is not there", sized(1, 1, "arm64"), nil, "no machine has architecture arm64"},
		{"what could be bought does not count in a fixed cluster", sized(1, 9*gi, ""), func(sc *scenario.Scenario) { sc.Autoscale = false }, "asks for more memory than any machine has"},
		{"a class that no machine takes", sized(1, 1, ""), grouped, "no machine takes pods of class batch"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			sc := scene(func(sc *scenario.Scenario) { sc.Horizon = 5 * m })
			if tc.change != nil {
				tc.change(sc)
			}
			c := &script{}
			p := c.policy()
			p.Groups = true
			r := run(t, sim.Input{Scenario: sc, Policy: p, Pods: []scenario.Pod{tc.pod}})
			if diff := cmp.Diff(map[string]int64{tc.want: 1}, r.PendingReasons); diff != "" || r.Pending != 1 || r.Scheduled != 0 {
				t.Errorf("%d pending, reasons (-want +got):\n%s", r.Pending, diff)
			}
			if r.Over != 5*m || r.Events["schedulingAttempts"] != 0 {
				t.Errorf("over at %v after %d attempts, want the horizon and none", r.Over, r.Events["schedulingAttempts"])
			}
			if pending := r.Samples[len(r.Samples)-2].Pending; pending != 1 {
				t.Errorf("%d pods are shown as pending, want 1", pending)
			}
			for _, l := range c.interval {
				if len(l.State.Pending)+len(l.State.Recent) > 0 {
					t.Errorf("at %v the controller is asked to do the impossible", l.At)
				}
			}
		})
	}
}

func TestAPodThatFitsWhatCanBeBoughtIsNotImpossible(t *testing.T) {
	t.Parallel()
	c := &script{plans: map[time.Duration]cluster.Plan{20 * s: buy("wide")}}
	h := simulate(t, scene(), c, job("big", 16*gi, 10*s, m))
	h.expect(t, "big", "2m50s started: wide-0", "3m50s ended: wide-0")
	if r := c.at(t, 20*s).Pending; len(r) != 1 || r[0].Waited != 10*s {
		t.Errorf("the controller saw %+v, want one pod that has waited for 10 s", r)
	}
}

// workload returns random pods, with many ties between the nodes of the stock profile.
func workload(n int, seed uint64) []scenario.Pod {
	r := rand.New(rand.NewPCG(seed, 0))
	pods := make([]scenario.Pod, n)
	for i := range pods {
		length := time.Duration(1 + r.Int64N(int64(20*m)))
		arrival := time.Duration(r.Int64N(int64(time.Hour)))
		if i%4 == 0 {
			pods[i] = service(fmt.Sprintf("pod-%d", i), (1+r.Int64N(4))*gi/2, arrival, length)
		} else {
			pods[i] = job(fmt.Sprintf("pod-%d", i), (1+r.Int64N(4))*gi/2, arrival, length)
		}
		if i%3 == 0 {
			pods[i].Category = fmt.Sprint(i % 5)
		}
	}
	slices.SortStableFunc(pods, func(a, b scenario.Pod) int { return int(a.Arrival - b.Arrival) })
	return pods
}

func fleet(medium, wide int64) *scenario.Scenario {
	return scene(func(sc *scenario.Scenario) {
		sc.Nodes, sc.MaxNodes, sc.Horizon = []scenario.Nodes{nodes("medium", medium), nodes("wide", wide)}, medium+wide, time.Hour
	})
}

func TestTheSameInputGivesTheSameResult(t *testing.T) { // not parallel: it sets GOMAXPROCS
	for name, configuration := range map[string][]byte{"stock": stock, "supercargo": manifests.SchedulerConfig} {
		t.Run(name, func(t *testing.T) {
			input := sim.Input{Scenario: fleet(10, 3), Policy: fixed(configuration), Pods: workload(400, 1), Seed: 7}
			first := run(t, input)
			for _, n := range []int{1, 4} {
				before := runtime.GOMAXPROCS(n)
				second := run(t, input)
				runtime.GOMAXPROCS(before)
				if diff := cmp.Diff(first, second); diff != "" {
					t.Errorf("a run on %d processors differs (-first +second):\n%s", n, diff)
				}
			}
		})
	}
}

func TestAnotherSeedBreaksTiesOtherwise(t *testing.T) {
	t.Parallel()
	input := sim.Input{Scenario: fleet(10, 0), Policy: fixed(stock), Pods: workload(20, 1)}
	input.Scenario.Nodes = input.Scenario.Nodes[:1]
	first := run(t, input)
	input.Seed++
	if cmp.Equal(first.Placements, run(t, input).Placements) {
		t.Error("twenty pods went to the same of ten equal nodes with another seed")
	}
}

func TestTiesAreBrokenFairly(t *testing.T) {
	t.Parallel()
	input := sim.Input{Scenario: fleet(4, 0), Policy: fixed(stock), Pods: []scenario.Pod{job("one", gi, 0, s)}}
	input.Scenario.Nodes = input.Scenario.Nodes[:1]
	count := map[string]int{}
	for seed := range uint64(100) {
		input.Seed = seed
		count[run(t, input).Placements[0].Node]++
	}
	for i := range 4 { // 25 each are expected, with a deviation of 4.3
		if n := count[fmt.Sprintf("medium-%d", i)]; n < 10 || n > 40 {
			t.Errorf("of 100 pods %d went to node %d: %v", n, i, count)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sim.Run(ctx, sim.Input{Scenario: scene(), Policy: fixed(stock), Pods: workload(5, 1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was cancelled", err)
	}
}

// The scheduler returns any node, or none, without an error when its context ends while it compares nodes.
func TestAnAttemptFailsOnceItsContextHasEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := sim.NewScheduler(ctx, sim.SchedulerOptions{Configuration: stock, Clock: &sim.Clock{}})
	if err != nil {
		t.Fatal(err)
	}
	s.AddNode(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}},
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName}}
	if a := s.Attempt(pod); a.Err != nil || a.Node != "a" {
		t.Fatalf("before: node %q, error %v; want node a", a.Node, a.Err)
	}
	cancel()
	if a := s.Attempt(pod); !errors.Is(a.Err, context.Canceled) {
		t.Errorf("after: node %q, error %v; want that it was cancelled", a.Node, a.Err)
	}
}

func TestABadConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "kind: Pod", "{", string(stock) + "profiles: [{schedulerName: other}]\n", string(stock) + "nonsense: 1\n"} {
		if _, err := sim.Run(t.Context(), sim.Input{Scenario: scene(), Policy: fixed([]byte(text))}); err == nil {
			t.Errorf("configuration %q is accepted", text)
		}
	}
}

func TestProgressIsToldAndEndsWithAllPods(t *testing.T) {
	t.Parallel()
	var all []sim.Progress
	r := run(t, sim.Input{
		Scenario: fleet(30, 10), Policy: fixed(stock), Pods: workload(400, 1), Progress: func(p sim.Progress) { all = append(all, p) },
	})
	if last := all[len(all)-1]; last.Arrived != 400 || last.Done != r.Completed || last.Total != 400 || last.Now < r.Makespan {
		t.Errorf("the last progress is %+v, want all of 400 pods and %d done", last, r.Completed)
	}
	if !slices.IsSortedFunc(all, func(a, b sim.Progress) int { return int(a.Now-b.Now) + a.Done - b.Done }) || len(all) < 3 {
		t.Errorf("progress goes back, or is told only %d times", len(all))
	}
}

func TestReasonsAreWordsForPeople(t *testing.T) {
	t.Parallel()
	sc := scene(func(sc *scenario.Scenario) { sc.Autoscale = false })
	r := run(t, sim.Input{Scenario: sc, Policy: fixed(stock), Pods: []scenario.Pod{service("a", 6*gi, 0, 0), service("b", 6*gi, 0, 0)}})
	for reason := range r.PendingReasons {
		if !strings.HasPrefix(reason, "no node has room: ") || !strings.Contains(reason, "Insufficient memory") {
			t.Errorf("reason %q, want that no node has the memory", reason)
		}
	}
	sc = scene(func(sc *scenario.Scenario) { sc.Nodes = nil })
	r = run(t, sim.Input{Scenario: sc, Policy: (&script{}).policy(), Pods: []scenario.Pod{service("a", gi, 0, 0)}})
	if diff := cmp.Diff(map[string]int64{"there is no node": 1}, r.PendingReasons); diff != "" {
		t.Errorf("reasons without any node (-want +got):\n%s", diff)
	}
}

func BenchmarkRun(b *testing.B) {
	for name, configuration := range map[string][]byte{"stock": stock, "supercargo": manifests.SchedulerConfig} {
		b.Run(name, func(b *testing.B) {
			sc := scene(func(sc *scenario.Scenario) {
				sc.Flavors = []scenario.Flavor{flavor("m1.xlarge", 8000, 32*gi, 547_900)}
				sc.Nodes, sc.MaxNodes, sc.Horizon = []scenario.Nodes{nodes("m1.xlarge", 1500)}, 1500, time.Hour
			})
			input := sim.Input{Scenario: sc, Policy: fixed(configuration), Pods: workload(8000, 1)}
			b.ReportAllocs()
			for b.Loop() {
				run(b, input)
			}
		})
	}
}
