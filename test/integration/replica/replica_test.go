package replica

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/test/kit"
)

func TestAServiceGetsTheReplicasThatItsRequestsNeed(t *testing.T) {
	t.Parallel()
	b := newBench(t, "act")
	b.deployment("web", 2)
	b.policy("web")
	requests := &kit.Ledger{}
	b.autoscale(func(o *app.Options) { o.Config.Wrap(requests.Wrap) })
	// By the model, 12 replicas keep 200 ms at 100 requests/s, and 33 at 300.
	b.becomes(11, 20)
	b.HasEvent("ReplicaPolicy", "web", "Scaled", "Scaled Deployment web from 2 to")
	b.condition("web", v1alpha1.PolicyReady, metav1.ConditionTrue, "Active")
	b.condition("web", v1alpha1.PolicyMeasured, metav1.ConditionTrue, "Measured")
	b.metrics.set(func(m *metricsServer) { m.rate = 300 })
	b.becomes(32, 50)
	b.metrics.set(func(m *metricsServer) { m.rate = 20 })
	b.becomes(3, 8)
	b.Eventually("the start-up time is learned", func() string {
		if s := b.get("web").Status.StartUp; s == nil || s.Samples < 30 || s.Mean.Duration > time.Minute {
			return "not yet"
		}
		return ""
	})
	if text := b.explain("web"); !strings.Contains(text, "Last decision") || !strings.Contains(text, "expected:") || !strings.Contains(text, "Pods take") {
		t.Errorf("explain says\n%s", text)
	}

	// With an observation every second for at least ten seconds, the status is written a few times at most.
	before, began := statusWrites(requests), b.metrics.count()
	b.Eventually("it is checked ten times", func() string {
		if b.metrics.count() < began+30 {
			return "not yet"
		}
		return ""
	})
	if wrote := statusWrites(requests) - before; wrote > 4 {
		t.Errorf("the status was written %d times in ten evaluations", wrote)
	}
	written, _ := requests.Read()
	for _, w := range written {
		switch {
		case strings.HasSuffix(w, "/replicapolicies/web/status"), strings.HasSuffix(w, "/deployments/web/scale"), strings.Contains(w, "/events"), strings.Contains(w, "/selfsubject"):
		default:
			t.Errorf("the autoscaler writes %s", w)
		}
	}
}

func statusWrites(l *kit.Ledger) (n int) {
	written, _ := l.Read()
	for _, w := range written {
		if strings.HasSuffix(w, "/status") {
			n++
		}
	}
	return n
}

func TestAPolicyThatObservesChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "observe")
	b.deployment("web", 2)
	b.policy("web", func(s *v1alpha1.ReplicaPolicySpec) { s.Mode = v1alpha1.ReplicasObserve })
	requests := &kit.Ledger{}
	b.autoscale(func(o *app.Options) { o.Config.Wrap(requests.Wrap) })
	b.Eventually("it says what it would do", func() string {
		if s := b.get("web").Status; s.DesiredReplicas < 11 || s.LastDecision == nil || s.LastDecision.Mode != v1alpha1.ReplicasObserve {
			return "something else"
		}
		return ""
	})
	if got := b.asked(); got != 2 {
		t.Errorf("the Deployment is to have %d replicas", got)
	}
	written, _ := requests.Read()
	for _, w := range written {
		if strings.HasSuffix(w, "/scale") {
			t.Errorf("a policy that observes writes %s", w)
		}
	}
	b.change("web", func(s *v1alpha1.ReplicaPolicySpec) { s.Mode = v1alpha1.ReplicasAct })
	b.becomes(11, 20)
}

// cpu is the usual metric of HorizontalPodAutoscalers, wanted the metric of a policy.
var (
	cpu = autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))},
	}}
	wanted = autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "supercargo_desired_replicas", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "web"}}},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(1, resource.DecimalSI)},
	}}
)

func TestATargetThatAnHPADrivesIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, "conflict")
	b.deployment("web", 2)
	h := b.hpa("stock", cpu)
	b.policy("web")
	b.autoscale()
	if c := b.condition("web", v1alpha1.PolicyConflict, metav1.ConditionTrue, "AnotherScaler"); !strings.Contains(c.Message, "HorizontalPodAutoscaler stock") {
		t.Errorf("the condition says %s", c.Message)
	}
	b.condition("web", v1alpha1.PolicyReady, metav1.ConditionFalse, "Conflict")
	b.HasEvent("ReplicaPolicy", "web", "AnotherScaler", "HorizontalPodAutoscaler stock scales the target")
	if got := b.asked(); got != 2 {
		t.Errorf("the Deployment is to have %d replicas", got)
	}
	if err := b.Delete(b.Context(), h); err != nil {
		t.Fatal(err)
	}
	b.condition("web", v1alpha1.PolicyConflict, metav1.ConditionFalse, "NoOtherScaler")
	b.becomes(11, 20)
}

