package auditor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/world"
)

// mostReplicaTail is the maximum length of the hash that a ReplicaSet appends to the name of its
// Deployment.
const mostReplicaTail = 11

// workload returns the Deployment of a pod, or else its controller, or the pod itself.
func workload(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return "Pod " + world.PodName(pod)
	}
	name, kind := owner.Name, owner.Kind
	if hash := pod.Labels["pod-template-hash"]; kind == "ReplicaSet" && hash != "" && len(hash) <= mostReplicaTail && strings.HasSuffix(name, "-"+hash) {
		kind, name = "Deployment", strings.TrimSuffix(name, "-"+hash)
	}
	return fmt.Sprintf("%s %s/%s", kind, pod.Namespace, name)
}

// everybody is the subject of an obstacle that covers all workloads.
const everybody = "all workloads"

// demand is a sort of demands on where a pod may run.
type demand struct {
	kind, advice string
	// has reports whether a pod has such demands. without removes them from a copy of a spec.
	has     func(*corev1.PodSpec) bool
	without func(*corev1.PodSpec)
}

// affinity returns a shallow copy of the pod's affinity.
func affinity(spec *corev1.PodSpec) *corev1.Affinity {
	if spec.Affinity == nil {
		return &corev1.Affinity{}
	}
	own := *spec.Affinity
	return &own
}

const hostPort = "host port"

var demands = []demand{
	{
		"pod anti-affinity", "preferred in place of required anti-affinity",
		func(s *corev1.PodSpec) bool {
			a := affinity(s).PodAntiAffinity
			return a != nil && len(a.RequiredDuringSchedulingIgnoredDuringExecution) > 0
		},
		func(s *corev1.PodSpec) { a := affinity(s); a.PodAntiAffinity, s.Affinity = nil, a },
	},
	{
		"pod affinity", "preferred in place of required affinity",
		func(s *corev1.PodSpec) bool {
			a := affinity(s).PodAffinity
			return a != nil && len(a.RequiredDuringSchedulingIgnoredDuringExecution) > 0
		},
		func(s *corev1.PodSpec) { a := affinity(s); a.PodAffinity, s.Affinity = nil, a },
	},
	{
		"node selector or affinity", "a wider choice of nodes",
		func(s *corev1.PodSpec) bool {
			a := affinity(s).NodeAffinity
			return len(s.NodeSelector) > 0 || a != nil && a.RequiredDuringSchedulingIgnoredDuringExecution != nil
		},
		func(s *corev1.PodSpec) { a := affinity(s); a.NodeAffinity, s.Affinity, s.NodeSelector = nil, a, nil },
	},
	{
		"topology spread", "whenUnsatisfiable: ScheduleAnyway",
		func(s *corev1.PodSpec) bool {
			return slices.ContainsFunc(s.TopologySpreadConstraints, func(t corev1.TopologySpreadConstraint) bool { return t.WhenUnsatisfiable == corev1.DoNotSchedule })
		},
		func(s *corev1.PodSpec) { s.TopologySpreadConstraints = nil },
	},
	{
		hostPort, "a Service in place of the host port",
		func(s *corev1.PodSpec) bool {
			return slices.ContainsFunc(s.Containers, func(c corev1.Container) bool {
				return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort > 0 })
			})
		},
		func(s *corev1.PodSpec) {
			s.HostNetwork = false
			s.Containers = slices.Clone(s.Containers)
			for i := range s.Containers {
				s.Containers[i].Ports = nil
			}
		},
	},
}

// readObstacles collects what may be lifted: what keeps pods on their nodes, and what they demand
// of nodes. There is one obstacle for the pods of a workload or of a PodDisruptionBudget, and one
// for all pods with obstacles of a kind.
func (b *observer) readObstacles() {
	found := map[[2]string]*audit.Obstacle{}
	at := func(kind, subject, advice string) *audit.Obstacle {
		key := [2]string{kind, subject}
		if found[key] == nil {
			found[key] = &audit.Obstacle{Kind: kind, Subject: subject, Advice: advice}
		}
		return found[key]
	}
	for i := range b.Nodes {
		n := &b.Nodes[i]
		if n.Unpriced != "" {
			continue
		}
		for _, pod := range b.view.On(n.Name) {
			if class.EveryNode(pod) {
				continue
			}
			b.holds(pod, at)
			b.demands(pod, at)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(found), func(x, y [2]string) int { return slices.Compare(x[:], y[:]) }) {
		b.Obstacles = append(b.Obstacles, *found[key])
	}
	b.Obstacles = withTotals(b.Obstacles)
	for i := range b.Obstacles {
		slices.Sort(b.Obstacles[i].Pods)
	}
}

// holds adds a pod to the obstacles that keep it on its node.
func (b *observer) holds(pod *corev1.Pod, at func(kind, subject, advice string) *audit.Obstacle) {
	name := world.PodName(pod)
	for _, h := range b.view.Holds(pod) {
		subject := workload(pod)
		switch {
		case h.Budget != "":
			subject = h.Budget
		case h.Kind == world.Anything:
			subject = everybody
		}
		o := at(h.Kind, subject, h.Advice)
		o.Pods = append(o.Pods, name)
		if h.Ways == 0 {
			continue
		}
		if o.Ways == nil {
			o.Ways = map[string]cluster.Ways{}
		}
		o.Ways[name] = h.Ways
	}
}

// demands adds a pod to the obstacles that restrict where it may run.
func (b *observer) demands(pod *corev1.Pod, at func(kind, subject, advice string) *audit.Obstacle) {
	for i := range demands {
		d := &demands[i]
		if !d.has(&pod.Spec) {
			continue
		}
		free := *pod
		d.without(&free.Spec)
		compiled, held := b.view.Successor(&free)
		if held != "" {
			continue // its node stays regardless of its demands
		}
		advice := d.advice
		if d.kind == hostPort && pod.Spec.HostNetwork {
			advice = "no host network, and a Service in place of the host port"
		}
		o := at(d.kind, workload(pod), advice)
		if o.Demands == nil {
			o.Demands = map[string]*constraint.Pod{}
		}
		name := world.PodName(pod)
		o.Pods = append(o.Pods, name)
		o.Demands[name] = compiled
	}
}

// adviceOfEach is the advice for several obstacles with different advice.
const adviceOfEach = "what each of them needs"

// withTotals adds an obstacle that covers all of a kind, for each kind with several.
func withTotals(all []audit.Obstacle) []audit.Obstacle {
	totals := map[string]*audit.Obstacle{}
	counts := map[string]int{}
	for i := range all {
		o := &all[i]
		t := totals[o.Kind]
		if t == nil {
			t = &audit.Obstacle{Kind: o.Kind, Subject: everybody, Advice: o.Advice, Ways: map[string]cluster.Ways{}}
			if o.Demands != nil {
				t.Demands = map[string]*constraint.Pod{}
			}
			totals[o.Kind] = t
		}
		if counts[o.Kind]++; t.Advice != o.Advice {
			t.Advice = adviceOfEach
		}
		t.Pods = append(t.Pods, o.Pods...)
		maps.Copy(t.Ways, o.Ways)
		maps.Copy(t.Demands, o.Demands)
	}
	for _, kind := range slices.Sorted(maps.Keys(totals)) {
		if counts[kind] > 1 { // obstacles of kind Anything are already one
			t := totals[kind]
			slices.Sort(t.Pods)
			t.Pods = slices.Compact(t.Pods)
			all = append(all, *t)
		}
	}
	return all
}
