package fleetdecide

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/test/fixtures/states"
)

func TestMachinesThatAreBoughtHaveRoomForPodsThatKeepComing(t *testing.T) {
	p, like := job("p", 2, time.Hour), often(job("", 2, time.Hour), 8) // six of which are counted
	tests := []struct {
		name     string
		s        *cluster.State
		change   func(*FleetOptions)
		want     []string
		expected int
	}{
		{"without them the small machine is enough", quiet(podsOf(p)), nil, []string{"small: p"}, 0},
		{"four more fill a large one", came(quiet(podsOf(p)), like...), nil, []string{"large: p"}, 4},
		{"a large one even if two small ones cost a little less", largeAt(came(quiet(podsOf(job("p", 4, time.Hour))), often(job("", 4, time.Hour), 2)...), 99), nil, []string{"large: p"}, 1},
		{"but not if they cost much less", largeAt(came(quiet(podsOf(job("p", 4, time.Hour))), often(job("", 4, time.Hour), 2)...), 101), nil, []string{"small: p"}, 0},
		{"nothing is bought while nobody waits", came(quiet(nil), like...), nil, []string{}, 0},
		{"nor for a pod that finds room", came(quiet(podsOf(p), full("a", minute)), like...), nil, []string{}, 0},
		{"what finds room elsewhere is not expected", came(quiet(podsOf(job("p", 4, time.Hour)), node("a")), often(job("", 1, time.Minute), 4)...), nil, []string{}, 0},
		{"a kind that came once does not come again", came(quiet(podsOf(p)), ago(job("r", 8, time.Hour), minute)), nil, []string{"small: p"}, 0},
		{"many pods that came at once do not either", came(quiet(podsOf(p)), atOnce(like, minute)...), nil, []string{"small: p"}, 0},
		{"pods of long ago do not come again", came(quiet(podsOf(p)), ago(like[0], 2*minute), ago(like[1], 2*minute), ago(like[2], 2*minute), ago(like[3], 2*minute)), nil, []string{"small: p"}, 0},
		{"a limit leaves no pod out that waits", came(quiet(podsOf(p, job("q", 9, time.Hour))), often(job("", 9, time.Hour), 8)...),
			func(o *FleetOptions) { o.Limits = cluster.Limits{Machines: new(int64(2))} }, []string{"small: p", "large: q"}, 0},
		{"a limit in dollars is kept", came(quiet(podsOf(p)), like...), func(o *FleetOptions) { o.Limits = cluster.Limits{MicroDollarsPerHour: new(int64(40))} }, []string{"small: p"}, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			o, before := all(), cloned(tc.s)
			if tc.change != nil {
				tc.change(&o)
			}
			d := Fleet(tc.s, o, mover(), midnight)
			if diff := cmp.Diff(tc.want, planned(&d.Plan.Plan)); diff != "" {
				t.Errorf("machines (-want +got):\n%s", diff)
			}
			if d.Expected != tc.expected {
				t.Errorf("room for %d pods that are expected, want %d", d.Expected, tc.expected)
			}
			if diff := cmp.Diff(before, tc.s); diff != "" {
				t.Errorf("the cluster was modified:\n%s", diff)
			}
		})
	}
}

// largeAt sets the price of the large machines. A small one costs 40 and holds one pod of 4 CPUs, so that each machine
// counts as 20 more expensive: two small ones count as 120.
func largeAt(s *cluster.State, price int64) *cluster.State {
	l := large
	l.MicroDollarsPerHour = price
	s.Flavors = []cluster.Flavor{l, small}
	return s
}

func TestAMachineSaysHowManyOfItsPodsAreExpected(t *testing.T) {
	d := Fleet(came(quiet(podsOf(job("p", 2, time.Hour))), often(job("", 2, time.Hour), 8)...), all(), mover(), midnight)
	if got := d.Plan.Machines[0].Reason; !strings.Contains(got, "its 5 pods") || !strings.Contains(got, "4 of them are expected within 2m0s") {
		t.Errorf("reason %q", got)
	}
}

// every returns pods of which n arrived in each interval, the last one a second ago.
func every(distance time.Duration, n int) (all []cluster.Pod) {
	for i := range n {
		p := ago(job("", 1, minute), time.Second+time.Duration(i)*distance)
		p.Name = fmt.Sprint("came", i)
		all = append(all, p)
	}
	return all
}

