package nodefleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// grows checks that the given number of pods run on these machines, and no others are bought.
func (b *bench) grows(pods int, want map[string]int, highest func() (map[string]int, int)) {
	b.Helper()
	b.Runs(pods)
	b.becomes(want)
	if each, _ := highest(); !cmp.Equal(want, each) {
		b.Errorf("there were to be %v machines, want %v", each, want)
	}
}

func TestWhatADaemonSetTakesOfMachinesIsPlannedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t, "daemon")
	b.flavor("exact", "2", "4Gi", "0.10")
	b.flavor("bigger", "4", "8Gi", "0.25")
	highest := b.highest()
	pod := b.pod("agent", "500m", "256Mi", func(p *corev1.Pod) { p.Labels["app"] = "agent" })
	b.Make(&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	})
	b.pods("whole", 1, "2", "1Gi") // as large as the machine, which the agent makes too small
	b.pods("rest", 1, "1500m", "1Gi")
	b.wait(2)
	b.fleet("all")
	b.autoscale()
	b.grows(3, map[string]int{"bigger": 1}, highest)
	b.removePods() // the agent's pod comes back, and keeps no machine
	b.becomes(map[string]int{})
}

func TestPodsGetMachinesThatTheyTolerateAndSelect(t *testing.T) {
	t.Parallel()
	b := newBench(t, "select")
	// Each pod fits only one flavor, in whatever order the machines arrive.
	b.flavor("gpu", "4", "8Gi", "0.10", func(s *spec) {
		s.Taints = []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
	})
	b.flavor("plain", "3", "8Gi", "0.20")
	b.flavor("ssd", "2", "8Gi", "0.30", func(s *spec) { s.Labels["disk"] = "ssd" })
	highest := b.highest()
	b.pods("plain", 1, "3", "1Gi")
	b.pods("gpu", 1, "4", "1Gi", func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	})
	b.pods("ssd", 1, "2", "1Gi", func(p *corev1.Pod) { p.Spec.NodeSelector["disk"] = "ssd" })
	b.pods("hdd", 1, "1", "1Gi", func(p *corev1.Pod) { p.Spec.NodeSelector["disk"] = "hdd" })
	b.wait(4)
	b.fleet("all")
	b.autoscale()
	b.grows(3, map[string]int{"gpu": 1, "plain": 1, "ssd": 1}, highest)
	b.event("NoMachineFits") // for the pod that selects a label that no flavor has
	b.wait(1)
}

func TestPodsThatShunOneAnotherGetMachinesOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t, "shun")
	b.flavor("a", "4", "8Gi", "0.10")
	highest := b.highest()
	b.pods("p", 3, "500m", "1Gi", func(p *corev1.Pod) {
		p.Labels["app"] = "shy"
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shy"}}, TopologyKey: corev1.LabelHostname,
			}},
		}}
	})
	b.wait(3)
	b.fleet("all")
	b.autoscale()
	b.grows(3, map[string]int{"a": 3}, highest)
}

func TestPodsThatSpreadOverZonesGetMachinesInEach(t *testing.T) {
	t.Parallel()
	b := newBench(t, "zones")
	in := func(zone string) func(*spec) {
		return func(s *spec) { s.Labels[corev1.LabelTopologyZone] = zone }
	}
	b.flavor("a", "4", "8Gi", "0.10", in("a"))
	b.flavor("b", "4", "8Gi", "0.15", in("b"))
	highest := b.highest()
	b.pods("p", 4, "1900m", "1Gi", func(p *corev1.Pod) {
		p.Labels["app"] = "wide"
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, MinDomains: new(int32(2)), TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "wide"}},
		}}
	})
	b.wait(4)
	b.fleet("all")
	b.autoscale()
	b.grows(4, map[string]int{"a": 1, "b": 1}, highest)
}
