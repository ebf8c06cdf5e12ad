package constraint

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Unfit is a CPU architecture, as in GOARCH, on whose Linux nodes a pod does not run, with a human-readable reason.
type Unfit struct{ Arch, Reason string }

// UnfitFor returns the pod with an additional constraint against Linux hosts of the given architectures, as if it
// required a node affinity against them. [Pod.Admits] returns their reasons last. Equal pods with equal archs give the
// same *Pod. UnfitFor uses the compiler, so it must not run concurrently with other uses of it.
//
// The hosts that spread constraints count stay the same, because kube-scheduler does not know this constraint.
func (p *Pod) UnfitFor(archs []Unfit) *Pod {
	if len(archs) == 0 {
		return p
	}
	archs = slices.Clone(archs)
	slices.SortFunc(archs, func(a, b Unfit) int { return cmp.Or(cmp.Compare(a.Arch, b.Arch), cmp.Compare(a.Reason, b.Reason)) })
	k := newKey(128)
	for _, u := range archs {
		k.add("unfit", u.Arch, u.Reason)
	}
	key := p.key + k.String()
	if known := p.compiler.pods[key]; known != nil {
		return known
	}
	static := *p.static
	static.key += k.String()
	static.unfit = append(slices.Clip(static.unfit), archs...)
	unfit := *p
	unfit.key, unfit.static = key, &static
	p.compiler.pods[key] = &unfit
	return &unfit
}

// unfitFor returns the reason why the pod does not run on the host's architecture, or "".
func (s *static) unfitFor(h *Host) string {
	if len(s.unfit) == 0 || h.Labels[corev1.LabelOSStable] != string(corev1.Linux) {
		return ""
	}
	for _, u := range s.unfit {
		if u.Arch == h.Labels[corev1.LabelArchStable] {
			return u.Reason
		}
	}
	return ""
}

// Needing returns the pod with the additional constraint that this many bytes of ephemeral storage are free on its host.
// Each pod is checked alone: of several pods that fit, the host may have room for only some. Equal pods with equal needs
// give the same *Pod. Like [Pod.UnfitFor], it uses the compiler.
func (p *Pod) Needing(disk int64) *Pod {
	if disk <= 0 {
		return p
	}
	k := newKey(32)
	k.add("disk", strconv.FormatInt(disk, 10))
	key := p.key + k.String()
	if known := p.compiler.pods[key]; known != nil {
		return known
	}
	static := *p.static
	static.key += k.String()
	static.disk = disk
	needing := *p
	needing.key, needing.static = key, &static
	p.compiler.pods[key] = &needing
	return &needing
}
