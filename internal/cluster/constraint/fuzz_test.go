package constraint_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// FuzzCompile compiles pods from JSON, as files and other API servers may contain them. Compile must accept or reject
// each pod without changing it, give the same result each time, and return pods that can be checked, placed and
// removed.
func FuzzCompile(f *testing.F) {
	seeds := []*corev1.Pod{
		pod("web"), pod("web", awayFrom("web", hostname), spreadOver(zone, 1, "web")), pod("web", near("db", zone), hostPort(80)),
		pod("web", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{zone: "a"}
			p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
			affinityOf(p).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "cores", Operator: corev1.NodeSelectorOpGt, Values: []string{"7"}}},
					MatchFields:      []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a1"}}},
				}},
			}}
		}),
	}
	for _, seed := range seeds {
		data, err := json.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"metadata":{"labels":{"app":"web"}},"spec":{"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[` +
		`{"topologyKey":"zone","labelSelector":{},"namespaceSelector":{"matchExpressions":[{"key":"team","operator":"NotIn","values":["x"]}]},"mismatchLabelKeys":["app"]}]}},` +
		`"topologySpreadConstraints":[{"maxSkew":-1,"minDomains":-3,"topologyKey":"","whenUnsatisfiable":"DoNotSchedule","matchLabelKeys":["app","app"]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p corev1.Pod
		if json.Unmarshal(data, &p) != nil {
			t.Skip("not a pod")
		}
		before := p.DeepCopy()
		c := constraint.NewCompilerFor(knownNamespaces, []*corev1.Pod{&p})
		compiled, err := c.Compile(&p)
		again, againErr := c.Compile(before.DeepCopy())
		if compiled != again || (err == nil) != (againErr == nil) {
			t.Fatalf("compiled twice: %p, %v and %p, %v", compiled, err, again, againErr)
		}
		if diff := cmp.Diff(before, &p); diff != "" {
			t.Fatalf("Compile changed the pod (-before +after):\n%s", diff)
		}
		if err != nil {
			return
		}
		tracker := constraint.NewTracker()
		ids := []int{tracker.AddHost(in("a", "a1")), tracker.AddHost(in("b", "b1")), tracker.AddHost(&constraint.Host{})}
		answers := func() (all []string) {
			for _, id := range ids {
				all = append(all, tracker.Check(compiled, id))
			}
			return all
		}
		empty := answers()
		for _, id := range ids {
			tracker.Place(compiled, id)
			tracker.Place(compiled, id)
		}
		answers()
		for _, id := range ids {
			tracker.Unplace(compiled, id)
			tracker.Unplace(compiled, id)
		}
		if diff := cmp.Diff(empty, answers()); diff != "" {
			t.Fatalf("answers before any pod was there and after all had left (-before +after):\n%s", diff)
		}
		compiled.Admits(in("a", "a1"))
		constraint.Coupled([]*constraint.Pod{compiled})
		constraint.Requests(&p)
		constraint.Unsupported(&p)
	})
}
