package nodefleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// begins sets the initial replicas of a MachineDeployment.
func begins(n int) func(*spec) { return func(s *spec) { s.Replicas = n } }

// named returns the names of the nodes of a flavor, once there are n.
func (b *bench) named(flavor string, n int) (nodes []string) {
	b.Helper()
	b.Eventually(fmt.Sprintf("%d machines of flavor %s are there", n, flavor), func() string {
		nodes = nil
		for _, node := range b.Nodes() {
			if node.Labels[corev1.LabelInstanceTypeStable] == flavor {
				nodes = append(nodes, node.Name)
			}
		}
		return cmp.Diff(n, len(nodes))
	})
	slices.Sort(nodes)
	return nodes
}

// put creates a pod that is bound to a node from the start, with a controller that does not replace it.
func (b *bench) put(node, name, cpu, memory string, change ...func(*corev1.Pod)) {
	b.Helper()
	pod := b.movablePod(name, cpu, memory)
	pod.Spec.NodeName = node
	pod.OwnerReferences = []metav1.OwnerReference{b.owner()}
	for _, f := range change {
		f(pod)
	}
	b.Make(pod)
}

func (b *bench) owner() metav1.OwnerReference {
	b.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "owner"}}
	if err := b.Get(b.Context(), client.ObjectKeyFromObject(m), m); err != nil {
		b.Make(m)
	}
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: m.Name, UID: m.UID, Controller: new(true)}
}

func service(p *corev1.Pod) { p.Labels[v1alpha1.LabelClass] = "service" }

// budget creates a budget with a minimum of available pods with the label app, and waits until it allows the
// given disruptions.
func (b *bench) budget(app string, least int, allowed int32) {
	b.Helper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt(least)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}
	b.Make(budget)
	b.Eventually("the budget is seen", func() string {
		if err := b.Get(b.Context(), client.ObjectKeyFromObject(budget), budget); err != nil {
			return err.Error()
		}
		if s := budget.Status; s.ObservedGeneration == 0 || s.CurrentHealthy < int32(least) || s.DisruptionsAllowed != allowed {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
}

// room creates a machine that is well used, and has room.
func (b *bench) room() {
	b.Helper()
	b.flavor("room", "32", "64Gi", "1.00", begins(1))
	b.put(b.named("room", 1)[0], "tenant", "20", "40Gi", service)
}

func TestOnlyMachinesThatNobodyMissesAreReleased(t *testing.T) {
	t.Parallel()
	b := newBench(t, "keep")
	b.flavor("m", "4", "8Gi", "0.16", begins(8))
	b.flavor("min", "2", "4Gi", "0.10", begins(2), func(s *spec) { s.Min = 1 })
	b.room()
	b.named("min", 2)
	nodes := b.named("m", 8)
	says := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[key] = value }
	}
	const safe = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	for i, change := range []func(*corev1.Pod){
		func(p *corev1.Pod) { service(p); p.Annotations["karpenter.sh/do-not-disrupt"] = "true" },
		says(v1alpha1.AnnotationMigration, v1alpha1.MigrationNever),
		says(safe, "false"),
		func(p *corev1.Pod) { p.OwnerReferences = nil },     // no controller would restart it
		func(p *corev1.Pod) { p.Labels["app"] = "guarded" }, // its budget allows no disruption
		func(*corev1.Pod) {},                                // it may be moved
	} {
		b.put(nodes[i], fmt.Sprintf("p-%d", i), "500m", "1Gi", change)
	}
	b.Runs(7)
	b.budget("guarded", 1, 0)
	b.cordon(nodes[6], true) // by an administrator; the last one is empty
	b.fleet("all", underUsed)
	b.autoscale()

	stay := func(want ...string) {
		t.Helper()
		b.Eventually("the other machines are released", func() string {
			var have []string
			for _, n := range b.Nodes() {
				if n.Labels[corev1.LabelInstanceTypeStable] == "m" {
					have = append(have, n.Name)
				}
			}
			slices.Sort(have)
			return cmp.Diff(want, have)
		})
	}
	stay(slices.Delete(slices.Clone(nodes), 5, 6)[:6]...)
	b.named("min", 1)
	b.Runs(6) // the movable one has been evicted, and is not recreated

	// The administrator uncordons the machine. It has been empty for long.
	b.cordon(nodes[6], false)
	stay(nodes[:5]...)
	b.becomes(map[string]int{"m": 5, "min": 1, "room": 1})
	b.Runs(6)
	b.Eventually("nothing is left of what was done", b.untouched)
}

