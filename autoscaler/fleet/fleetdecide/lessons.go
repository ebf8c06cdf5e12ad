package fleetdecide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
)

// Lessons are learned from machines that do not hold the pods that a machine of their flavor was expected to hold, for
// any reason: static pods, unknown DaemonSets, missing labels, a kubelet that reserves more than stated. The flavor is
// then not bought for such pods for a while, because it would be bought again and again. Later it is tried once more,
// and if the new machine is no better, it is avoided for twice as long, up to sixteen times.
//
// The zero value has no lessons and no back-off. It is not safe for concurrent use.
type Lessons struct {
	// BackOff is how long a flavor is not bought after its first failure.
	BackOff time.Duration

	all    []lesson
	shared map[string]*purchase.Exceptions // results of Except, by the indices of lessons
}

// lesson excludes one flavor for some pods.
type lesson struct {
	flavor string
	// The pods are those that request at least size of each resource, those with the same demands on a node, or the one with
	// this name.
	size    *packing.Size
	demands *string
	pod     string

	why     string
	learned time.Time
	until   time.Time
	fails   int
}

const (
	// mostLessons bounds the number of lessons; the oldest is dropped first.
	mostLessons = 1000
	// mostDoublings bounds the back-off of a flavor, and of a node that could not be drained: sixteen times the first
	// one.
	mostDoublings = 4
	// remembered is how long after its end a lesson still counts as an earlier failure.
	remembered = 24 * time.Hour
)

func (l *lesson) about(p *cluster.Pod) bool {
	switch {
	case l.pod != "":
		return l.pod == p.Name
	case l.demands != nil:
		return *l.demands == demandsOf(p)
	}
	return l.size.Fits(p.Size)
}

func demandsOf(p *cluster.Pod) string {
	key := string(p.Class) + "/" + p.Arch + "/"
	if p.Demands != nil {
		key += p.Demands.StaticKey()
	}
	return key
}

// Learn compares the newest machine of each flavor with what the flavor offers, for the pending pods. A pod that fits
// the flavor but would not fit its newest machine, even if that were empty, is a lesson. Nodes with Kept set, which
// includes those of others, and those with Outdated set are ignored. Learn returns the new lessons, for people, in the order of the pods of each
// flavor.
//
// Cost: O(p·f) for p pending pods and f flavors of which there is a machine.
func (l *Lessons) Learn(s *cluster.State, now time.Time) []string {
	l.all = slices.DeleteFunc(l.all, func(old lesson) bool { return now.After(old.until.Add(remembered)) })
	last := lastMachines(s)
	var texts []string
	for i := range s.Flavors {
		f := &s.Flavors[i]
		node := last[f.Name]
		if node == nil {
			continue
		}
		template, refuses := f.Unlimited(), refusals(node)
		for j := range s.Pending {
			p := &s.Pending[j]
			found, differs := compare(p, &template, node, refuses(p))
			if differs && l.add(found, p, node, now) {
				texts = append(texts, fmt.Sprintf("pod %s: %s", p.Name, found.why))
			}
		}
	}
	l.shared = nil
	return texts
}

// lastMachines returns, by flavor, the ready node that was ordered last; ties by name.
func lastMachines(s *cluster.State) map[string]*cluster.Node {
	last := map[string]*cluster.Node{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Phase != cluster.Ready || n.Kept || n.Outdated {
			continue
		}
		if other := last[n.Flavor]; other == nil || cmp.Or(cmp.Compare(n.Age, other.Age), cmp.Compare(n.Name, other.Name)) < 0 {
			last[n.Flavor] = n
		}
	}
	return last
}

