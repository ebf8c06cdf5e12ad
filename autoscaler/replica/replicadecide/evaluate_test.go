package replicadecide

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/law"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// answers are the measurements of a service with the given values.
func answers(at time.Time, rate, response, queue, utilization float64) []Answer {
	return []Answer{
		{Measurement: ArrivalRate, Value: rate, At: at}, {Measurement: ResponseTime, Value: response, At: at},
		{Measurement: QueueLength, Value: queue, At: at}, {Measurement: Utilization, Value: utilization, At: at},
	}
}

// steady is a service of n replicas with 100 requests/s.
func steady(at time.Time, n int) Seen {
	return Seen{Now: at, Spec: n, Ready: n, StartUp: 5 * time.Second, Answers: answers(at, 100, 0.12, 12, 1000/float64(n))}
}

func fresh(t testing.TB, p *Policy) law.Memory {
	t.Helper()
	m, err := p.Recall(nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWhatASourceAnswers(t *testing.T) {
	for _, tc := range []struct {
		name    string
		samples []Sample
		err     error
		want    float64
		fault   string
	}{
		{"one sample", []Sample{{Value: 3, At: start}}, nil, 3, ""},
		{"no answer", nil, errors.New("ask x: no answer within 1s"), math.NaN(), "no answer within 1s"},
		{"no series", nil, nil, math.NaN(), "no series"},
		{"two series", []Sample{{Value: 3}, {Value: 4}}, nil, math.NaN(), "2 series, must be one"},
		{"not a number", []Sample{{Value: math.NaN()}}, nil, math.NaN(), "not a number"},
		{"infinite, which the law refuses", []Sample{{Value: math.Inf(1)}}, nil, math.Inf(1), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := Read(ArrivalRate, start, tc.samples, nil, tc.err)
			if same := a.Value == tc.want || math.IsNaN(a.Value) && math.IsNaN(tc.want); !same || !strings.Contains(a.Fault, tc.fault) || (tc.fault == "") != (a.Fault == "") {
				t.Errorf("%+v", a)
			}
		})
	}
}

func TestBadDataFromTheWorldIsHeld(t *testing.T) {
	nan := math.NaN()
	for name, spoil := range map[string]func(*Seen){
		"source down": func(s *Seen) {
			for i := range s.Answers {
				s.Answers[i] = Read(s.Answers[i].Measurement, s.Now, nil, nil, errors.New("connection refused"))
			}
		},
		"not a number":     func(s *Seen) { s.Answers = answers(s.Now, nan, nan, nan, nan) },
		"stale":            func(s *Seen) { s.Answers = answers(s.Now.Add(-2*time.Minute), 100, 0.12, 12, 50) },
		"a reset counter":  func(s *Seen) { s.Answers = answers(s.Now, -5, 0.12, 12, -5) },
		"infinite":         func(s *Seen) { s.Answers = answers(s.Now, math.Inf(1), 0.12, 12, math.Inf(1)) },
		"a clock set back": func(s *Seen) { s.Now = s.Now.Add(-time.Hour) },
		"nothing Ready":    func(s *Seen) { s.Ready = 0 },
		"nothing asked":    func(s *Seen) { s.Answers = nil },
	} {
		for _, kind := range laws {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				p := sound(t, kind)
				m, at := fresh(t, p), start
				for range 4 {
					m, _ = p.Evaluate(m, steady(at, 20))
					at = at.Add(100 * time.Second)
				}
				before, _ := json.Marshal(m)
				s := steady(at, 20)
				spoil(&s)
				m, out := p.Evaluate(m, s)
				after, _ := json.Marshal(m)
				if !out.Held || out.Missing == "" || out.Changes() || out.Replicas != 20 || string(before) != string(after) {
					t.Errorf("%+v, want 20 replicas held and the memory as it was", out)
				}
				if out.Next > retry {
					t.Errorf("it is looked again after %v, want %v at most", out.Next, retry)
				}
				c := p.Conditions(&OtherScalers{}, &out)
				if c[1].Type != v1alpha1.PolicyMeasured || c[1].True || !strings.Contains(c[1].Message, out.Missing) {
					t.Errorf("the condition says %+v", c[1])
				}
			})
		}
	}
}

