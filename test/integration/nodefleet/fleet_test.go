// Package nodefleet tests NodeFleets on a real API server with real cluster-api controllers. kwok simulates
// the machines' nodes.
//
// All tests share one control plane, because starting one takes longer than most of them. Each test has its
// own bench: a namespace for its pods, which select the nodes of its machines, and an autoscaler that sees
// nothing else.
package nodefleet

import (
	"context"
	"fmt"
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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// bench is one test's part of the site.
type bench struct{ *kit.Bench }

// newBench returns the bench with that name, which becomes a namespace and the prefix of MachineDeployments:
// a few lower-case letters.
func newBench(t testing.TB, name string) *bench {
	t.Helper()
	return newBenchOf(t, sites, name)
}

// newBenchOf returns a bench on one of the control planes.
func newBenchOf(t testing.TB, of *kit.Sites, name string) *bench {
	t.Helper()
	b := &bench{of.Bench(t, name)}
	b.Show = b.show
	return b
}

// show describes also the MachineDeployments and the Events of the fleets.
func (b *bench) show() string {
	text := b.Describe()
	for _, d := range b.deployments() {
		replicas, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas")
		text += fmt.Sprintf("MachineDeployment %s: %d replicas\n", d.GetName(), replicas)
	}
	for _, e := range b.events() {
		text += fmt.Sprintf("Event %s %s: %.300s\n", e.CreationTimestamp.Format("15:04:05"), e.Reason, e.Message)
	}
	return text
}

// autoscale runs an autoscaler until the returned function is called.
func (b *bench) autoscale(change ...func(*app.Options)) (stop func()) {
	b.Helper()
	return b.StartSound("the autoscaler", b.autoscaler(change...))
}

// autoscaler returns a function that runs an autoscaler.
func (b *bench) autoscaler(change ...func(*app.Options)) func(context.Context) error {
	o := app.Options{Options: b.Options(b.Space)}
	for _, f := range change {
		f(&o)
	}
	o.Config.Wrap(b.view())
	return func(ctx context.Context) error { return app.Run(ctx, o) }
}

// events returns the Events about the fleets of the bench.
func (b *bench) events() (found []corev1.Event) {
	b.Helper()
	var all corev1.EventList
	testapi.List(b, b, &all, client.InNamespace(metav1.NamespaceDefault))
	for _, e := range all.Items {
		if strings.HasPrefix(e.InvolvedObject.Name, b.Space+"-") && e.InvolvedObject.Kind == "NodeFleet" {
			found = append(found, e)
		}
	}
	return found
}

// The kinds of cluster-api, which the client has no types for.
var (
	machineDeployments = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineDeploymentList"}
	machineList        = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineList"}
)

// spec is a flavor, in which the test sets only what it needs.
type spec = playground.MachineDeploymentSpec

// flavor adds a MachineDeployment without machines.
func (b *bench) flavor(name, cpu, memory, price string, change ...func(*spec)) {
	b.Helper()
	s := spec{Name: b.Space + "-" + name, Flavor: name, CPU: cpu, Memory: memory, PricePerHour: price, Max: 300, Labels: map[string]string{kit.BenchLabel: b.Space}}
	for _, f := range change {
		f(&s)
	}
	if err := b.Site.AddMachineDeployment(b.Context(), s); err != nil {
		b.Fatal(err)
	}
	b.patchDeployment(name, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, kit.BenchLabel, b.Space))
}

// patchDeployment changes a MachineDeployment by a merge patch.
func (b *bench) patchDeployment(flavor, patch string) {
	b.Helper()
	if err := b.tryPatchDeployment(b.Context(), flavor, patch); err != nil {
		b.Fatalf("patch MachineDeployment %s: %v", flavor, err)
	}
}

func (b *bench) tryPatchDeployment(ctx context.Context, flavor, patch string, options ...client.PatchOption) error {
	d := &unstructured.Unstructured{}
	d.SetGroupVersionKind(schema.GroupVersionKind{Group: machineDeployments.Group, Version: machineDeployments.Version, Kind: "MachineDeployment"})
	d.SetNamespace(metav1.NamespaceDefault)
	d.SetName(b.Space + "-" + flavor)
	return b.Patch(ctx, d, client.RawPatch(types.MergePatchType, []byte(patch)), options...)
}

// annotate sets an annotation of a MachineDeployment; null, without quotes, removes it.
func (b *bench) annotate(flavor, key, value string) {
	b.Helper()
	if value != "null" {
		value = fmt.Sprintf("%q", value)
	}
	b.patchDeployment(flavor, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, value))
}

// expectedLag is the lag of these fleets until they have measured one.
var expectedLag = seconds(2)

