package desired

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"supercargo.dev/supercargo/api/v1alpha1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// policy returns a policy that publishes 4 replicas, observed at noon.
func policy(name string, change ...func(*v1alpha1.ReplicaPolicy)) client.Object {
	p := &v1alpha1.ReplicaPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	p.Spec.Mode = v1alpha1.ReplicasViaHPA
	p.Status.DesiredReplicas = 4
	p.Status.LastObservation = &v1alpha1.ReplicaObservation{Time: metav1.NewTime(noon)}
	for _, c := range change {
		c(p)
	}
	return p
}

// values returns the values by policy name.
func values(t *testing.T, at time.Time, selector string, policies ...client.Object) map[string]float64 {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	parsed, err := kubelabels.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	s := &Source{Clock: clocktesting.NewFakePassiveClock(at), StaleAfter: DefaultStaleAfter,
		Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(policies...).Build()}
	found, err := s.Values(t.Context(), "shop", parsed)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, sample := range found {
		if sample.Labels[NamespaceLabel] != "shop" || !sample.At.Equal(noon) {
			t.Errorf("%+v: want namespace shop and the time of the observation", sample)
		}
		got[sample.Labels[NameLabel]] = sample.Value
	}
	return got
}

func TestWhatPoliciesWantIsFoundByTheirNames(t *testing.T) {
	elsewhere := policy("c", func(p *v1alpha1.ReplicaPolicy) { p.Namespace = "other" })
	more := policy("b", func(p *v1alpha1.ReplicaPolicy) { p.Status.DesiredReplicas = 7 })
	for selector, want := range map[string]map[string]float64{
		"":              {"a": 4, "b": 7},
		"name=b":        {"b": 7},
		"name in (a,c)": {"a": 4},
		"name!=b":       {"a": 4},
		"other=x":       {},
	} {
		if diff := cmp.Diff(want, values(t, noon, selector, policy("a"), more, elsewhere)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", selector, diff)
		}
	}
}

// TestWhatALawThatSeldomDecidesWantsIsServedUntilItDecidesAgain: the metric must not be missing
// for a part of each interval.
func TestWhatALawThatSeldomDecidesWantsIsServedUntilItDecidesAgain(t *testing.T) {
	seldom := policy("seldom", func(p *v1alpha1.ReplicaPolicy) {
		p.Spec.MinReplicas, p.Spec.MaxReplicas = 1, 40
		p.Spec.Law = v1alpha1.ReplicaLawSpec{Name: v1alpha1.LawInverseQueue, Interval: metav1.Duration{Duration: 250 * time.Second}}
		p.Spec.SLO = &v1alpha1.ServiceLevel{ResponseTime: metav1.Duration{Duration: 200 * time.Millisecond}}
		p.Spec.Service = &v1alpha1.ServiceModel{RatePerReplica: resource.MustParse("10")}
		p.Spec.Metrics = v1alpha1.ReplicaMetrics{MaxAge: metav1.Duration{Duration: time.Minute}, Queries: &v1alpha1.MetricQueries{ArrivalRate: "rate", ResponseTime: "response"}}
	})
	for age, served := range map[time.Duration]bool{
		DefaultStaleAfter + time.Second: true, 250 * time.Second: true, 250*time.Second + DefaultStaleAfter: true, 251*time.Second + DefaultStaleAfter: false,
	} {
		if got := values(t, noon.Add(age), "", seldom, policy("no good")); (len(got) == 1 && got["seldom"] == 4) != served {
			t.Errorf("an observation %v old: %v, want it served %v", age, got, served)
		}
	}
}

func TestWhatIsNotCurrentIsNotServed(t *testing.T) {
	if got := values(t, noon.Add(DefaultStaleAfter), "", policy("a")); len(got) != 1 {
		t.Errorf("an observation as old as may be is not served")
	}
	if got := values(t, noon.Add(DefaultStaleAfter+time.Millisecond), "", policy("a")); len(got) != 0 {
		t.Errorf("an older one is served: %v", got)
	}
	for what, change := range map[string]func(*v1alpha1.ReplicaPolicy){
		"mode Act":           func(p *v1alpha1.ReplicaPolicy) { p.Spec.Mode = v1alpha1.ReplicasAct },
		"mode Observe":       func(p *v1alpha1.ReplicaPolicy) { p.Spec.Mode = v1alpha1.ReplicasObserve },
		"nothing wanted yet": func(p *v1alpha1.ReplicaPolicy) { p.Status.DesiredReplicas = 0 },
		"nothing observed":   func(p *v1alpha1.ReplicaPolicy) { p.Status.LastObservation = nil },
		"being deleted": func(p *v1alpha1.ReplicaPolicy) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: noon}, []string{"a/b"}
		},
		"paused": func(p *v1alpha1.ReplicaPolicy) {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue}}
		},
		"in conflict": func(p *v1alpha1.ReplicaPolicy) {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PolicyConflict, Status: metav1.ConditionTrue}}
		},
		"fewer than no replicas": func(p *v1alpha1.ReplicaPolicy) { p.Status.DesiredReplicas = -1 },
	} {
		if got := values(t, noon, "", policy("a", change)); len(got) != 0 {
			t.Errorf("%s: it is served: %v", what, got)
		}
	}
}
