package fleetdecide

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
)

// twinLag keeps all samples and recomputes their weights.
func twinLag(times []float64) (mean, deviation float64) {
	weights := make([]float64, len(times))
	for i := range times {
		w := 1 / float64(min(i+1, 16))
		for j := range i {
			weights[j] *= 1 - w
		}
		weights[i] = w
	}
	for i, x := range times {
		mean += weights[i] * x
	}
	for i, x := range times {
		deviation += weights[i] * (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(deviation)
}

func TestLagsAreLearnedAsWeightedMeans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lag *v1alpha1.LearnedTime
		var times []float64
		for range rapid.IntRange(1, 60).Draw(t, "machines") {
			took := time.Duration(rapid.IntRange(-5_000, 600_000).Draw(t, "took")) * time.Millisecond
			times = append(times, max(0, took.Seconds()))
			lag = LearnLag(lag, took)
			mean, deviation := twinLag(times)
			// Each step rounds to the millisecond; the error of earlier rounding decays.
			if math.Abs(lag.Mean.Seconds()-mean) > 0.02 || lag.Samples != int64(len(times)) || lag.Mean.Duration < 0 || lag.Deviation.Duration < 0 {
				t.Fatalf("after %v: %+v, want mean %v", times, lag, mean)
			}
			if got := lag.Deviation.Seconds(); math.Abs(got*got-deviation*deviation) > 0.05*(1+deviation) {
				t.Fatalf("after %v: %+v, want deviation %v", times, lag, deviation)
			}
		}
	})
}

func TestLagsForgetThePast(t *testing.T) {
	var lag *v1alpha1.LearnedTime
	for range 1000 {
		lag = LearnLag(lag, time.Hour)
	}
	for range 200 {
		lag = LearnLag(lag, time.Minute)
	}
	if got := lag.Mean.Duration; got < time.Minute || got > time.Minute+time.Second {
		t.Errorf("after 200 machines in a minute the mean is %v", got)
	}
}

func TestLearningDoesNotChangeWhatWasLearned(t *testing.T) {
	old := &v1alpha1.LearnedTime{Mean: metav1.Duration{Duration: time.Minute}, Samples: 3}
	before := *old
	LearnLag(old, time.Hour)
	if *old != before {
		t.Errorf("it is now %+v", old)
	}
}

func TestTheExpectedLagIsTheLearnedMean(t *testing.T) {
	learned := &v1alpha1.LearnedTime{Mean: metav1.Duration{Duration: 90 * time.Second}, Samples: 1}
	for _, tc := range []struct {
		learned *v1alpha1.LearnedTime
		want    time.Duration
	}{{nil, time.Minute}, {&v1alpha1.LearnedTime{}, time.Minute}, {learned, 90 * time.Second}} {
		if got := ExpectedLag(tc.learned, time.Minute); got != tc.want {
			t.Errorf("learned %+v: expected %v, want %v", tc.learned, got, tc.want)
		}
	}
}

// TestAPodWaitsForNoSlowerMachineThanTheQuickestThatHoldsIt has a job that ends on the only node, and a catalogue with
// a slow large flavor.
func TestAPodWaitsForNoSlowerMachineThanTheQuickestThatHoldsIt(t *testing.T) {
	for _, tc := range []struct {
		name                string
		pod                 int64 // its request
		ends                time.Duration
		small, large        time.Duration
		knowSmall, knowBoth bool
		want                []string
	}{
		{"the quick one is bought for it", 3, 10 * minute, 2 * minute, 20 * minute, false, true, []string{"order small 0 to 1"}},
		{"room comes sooner than the quick one", 3, minute, 2 * minute, 20 * minute, false, true, nil},
		{"only the slow one holds it", 8, 10 * minute, 2 * minute, 20 * minute, false, true, nil},
		{"one that nobody has seen may be slower than it is said to be", 3, 10 * minute, 20 * minute, 2 * minute, true, false, nil},
		{"nobody has seen either", 3, 10 * minute, 20 * minute, 2 * minute, false, false, []string{"order small 0 to 1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			s.ready("a", "large", job("x", 10, tc.ends))
			s.flavor("small").Lag, s.flavor("large").Lag = tc.small, tc.large
			s.flavor("small").Learned, s.flavor("large").Learned = tc.knowSmall || tc.knowBoth, tc.knowBoth
			s.pending(job("p", tc.pod, time.Hour))
			check(t, s.round(), tc.want...)
		})
	}
}

