package replicadecide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/law"
)

func TestHowLongAPodMayStart(t *testing.T) {
	learned := func(mean, deviation time.Duration) *v1alpha1.LearnedTime {
		return &v1alpha1.LearnedTime{Mean: metav1.Duration{Duration: mean}, Deviation: metav1.Duration{Duration: deviation}}
	}
	for want, of := range map[time.Duration]*v1alpha1.LearnedTime{
		10 * time.Minute: nil, time.Minute: learned(5*time.Second, time.Second), 3 * time.Minute: learned(40*time.Second, 10*time.Second),
	} {
		if got := StuckAfter(of); got != want {
			t.Errorf("%+v: stuck after %v, want %v", of, got, want)
		}
	}
}

// TestWhatTheLawSeesOfATarget has targets whose law, which keeps, wants more or wants fewer of the replicas that serve,
// decides on a number for the target.
func TestWhatTheLawSeesOfATarget(t *testing.T) {
	limits := law.Limits{Min: 2, Max: 40}
	for _, tc := range []struct {
		name            string
		seen            Seen
		visible, wants  int
		held            bool
		target          int
		saysReplacement bool
	}{
		{"all are Ready", Seen{Spec: 20, Ready: 20}, 20, 25, false, 25, false},
		{"some start", Seen{Spec: 20, Ready: 17}, 20, 20, false, 20, false},
		{"two are stuck, and the others are enough", Seen{Spec: 20, Ready: 18, Stuck: 2}, 18, 18, false, 20, false},
		{"two are stuck, and the others are too few", Seen{Spec: 20, Ready: 18, Stuck: 2}, 18, 21, false, 23, true},
		{"two are stuck, and the others are too many", Seen{Spec: 20, Ready: 18, Stuck: 2}, 18, 12, false, 14, true},
		{"two are stuck, and the others a little too many", Seen{Spec: 20, Ready: 18, Stuck: 2}, 18, 17, false, 19, true},
		{"two are stuck, and nothing was measured", Seen{Spec: 20, Ready: 18, Stuck: 2}, 18, 18, true, 20, false},
		{"two are stuck while two others start", Seen{Spec: 20, Ready: 16, Stuck: 2}, 18, 18, false, 20, false},
		{"old pods serve while two of an update are stuck", Seen{Spec: 20, Ready: 20, Stuck: 2}, 20, 20, false, 20, false},
		{"two without a node, and the others are too few", Seen{Spec: 20, Ready: 18, Unplaced: 2}, 18, 19, false, 20, false},
		{"two without a node, and many more are wanted", Seen{Spec: 20, Ready: 18, Unplaced: 2}, 18, 25, false, 25, false},
		{"two without a node, and the others are too many", Seen{Spec: 20, Ready: 18, Unplaced: 2}, 18, 15, false, 15, false},
		{"most are stuck: a quarter of the Ready ones is replaced", Seen{Spec: 20, Ready: 8, Stuck: 12}, 8, 20, false, 22, true},
		{"all but one are stuck", Seen{Spec: 20, Ready: 1, Stuck: 19}, 1, 20, false, 21, true},
		{"up to the maximum", Seen{Spec: 40, Ready: 38, Stuck: 2}, 38, 40, false, 40, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := servingOf(tc.seen, tc.seen.Spec)
			o := v.observe(law.Observation{Desired: tc.seen.Spec, Spec: tc.seen.Spec, Ready: tc.seen.Ready})
			if o.Desired != tc.visible || o.Spec != tc.visible {
				t.Errorf("the law sees %d of a spec of %d, want %d", o.Desired, o.Spec, tc.visible)
			}
			d := v.decision(limits, law.Decision{Replicas: tc.wants, Held: tc.held})
			if says := strings.Contains(strings.Join(d.Reasons, " "), "in place of pods that do not become Ready"); d.Replicas != tc.target || says != tc.saysReplacement {
				t.Errorf("%d replicas, %q, want %d", d.Replicas, d.Reasons, tc.target)
			}
		})
	}
}

// TestReplacementsDoNotRunAway: no pod that is added becomes Ready, as with an image that does not exist. The target does
// not grow to the maximum.
func TestReplacementsDoNotRunAway(t *testing.T) {
	for _, kind := range laws {
		p := sound(t, kind)
		m, spec := fresh(t, p), 14
		var course []string
		for i := range 500 {
			at := start.Add(time.Duration(i) * 10 * time.Second)
			var out Outcome
			m, out = p.Evaluate(m, Seen{Now: at, Spec: spec, Ready: min(spec, 12), Stuck: max(0, spec-12), StartUp: 5 * time.Second, Answers: answers(at, 130, 0.5, 60, 1300.0/12)})
			if out.Changes() {
				course = append(course, fmt.Sprint(out.Replicas))
			}
			spec = out.Replicas
		}
		if spec > 30 || spec < 15 {
			t.Errorf("%s: %d replicas, after %s", kind, spec, course)
		}
	}
}
