package replicadecide

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func span1(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

// spec is a valid spec for a law: replicas that serve 10 requests/s each must answer within 200 ms.
func spec(kind v1alpha1.ReplicaLaw, change ...func(*v1alpha1.ReplicaPolicySpec)) *v1alpha1.ReplicaPolicySpec {
	s := &v1alpha1.ReplicaPolicySpec{
		Target: v1alpha1.ReplicaTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, Mode: v1alpha1.ReplicasAct, MinReplicas: 2, MaxReplicas: 40,
		SLO: &v1alpha1.ServiceLevel{ResponseTime: span1(200 * time.Millisecond)}, Service: &v1alpha1.ServiceModel{RatePerReplica: resource.MustParse("10")},
		Law: v1alpha1.ReplicaLawSpec{Name: kind, Interval: span1(100 * time.Second)},
		Metrics: v1alpha1.ReplicaMetrics{Source: "default", MaxAge: span1(time.Minute), Queries: &v1alpha1.MetricQueries{
			ArrivalRate: "rate", ResponseTime: "response", QueueLength: "queue", Utilization: "utilization",
		}},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func sound(t testing.TB, kind v1alpha1.ReplicaLaw, change ...func(*v1alpha1.ReplicaPolicySpec)) *Policy {
	t.Helper()
	p, err := New("shop", spec(kind, change...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var laws = []v1alpha1.ReplicaLaw{v1alpha1.LawPredictive, v1alpha1.LawInverseQueue, v1alpha1.LawDoubleThreshold}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

func TestSoundSpecsBecomePolicies(t *testing.T) {
	for _, kind := range laws {
		p := sound(t, kind)
		if p.Min != 2 || p.Max != 40 || len(p.Questions) != 4 || p.Of == "" {
			t.Errorf("%s: %+v", kind, p)
		}
	}
}

func TestEveryConstantReachesItsLaw(t *testing.T) {
	bad := quantity("1M") // out of range for every constant
	whole := func(n int32) *int32 { return &n }
	long := &metav1.Duration{Duration: -time.Second}
	for _, tc := range []struct {
		law   v1alpha1.ReplicaLaw
		says  string
		spoil func(*v1alpha1.ReplicaLawSpec)
	}{
		{v1alpha1.LawPredictive, "watch -1s", func(l *v1alpha1.ReplicaLawSpec) { l.Predictive = &v1alpha1.PredictiveConstants{Watch: long} }},
		{v1alpha1.LawPredictive, "violations 1e+06", func(l *v1alpha1.ReplicaLawSpec) { l.Predictive = &v1alpha1.PredictiveConstants{Violations: bad} }},
		{v1alpha1.LawPredictive, "margin 1e+06", func(l *v1alpha1.ReplicaLawSpec) { l.Predictive = &v1alpha1.PredictiveConstants{Margin: bad} }},
		{v1alpha1.LawPredictive, "maximum margin 0", func(l *v1alpha1.ReplicaLawSpec) {
			l.Predictive = &v1alpha1.PredictiveConstants{MaxMargin: quantity("0")}
		}},
		{v1alpha1.LawPredictive, "margin step 1e+06", func(l *v1alpha1.ReplicaLawSpec) { l.Predictive = &v1alpha1.PredictiveConstants{MarginStep: bad} }},
		{v1alpha1.LawPredictive, "headroom 1e+06", func(l *v1alpha1.ReplicaLawSpec) { l.Predictive = &v1alpha1.PredictiveConstants{Headroom: bad} }},
		{v1alpha1.LawPredictive, "speed weight 1e+06", func(l *v1alpha1.ReplicaLawSpec) { l.Predictive = &v1alpha1.PredictiveConstants{SpeedWeight: bad} }},
		{v1alpha1.LawPredictive, "queue factor 0.5", func(l *v1alpha1.ReplicaLawSpec) {
			l.Predictive = &v1alpha1.PredictiveConstants{QueueFactor: quantity("0.5")}
		}},
		{v1alpha1.LawPredictive, "drain time -1s", func(l *v1alpha1.ReplicaLawSpec) { l.Predictive = &v1alpha1.PredictiveConstants{DrainTime: long} }},
		{v1alpha1.LawInverseQueue, "reach 20: must be at least the gap", func(l *v1alpha1.ReplicaLawSpec) {
			l.InverseQueue = &v1alpha1.InverseQueueConstants{Gap: bad, Reach: quantity("20")}
		}},
		{v1alpha1.LawInverseQueue, "reach 1:", func(l *v1alpha1.ReplicaLawSpec) {
			l.InverseQueue = &v1alpha1.InverseQueueConstants{Reach: quantity("1")}
		}},
		{v1alpha1.LawInverseQueue, "keep 0", func(l *v1alpha1.ReplicaLawSpec) { l.InverseQueue = &v1alpha1.InverseQueueConstants{Keep: whole(0)} }},
		{v1alpha1.LawInverseQueue, "spread 0", func(l *v1alpha1.ReplicaLawSpec) {
			l.InverseQueue = &v1alpha1.InverseQueueConstants{Spread: quantity("0")}
		}},
		{v1alpha1.LawInverseQueue, "rank 0", func(l *v1alpha1.ReplicaLawSpec) { l.InverseQueue = &v1alpha1.InverseQueueConstants{Rank: whole(0)} }},
		{v1alpha1.LawInverseQueue, "mature sizes 1", func(l *v1alpha1.ReplicaLawSpec) {
			l.InverseQueue = &v1alpha1.InverseQueueConstants{MatureSizes: whole(1)}
		}},
		{v1alpha1.LawInverseQueue, "gain 1e+06", func(l *v1alpha1.ReplicaLawSpec) { l.InverseQueue = &v1alpha1.InverseQueueConstants{Gain: bad} }},
		{v1alpha1.LawInverseQueue, "queue factor 0.5", func(l *v1alpha1.ReplicaLawSpec) {
			l.InverseQueue = &v1alpha1.InverseQueueConstants{QueueFactor: quantity("0.5")}
		}},
		{v1alpha1.LawInverseQueue, "response factor 0.5", func(l *v1alpha1.ReplicaLawSpec) {
			l.InverseQueue = &v1alpha1.InverseQueueConstants{ResponseFactor: quantity("0.5")}
		}},
		{v1alpha1.LawInverseQueue, "drain time -1s", func(l *v1alpha1.ReplicaLawSpec) { l.InverseQueue = &v1alpha1.InverseQueueConstants{DrainTime: long} }},
		{v1alpha1.LawInverseQueue, "models 0", func(l *v1alpha1.ReplicaLawSpec) {
			l.InverseQueue = &v1alpha1.InverseQueueConstants{MaxModels: whole(0)}
		}},
		{v1alpha1.LawDoubleThreshold, "beta 70: must be a percentage above alpha", func(l *v1alpha1.ReplicaLawSpec) {
			l.DoubleThreshold = &v1alpha1.DoubleThresholdConstants{AlphaPercent: whole(80)}
		}},
		{v1alpha1.LawDoubleThreshold, "beta 40", func(l *v1alpha1.ReplicaLawSpec) {
			l.DoubleThreshold = &v1alpha1.DoubleThresholdConstants{BetaPercent: whole(40)}
		}},
		{v1alpha1.LawDoubleThreshold, "epsilon 0.3: must be a share above delta", func(l *v1alpha1.ReplicaLawSpec) {
			l.DoubleThreshold = &v1alpha1.DoubleThresholdConstants{Delta: quantity("0.5")}
		}},
		{v1alpha1.LawDoubleThreshold, "epsilon 0.05", func(l *v1alpha1.ReplicaLawSpec) {
			l.DoubleThreshold = &v1alpha1.DoubleThresholdConstants{Epsilon: quantity("0.05")}
		}},
		{v1alpha1.LawDoubleThreshold, "window 1", func(l *v1alpha1.ReplicaLawSpec) {
			l.DoubleThreshold = &v1alpha1.DoubleThresholdConstants{Window: whole(1)}
		}},
		{v1alpha1.LawDoubleThreshold, "rapid factor 0", func(l *v1alpha1.ReplicaLawSpec) {
			l.DoubleThreshold = &v1alpha1.DoubleThresholdConstants{RapidFactor: quantity("0")}
		}},
		{v1alpha1.LawDoubleThreshold, "sampling every -1s, 10s and 1s", func(l *v1alpha1.ReplicaLawSpec) { l.DoubleThreshold = &v1alpha1.DoubleThresholdConstants{Calm: long} }},
		{v1alpha1.LawDoubleThreshold, "sampling every 30s, -1s and 1s", func(l *v1alpha1.ReplicaLawSpec) { l.DoubleThreshold = &v1alpha1.DoubleThresholdConstants{Busy: long} }},
		{v1alpha1.LawDoubleThreshold, "sampling every 30s, 10s and -1s", func(l *v1alpha1.ReplicaLawSpec) { l.DoubleThreshold = &v1alpha1.DoubleThresholdConstants{Urgent: long} }},
	} {
		_, err := New("shop", spec(tc.law, func(s *v1alpha1.ReplicaPolicySpec) { tc.spoil(&s.Law) }))
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want it to say %q", tc.law, err, tc.says)
		}
	}
}

func TestUnsoundSpecsAreRefusedByField(t *testing.T) {
	type change = func(*v1alpha1.ReplicaPolicySpec)
	for _, tc := range []struct {
		name  string
		law   v1alpha1.ReplicaLaw
		spoil change
		says  []string
	}{
		{"an SLO below the time of one request", v1alpha1.LawPredictive, func(s *v1alpha1.ReplicaPolicySpec) { s.SLO.ResponseTime = span1(80 * time.Millisecond) },
			[]string{"SLO 0.08 s", "one request alone takes 0.1 s"}},
		{"the same for the other law", v1alpha1.LawInverseQueue, func(s *v1alpha1.ReplicaPolicySpec) { s.SLO.ResponseTime = span1(100 * time.Millisecond) },
			[]string{"one request alone takes 0.1 s"}},
		{"an SLO that cannot be kept at the peak", v1alpha1.LawPredictive, func(s *v1alpha1.ReplicaPolicySpec) {
			s.SLO.ResponseTime = span1(80 * time.Millisecond)
			s.Service.SpeedUp, s.Service.PeakArrivalRate = quantity("1000"), quantity("500")
		}, []string{"spec.slo.responseTime", "at 500 requests/s one request alone takes 0.0833333 s"}},
		{"least above most", v1alpha1.LawPredictive, func(s *v1alpha1.ReplicaPolicySpec) { s.MinReplicas = 41 }, []string{"maximum replicas 40: must be at least the minimum, 41"}},
		{"no SLO", v1alpha1.LawPredictive, func(s *v1alpha1.ReplicaPolicySpec) { s.SLO = nil }, []string{"spec.slo"}},
		{"no service", v1alpha1.LawInverseQueue, func(s *v1alpha1.ReplicaPolicySpec) { s.Service = nil }, []string{"spec.service"}},
		{"no such law", "Astrology", func(*v1alpha1.ReplicaPolicySpec) {}, []string{"Astrology"}},
		{"no such preset", v1alpha1.LawPredictive, func(s *v1alpha1.ReplicaPolicySpec) { s.Metrics.Preset = &v1alpha1.MetricPreset{Name: "x"} }, []string{"spec.metrics.preset", "ingress-nginx"}},
		{"too little to go by", v1alpha1.LawPredictive, func(s *v1alpha1.ReplicaPolicySpec) { s.Metrics.Queries = &v1alpha1.MetricQueries{QueueLength: "q"} },
			[]string{"spec.metrics.queries.arrivalRate", "spec.metrics.queries.responseTime"}},
		{"no utilisation, and nothing to compute it from", v1alpha1.LawDoubleThreshold, func(s *v1alpha1.ReplicaPolicySpec) {
			s.Metrics.Queries, s.Service = &v1alpha1.MetricQueries{ArrivalRate: "r"}, nil
		}, []string{"spec.metrics.queries.utilization"}},
		{"an age of 0, and more", v1alpha1.LawPredictive, func(s *v1alpha1.ReplicaPolicySpec) { s.Metrics.MaxAge = span1(0); s.SLO = nil }, []string{"spec.metrics.maxAge", "spec.slo"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := New("shop", spec(tc.law, tc.spoil))
			for _, says := range tc.says {
				if err == nil || p != nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%v, want it to say %q", err, says)
				}
			}
		})
	}
}

func TestOwnQueriesTakeThePlaceOfThePresets(t *testing.T) {
	p := sound(t, v1alpha1.LawPredictive, func(s *v1alpha1.ReplicaPolicySpec) {
		s.Metrics.Preset = &v1alpha1.MetricPreset{Name: "ingress-nginx", Parameters: map[string]v1alpha1.PresetParameter{"ingress": "web"}}
		s.Metrics.Queries = &v1alpha1.MetricQueries{ResponseTime: "mine"}
	})
	asked := map[Measurement]string{}
	for _, q := range p.Questions {
		asked[q.Measurement] = q.PromQL
	}
	if len(asked) != 3 || asked[ResponseTime] != "mine" || !strings.Contains(asked[ArrivalRate], `exported_namespace="shop",ingress="web"`) {
		t.Errorf("asked: %v", asked)
	}
}