// published returns the metric that HorizontalPodAutoscalers follow, or -1 if there is none.
func (b *bench) published(policy string) float64 {
	b.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "supercargo_desired_replicas" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["namespace"] == b.Space && labels["name"] == policy {
				return m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

func TestDesiredReplicasArePublishedForAnHPA(t *testing.T) {
	t.Parallel()
	b := newBench(t, "viahpa")
	b.deployment("web", 2)
	b.policy("web", func(s *v1alpha1.ReplicaPolicySpec) { s.Mode = v1alpha1.ReplicasViaHPA })
	b.autoscale()
	b.condition("web", v1alpha1.PolicyReady, metav1.ConditionTrue, "NoAutoscalerFollows")
	b.hpa("stock", wanted)
	if c := b.condition("web", v1alpha1.PolicyReady, metav1.ConditionTrue, "Active"); !strings.Contains(c.Message, "HorizontalPodAutoscaler stock follows") {
		t.Errorf("the condition says %s", c.Message)
	}
	b.Eventually("what it wants is published", func() string {
		if s := b.get("web").Status; s.DesiredReplicas < 11 || b.published("web") < 11 {
			return "not yet"
		}
		return ""
	})
	if got := b.asked(); got != 2 {
		t.Errorf("the policy itself has scaled the Deployment to %d replicas", got)
	}
	b.change("web", func(s *v1alpha1.ReplicaPolicySpec) { s.Mode = v1alpha1.ReplicasAct })
	b.condition("web", v1alpha1.PolicyConflict, metav1.ConditionTrue, "AnotherScaler")
	if got := b.published("web"); got != -1 {
		t.Errorf("%v is still published", got)
	}
}

func TestOfTwoPoliciesTheOlderOneDecides(t *testing.T) {
	t.Parallel()
	b := newBench(t, "two")
	b.deployment("web", 2)
	b.policy("one", func(s *v1alpha1.ReplicaPolicySpec) { s.MaxReplicas = 5 })
	first := b.get("one").CreationTimestamp
	b.Eventually("a second has passed", func() string {
		if time.Since(first.Time) < 1100*time.Millisecond {
			return "not yet"
		}
		return ""
	})
	b.policy("another")
	b.policy("watcher", func(s *v1alpha1.ReplicaPolicySpec) { s.Mode = v1alpha1.ReplicasObserve })
	b.autoscale()
	b.becomes(5, 5)
	b.condition("one", v1alpha1.PolicyLimited, metav1.ConditionTrue, "AtMaximum")
	if c := b.condition("another", v1alpha1.PolicyConflict, metav1.ConditionTrue, "AnotherScaler"); !strings.Contains(c.Message, "the older ReplicaPolicy one has") {
		t.Errorf("the condition says %s", c.Message)
	}
	b.condition("one", v1alpha1.PolicyConflict, metav1.ConditionFalse, "NoOtherScaler")
	b.condition("watcher", v1alpha1.PolicyReady, metav1.ConditionTrue, "Active")
	if err := b.Delete(b.Context(), b.get("one")); err != nil {
		t.Fatal(err)
	}
	b.becomes(11, 20)
	b.condition("another", v1alpha1.PolicyConflict, metav1.ConditionFalse, "NoOtherScaler")
}

func TestWhileASourceIsDownReplicasStay(t *testing.T) {
	t.Parallel()
	b := newBench(t, "down")
	b.deployment("web", 2)
	b.deployment("api", 2)
	other := newMetrics(t, 100, 10)
	b.policy("web")
	b.policy("api", func(s *v1alpha1.ReplicaPolicySpec) { s.Target.Name, s.Metrics.Source = "api", "other" })
	b.autoscale(func(o *app.Options) { o.MetricSources = append(o.MetricSources, b.source("other", other)) })
	b.becomes(11, 20)
	for _, fault := range []struct {
		name, says string
		answer     http.HandlerFunc
	}{{"down", "503", down}, {"hangs", "within 1s", hang}} {
		b.metrics.set(func(m *metricsServer) { m.fault, m.rate = fault.answer, 300 })
		if c := b.condition("web", v1alpha1.PolicyMeasured, metav1.ConditionFalse, "NotMeasured"); !strings.Contains(c.Message, fault.says) {
			// If only the message changes, it is written within a minute.
			b.Eventually("the condition says "+fault.says, func() string {
				c = b.condition("web", v1alpha1.PolicyMeasured, metav1.ConditionFalse, "NotMeasured")
				if !strings.Contains(c.Message, fault.says) {
					return c.Message
				}
				return ""
			})
		}
		// Until the condition is set, a decision on earlier measurements may be carried out.
		held, asked := b.asked(), other.count()
		if held < 11 || held > 20 {
			t.Errorf("while the source %s there are %d replicas, want those of 100 requests/s, 11 to 20", fault.name, held)
		}
		b.Eventually("a policy with another source continues", func() string {
			if other.count() < asked+10 {
				return "it does not ask"
			}
			return ""
		})
		if got := b.asked(); got != held {
			t.Errorf("while the source %s there are %d replicas, %d before", fault.name, got, held)
		}
		b.metrics.set(func(m *metricsServer) { m.fault, m.rate = nil, 100 })
		b.condition("web", v1alpha1.PolicyMeasured, metav1.ConditionTrue, "Measured")
	}
	b.HasEvent("ReplicaPolicy", "web", "NotMeasured", "503")
	b.metrics.set(func(m *metricsServer) { m.rate = 300 })
	b.becomes(32, 50)
}

// TestPodsOfAnotherDeploymentDoNotCount has a Deployment whose labels include those of the target, so that the target's
// selector matches its pods.
func TestPodsOfAnotherDeploymentDoNotCount(t *testing.T) {
	t.Parallel()
	b := newBench(t, "overlap")
	b.deployment("web", 2)
	five, labels := int32(5), map[string]string{"app": "web", "part": "worker"}
	b.Make(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "web-worker"}, Spec: appsv1.DeploymentSpec{
		Replicas: &five, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "main", Image: "worker"}},
		}},
	}})
	b.policy("web")
	b.autoscale()
	b.becomes(11, 20)
	b.Eventually("the five pods are left out", func() string {
		s := b.get("web").Status
		if s.LastObservation == nil || s.ReadyReplicas != s.SpecReplicas || !strings.Contains(strings.Join(s.LastObservation.Notes, "; "), "5 pods match the target's selector and belong to another object") {
			return fmt.Sprintf("%d Ready of %d: %+v", s.ReadyReplicas, s.SpecReplicas, s.LastObservation)
		}
		return ""
	})
}

