package inversequeue

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"supercargo.dev/supercargo/autoscaler/replica/law"
)

func seen(lambda, y float64, n int) law.Observation {
	return law.Observation{ArrivalRate: lambda, ResponseTime: y, QueueLength: lambda * y, Desired: n, Ready: n}
}

// known is memory with a mature model at 400/s: 37 replicas are too few, and 38 to 42 keep the SLO.
func known() Memory {
	tooFew := 37
	return Memory{Previous: 400, Evaluations: 9, Input: 0.092, Models: []Reference{{ArrivalRate: 400, TooFew: &tooFew, Sizes: []Size{
		{38, []int64{97000, 99000}}, {39, []int64{94000, 92000, 300000}}, {40, []int64{90500}}, {41, []int64{89000}}, {42, []int64{88000}}}}}}
}

func TestMeansLeaveOutliersOutAndComeLargestFirst(t *testing.T) {
	m := known()
	// For 39, the mean of all is 0.162, so 0.092, 0.094 (over 0.4·0.162 away) and 0.3 are all dropped.
	want := []float64{0.098, 0.0905, 0.089, 0.088}
	if got := m.Models[0].means(0.4); !slices.EqualFunc(got, want, near) {
		t.Errorf("means %v, want %v", got, want)
	}
	want = []float64{0.162, 0.098, 0.0905, 0.089, 0.088}
	if got := m.Models[0].means(10); !slices.EqualFunc(got, want, near) {
		t.Errorf("means %v, want %v", got, want)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9 }

func TestLearning(t *testing.T) {
	for _, tc := range []struct {
		name   string
		o      law.Observation
		before func(*Memory)
		tooFew int
		sizes  []int
	}{
		{"a success above the bound is kept", seen(401, 0.087, 43), nil, 37, []int{38, 39, 40, 41, 42, 43}},
		{"a success at or below the bound lowers it", seen(400, 0.0985, 37), nil, 36, []int{37, 38, 39, 40, 41, 42}},
		{"a violation above the bound raises it", seen(400, 0.101, 39), nil, 39, []int{38, 39, 40, 41, 42}},
		{"a violation below the bound says nothing new", seen(400, 0.101, 36), nil, 37, []int{38, 39, 40, 41, 42}},
		{"the first evaluation of a rate does not teach", seen(400, 0.087, 43), func(m *Memory) { m.Previous = 500 }, 37, []int{38, 39, 40, 41, 42}},
		{"nor does one while replicas start", law.Observation{ArrivalRate: 400, ResponseTime: 0.087, QueueLength: 35, Desired: 44, Ready: 43},
			nil, 37, []int{38, 39, 40, 41, 42}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := known()
			if tc.before != nil {
				tc.before(&m)
			}
			m, _ = Decide(Default(), m, tc.o)
			r := m.Models[0]
			var sizes []int
			for _, s := range r.Sizes {
				sizes = append(sizes, s.Replicas)
			}
			if r.TooFew == nil || *r.TooFew != tc.tooFew || !slices.Equal(sizes, tc.sizes) {
				t.Errorf("learned %+v with sizes %v, want too few %d and sizes %v", r, sizes, tc.tooFew, tc.sizes)
			}
		})
	}
}

func TestTheLastTenResponseTimesAreKept(t *testing.T) {
	m := known()
	for i := range 25 {
		m, _ = Decide(Default(), m, seen(400, 0.09+float64(i)*1e-4, 40))
	}
	kept := m.Models[0].Sizes[2].ResponseMicros
	if len(kept) != 10 || kept[0] != 91500 || kept[9] != 92400 {
		t.Errorf("kept %v, want the last ten, from 91500 to 92400 us", kept)
	}
}

