package nodefleet

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// deployment creates a Deployment of equal pods, labelled with its name.
func (b *bench) deployment(name string, replicas int32, cpu, memory string) {
	b.Helper()
	pod := b.pod(name, cpu, memory)
	pod.Labels["app"] = name
	b.Make(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec},
		},
	})
}

// scale sets the replicas of a Deployment.
func (b *bench) scale(name string, replicas int) {
	b.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name}}
	if err := b.Patch(b.Context(), d, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))); err != nil {
		b.Fatal(err)
	}
}

// servicesOnTwoMachines creates a Deployment with two pods on each of two machines, whose pods would all fit
// on one of them.
func (b *bench) servicesOnTwoMachines(name string) (nodes []string) {
	b.Helper()
	b.flavor("m", "4", "8Gi", "0.16", begins(2))
	nodes = b.named("m", 2)
	b.cordon(nodes[1], true)
	b.deployment(name, 2, "700m", "1Gi")
	b.Runs(2)
	b.cordon(nodes[1], false)
	b.cordon(nodes[0], true)
	b.scale(name, 4)
	b.Runs(4)
	b.cordon(nodes[0], false)
	for _, node := range nodes {
		if n := len(b.podsOn(node)); n != 2 {
			b.Fatalf("%d pods are on node %s, want 2", n, node)
		}
	}
	return nodes
}

// defaultConsolidation leaves the defaults for which machines are drained and which services leave them.
func defaultConsolidation(s *v1alpha1.NodeFleetSpec) {
	s.Consolidation.Policy, s.Consolidation.EvictServices = "", ""
}

// TestServicesLeaveAMachineThatIsUnderUsed has a PodDisruptionBudget that allows one disruption at a time.
func TestServicesLeaveAMachineThatIsUnderUsed(t *testing.T) {
	t.Parallel()
	b := newBench(t, "services")
	b.servicesOnTwoMachines("web")
	b.budget("web", 3, 1)
	b.fleet("all", defaultConsolidation)
	fewest := 4
	b.Meanwhile = func() { fewest = min(fewest, len(b.Running())) }
	b.autoscale()

	b.becomes(map[string]int{"m": 1})
	b.Runs(4)
	if fewest < 3 {
		t.Errorf("only %d pods ran at a time, and the budget wants 3", fewest)
	}
	if n := len(b.podsOn(b.named("m", 1)[0])); n != 4 {
		t.Errorf("%d pods are on the machine that is left, want all 4", n)
	}
	b.event("Release")
	b.Eventually("nothing is left of what was done", b.untouched)
}

// TestAServiceThatOptsOutKeepsItsMachine has a pod on each machine that opts out, the second by its local
// storage.
func TestAServiceThatOptsOutKeepsItsMachine(t *testing.T) {
	t.Parallel()
	b := newBench(t, "optout")
	nodes := b.servicesOnTwoMachines("web")
	for i, change := range []func(*corev1.Pod){
		func(p *corev1.Pod) { p.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"} },
		func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		},
	} {
		b.put(nodes[i], fmt.Sprint("stays-", i), "100m", "100Mi", service, func(p *corev1.Pod) { p.Annotations = nil }, change)
	}
	b.Runs(6)
	b.fleet("all", defaultConsolidation)
	b.autoscale()

	for i, want := range []string{"stays-0 must not be moved: it has annotation karpenter.sh/do-not-disrupt", "stays-1 must not be moved: the contents of its local volume cache"} {
		b.Eventually("explain says why the machine stays", func() string {
			text := b.explain("all")
			for _, line := range strings.Split(text, "\n") {
				if strings.Contains(line, nodes[i]+": ") && strings.Contains(line, want) {
					return ""
				}
			}
			return text
		})
	}
	b.becomes(map[string]int{"m": 2})
	b.Runs(6)
	b.Eventually("nothing is left of what was done", b.untouched)
}
