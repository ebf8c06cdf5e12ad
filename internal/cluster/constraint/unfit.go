package constraint

import (
	"cmp"
	"fmt"
	"maps"
	"math"
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

// Needing returns the pod with the additional constraint that this many bytes of ephemeral storage are free on its host. A
// host of which that is unknown has enough, but not for a pod that leaves its node.
//
// [Pod.Admits] checks the pod alone, [Attached] and [Tracker] what all pods of a host need. Equal pods with equal needs give
// the same *Pod. Like [Pod.UnfitFor], it uses the compiler.
func (p *Pod) Needing(disk int64, leaves bool) *Pod {
	if disk <= 0 {
		return p
	}
	k := newKey(32)
	k.add("disk", strconv.FormatInt(disk, 10), strconv.FormatBool(leaves))
	key := p.key + k.String()
	if known := p.compiler.pods[key]; known != nil {
		return known
	}
	static := *p.static
	static.key += k.String()
	static.disk, static.leaves = disk, static.leaves || leaves
	needing := *p
	needing.key, needing.static = key, &static
	p.compiler.pods[key] = &needing
	return &needing
}

// Volumes is a number of volumes of a CSI driver.
type Volumes struct {
	Driver string
	Count  int64
}

// Attaching returns the pod with the additional constraint that its host can attach these volumes, together with those of
// the other pods there. The volumes are sorted by driver, each of which occurs once. As for kube-scheduler, a host of
// which no number is known can attach any; for a pod that leaves its node, the host must be known to have the drivers: without
// them it would not start there.
//
// [Pod.Admits] checks the volumes of the pod alone, [Attached] and [Tracker] those of all pods. Volumes of several pods
// count for each. Equal pods with equal volumes give the same *Pod. Like [Pod.UnfitFor], it uses the compiler.
func (p *Pod) Attaching(volumes []Volumes, leaves bool) *Pod {
	if len(volumes) == 0 {
		return p
	}
	k := newKey(64)
	k.add("attach", strconv.FormatBool(leaves))
	for _, v := range volumes {
		k.add(v.Driver, strconv.FormatInt(v.Count, 10))
	}
	key := p.key + k.String()
	if known := p.compiler.pods[key]; known != nil {
		return known
	}
	static := *p.static
	static.key += k.String()
	static.volumes, static.leaves = slices.Clone(volumes), static.leaves || leaves
	attaching := *p
	attaching.key, attaching.static = key, &static
	p.compiler.pods[key] = &attaching
	return &attaching
}

// attaches returns why the host, without other pods, cannot attach the volumes of the pod, or "".
func (s *static) attaches(h *Host) string {
	for _, v := range s.volumes {
		most, has := h.Attaches[v.Driver]
		switch {
		case !has && s.leaves && h.Attaches == nil:
			return "it is unknown how many volumes can be attached there"
		case !has && s.leaves:
			return "CSI driver " + v.Driver + " is missing"
		case has && v.Count > most:
			return fmt.Sprintf("it has %d volumes of CSI driver %s, and %d can be attached", v.Count, v.Driver, most)
		}
	}
	return ""
}

// Attached is what pods take of the volumes and of the ephemeral storage of a host: those that [Pod.Attaching] and
// [Pod.Needing] have returned. The zero value is nothing.
type Attached struct {
	volumes []Volumes
	disk    int64
}

// Add adds what a pod takes; nil takes nothing.
func (a *Attached) Add(p *Pod) { a.add(p, 1) }

// Remove removes what a pod takes that was added.
func (a *Attached) Remove(p *Pod) { a.add(p, -1) }

func (a *Attached) add(p *Pod, sign int64) {
	if p == nil {
		return
	}
	a.disk += sign * p.static.disk
	for _, v := range p.static.volumes {
		at := slices.IndexFunc(a.volumes, func(o Volumes) bool { return o.Driver == v.Driver })
		if at < 0 {
			at, a.volumes = len(a.volumes), append(a.volumes, Volumes{Driver: v.Driver})
		}
		a.volumes[at].Count += sign * v.Count
	}
}

// Clone returns an independent copy.
func (a *Attached) Clone() Attached { return Attached{slices.Clone(a.volumes), a.disk} }

// Refuses returns why the host has too little for one more pod, or ""; nil takes nothing. Cost: O(volumes of the pod
// × drivers).
func (a *Attached) Refuses(p *Pod, h *Host) string {
	if p == nil || h == nil {
		return ""
	}
	if need := p.static.disk; need > 0 && h.Disk != nil && need > h.Disk.Total-a.disk {
		return "insufficient ephemeral-storage beside other pods"
	}
	for _, v := range p.static.volumes {
		most, has := h.Attaches[v.Driver]
		if has && v.Count > most-a.of(v.Driver) {
			return "no more volumes of CSI driver " + v.Driver + " can be attached"
		}
	}
	return ""
}

// With returns the host as it is with other pods: it has less, or more, for the pods that a caller knows of. more is what
// pods take that come, fewer of those that go. It shares unchanged data with h.
func (h *Host) With(more, fewer *Attached) *Host {
	with := *h
	if n := more.disk - fewer.disk; n != 0 && h.Disk != nil {
		with.Disk = &Disk{Total: h.Disk.Total - n, Free: h.Disk.Free - n}
	}
	var changed map[string]int64
	for driver, most := range h.Attaches {
		if n := more.of(driver) - fewer.of(driver); n != 0 && most < math.MaxInt64 {
			if changed == nil {
				changed = maps.Clone(h.Attaches)
			}
			changed[driver] = most - n
		}
	}
	if changed != nil {
		with.Attaches = changed
	}
	if changed == nil && with.Disk == h.Disk {
		return h
	}
	return &with
}

func (a *Attached) of(driver string) int64 {
	for _, v := range a.volumes {
		if v.Driver == driver {
			return v.Count
		}
	}
	return 0
}
