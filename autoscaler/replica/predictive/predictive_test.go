package predictive

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// service is in equilibrium with the desired replicas immediately; speed is its speed relative to the law's model.
type service struct {
	c        Config
	speed    float64
	m        Memory
	at       time.Time
	replicas int
	last     law.Decision
}

func newService(c Config, speed float64, replicas int) *service {
	return &service{c: c, speed: speed, at: start, replicas: replicas}
}

// run simulates control intervals at a rate and returns the number of replicas at their end.
func (s *service) run(intervals int, rate func(i int) float64) int {
	for i := range intervals * 10 {
		lambda := rate(i / 10)
		q := queueing.System{Servers: s.replicas, ArrivalRate: lambda, ServiceRate: s.speed * s.c.Model.ServiceRate(lambda)}
		o := law.Observation{At: s.at, ArrivalRate: lambda, ResponseTime: min(q.Response(), 10), QueueLength: min(q.Requests(), 500*float64(s.replicas)),
			Desired: s.replicas, Ready: s.replicas, StartUp: 5 * time.Second}
		s.m, s.last = Decide(s.c, s.m, o)
		s.replicas = s.last.Replicas
		s.at = s.at.Add(s.last.Next)
	}
	return s.replicas
}

func constant(lambda float64) func(int) float64 { return func(int) float64 { return lambda } }

func TestASteadyRateGetsTheLeastThatKeepsTheSLO(t *testing.T) {
	s := newService(For(law.DefaultGoal()), 1, 60)
	if n := s.run(200, constant(400)); n != 38 { // W(37) = 0.1015 s, W(38) = 0.0948 s
		t.Errorf("%d replicas, want 38", n)
	}
}

