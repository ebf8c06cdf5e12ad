package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/lab/scenario"
)

// observe returns the state of the cluster for the controller.
func (e *engine) observe() *cluster.State {
	s := e.input.Scenario
	state := &cluster.State{
		Nodes:    make([]cluster.Node, len(e.machines)),
		Pending:  make([]cluster.Pod, len(e.parked)),
		Flavors:  e.flavors(),
		MaxNodes: int(s.MaxNodes) - len(e.leaving), Lag: s.AcquisitionLag.Mean, Release: s.ReleaseLag, BillingPeriod: s.BillingPeriod,
		Migration: e.migration(), ScalingInterval: s.ScalingInterval, SchedulingInterval: s.SchedulingInterval,
		Scaling: e.now%s.ScalingInterval == 0,
	}
	for i, m := range e.machines {
		state.Nodes[i] = e.seen(m)
	}
	for i, q := range e.parked {
		if q.pod.Class == class.Batch {
			e.busy = e.now
		}
		state.Pending[i] = e.seenQueued(q)
	}
	old := 0
	for old < len(e.recent) && e.now-e.recent[old].since > s.AcquisitionLag.Mean+s.ScalingInterval {
		old++
	}
	e.recent = slices.Delete(e.recent, 0, old)
	for _, q := range slices.Backward(e.recent) {
		state.Recent = append(state.Recent, e.seenQueued(q))
	}
	slices.SortFunc(state.Pending, func(a, b cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
	state.QueueEmpty = e.now - e.busy
	state.Observed = min(e.now, s.AcquisitionLag.Mean+s.ScalingInterval)
	return state
}

func (e *engine) seenQueued(q *queued) cluster.Pod {
	p := q.pod.Pod
	p.Arrival, p.Runtime, p.Waited = q.since, 0, e.now-q.since
	if q.pod.Class == class.Batch {
		estimate := runtimes.EstimateOf(q.info.Pod, e.learner, runtimes.Default)
		p.Runtime, p.Guessed = estimate.Runtime, estimate.Source == runtimes.FromDefault
	}
	return p
}

func (e *engine) flavors() []cluster.Flavor {
	all := make([]cluster.Flavor, len(e.input.Scenario.Flavors))
	for i, f := range e.input.Scenario.Flavors {
		all[i] = f.Flavor.Flavor
	}
	slices.SortFunc(all, func(a, b cluster.Flavor) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// seen returns a machine as the controller observes it.
func (e *engine) seen(m *machine) cluster.Node {
	n := cluster.Node{
		Name: m.name, Flavor: m.flavor.Name, Class: m.class, Capacity: m.flavor.Size, GPUs: m.flavor.GPUs, MaxPods: m.flavor.MaxPods, Arch: m.flavor.Arch,
		MicroDollarsPerHour: m.flavor.MicroDollarsPerHour, Phase: cluster.Ready,
		Pods: make([]cluster.Pod, 0, m.count()), Incoming: len(m.coming),
	}
	if m.from >= 0 {
		n.Age = e.now - m.from
	}
	switch {
	case m.node == nil:
		n.Phase, n.Due = cluster.Ordered, max(0, m.due-e.now)
	case m.drain != nil:
		n.Phase, n.Waits, n.Until = cluster.Leaving, m.onlyWaits(), m.drain.until-e.now
	}
	for _, r := range m.pods {
		n.Pods = append(n.Pods, e.seenPod(r))
	}
	for _, r := range m.coming {
		n.Pods = append(n.Pods, e.seenPod(r))
	}
	slices.SortFunc(n.Pods, func(a, b cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return n
}

func (e *engine) seenPod(r *running) cluster.Pod {
	p := r.pod.Pod
	p.Fixed, p.Resided, p.EnergyWeight = r.to != nil, e.now-r.since, e.input.Scenario.WeightOf(r.pod)
	if r.pod.Class == class.Batch {
		p.Runtime, p.Overdue, p.Ran = max(0, r.expected-e.now), max(0, e.now-r.expected), slowed(e.lose(r), r.on.flavor.Speed)
		p.Guessed = runtimes.EstimateOf(r.object, e.learner, runtimes.Default).Source == runtimes.FromDefault
	}
	if e.input.Policy.Asks {
		e.consent(r, &p)
	}
	return p
}

// consent sets how a pod may be moved by its own declaration. A job that was evicted is not evicted
// again: each restart may pay by itself, but together they might keep the job from finishing.
func (e *engine) consent(r *running, p *cluster.Pod) {
	switch {
	case r.pod.Migration == scenario.MoveNever:
		p.Fixed = true
	case r.pod.Migration == scenario.MoveWithState:
		p.Ways = cluster.WaysOf(cluster.Migrate)
	case r.pod.Migration == scenario.MoveByRestart && r.pod.Class == class.Batch && e.evicted[r.pod] > 0:
		p.Ways = cluster.WaysOf(cluster.Wait)
	case r.pod.Migration == scenario.MoveByRestart:
		p.Ways = cluster.WaysOf(cluster.Evict)
	}
}

// place records the present node of a pod.
func (e *engine) place(r *running, m *machine, reason string) {
	e.count("starts")
	e.result.Placements = append(e.result.Placements, Placement{At: e.now, Pod: r.pod.Name, Node: m.name, Flavor: m.flavor.Name, Reason: reason})
}

// shortReason returns the scheduler's reason in short form, the same for all similar pods.
func shortReason(unfit *framework.FitError) string {
	reasons := map[string]bool{}
	unfit.Diagnosis.NodeToStatus.ForEachExplicitNode(func(_ string, status *fwk.Status) {
		for _, r := range status.Reasons() {
			reasons[r] = true
		}
	})
	if len(reasons) == 0 {
		return "no node has room"
	}
	return "no node has room: " + strings.Join(slices.Sorted(maps.Keys(reasons)), ", ")
}

// impossible returns the reason why no machine that can ever exist fits the pod, or an empty
// string.
func (e *engine) impossible(p *scenario.Pod) string {
	return impossible(e.input.Scenario, e.controller != nil && e.input.Scenario.Autoscale, e.input.Policy.classOf, p)
}

// impossible checks the flavors that can be bought, if any, and the initial machines.
func impossible(s *scenario.Scenario, buys bool, groups func(class.Class) class.Class, p *scenario.Pod) string {
	arch, kind, cpu, memory, gpus, takes := false, false, false, false, false, false
	call := func(f *scenario.Flavor, c class.Class) {
		if p.Arch != "" && p.Arch != f.Arch {
			return
		}
		arch = true
		if !groups(c).Takes(p.Class) {
			return
		}
		kind = true
		cpu, memory = cpu || p.Size.MilliCPU <= f.Size.MilliCPU, memory || p.Size.MemoryBytes <= f.Size.MemoryBytes
		gpus = gpus || p.Size.Extended.Fits(f.Size.Extended)
		takes = takes || p.Size.Fits(f.Size)
	}
	for i := range s.Flavors {
		f := &s.Flavors[i]
		if buys {
			call(f, class.Any)
		}
		for _, n := range s.Nodes {
			if n.Flavor == f.Name {
				call(f, n.Class)
			}
		}
	}
	switch {
	case takes:
		return ""
	case !arch:
		return fmt.Sprintf("no machine has architecture %s", p.Arch)
	case !kind:
		return fmt.Sprintf("no machine takes pods of class %s", p.Class)
	case !cpu:
		return "asks for more CPU than any machine has"
	case !memory:
		return "asks for more memory than any machine has"
	case !gpus:
		return "asks for more GPUs than any machine has"
	case !p.Size.Extended.None():
		return "no one machine has the CPU, the memory and the GPUs it asks for"
	default:
		return "no one machine has both the CPU and the memory it asks for"
	}
}