// TestOfAKindThePartWithTheMostPodsIsLeftOut has pods arrive one by one, each in its own part of the two-minute lag.
func TestOfAKindThePartWithTheMostPodsIsLeftOut(t *testing.T) {
	for n, want := range []int{0, 0, 1, 2, 3, 4, 5, 6, 7} {
		s := came(state(nil), every(15*time.Second, n)...)
		if got := steady(s, nil); len(got) != want || want > 0 && got[0].Name != "came0" {
			t.Errorf("of %d pods %d are counted on, want the last %d", n, len(got), want)
		}
	}
}

// TestPodsOfDifferentSizesCountTogether has no two pods of one size arrive.
func TestPodsOfDifferentSizesCountTogether(t *testing.T) {
	pods := every(15*time.Second, 8)
	for i := range pods {
		pods[i].Size.MemoryBytes += int64(i)
	}
	if got := steady(came(state(nil), pods...), nil); len(got) != 7 || got[0].Name != "came0" {
		t.Errorf("of 8 pods of different sizes %d are counted on, want the last 7", len(got))
	}
}

// TestAJobAmongAStreamIsNotExpectedAgain has a Job create many large pods while small ones arrive, five in each part.
func TestAJobAmongAStreamIsNotExpectedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := every(3*time.Second, 40)
		jobs := atOnce(every(0, 100), time.Duration(rapid.IntRange(1, 118).Draw(t, "since"))*time.Second)
		for i := range jobs {
			jobs[i].Name, jobs[i].Size = fmt.Sprint("job", i), job("", 8, minute).Size
		}
		recent := slices.Concat(stream, jobs)
		slices.SortStableFunc(recent, func(a, b cluster.Pod) int { return int(a.Waited - b.Waited) })
		got := steady(came(state(nil), recent...), nil)
		if len(got) == 0 || slices.ContainsFunc(got, func(p cluster.Pod) bool { return strings.HasPrefix(p.Name, "job") }) {
			t.Fatalf("of 40 pods of a stream and 100 of a Job, these are counted on: %v", names(got))
		}
	})
}

func names(pods []cluster.Pod) (all []string) {
	for i := range pods {
		all = append(all, pods[i].Name)
	}
	return all
}

// TestShortPodsFollowEachOtherInOneRoom has six of eight pods counted on (two in each of four parts), which
// run for a part of the lag of two minutes.
func TestShortPodsFollowEachOtherInOneRoom(t *testing.T) {
	guessed := job("", 2, minute)
	guessed.Guessed = true
	tests := []struct {
		name string
		like cluster.Pod
		want int
	}{
		{"longer than the lag", job("", 2, time.Hour), 6},
		{"half of the lag", job("", 2, minute), 3},
		{"a tenth of the lag", job("", 2, 12*time.Second), 0},
		{"unknown", guessed, 6},
		{"without an end", service("", 2), 6},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := len(expected(came(quiet(nil), often(tc.like, 8)...), nil)); got != tc.want {
				t.Errorf("room for %d pods, want %d", got, tc.want)
			}
		})
	}
}

// TestPodsFromTheFutureAreNotCounted has a clock that was set back: the last pod seems to arrive in a minute.
func TestPodsFromTheFutureAreNotCounted(t *testing.T) {
	pods := every(15*time.Second, 8)
	ahead := ago(pods[0], -minute)
	ahead.Name = "ahead"
	got := steady(came(state(nil), append(podsOf(ahead), pods...)...), nil)
	if len(got) != 7 || slices.ContainsFunc(got, func(p cluster.Pod) bool { return p.Name == "ahead" }) {
		t.Errorf("%d pods are counted on, want 7 of the 8 that have come", len(got))
	}
}

// TestAStreamOfPodsIsExpectedToContinue has pods arrive so often that some always arrive within a second of others: 30 in
// each part.
func TestAStreamOfPodsIsExpectedToContinue(t *testing.T) {
	if got := len(steady(came(state(nil), every(time.Second/2, 238)...), nil)); got != 208 {
		t.Errorf("of 238 pods in two minutes, %d are counted on, want 208", got)
	}
}