// refusals returns a function that returns why a node does not admit a pod, or "". Taints that describe a temporary
// condition are ignored.
func refusals(n *cluster.Node) func(*cluster.Pod) string {
	if n.Host == nil {
		return func(*cluster.Pod) string { return "" }
	}
	host := *n.Host.Emptied()
	host.Taints = slices.DeleteFunc(slices.Clone(host.Taints), func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
	known := map[*constraint.Pod]string{nil: ""}
	return func(p *cluster.Pod) string {
		why, ok := known[p.Demands]
		if !ok {
			why = p.Demands.Admits(&host)
			known[p.Demands] = why
		}
		return why
	}
}

// compare returns the lesson about a pod that a flavor should hold but a node of it does not, because of the pod's size
// or because the node refuses it.
func compare(p *cluster.Pod, f *cluster.Flavor, n *cluster.Node, refuses string) (lesson, bool) {
	fits := p.Size.Fits(n.Capacity)
	pod := purchase.PodOf(p)
	if fits && refuses == "" || pod.RefusedBy(f) != "" {
		return lesson{}, false
	}
	if !fits {
		return lesson{flavor: f.Name, size: lackingOf(p.Size, n.Capacity), why: fmt.Sprintf("flavor %s was expected to leave %s for pods, but a machine of it, node %s, leaves %s",
			f.Name, amount(f.Size, f.Resources), n.Name, amount(n.Capacity, f.Resources))}, true
	}
	key := demandsOf(p)
	return lesson{flavor: f.Name, demands: &key, why: fmt.Sprintf("flavor %s was expected to admit it, but a machine of it, node %s, does not: %s", f.Name, n.Name, refuses)}, true
}

// lackingOf returns the size that pods must at least have for a machine not to hold them, as one of this size shows: if the
// machine lacks extended resources only, pods of any CPU and memory that request as much of these.
func lackingOf(size, capacity packing.Size) *packing.Size {
	if size.MilliCPU <= capacity.MilliCPU && size.MemoryBytes <= capacity.MemoryBytes {
		return &packing.Size{Extended: size.Extended.Beyond(capacity.Extended)}
	}
	size.Extended = packing.Extended{}
	return &size
}

// amount describes a size. names are those of its extended resources.
func amount(s packing.Size, names *extended.Names) string {
	text := fmt.Sprintf("CPU %dm and %d MiB of memory", s.MilliCPU, s.MemoryBytes>>20)
	if names == nil {
		return text
	}
	for slot, name := range names {
		if name != "" {
			text += fmt.Sprintf(", %d of resource %s", s.Extended.At(slot), name)
		}
	}
	return text
}

// add adds a lesson from a node, and reports whether it is new. An expired lesson is not learned again from a machine
// that existed when it was learned: the flavor is tried once more.
func (l *Lessons) add(found lesson, p *cluster.Pod, n *cluster.Node, now time.Time) bool {
	at := slices.IndexFunc(l.all, func(old lesson) bool { return old.flavor == found.flavor && old.pod == "" && old.about(p) })
	if at >= 0 {
		old := &l.all[at]
		if now.Before(old.until) || !now.Add(-n.Age).After(old.learned) {
			return false
		}
		found.fails = old.fails
		if found.size != nil && old.size != nil {
			found.size = old.size
		}
		l.all = slices.Delete(l.all, at, at+1)
	}
	found.until = now.Add(l.BackOff << min(found.fails, mostDoublings))
	found.learned = now
	found.fails++
	l.remember(found)
	return true
}

// remember adds a lesson. It copies what it needs, so the observed state can be freed.
func (l *Lessons) remember(found lesson) {
	if found.size != nil {
		size := *found.size
		found.size = &size
	}
	if l.all = append(l.all, found); len(l.all) > mostLessons {
		l.all = l.all[1:]
	}
}

// Refused adds the lesson that a pod stays pending although a machine of a flavor seems to have room for it. Another
// machine of that flavor would be no better. While the pod stays pending beside such a machine, the lesson is renewed;
// when that happens again after the lesson has expired, the back-off doubles.
func (l *Lessons) Refused(pod, flavor, node string, now time.Time) {
	fails := 0
	l.all = slices.DeleteFunc(l.all, func(old lesson) bool {
		same := old.flavor == flavor && old.pod == pod
		if same {
			fails = old.fails
			if now.Before(old.until) {
				fails--
			}
		}
		return same
	})
	l.remember(lesson{
		flavor: flavor, pod: pod, learned: now, until: now.Add(l.BackOff << min(fails, mostDoublings)), fails: fails + 1,
		why: fmt.Sprintf("node %s of flavor %s seemed to have room for it, but its scheduler did not use it", node, flavor),
	})
	l.shared = nil
}

// Except returns the flavors that must not be bought for a pod now; nil if there are none. Equal results are the same
// pointer until a lesson is learned.
func (l *Lessons) Except(p *cluster.Pod, now time.Time) *purchase.Exceptions {
	if l == nil {
		return nil
	}
	var key strings.Builder
	var flavors map[string]string
	for i := range l.all {
		old := &l.all[i]
		if !now.Before(old.until) || !old.about(p) {
			continue
		}
		if flavors == nil {
			flavors = map[string]string{}
		}
		flavors[old.flavor] = fmt.Sprintf("%s; in back-off until %s", old.why, old.until.UTC().Format(time.RFC3339))
		fmt.Fprintf(&key, "%d ", i)
	}
	if flavors == nil {
		return nil
	}
	if l.shared == nil {
		l.shared = map[string]*purchase.Exceptions{}
	}
	if l.shared[key.String()] == nil {
		l.shared[key.String()] = &purchase.Exceptions{Flavors: flavors}
	}
	return l.shared[key.String()]
}

// Active returns the current lessons about more than one pod, for people, and the time until the next of all current
// lessons ends; 0 if there is none.
func (l *Lessons) Active(now time.Time) (texts []string, wake time.Duration) {
	if l == nil {
		return nil, 0
	}
	for i := range l.all {
		old := &l.all[i]
		if !now.Before(old.until) {
			continue
		}
		if left := old.until.Sub(now); wake == 0 || left < wake {
			wake = left
		}
		if old.pod == "" {
			texts = append(texts, fmt.Sprintf("%s (until %s)", old.why, old.until.UTC().Format(time.RFC3339)))
		}
	}
	return texts, wake
}

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
func (r *planning) fitImages() {
	news := r.m.images.learn(r.o, r.now)
	r.reportMisfits(news)
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

// reportMisfits reports new misfits on architectures that the fleet has.
func (r *planning) reportMisfits(news []cluster.Misfit) {
	news = slices.DeleteFunc(news, func(m cluster.Misfit) bool {
		return !slices.ContainsFunc(r.o.State.Flavors, func(f cluster.Flavor) bool { return f.Arch == m.Arch })
	})
	if len(news) == 0 {
		return
	}
	m := &news[0]
	pods, finding := "pods that use it", fmt.Sprintf("Image %q has no variant for %s", m.Image, m.Arch)
	if m.Crashed {
		pods, finding = "pods of namespace "+m.Namespace+" that use it", fmt.Sprintf("Image %q does not run on %s, exec format error", m.Image, m.Arch)
	}
	text := fmt.Sprintf("%s: no %s machines are bought for %s for the next %v; pod %s stays on node %s until it is deleted", finding, m.Arch, pods, misfitFor, m.Pod, m.Node)
	if len(news) > 1 {
		text += fmt.Sprintf(" (and %d more)", len(news)-1)
	}
	r.recordEvent(Event{true, v1alpha1.FleetReasonImageDoesNotRun, v1alpha1.ActionPlan, text})
}
