//go:build replicas

package replicas

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/inversequeue"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/predictive"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/lab/replicas/hpa"
)

var (
	report = flag.String("report", "", "JSON `file` to write its outcome to")
	lasts  = flag.Duration("lasts", 48*time.Second, "how long each law is tried")
)

// The settings of the comparison. Default times of laws are divided by the compression of the series. HPA
// decides every second, because a shorter period yields no usable CPU measurement.
//
// The time in which InverseQueue works off a queue is divided too. The queue has built up within one control
// interval, so InverseQueue orders replicas in proportion to the load only if that time keeps its proportion
// to the interval. With a longer time it would order too few. Predictive decides ten times in an interval: on
// that scale a queue is more often chance than a crowd, since requests take as long as without compression.
const (
	sloFactor   = 1.6             // of the time in which a busy replica serves one request
	interval    = 4 * time.Second // 250 s
	hpaInterval = time.Second     // 15 s
	hpaTarget   = 80              // percent: Kubernetes' default
	hpaSettles  = 5 * time.Second // 5 min
	drain       = interval / 25   // 10 s, of InverseQueue
	ourDrain    = time.Second     // 10 s
	minReplicas = 1
	maxReplicas = 12 // 0.6 cores
	first       = 4
	grown       = 7 // the crowd needs at least this number
	disturbed   = 5 // percent of CPU time stolen, above which results say little about laws
)

// promise returns the SLO, and the parameters of a replica in the queueing model for a measured service rate.
func promise(mu float64) law.Goal {
	return law.Goal{Limits: law.Limits{Min: minReplicas, Max: maxReplicas}, SLO: time.Duration(sloFactor / mu * float64(time.Second)).Round(time.Millisecond),
		Model: queueing.Model{MuB: mu}, Interval: interval, MaxAge: time.Minute}
}

// laws returns the compared laws.
func laws(t *testing.T, goal law.Goal) []law.Law {
	t.Helper()
	inverse := inversequeue.Default()
	inverse.Goal, inverse.DrainTime = goal, drain
	ours := predictive.For(goal)
	ours.DrainTime = ourDrain
	stock := hpa.Default()
	stock.Limits, stock.Target, stock.Interval, stock.Stabilization = goal.Limits, hpaTarget, hpaInterval, hpaSettles
	made := make([]law.Law, 3)
	var errs [3]error
	made[0], errs[0] = inversequeue.New(inverse)
	made[1], errs[1] = predictive.New(ours)
	made[2], errs[2] = hpa.New(stock)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return made
}

