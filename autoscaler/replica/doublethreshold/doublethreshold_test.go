package doublethreshold

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/replica/law"
)

// evaluate decides on the last sample of a window.
func evaluate(c Config, ready int, window ...float64) law.Decision {
	var m Memory
	var d law.Decision
	for _, x := range window {
		m, d = Decide(c, m, law.Observation{Utilization: x, Desired: ready, Ready: ready})
	}
	return d
}

func TestWhatEachWindowAsksFor(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ready  int
		window []float64
		want   int
		held   bool
		says   string
	}{
		{"two samples are too few", 4, []float64{90, 95}, 4, true, "2 of 3 samples"},
		{"all above alpha: normal out, 4·60/50 up", 4, []float64{55, 58, 60}, 5, false, "normal scale-out"},
		{"all above alpha though falling: still out", 4, []float64{90, 80, 70}, 6, false, "normal scale-out"},
		{"growing by more than delta, the last above alpha", 4, []float64{40, 48, 56}, 5, false, "normal scale-out"},
		{"growing by more than delta, still under alpha: in", 4, []float64{20, 25, 30}, 3, false, "normal scale-in"},
		// D = 0.4, 0.5; phi = 0.9/3 = 0.3; 10·115.5/50·0.3·10 = 69.3
		{"growing ever faster above alpha: rapid out", 10, []float64{55, 77, 115.5}, 70, false, "rapid scale-out"},
		// D = 0.31, 0.32; phi = 0.21: 10·95.1/50·2.1 = 39.96 up
		{"rapid out is never less than normal", 1, []float64{51, 66.81, 88.19}, 4, false, "rapid scale-out"},
		{"growing fast, but ever slower: normal out", 10, []float64{52, 80, 110}, 22, false, "normal scale-out"},
		{"growing fast from below alpha: normal out", 10, []float64{30, 45, 80}, 16, false, "normal scale-out"},
		// 10·20/70 = 2.86
		{"falling by more than epsilon under alpha: rapid in", 10, []float64{48, 32, 20}, 3, false, "rapid scale-in"},
		{"all under alpha: normal in", 10, []float64{40, 38, 36}, 8, false, "normal scale-in"},
		{"falling by more than delta, the last under alpha", 10, []float64{70, 60, 45}, 9, false, "normal scale-in"},
		{"falling by more than epsilon from above alpha", 10, []float64{90, 60, 40}, 8, false, "normal scale-in"},
		{"about alpha without a trend", 10, []float64{49, 52, 48}, 10, true, "no rule applies"},
		{"exactly alpha is neither above nor under", 10, []float64{50, 50, 50}, 10, true, "no rule applies"},
		{"nothing to do: in, to the least", 10, []float64{0, 0, 0}, 1, false, "normal scale-in"},
		{"nothing to do a moment ago, and little now", 10, []float64{30, 0, 20}, 4, false, "normal scale-in"},
		{"growth from nothing has no size", 10, []float64{0, 60, 70}, 10, true, "utilisation of 0"},
		{"never under the least", 10, []float64{6, 4, 1}, 1, false, "rapid scale-in"},
		{"never over the most", 900, []float64{120, 120, 120}, 1000, false, "limits allow 1000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := evaluate(Default(), tc.ready, tc.window...)
			if d.Replicas != tc.want || d.Held != tc.held || !strings.Contains(strings.Join(d.Reasons, ";"), tc.says) {
				t.Errorf("decides %+v, want %d (held %v) for %q", d, tc.want, tc.held, tc.says)
			}
		})
	}
}

func TestItLooksMoreOftenTheHigherTheLoad(t *testing.T) {
	for x, want := range map[float64]time.Duration{0: 30 * time.Second, 49.9: 30 * time.Second, 50: 10 * time.Second, 70: 10 * time.Second,
		70.1: time.Second, 300: time.Second} {
		if d := evaluate(Default(), 3, x); d.Next != want {
			t.Errorf("at %v %% it evaluates again in %v, want %v", x, d.Next, want)
		}
	}
}

// TestAScaleOutIsNotCancelledByTheNextOne: a normal step follows a rapid one before any of the new replicas is Ready.
func TestAScaleOutIsNotCancelledByTheNextOne(t *testing.T) {
	c := Default()
	m, wanted := Memory{}, 10
	for i, x := range []float64{55, 77, 115.5, 116, 117, 118} {
		var d law.Decision
		m, d = Decide(c, m, law.Observation{Utilization: x, Desired: wanted, Ready: 10})
		if d.Replicas < wanted {
			t.Errorf("sample %d, at %v %%: asks for %d after %d: %v", i, x, d.Replicas, wanted, d.Reasons)
		}
		wanted = d.Replicas
	}
	if wanted != 70 {
		t.Errorf("asks for %d in the end, want the 70 of the rapid step", wanted)
	}
	c.Max = 60 // lowered in the meantime
	if _, d := Decide(c, m, law.Observation{Utilization: 118, Desired: 70, Ready: 10}); d.Replicas != 60 {
		t.Errorf("asks for %d, want no more than the limit", d.Replicas)
	}
}

func TestReplicasOnTheirWayAreNotOrderedAgain(t *testing.T) {
	c := Default()
	m := Memory{Window: []float64{80, 80}}
	_, d := Decide(c, m, law.Observation{Utilization: 80, Desired: 16, Ready: 10})
	if d.Replicas != 16 {
		t.Errorf("10 Ready at 80 %% with 6 on their way: wants %d, want 16", d.Replicas)
	}
}

// writtenOut is the result of the rules with the default constants.
func writtenOut(x []float64, r int) float64 {
	d1, d2 := (x[1]-x[0])/x[0], (x[2]-x[1])/x[1]
	up := math.Ceil(float64(r)*x[2]/50 - 1e-9)
	above, below := slices.Min(x) > 50, slices.Max(x) < 50
	switch {
	case d1 > 0.3 && d2 > 0.3 && d2 > d1 && above:
		return max(up, math.Ceil(float64(r)*x[2]/50*math.Abs((d1+d2)/3)*10-1e-9))
	case above, min(d1, d2) > 0.1 && x[2] > 50:
		return up
	case max(d1, d2) < -0.3 && below:
		return max(1, math.Ceil(float64(r)*x[2]/70-1e-9))
	case below, max(d1, d2) < -0.1 && x[2] < 50:
		return max(1, up)
	}
	return float64(r)
}

// TestAgainstTheRulesWrittenOut compares with the rules as a list of conditions, each computed separately.
func TestAgainstTheRulesWrittenOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := []float64{rapid.Float64Range(1, 150).Draw(t, "x1"), rapid.Float64Range(1, 150).Draw(t, "x2"), rapid.Float64Range(1, 150).Draw(t, "x3")}
		r := rapid.IntRange(1, 40).Draw(t, "ready")
		want := writtenOut(x, r)
		if d := evaluate(Default(), r, x...); math.Abs(float64(d.Replicas)-min(want, 1000)) > 0 {
			t.Fatalf("%d replicas at %v: %+v, want %v", r, x, d, want)
		}
	})
}

func TestConstantsThatContradictAreRefusedAtOnce(t *testing.T) {
	c := Config{Limits: law.Limits{Min: 0, Max: -1}, Alpha: 70, Beta: 50, Delta: 0.3, Epsilon: 0.1, Window: 1, Calm: time.Second, Busy: time.Minute, MaxAge: -1}
	err := c.Validate()
	for _, field := range []string{"minimum replicas", "beta", "epsilon", "window", "rapid factor", "sampling", "age"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v, want it to name %s", err, field)
		}
	}
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}
