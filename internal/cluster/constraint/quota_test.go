package constraint_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/test/draw"
)

// TestNoMorePodsComeToADomainThanTheirQuota places pods wherever they may run, in any order. One kind of them always
// spreads over zones, which alone makes for quotas in most runs.
func TestNoMorePodsComeToADomainThanTheirQuota(t *testing.T) {
	reached := 0
	property := func(t *rapid.T) {
		c := constraint.NewCompiler(knownNamespaces)
		var kinds, there, came []*constraint.Pod
		for range rapid.IntRange(1, 3).Draw(t, "kinds") {
			pod := drawPod(t)
			if len(kinds) == 0 {
				spreadOver(zone, 1, pod.Labels["app"])(pod)
			}
			kinds = append(kinds, compile(t, c, pod, served(t, pod)))
		}
		var known, all []*constraint.Host
		for i := range rapid.IntRange(1, 6).Draw(t, "hosts") {
			h := drawHost(t, hostName(i))
			all = append(all, h)
			if rapid.Bool().Draw(t, "known") {
				known = append(known, h)
			}
		}
		tracker := constraint.NewTracker()
		tracker.Expect(kinds...)
		ids := map[*constraint.Host]int{}
		for _, h := range all {
			ids[h] = tracker.AddHost(h)
		}
		for _, h := range known {
			for range rapid.IntRange(0, 2).Draw(t, "there") {
				p := rapid.SampledFrom(kinds).Draw(t, "pod there")
				there = append(there, p)
				tracker.Place(p, ids[h])
			}
		}
		on := map[*constraint.Host][]*constraint.Pod{}
		for range rapid.IntRange(1, 12).Draw(t, "tries") {
			p, h := rapid.SampledFrom(kinds).Draw(t, "pod"), rapid.SampledFrom(all).Draw(t, "host")
			if p.Admits(h) == "" && tracker.Check(p, ids[h]) == "" {
				tracker.Place(p, ids[h])
				came = append(came, p)
				on[h] = append(on[h], p)
			}
		}
		for _, q := range constraint.Quotas(known, there, came) {
			for domain, n := range inDomains(q, on) {
				if n > q.Most {
					t.Fatalf("%d pods of %d in domain %q of %s, want %d at most", n, len(came), domain, q.TopologyKey, q.Most)
				}
				if n == q.Most && n < len(came) {
					reached++
				}
			}
		}
	}
	draw.Fixed(t, 50, property)
	if reached == 0 {
		t.Error("no quota was reached")
	}
	rapid.Check(t, property)
}

// inDomains counts the pods that a quota is about, by domain.
func inDomains(q constraint.Quota, on map[*constraint.Host][]*constraint.Pod) map[string]int {
	count := map[string]int{}
	for h, pods := range on {
		domain, has := h.Labels[q.TopologyKey]
		for _, p := range pods {
			if has && q.Pods[p] {
				count[domain]++
			}
		}
	}
	return count
}

func TestQuotasOfASpread(t *testing.T) {
	atLeast := func(domains int32) func(*corev1.TopologySpreadConstraint) {
		return func(s *corev1.TopologySpreadConstraint) { s.MinDomains = &domains }
	}
	zones := []*constraint.Host{in("a", "1"), in("b", "2"), in("c", "3"), in("a", "4")}
	tests := []struct {
		name  string
		pod   *corev1.Pod
		hosts []*constraint.Host
		pods  int
		want  int // 0 for none
	}{
		{"three zones", pod("x", spreadOver(zone, 1, "x")), zones, 9, 3},
		{"three zones, one pod more", pod("x", spreadOver(zone, 1, "x")), zones, 10, 4},
		{"a skew of two", pod("x", spreadOver(zone, 2, "x")), zones, 9, 4},
		{"one zone", pod("x", spreadOver(zone, 1, "x")), zones[:1], 9, 9},
		{"no zone that is known", pod("x", spreadOver(zone, 1, "x")), nil, 9, 9},
		{"minDomains beyond those that are known", pod("x", spreadOver(zone, 1, "x", atLeast(3))), nil, 9, 3},
		{"fewer pods than minDomains", pod("x", spreadOver(zone, 1, "x", atLeast(3))), nil, 2, 1},
		{"a spread of others", pod("x", spreadOver(zone, 1, "y")), zones, 9, 0},
		{"a spread over hosts, which there may be many of", pod("x", spreadOver(hostname, 1, "x")), zones[:1], 9, 9},
		{"anti-affinity by zone", pod("x", awayFrom("x", zone)), nil, 2, 1},
		{"anti-affinity by host", pod("x", awayFrom("x", hostname)), nil, 2, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := mustCompile(t, constraint.NewCompiler(knownNamespaces), tt.pod)
			var coming []*constraint.Pod
			for range tt.pods {
				coming = append(coming, p)
			}
			got := 0
			for _, q := range constraint.Quotas(tt.hosts, nil, coming) {
				got = q.Most
			}
			if got != tt.want {
				t.Errorf("%d come to one domain at most, want %d", got, tt.want)
			}
		})
	}
}

func TestOnlyKeepsApartAndCoupledBeyond(t *testing.T) {
	tests := []struct {
		name         string
		pod          *corev1.Pod
		only, beyond bool
		keys         int
	}{
		{"nothing", pod("x"), true, false, 0},
		{"a port", pod("x", hostPort(80)), true, false, 0},
		{"anti-affinity to itself by host", pod("x", awayFrom("x", hostname)), true, false, 1},
		{"anti-affinity to others by host", pod("x", awayFrom("y", hostname)), false, false, 1},
		{"anti-affinity by zone", pod("x", awayFrom("x", zone)), true, true, 1},
		{"affinity by host", pod("x", near("x", hostname)), false, false, 1},
		{"affinity by zone", pod("x", near("x", zone)), true, true, 1},
		{"a spread over hosts", pod("x", spreadOver(hostname, 1, "x")), false, false, 1},
		{"a spread over zones", pod("x", spreadOver(zone, 1, "x")), true, true, 1},
		{"both", pod("x", awayFrom("x", hostname), spreadOver(zone, 1, "x")), true, true, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := constraint.NewCompiler(knownNamespaces)
			p, matched, aside := mustCompile(t, c, tt.pod), mustCompile(t, c, pod("x")), mustCompile(t, c, pod("z"))
			beyond := constraint.CoupledBeyond([]*constraint.Pod{p, matched, aside}, hostname)
			if got := p.OnlyKeepsApart(hostname); got != tt.only {
				t.Errorf("it only keeps apart on hosts: %v, want %v", got, tt.only)
			}
			if beyond[p] != tt.beyond || beyond[matched] != tt.beyond || beyond[aside] {
				t.Errorf("domains beyond hosts matter to it %v, to a pod that it is about %v, to another %v; want %v, the same and false",
					beyond[p], beyond[matched], beyond[aside], tt.beyond)
			}
			if got := len(p.TopologyKeys()); got != tt.keys {
				t.Errorf("its demands are about %q, want %d topology keys", p.TopologyKeys(), tt.keys)
			}
		})
	}
}