func TestLawsScaleRealProcessesBehindNginx(t *testing.T) {
	hurry(t)
	program := buildService(t)
	requests, err := arrivals(*lasts)
	if err != nil {
		t.Fatal(err)
	}
	document := struct {
		ServiceRate float64   `json:"serviceRatePerSecond"`
		SLOSeconds  float64   `json:"sloSeconds"`
		Laws        []outcome `json:"laws"`
	}{}
	t.Run("service rate", func(t *testing.T) { document.ServiceRate = round(serviceRate(t, program)) })
	if t.Failed() {
		return
	}
	goal := promise(document.ServiceRate)
	document.SLOSeconds = goal.SLO.Seconds()
	for _, l := range laws(t, goal) {
		t.Run(l.Name(), func(t *testing.T) {
			document.Laws = append(document.Laws, try(t, program, l, goal.SLO, requests))
		})
	}
	t.Run("policy", func(t *testing.T) {
		document.Laws = append(document.Laws, tryPolicy(t, program, goal, requests))
	})
	t.Run("stock", func(t *testing.T) {
		document.Laws = append(document.Laws, tryStock(t, program, goal, requests))
	})
	for _, o := range document.Laws {
		t.Logf("%-23s %5.1f %% of windows over %v, %5.2f %% of requests slow, mean %.3f s, 95 %% %.3f s; %6.1f replica-seconds, %d actions, %d to %d replicas; %v, late %.3f s; machine busy %.0f %%, stolen %.0f %%",
			o.Law, o.SLOViolationPercent, goal.SLO, o.SlowRequestsPercent, o.MeanResponseSeconds, o.P95ResponseSeconds, o.ReplicaSeconds, o.ScalingActions, o.MinReplicas, o.MaxReplicas, o.Statuses, o.GeneratorLateSeconds,
			o.MachineBusyPercent, o.MachineStolenPercent)
	}
	if *report != "" {
		text, err := json.MarshalIndent(document, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(*report, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// serviceRate measures the requests per second of one replica that is always busy.
func serviceRate(t *testing.T, program string) float64 {
	p := newPool(t, program, 1)
	requests, err := arrivals(*lasts)
	if err != nil {
		t.Fatal(err)
	}
	// All at once. The work of this sample differs from the mean work.
	n := min(lineLength/2, len(requests))
	var work, all time.Duration
	for i, r := range requests {
		all += r.work
		if i < n {
			work += r.work
			requests[i].at = 0
		}
	}
	begin := time.Now()
	got := send(t.Context(), p.balancer.listen, begin, requests[:n])
	took := time.Since(begin)
	if got.Statuses[200] != n {
		t.Fatalf("answers %v, error %v: want %d of 200", got.Statuses, got.Fault, n)
	}
	return work.Seconds() / took.Seconds() / (all.Seconds() / float64(len(requests)))
}

// try replays the load against a service that a law scales.
func try(t *testing.T, program string, l law.Law, slo time.Duration, requests []arrival) outcome {
	p := newPool(t, program, first)
	s := newSight(t, p)
	if err := s.follow.Poll(); err != nil { // reading begins here
		t.Fatal(err)
	}
	before := readMachine(t)
	begin := time.Now().Add(time.Second)
	s.last = begin
	p.busy() // measure from here on
	steering, stop := context.WithCancel(t.Context())
	ended := make(chan *answers, 1)
	go func() {
		ended <- send(t.Context(), p.balancer.listen, begin, requests)
		stop()
	}()
	steps, err := steer(steering, s, l, begin)
	stop()
	got := <-ended
	if err != nil {
		t.Fatal(err)
	}
	o := s.outcome(t, got, steps, readMachine(t), before, begin, slo, len(requests))
	o.Law, o.ScalingActions = l.Name(), p.actions
	return o
}

// outcome waits for the rest of the log, and summarizes a run that has just ended.
func (s *sight) outcome(t *testing.T, got *answers, steps []step, now, before machine, begin time.Time, slo time.Duration, sent int) outcome {
	t.Helper()
	if err := until(t.Context(), "all requests are in the log", func() (bool, error) {
		err := s.follow.Poll()
		return len(s.all) >= sent, err
	}); err != nil {
		t.Errorf("%v: %d requests were sent, and %d are in nginx's log", err, sent, len(s.all))
	}
	o := judge(s.all, begin, slo)
	o.Evaluations, o.GeneratorLateSeconds = steps, round(got.Late.Seconds())
	o.ReplicaSeconds, o.StartUpSeconds = round(s.pool.cost(begin, begin.Add(*lasts)).Seconds()), round(s.pool.startUp().Seconds())
	o.MachineBusyPercent, o.MachineStolenPercent = now.since(before)
	o.MinReplicas = first
	for _, step := range steps {
		o.MinReplicas, o.MaxReplicas = min(o.MinReplicas, step.Decided), max(o.MaxReplicas, step.Decided)
	}
	account(t, s, got, o, sent)
	return o
}

// account checks that no request was lost.
func account(t *testing.T, s *sight, got *answers, o outcome, sent int) {
	t.Helper()
	answered := 0
	for _, n := range got.Statuses {
		answered += n
	}
	if answered != sent {
		t.Errorf("%d requests were sent, and clients got %v", sent, got.Statuses)
	}
	if got.Fault != nil {
		t.Errorf("a request got no answer: %v", got.Fault)
	}
	if s.lost > 0 || o.Requests != sent {
		t.Errorf("%d requests were sent; nginx's log has %d, and %d lines that cannot be read", sent, o.Requests, s.lost)
	}
	// A client timeout, 0 here, is 499 in the log, or has just been answered there.
	for status, n := range got.Statuses {
		if status != 0 && n > o.Statuses[status] {
			t.Errorf("clients got %v, and nginx's log has %v", got.Statuses, o.Statuses)
		}
	}
	for status := range o.Statuses {
		if status != 200 && status != 499 && status != 503 {
			t.Errorf("status %d among %v: want answers, full lines and clients that gave up", status, o.Statuses)
		}
	}
	if o.MaxReplicas < grown {
		t.Errorf("at most %d replicas: want %d or more in the crowd", o.MaxReplicas, grown)
	}
	// If the host steals much CPU time, the queue may persist to the end.
	if !shrinks(o.Evaluations) && o.MachineStolenPercent < disturbed {
		t.Errorf("%d replicas at most, and at no evaluation after that fewer: want fewer after the crowd", o.MaxReplicas)
	}
}

// shrinks reports whether the replicas decrease after the peak of the crowd. At the last decision they may
// increase again because of a random queue.
func shrinks(evaluations []step) bool {
	most := 0
	for _, l := range evaluations {
		if most >= grown && l.Decided < most {
			return true
		}
		most = max(most, l.Decided)
	}
	return false
}
