package constraint

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAHostAdmitsNoPodThatConflictsWithItsResidents(t *testing.T) {
	pod := func(app string, change func(*corev1.PodSpec)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app, Labels: map[string]string{"app": app}}}
		p.Spec.Containers = []corev1.Container{{Name: "main"}}
		if change != nil {
			change(&p.Spec)
		}
		return p
	}
	port := func(number int32, protocol corev1.Protocol) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{HostPort: number, Protocol: protocol}}
		}
	}
	awayFrom := func(app, key string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: key},
			}}}
		}
	}
	for _, tc := range []struct {
		name          string
		pod, resident *corev1.Pod
		want          string
	}{
		{"nothing", pod("web", nil), pod("proxy", nil), ""},
		{"the same port", pod("web", port(8080, "TCP")), pod("proxy", port(8080, "TCP")), "host port 8080/TCP is taken by DaemonSet default/proxy"},
		{"another port", pod("web", port(8081, "TCP")), pod("proxy", port(8080, "TCP")), ""},
		{"another protocol", pod("web", port(8080, "UDP")), pod("proxy", port(8080, "TCP")), ""},
		{"anti-affinity on hosts", pod("web", awayFrom("proxy", corev1.LabelHostname)), pod("proxy", nil), "pod anti-affinity on kubernetes.io/hostname keeps it away from DaemonSet default/proxy"},
		{"anti-affinity to others", pod("web", awayFrom("db", corev1.LabelHostname)), pod("proxy", nil), ""},
		{"anti-affinity of the resident", pod("web", nil), pod("proxy", awayFrom("web", corev1.LabelHostname)), "the pod anti-affinity of DaemonSet default/proxy keeps it away"},
		{"anti-affinity of the resident to others", pod("web", nil), pod("proxy", awayFrom("db", corev1.LabelHostname)), ""},
		// Whether another machine of the zone runs the resident is up to a Tracker.
		{"anti-affinity on zones", pod("web", awayFrom("proxy", corev1.LabelTopologyZone)), pod("proxy", nil), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := NewCompiler(map[string]map[string]string{"default": nil})
			compiled := map[*corev1.Pod]*Pod{}
			for _, p := range []*corev1.Pod{tc.resident, tc.pod, pod("plain", nil)} {
				var err error
				if compiled[p], err = c.Compile(p); err != nil {
					t.Fatal(err)
				}
			}
			plain, err := c.Compile(pod("plain", nil))
			if err != nil {
				t.Fatal(err)
			}
			before := compiled[tc.pod].StaticKey() == plain.StaticKey()
			host := &Host{Residents: []Resident{c.Resident(compiled[tc.resident], "DaemonSet default/proxy")}}
			if got := compiled[tc.pod].Admits(host); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if got := compiled[tc.pod].Admits(&Host{}); got != "" {
				t.Errorf("without residents: %q", got)
			}
			if same := compiled[tc.pod].StaticKey() == plain.StaticKey(); !before || same != (tc.want == "") {
				t.Errorf("the key is that of a plain pod: %t, before there was a resident: %t", same, before)
			}
		})
	}
}
