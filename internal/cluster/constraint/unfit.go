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

// Volumes is a number of volumes of a CSI driver.
type Volumes struct {
	Driver string
	Count  int64
}

// Attaching returns the pod with the additional constraint that its host can attach these volumes, together with those of
// the other pods there. The volumes are sorted by driver, each of which occurs once. As for kube-scheduler, a host of
// which no number is known can attach any; if hasDrivers is set, it must be known to have the drivers, because a pod that
// leaves its node for one without them would not start.
//
// [Pod.Admits] checks the volumes of the pod alone, [Attached] and [Tracker] those of all pods. Volumes of several pods
// count for each. Equal pods with equal volumes give the same *Pod. Like [Pod.UnfitFor], it uses the compiler.
func (p *Pod) Attaching(volumes []Volumes, hasDrivers bool) *Pod {
	if len(volumes) == 0 {
		return p
	}
	k := newKey(64)
	k.add("attach", strconv.FormatBool(hasDrivers))
	for _, v := range volumes {
		k.add(v.Driver, strconv.FormatInt(v.Count, 10))
	}
	key := p.key + k.String()
	if known := p.compiler.pods[key]; known != nil {
		return known
	}
	static := *p.static
	static.key += k.String()
	static.volumes, static.hasDrivers = slices.Clone(volumes), hasDrivers
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
		case !has && s.hasDrivers && h.Attaches == nil:
			return "it is unknown how many volumes can be attached there"
		case !has && s.hasDrivers:
			return "CSI driver " + v.Driver + " is missing"
		case has && v.Count > most:
			return fmt.Sprintf("it has %d volumes of CSI driver %s, and %d can be attached", v.Count, v.Driver, most)
		}
	}
	return ""
}

// Attached are the volumes of the pods on a host, of those that [Pod.Attaching] has returned. The zero value has none.
type Attached struct{ volumes []Volumes }

// Add adds the volumes of a pod; nil has none.
func (a *Attached) Add(p *Pod) { a.add(p, 1) }

// Remove removes the volumes of a pod that was added.
func (a *Attached) Remove(p *Pod) { a.add(p, -1) }

func (a *Attached) add(p *Pod, sign int64) {
	if p == nil {
		return
	}
	for _, v := range p.static.volumes {
		at := slices.IndexFunc(a.volumes, func(o Volumes) bool { return o.Driver == v.Driver })
		if at < 0 {
			at, a.volumes = len(a.volumes), append(a.volumes, Volumes{Driver: v.Driver})
		}
		a.volumes[at].Count += sign * v.Count
	}
}

// Clone returns an independent copy.
func (a *Attached) Clone() Attached { return Attached{slices.Clone(a.volumes)} }

// Refuses returns why the host cannot attach the volumes of one more pod, or ""; nil has none. Cost: O(volumes of the pod
// × drivers).
func (a *Attached) Refuses(p *Pod, h *Host) string {
	if p == nil || h == nil {
		return ""
	}
	for _, v := range p.static.volumes {
		most, has := h.Attaches[v.Driver]
		if has && v.Count > most-a.of(v.Driver) {
			return "no more volumes of CSI driver " + v.Driver + " can be attached"
		}
	}
	return ""
}

// With returns the host as it is with more volumes and without others: it can attach fewer, or more, for the pods that a
// caller knows of. It shares unchanged data with h.
func (h *Host) With(more, fewer *Attached) *Host {
	var changed map[string]int64
	for driver, most := range h.Attaches {
		if n := more.of(driver) - fewer.of(driver); n != 0 && most < math.MaxInt64 {
			if changed == nil {
				changed = maps.Clone(h.Attaches)
			}
			changed[driver] = most - n
		}
	}
	if changed == nil {
		return h
	}
	with := *h
	with.Attaches = changed
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