// cordon cordons or uncordons a node manually.
func (b *bench) cordon(node string, closed bool) {
	b.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, closed)
	if err := b.Patch(b.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, patch)); err != nil {
		b.Fatal(err)
	}
}

func TestAnEvictedPodOfAJobContinuesElsewhere(t *testing.T) {
	t.Parallel()
	b := newBench(t, "job")
	growAndShrink(b, func(name, cpu, memory string) client.Object {
		pod := b.movablePod(name, cpu, memory)
		delete(pod.Labels, v1alpha1.LabelClass) // a Job's pods are batch
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name},
			Spec: batchv1.JobSpec{
				PodReplacementPolicy: new(batchv1.Failed), BackoffLimit: new(int32(10)),
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec},
			},
		}
		b.Make(job)
		return job
	}, func() { b.autoscale() })
}

func TestADrainThatABudgetHoldsTimesOutAndTheNodeIsUncordoned(t *testing.T) {
	t.Parallel()
	b := newBench(t, "budget")
	b.flavor("m", "4", "8Gi", "0.16", begins(1))
	b.room()
	node := b.named("m", 1)[0]
	for i := range 2 {
		b.put(node, fmt.Sprintf("p-%d", i), "500m", "1Gi", func(p *corev1.Pod) { p.Labels["app"] = "guarded" })
	}
	b.Runs(3)
	b.budget("guarded", 1, 1)
	b.fleet("all", underUsed, func(s *v1alpha1.NodeFleetSpec) { s.Consolidation.DrainTimeout = seconds(20) })
	b.autoscale()
	b.Runs(2) // one pod of the machine is gone
	if note := b.event("DrainCancelled"); !strings.Contains(note, "1 pod has not left within 20s") {
		t.Errorf("the Event says %q", note)
	}
	b.Eventually("the node is open", b.untouched)
	if diff := cmp.Diff(map[string]int{"m": 1, "room": 1}, b.replicas()); diff != "" {
		t.Errorf("machines that there are to be (-want +got):\n%s", diff)
	}
	b.Runs(2)
}

// closedWhile runs an autoscaler that is blocked after it has cordoned the node of an empty machine, so that
// the test can change something.
func (b *bench) closedWhile(do func(node string)) {
	b.Helper()
	b.flavor("m", "4", "8Gi", "0.16", begins(1))
	node := b.named("m", 1)[0]
	g := kit.NewGate(closes)
	b.fleet("all")
	b.autoscale(func(o *app.Options) { o.Config.Wrap(g.Wrap) })
	b.Eventually("the node is cordoned", func() string {
		select {
		case <-g.Reached:
			return ""
		default:
			return "open"
		}
	})
	if b.untouched() == "" {
		b.Errorf("node %s is not closed", node)
	}
	do(node)
	close(g.Open)
}

func TestAPodThatTurnsUpOnANodeThatIsBeingEmptiedKeepsIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, "late")
	b.closedWhile(func(node string) {
		b.put(node, "p", "500m", "1Gi", service)
		b.Runs(1)
	})
	b.Eventually("the node is uncordoned", b.untouched)
	b.event("DrainCancelled")
	b.Runs(1)
	if diff := cmp.Diff(map[string]int{"m": 1}, b.replicas()); diff != "" {
		t.Errorf("machines that there are to be (-want +got):\n%s", diff)
	}
}

func TestANodeOfAFleetThatIsDeletedIsOpenedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, "deleted")
	b.closedWhile(func(string) {
		testapi.Delete(t, b, b.get("all"))
	})
	b.Eventually("the node is uncordoned", b.untouched)
	if diff := cmp.Diff(map[string]int{"m": 1}, b.replicas()); diff != "" {
		t.Errorf("machines that there are to be (-want +got):\n%s", diff)
	}
}
