package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// Shortage is a resource of which a node has less free than a pod requests, in the units of [constraint.Requests]. Free is
// what other pods do not request of Allocatable; it is not negative.
type Shortage struct {
	Node                         string
	Resource                     corev1.ResourceName
	Requested, Free, Allocatable int64
}

// Refusals returns for each node, by name, the reason why the pod cannot run there, or "" if none is found: the reasons
// of kube-scheduler's filters, evaluated as for the purchase of machines. Room that is reserved for other pods counts as
// occupied, unless the pod has a higher priority than one that is only nominated. short has the resources that are the
// reasons of nodes, apart from pod slots, sorted by node and resource. The error says why the pod's constraints cannot be
// parsed.
//
// It does not consider preemption, what [View.Blocked] returns, and what [View.Unchecked] lists.
//
// Cost: O(nodes · volumes + pods).
func (v *View) Refusals(pod *corev1.Pod) (all map[string]string, short []Shortage, err error) {
	demands, err := v.compiler.Compile(pod)
	if err != nil {
		return nil, nil, fmt.Errorf("read the constraints of pod %s: %w", PodName(pod), err)
	}
	p := v.placed(pod)
	all = make(map[string]string, len(v.Nodes))
	for _, name := range slices.Sorted(maps.Keys(v.Nodes)) {
		node := v.Nodes[name]
		why := demands.Admits(constraint.NewHost(node))
		if why == "" {
			why = otherClass(node, pod)
		}
		if why == "" {
			reasons, lacks := v.lacks(node, pod)
			why, short = strings.Join(reasons, ", "), append(short, lacks...)
		}
		if why == "" {
			why = v.volumes.refuse(node, pod)
		}
		if why == "" {
			why = v.overfull(name, pod)
		}
		if why == "" {
			why = p.check(demands, name)
		}
		all[name] = why
	}
	return all, short, nil
}

// otherClass returns the reason why a node does not accept the pod's class, or "". Fleets honor classes for all pods,
// the scheduler in profiles with the plugin NodeClass.
func otherClass(node *corev1.Node, pod *corev1.Pod) string {
	kind, _ := class.OfPod(pod)
	if of := ClassOf(node, class.Any); !class.EveryNode(pod) && !of.Takes(kind) {
		return fmt.Sprintf("accepts only %v pods, if its scheduler has the plugin NodeClass", of)
	}
	return ""
}

// displaces reports whether a pod does not count for another one, which kube-scheduler places first: it is only nominated
// to its node and has a lower priority. A pod does not count for itself either.
func displaces(pod, other *corev1.Pod) bool {
	if other.UID == pod.UID && other.Name == pod.Name && other.Namespace == pod.Namespace {
		return true
	}
	return other.Spec.NodeName == "" && other.Status.NominatedNodeName != "" && priority(other) < priority(pod)
}

// priority returns the priority of a pod.
func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// placement is where the pods are that count for a pod.
type placement struct {
	tracker *constraint.Tracker
	hosts   map[string]int               // by node
	coming  map[string][]*constraint.Pod // the pods to which a node is promised, which are not in the tracker
}

// check returns why pods on nodes, or pods to which this node is promised, keep a pod off a node, or "". As in
// kube-scheduler, it must be possible with the pods to which the node is promised and without them, and those that come to
// other nodes do not count: they may satisfy no affinity and raise no minimum of topology spread yet.
func (p *placement) check(demands *constraint.Pod, node string) string {
	host := p.hosts[node]
	if why := p.tracker.Check(demands, host); why != "" || len(p.coming[node]) == 0 {
		return why
	}
	for _, other := range p.coming[node] {
		p.tracker.Place(other, host)
		defer p.tracker.Unplace(other, host)
	}
	return p.tracker.Check(demands, host)
}

// placed returns where the pods are that count for a pod.
func (v *View) placed(pod *corev1.Pod) *placement {
	p := &placement{constraint.NewTracker(), make(map[string]int, len(v.Nodes)), map[string][]*constraint.Pod{}}
	for _, name := range slices.Sorted(maps.Keys(v.Nodes)) {
		p.hosts[name] = p.tracker.AddHost(constraint.NewHost(v.Nodes[name]))
		for _, other := range v.onNode[name] {
			if displaces(pod, other) {
				continue
			}
			demands, err := v.compiler.Compile(other)
			if err != nil {
				continue // not possible: the API server has accepted the pod
			}
			if other.DeletionTimestamp != nil {
				demands = demands.Terminating()
			}
			if other.Spec.NodeName == "" {
				p.coming[name] = append(p.coming[name], demands)
				continue
			}
			p.tracker.Place(demands, p.hosts[name])
		}
	}
	return p
}

