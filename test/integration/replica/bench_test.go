package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/cmd/supercargo/cli"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/promql/source"
	"supercargo.dev/supercargo/test/kit"
)

// bench is one test's part of the site.
type bench struct {
	*testing.T
	client.Client
	site    *kit.Site
	name    string
	log     *kit.Log
	metrics *metricsServer
}

// newBench returns the bench with that name, whose service receives 100 requests/s and serves 10 requests/s
// with each replica.
func newBench(t *testing.T, name string) *bench {
	t.Helper()
	s, err := sites.Get()
	if err != nil {
		t.Fatalf("start the site: %v", err)
	}
	b := &bench{T: t, Client: s.Client, site: s, name: name, log: &kit.Log{}, metrics: newMetrics(t, 100, 10)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the autoscaler's last lines:\n%s", b.log.Tail(60))
		}
	})
	b.make(kit.Namespace(name))
	b.eventually("pods can be made", func() string {
		if err := b.Get(b.Context(), b.key("default"), &corev1.ServiceAccount{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return b
}

func (b *bench) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: b.name, Name: name}
}

func (b *bench) make(object client.Object) {
	b.Helper()
	if err := b.Create(b.Context(), object); err != nil {
		b.Fatalf("make %T %s: %v", object, object.GetName(), err)
	}
}

// eventually polls until check returns "". Each poll updates the number of Ready replicas of the service.
func (b *bench) eventually(what string, check func() string) {
	b.Helper()
	b.site.Eventually(b.T, kit.Waiting{Patience: kit.Patience, Poll: kit.Poll, Meanwhile: b.serve, Show: b.show}, what, check)
}

// serve updates the service's number of Ready replicas from the Deployment "web".
func (b *bench) serve() {
	var d appsv1.Deployment
	if err := b.Get(b.Context(), b.key("web"), &d); err != nil {
		return
	}
	b.metrics.set(func(m *metricsServer) { m.ready = int(d.Status.ReadyReplicas) })
}

// show describes the status of the policies and the Deployments.
func (b *bench) show() string {
	var text strings.Builder
	var policies v1alpha1.ReplicaPolicyList
	if err := b.List(b.Context(), &policies, client.InNamespace(b.name)); err == nil {
		for _, p := range policies.Items {
			status, _ := json.MarshalIndent(p.Status, "", " ")
			fmt.Fprintf(&text, "ReplicaPolicy %s: %s\n", p.Name, status)
		}
	}
	var deployments appsv1.DeploymentList
	if err := b.List(b.Context(), &deployments, client.InNamespace(b.name)); err == nil {
		for _, d := range deployments.Items {
			fmt.Fprintf(&text, "Deployment %s: %d asked for, %d ready\n", d.Name, *d.Spec.Replicas, d.Status.ReadyReplicas)
		}
	}
	return text.String()
}

// autoscale runs an autoscaler until the returned function is called.
func (b *bench) autoscale(change ...func(*app.Options)) (stop func()) {
	b.Helper()
	o := app.Options{
		Options:       operator.Options{Config: operator.Throttle(b.site.Config()), MetricsAddress: "0", ProbeAddress: "0", Log: b.log.Logger(b.name)},
		MetricSources: []source.Config{b.source(source.Default, b.metrics)},
	}
	for _, f := range change {
		f(&o)
	}
	view := map[string]kit.Selector{"/api/v1/nodes": {Parameter: "labelSelector", Value: "bench=" + b.name}}
	for _, path := range []string{
		"/apis/supercargo.dev/v1alpha1/replicapolicies", "/api/v1/pods", "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets", "/apis/apps/v1/statefulsets",
		"/apis/autoscaling/v2/horizontalpodautoscalers",
	} {
		view[path] = kit.Selector{Parameter: "fieldSelector", Value: "metadata.namespace=" + b.name}
	}
	o.Config.Wrap(kit.View(view))
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, o) }()
	stopped := false
	stop = func() {
		if cancel(); stopped {
			return
		}
		stopped = true
		if err := <-done; err != nil {
			b.Errorf("the autoscaler: %v", err)
		}
	}
	b.Cleanup(stop)
	return stop
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
	b.make(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: name}, Spec: appsv1.DeploymentSpec{
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
	p := &v1alpha1.ReplicaPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: name}, Spec: v1alpha1.ReplicaPolicySpec{
		Target: v1alpha1.ReplicaTarget{Name: "web"}, MinReplicas: 1, MaxReplicas: 60,
		SLO: &v1alpha1.ServiceLevel{ResponseTime: span(200 * time.Millisecond)}, Service: &v1alpha1.ServiceModel{RatePerReplica: resource.MustParse("10")},
		Law:     v1alpha1.ReplicaLawSpec{Interval: span(10 * time.Second)},
		Metrics: v1alpha1.ReplicaMetrics{Queries: &v1alpha1.MetricQueries{ArrivalRate: "rate", ResponseTime: "response", QueueLength: "queue"}},
	}}
	for _, f := range change {
		f(&p.Spec)
	}
	b.make(p)
}

