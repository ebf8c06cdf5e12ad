package constraint_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

func onPlatform(os, arch string) *constraint.Host {
	return &constraint.Host{Labels: map[string]string{corev1.LabelOSStable: os, corev1.LabelArchStable: arch}}
}

func TestAPodIsKeptAwayFromTheArchitecturesThatItIsUnfitFor(t *testing.T) {
	c := constraint.NewCompiler(nil)
	fit := mustCompile(t, c, pod("a"))
	unfit := fit.UnfitFor([]constraint.Unfit{{Arch: "arm64", Reason: "not on arm64"}, {Arch: "s390x", Reason: "not on s390x"}})
	selecting := mustCompile(t, c, pod("a", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })).UnfitFor([]constraint.Unfit{{Arch: "arm64", Reason: "not on arm64"}})
	for name, tc := range map[string]struct {
		pod  *constraint.Pod
		host *constraint.Host
		want string
	}{
		"it was fit before":              {fit, onPlatform("linux", "arm64"), ""},
		"one that it is unfit for":       {unfit, onPlatform("linux", "arm64"), "not on arm64"},
		"another that it is unfit for":   {unfit, onPlatform("linux", "s390x"), "not on s390x"},
		"one that it is fit for":         {unfit, onPlatform("linux", "amd64"), ""},
		"the same with Windows":          {unfit, onPlatform("windows", "arm64"), ""},
		"one that nobody knows":          {unfit, &constraint.Host{}, ""},
		"what its spec says comes first": {selecting, onPlatform("linux", "arm64"), "node selector disk=ssd"},
	} {
		if got := tc.pod.Admits(tc.host); got != tc.want {
			t.Errorf("%s: it is kept away by %q, want %q", name, got, tc.want)
		}
	}
}

// TestEveryReasonOfAHostIsKnown: the first is that of Admits.
func TestEveryReasonOfAHostIsKnown(t *testing.T) {
	c := constraint.NewCompiler(nil)
	in := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	requires := func(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"disk": "ssd", "team": "a"}
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
		}
	}
	term := func(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: requirements}
	}
	host := onPlatform("linux", "arm64")
	host.Unschedulable = true
	host.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}, {Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}, {Key: "new", Effect: corev1.TaintEffectNoExecute}}
	before := []string{"unschedulable", "untolerated taint gpu:NoSchedule", "untolerated taint new:NoExecute", "node selector disk=ssd", "node selector team=a"}
	for name, tc := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		more  []string
	}{
		"a node affinity with one term": {[]corev1.NodeSelectorTerm{term(in("x", "1"), in(corev1.LabelOSStable, "linux"), in("y", "2"))}, []string{
			"node affinity kubernetes.io/os in (linux),x in (1),y in (2)", "node affinity x in (1)", "node affinity y in (2)",
		}},
		"with one requirement": {[]corev1.NodeSelectorTerm{term(in("x", "1"))}, []string{"node affinity x in (1)"}},
		"with two terms":       {[]corev1.NodeSelectorTerm{term(in("x", "1"), in("y", "2")), term(in("z", "3"))}, []string{"node affinity x in (1),y in (2) or z in (3)"}},
		"that it fulfils":      {[]corev1.NodeSelectorTerm{term(in(corev1.LabelOSStable, "linux"))}, nil},
	} {
		p := mustCompile(t, c, pod("a", requires(tc.terms...)))
		got := p.Rejections(host)
		if diff := cmp.Diff(slices.Concat(before, tc.more), got); diff != "" {
			t.Errorf("%s: reasons (-want +got):\n%s", name, diff)
		}
		among := p.RejectionsAmong(host, slices.Concat([]string{"another", "node selector disk=hdd"}, got))
		if slices.Sort(among); !slices.Equal(among, slices.Sorted(slices.Values(got))) {
			t.Errorf("%s: of them and two others, the host has %q", name, among)
		}
		if first := p.Admits(host); first != before[0] {
			t.Errorf("%s: the first reason is %q", name, first)
		}
	}
	if all := mustCompile(t, c, pod("a")).Rejections(onPlatform("linux", "arm64")); len(all) > 0 {
		t.Errorf("a host that admits the pod has reasons %q", all)
	}
}

