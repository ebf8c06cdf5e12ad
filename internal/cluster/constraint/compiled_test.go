package constraint_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// TestPodsThatWereCompiledBeforeAreTheSameAsCompiledAgain draws pods of which many differ in one thing alone.
func TestPodsThatWereCompiledBeforeAreTheSameAsCompiledAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := []*corev1.Pod{drawPod(t)}
		for range rapid.IntRange(1, 12).Draw(t, "pods") {
			pod, other := rapid.SampledFrom(pods).Draw(t, "of").DeepCopy(), drawPod(t)
			for range rapid.IntRange(0, 2).Draw(t, "changes") {
				mix(t, pod, other)
			}
			pods = append(pods, pod)
		}
		known, again := constraint.NewCompiler(knownNamespaces), constraint.NewCompiler(knownNamespaces)
		type both struct{ known, again *constraint.Pod }
		all := make([]both, len(pods))
		for i, pod := range pods {
			var errs [2]error
			all[i].known, errs[0] = known.Compile(pod)
			all[i].again, errs[1] = again.CompileAgain(pod)
			if (errs[0] == nil) != (errs[1] == nil) {
				t.Fatalf("pod %d: %v, and again %v", i, errs[0], errs[1])
			}
		}
		for i := range all {
			for j := range all[:i] {
				if same, again := all[i].known == all[j].known, all[i].again == all[j].again; same != again {
					t.Fatalf("pods %d and %d have the same constraints: %v, and compiled again: %v\n%+v\n%+v", i, j, same, again, pods[i], pods[j])
				}
			}
		}
	})
}

// mix gives a pod one thing of another one.
func mix(t *rapid.T, pod, other *corev1.Pod) {
	switch rapid.IntRange(0, 8).Draw(t, "thing") {
	case 0:
		pod.Namespace = other.Namespace
	case 1:
		pod.Labels = other.Labels
	case 2:
		pod.Spec.NodeName = other.Spec.NodeName
	case 3:
		pod.Spec.NodeSelector = other.Spec.NodeSelector
	case 4:
		pod.Spec.Tolerations = other.Spec.Tolerations
	case 5:
		pod.Spec.Affinity = other.Spec.Affinity
	case 6:
		pod.Spec.TopologySpreadConstraints = other.Spec.TopologySpreadConstraints
	case 7:
		pod.Spec.Containers = other.Spec.Containers
	case 8:
		pod.Spec.InitContainers = other.Spec.InitContainers
	}
}
