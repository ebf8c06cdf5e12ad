package constraint_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// scene is a cluster of 500 hosts in 3 zones and 200 services. Each service keeps its pods apart by host and spreads
// them over zones, and each pod has its own labels.
type scene struct {
	pods    []*corev1.Pod
	hosts   []*constraint.Host
	tracker *constraint.Tracker
	ids     []int
}

func newScene(pods int) *scene {
	s := &scene{tracker: constraint.NewTracker()}
	for i := range 500 {
		name := fmt.Sprintf("node-%d", i)
		h := &constraint.Host{Name: name, Labels: map[string]string{
			hostname: name, zone: string(rune('a' + i%3)), corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		}}
		s.hosts = append(s.hosts, h)
		s.ids = append(s.ids, s.tracker.AddHost(h))
	}
	for i := range pods {
		app := fmt.Sprintf("app-%d", i%200)
		s.pods = append(s.pods, benchPod(app, i, i%4 == 0))
	}
	return s
}

// benchPod returns the i-th pod, with or without constraints on other pods.
func benchPod(app string, i int, demanding bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("%s-%d", app, i), Labels: map[string]string{
		"app.kubernetes.io/name": app, "pod-template-hash": "5d4f8c7b9", "statefulset.kubernetes.io/pod-name": fmt.Sprintf("%s-%d", app, i),
	}}}
	p.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"}
	p.Spec.Tolerations = []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}
	if demanding {
		of := &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": app}}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: of, TopologyKey: hostname}}}}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: zone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: of}}
	}
	return p
}

func (s *scene) compile(tb testing.TB) []*constraint.Pod {
	c := constraint.NewCompilerFor(nil, s.pods)
	compiled := make([]*constraint.Pod, len(s.pods))
	for i := range s.pods {
		var err error
		if compiled[i], err = c.Compile(s.pods[i]); err != nil {
			tb.Fatal(err)
		}
	}
	return compiled
}

func (s *scene) place(compiled []*constraint.Pod) {
	for i, p := range compiled {
		s.tracker.Place(p, s.ids[i%len(s.ids)])
	}
}

func BenchmarkCompile(b *testing.B) {
	s := newScene(50_000)
	for _, tc := range []struct {
		name        string
		newCompiler func() *constraint.Compiler
	}{
		{"labels=all", func() *constraint.Compiler { return constraint.NewCompiler(nil) }},
		{"labels=selected", func() *constraint.Compiler { return constraint.NewCompilerFor(nil, s.pods) }},
	} {
		b.Run("pods=50000/"+tc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c := tc.newCompiler()
				for _, p := range s.pods {
					if _, err := c.Compile(p); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.pods)), "ns/pod")
		})
	}
}

func BenchmarkAdmits(b *testing.B) {
	s := newScene(1)
	p := s.compile(b)[0]
	b.ReportAllocs()
	for b.Loop() {
		p.Admits(s.hosts[0])
	}
}

// BenchmarkCheck checks with 10,000 placed pods; the cost must not depend on their number.
func BenchmarkCheck(b *testing.B) {
	s := newScene(10_000)
	compiled := s.compile(b)
	s.place(compiled)
	for i, name := range []string{"pod=demanding", "pod=plain"} {
		p := compiled[i]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s.tracker.Check(p, s.ids[i%len(s.ids)])
				i++
			}
		})
	}
}

func BenchmarkPlaceAndUnplace(b *testing.B) {
	s := newScene(10_000)
	compiled := s.compile(b)
	s.tracker.Expect(compiled...)
	s.place(compiled)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p, host := compiled[i%len(compiled)], s.ids[(7*i)%len(s.ids)]
		s.tracker.Place(p, host)
		s.tracker.Unplace(p, host)
		i++
	}
}

// BenchmarkPass is one pass of a planner: each pod is checked on hosts until one accepts it, and placed there.
func BenchmarkPass(b *testing.B) {
	for _, pods := range []int{5_000, 50_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			s := newScene(pods)
			compiled := s.compile(b)
			b.ReportAllocs()
			checks := 0
			for b.Loop() {
				t := s.tracker.Clone()
				for i, p := range compiled {
					for k := range s.ids {
						checks++
						if id := s.ids[(i+k)%len(s.ids)]; t.Check(p, id) == "" {
							t.Place(p, id)
							break
						}
					}
				}
			}
			b.ReportMetric(float64(checks)/float64(b.N), "checks/op")
		})
	}
}

// BenchmarkClone clones a tracker with 10,000 pods and places one pod in the clone.
func BenchmarkClone(b *testing.B) {
	s := newScene(10_000)
	compiled := s.compile(b)
	s.tracker.Expect(compiled...)
	s.place(compiled)
	b.ReportAllocs()
	for b.Loop() {
		s.tracker.Clone().Place(compiled[0], s.ids[0])
	}
}
