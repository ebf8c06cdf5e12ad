package baseline

import (
	"math"
	"strings"
	"testing"

	"supercargo.dev/supercargo/autoscaler/replica/law"
)

func goal() law.Goal { return law.DefaultGoal() }

// At 400/s the paper's service takes W = 0.1168 s with 36 replicas, 0.1015 s with
// 37, 0.0948 s with 38 and 0.0911 s with 39 (by the textbook's sums).
func at400(y float64, n int) law.Observation {
	return law.Observation{ArrivalRate: 400, ResponseTime: y, QueueLength: 400 * y, Desired: n, Ready: n}
}

func TestWithoutErrorEachLawStaysWithTheModel(t *testing.T) {
	reference := reference * 0.1
	for name, build := range map[string]func(law.Goal) (law.Law, error){QMDL: NewQMDL, QMCA: NewQMCA, InverseP: NewInverseP} {
		l, err := build(goal())
		if err != nil {
			t.Fatal(err)
		}
		_, d := l.Decide(nil, at400(reference, 38))
		want := 38 // the lowest with W <= 0.095 s
		if d.Replicas != want {
			t.Errorf("%s wants %+v, want %d", name, d, want)
		}
	}
}

func TestFeedbackGoesTheRightWayAndAddsUp(t *testing.T) {
	for name, build := range map[string]func(law.Goal) (law.Law, error){QMDL: NewQMDL, QMCA: NewQMCA, InverseP: NewInverseP} {
		l, err := build(goal())
		if err != nil {
			t.Fatal(err)
		}
		var slow, fast law.Memory
		var more, less law.Decision
		for range 10 {
			slow, more = l.Decide(slow, at400(0.14, 38))
			fast, less = l.Decide(fast, at400(0.08, 38))
		}
		if more.Replicas <= 38 || less.Replicas >= 38 {
			t.Errorf("%s: %d replicas when it is slow and %d when it is fast, want more and fewer than 38", name, more.Replicas, less.Replicas)
		}
	}
}

// TestQMDLHasThePoleItIsGiven: in a linear system y = y0 + g·d, the pole determines how fast an error decays.
func TestQMDLHasThePoleItIsGiven(t *testing.T) {
	c := Config{Goal: goal(), Pole: 0.9, Reference: 1}
	n, slo, _ := c.aim(400)
	slope := c.Model.System(n+1, 400).Response() - c.Model.System(n, 400).Response()
	var m Memory
	y := slo + 0.01
	for k := range 20 {
		m, _ = DecideQMDL(c, m, at400(y, n))
		y = slo + 0.01 + slope*m.Correction
		if want := 0.01 * math.Pow(0.9, float64(k+1)); math.Abs(y-slo-want) > 1e-9 {
			t.Fatalf("error %v after %d steps, want %v", y-slo, k+1, want)
		}
	}
}

func TestProportionalIsProportional(t *testing.T) {
	l, err := NewProportional(ProportionalConfig{Goal: goal(), RatePerReplica: 10})
	if err != nil {
		t.Fatal(err)
	}
	for rate, want := range map[float64]int{0: 1, 10: 1, 10.1: 2, 400: 40, 1e7: 1000} {
		if _, d := l.Decide(nil, law.Observation{ArrivalRate: rate, Desired: 1, Ready: 1}); d.Replicas != want {
			t.Errorf("%v/s: %+v, want %d", rate, d, want)
		}
	}
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := NewProportional(ProportionalConfig{Goal: goal(), RatePerReplica: rate}); err == nil || !strings.Contains(err.Error(), "per replica") {
			t.Errorf("a rate of %v for each replica: %v, want it refused", rate, err)
		}
	}
}

func TestPolesAndReferencesOutOfRangeAreRefused(t *testing.T) {
	err := Config{Goal: goal(), Pole: 1, Reference: 1.1}.Validate()
	if err == nil || !strings.Contains(err.Error(), "pole 1") || !strings.Contains(err.Error(), "reference 1.1") {
		t.Errorf("error %v, want it to name both", err)
	}
}