func TestPodsThatAreUnfitForTheSameAreTheSame(t *testing.T) {
	c := constraint.NewCompiler(nil)
	fit := mustCompile(t, c, pod("a", awayFrom("a", zone)))
	arm, ibm := constraint.Unfit{Arch: "arm64", Reason: "x"}, constraint.Unfit{Arch: "s390x", Reason: "x"}
	one, other := fit.UnfitFor([]constraint.Unfit{arm, ibm}), fit.UnfitFor([]constraint.Unfit{ibm, arm})
	if one != other {
		t.Error("the order of architectures makes two pods")
	}
	if fit.UnfitFor(nil) != fit {
		t.Error("a pod that is fit for all is another")
	}
	if mustCompile(t, c, pod("a", awayFrom("a", zone))) != fit {
		t.Error("a pod that is unfit takes the place of the one that was fit")
	}
	differ := map[string]*constraint.Pod{"fit": fit, "arm64": fit.UnfitFor([]constraint.Unfit{arm}), "both": one, "reason": fit.UnfitFor([]constraint.Unfit{{Arch: "arm64", Reason: "y"}})}
	keys, statics := map[string]string{}, map[string]string{}
	for name, p := range differ {
		if twin := keys[p.Key()]; twin != "" {
			t.Errorf("%s and %s have one key", name, twin)
		}
		if twin := statics[p.StaticKey()]; twin != "" {
			t.Errorf("%s and %s have one static key", name, twin)
		}
		keys[p.Key()], statics[p.StaticKey()] = name, name
	}
	if one.Plain() || !constraint.Coupled([]*constraint.Pod{one, fit})[one] {
		t.Error("a pod that is unfit for an architecture does not demand the rest any more")
	}
}

func TestAPodIsKeptAwayFromHostsWithTooLittleEphemeralStorage(t *testing.T) {
	c := constraint.NewCompiler(nil)
	plain := mustCompile(t, c, pod("a"))
	needing := plain.Needing(20<<30, false)
	if plain.Needing(0, true) != plain || plain.Needing(20<<30, false) != needing || needing.Key() == plain.Key() || needing.StaticKey() == plain.StaticKey() {
		t.Error("pods with equal needs are not the same, or those with different needs are")
	}
	on := func(total, free int64) *constraint.Host {
		return &constraint.Host{Disk: &constraint.Disk{Total: total << 30, Free: free << 30}}
	}
	for name, tc := range map[string]struct {
		pod  *constraint.Pod
		host *constraint.Host
		want string
	}{
		"just enough is free":      {needing, on(30, 20), ""},
		"too little is free":       {needing, on(30, 19), "insufficient ephemeral-storage: it needs 20Gi of 19Gi that are free"},
		"when the host is empty":   {needing, on(30, 19).Emptied(), ""},
		"one that leaves":          {plain.Needing(20<<30, true), on(30, 20), ""},
		"it leaves, and is unsure": {plain.Needing(20<<30, true), &constraint.Host{}, "it is unknown how much ephemeral storage there is"},
		"a pod that needs none":    {plain, on(0, 0), ""},
		"a host that nobody knows": {needing, &constraint.Host{}, ""},
		"and when that is empty":   {needing, (&constraint.Host{}).Emptied(), ""},
	} {
		if got := tc.pod.Admits(tc.host); got != tc.want {
			t.Errorf("%s: it is kept away by %q, want %q", name, got, tc.want)
		}
	}
}

