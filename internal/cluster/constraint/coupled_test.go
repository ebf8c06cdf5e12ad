package constraint_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/test/draw"
)

// TestPodsThatAreNotCoupledNeitherAskNorMatter places all pods in one tracker and the coupled ones in another. Every
// pod of the set must get the same results in both, and those that are not coupled must never be rejected.
func TestPodsThatAreNotCoupledNeitherAskNorMatter(t *testing.T) {
	apart, together := 0, 0
	property := func(t *rapid.T) {
		c := constraint.NewCompiler(knownNamespaces)
		var set []*constraint.Pod
		for range rapid.IntRange(1, 8).Draw(t, "pods") {
			pod := drawPod(t)
			set = append(set, compile(t, c, pod, served(t, pod)))
		}
		coupled := constraint.Coupled(set)
		all, some := constraint.NewTracker(), constraint.NewTracker()
		hosts := rapid.IntRange(1, 4).Draw(t, "hosts")
		for i := range hosts {
			h := drawHost(t, hostName(i))
			all.AddHost(h)
			some.AddHost(h)
		}
		for range rapid.IntRange(0, 12).Draw(t, "placements") {
			p, host := rapid.SampledFrom(set).Draw(t, "pod"), rapid.IntRange(0, hosts-1).Draw(t, "host")
			all.Place(p, host)
			if coupled[p] {
				some.Place(p, host)
			}
		}
		all.Expect(set...)
		for _, p := range set {
			if coupled[p] {
				together++
			} else {
				apart++
			}
			for host := range hosts {
				got, want := all.Check(p, host), some.Check(p, host)
				if got != want {
					t.Fatalf("host %d: %q among all, %q among the coupled", host, got, want)
				}
				if !coupled[p] && got != "" {
					t.Fatalf("host %d refuses a pod that is not coupled: %s", host, got)
				}
			}
		}
	}
	draw.Fixed(t, 30, property)
	if apart == 0 || together == 0 {
		t.Errorf("%d pods coupled, %d not: want both", together, apart)
	}
	rapid.Check(t, property)
}

// TestCoupledNamesThoseWhoAskAndThoseWhoAreAskedAbout tests each kind of constraint with a pod that has it, one that it
// selects and one that is unaffected.
func TestCoupledNamesThoseWhoAskAndThoseWhoAreAskedAbout(t *testing.T) {
	tests := []struct {
		name       string
		demand     func(*corev1.Pod)
		matchedToo bool
	}{
		{"anti-affinity", awayFrom("web", hostname), true},
		{"affinity", near("web", zone), true},
		{"hard spread", spreadOver(zone, 1, "web"), true},
		{"soft spread", softSpread(zone, "web"), false},
		{"host port", hostPort(80), false},
		{"node selector", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{zone: "a"} }, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := constraint.NewCompiler(nil)
			asking := mustCompile(t, c, pod("asker", tc.demand))
			matched, aside := mustCompile(t, c, pod("web")), mustCompile(t, c, pod("db"))
			coupled := constraint.Coupled([]*constraint.Pod{asking, matched, aside})
			if got, want := coupled[asking], !asking.Plain(); got != want {
				t.Errorf("the pod with the demand: coupled %v, want %v", got, want)
			}
			if coupled[matched] != tc.matchedToo {
				t.Errorf("the pod it is about: coupled %v, want %v", coupled[matched], tc.matchedToo)
			}
			if coupled[aside] {
				t.Error("a pod that nobody asks about is coupled")
			}
			if got := constraint.Coupled([]*constraint.Pod{matched, aside}); len(got) > 0 {
				t.Errorf("without the pod with the demand, %d pods are coupled", len(got))
			}
		})
	}
}
