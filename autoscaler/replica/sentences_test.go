package replica

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
	"supercargo.dev/supercargo/internal/platform/promql"
	"supercargo.dev/supercargo/test/kit/sentences"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// says returns all Events of some evaluations, and the conditions, notes and reasons in the status at the end.
func (s *stage) says(evaluations int) string {
	s.Helper()
	for range evaluations {
		s.evaluate()
	}
	s.clock.Step(writeGap)
	s.once()
	return s.stated()
}

func (s *stage) stated() string {
	s.Helper()
	all := s.told()
	status := s.policy().Status
	for _, c := range status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	if o := s.tracked[web].status.LastObservation; o != nil {
		all = append(all, o.Notes...)
	}
	if last := s.tracked[web].last; last != nil {
		all = append(all, last.Reasons...)
	}
	return strings.Join(all, "\n")
}

func (s *stage) add(objects ...client.Object) {
	s.Helper()
	for _, o := range objects {
		if err := s.Client.Create(s.Context(), o); err != nil {
			s.Fatal(err)
		}
	}
}

// hpa returns a HorizontalPodAutoscaler of the target. metrics are those that it uses, with the policy whose metric it is.
func hpa(metrics ...[2]string) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hpa"}}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	for _, m := range metrics {
		metric := autoscalingv2.MetricIdentifier{Name: m[0]}
		if m[1] != "" {
			metric.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": m[1]}}
		}
		h.Spec.Metrics = append(h.Spec.Metrics, autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: metric}})
	}
	return h
}

// older returns an older policy with the same target.
func older() *v1alpha1.ReplicaPolicy {
	p := &v1alpha1.ReplicaPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "first", UID: "first"}}
	p.Spec.Target, p.Spec.Mode = v1alpha1.ReplicaTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, v1alpha1.ReplicasAct
	return p
}

// TestWhatAPolicyCannotKnowIsNotStated has a target that is scaled to 0, is scaled by another autoscaler, has more replicas
// than the maximum while nothing is measured, and does not exist any more.
func TestWhatAPolicyCannotKnowIsNotStated(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*stage)
		says   string
		not    []string
	}{
		{"scaled to 0 without measurements", func(s *stage) { s.scale.Spec.Replicas, s.fault = 0, errors.New("it does not respond") },
			"Measured=True Measured The target is scaled to 0", []string{"are available", "wants fewer", "does not use"}},
		{"conflict at more than the maximum", func(s *stage) { s.add(hpa()); s.scale.Spec.Replicas = 70 },
			"Limited=False WithinLimits The policy wants no number", []string{"wants the maximum", "wants fewer"}},
		{"nothing measured above the maximum", func(s *stage) { s.scale.Spec.Replicas, s.fault = 70, errors.New("it does not respond") },
			"from 70 to 60 replicas", []string{"unchanged"}},
		{"the metric of another policy", func(s *stage) { s.add(hpa([2]string{replicadecide.DesiredMetric, "other"})) },
			"Conflict=True", []string{"follows"}},
	} {
		s := newStage(t)
		tc.change(s)
		text := s.says(1)
		if !strings.Contains(text, tc.says) {
			t.Errorf("%s: it does not say %q but\n%s", tc.name, tc.says, text)
		}
		for _, not := range tc.not {
			if strings.Contains(text, not) {
				t.Errorf("%s: it says %q:\n%s", tc.name, not, text)
			}
		}
	}
	s := newStage(t)
	before := s.says(2)
	s.Sources = nil
	after := s.says(0)
	if !strings.Contains(before, "Measured=True") || strings.Contains(after, "Measured=") || strings.Contains(after, "Limited=") || strings.Contains(after, "Conflict=") {
		t.Errorf("without a source it says\n%s", after)
	}
}

// TestAScaleThatAnotherClientHasSetIsNotClaimed has another client that sets the number that the law decides.
func TestAScaleThatAnotherClientHasSetIsNotClaimed(t *testing.T) {
	s := newStage(t)
	s.evaluate()
	s.values["rate"] = 300
	s.Scaler = &elsewhere{stage: s}
	s.clock.Step(time.Minute)
	if text := s.says(1); strings.Contains(text, "Scaled") || len(s.rescaled) > 0 || s.tracked[web].last.Replicas == 10 {
		t.Errorf("rescaled to %v of %+v: %s", s.rescaled, s.tracked[web].last, text)
	}
}

// elsewhere is a scale that another client sets to the decided number.
type elsewhere struct{ *stage }

// Scale implements Scaler.
func (e *elsewhere) Scale(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*autoscalingv1.Scale, error) {
	e.scale.Spec.Replicas = int32(e.tracked[web].last.Replicas)
	return e.stage.Scale(ctx, kind, key)
}

// several answers each query with some samples.
type several struct{ samples []promql.Sample }

// Query implements promql.Querier.
func (q several) Query(context.Context, string, time.Time) ([]promql.Sample, error) {
	return q.samples, nil
}