func TestSampling(t *testing.T) {
	five := 5
	for _, tc := range []struct {
		name string
		m    Memory
		y    float64
		n    int
		want int
		says string
	}{
		{"nothing known: the queueing model", Memory{}, 0.09, 45, 38, "first sample"},
		{"bound not known: one below the least", Memory{Previous: 400, Models: []Reference{{ArrivalRate: 400}}}, 0.09, 45, 44, "sampling"},
		{"bound at the next below: one above the most",
			Memory{Previous: 400, Models: []Reference{{ArrivalRate: 400, TooFew: ptr(44)}}}, 0.09, 45, 46, "sampling"},
		{"bound far below: one below the least",
			Memory{Previous: 400, Models: []Reference{{ArrivalRate: 400, TooFew: &five}}}, 0.09, 45, 44, "sampling"},
		{"what the queueing model calls not stable is not tried",
			Memory{Previous: 400, Models: []Reference{{ArrivalRate: 400}}}, 0.09, 35, 36, "sampling"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, d := Decide(Default(), tc.m, seen(400, tc.y, tc.n))
			if d.Replicas != tc.want || !strings.Contains(d.Reasons[0], tc.says) {
				t.Errorf("decides %+v, want %d for %q", d, tc.want, tc.says)
			}
			if m.Input <= 0 || m.Input > 1 {
				t.Errorf("the control input is %v, want one that gives these replicas back", m.Input)
			}
		})
	}
}

func ptr(n int) *int { return &n }

// TestASmallServiceIsNotKeptAtItsMost: the limits allow fewer numbers of replicas than a mature model needs. The
// service behaves as the queueing model predicts, and half of the time is slightly slower. The reference of a large
// service is two replicas above the lowest number that keeps the SLO.
func TestASmallServiceIsNotKeptAtItsMost(t *testing.T) {
	for _, limits := range []law.Limits{{Min: 2, Max: 5}, {Min: 1, Max: 2}, {Min: 1, Max: 4}, {Min: 3, Max: 6}, {Min: 2, Max: 40}} {
		for _, lambda := range []float64{20, 40, 50, 60, 70, 80, 90} {
			c := Default()
			c.Limits = limits
			need, enough := c.Servers(lambda, c.SLO.Seconds())
			if !enough {
				continue
			}
			var m Memory
			n, most := limits.Max, 0
			for i := range 80 {
				var d law.Decision
				y := c.Model.System(n, lambda).Response()
				if y > 1 {
					y = 1
				}
				o := seen(lambda, y*(1+0.02*float64(i%2)), n)
				o.QueueLength = min(c.Model.System(n, lambda).Requests(), 500)
				m, d = Decide(c, m, o)
				if n = d.Replicas; i >= 60 {
					most = max(most, n)
				}
			}
			if most < need || most > need+2 || most == limits.Max && need+1 < limits.Max {
				t.Errorf("within %v at %v/s: up to %d replicas in the end, want %d, or one or two more below the limit: %+v", limits, lambda, most, need, m.Models)
			}
		}
	}
}

// TestNumbersThatWereLeftOutAreSampled covers gaps between known sizes, where no size above them is left.
func TestNumbersThatWereLeftOutAreSampled(t *testing.T) {
	c := Default()
	c.Max = 41
	m := known()
	m.Models[0].Sizes = []Size{m.Models[0].Sizes[0], m.Models[0].Sizes[3]} // 38 and 41
	for _, want := range []int{40, 39} {
		var d law.Decision
		if m, d = Decide(c, m, seen(400, 0.09, 41)); d.Replicas != want || !strings.Contains(d.Reasons[0], "sampling") {
			t.Errorf("decides %+v, want a sample of %d", d, want)
		}
		m, _ = Decide(c, m, seen(400, 0.09, want))
	}
	if _, d := Decide(c, m, seen(400, 0.09, 41)); !strings.Contains(d.Reasons[0], "learned at 400") {
		t.Errorf("decides %+v, want it guided: all four numbers above 37 are known", d)
	}
}

