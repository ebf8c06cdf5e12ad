// Package nodeclaims tests NodeFleets whose machines Karpenter launches. The operator is the real one, with the cloud
// provider by which Karpenter tests itself: kwok simulates the nodes.
//
// All tests share one control plane and, except for those that stop it, one Karpenter. Each has its own bench: a namespace
// for its pods, a NodeClass, and an autoscaler that sees nothing else. Tests that stop Karpenter run before the others,
// one after the other.
package nodeclaims

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// bench is one test's part of the site.
type bench struct{ *kit.Bench }

// newBench returns a bench without machines, whose name becomes a namespace.
func newBench(t *testing.T, name string) *bench {
	t.Helper()
	return newBenchOn(t, sites, name)
}

// newBenchOn returns a bench on one of the control planes.
func newBenchOn(t *testing.T, of *kit.Sites, name string) *bench {
	t.Helper()
	b := &bench{of.Bench(t, name)}
	b.Show = func() string { return b.Describe() + b.describeClaims() }
	return b
}

// class creates the NodeClass, whose nodes join after a second, or as stated.
func (b *bench) class(delay ...string) *unstructured.Unstructured {
	b.Helper()
	class := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"nodeRegistrationDelay": append(delay, "1s")[0]}}}
	class.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.kwok.sh", Version: "v1alpha1", Kind: "KWOKNodeClass"})
	class.SetName(b.Space)
	b.Make(class)
	return class
}

// prices creates a price catalogue.
func (b *bench) prices(rows ...string) {
	b.Helper()
	b.Make(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "prices"}, Data: map[string]string{
		"flavors.csv": "name,cpu,memory_gib,price_per_hour\n" + strings.Join(rows, "\n") + "\n",
	}})
}

// expectedLag is the lag of these fleets until they have measured one. Pods that came within it look like a stream, of
// which a fleet expects more.
var expectedLag = seconds(2)

func seconds(s float64) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(s * float64(time.Second))}
}

// fleet creates a NodeFleet of NodeClaims in zone a, with short times.
func (b *bench) fleet(change ...func(*v1alpha1.NodeFleetSpec)) {
	b.Helper()
	f := &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: b.Space, Labels: map[string]string{kit.BenchLabel: b.Space}}, Spec: v1alpha1.NodeFleetSpec{
		Provider: v1alpha1.FleetKarpenter,
		Karpenter: &v1alpha1.KarpenterNodes{
			NodeClassRef: v1alpha1.KarpenterNodeClass{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: b.Space},
			Requirements: []v1alpha1.KarpenterRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
			Labels:       map[string]string{kit.BenchLabel: b.Space},
		},
		Pricing: v1alpha1.FleetPricing{
			BillingPeriod: seconds(1), Catalogue: &v1alpha1.PriceCatalogue{Namespace: b.Space, Name: "prices", Key: "flavors.csv"},
		},
		Scaling: v1alpha1.FleetScaling{
			Interval: seconds(2), BatchIdle: seconds(0.5), BatchMax: seconds(5), JoinTimeout: seconds(60), BackOff: seconds(60), ExpectedLag: expectedLag,
		},
		Consolidation: v1alpha1.FleetConsolidation{
			Policy: v1alpha1.ConsolidateWhenEmpty, After: seconds(1), QueueEmptyFor: seconds(0.5), MaxUnavailable: "100%", DrainTimeout: seconds(60), ReleaseDelay: seconds(3),
		},
	}}
	for _, g := range change {
		g(&f.Spec)
	}
	b.Make(f)
	b.Cleanup(func() { _ = b.Delete(context.WithoutCancel(b.Context()), f) })
}

// autoscale runs an autoscaler that sees nothing but the bench, until the returned function is called.
func (b *bench) autoscale() (stop func()) {
	b.Helper()
	return b.StartSound("the autoscaler", b.autoscaler())
}

// autoscaler returns a function that runs an autoscaler.
func (b *bench) autoscaler(change ...func(*app.Options)) func(context.Context) error {
	o := app.Options{Options: b.Options(b.Space)}
	for _, f := range change {
		f(&o)
	}
	o.Config.Wrap(b.View("/api/v1/pods", "/apis/apps/v1/daemonsets"))
	return func(ctx context.Context) error { return app.Run(ctx, o) }
}

// autoscaleAgainAfter runs an autoscaler, and a new one when its connection is cut.
func (b *bench) autoscaleAgainAfter(c *kit.Cut) {
	b.Helper()
	b.StartAfterCut("the autoscaler", c, b.Start(b.autoscaler(func(o *app.Options) { o.Config.Wrap(c.Wrap) })), func() { b.autoscale() })
}