// TestOfPodsThatArriveByChanceMostAreExpected draws arrivals at a steady rate, with so many on average in a lag.
func TestOfPodsThatArriveByChanceMostAreExpected(t *testing.T) {
	const draws = 400
	r := rand.New(rand.NewPCG(1, 1))
	for rate, want := range map[float64]float64{8: 5, 64: 51, 256: 214} {
		sum := 0
		for range draws {
			var pods []cluster.Pod
			for at := r.ExpFloat64() / rate; at < 1; at += r.ExpFloat64() / rate {
				pods = append(pods, ago(job("", 1, minute), time.Duration(at*float64(2*minute))))
			}
			sum += len(steady(came(state(nil), pods...), nil))
		}
		if mean := float64(sum) / draws; math.Abs(mean-want) > 0.03*want+0.5 {
			t.Errorf("of %.0f pods on average, %.1f are expected, want about %.0f", rate, mean, want)
		}
	}
}

// atOnce returns pods that arrived within one second, the given time ago.
func atOnce(pods []cluster.Pod, waited time.Duration) []cluster.Pod {
	all := slices.Clone(pods)
	for i := range all {
		all[i].Waited = waited + time.Duration(i)*time.Second/time.Duration(len(all))
	}
	return all
}

// TestPodsThatComeTogetherCountAsOneTime has pods arrive four at a time.
func TestPodsThatComeTogetherCountAsOneTime(t *testing.T) {
	for times, want := range []int{0, 0, 4, 8, 12, 16} {
		var pods []cluster.Pod
		for i := range times {
			pods = append(pods, atOnce(every(0, 4), time.Second+time.Duration(i)*15*time.Second)...)
		}
		if got := len(steady(came(state(nil), pods...), nil)); got != want {
			t.Errorf("of %d times, %d pods are counted on, want %d", times, got, want)
		}
	}
}

// TestOneJobIsNotExpectedAgain has all pods arrive within some interval at any time.
func TestOneJobIsNotExpectedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		took := time.Duration(rapid.IntRange(0, 7).Draw(t, "took")) * time.Second
		since := time.Duration(rapid.IntRange(0, 110).Draw(t, "since")) * time.Second
		pods := every(took/100, 100)
		for i := range pods {
			pods[i].Waited += since
		}
		if got := len(steady(came(state(nil), pods...), nil)); got > 0 {
			t.Fatalf("%d of its pods are counted on", got)
		}
	})
}

// TestExpectedPodsChangeOnlyTheSizeOfMachines compares with the same cluster without arrivals: the same pods get
// machines, each once, and every machine is for a pending pod.
func TestExpectedPodsChangeOnlyTheSizeOfMachines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := states.Draw(t, true)
		o := all()
		o.Limits.Machines = rapid.Ptr(rapid.Int64Range(1, 4), true).Draw(t, "limit")
		without := cloned(s)
		without.Recent = nil
		got, bare := Fleet(s, o, mover(), midnight), Fleet(without, o, mover(), midnight)
		if diff := cmp.Diff(housed(&bare), housed(&got)); diff != "" {
			t.Fatalf("pods with a machine (-nothing expected +expected):\n%s", diff)
		}
		if diff := cmp.Diff(bare.Plan.Unplaceable, got.Plan.Unplaceable); diff != "" {
			t.Fatalf("pods without one:\n%s", diff)
		}
		if most := o.Limits.Machines; most != nil && int64(len(got.Plan.Machines)) > *most {
			t.Fatalf("%d machines, the limit is %d", len(got.Plan.Machines), *most)
		}
		var price int64
		for _, m := range got.Plan.Machines {
			if len(m.Pods) == 0 {
				t.Fatalf("machine %s is for nobody who waits", m.Name)
			}
			price += m.MicroDollarsPerHour
		}
		if price != got.Plan.MicroDollarsPerHour {
			t.Fatalf("the plan says %d, its machines cost %d", got.Plan.MicroDollarsPerHour, price)
		}
	})
}

// housed returns the pods for which machines are bought, with repetitions, and checks them against the assignments.
func housed(d *FleetDecision) []string {
	var pods []string
	on := map[string]string{}
	for _, a := range d.Plan.Assignments {
		on[a.Pod] = a.Machine
	}
	for _, m := range d.Plan.Machines {
		for _, pod := range m.Pods {
			if on[pod] != m.Name {
				pod = fmt.Sprintf("%s, which is assigned to %q and not to %s", pod, on[pod], m.Name)
			}
			pods = append(pods, pod)
		}
	}
	slices.Sort(pods)
	return pods
}