// TestALawThatKnowsEnoughScalesOut: one missing measurement does not stop a law that sees by the others that there are too
// few replicas. It neither scales in nor learns, and says what is missing.
func TestALawThatKnowsEnoughScalesOut(t *testing.T) {
	nan := math.NaN()
	for name, some := range map[string]func(rate float64, at time.Time) []Answer{
		"no response time":             func(rate float64, at time.Time) []Answer { return answers(at, rate, nan, 12, 50) },
		"no queue length":              func(rate float64, at time.Time) []Answer { return answers(at, rate, 0.12, nan, 50) },
		"only the arrival rate":        func(rate float64, at time.Time) []Answer { return answers(at, rate, nan, nan, nan) },
		"an impossible response time":  func(rate float64, at time.Time) []Answer { return answers(at, rate, -1, 12, 50) },
		"a response time of no moment": func(rate float64, at time.Time) []Answer { return answers(at, rate, math.Inf(1), 12, 50) },
	} {
		for _, kind := range []v1alpha1.ReplicaLaw{v1alpha1.LawPredictive, v1alpha1.LawInverseQueue} {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				p := sound(t, kind)
				m, _ := p.Evaluate(fresh(t, p), steady(start, 20))
				for rate, grows := range map[float64]bool{100: false, 50: false, 1000: true} {
					at := start.Add(time.Minute)
					after, out := p.Evaluate(m, Seen{Now: at, Spec: 20, Ready: 20, Answers: some(rate, at)})
					if grown := out.Replicas == 40; grown != grows || out.Held == grows || out.Replicas < 20 {
						t.Errorf("%v requests/s: %+v, want it to scale out to the most: %v", rate, out, grows)
					}
					if out.Held && out.Next > retry || !out.Held && out.Next < 10*time.Second {
						t.Errorf("%v requests/s: evaluated again after %v", rate, out.Next)
					}
					if !reflect.DeepEqual(after, m) {
						t.Errorf("%v requests/s: it learns %+v", rate, after)
					}
					c := p.Conditions(&OtherScalers{}, &out)[1]
					if c.True || !strings.Contains(c.Message, out.Missing) || strings.Contains(c.Message, "only scales out") != grows {
						t.Errorf("%v requests/s: the condition says %+v", rate, c)
					}
				}
			})
		}
	}
}

// TestAPartOfTheDataIsNoReasonToScaleIn: a source that warns has part of the data, and rates are too low. The law scales
// out by them, but neither scales in nor learns.
func TestAPartOfTheDataIsNoReasonToScaleIn(t *testing.T) {
	for _, kind := range laws {
		p := sound(t, kind)
		m, at := fresh(t, p), start
		for range 40 {
			m, _ = p.Evaluate(m, steady(at, 20))
			at = at.Add(10 * time.Second)
		}
		for rate, grows := range map[float64]bool{20: false, 190: true, 0: false} {
			spec, memory := 20, m
			for i := range 40 {
				now := at.Add(time.Duration(i) * 10 * time.Second)
				s := steady(now, spec)
				s.Answers = answers(now, rate, 0.11+rate/1000, rate*0.12, 100*rate/float64(10*spec))
				s.Answers[0].Warnings = []string{"a store is away"}
				var out Outcome
				if memory, out = p.Evaluate(memory, s); out.Replicas < spec {
					t.Fatalf("%s at %v requests/s: from %d to %d: %q", kind, rate, spec, out.Replicas, out.Reasons)
				}
				if c := p.Conditions(&OtherScalers{}, &out)[1]; c.True || !strings.Contains(c.Message, "a store is away") {
					t.Fatalf("%s at %v requests/s: the condition says %+v", kind, rate, c)
				}
				spec = out.Replicas
			}
			if (spec > 20) != grows && kind != v1alpha1.LawDoubleThreshold || !reflect.DeepEqual(memory, m) {
				t.Errorf("%s at %v requests/s: %d replicas, memory %+v", kind, rate, spec, memory)
			}
		}
	}
}

