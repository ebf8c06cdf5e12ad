package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func TestAReplicaPolicyIsSaidInLines(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	took := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	seen := v1alpha1.ReplicaObservation{Time: at, ArrivalRate: "250", ResponseTime: took(2 * time.Second), QueueLength: "500", UtilizationPercent: "125", SpecReplicas: 20, ReadyReplicas: 20, Notes: []string{"queueLength: arrival rate times response time"}}
	p := &v1alpha1.ReplicaPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: v1alpha1.ReplicaPolicySpec{Target: v1alpha1.ReplicaTarget{Kind: "Deployment", Name: "web"}, Law: v1alpha1.ReplicaLawSpec{Name: v1alpha1.LawPredictive}, Mode: v1alpha1.ReplicasAct,
			MinReplicas: 2, MaxReplicas: 40, SLO: &v1alpha1.ServiceLevel{ResponseTime: *took(200 * time.Millisecond)}},
		Status: v1alpha1.ReplicaPolicyStatus{
			ObservedGeneration: 1, DesiredReplicas: 38, SpecReplicas: 38, Replicas: 38, ReadyReplicas: 30, LastObservation: &seen,
			StartUp:    &v1alpha1.LearnedTime{Mean: *took(5 * time.Second), Deviation: *took(700 * time.Millisecond), Samples: 9},
			Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Active", Message: "The law decides, and the target is scaled"}},
			LastDecision: &v1alpha1.ReplicaDecision{Time: at, Mode: v1alpha1.ReplicasAct, From: 20, To: 38, Reasons: []string{"too much", "38 work it off"}, Observation: seen,
				Expected: v1alpha1.ReplicaOutcome{ArrivalRate: "250", ResponseTime: took(100 * time.Millisecond), UtilizationPercent: "65.8", ReadySeconds: 5}},
			Memory: &v1alpha1.LawMemory{Of: "predictive", Time: at, Data: runtime.RawExtension{Raw: []byte(`{"a":1}`)}},
		},
	}
	var b strings.Builder
	if err := Policy(&b, p); err != nil {
		t.Fatal(err)
	}
	want := `ReplicaPolicy web of Deployment web, law Predictive, mode Act
Target: a mean response time of 200ms
38 replicas desired (2 to 40 allowed); 38 in the spec of the target, 38 pods, 30 of them Ready
Pods take 5s ± 700ms to become Ready, learned from 9 pods
Ready: True (Active) The law decides, and the target is scaled

Measured, 2026-01-01 12:00:00 UTC: 250 requests/s, response time 2s, queue length 500, utilisation 125 %, with 20 of 20 replicas Ready
  queueLength: arrival rate times response time

Last decision, 2026-01-01 12:00:00 UTC, mode Act: from 20 to 38 replicas
  too much
  38 work it off
  based on: 250 requests/s, response time 2s, queue length 500, utilisation 125 %, with 20 of 20 replicas Ready
  expected: 250 requests/s, response time 100ms, utilisation 65.8 %, all Ready after 5 s
  measured: not yet
Memory: 7 bytes, written 12:00:00, for predictive
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("explain says (-want +got):\n%s", diff)
	}
	p.Status = v1alpha1.ReplicaPolicyStatus{}
	b.Reset()
	if err := Policy(&b, p); err != nil || strings.Contains(b.String(), "0 ") {
		t.Errorf("%v: figures of a policy that was never checked: %s", err, b.String())
	}
}