// TestAServiceThatDoesNotAnswerKeepsItsReplicas tests a service whose replicas hang and become unready.
// Requests are counted when they are answered, so it shows neither requests nor a queue.
func TestAServiceThatDoesNotAnswerKeepsItsReplicas(t *testing.T) {
	t.Parallel()
	b := newBench(t, "hanging")
	b.deployment("web", 2)
	b.policy("web", func(s *v1alpha1.ReplicaPolicySpec) {
		s.Law.Name, s.Law.Interval, s.MinReplicas = v1alpha1.LawInverseQueue, span(2*time.Second), 4
	})
	b.autoscale()
	b.becomes(11, 20)
	b.seenReady()
	// In this order: while requests are answered the law may scale in by one, and a ReplicaSet deletes
	// unready pods first. A single observation of zero decides nothing.
	b.metrics.set(func(m *metricsServer) { m.rate = 0 })
	b.unready(3)
	c := b.condition("web", v1alpha1.PolicyMeasured, metav1.ConditionFalse, "NotMeasured")
	if !strings.Contains(c.Message, "no request was answered") || !strings.Contains(c.Message, "are not Ready") {
		t.Errorf("the condition says %s", c.Message)
	}
	held, asked := b.asked(), b.metrics.count()
	b.Eventually("it has looked five times more", func() string {
		if b.metrics.count() < asked+15 {
			return "not yet"
		}
		return ""
	})
	if n := b.asked(); n != held || n < 11 {
		t.Errorf("%d replicas, %d a while ago, want them kept", n, held)
	}
}

// seenReady waits until the law has observed that all replicas are Ready.
func (b *bench) seenReady() {
	b.Helper()
	var since int
	b.Eventually("all replicas are Ready for some evaluations", func() string {
		d := &appsv1.Deployment{}
		if err := b.Get(b.Context(), client.ObjectKey{Namespace: b.Space, Name: "web"}, d); err != nil {
			return err.Error()
		}
		if d.Status.ReadyReplicas != *d.Spec.Replicas || d.Status.Replicas != *d.Spec.Replicas {
			since = 0
			return fmt.Sprintf("%d of %d are Ready", d.Status.ReadyReplicas, *d.Spec.Replicas)
		}
		if since == 0 {
			since = b.metrics.count()
		}
		if b.metrics.count() < since+12 {
			return "it has not been checked often enough"
		}
		return ""
	})
}

