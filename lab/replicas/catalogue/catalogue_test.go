package catalogue

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/lab/replicas/baseline"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func options() Options {
	g := law.DefaultGoal()
	g.Min, g.Max = 2, 60
	return Options{Goal: g, PeakRate: 600}
}

// everyLaw runs a test for each law of the catalogue.
func everyLaw(t *testing.T, test func(t *testing.T, l law.Law)) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			l, err := New(name, options())
			if err != nil {
				t.Fatal(err)
			}
			if l.Name() != name || Describe(name) == "" {
				t.Errorf("the law is called %q and described as %q", l.Name(), Describe(name))
			}
			test(t, l)
		})
	}
}

// steady is a service in equilibrium at a rate, by the model.
func steady(at time.Duration, lambda float64, n int) law.Observation {
	m := queueing.PaperModel()
	s := m.System(n, lambda)
	o := law.Observation{At: start.Add(at), ArrivalRate: lambda, ResponseTime: min(s.Response(), 10), QueueLength: min(s.Requests(), 500*float64(n)),
		Desired: n, Ready: n, StartUp: 5 * time.Second}
	if lambda > 0 {
		o.Utilization = 100 * lambda / (float64(n) * s.ServiceRate)
	}
	return o
}

// anyObservation draws observations, including invalid ones.
func anyObservation(t *rapid.T, at time.Duration) law.Observation {
	value := rapid.OneOf(rapid.Float64Range(0, 1000), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), -1, 1e-9, 1e9}))
	return law.Observation{
		At:          start.Add(at + time.Duration(rapid.IntRange(-600, 600).Draw(t, "clock"))*time.Second),
		Age:         time.Duration(rapid.SampledFrom([]int{0, 1, 30, 3600, -5}).Draw(t, "age")) * time.Second,
		ArrivalRate: value.Draw(t, "rate"), ResponseTime: value.Draw(t, "response"), QueueLength: value.Draw(t, "queue"),
		Utilization: value.Draw(t, "utilisation"), Desired: rapid.IntRange(0, 70).Draw(t, "wanted"), Ready: rapid.IntRange(0, 70).Draw(t, "ready"),
		StartUp: 5 * time.Second,
	}
}