// TestNoRequestIsNoSignOfAnIdleServiceAtOnce: a server that counts requests when they are answered shows the same for a
// service without requests and for one that does not answer.
func TestNoRequestIsNoSignOfAnIdleServiceAtOnce(t *testing.T) {
	c := Default()
	idle := law.Observation{ResponseTime: math.NaN(), Utilization: 0, Desired: 40, Ready: 40}
	with := func(change func(o *law.Observation)) law.Observation {
		o := idle
		change(&o)
		return o
	}
	unready := with(func(o *law.Observation) { o.Ready = 39 })
	busy := with(func(o *law.Observation) { o.Utilization = 80 })
	inside := with(func(o *law.Observation) { o.QueueLength = 3 })
	for _, tc := range []struct {
		name        string
		evaluations []law.Observation
		want        int
		says        string
		doubt       bool
	}{
		{"one evaluation", []law.Observation{idle}, 40, "1 sample, 3 in a row are needed", false},
		{"two evaluations", []law.Observation{idle, idle}, 40, "2 samples, 3 in a row are needed", false},
		{"three evaluations", []law.Observation{idle, idle, idle}, 1, "no requests arrived", false},
		{"and without end after", []law.Observation{idle, idle, idle, idle, idle}, 1, "no requests arrived", false},
		{"requests between", []law.Observation{idle, idle, seen(400, 0.09, 40), idle, idle}, 40, "2 samples, 3 in a row are needed", false},
		{"a queue between", []law.Observation{idle, idle, inside, idle, idle}, 40, "2 samples, 3 in a row are needed", false},
		{"fewer are Ready than before", []law.Observation{idle, idle, unready}, 40, "1 of the 40 replicas that answered before and are still requested is not Ready", true},
		{"they became unready one after the other", []law.Observation{
			{ArrivalRate: 300, ResponseTime: 0.09, QueueLength: 27, Desired: 40, Ready: 38}, {ArrivalRate: 100, ResponseTime: 0.09, QueueLength: 9, Desired: 40, Ready: 37},
			with(func(o *law.Observation) { o.Ready = 37 }), with(func(o *law.Observation) { o.Ready = 37 }), with(func(o *law.Observation) { o.Ready = 37 }),
		}, 40, "3 of the 40 replicas", true},
		{"some had not started", []law.Observation{
			{ArrivalRate: 400, ResponseTime: 0.09, QueueLength: 36, Desired: 44, Ready: 40}, with(func(o *law.Observation) { o.Desired = 44 }),
			with(func(o *law.Observation) { o.Desired = 44 }), with(func(o *law.Observation) { o.Desired = 44 }),
		}, 1, "no requests arrived", false},
		{"however long", []law.Observation{unready, unready, unready, unready, unready}, 40, "is not Ready", true},
		{"they are busy", []law.Observation{busy, busy, busy, busy}, 40, "80 % busy", true},
		{"somebody has scaled in", []law.Observation{idle, idle, with(func(o *law.Observation) { o.Desired, o.Ready = 5, 5 })}, 1, "no requests arrived", false},
		{"the queue is not known", []law.Observation{idle, idle, with(func(o *law.Observation) { o.QueueLength = math.NaN() })}, 40, "no queue length was measured", false},
		{"the rate is not known", []law.Observation{idle, idle, with(func(o *law.Observation) { o.ArrivalRate = math.NaN() })}, 40, "no arrival rate was measured", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, _ := Decide(c, known(), seen(400, 0.09, 40))
			var d law.Decision
			for _, o := range tc.evaluations {
				m, d = Decide(c, m, o)
			}
			if d.Replicas != tc.want || d.Held != (tc.want == 40) || (d.Doubt != "") != tc.doubt || !strings.Contains(d.Reasons[0], tc.says) {
				t.Errorf("decides %+v, want %d for %q", d, tc.want, tc.says)
			}
		})
	}
}

// TestControlByHand computes one step with the values of known: W_r = 0.089 (the third largest of 0.098, 0.0905, 0.089,
// 0.088).
func TestControlByHand(t *testing.T) {
	c := Default()
	w := func(n int) float64 { return c.Model.System(n, 400).Response() }
	down, up := w(1000), (w(37)+w(36))/2
	for _, tc := range []struct {
		name string
		y    float64
		gain func(u float64) float64
	}{
		{"slower than the reference", 0.095, func(u float64) float64 { return math.Min((u-down)/(0.095-0.088), 1) }},
		{"quicker than the reference", 0.0885, func(u float64) float64 { return math.Min((up-u)/(0.098-0.0885), 1) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// Use a neighbouring rate, so that the sample is not added.
			m := known()
			m.Previous = 0
			got, d := Decide(c, m, seen(400, tc.y, 40))
			want := 0.092 + 0.15*tc.gain(0.092)*(0.089-tc.y)
			if !near(got.Input, want) {
				t.Errorf("control input %v, want %v", got.Input, want)
			}
			if w(d.Replicas) > want || w(d.Replicas-1) <= want {
				t.Errorf("%d replicas are not the least that keep %v s", d.Replicas, want)
			}
		})
	}
}

