package constraint_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

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
	needing := plain.Needing(20 << 30)
	if plain.Needing(0) != plain || plain.Needing(20<<30) != needing || needing.Key() == plain.Key() || needing.StaticKey() == plain.StaticKey() {
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
		"a pod that needs none":    {plain, on(0, 0), ""},
		"a host that nobody knows": {needing, &constraint.Host{}, ""},
		"and when that is empty":   {needing, (&constraint.Host{}).Emptied(), ""},
	} {
		if got := tc.pod.Admits(tc.host); got != tc.want {
			t.Errorf("%s: it is kept away by %q, want %q", name, got, tc.want)
		}
	}
}