// TestReplicasThatWouldNotHelpAreSaid: every response takes 200 ms longer because of another service, and the status
// says so.
func TestReplicasThatWouldNotHelpAreSaid(t *testing.T) {
	for _, tc := range []struct {
		name              string
		rate, extra, busy float64
		ready             int
		says              bool
	}{
		{"a slow dependency", 100, 0.2, 50, 20, true},
		{"none", 100, 0, 50, 20, false},
		{"busy by the model", 150, 0.2, 50, 20, false},
		{"busy as measured", 100, 0.2, 90, 20, false},
		{"too few by the model", 100, 0.2, 50, 9, false},
		{"utilisation is not measured", 100, 0.2, math.NaN(), 20, true},
	} {
		for _, kind := range []v1alpha1.ReplicaLaw{v1alpha1.LawInverseQueue, v1alpha1.LawPredictive} {
			p := sound(t, kind)
			s := steady(start, tc.ready)
			s.Answers = answers(start, tc.rate, 0.11+tc.extra, tc.rate*(0.11+tc.extra), tc.busy)
			_, out := p.Evaluate(fresh(t, p), s)
			if says := strings.Contains(strings.Join(out.Notes, "; "), "more replicas may not help"); says != tc.says {
				t.Errorf("%s, %s: notes %q, want it said: %v", tc.name, kind, out.Notes, tc.says)
			}
		}
	}
	if p := sound(t, v1alpha1.LawDoubleThreshold); p.slowElsewhere(law.Observation{ArrivalRate: 100, ResponseTime: 10, Ready: 20, Utilization: 10}) != "" {
		t.Error("a policy without an SLO says that it is broken")
	}
}

func TestTheSourcesFaultIsToldInTheCondition(t *testing.T) {
	p := sound(t, v1alpha1.LawPredictive)
	s := steady(start, 20)
	s.Answers[0] = Read(ArrivalRate, start, nil, []string{"a store is away"}, errors.New("no answer within 3s"))
	_, out := p.Evaluate(fresh(t, p), s)
	c := p.Conditions(&OtherScalers{}, &out)[1]
	for _, says := range []string{"no arrival rate was measured", "arrivalRate: no answer within 3s", "warning of the source: a store is away"} {
		if !strings.Contains(c.Message, says) {
			t.Errorf("the condition says %q, want %q in it", c.Message, says)
		}
	}
}

func TestNoRequestsAreNoFault(t *testing.T) {
	p := sound(t, v1alpha1.LawInverseQueue, func(s *v1alpha1.ReplicaPolicySpec) { s.Metrics.Queries.QueueLength = "" })
	s := steady(start, 20)
	s.Answers = []Answer{{Measurement: ArrivalRate, At: start}, Read(ResponseTime, start, []Sample{{Value: math.NaN()}}, nil, nil)}
	m, out := p.Evaluate(fresh(t, p), s)
	for range 2 {
		m, out = p.Evaluate(m, s)
	}
	if out.Missing != "" || out.Replicas != 2 {
		t.Errorf("%+v, want the least replicas at the third evaluation", out)
	}
	s.Spec, s.Ready = 2, 2
	if _, out = p.Evaluate(m, s); out.Missing != "" || out.Held || out.Changes() {
		t.Errorf("%+v, want it to stay", out)
	}
}

// TestAServiceThatDoesNotAnswerIsNotTakenForIdle: requests are counted when they are answered, so a service whose
// replicas have just become unready shows none.
func TestAServiceThatDoesNotAnswerIsNotTakenForIdle(t *testing.T) {
	for _, kind := range laws {
		p := sound(t, kind)
		m, _ := p.Evaluate(fresh(t, p), steady(start, 20))
		for i := range 40 {
			at := start.Add(time.Duration(i+1) * 10 * time.Second)
			var out Outcome
			m, out = p.Evaluate(m, Seen{Now: at, Spec: 20, Ready: 12, Stuck: min(i, 8), Answers: answers(at, 0, math.NaN(), 0, 0)})
			c := p.Conditions(&OtherScalers{}, &out)[1]
			if out.Changes() || out.Next > retry || c.True || !strings.Contains(c.Message, "8 of the 20 replicas that answered before and are still requested are not Ready") {
				t.Fatalf("%s, evaluation %d: %+v, condition %+v, want 20 replicas held and said why", kind, i, out, c)
			}
		}
		for i := range 40 { // they are Ready again, and there really are no requests
			at := start.Add(500*time.Second + time.Duration(i)*100*time.Second)
			var out Outcome
			if m, out = p.Evaluate(m, Seen{Now: at, Spec: 20, Ready: 20, Answers: answers(at, 0, math.NaN(), 0, 0)}); out.Replicas == 2 {
				break
			} else if i == 39 {
				t.Errorf("%s: %+v, want the least replicas", kind, out)
			}
		}
	}
}