func TestPodsWithEqualVolumesAreTheSame(t *testing.T) {
	c := constraint.NewCompiler(nil)
	plain := mustCompile(t, c, pod("a"))
	of := func(count int64, leaves bool) *constraint.Pod {
		return plain.Attaching([]constraint.Volumes{{Driver: "disk", Count: count}}, leaves)
	}
	one, again := of(1, false), of(1, false)
	if plain.Attaching(nil, true) != plain || plain.Attaches() || one != again || !one.Attaches() {
		t.Error("pods with equal volumes are not the same, or one without volumes attaches some")
	}
	seen := map[string]bool{plain.StaticKey(): true}
	for _, p := range []*constraint.Pod{of(1, false), of(2, false), of(1, true), of(1, false).Needing(1, false)} {
		if seen[p.StaticKey()] {
			t.Errorf("pods with different volumes have one static key: %q", p.StaticKey())
		}
		seen[p.StaticKey()] = true
	}
	if p := of(1, false); !p.Plain() || len(constraint.Coupled([]*constraint.Pod{p})) > 0 || !constraint.Tracked([]*constraint.Pod{p, plain})[p] {
		t.Error("where a pod with volumes is matters to pods of other hosts, or not to those of its own")
	}
}

// TestATrackerCountsTheVolumesOfTheHost compares with a count of the volumes there.
func TestATrackerCountsTheVolumesOfTheHost(t *testing.T) {
	c := constraint.NewCompiler(nil)
	plain := mustCompile(t, c, pod("a"))
	rapid.Check(t, func(t *rapid.T) {
		tracker, disks := constraint.NewTracker(), make([]int64, 2) // by host
		hosts, placed := make([]*constraint.Host, 2), [2][]*constraint.Pod{}
		counts := map[*constraint.Pod]int64{}
		for i := range hosts {
			hosts[i] = &constraint.Host{Attaches: map[string]int64{"disk": rapid.Int64Range(0, 5).Draw(t, "most")}}
			tracker.AddHost(hosts[i])
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			at := rapid.IntRange(0, 1).Draw(t, "host")
			if last := len(placed[at]) - 1; last >= 0 && rapid.Bool().Draw(t, "leaves") {
				tracker.Unplace(placed[at][last], at)
				disks[at] -= counts[placed[at][last]]
				placed[at] = placed[at][:last]
			}
			count := rapid.Int64Range(0, 2).Draw(t, "disks")
			volumes := []constraint.Volumes{{Driver: "files", Count: 9}}
			if count > 0 {
				volumes = append([]constraint.Volumes{{Driver: "disk", Count: count}}, volumes...)
			}
			p := plain.Attaching(volumes, false)
			counts[p] = count
			if rapid.Bool().Draw(t, "clone") { // what is placed there does not count here
				tracker.Clone().Place(p, at)
			}
			fits := disks[at]+count <= hosts[at].Attaches["disk"] || count == 0
			if why := tracker.Check(p, at); (why == "") != fits {
				t.Fatalf("%d disks beside %d of %d: %q", count, disks[at], hosts[at].Attaches["disk"], why)
			}
			tracker.Place(p, at) // a scheduler may, or the number may have been lower
			disks[at], placed[at] = disks[at]+count, append(placed[at], p)
		}
	})
}

func TestAHostWithOtherPodsCanAttachFewerOrMore(t *testing.T) {
	c := constraint.NewCompiler(nil)
	of := func(n int64) (a constraint.Attached) {
		a.Add(mustCompile(t, c, pod("a")).Attaching([]constraint.Volumes{{Driver: "disk", Count: n}, {Driver: "files", Count: n}}, false))
		return a
	}
	host := &constraint.Host{Attaches: map[string]int64{"disk": 5, "files": math.MaxInt64}}
	one, three := of(1), of(3)
	for name, tc := range map[string]struct {
		more, fewer constraint.Attached
		want        int64
	}{"more": {three, one, 3}, "fewer": {one, three, 7}} {
		if got := host.With(&tc.more, &tc.fewer).Attaches; got["disk"] != tc.want || got["files"] != math.MaxInt64 {
			t.Errorf("%s: %v, want %d", name, got, tc.want)
		}
	}
	if host.With(&one, &one) != host || host.Attaches["disk"] != 5 {
		t.Error("the host has changed")
	}
}