func TestAMatureModelGuidesWithinItsReachOnly(t *testing.T) {
	for rate, guided := range map[float64]bool{419: true, 381: true, 421: false, 379: false} {
		_, d := Decide(Default(), known(), seen(rate, 0.09, 42))
		if got := strings.Contains(d.Reasons[0], "learned at 400"); got != guided {
			t.Errorf("at %v/s: %v, want guided %v", rate, d.Reasons, guided)
		}
	}
}

func TestOverload(t *testing.T) {
	c := Default()
	for _, tc := range []struct {
		name string
		o    law.Observation
		want func(n int) bool
		says string
	}{
		{"replicas that cannot keep up", seen(400, 0.09, 30), func(n int) bool { return n >= 37 && n <= 40 }, "cannot serve"},
		{"a line ten times too long: it is worked off in ten seconds",
			law.Observation{ArrivalRate: 400, ResponseTime: 0.09, QueueLength: 2000, Desired: 38, Ready: 38},
			// mu = 11.707: 2000 - L_s requests in 10 s need 17 more
			func(n int) bool { return n == 38+17 }, "more than 10 times"},
		{"response above any stable queue's", seen(400, 0.5, 39), func(n int) bool { return n >= 40 }, "above that of any stable queue"},
		{"a past that weighs too much for any number", seen(400, 5, 39), func(n int) bool { return n >= 40 && n < 300 }, "longer"},
		{"one more than on their way, but not while they come", law.Observation{ArrivalRate: 400, ResponseTime: 0.6, QueueLength: 35, Desired: 60, Ready: 40},
			func(n int) bool { return n == 60 }, "above that of any"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, d := Decide(c, Memory{}, tc.o)
			if !tc.want(d.Replicas) {
				t.Errorf("decides %+v", d)
			}
			if tc.says != "longer" && !strings.Contains(d.Reasons[0], tc.says) {
				t.Errorf("says %q, want %q", d.Reasons, tc.says)
			}
			if tc.o.Ready == tc.o.Desired && (m.Models[0].TooFew == nil || *m.Models[0].TooFew != tc.o.Ready) {
				t.Errorf("bound %v, want the Ready replicas", m.Models[0].TooFew)
			}
		})
	}
}

func TestAnSLOOutOfReachIsSaidWithWhatIsReachable(t *testing.T) {
	_, d := Decide(Default(), Memory{}, seen(900, 0.11, 120))
	if all := strings.Join(d.Reasons, "; "); !strings.Contains(all, "0.1 s cannot be achieved at 900") || !strings.Contains(all, "takes 0.105") || d.Held {
		t.Errorf("decides %+v, want it to keep the queue short and name 0.105 s", d)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	c := Default()
	c.MaxModels = 10
	var m Memory
	for i := range 500 {
		m, _ = Decide(c, m, seen(50+float64(i%60)*10, 0.09, 60))
	}
	if len(m.Models) != 10 {
		t.Errorf("%d models are kept, want 10", len(m.Models))
	}
	if !slices.IsSortedFunc(m.Models, func(a, b Reference) int { return int(a.ArrivalRate - b.ArrivalRate) }) {
		t.Error("the models are not in the order of their rates")
	}
	for i := 1; i < len(m.Models); i++ {
		if m.Models[i].ArrivalRate-m.Models[i-1].ArrivalRate < c.Gap {
			t.Errorf("models at %v and %v are nearer than the gap", m.Models[i-1].ArrivalRate, m.Models[i].ArrivalRate)
		}
	}
	text, err := json.Marshal(m)
	if err != nil || len(text) > 20_000 {
		t.Errorf("the memory is %d bytes of JSON (%v)", len(text), err)
	}
}

func TestConstantsOutOfRangeAreRefusedAtOnce(t *testing.T) {
	err := Config{Goal: law.DefaultGoal(), Reach: -1, Gain: 2}.Validate()
	for _, field := range []string{"gap", "reach", "keep", "spread", "rank", "gain", "queue factor", "response factor", "drain time", "quiet evaluations", "models"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v, want it to name %s", err, field)
		}
	}
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}