// quick returns the common spec of the fleets of these tests, with short times.
func quick() v1alpha1.NodeFleetSpec {
	return v1alpha1.NodeFleetSpec{
		Pricing: v1alpha1.FleetPricing{BillingPeriod: seconds(1)},
		Scaling: v1alpha1.FleetScaling{
			Interval: seconds(2), BatchIdle: seconds(0.5), BatchMax: seconds(5), JoinTimeout: seconds(60), BackOff: seconds(30), ExpectedLag: expectedLag,
		},
		Consolidation: v1alpha1.FleetConsolidation{
			Policy: v1alpha1.ConsolidateWhenEmpty, After: seconds(1), QueueEmptyFor: seconds(0.5), MaxUnavailable: "100%", DrainTimeout: seconds(60), ReleaseDelay: seconds(3),
		},
	}
}

// fleet creates a NodeFleet of all MachineDeployments of the bench.
func (b *bench) fleet(name string, change ...func(*v1alpha1.NodeFleetSpec)) {
	b.Helper()
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{kit.BenchLabel: b.Space}}
	f := &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: b.Space + "-" + name, Labels: selector.MatchLabels}, Spec: quick()}
	f.Spec.ClusterAPI = &v1alpha1.ClusterAPIFlavors{Namespace: metav1.NamespaceDefault, Selector: selector}
	for _, g := range change {
		g(&f.Spec)
	}
	b.Make(f)
	b.Cleanup(func() {
		if err := b.Delete(context.WithoutCancel(b.Context()), f); client.IgnoreNotFound(err) != nil {
			b.Errorf("delete NodeFleet %s: %v", f.Name, err)
		}
	})
}

// names restricts a fleet to these flavors.
func (b *bench) names(flavors ...string) func(*v1alpha1.NodeFleetSpec) {
	return func(s *v1alpha1.NodeFleetSpec) {
		s.ClusterAPI.Selector = nil
		for _, f := range flavors {
			s.ClusterAPI.Names = append(s.ClusterAPI.Names, b.Space+"-"+f)
		}
	}
}

// change changes the spec of a fleet.
func (b *bench) change(fleet string, change func(*v1alpha1.NodeFleetSpec)) {
	b.Helper()
	b.Eventually("change the fleet", func() string {
		f := b.get(fleet)
		change(&f.Spec)
		if err := b.Update(b.Context(), f); err != nil {
			return err.Error()
		}
		return ""
	})
}

// get returns a fleet.
func (b *bench) get(name string) *v1alpha1.NodeFleet {
	b.Helper()
	f := &v1alpha1.NodeFleet{}
	if err := b.Get(b.Context(), client.ObjectKey{Name: b.Space + "-" + name}, f); err != nil {
		b.Fatal(err)
	}
	return f
}

// has waits until a condition of a fleet has this status and reason, and returns its message.
func (b *bench) has(fleet, kind string, status metav1.ConditionStatus, reason string) (message string) {
	b.Helper()
	b.Eventually(fmt.Sprintf("%s is %s (%s)", kind, status, reason), func() string {
		c := meta.FindStatusCondition(b.get(fleet).Status.Conditions, kind)
		if c == nil {
			return "not set"
		}
		if c.Status != status || c.Reason != reason {
			return fmt.Sprintf("%s (%s): %s", c.Status, c.Reason, c.Message)
		}
		message = c.Message
		return ""
	})
	return message
}

// flavorStatus returns the status of a flavor of the fleet.
func (b *bench) flavorStatus(fleet, flavor string) v1alpha1.FlavorStatus {
	b.Helper()
	for _, s := range b.get(fleet).Status.Flavors {
		if s.Name == b.Space+"-"+flavor {
			return s
		}
	}
	return v1alpha1.FlavorStatus{}
}

func (b *bench) fleets() []v1alpha1.NodeFleet {
	var list v1alpha1.NodeFleetList
	testapi.List(b, b, &list, client.MatchingLabels{kit.BenchLabel: b.Space})
	return list.Items
}

func seconds(s float64) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(s * float64(time.Second))}
}

// pod returns a pod of the bench.
func (b *bench) pod(name, cpu, memory string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name, Labels: map[string]string{}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{kit.BenchLabel: b.Space},
			Containers: []corev1.Container{{
				Name: "main", Image: "none",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
				}},
			}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

// pods creates n equal pods.
func (b *bench) pods(prefix string, n int, cpu, memory string, change ...func(*corev1.Pod)) {
	b.Helper()
	for i := range n {
		b.Make(b.pod(fmt.Sprintf("%s-%03d", prefix, i), cpu, memory, change...))
	}
}