// TestWhatIsMissingIsTheSameForThePolicyAndItsLaw: if a law holds because of a missing measurement, the policy never
// reports that everything was measured.
func TestWhatIsMissingIsTheSameForThePolicyAndItsLaw(t *testing.T) {
	nan := math.NaN()
	for _, kind := range []v1alpha1.ReplicaLaw{v1alpha1.LawInverseQueue, v1alpha1.LawPredictive} {
		for _, a := range [][]Answer{
			answers(start, 0, nan, 0, 0), answers(start, 0, nan, nan, 0), answers(start, 0, 0.1, 5, 0), answers(start, 0, nan, -1, 0),
			answers(start, 100, nan, 0, 0), answers(start, 100, 0.1, nan, 0), answers(start, nan, 0.1, 5, 0), answers(start, 100, 0.1, 5, nan),
		} {
			p := sound(t, kind)
			_, out := p.Evaluate(fresh(t, p), Seen{Now: start, Spec: 20, Ready: 20, Answers: a})
			said := len(out.Reasons) > 0 && (strings.Contains(out.Reasons[0], "was measured") || strings.Contains(out.Reasons[0], "impossible"))
			if (out.Missing != "") != said {
				t.Errorf("%s: missing %q, and the law says %q", kind, out.Missing, out.Reasons)
			}
		}
	}
}

func TestWhatIsNotMeasuredIsComputed(t *testing.T) {
	p := sound(t, v1alpha1.LawDoubleThreshold)
	_, out := p.Evaluate(fresh(t, p), Seen{Now: start, Spec: 20, Ready: 20, Answers: []Answer{{Measurement: ArrivalRate, Value: 100, At: start}, {Measurement: ResponseTime, Value: 0.12, At: start}}})
	if out.Observation.Utilization != 50 || math.Abs(out.Observation.QueueLength-12) > 1e-9 || len(out.Notes) != 2 {
		t.Errorf("%+v, notes %q, want a utilisation of 100/(20·10) and a queue of 100·0.12", out.Observation, out.Notes)
	}
}

func TestWhatIsMeasuredIsNotComputed(t *testing.T) {
	p := sound(t, v1alpha1.LawDoubleThreshold)
	s := Seen{Now: start, Spec: 20, Ready: 20, Answers: answers(start, 100, 0.12, 30, 70)}
	if _, out := p.Evaluate(fresh(t, p), s); out.Observation.QueueLength != 30 || out.Observation.Utilization != 70 || len(out.Notes) > 0 {
		t.Errorf("%+v, notes %q, want the queue of 30 and the utilisation of 70 that were measured", out.Observation, out.Notes)
	}
}

// TestOnlyInModeActTheTargetsSpecCounts: a HorizontalPodAutoscaler that lags behind must not change what the law
// wanted.
func TestOnlyInModeActTheTargetsSpecCounts(t *testing.T) {
	for mode, want := range map[v1alpha1.ReplicaMode]int{v1alpha1.ReplicasAct: 30, v1alpha1.ReplicasObserve: 20, v1alpha1.ReplicasViaHPA: 20} {
		p := sound(t, v1alpha1.LawPredictive, func(s *v1alpha1.ReplicaPolicySpec) { s.Mode = mode })
		s := steady(start, 30)
		s.Desired = 20
		if _, out := p.Evaluate(fresh(t, p), s); out.From != want || out.Observation.Desired != want || out.Replicas != want {
			t.Errorf("%s: %+v, want to continue from %d", mode, out.Decision, want)
		}
		s.Desired = 0
		if _, out := p.Evaluate(fresh(t, p), s); out.From != 30 {
			t.Errorf("%s: the first evaluation continues from %d, want the target's 30", mode, out.From)
		}
	}
}

