package purchase

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A pod may be excluded by several rules, and only some of them exclude it from every flavor: these are to be named,
// whatever comes first.
func TestARefusalNamesTheRuleThatExcludesAllFlavors(t *testing.T) {
	c := newDemands()
	requiring := func(requirements ...corev1.NodeSelectorRequirement) corev1.PodSpec {
		return corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: requirements}},
		}}}}
	}
	in := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	of := func(p Pod, spec corev1.PodSpec) Pod { p.Demands = c.of("x", spec); return p }
	on := func(arch string, f Flavor) Flavor { f.Arch = arch; return f }
	amd := func(p Pod) Pod { p.Arch = "amd64"; return p }
	zones := []Flavor{zoned(flavor("f", 10, 10, 10), "a"), zoned(flavor("g", 5, 10, 9), "b")}
	tainted := zoned(flavor("t", 10, 10, 10), "a")
	tainted.Host.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	var many []Flavor
	for i := range mostReasons + 2 {
		f := zoned(flavor(fmt.Sprint("m", i), 10, 10, 10), "a")
		f.Host.Taints = []corev1.Taint{{Key: fmt.Sprintf("t%02d", i), Effect: corev1.TaintEffectNoSchedule}}
		many = append(many, f)
	}
	for _, tc := range []struct {
		name    string
		pod     Pod
		flavors []Flavor
		want    string
	}{
		{"some flavor takes it", pod("p", 1, 1), zones, ""},
		{"no rule excludes all", of(pod("p", 6, 1), inZone("b")), zones, "0 of 2 flavors: 1 not admitted: node selector topology.kubernetes.io/zone=b, 1 too small (CPU)"},
		{"a rule behind others", amd(of(pod("p", 1, 1), inZone("c"))), []Flavor{on("arm64", zones[0]), on("amd64", zones[1])},
			"0 of 2 flavors: 2 not admitted: node selector topology.kubernetes.io/zone=c"},
		{"a rule behind a taint", of(pod("p", 1, 1), inZone("c")), []Flavor{tainted, zones[1]},
			"0 of 2 flavors: 2 not admitted: node selector topology.kubernetes.io/zone=c"},
		{"the size alone", of(pod("p", 11, 1), inZone("a")), zones, "0 of 2 flavors: 2 too small (CPU)"},
		{"the size, and more for some", pod("p", 11, 11), []Flavor{flavor("f", 10, 10, 10), flavor("g", 10, 20, 10)}, "0 of 2 flavors: 2 too small (CPU)"},
		{"two rules", of(pod("p", 11, 1), inZone("c")), zones,
			"0 of 2 flavors: 2 not admitted: node selector topology.kubernetes.io/zone=c, 2 too small (CPU)"},
		{"none is left", of(pod("p", 1, 1), inZone("c")), []Flavor{atLeft(zones[0], 0), zones[1]},
			"0 of 2 flavors: 2 not admitted: node selector topology.kubernetes.io/zone=c"},
		{"one requirement of a node affinity", of(pod("p", 1, 1), requiring(in(corev1.LabelTopologyZone, "a"), in("disk", "ssd"))), zones,
			"0 of 2 flavors: 2 not admitted: node affinity disk in (ssd)"},
		{"a node affinity as a whole", of(pod("p", 1, 1), requiring(in(corev1.LabelTopologyZone, "a"), in(corev1.LabelTopologyZone, "b"))), zones,
			"0 of 2 flavors: 2 not admitted: node affinity topology.kubernetes.io/zone in (a),topology.kubernetes.io/zone in (b)"},
		{"an exception", Pod{Item: pod("p", 1, 1).Item, Except: &Exceptions{Flavors: map[string]string{"f": "not here", "g": "not here"}}}, []Flavor{on("arm64", zones[0]), zones[1]},
			"0 of 2 flavors: 2 not admitted: not here"},
		{"many different reasons", pod("p", 1, 1), many, "0 of 12 flavors: 1 not admitted: untolerated taint t00:NoSchedule, 1 not admitted: untolerated taint t01:NoSchedule, " +
			"1 not admitted: untolerated taint t02:NoSchedule, 1 not admitted: untolerated taint t03:NoSchedule, 1 not admitted: untolerated taint t04:NoSchedule, " +
			"1 not admitted: untolerated taint t05:NoSchedule, 1 not admitted: untolerated taint t06:NoSchedule, 1 not admitted: untolerated taint t07:NoSchedule, " +
			"1 not admitted: untolerated taint t08:NoSchedule, 1 not admitted: untolerated taint t09:NoSchedule, 2 for other reasons"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := tc.pod
			if p.Demands == nil {
				p.Demands = c.of("x", corev1.PodSpec{})
			}
			if got := Refusal(&p, tc.flavors); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// BenchmarkRefusal explains why none of many flavors takes a pod, which several rules exclude.
func BenchmarkRefusal(b *testing.B) {
	c := newDemands()
	p := pod("p", 6, 1)
	p.Arch, p.Demands = "amd64", c.of("x", corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelTopologyZone: "c", "disk": "ssd"}})
	flavors := make([]Flavor, 10_000)
	for i := range flavors {
		flavors[i] = zoned(flavor(fmt.Sprint(i), int64(i%12), 10, 10), string(rune('a'+i%3)))
		flavors[i].Arch = []string{"amd64", "arm64"}[i%2]
	}
	for b.Loop() {
		if Refusal(&p, flavors) == "" {
			b.Fatal("a flavor takes it")
		}
	}
}