// unready sets the condition Ready of n pods to false, as a kubelet does if probes fail.
func (b *bench) unready(n int) {
	b.Helper()
	var pods corev1.PodList
	if err := b.List(b.Context(), &pods, client.InNamespace(b.Space)); err != nil || len(pods.Items) < n {
		b.Fatalf("%d pods, error %v, want %d or more", len(pods.Items), err, n)
	}
	for i := range pods.Items[:n] {
		p := &pods.Items[i]
		for j := range p.Status.Conditions {
			if c := &p.Status.Conditions[j]; c.Type == corev1.PodReady {
				c.Status, c.Reason = corev1.ConditionFalse, "ContainersNotReady"
			}
		}
		if err := b.Status().Update(b.Context(), p); err != nil {
			b.Fatalf("make pod %s unready: %v", p.Name, err)
		}
	}
}

func TestWhoTakesOverContinuesFromMemory(t *testing.T) {
	t.Parallel()
	b := newBench(t, "restart")
	b.deployment("web", 12)
	b.policy("web", func(s *v1alpha1.ReplicaPolicySpec) { s.Law.Interval = span(2 * time.Second) })
	stop := b.autoscale()
	learned := func(text string) bool { return strings.Contains(text, `"smoothers":[{`) }
	b.Eventually("the law has learned", func() string {
		if m := b.get("web").Status.Memory; m == nil || !learned(string(m.Data.Raw)) {
			return "not yet"
		}
		return ""
	})
	stop()
	before := b.get("web").Status
	b.metrics.set(func(m *metricsServer) { m.fault = down })
	b.autoscale()
	b.condition("web", v1alpha1.PolicyMeasured, metav1.ConditionFalse, "NotMeasured")
	after := b.get("web").Status
	if after.Memory == nil || string(after.Memory.Data.Raw) != string(before.Memory.Data.Raw) {
		t.Errorf("without a measurement the memory became %s from %s", after.Memory.Data.Raw, before.Memory.Data.Raw)
	}
	if after.DesiredReplicas != before.DesiredReplicas {
		t.Errorf("%d replicas are wanted after the restart, %d before", after.DesiredReplicas, before.DesiredReplicas)
	}
}

func TestWhatCannotBeKeptIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, "refused")
	b.deployment("web", 2)
	b.autoscale()
	for name, tc := range map[string]struct {
		spoil        func(*v1alpha1.ReplicaPolicySpec)
		reason, says string
	}{
		"slo":    {func(s *v1alpha1.ReplicaPolicySpec) { s.SLO.ResponseTime = span(90 * time.Millisecond) }, "InvalidSpec", "one request alone takes 0.1 s"},
		"source": {func(s *v1alpha1.ReplicaPolicySpec) { s.Metrics.Source = "elsewhere" }, "NoSuchSource", `no source "elsewhere"`},
		"target": {func(s *v1alpha1.ReplicaPolicySpec) { s.Target.Name = "nothing" }, "TargetNotFound", "Deployment refused/nothing does not exist"},
		"kind":   {func(s *v1alpha1.ReplicaPolicySpec) { s.Target.Kind = "DaemonSet" }, "KindNotAllowed", "--scale-kinds"},
	} {
		b.policy(name, tc.spoil)
		if c := b.condition(name, v1alpha1.PolicyReady, metav1.ConditionFalse, tc.reason); !strings.Contains(c.Message, tc.says) {
			t.Errorf("%s: the condition says %s", name, c.Message)
		}
		b.HasEvent("ReplicaPolicy", name, tc.reason, tc.says)
	}
	if err := b.Create(b.Context(), upsideDown(b)); err == nil || !strings.Contains(err.Error(), "minReplicas must not exceed maxReplicas") {
		t.Errorf("least above most: %v", err)
	}
	b.deployment("nothing", 2)
	b.condition("target", v1alpha1.PolicyReady, metav1.ConditionTrue, "Active")
	if got := b.asked(); got != 2 {
		t.Errorf("a policy that is refused has scaled the Deployment to %d replicas", got)
	}
}

func upsideDown(b *bench) *v1alpha1.ReplicaPolicy {
	p := b.get("slo").DeepCopy()
	p.ObjectMeta = metav1.ObjectMeta{Namespace: b.Space, Name: "upside-down"}
	p.Spec.MinReplicas, p.Spec.MaxReplicas = 3, 2
	return p
}

func TestATargetScaledToZeroIsLeftUnchanged(t *testing.T) {
	t.Parallel()
	b := newBench(t, "zero")
	b.deployment("web", 0)
	b.policy("web")
	b.autoscale()
	b.condition("web", v1alpha1.PolicyReady, metav1.ConditionFalse, "ScaledToZero")
	if got := b.asked(); got != 0 {
		t.Errorf("the Deployment is to have %d replicas", got)
	}
	b.patch(&appsv1.Deployment{}, "web", `{"spec":{"replicas":1}}`)
	b.becomes(11, 20)
}