// TestALawLearnsFromReplicasThatItHasNotAskedFor: a HorizontalPodAutoscaler ignores changes below 10 %, so there may
// permanently be 20 replicas where the law wants 21.
func TestALawLearnsFromReplicasThatItHasNotAskedFor(t *testing.T) {
	for _, kind := range []v1alpha1.ReplicaLaw{v1alpha1.LawInverseQueue, v1alpha1.LawPredictive} {
		p := sound(t, kind, func(s *v1alpha1.ReplicaPolicySpec) { s.Mode = v1alpha1.ReplicasViaHPA })
		after := func(asked, ready, wanted int) string {
			m, at := fresh(t, p), start
			for range 30 {
				s := steady(at, ready)
				s.Spec, s.Desired, s.Answers = asked, wanted, answers(at, 150, 0.15, 22, 75)
				m, _ = p.Evaluate(m, s)
				at = at.Add(10 * time.Second)
			}
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		learned := map[v1alpha1.ReplicaLaw]string{v1alpha1.LawInverseQueue: `"replicas":20`, v1alpha1.LawPredictive: `"speed":0.`}[kind]
		if m := after(20, 20, 21); !strings.Contains(m, learned) {
			t.Errorf("%s has learned nothing of 20 replicas that serve, where it wants 21: %s", kind, m)
		}
		if m := after(21, 20, 21); strings.Contains(m, learned) {
			t.Errorf("%s has learned of 20 replicas while one starts: %s", kind, m)
		}
	}
}

// TestWhatAnHPAWouldIgnoreIsRaised: a HorizontalPodAutoscaler keeps 20 replicas where the law wants 21 or 22, within its
// tolerance, and the service would be too slow permanently.
func TestWhatAnHPAWouldIgnoreIsRaised(t *testing.T) {
	for _, kind := range laws {
		for _, tc := range []struct {
			mode      v1alpha1.ReplicaMode
			tolerance float64
			follows   bool
		}{
			{v1alpha1.ReplicasViaHPA, 0.1, true}, {v1alpha1.ReplicasViaHPA, 0.25, true}, {v1alpha1.ReplicasViaHPA, 0, false}, {v1alpha1.ReplicasAct, 0.1, false},
		} {
			p := sound(t, kind, func(s *v1alpha1.ReplicaPolicySpec) { s.Mode = tc.mode })
			m, spec, desired, most := fresh(t, p), 20, 0, 0
			for i := range 60 {
				at := start.Add(time.Duration(i) * 10 * time.Second)
				s := Seen{Now: at, Spec: spec, Ready: spec, Desired: desired, Tolerance: tc.tolerance, StartUp: 5 * time.Second}
				s.Answers = answers(at, 192, 0.105+0.095*20/float64(spec), 30, 100*192.0/float64(10*spec))
				var out Outcome
				m, out = p.Evaluate(m, s)
				desired = out.Replicas
				if raised := strings.Contains(strings.Join(out.Reasons, " "), "ignores changes"); raised && !tc.follows || raised && desired > 26 {
					t.Fatalf("%s %s %v: %d: %q", kind, tc.mode, tc.tolerance, desired, out.Reasons)
				}
				if ratio := float64(desired) / float64(spec); tc.mode == v1alpha1.ReplicasAct || ratio > 1+tc.tolerance || ratio < 1-tc.tolerance {
					spec = desired // as the HorizontalPodAutoscaler does
				}
				most = max(most, spec)
			}
			if most < 21 {
				t.Errorf("%s %s with tolerance %v: never more than %d replicas", kind, tc.mode, tc.tolerance, most)
			}
		}
	}
}

func TestATargetScaledToZeroIsLeftUnchanged(t *testing.T) {
	p := sound(t, v1alpha1.LawPredictive)
	s := steady(start, 20)
	s.Spec, s.Ready = 0, 0
	_, out := p.Evaluate(fresh(t, p), s)
	if !out.Off || out.Changes() {
		t.Errorf("%+v", out)
	}
	if c := p.Conditions(&OtherScalers{}, &out)[0]; c.True || c.Reason != "ScaledToZero" {
		t.Errorf("the condition says %+v", c)
	}
}

func TestWhoElseScalesTheTarget(t *testing.T) {
	hpa, follower := Autoscaler{Name: "cpu"}, Autoscaler{Name: "stock", Follows: true}
	for _, tc := range []struct {
		name     string
		mode     v1alpha1.ReplicaMode
		others   OtherScalers
		conflict bool
		ready    string
	}{
		{"alone", v1alpha1.ReplicasAct, OtherScalers{}, false, "Active"},
		{"beside an HPA", v1alpha1.ReplicasAct, OtherScalers{Autoscalers: []Autoscaler{hpa}}, true, "Conflict"},
		{"beside an HPA that would follow", v1alpha1.ReplicasAct, OtherScalers{Autoscalers: []Autoscaler{follower}}, true, "Conflict"},
		{"observing beside an HPA", v1alpha1.ReplicasObserve, OtherScalers{Autoscalers: []Autoscaler{hpa}}, false, "Active"},
		{"observing beside another policy", v1alpha1.ReplicasObserve, OtherScalers{Older: "first"}, false, "Active"},
		{"second of two", v1alpha1.ReplicasAct, OtherScalers{Older: "first"}, true, "Conflict"},
		{"second of two that publish", v1alpha1.ReplicasViaHPA, OtherScalers{Older: "first", Autoscalers: []Autoscaler{follower}}, true, "Conflict"},
		{"followed", v1alpha1.ReplicasViaHPA, OtherScalers{Autoscalers: []Autoscaler{hpa, follower}}, false, "Active"},
		{"not followed", v1alpha1.ReplicasViaHPA, OtherScalers{Autoscalers: []Autoscaler{hpa}}, false, "NoAutoscalerFollows"},
		{"followed by nobody", v1alpha1.ReplicasViaHPA, OtherScalers{}, false, "NoAutoscalerFollows"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := sound(t, v1alpha1.LawPredictive, func(s *v1alpha1.ReplicaPolicySpec) { s.Mode = tc.mode })
			_, out := p.Evaluate(fresh(t, p), steady(start, 20))
			c := p.Conditions(&tc.others, &out)
			if got := c[3]; got.Type != v1alpha1.PolicyConflict || got.True != tc.conflict || (tc.others.Conflict(tc.mode) != "") != tc.conflict {
				t.Errorf("Conflict: %+v, want %v", got, tc.conflict)
			}
			if got := c[0]; got.Type != v1alpha1.PolicyReady || got.Reason != tc.ready || got.True == tc.conflict {
				t.Errorf("Ready: %+v, want %s", got, tc.ready)
			}
		})
	}
}