// warned answers each query with a warning.
type warned struct{ *stage }

// QueryWarned implements promql.Warner.
func (q warned) QueryWarned(ctx context.Context, expression string, at time.Time) ([]promql.Sample, []string, error) {
	found, err := q.Query(ctx, expression, at)
	return found, []string{"a store is away"}, err
}

func TestEachSentenceOfAPolicyIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	type spec = v1alpha1.ReplicaPolicySpec
	scene := func(change func(*stage), specs ...func(*spec)) string {
		s := newStage(t, specs...)
		change(s)
		return s.says(1)
	}
	nothing := func(*stage) {}
	mode := func(m v1alpha1.ReplicaMode) func(*spec) { return func(p *spec) { p.Mode = m } }
	acts, observes := scene(nothing), scene(nothing, mode(v1alpha1.ReplicasObserve))
	following := hpa([2]string{replicadecide.DesiredMetric, "web"})
	all := scene(func(s *stage) { s.add(hpa([2]string{replicadecide.DesiredMetric, ""})) }, mode(v1alpha1.ReplicasViaHPA))
	tolerated := func(tolerance string) string {
		h := following.DeepCopy()
		q := resource.MustParse(tolerance)
		h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{Tolerance: &q}}
		return scene(func(s *stage) { s.add(h); s.values["rate"] = 108 }, mode(v1alpha1.ReplicasViaHPA))
	}
	own := scene(func(s *stage) { s.add(hpa([2]string{replicadecide.DesiredMetric, "web"})) }, mode(v1alpha1.ReplicasViaHPA))
	followed := scene(func(s *stage) { s.add(following.DeepCopy()) }, mode(v1alpha1.ReplicasViaHPA))
	others := scene(func(s *stage) { s.add(hpa([2]string{replicadecide.DesiredMetric, "other"})) }, mode(v1alpha1.ReplicasViaHPA))
	unfollowed := scene(nothing, mode(v1alpha1.ReplicasViaHPA))
	conflicts := scene(func(s *stage) { s.add(hpa()) })
	watches := scene(func(s *stage) { s.add(hpa()) }, mode(v1alpha1.ReplicasObserve))
	second := scene(func(s *stage) { s.add(older()) })
	off := scene(func(s *stage) { s.scale.Spec.Replicas = 0 })
	most := scene(func(s *stage) { s.values["rate"] = 10_000 })
	busy := scene(func(s *stage) { s.values["rate"] = 300 })
	unmeasured := scene(func(s *stage) { s.fault = errors.New("it does not respond") })
	partly := scene(func(s *stage) { s.values["rate"], s.values["response"] = 300, math.NaN() })
	without := func(n int) string {
		return scene(func(s *stage) {
			for i := range n {
				p := pod(fmt.Sprint("web-", i), false)
				p.CreationTimestamp = metav1.NewTime(s.clock.Now().Add(-time.Hour))
				testapi.Delete(s, s.Client, pod(p.Name, true))
				s.add(p)
			}
		})
	}
	with := func(n int) string {
		return scene(func(s *stage) {
			for i := range n {
				p := pod(fmt.Sprint("worker-", i), true)
				p.OwnerReferences = controlledBy("StatefulSet", "worker")
				s.add(p)
			}
		})
	}
	answered := func(q promql.Querier) string {
		return scene(func(s *stage) { s.Sources["default"] = NewSource("default", q, time.Minute) })
	}
	failing := func(err error) string {
		return scene(func(s *stage) {
			s.values["rate"] = 300
			s.before = func() error { return err }
		})
	}
	overtakenBy := func() string {
		s := newStage(t)
		s.evaluate()
		s.values["rate"] = 300
		s.Scaler = &overtaken{stage: s}
		s.clock.Step(time.Minute)
		return s.says(1)
	}()
	unknown := func() string {
		s := newStage(t)
		s.Sources = nil
		return s.says(0)
	}()
	recalled := func(saved string) string {
		s := newStage(t)
		p := s.policy()
		sound, err := replicadecide.New(p.Namespace, &p.Spec)
		if err != nil {
			t.Fatal(err)
		}
		p.Status.Memory = &v1alpha1.LawMemory{Of: sound.Of, Data: runtime.RawExtension{Raw: []byte(saved)}}
		if err := s.Client.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return s.says(1)
	}
	queries := func(change func(*v1alpha1.MetricQueries)) func(*spec) {
		return func(p *spec) { change(p.Metrics.Queries) }
	}
	threshold := func(p *spec) { p.Law.Name, p.SLO = v1alpha1.LawDoubleThreshold, nil }
	unqueued := scene(nothing, queries(func(q *v1alpha1.MetricQueries) { q.QueueLength = "" }))
	computed := scene(nothing, threshold, queries(func(q *v1alpha1.MetricQueries) { q.ResponseTime, q.QueueLength = "", "" }))
	utilized := scene(func(s *stage) { s.values["used"] = 50 }, threshold, queries(func(q *v1alpha1.MetricQueries) { q.Utilization = "used" }))

	sentences.Check(t, []string{"evaluate.go", "target.go", "record.go", "otherscalers.go", "act.go", "measure.go", "pods.go", "track.go",
		"replicadecide/conditions.go", "replicadecide/evaluate.go", "replicadecide/startup.go", "replicadecide/status.go", "replicadecide/stuck.go", "replicadecide/slow.go"}, []sentences.Case{
		// Conditions.
		{"The law decides, and the target is scaled", acts, observes},
		{"The law decides, but does not change the target", observes, acts},
		{"The law decides, and HorizontalPodAutoscaler ", own, others},
		{"The law decides, but no HorizontalPodAutoscaler follows: ", others, followed},
		{"HorizontalPodAutoscaler %s does not use the external metric %s of this policy alone, selected by its name", others, own},
		{"HorizontalPodAutoscaler %s does not use the external metric %s of this policy alone, selected by its name", all, own},
		{"%d and not %d, because the HorizontalPodAutoscaler ignores changes of up to %.3g %%", tolerated("200m"), tolerated("0")},
		{"no HorizontalPodAutoscaler scales the target: create one that uses the external metric ", unfollowed, others},
		{"The target is scaled to 0 replicas and is not scaled until it has 1 or more", off, acts},
		{"The target is scaled to 0 replicas: the law needs no measurements", off, acts},
		{"The target is scaled to 0 replicas: the policy wants no number", off, acts},
		{"hold: the target is scaled to 0 replicas: set it to 1 or more to scale it again", off, acts},
		{"HorizontalPodAutoscaler %s scales the target: delete it, or set the policy's mode to ViaHPA and have the HorizontalPodAutoscaler follow %s", conflicts, watches},
		{"the older ReplicaPolicy %s has the same target: delete one of the two, or set this one's mode to Observe", second, acts},
		{"The policy wants no number, because another autoscaler scales the target", conflicts, watches},
		{"No HorizontalPodAutoscaler and no older ReplicaPolicy scales the target", acts, watches},
		{"Another autoscaler has the same target, and this policy only observes", watches, followed},
		{"A HorizontalPodAutoscaler scales the target, as the mode requires", followed, unfollowed},
		{"All measurements that the law needs are available", acts, unmeasured},
		{"The law does not use the measurements: ", unmeasured, partly},
		{"%s not become Ready for far longer than a start takes: the law does not count %s", without(1), acts},
		{"%s the target's selector and %s to another object: the law does not count %s", with(1), acts},
		{"responses take %.3g s, and by the queueing model %.3g s: more replicas may not help; a service that they call may be slow, or spec.service.ratePerReplica too high", scene(func(s *stage) { s.values["response"] = 0.4 }), acts},
		{"%s in place of pods that do not become Ready", scene(func(s *stage) {
			p := pod("web-0", false)
			p.CreationTimestamp, p.Spec.NodeName = metav1.NewTime(s.clock.Now().Add(-time.Hour)), "broken"
			testapi.Delete(s, s.Client, pod(p.Name, true))
			s.add(p)
			s.values["rate"] = 108
		}), without(1)},
		{"1 pod matches", with(1), with(2)},
		{"%d pods match", with(2), with(1)},
		{"1 pod has", without(1), without(2)},
		{"%d pods have", without(2), without(1)},
		{"The law only scales out, by the measurements that are available: ", partly, unmeasured},
		{"The policy wants fewer replicas than spec.maxReplicas", acts, most},
		{"The policy wants the maximum of spec.maxReplicas, %d: more may be needed", most, busy},
		{"A restarted autoscaler continues from status.memory", acts, scene(func(s *stage) { s.DryRun = true })},
		{"spec.metrics.source: the autoscaler has no source %q: check --metrics-url and --metrics-sources", unknown, acts},

		// Measurements.
		{"the query returned no series: there are no recent samples, or it matches none", answered(several{}), acts},
		{"the query returned %d series, must be one: sum or average them in the query", answered(several{make([]promql.Sample, 2)}), answered(several{make([]promql.Sample, 1)})},
		{"the value is not a number", answered(several{[]promql.Sample{{Value: math.NaN()}}}), acts},
		{": warning of the source: ", answered(warned{newStage(t)}), acts},
		{"%s may be of a part of the service: the source warns: %s", answered(warned{newStage(t)}), acts},
		{"queueLength: computed as arrival rate times response time", unqueued, acts},
		{"utilization: computed from the arrival rate and spec.service", computed, utilized},

		// Events.
		{"The law discards its memory and learns again: ", recalled("[]"), recalled("{}")},
		{"%s %s from %d to %d replicas", busy, acts},
		{"Did not scale ", overtakenBy, busy},
		{"Failed to scale ", failing(errors.New("the API server is away")), failing(nil)},
	}, map[string]string{
		"Would scale ":    "a line of the log",
		"Failed to scale": "a line of the log",
	})
}