// wait waits until n pods are unschedulable, and until they came longer ago than the lag: creation times are whole seconds,
// so pods that were created one after the other may look like a stream, of which a fleet expects more.
func (b *bench) wait(n int) {
	b.Helper()
	b.Eventually(fmt.Sprintf("%d pods are unschedulable", n), func() string {
		waiting, newest := 0, time.Time{}
		for _, p := range b.Pods() {
			if p.Spec.NodeName == "" && meta.IsStatusConditionPresentAndEqual(podConditions(&p), string(corev1.PodScheduled), metav1.ConditionFalse) {
				waiting++
				if p.CreationTimestamp.After(newest) {
					newest = p.CreationTimestamp.Time
				}
			}
		}
		switch {
		case waiting != n:
			return fmt.Sprintf("%d are", waiting)
		case time.Since(newest) < expectedLag.Duration:
			return "the last one came within the lag"
		}
		return ""
	})
}

func podConditions(p *corev1.Pod) []metav1.Condition {
	all := make([]metav1.Condition, len(p.Status.Conditions))
	for i, c := range p.Status.Conditions {
		all[i] = metav1.Condition{Type: string(c.Type), Status: metav1.ConditionStatus(c.Status)}
	}
	return all
}

// removePods deletes all pods of the bench.
func (b *bench) removePods() {
	b.Helper()
	if err := b.DeleteAllOf(b.Context(), &corev1.Pod{}, client.InNamespace(b.Space)); err != nil {
		b.Fatal(err)
	}
}

// count returns the number of nodes of each flavor.
func (b *bench) count() map[string]int {
	b.Helper()
	found := map[string]int{}
	for _, n := range b.Nodes() {
		found[n.Labels[corev1.LabelInstanceTypeStable]]++
	}
	return found
}

// becomes waits until exactly these nodes exist.
func (b *bench) becomes(want map[string]int) {
	b.Helper()
	b.Eventually(fmt.Sprintf("the nodes are %v", want), func() string {
		if got := b.count(); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Sprint(got)
		}
		return ""
	})
}

// deployments returns the MachineDeployments of the bench.
func (b *bench) deployments() []unstructured.Unstructured {
	b.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(machineDeployments)
	testapi.List(b, b, list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{kit.BenchLabel: b.Space})
	return list.Items
}

// machines returns the Machines of the bench.
func (b *bench) machines() []unstructured.Unstructured {
	b.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(machineList)
	testapi.List(b, b, list, client.InNamespace(metav1.NamespaceDefault))
	var own []unstructured.Unstructured
	for _, m := range list.Items {
		if strings.HasPrefix(m.GetName(), b.Space+"-") {
			own = append(own, m)
		}
	}
	return own
}

// replicas returns the desired replicas of each flavor, without those that are zero.
func (b *bench) replicas() map[string]int {
	b.Helper()
	found := map[string]int{}
	for _, d := range b.deployments() {
		if n, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas"); n > 0 {
			found[strings.TrimPrefix(d.GetName(), b.Space+"-")] = int(n)
		}
	}
	return found
}

// highest watches the desired replicas, and returns a function that returns their maximum so far for each
// flavor, and for all flavors together.
func (b *bench) highest() func() (each map[string]int, together int) {
	b.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(machineDeployments)
	w, err := b.Site.Client.Watch(b.Context(), list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{kit.BenchLabel: b.Space})
	if err != nil {
		b.Fatal(err)
	}
	var mu sync.Mutex
	now, highest, together := map[string]int{}, map[string]int{}, 0
	go func() {
		for e := range w.ResultChan() {
			d, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			n, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas")
			flavor := strings.TrimPrefix(d.GetName(), b.Space+"-")
			mu.Lock()
			now[flavor] = int(n)
			highest[flavor] = max(highest[flavor], int(n))
			sum := 0
			for _, n := range now {
				sum += n
			}
			together = max(together, sum)
			mu.Unlock()
		}
	}()
	b.Cleanup(w.Stop)
	return func() (map[string]int, int) {
		mu.Lock()
		defer mu.Unlock()
		seen := map[string]int{}
		for flavor, n := range highest {
			if n > 0 {
				seen[flavor] = n
			}
		}
		return seen, together
	}
}

// untouched describes what is left of an incomplete release, or returns "".
func (b *bench) untouched() string {
	for _, n := range b.Nodes() {
		if _, marked := n.Annotations[v1alpha1.AnnotationDraining]; marked || n.Spec.Unschedulable {
			return fmt.Sprintf("node %s is closed", n.Name)
		}
	}
	for _, m := range b.machines() {
		if mark, marked := m.GetAnnotations()["cluster.x-k8s.io/delete-machine"]; marked {
			return fmt.Sprintf("machine %s is marked %s", m.GetName(), mark)
		}
	}
	for _, f := range b.fleets() {
		if f.Status.Intent != nil {
			return fmt.Sprintf("fleet %s has an intent", f.Name)
		}
	}
	return ""
}