func TestAtTheMostReplicasThePolicyIsLimited(t *testing.T) {
	p := sound(t, v1alpha1.LawPredictive)
	s := Seen{Now: start, Spec: 20, Ready: 20, Answers: answers(start, 1000, 4, 5000, 400)}
	_, out := p.Evaluate(fresh(t, p), s)
	if c := p.Conditions(&OtherScalers{}, &out)[2]; out.Replicas != 40 || !c.True || c.Type != v1alpha1.PolicyLimited {
		t.Errorf("%d replicas, %+v", out.Replicas, c)
	}
}

func TestADecisionSaysWhatItExpectsAndItsOutcome(t *testing.T) {
	p := sound(t, v1alpha1.LawPredictive)
	s := Seen{Now: start, Spec: 20, Ready: 20, StartUp: 4600 * time.Millisecond, Answers: answers(start, 250, 2, 500, 125)}
	_, out := p.Evaluate(fresh(t, p), s)
	d := p.DecisionOf(&out)
	if d.From != 20 || int(d.To) <= 25 || d.Expected.ReadySeconds != 5 || d.Expected.ResponseTime == nil || d.Expected.ResponseTime.Duration > 200*time.Millisecond ||
		d.Expected.ResponseTime.Duration < 100*time.Millisecond || d.Observation.ArrivalRate != "250" {
		t.Fatalf("%+v", d)
	}
	at := start.Add(10 * time.Second) // when they are Ready
	later := func(after time.Duration, ready int) *Outcome {
		now := at.Add(after)
		_, o := p.Evaluate(fresh(t, p), Seen{Now: now, Spec: int(d.To), Ready: ready, Answers: answers(now, 240, 0.15, 36, 80)})
		return &o
	}
	missing := later(time.Hour, int(d.To))
	missing.Missing = "no arrival rate"
	for name, o := range map[string]*Outcome{"too soon": later(59*time.Second, int(d.To)), "one is not Ready": later(time.Hour, int(d.To)-1), "not measured": missing} {
		if p.Settle(d, o, at) {
			t.Errorf("%s: it is settled", name)
		}
	}
	if p.Settle(d, later(time.Hour, int(d.To)), time.Time{}) {
		t.Error("never Ready: it is settled")
	}
	if !p.Settle(d, later(time.Minute, int(d.To)), at) || d.Measured.ArrivalRate != "240" || d.Measured.ReadySeconds != 10 || d.Measured.ResponseTime.Duration != 150*time.Millisecond {
		t.Errorf("measured: %+v", d.Measured)
	}
	if p.Settle(d, later(2*time.Hour, int(d.To)), at) {
		t.Error("it is settled twice")
	}
}