func written(t interface{ Fatal(...any) }, m law.Memory) string {
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWhateverIsSeen: the decision is within the limits and has a reason, the given memory does not change, and memory
// that is encoded as JSON at every evaluation gives the same decisions as memory that is not.
func TestWhateverIsSeen(t *testing.T) {
	everyLaw(t, func(t *testing.T, l law.Law) {
		rapid.Check(t, func(t *rapid.T) {
			var memory, restored law.Memory
			for i := range rapid.IntRange(1, 30).Draw(t, "looks") {
				o := anyObservation(t, time.Duration(i)*250*time.Second)
				before := written(t, memory)
				next, d := l.Decide(memory, o)
				if got := written(t, memory); got != before {
					t.Fatalf("the memory given became %s from %s", got, before)
				}
				if d.Replicas < 2 || d.Replicas > 60 || d.Next <= 0 || len(d.Reasons) == 0 || slices.Contains(d.Reasons, "") {
					t.Fatalf("evaluation %d decides %+v", i, d)
				}
				again, e := l.Decide(restored, o)
				if e.Replicas != d.Replicas || e.Next != d.Next || e.Held != d.Held {
					t.Fatalf("evaluation %d decides %+v, and %+v after a restart", i, d, e)
				}
				saved := written(t, again)
				var err error
				if restored, err = l.Restore([]byte(saved)); err != nil {
					t.Fatal(err)
				}
				memory = next
			}
		})
	})
}

func TestMissingAndStaleDataHold(t *testing.T) {
	everyLaw(t, func(t *testing.T, l law.Law) {
		var memory law.Memory
		for i := range 4 {
			memory, _ = l.Decide(memory, steady(time.Duration(i)*250*time.Second, 300, 30))
		}
		good := steady(1000*time.Second, 300, 30)
		for name, spoil := range map[string]func(*law.Observation){
			"everything missing": func(o *law.Observation) {
				o.ArrivalRate, o.ResponseTime, o.QueueLength, o.Utilization = math.NaN(), math.NaN(), math.NaN(), math.NaN()
			},
			"hours old":                  func(o *law.Observation) { o.Age = 2 * time.Hour },
			"measured in the future":     func(o *law.Observation) { o.Age = -time.Second },
			"a counter that was reset":   func(o *law.Observation) { o.ArrivalRate, o.Utilization = -3, -3 },
			"no replica Ready":           func(o *law.Observation) { o.Ready = 0 },
			"an infinite rate and usage": func(o *law.Observation) { o.ArrivalRate, o.Utilization = math.Inf(1), math.Inf(1) },
		} {
			o := good
			spoil(&o)
			next, d := l.Decide(memory, o)
			if !d.Held || d.Replicas != 30 || !strings.HasPrefix(d.Reasons[0], "hold: ") {
				t.Errorf("%s: decides %+v, want it to hold 30 and say why", name, d)
			}
			if written(t, next) != written(t, memory) {
				t.Errorf("%s: the memory changed", name)
			}
		}
	})
}

// drive runs the closed loop with a service that reaches equilibrium immediately.
func drive(l law.Law, rates []float64) (replicas []int) {
	var memory law.Memory
	n, at := 10, time.Duration(0)
	for _, lambda := range rates {
		for end := at + 250*time.Second; at < end; {
			var d law.Decision
			memory, d = l.Decide(memory, steady(at, lambda, n))
			n = d.Replicas
			at += d.Next
		}
		replicas = append(replicas, n)
	}
	return replicas
}

func repeat(lambda float64, times int) []float64 { return slices.Repeat([]float64{lambda}, times) }

func TestAStepOfAHundredTimesIsFollowedUpAndDown(t *testing.T) {
	everyLaw(t, func(t *testing.T, l law.Law) {
		got := drive(l, slices.Concat(repeat(4, 30), repeat(400, 60), repeat(4, 60)))
		enough := queueing.LeastStable(400, queueing.PaperModel().ServiceRate(400))
		if up := got[85]; up < enough {
			t.Errorf("%d replicas at 400/s after the step, want %d or more", up, enough)
		}
		if down := got[len(got)-1]; down > 5 {
			t.Errorf("%d replicas at 4/s after the step back, want 5 or fewer", down)
		}
	})
}

func TestSaturatedAtMostReplicasTheyStayThereAndComeBack(t *testing.T) {
	everyLaw(t, func(t *testing.T, l law.Law) {
		// 3000 requests/s need about 380 replicas; the maximum is 60.
		got := drive(l, slices.Concat(repeat(100, 20), repeat(3000, 20), repeat(100, 100)))
		if got[39] != 60 {
			t.Errorf("%d replicas in overload, want all 60", got[39])
		}
		most := 15
		if l.Name() == baseline.QMDL {
			most = 25 // releases slowly, as the paper that compares itself with it reports
		}
		if down := got[len(got)-1]; down > most {
			t.Errorf("%d replicas at 100/s seven hours later, want %d or fewer: nothing may have wound up", down, most)
		}
	})
}

// TestAScaleOutUnderWayIsNotCancelled: the load grows and stays high, and no requested replica becomes Ready for long.
func TestAScaleOutUnderWayIsNotCancelled(t *testing.T) {
	everyLaw(t, func(t *testing.T, l law.Law) {
		var memory law.Memory
		wanted, at := 10, time.Duration(0)
		for i := range 40 {
			lambda := []float64{115, 140, 180}[min(i, 2)] // this loads ten replicas to 54, 74 and 109 %
			o := steady(at, lambda, 10)
			o.ResponseTime, o.QueueLength, o.Desired = 10, 5000, wanted
			var d law.Decision
			memory, d = l.Decide(memory, o)
			if i > 2 && d.Replicas < wanted {
				t.Errorf("evaluation %d asks for %d after %d, with 10 Ready at %.0f %%: %v", i, d.Replicas, wanted, o.Utilization, d.Reasons)
			}
			wanted = d.Replicas
			at += d.Next
		}
		if wanted <= 10 {
			t.Errorf("asks for %d, want more than the 10 that do not keep up", wanted)
		}
	})
}

func TestWhenNobodyAsksTheLeastIsEnough(t *testing.T) {
	everyLaw(t, func(t *testing.T, l law.Law) {
		got := drive(l, slices.Concat(repeat(300, 20), repeat(1, 20), repeat(0, 20)))
		if last := got[len(got)-1]; last != 2 {
			t.Errorf("%d replicas, want the least, 2", last)
		}
	})
}

func TestUnknownLawsAndImpossibleOptionsAreRefused(t *testing.T) {
	if _, err := New("astrology", options()); err == nil || !strings.Contains(err.Error(), Names()[0]) {
		t.Errorf("error %v, want it to list the laws", err)
	}
	for _, name := range Names() {
		o := options()
		o.Max = 1
		if l, err := New(name, o); err == nil || !strings.Contains(err.Error(), "maximum replicas 1") {
			t.Errorf("%s with max below min: %v, %v, want it refused by field", name, l, err)
		}
	}
	o := options()
	o.Model, o.SLO = queueing.Model{MuB: 5}, 150*time.Millisecond
	if _, err := New(Names()[0], o); err == nil || !strings.Contains(err.Error(), "takes 0.2 s") {
		t.Errorf("SLO of 0.15 s at 5/s: %v, want it refused and 0.2 s named", err)
	}
}

func TestMemoryThatIsNoneIsRefused(t *testing.T) {
	everyLaw(t, func(t *testing.T, l law.Law) {
		if _, err := l.Restore([]byte("[1")); err == nil || !strings.Contains(err.Error(), l.Name()) {
			t.Errorf("error %v, want it to name the law", err)
		}
		if m, err := l.Restore(nil); err != nil {
			t.Errorf("no memory: %v, %v, want fresh memory", m, err)
		}
	})
}

// BenchmarkDecide measures one evaluation for a service of a thousand replicas.
func BenchmarkDecide(b *testing.B) {
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			o := options()
			o.Max, o.Model.C = 4000, 0
			o.Model.MuB = 11
			o.PeakRate = 20_000
			l, err := New(name, o)
			if err != nil {
				b.Fatal(err)
			}
			s := queueing.System{Servers: 1000, ArrivalRate: 10_700, ServiceRate: 11}
			seen := law.Observation{ArrivalRate: s.ArrivalRate, ResponseTime: s.Response(), QueueLength: s.Requests(),
				Utilization: 97, Desired: 1000, Ready: 1000, StartUp: 5 * time.Second}
			var memory law.Memory
			at := start
			b.ReportAllocs()
			for b.Loop() {
				at = at.Add(25 * time.Second)
				seen.At = at
				memory, _ = l.Decide(memory, seen)
			}
		})
	}
}