// pods creates pods that run on machines of the bench.
func (b *bench) pods(prefix string, n int, cpu, memory string, change ...func(*corev1.Pod)) {
	b.Helper()
	for i := range n {
		pod := b.pod(fmt.Sprintf("%s-%d", prefix, i), cpu, memory)
		for _, f := range change {
			f(pod)
		}
		b.Make(pod)
	}
}

// pod returns a pod that runs on machines of the bench.
func (b *bench) pod(name, cpu, memory string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{kit.BenchLabel: b.Space},
			Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
			}}}},
		},
	}
}

// wait waits until n pods are unschedulable, so that a fleet that is created then plans for all of them together.
func (b *bench) wait(n int) {
	b.Helper()
	b.Eventually(fmt.Sprintf("%d pods are unschedulable", n), func() string {
		waiting, newest := 0, time.Time{}
		for _, p := range b.Pods() {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
					waiting++
				}
			}
			if p.CreationTimestamp.After(newest) {
				newest = p.CreationTimestamp.Time
			}
		}
		if waiting != n || time.Since(newest) < expectedLag.Duration {
			return fmt.Sprintf("%d are, the newest since %v", waiting, newest)
		}
		return ""
	})
}

func (b *bench) removePods() {
	b.Helper()
	if err := b.DeleteAllOf(b.Context(), &corev1.Pod{}, client.InNamespace(b.Space)); err != nil {
		b.Fatal(err)
	}
}

// nodeClaims returns the NodeClaims of the fleet.
func (b *bench) nodeClaims() []unstructured.Unstructured {
	b.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaimList"})
	testapi.List(b, b, list, client.MatchingLabels{v1alpha1.LabelFleet: b.Space})
	return list.Items
}

// orders waits for a NodeClaim of an instance type that is not being deleted, and returns it.
func (b *bench) orders(instanceType string) (found *unstructured.Unstructured) {
	b.Helper()
	b.Eventually("there is a NodeClaim of "+instanceType, func() string {
		for _, c := range b.nodeClaims() {
			if c.GetDeletionTimestamp() == nil && strings.Contains(fmt.Sprint(c.Object["spec"]), instanceType) {
				found = &c
				return ""
			}
		}
		return "there is none"
	})
	return found
}

func (b *bench) deleteClaim(c *unstructured.Unstructured) {
	b.Helper()
	if err := b.Delete(b.Context(), c); err != nil {
		b.Fatal(err)
	}
}

// claimsEver watches the NodeClaims of the fleet, or those with another label that has the name of the bench. It returns a
// function that returns the names of all that have existed, ordered.
func (b *bench) claimsEver(label ...string) func() []string {
	b.Helper()
	return b.claimsEverThat(func(*unstructured.Unstructured) bool { return true }, label...)
}

// claimsEverThat is claimsEver of the NodeClaims that have fulfilled a condition at some time.
func (b *bench) claimsEverThat(is func(*unstructured.Unstructured) bool, label ...string) func() []string {
	b.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaimList"})
	w, err := b.Watch(b.Context(), list, client.MatchingLabels{append(label, v1alpha1.LabelFleet)[0]: b.Space})
	if err != nil {
		b.Fatal(err)
	}
	var mu sync.Mutex
	names := map[string]bool{}
	go func() {
		for e := range w.ResultChan() {
			if c, ok := e.Object.(*unstructured.Unstructured); ok && is(c) {
				mu.Lock()
				names[c.GetName()] = true
				mu.Unlock()
			}
		}
	}()
	b.Cleanup(w.Stop)
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(maps.Keys(names))
	}
}

func (b *bench) describeClaims() (text string) {
	for _, c := range b.nodeClaims() {
		text += fmt.Sprintf("NodeClaim %s: %v\n", c.GetName(), c.Object["status"])
	}
	return text
}

// becomes waits until exactly these nodes exist, by instance type, and as many NodeClaims.
func (b *bench) becomes(want map[string]int) {
	b.Helper()
	total := 0
	for _, n := range want {
		total += n
	}
	b.Eventually(fmt.Sprintf("the nodes are %v", want), func() string {
		got := map[string]int{}
		for _, n := range b.Nodes() {
			got[n.Labels[corev1.LabelInstanceTypeStable]]++
		}
		if claims := len(b.nodeClaims()); fmt.Sprint(got) != fmt.Sprint(want) || claims != total {
			return fmt.Sprintf("%v, with %d NodeClaims", got, claims)
		}
		return ""
	})
}

// has waits until a condition of the fleet has this status and reason, and returns its message.
func (b *bench) has(kind string, status metav1.ConditionStatus, reason string) (message string) {
	b.Helper()
	b.Eventually(fmt.Sprintf("%s is %s (%s)", kind, status, reason), func() string {
		var f v1alpha1.NodeFleet
		if err := b.Get(b.Context(), client.ObjectKey{Name: b.Space}, &f); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(f.Status.Conditions, kind)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Sprintf("%+v", c)
		}
		message = c.Message
		return ""
	})
	return message
}
