package constraint_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/test/draw"
)

// TestPodsOfASetThatKeepsApartShareNoDomain places one of two pods of a set and checks whether the other may be placed
// in the same domain.
func TestPodsOfASetThatKeepsApartShareNoDomain(t *testing.T) {
	compared := map[string]int{}
	property := func(t *rapid.T) {
		c := constraint.NewCompiler(knownNamespaces)
		key := rapid.SampledFrom([]string{corev1.LabelHostname, corev1.LabelTopologyZone}).Draw(t, "key")
		apart := pod("x", awayFrom("x", key))
		set := []*constraint.Pod{compile(t, c, apart, served(t, apart))} // draws without a set would compare nothing
		for range rapid.IntRange(1, 8).Draw(t, "pods") {
			pod := drawPod(t)
			set = append(set, compile(t, c, pod, served(t, pod)))
		}
		hosts := []*constraint.Host{drawHost(t, hostName(0)), drawHost(t, hostName(1))}
		if zone, has := hosts[0].Labels[corev1.LabelTopologyZone]; has {
			hosts[1].Labels[corev1.LabelTopologyZone] = zone
		}
		for _, p := range set {
			for _, q := range set {
				common := slices.ContainsFunc(p.Apart(key), func(name string) bool { return slices.Contains(q.Apart(key), name) })
				if !common {
					continue
				}
				tracker := constraint.NewTracker()
				tracker.Expect(set...)
				first := tracker.AddHost(hosts[0])
				tracker.Place(p, first)
				at := first
				if key != corev1.LabelHostname {
					if _, has := hosts[0].Labels[key]; !has {
						continue
					}
					at = tracker.AddHost(hosts[1])
				}
				compared[key]++
				if tracker.Check(q, at) == "" {
					t.Fatalf("%q may come to the %s of %q, with which it is in one set of %q and %q", q.Key(), key, p.Key(), p.Apart(key), q.Apart(key))
				}
			}
		}
	}
	draw.Fixed(t, 30, property)
	for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
		if compared[key] == 0 {
			t.Errorf("no pods were compared by %s", key)
		}
	}
	rapid.Check(t, property)
}

func TestApartNamesThoseThatKeepFromTheirOwnKind(t *testing.T) {
	tests := []struct {
		name string
		pod  *corev1.Pod
		key  string
		want int
	}{
		{"nothing", pod("x"), corev1.LabelHostname, 0},
		{"anti-affinity to itself", pod("x", awayFrom("x", corev1.LabelHostname)), corev1.LabelHostname, 1},
		{"by zone", pod("x", awayFrom("x", corev1.LabelTopologyZone)), corev1.LabelTopologyZone, 1},
		{"by another key", pod("x", awayFrom("x", corev1.LabelTopologyZone)), corev1.LabelHostname, 0},
		{"anti-affinity to others", pod("x", awayFrom("y", corev1.LabelHostname)), corev1.LabelHostname, 0},
		{"a port of the host", pod("x", hostPort(80)), corev1.LabelHostname, 1},
		{"ports are not by zone", pod("x", hostPort(80)), corev1.LabelTopologyZone, 0},
		{"a spread", pod("x", spreadOver(corev1.LabelHostname, 1, "x")), corev1.LabelHostname, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := mustCompile(t, constraint.NewCompiler(knownNamespaces), tt.pod).Apart(tt.key); len(got) != tt.want {
				t.Errorf("it is in the sets %q, want %d", got, tt.want)
			}
		})
	}
}