func TestMemoryGoesThroughTheStatus(t *testing.T) {
	for _, kind := range laws {
		p := sound(t, kind)
		m, at := fresh(t, p), start
		for range 5 {
			m, _ = p.Evaluate(m, steady(at, 20))
			at = at.Add(100 * time.Second)
		}
		saved, err := p.Save(m, at)
		if err != nil {
			t.Fatal(err)
		}
		again, err := p.Recall(saved)
		if err != nil {
			t.Fatal(err)
		}
		m, one := p.Evaluate(m, steady(at, 20))
		again, two := p.Evaluate(again, steady(at, 20))
		if diff := cmp.Diff(one.Decision, two.Decision); diff != "" {
			t.Errorf("%s: after a restart (-without +with):\n%s", kind, diff)
		}
		a, _ := json.Marshal(m)
		b, _ := json.Marshal(again)
		if string(a) != string(b) {
			t.Errorf("%s: the memory became\n%s, and after a restart\n%s", kind, a, b)
		}
	}
}

func TestMemoryOfSomethingElseIsNotUsed(t *testing.T) {
	p := sound(t, v1alpha1.LawPredictive)
	m := fresh(t, p)
	for i := range 5 {
		m, _ = p.Evaluate(m, steady(start.Add(time.Duration(i)*100*time.Second), 20))
	}
	saved, err := p.Save(m, start)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*v1alpha1.ReplicaPolicySpec){
		"another SLO":      func(s *v1alpha1.ReplicaPolicySpec) { s.SLO.ResponseTime = span1(time.Second) },
		"another service":  func(s *v1alpha1.ReplicaPolicySpec) { s.Service.RatePerReplica = *quantity("11") },
		"another interval": func(s *v1alpha1.ReplicaPolicySpec) { s.Law.Interval = span1(time.Minute) },
		"another law":      func(s *v1alpha1.ReplicaPolicySpec) { s.Law.Name = v1alpha1.LawInverseQueue },
	} {
		other := sound(t, v1alpha1.LawPredictive, change)
		got, err := other.Recall(saved)
		if diff := cmp.Diff(fresh(t, other), got); err != nil || diff != "" {
			t.Errorf("%s: %v, memory (-fresh +got):\n%s", name, err, diff)
		}
	}
	limits := sound(t, v1alpha1.LawPredictive, func(s *v1alpha1.ReplicaPolicySpec) { s.MaxReplicas = 50 })
	if got, err := limits.Recall(saved); err != nil || cmp.Equal(fresh(t, limits), got) {
		t.Errorf("other limits: %v, %v, want what was learned", got, err)
	}
	saved.Data.Raw = []byte(`{"margin": "much"}`)
	if got, err := p.Recall(saved); err == nil || !cmp.Equal(fresh(t, p), got) {
		t.Errorf("memory that cannot be read: %v, %v, want fresh memory and an error", got, err)
	}
}

