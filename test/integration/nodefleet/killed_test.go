package nodefleet

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/test/kit"
)

// The autoscaler is killed just after its first write, after its second, and so on, until a run has no such write. A
// new one must then reach the same result as an undisturbed one.
func TestWhereverItIsKilledNothingIsBoughtTwiceOrForgotten(t *testing.T) {
	t.Parallel()
	const atOnce = 6 // runs that wait most of the time
	n := kit.KillAtEveryWrite(t, atOnce, func(t *testing.T, name string, c *kit.Cut) {
		b := newBench(t, name)
		growAndShrink(b, b.movable, func() { b.autoscaleAgainAfter(c) })
	})
	if n < 10 || n > 100 {
		t.Errorf("the run without an autoscaler killed has %d writes", n)
	}
}

// growAndShrink runs work, made of sets of one pod each, on an autoscaler that autoscale starts.
//
// Six pods fill a large machine and a medium one. Then one pod of each is deleted: the large one is still
// well used. The medium one is drained, and its pod moves.
//
// As with kubeadm, the nodes have a taint until cluster-api has recorded their Machines.
func growAndShrink(b *bench, set func(name, cpu, memory string) client.Object, autoscale func()) {
	const uninitialized = "node.cluster.x-k8s.io/uninitialized"
	b.flavor("medium", "4", "8Gi", "0.16", tainted(uninitialized))
	b.flavor("large", "8", "16Gi", "0.30", tainted(uninitialized))
	sets := map[string]client.Object{}
	for i := range 6 {
		name := fmt.Sprintf("w-%d", i)
		sets[name] = set(name, "1900m", "3Gi")
	}
	b.wait(6)
	highest := b.highest()
	b.fleet("all", underUsed)
	autoscale()
	b.Runs(6)
	b.becomes(map[string]int{"large": 1, "medium": 1})

	// The medium one first: with one pod less on only the large one, replacing it with a second medium
	// machine would save, too.
	nodes := b.nodesByFlavor()
	for _, flavor := range []string{"medium", "large"} {
		pods := b.podsOn(nodes[flavor])
		if len(pods) == 0 {
			b.Fatalf("the %s machine has no pods", flavor)
		}
		b.removeSet(sets[pods[0].Labels["app"]])
		b.Eventually("a pod of the "+flavor+" machine is gone", func() string {
			if slices.ContainsFunc(b.Pods(), func(p corev1.Pod) bool { return p.UID == pods[0].UID }) {
				return pods[0].Name + " is still there"
			}
			return ""
		})
	}
	b.Eventually("the medium machine is emptied and released", func() string {
		if diff := cmp.Diff(map[string]int{"large": 1}, b.count()); diff != "" {
			return "nodes (-want +got):\n" + diff
		}
		if run := len(b.Running()); run != 4 {
			return fmt.Sprintf("%d of 4 pods run", run)
		}
		if d := b.get("all").Status.LastDecision; d == nil || d.Measured == nil {
			return "not measured"
		}
		return b.untouched()
	})
	if diff := cmp.Diff(map[string]int{"large": 1}, b.replicas()); diff != "" {
		b.Errorf("machines that there are to be (-want +got):\n%s", diff)
	}
	if n := len(b.machines()); n != 1 {
		b.Errorf("%d machines, want 1", n)
	}
	if each, _ := highest(); !cmp.Equal(map[string]int{"large": 1, "medium": 1}, each) {
		b.Errorf("more machines than planned: %v", each)
	}
}

// autoscaleAnewAfter runs an autoscaler, and a new one when its connection is cut.
func (b *bench) autoscaleAgainAfter(c *kit.Cut) {
	b.Helper()
	b.StartAfterCut("the autoscaler", c, b.Start(b.autoscaler(func(o *app.Options) { o.Config.Wrap(c.Wrap) })), func() { b.autoscale() })
}

// underUsed lets a fleet also drain under-used machines.
func underUsed(s *v1alpha1.NodeFleetSpec) {
	s.Consolidation.Policy = v1alpha1.ConsolidateWhenUnderUsed
}

// movablePod returns a batch pod that may be evicted.
func (b *bench) movablePod(name, cpu, memory string) *corev1.Pod {
	pod := b.pod(name, cpu, memory)
	pod.Labels = map[string]string{"app": name, v1alpha1.LabelClass: "batch"}
	pod.Annotations = map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationRestart}
	return pod
}

// movable creates a ReplicaSet of one batch pod that may be evicted.
func (b *bench) movable(name, cpu, memory string) client.Object {
	b.Helper()
	pod := b.movablePod(name, cpu, memory)
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec},
		},
	}
	b.Make(set)
	return set
}

// removeSet deletes a ReplicaSet or a Job with its pods.
func (b *bench) removeSet(set client.Object) {
	b.Helper()
	if err := b.Delete(b.Context(), set, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		b.Fatal(err)
	}
}

// nodesByFlavor returns the only node of each flavor.
func (b *bench) nodesByFlavor() map[string]string {
	b.Helper()
	found := map[string]string{}
	for _, n := range b.Nodes() {
		found[n.Labels[corev1.LabelInstanceTypeStable]] = n.Name
	}
	return found
}

// podsOn returns the pods of the bench on a node.
func (b *bench) podsOn(node string) (found []corev1.Pod) {
	b.Helper()
	for _, p := range b.Pods() {
		if p.Spec.NodeName == node && p.DeletionTimestamp == nil {
			found = append(found, p)
		}
	}
	return found
}