func TestAServiceSlowerThanTheModelIsLearned(t *testing.T) {
	for speed, want := range map[float64]int{0.9: 46, 1.2: 31} {
		s := newService(For(law.DefaultGoal()), speed, 50)
		n := s.run(300, constant(300))
		if !(math.Abs(s.m.Speed-speed) < 0.01) {
			t.Errorf("learned speed %v, want %v", s.m.Speed, speed)
		}
		mu := speed * s.c.Model.ServiceRate(300)
		least, err := queueing.Inverse(300, mu, 0.1, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if n < least || n > least+1 {
			t.Errorf("speed %v: %d replicas, want %d or one more (%d of the paper's)", speed, n, least, want)
		}
	}
}

func TestARampIsForeseen(t *testing.T) {
	s := newService(For(law.DefaultGoal()), 1, 20)
	s.run(20, constant(200))
	s.run(30, func(i int) float64 { return 200 + 6*float64(i) })
	rate, _ := forecast(s.m.Smoothers, 1)
	if want := 200.0 + 6*30; !(math.Abs(rate-want) < 8) {
		t.Errorf("forecast %v/s for the coming interval of a ramp, want %v within 8", rate, want)
	}
}

func TestSmoothersByHand(t *testing.T) {
	var smoothers []Smoother
	for _, rate := range []float64{100, 110, 120} {
		smoothers = learnRate(smoothers, rate)
	}
	// The first smoother stays at the last rate and is wrong by 10 twice. The one with full weights for level and trend
	// is wrong by 10 once, and then exact.
	for i, want := range map[int]Smoother{0: {Level: 120, Variance: 100, Samples: 2}, 4: {Level: 120, Trend: 10, Variance: 50, Samples: 2}} {
		if smoothers[i] != want {
			t.Errorf("smoother %d is %+v, want %+v", i, smoothers[i], want)
		}
	}
}

func TestANoisyRateIsNotTakenForATrend(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var smoothers []Smoother
	worst := 0.0
	for i := range 300 {
		smoothers = learnRate(smoothers, 200+40*r.NormFloat64())
		if rate, spread := forecast(smoothers, 1); i > 100 {
			worst = max(worst, math.Abs(rate-200))
			if spread < 20 || spread > 80 {
				t.Fatalf("the error's standard deviation is said to be %v, want about 40", spread)
			}
		}
	}
	if worst > 80 {
		t.Errorf("the forecast is off by %v/s, want it to average the noise", worst)
	}
}

func TestInsideAnIntervalItOnlyScalesOut(t *testing.T) {
	s := newService(For(law.DefaultGoal()), 1, 60)
	s.run(20, constant(400))
	before := s.replicas
	// One more evaluation, which closes the interval.
	s.m, s.last = Decide(s.c, s.m, law.Observation{At: s.at, ArrivalRate: 400, ResponseTime: 0.09, QueueLength: 36, Desired: before, Ready: before})
	s.at = s.at.Add(s.last.Next)
	evaluate := func(lambda, queue float64) law.Decision {
		o := law.Observation{At: s.at, ArrivalRate: lambda, ResponseTime: 0.09, QueueLength: queue, Desired: before, Ready: before}
		_, d := Decide(s.c, s.m, o)
		return d
	}
	if d := evaluate(100, 10); d.Replicas != before {
		t.Errorf("a falling rate: %+v, want %d still", d, before)
	}
	if d := evaluate(600, 60); d.Replicas <= before || !strings.Contains(d.Reasons[0], "exceed what") {
		t.Errorf("a rate that outgrew them: %+v, want more than %d", d, before)
	}
	edge := 400.0 // the highest rate at which they keep the SLO
	for s.c.system(s.m, before, edge+1).Response() <= 0.1 {
		edge++
	}
	if d := evaluate(edge+2, 40); d.Replicas != before { // the standard deviation is sqrt(edge/25 s), about 4
		t.Errorf("a rate that chance explains: %+v, want %d still", d, before)
	}
	calm, long := evaluate(400, 40), evaluate(400, 1000)
	if calm.Replicas != before || long.Replicas < before+5 {
		t.Errorf("a line of 40 gives %d and one of 1000 %d, want %d and enough to work it off", calm.Replicas, long.Replicas, before)
	}
}

// TestTheMarginKeepsItsBound: while the margin is within its limits, the share of broken intervals differs from the
// configured one by at most MaxMargin/(step·K).
func TestTheMarginKeepsItsBound(t *testing.T) {
	c := For(law.DefaultGoal())
	r := rand.New(rand.NewPCG(4, 4))
	z, broken, k := c.Margin, 0.0, 5000
	for range k {
		// A greater margin makes broken intervals rarer.
		b := r.Float64() < math.Exp(-z)
		if b {
			broken++
		}
		z = c.margin(z, b)
	}
	if share, bound := broken/float64(k), c.MaxMargin/(c.MarginStep*float64(k)); math.Abs(share-c.Violations) > bound {
		t.Errorf("%v of the intervals were broken, want %v within %v", share, c.Violations, bound)
	}
}

func TestAfterALongAbsenceItBeginsANewIntervalAndForgetsNothing(t *testing.T) {
	s := newService(For(law.DefaultGoal()), 1.1, 60)
	s.run(60, constant(300))
	learned, replicas := s.m, s.replicas
	for _, away := range []time.Duration{time.Hour, -time.Hour} { // a restart, and a changed clock
		at := s.at.Add(away)
		m, d := Decide(s.c, learned, law.Observation{At: at, ArrivalRate: 300, ResponseTime: 0.09, QueueLength: 27, Desired: replicas, Ready: replicas})
		if d.Replicas != replicas || m.Speed != learned.Speed || !m.Present.Began.Equal(at) || m.Present.Whole.Requests != 0 {
			t.Errorf("after %v: %+v and %+v, want %d replicas, the speed learned and a new interval", away, d, m, replicas)
		}
	}
	text, err := json.Marshal(learned)
	if err != nil || len(text) > 2000 {
		t.Errorf("the memory is %d bytes of JSON (%v), want it small", len(text), err)
	}
}

func TestAnSLOOutOfReachIsSaidWithWhatIsReachable(t *testing.T) {
	s := newService(For(law.DefaultGoal()), 1, 150)
	s.run(60, constant(900))
	if all := strings.Join(s.last.Reasons, "; "); !strings.Contains(all, "0.1 s cannot be achieved at") {
		s.run(1, constant(900))
	}
	_, note := s.c.servers(Memory{Speed: 1}, 900)
	if !strings.Contains(note, "0.1 s cannot be achieved at 900") || !strings.Contains(note, "takes 0.105") {
		t.Errorf("it says %q, want the least that can be reached, 0.105 s", note)
	}
	stable := queueing.LeastStable(900, s.c.Model.ServiceRate(900))
	if s.replicas < stable || s.replicas > stable+60 {
		t.Errorf("%d replicas, want a little over the %d that keep up", s.replicas, stable)
	}
}

func TestConstantsOutOfRangeAreRefusedAtOnce(t *testing.T) {
	err := Config{Goal: law.DefaultGoal(), SpeedWeight: -1, Headroom: 2}.Validate()
	for _, field := range []string{"watch", "violations", "maximum margin", "margin step", "speed weight", "headroom", "queue factor", "drain time"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v, want it to name %s", err, field)
		}
	}
	if err := For(law.DefaultGoal()).Validate(); err != nil {
		t.Error(err)
	}
}