// KeptOff returns a function that says why the pods on nodes keep a pod off a node yet to come, for example because its pod
// affinity requires one of them there, or "". Pods that may come to that node with it are not considered.
func (v *View) KeptOff(pod *corev1.Pod) (func(*constraint.Host) string, error) {
	demands, err := v.compiler.Compile(pod)
	if err != nil {
		return nil, fmt.Errorf("read the constraints of pod %s: %w", PodName(pod), err)
	}
	tracker := v.placed(pod).tracker
	return func(to *constraint.Host) string {
		host := tracker.AddHost(to)
		defer tracker.RemoveHost(host)
		return tracker.Check(demands, host)
	}, nil
}

// lacks returns the resources that a node lacks for the pod, as kube-scheduler words them, and how much there is of them,
// apart from pod slots.
func (v *View) lacks(node *corev1.Node, pod *corev1.Pod) (reasons []string, short []Shortage) {
	allocatable := node.Status.Allocatable
	taken := amounts{}
	for _, other := range v.onNode[node.Name] {
		if !displaces(pod, other) {
			taken.add(other, 1)
		}
	}
	check := func(name corev1.ResourceName, asks, has int64) {
		if free := max(has-taken[name], 0); asks > free {
			reasons, short = append(reasons, "Insufficient "+string(name)), append(short, Shortage{node.Name, name, asks, free, has})
		}
	}
	cpu, memory, extended := constraint.Requests(pod)
	if allocatable.Pods().Value()-taken[corev1.ResourcePods] < 1 {
		reasons = append(reasons, "Too many pods")
	}
	check(corev1.ResourceCPU, cpu, allocatable.Cpu().MilliValue())
	check(corev1.ResourceMemory, memory, allocatable.Memory().Value())
	for _, name := range slices.Sorted(maps.Keys(extended)) {
		has := allocatable[name]
		check(name, extended[name], has.Value())
	}
	return reasons, short
}

// Spreads returns the numbers of pods on nodes that the soft topology spread constraints over zones count, by the keys of
// the constraints and by zone, for the pending pods that the view has returned.
func (v *View) Spreads() map[string]map[string]int { return v.spreads }

// spreadOf returns the soft topology spread constraint of a pod over zones as a key of Spreads, or "" if it has none. Of
// several it is the first that counts the pod itself: another one says nothing about where such pods belong.
//
// Cost of the first call for a constraint: O(pods with a label that it requires), and for the first with a label, O(pods).
func (v *View) spreadOf(pod *corev1.Pod) string {
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.ScheduleAnyway || c.TopologyKey != corev1.LabelTopologyZone {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil || selector.Empty() && !v.compiler.SpreadsAmongAll {
			continue
		}
		for _, key := range c.MatchLabelKeys {
			if value, has := pod.Labels[key]; has {
				selector = selector.Add(must(labels.NewRequirement(key, selection.Equals, []string{value}))...)
			}
		}
		if !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		key := pod.Namespace + "/" + selector.String()
		if v.spreads[key] == nil {
			v.spreads[key] = v.countByZone(pod.Namespace, selector)
		}
		return key
	}
	return ""
}

// must returns a requirement, or none if it is invalid: the API server accepts no such label.
func must(r *labels.Requirement, err error) []labels.Requirement {
	if err != nil {
		return nil
	}
	return []labels.Requirement{*r}
}

// countByZone returns the numbers of pods on nodes that a selector selects, by zone.
func (v *View) countByZone(namespace string, selector labels.Selector) map[string]int {
	counts := map[string]int{}
	for _, p := range v.candidates(namespace, selector) {
		node := v.Nodes[p.Spec.NodeName]
		if node != nil && p.Namespace == namespace && p.DeletionTimestamp == nil && selector.Matches(labels.Set(p.Labels)) {
			counts[node.Labels[corev1.LabelTopologyZone]]++
		}
	}
	return counts
}

// candidates returns the pods that a selector may select: those with a label that it requires, or all. The list must not
// be changed.
func (v *View) candidates(namespace string, selector labels.Selector) []*corev1.Pod {
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if value, exact := selector.RequiresExactMatch(r.Key()); exact {
			return v.podsWith(namespace, r.Key(), value)
		}
	}
	return v.Pods
}

// podsWith returns the pods of a namespace with a label.
func (v *View) podsWith(namespace, label, value string) []*corev1.Pod {
	if v.labelled[label] == nil {
		all := map[[2]string][]*corev1.Pod{}
		for _, pod := range v.Pods {
			if of, has := pod.Labels[label]; has {
				key := [2]string{pod.Namespace, of}
				all[key] = append(all[key], pod)
			}
		}
		v.labelled[label] = all
	}
	return v.labelled[label][[2]string{namespace, value}]
}