func TestMemoryThatIsTooLongIsNotWritten(t *testing.T) {
	p := sound(t, v1alpha1.LawInverseQueue)
	long := map[string]string{"x": strings.Repeat("x", MaxMemory)}
	if saved, err := p.Save(long, start); err == nil || saved != nil || !strings.Contains(err.Error(), "131080 bytes") {
		t.Errorf("%v, want it refused with its length", err)
	}
}

// TestWhateverIsSeenTheStatusCanBeWritten: the status survives a round trip through JSON and is within the bounds of
// its definition, and the decision is within the limits.
func TestWhateverIsSeenTheStatusCanBeWritten(t *testing.T) {
	for _, kind := range laws {
		p := sound(t, kind)
		rapid.Check(t, func(t *rapid.T) {
			value := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), math.Inf(-1), 1e300, 5e-324}))
			m, err := p.Recall(nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range rapid.IntRange(1, 5).Draw(t, "looks") {
				at := start.Add(time.Duration(i*100+rapid.IntRange(-1000, 1000).Draw(t, "clock")) * time.Second)
				s := Seen{Now: at, Spec: rapid.IntRange(0, 100).Draw(t, "asked"), Ready: rapid.IntRange(0, 100).Draw(t, "ready"), Desired: rapid.IntRange(0, 40).Draw(t, "wanted"),
					Answers: answers(at, value.Draw(t, "rate"), value.Draw(t, "response"), value.Draw(t, "queue"), value.Draw(t, "utilisation"))}
				var out Outcome
				m, out = p.Evaluate(m, s)
				if !out.Off && (out.Replicas < 2 || out.Replicas > 40) || out.Next <= 0 || len(out.Reasons) == 0 {
					t.Fatalf("%+v", out)
				}
				d := p.DecisionOf(&out)
				text, err := json.Marshal(d)
				if err != nil {
					t.Fatal(err)
				}
				var back v1alpha1.ReplicaDecision
				if err := json.Unmarshal(text, &back); err != nil {
					t.Fatal(err)
				}
				if len(d.Reasons) > 16 || len(d.Observation.ArrivalRate) > 32 || len(d.Expected.UtilizationPercent) > 32 {
					t.Fatalf("too long: %s", text)
				}
				if saved, err := p.Save(m, at); err != nil || len(saved.Of) > 256 {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestStartUpTimesAreAveraged(t *testing.T) {
	var s *v1alpha1.LearnedTime
	for _, seconds := range []int{4, 6, 5, 5} {
		s = LearnStartUp(s, time.Duration(seconds)*time.Second)
	}
	if s.Mean.Duration != 5*time.Second || s.Samples != 4 || s.Deviation.Duration != 707*time.Millisecond {
		t.Errorf("%+v, want 5s ± √½ s of 4", s)
	}
	for range 200 {
		s = LearnStartUp(s, 20*time.Second)
	}
	if s.Mean.Duration < 19*time.Second || s.Deviation.Duration > 2*time.Second {
		t.Errorf("%+v, want that it has followed to 20s", s)
	}
	if s = LearnStartUp(nil, -time.Second); s.Mean.Duration != 0 {
		t.Errorf("a pod Ready before it was made: %+v", s)
	}
}

// BenchmarkEvaluate measures one evaluation of a policy with 1000 replicas, including its status.
func BenchmarkEvaluate(b *testing.B) {
	for _, kind := range laws {
		b.Run(string(kind), func(b *testing.B) {
			p := sound(b, kind, func(s *v1alpha1.ReplicaPolicySpec) { s.MaxReplicas = 4000 })
			m, at := fresh(b, p), start
			b.ReportAllocs()
			for b.Loop() {
				at = at.Add(10 * time.Second)
				var out Outcome
				m, out = p.Evaluate(m, Seen{Now: at, Spec: 1000, Ready: 1000, Desired: 1000, StartUp: 5 * time.Second, Answers: answers(at, 9700, 0.104, 1009, 97)})
				p.DecisionOf(&out)
				p.Conditions(&OtherScalers{}, &out)
			}
		})
	}
}
