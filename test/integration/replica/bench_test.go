package replica

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/cmd/supercargo/cli"
	"supercargo.dev/supercargo/internal/platform/promql/source"
	"supercargo.dev/supercargo/test/kit"
)

// bench is one test's part of the site.
type bench struct {
	*kit.Bench
	metrics *metricsServer
}

// newBench returns the bench with that name, whose service receives 100 requests/s and serves 10 requests/s
// with each replica.
func newBench(t *testing.T, name string) *bench {
	t.Helper()
	b := &bench{sites.Bench(t, name), newMetrics(t, 100, 10)}
	b.Meanwhile = b.serve
	return b
}

// serve updates the service's number of Ready replicas from the Deployment "web".
func (b *bench) serve() {
	var d appsv1.Deployment
	if err := b.Get(b.Context(), b.Key("web"), &d); err != nil {
		return
	}
	b.metrics.set(func(m *metricsServer) { m.ready = int(d.Status.ReadyReplicas) })
}

// autoscale runs an autoscaler until the returned function is called.
func (b *bench) autoscale(change ...func(*app.Options)) (stop func()) {
	b.Helper()
	o := app.Options{Options: b.Options(b.Space), MetricSources: []source.Config{b.source(source.Default, b.metrics)}}
	for _, f := range change {
		f(&o)
	}
	o.Config.Wrap(b.View("/apis/supercargo.dev/v1alpha1/replicapolicies", "/api/v1/pods", "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets",
		"/apis/apps/v1/statefulsets", "/apis/autoscaling/v2/horizontalpodautoscalers"))
	return b.StartSound("the autoscaler", func(ctx context.Context) error { return app.Run(ctx, o) })
}

func (b *bench) source(name string, m *metricsServer) source.Config {
	c := source.Config{Name: name, Timeout: span(time.Second)}
	c.URL = m.URL
	return c
}

func span(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

// deployment creates the Deployment with that name and number of replicas.
func (b *bench) deployment(name string, replicas int32) {
	b.Helper()
	labels := map[string]string{"app": name}
	b.Make(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "main", Image: "web"}},
		}},
	}})
}

// policy creates a policy for the Deployment "web": an SLO of 200 ms, an observation every second, and
// control intervals of 10 s.
func (b *bench) policy(name string, change ...func(*v1alpha1.ReplicaPolicySpec)) {
	b.Helper()
	p := &v1alpha1.ReplicaPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name}, Spec: v1alpha1.ReplicaPolicySpec{
		Target: v1alpha1.ReplicaTarget{Name: "web"}, MinReplicas: 1, MaxReplicas: 60,
		SLO: &v1alpha1.ServiceLevel{ResponseTime: span(200 * time.Millisecond)}, Service: &v1alpha1.ServiceModel{RatePerReplica: resource.MustParse("10")},
		Law:     v1alpha1.ReplicaLawSpec{Interval: span(10 * time.Second)},
		Metrics: v1alpha1.ReplicaMetrics{Queries: &v1alpha1.MetricQueries{ArrivalRate: "rate", ResponseTime: "response", QueueLength: "queue"}},
	}}
	for _, f := range change {
		f(&p.Spec)
	}
	b.Make(p)
}

// change changes the spec of a policy.
func (b *bench) change(name string, change func(*v1alpha1.ReplicaPolicySpec)) {
	b.Helper()
	b.Eventually("change the policy", func() string {
		p := b.get(name)
		change(&p.Spec)
		if err := b.Update(b.Context(), p); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (b *bench) get(name string) *v1alpha1.ReplicaPolicy {
	b.Helper()
	p := &v1alpha1.ReplicaPolicy{}
	b.Read(name, p)
	return p
}

// asked returns the desired replicas of the Deployment "web".
func (b *bench) asked() int {
	b.Helper()
	var d appsv1.Deployment
	b.Read("web", &d)
	return int(*d.Spec.Replicas)
}

// becomes waits until the Deployment has between least and most replicas, all of them Ready.
func (b *bench) becomes(least, most int) {
	b.Helper()
	b.Eventually(fmt.Sprintf("there are %d to %d replicas", least, most), func() string {
		var d appsv1.Deployment
		if err := b.Get(b.Context(), b.Key("web"), &d); err != nil {
			return err.Error()
		}
		if n := int(*d.Spec.Replicas); n < least || n > most || int(d.Status.ReadyReplicas) != n {
			return fmt.Sprintf("%d, %d Ready", n, d.Status.ReadyReplicas)
		}
		return ""
	})
}

// condition waits until a policy has a condition with this status and reason, and returns it.
func (b *bench) condition(policy, kind string, status metav1.ConditionStatus, reason string) (found metav1.Condition) {
	b.Helper()
	return b.Condition(policy, kind, status, reason, func() []metav1.Condition { return b.get(policy).Status.Conditions })
}

// explain returns the output of the command line about a policy.
func (b *bench) explain(policy string) string {
	b.Helper()
	var out, faults bytes.Buffer
	args := []string{"supercargo", "explain", "replicapolicy/" + policy, "-n", b.Space, "--kubeconfig", b.Site.KubeconfigPath()}
	if code := cli.Main(args, strings.NewReader(""), &out, &faults); code != 0 {
		b.Fatalf("explain: exit code %d: %s", code, faults.String())
	}
	return out.String()
}

// hpa creates a HorizontalPodAutoscaler of the Deployment "web".
func (b *bench) hpa(name string, metric autoscalingv2.MetricSpec) *autoscalingv2.HorizontalPodAutoscaler {
	b.Helper()
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MaxReplicas: 50, Metrics: []autoscalingv2.MetricSpec{metric},
	}}
	b.Make(h)
	return h
}

// patch changes an object of the bench by a merge patch.
func (b *bench) patch(object client.Object, name, patch string, options ...client.PatchOption) {
	b.Helper()
	object.SetNamespace(b.Space)
	object.SetName(name)
	if err := b.Patch(b.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), options...); err != nil {
		b.Fatalf("patch %T %s: %v", object, name, err)
	}
}