// TestAPurchaseTakesAsLongAsTheSlowestOfThePodsThatItIsFor has a small flavor that takes two minutes, and a large one
// that takes twenty.
func TestAPurchaseTakesAsLongAsTheSlowestOfThePodsThatItIsFor(t *testing.T) {
	few, many, tooMany := job("few", 3, time.Hour), job("many", 8, time.Hour), job("too-many", 20, time.Hour)
	for _, tc := range []struct {
		name            string
		pending, recent []cluster.Pod
		want            time.Duration
	}{
		{"the quick one holds it", podsOf(few), nil, 2 * minute},
		{"the slow one holds the other", podsOf(few, many), nil, 20 * minute},
		{"pods that came lately are expected again", podsOf(few), podsOf(many), 20 * minute},
		{"pods of a quick one came lately", nil, podsOf(few), 2 * minute},
		{"one that no machine holds does not count", podsOf(few, tooMany), nil, 2 * minute},
		{"no machine holds any", podsOf(tooMany), nil, 20 * minute},
		{"there are none", nil, nil, 20 * minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			s.flavor("small").Lag, s.flavor("large").Lag = 2*minute, 20*minute
			s.State.Pending, s.State.Recent = tc.pending, tc.recent
			r := newPlanning(&s.Observation, s.m, s.c, midnight)
			if got := r.purchaseLag(&r.state); got != tc.want {
				t.Errorf("it takes %v, want %v", got, tc.want)
			}
		})
	}
}

// TestHowLongMachinesTakeToGoIsLearned releases two machines, one after the other.
func TestHowLongMachinesTakeToGoIsLearned(t *testing.T) {
	m := newScene().m
	for _, step := range []struct {
		at      time.Duration
		leaving []string
		want    time.Duration
	}{
		{0, nil, releaseDelay},
		{minute, []string{"a"}, releaseDelay},
		{2 * minute, []string{"a", "b"}, releaseDelay},
		{3 * minute, []string{"b"}, releaseDelay + 2*minute},
		{6 * minute, nil, releaseDelay + 3*minute}, // the mean of two and four
	} {
		s := newScene()
		for _, name := range step.leaving {
			s.machine(name, "small", time.Second).Leaving = true
		}
		r := newPlanning(&s.Observation, m, s.c, midnight.Add(step.at))
		r.learn()
		r.complete(&r.state)
		if got := r.state.Release; got != step.want {
			t.Errorf("after %v a machine takes %v to go, want %v", step.at, got, step.want)
		}
	}
}

// TestPodsWaitForMachinesThatTakeLongerThanExpected has two pods that have waited beside a machine on order,
// which was expected within two minutes. It has room for one pod at a time, which takes eight minutes.
func TestPodsWaitForMachinesThatTakeLongerThanExpected(t *testing.T) {
	for _, tc := range []struct {
		name   string
		age    time.Duration
		came   time.Duration // since the order of a full machine that has come; 0 if there is none
		waited time.Duration
		want   []string
	}{
		{"the machine is not late", 3 * minute, 0, 5 * minute, []string{"order small 1 to 2"}},
		{"the machine is late, as the next one would be", 9 * minute, 0, 5 * minute, nil},
		{"another that was ordered later has come", 9 * minute, 3 * minute, 5 * minute, []string{"order small 2 to 3"}},
		{"another that was ordered earlier has come", 9 * minute, 20 * minute, 5 * minute, nil},
		{"the pod has waited for longer than two of them", 9 * minute, 0, 19 * minute, []string{"order small 1 to 2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			s.Flavors, s.State.Flavors = s.Flavors[1:], s.State.Flavors[1:]
			s.machine("a", "small", tc.age)
			if tc.came > 0 {
				m := s.ready("b", "small", job("x", 4, 20*time.Hour))
				m.Ordered = midnight.Add(-tc.came)
			}
			s.pending(ago(job("p", 4, 8*minute), tc.waited), ago(job("q", 4, 8*minute), tc.waited))
			s.m.decided = map[string]time.Time{"p": midnight.Add(-tc.waited), "q": midnight.Add(-tc.waited)}
			check(t, s.round(), tc.want...)
		})
	}
}