// change changes the spec of a policy.
func (b *bench) change(name string, change func(*v1alpha1.ReplicaPolicySpec)) {
	b.Helper()
	b.eventually("change the policy", func() string {
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
	if err := b.Get(b.Context(), b.key(name), p); err != nil {
		b.Fatal(err)
	}
	return p
}

// asked returns the desired replicas of the Deployment "web".
func (b *bench) asked() int {
	b.Helper()
	var d appsv1.Deployment
	if err := b.Get(b.Context(), b.key("web"), &d); err != nil {
		b.Fatal(err)
	}
	return int(*d.Spec.Replicas)
}

// becomes waits until the Deployment has between least and most replicas, all of them Ready.
func (b *bench) becomes(least, most int) {
	b.Helper()
	b.eventually(fmt.Sprintf("there are %d to %d replicas", least, most), func() string {
		var d appsv1.Deployment
		if err := b.Get(b.Context(), b.key("web"), &d); err != nil {
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
	b.eventually(fmt.Sprintf("%s is %s %s: %s", policy, kind, status, reason), func() string {
		c := meta.FindStatusCondition(b.get(policy).Status.Conditions, kind)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Sprintf("%+v", c)
		}
		found = *c
		return ""
	})
	return found
}

// event waits for an Event about a policy.
func (b *bench) event(policy, reason, says string) {
	b.Helper()
	b.eventually(fmt.Sprintf("there is an Event %s that says %q", reason, says), func() string {
		var all corev1.EventList
		if err := b.List(b.Context(), &all, client.InNamespace(b.name)); err != nil {
			return err.Error()
		}
		var others []string
		for _, e := range all.Items {
			if e.InvolvedObject.Kind != "ReplicaPolicy" || e.InvolvedObject.Name != policy {
				continue
			}
			if e.Reason == reason && strings.Contains(e.Message, says) {
				return ""
			}
			others = append(others, e.Reason+": "+e.Message)
		}
		return strings.Join(others, "\n")
	})
}

// explain returns the output of the command line about a policy.
func (b *bench) explain(policy string) string {
	b.Helper()
	var out, faults bytes.Buffer
	args := []string{"supercargo", "explain", "replicapolicy/" + policy, "-n", b.name, "--kubeconfig", b.site.KubeconfigPath()}
	if code := cli.Main(args, strings.NewReader(""), &out, &faults); code != 0 {
		b.Fatalf("explain: exit code %d: %s", code, faults.String())
	}
	return out.String()
}

// hpa creates a HorizontalPodAutoscaler of the Deployment "web".
func (b *bench) hpa(name string, metric autoscalingv2.MetricSpec) *autoscalingv2.HorizontalPodAutoscaler {
	b.Helper()
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: name}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MaxReplicas: 50, Metrics: []autoscalingv2.MetricSpec{metric},
	}}
	b.make(h)
	return h
}

// patch changes an object of the bench by a merge patch.
func (b *bench) patch(object client.Object, name, patch string, options ...client.PatchOption) {
	b.Helper()
	object.SetNamespace(b.name)
	object.SetName(name)
	if err := b.Patch(b.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), options...); err != nil {
		b.Fatalf("patch %T %s: %v", object, name, err)
	}
}
