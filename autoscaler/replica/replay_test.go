package replica

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/replicas/catalogue"
	"supercargo.dev/supercargo/lab/replicas/decider"
	"supercargo.dev/supercargo/lab/replicas/loop"
	"supercargo.dev/supercargo/lab/replicas/plant"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// controlled makes the controller the decider of a replay: it sees the service through the target's scale, pods and a
// source of metrics.
type controlled struct {
	*stage
	first time.Duration
	start time.Duration // how long a replica takes to start
	there []*corev1.Pod // in order of creation
}

// Name implements loop.Decider.
func (*controlled) Name() string { return "controller" }

// FirstEvaluation implements loop.Decider.
func (c *controlled) FirstEvaluation() time.Duration { return c.first }

// Evaluate implements loop.Decider.
func (c *controlled) Evaluate(m law.Memory, seen replicadecide.Seen) (law.Memory, replicadecide.Outcome) {
	c.Helper()
	if asked := int(c.scale.Spec.Replicas); c.there != nil && asked != seen.Spec {
		c.Fatalf("the controller asks for %d replicas and the service has %d", asked, seen.Spec)
	}
	c.scale.Spec.Replicas = int32(seen.Spec)
	for _, a := range seen.Answers {
		c.values[map[replicadecide.Measurement]string{
			replicadecide.ArrivalRate: "arrival_rate", replicadecide.ResponseTime: "response_time", replicadecide.QueueLength: "queue_length", replicadecide.Utilization: "utilization",
		}[a.Measurement]] = a.Value
	}
	c.showPods(seen)
	now := seen.Now
	if t := c.tracked[web]; t != nil && t.due.Sub(now) > 0 && t.due.Sub(now) < time.Microsecond {
		now = t.due // seconds of the replay are rounded
	}
	c.clock.SetTime(now)
	c.once() // queries
	<-c.woken
	before := c.tracked[web].evaluations
	if c.once(); c.tracked[web].evaluations != before+1 {
		c.Fatal("the controller did not decide")
	}
	out := *c.tracked[web].last
	c.makePods(seen.Now, int(c.scale.Spec.Replicas), false)
	return m, out
}

// makePods creates pods, or deletes the newest, until there are n.
func (c *controlled) makePods(at time.Time, n int, ready bool) {
	c.Helper()
	for len(c.there) > n {
		last := c.there[len(c.there)-1]
		c.there = c.there[:len(c.there)-1]
		testapi.Delete(c, c.Client, last)
		c.podChanged(last, nil)
	}
	for len(c.there) < n {
		p := pod(fmt.Sprintf("web-%d-%d", at.UnixNano(), len(c.there)), ready)
		p.CreationTimestamp = metav1.NewTime(at)
		testapi.Create(c, c.Client, p)
		c.there = append(c.there, p)
		c.podChanged(nil, p)
	}
}

// showPods makes as many pods Ready as were seen to be.
func (c *controlled) showPods(seen replicadecide.Seen) {
	c.Helper()
	if c.there == nil {
		for i := range 10 { // the pods of the stage
			testapi.Delete(c, c.Client, pod(fmt.Sprint("web-", i), true))
		}
		c.makePods(seen.Now.Add(-time.Hour), seen.Spec, true)
	}
	for i, p := range c.there[:seen.Ready] {
		if is, _ := readiness(p); is {
			continue
		}
		after := p.DeepCopy()
		after.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(p.CreationTimestamp.Add(c.start))}}
		if err := c.Client.Status().Update(c.Context(), after); err != nil {
			c.Fatal(err)
		}
		c.podChanged(p, after)
		c.there[i] = after
	}
}

// TestAReplayDecidesAsTheControllerDoes replays a service twice: with the decisions of `supercargo replicas`, and with
// the controller itself.
func TestAReplayDecidesAsTheControllerDoes(t *testing.T) {
	var rates []trace.Rate
	for minute := range 120 { // a wave, with a peak in the middle and a pause near the end
		rate := 60 + 30*math.Sin(float64(minute)/10)
		switch {
		case minute >= 50 && minute < 65:
			rate = 200
		case minute >= 90 && minute < 100:
			rate = 0
		}
		rates = append(rates, trace.Rate{At: time.Duration(minute) * time.Minute, PerSecond: rate})
	}
	for name, of := range map[string]v1alpha1.ReplicaLaw{"predictive": v1alpha1.LawPredictive, "inversequeue": v1alpha1.LawInverseQueue, "doublethreshold": v1alpha1.LawDoubleThreshold} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := catalogue.Options{Goal: law.DefaultGoal()}
			replayed, err := decider.New(name, options)
			if err != nil {
				t.Fatal(err)
			}
			policy, err := decider.Policy(of, options)
			if err != nil {
				t.Fatal(err)
			}
			service := plant.Default()
			service.Replicas = 10
			controller := &controlled{first: replayed.FirstEvaluation(), start: service.Start, stage: newStage(t, func(s *v1alpha1.ReplicaPolicySpec) {
				target := s.Target
				*s = policy.Spec
				s.Target = target
			})}
			run := func(d loop.Decider) (steps []string) {
				c := loop.Config{Decider: d, Plant: service, Rates: rates, SLO: options.SLO, Interval: options.Interval, Seed: 1}
				c.OnStep = func(s loop.Step) {
					steps = append(steps, fmt.Sprintf("%v s: %d for %v: %q", s.Seconds, s.Replicas, s.Next, s.Reasons))
				}
				if _, err := loop.Run(c); err != nil {
					t.Fatal(err)
				}
				return steps
			}
			got, want := run(replayed), run(controller)
			if slices.Equal(got, want) && len(got) > 10 {
				return
			}
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Fatalf("evaluation %d of the replay and of the controller:\n%s\n%s", i, got[i], want[i])
				}
			}
			t.Errorf("the replay looks %d times, the controller %d", len(got), len(want))
		})
	}
}
