package fleetdecide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// images are the images known not to run on an architecture, by the scope of that knowledge: all namespaces, or one.
// They are learned from pods that show it and forgotten some time after the last such pod. A pod with such an image is
// planned as if it required another architecture. The scheduler does not know that: it may bind the pod to a node of
// the wrong architecture before the right machine has come.
type images map[imageOn]misfit

// imageOn is an image on an architecture. The namespace is empty for what the registry reports, which holds for all
// pods. A crash of a container may be caused by its pod, so it counts only in the pod's own namespace.
type imageOn struct {
	namespace string
	cluster.Platform
}

type misfit struct {
	why   string // for people
	until time.Time
}

const (
	// misfitFor is how long after the last observation an image is known not to run on an architecture.
	misfitFor = time.Hour
	// mostMisfits bounds the known misfits; those that expire first are dropped first.
	mostMisfits = 1000
)

func keyOf(m *cluster.Misfit) imageOn {
	if m.Crashed {
		return imageOn{m.Namespace, m.Platform}
	}
	return imageOn{Platform: m.Platform}
}

func whyOf(m *cluster.Misfit) string {
	if m.Crashed {
		return fmt.Sprintf("image %q does not run on %s (exec format error)", m.Image, m.Arch)
	}
	return fmt.Sprintf("image %q has no variant for %s", m.Image, m.Arch)
}

// learn adds what pods show now, and returns what is new. A crash is no proof if other pods run the image: a broken
// node crashes any image.
func (k images) learn(o *Observation, now time.Time) (news []cluster.Misfit) {
	maps.DeleteFunc(k, func(on imageOn, m misfit) bool {
		return !now.Before(m.until) || on.namespace != "" && o.Runs[on.Platform]
	})
	for i := range o.Misfits {
		m := &o.Misfits[i]
		key, until := keyOf(m), earlier(m.At, now).Add(misfitFor)
		if !now.Before(until) || m.Crashed && o.Runs[m.Platform] {
			continue
		}
		old, known := k[key]
		if !known {
			news = append(news, *m)
		}
		if !known || until.After(old.until) {
			k[key] = misfit{whyOf(m), until}
		}
	}
	k.bound()
	return news
}

// bound drops the misfits beyond the maximum.
func (k images) bound() {
	if len(k) <= mostMisfits {
		return
	}
	last := slices.SortedFunc(maps.Keys(k), func(a, b imageOn) int {
		return cmp.Or(k[a].until.Compare(k[b].until), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.Image, b.Image), cmp.Compare(a.Arch, b.Arch))
	})
	for _, on := range last[:len(k)-mostMisfits] {
		delete(k, on)
	}
}

// unfit returns the demands of the pod, with the known misfits of its images added.
func (k images) unfit(p *cluster.Pod, archs []string) *constraint.Pod {
	var unfit []constraint.Unfit
	for _, image := range p.Images {
		for _, arch := range archs {
			on := cluster.Platform{Image: image, Arch: arch}
			if m, is := k[imageOn{Platform: on}]; is {
				unfit = append(unfit, constraint.Unfit{Arch: arch, Reason: m.why})
			} else if m, is := k[imageOn{p.Namespace, on}]; is {
				unfit = append(unfit, constraint.Unfit{Arch: arch, Reason: m.why})
			}
		}
	}
	return p.Demands.UnfitFor(unfit)
}

// archs returns the architectures with known misfits, ordered.
func (k images) archs() []string {
	all := map[string]bool{}
	for on := range k {
		all[on.Arch] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// fitImages makes the pods of the state require an architecture on which their images run, as far as that is known.
// Pods without known demands are unchanged.
func (r *round) fitImages() {
	news := r.m.images.learn(r.o, r.now)
	r.tellMisfits(news)
	archs := r.m.images.archs()
	if len(archs) == 0 {
		return
	}
	for _, m := range r.m.images {
		r.wake(m.until.Sub(r.now))
	}
	fit := func(pods []cluster.Pod) []cluster.Pod {
		var changed []cluster.Pod // copied on the first change
		for i := range pods {
			p := &pods[i]
			if p.Demands == nil || len(p.Images) == 0 {
				continue
			}
			if demands := r.m.images.unfit(p, archs); demands != p.Demands {
				if changed == nil {
					changed = slices.Clone(pods)
				}
				changed[i].Demands = demands
			}
		}
		if changed == nil {
			return pods
		}
		return changed
	}
	r.state.Pending, r.state.Recent = fit(r.state.Pending), fit(r.state.Recent)
	for i := range r.state.Nodes {
		r.state.Nodes[i].Pods = fit(r.state.Nodes[i].Pods)
	}
}

// tellMisfits reports new misfits on architectures that the fleet has.
func (r *round) tellMisfits(news []cluster.Misfit) {
	news = slices.DeleteFunc(news, func(m cluster.Misfit) bool {
		return !slices.ContainsFunc(r.o.State.Flavors, func(f cluster.Flavor) bool { return f.Arch == m.Arch })
	})
	if len(news) == 0 {
		return
	}
	m := &news[0]
	pods, says := "pods that use it", fmt.Sprintf("Image %q has no variant for %s", m.Image, m.Arch)
	if m.Crashed {
		pods, says = "pods of namespace "+m.Namespace+" that use it", fmt.Sprintf("Image %q does not run on %s, exec format error", m.Image, m.Arch)
	}
	text := fmt.Sprintf("%s: no %s machines are bought for %s for the next %v; pod %s stays on node %s until it is deleted", says, m.Arch, pods, misfitFor, m.Pod, m.Node)
	if len(news) > 1 {
		text += fmt.Sprintf(" (and %d more)", len(news)-1)
	}
	r.tell(Event{true, "ImageDoesNotRun", "Plan", text})
}
