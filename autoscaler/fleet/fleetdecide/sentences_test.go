package fleetdecide

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/autoscaler/fleet/disruption"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/moves"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// told returns all texts of a round.
func told(a *Actions) string {
	var all []string
	for _, e := range a.Events {
		all = append(all, e.Message)
	}
	for i := range a.Abandoned {
		all = append(all, a.Abandoned[i].Event.Message)
	}
	for _, n := range a.Uncordon {
		if n.Done != nil {
			all = append(all, n.Done.Message)
		}
	}
	return strings.Join(append(all, reasonsOf(&a.Fleet)), "\n")
}

// reasonsOf returns all texts of a decision.
func reasonsOf(d *FleetDecision) string {
	all := append([]string{d.Limit}, d.Learned...)
	for _, u := range append(d.Plan.Unplaceable, d.Unexplained...) {
		all = append(all, u.Reason)
	}
	for _, m := range d.Plan.Machines {
		all = append(all, m.Reason)
	}
	for _, stay := range d.Kept {
		all = append(all, stay.Reason)
	}
	for _, r := range d.Release {
		all = append(all, r.Reason)
	}
	if d.Deferral != nil {
		all = append(all, d.Deferral.Reason())
	}
	return strings.Join(all, "\n")
}

// TestAFleetThatMayNotActSaysBothReasons: the decision does not know whether the mode or a pause prevents actions.
func TestAFleetThatMayNotActSaysBothReasons(t *testing.T) {
	s := newScene()
	s.drained("a", "small", minute)
	s.c.Act = false
	a := s.round()
	if got := told(&a); !strings.Contains(got, "it is in mode Observe, or Supercargo is paused") {
		t.Errorf("it says %q", got)
	}
}

// TestAMachineWithoutAPriceIsNotSaidToCostNothing releases an empty machine.
func TestAMachineWithoutAPriceIsNotSaidToCostNothing(t *testing.T) {
	for price, costs := range map[int64]bool{0: false, 3_600_000: true} {
		d := Fleet(watched(nil, costing(node("a"), price)), all(), mover(), midnight)
		if len(d.Release) != 1 || strings.Contains(d.Release[0].Reason, "$") != costs {
			t.Errorf("at %d micro-dollars: %+v", price, d.Release)
		}
	}
}

func TestEachSentenceOfARoundIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	round := func(set func(*scene)) string {
		s := newScene()
		s.c.Empty = false
		set(s)
		a := s.round()
		return told(&a) + "\n" + strings.Join(s.Dead(midnight), "\n")
	}
	fleet := func(s *cluster.State, change ...func(*FleetOptions)) string {
		o := all()
		for _, f := range change {
			f(&o)
		}
		d := Fleet(s, o, mover(), midnight)
		return reasonsOf(&d)
	}

	// Nodes that are drained.
	drained := func(change func(*scene, *Draining), pods ...cluster.Pod) string {
		return round(func(s *scene) {
			d := s.drained("a", "small", minute, pods...)
			if change != nil {
				change(s, d)
			}
		})
	}
	plain, observing := drained(nil), drained(func(s *scene, _ *Draining) { s.c.Act = false })
	serving := func(resided time.Duration, moved bool) string {
		return drained(func(s *scene, d *Draining) {
			d.Pods[0].Resided, s.c.MoveServices, s.c.PodResidence = resided, moved, 5*minute
		}, service("y", 4))
	}
	late := func(ago time.Duration, pods ...cluster.Pod) string {
		return drained(func(_ *scene, d *Draining) { d.Since = midnight.Add(-ago) }, pods...)
	}
	kept := func(pods ...cluster.Pod) string {
		s := newScene()
		s.m.mover = moves.NewPlanner(moves.DrainConfig{Threshold: 0.5, Method: cluster.Evict, Explain: true})
		d := s.drained("a", "small", minute, pods...)
		d.Pods[0].Stays = "it must not"
		s.round()
		s.Drains, s.node("a").Phase, s.Machines[0].NodeState.Drained = nil, cluster.Ready, false
		a := s.round()
		return told(&a)
	}
	wanted := drained(func(s *scene, _ *Draining) { s.pending(job("p", 4, time.Hour)) })
	most := drained(func(s *scene, _ *Draining) { s.flavor("small").Min = 1 })
	successor := func(waited time.Duration) string {
		s := newScene()
		x := service("x", 4)
		x.Controller = "ReplicaSet shop/web"
		d := s.drained("a", "small", minute, x)
		d.Pods[0].Controller, d.Pods[0].Evicted, d.Pods[0].Resided = x.Controller, true, time.Hour
		s.ready("b", "small")
		s.c.MoveServices = true
		s.round()
		p := ago(service("p", 11), waited)
		p.Controller = x.Controller
		s.pending(p)
		a := Round(&s.Observation, s.m, s.c, midnight.Add(minute))
		return told(&a)
	}

	// Machines that do not come.
	machine := func(age time.Duration, change ...func(*scene, *Machine)) string {
		return round(func(s *scene) {
			m := s.machine("m", "small", age)
			for _, f := range change {
				f(s, m)
			}
			s.State.Nodes[0].Name = m.Key
		})
	}
	onNode := func(change func(*NodeState)) func(*scene, *Machine) {
		return func(_ *scene, m *Machine) {
			m.Key, m.Node, m.OnOrder = "a", "a", false
			m.NodeState = &NodeState{Name: "a", Created: m.Ordered, Changed: m.Ordered}
			change(m.NodeState)
		}
	}
	atLeast := func(n int) func(*scene, *Machine) { return func(s *scene, _ *Machine) { s.flavor("small").Min = n } }
	gone, awaited := machine(10*minute), machine(10*minute, atLeast(1))
	stopped := machine(10*minute, func(s *scene, _ *Machine) { s.flavor("small").Kept = true })
	some := machine(10*minute, atLeast(1), func(s *scene, _ *Machine) { s.machine("n", "small", 10*minute) })
	waits := machine(10*minute, func(_ *scene, m *Machine) { m.Waits = "an address" })
	never := machine(10*minute, onNode(func(*NodeState) {}))
	ceased := machine(time.Hour, onNode(func(n *NodeState) { n.Changed = midnight.Add(-10 * minute) }))
	remains := func(n int, lost string) string {
		return machine(time.Hour, onNode(func(s *NodeState) { s.Remains = Remains{Pods: n, Lost: lost} }))
	}
	missing := func(after time.Duration) string {
		s := newScene()
		s.flavor("small").Want, s.flavor("small").Ordered = 1, 1
		Round(&s.Observation, s.m, s.c, midnight)
		a := Round(&s.Observation, s.m, s.c, midnight.Add(after))
		return told(&a)
	}
	tainted := func(taints ...string) string {
		s := newScene()
		m := s.machine("m", "small", 9*minute)
		m.Startup = "driver:NoSchedule"
		m.NodeState = &NodeState{Name: "a", Ready: true, Created: m.Ordered, Changed: m.Ordered}
		s.round()
		m.Key, m.OnOrder, m.Startup, m.NodeState.Taints = "a", false, "", taints
		s.State.Nodes[0].Name = "a"
		a := s.round()
		return told(&a)
	}

	without := func(lacks corev1.ResourceName) string {
		s := newScene()
		m := s.machine("m", "small", 9*minute)
		m.Startup = "nvidia.com/gpu"
		m.NodeState = &NodeState{Name: "a", Ready: true, Created: m.Ordered, Changed: m.Ordered}
		s.round()
		m.Key, m.OnOrder, m.Startup, m.NodeState.Lacks = "a", false, "", lacks
		s.State.Nodes[0].Name = "a"
		a := s.round()
		return told(&a)
	}

	// Pods without a machine.
	gpus := func(has int16) string {
		l, p := &Lessons{BackOff: 5 * minute}, service("p", 1)
		p.Size.Extended = packing.Amounts(1)
		n := machineOf("small", "b", minute, 4)
		n.Capacity.Extended = packing.Amounts(has)
		s := quiet([]cluster.Pod{p}, n)
		s.Flavors = s.Flavors[1:]
		s.Flavors[0].Size.Extended, s.Flavors[0].Resources = packing.Amounts(1), &extended.Names{"nvidia.com/gpu"}
		return fleet(s, func(o *FleetOptions) { o.Lessons = l })
	}
	learned := func(cpu int64, pods ...cluster.Pod) string {
		l := &Lessons{BackOff: 5 * minute}
		s := quiet(pods, machineOf("small", "b", minute, cpu))
		s.Flavors = s.Flavors[1:]
		text := fleet(s, func(o *FleetOptions) { o.Lessons = l })
		active, _ := l.Active(midnight)
		return text + strings.Join(active, "\n")
	}
	admitted := func(taint string) string {
		n := machineOf("small", "a", minute, 4)
		n.Host = &constraint.Host{}
		if taint != "" {
			n.Host.Taints = []corev1.Taint{{Key: taint, Effect: corev1.TaintEffectNoSchedule}}
		}
		s := quiet(podsOf(job("p", 4, time.Hour)), n)
		for i := range s.Flavors {
			s.Flavors[i].Host = &constraint.Host{}
		}
		s.Pending[0].Demands = using(t, job("p", 4, time.Hour)).Demands
		return fleet(s, func(o *FleetOptions) { o.Lessons = &Lessons{BackOff: 5 * minute} })
	}
	unexplained := func(waited time.Duration) string {
		l := &Lessons{BackOff: 5 * minute}
		s := quiet(podsOf(ago(job("p", 4, time.Hour), waited)), node("a"))
		text := fleet(s, func(o *FleetOptions) { o.Lessons = l })
		if e := l.Except(&s.Pending[0], midnight); e != nil {
			text += e.Flavors["large"]
		}
		return text
	}
	images := func(misfits ...cluster.Misfit) string {
		s := mixed()
		s.Misfits = misfits
		s.pending(using(t, job("p", 4, time.Hour), "a"))
		a := s.round()
		return told(&a)
	}
	lacks, crashes := images(lacking("a", "arm64"), lacking("a", "amd64")), images(crashing("a", "arm64"), crashing("a", "amd64"))
	limits := func(change func(*scene)) string {
		return round(func(s *scene) { s.pending(job("p", 9, time.Hour)); change(s) })
	}
	limited := func(l cluster.Limits) string { return limits(func(s *scene) { s.c.Limits = l }) }
	quota := func(l cluster.Limits) string { return limits(func(s *scene) { s.Quota = l }) }
	free := limits(func(*scene) {})
	least := func(n int, limit int64) string {
		return round(func(s *scene) { s.flavor("small").Min, s.c.Limits.Machines = n, &limit })
	}
	staying := func(why string) string {
		s := newScene()
		s.drained("a", "small", minute, job("x", 4, time.Hour)).Pods[0].Stays = why
		return s.Stays()
	}

	// Machines that are released or kept.
	under := func(pending ...cluster.Pod) *cluster.State {
		return quiet(pending, node("a", job("x", 2, time.Hour)), node("b", job("z", 8, time.Hour)))
	}
	paid := under()
	paid.BillingPeriod, paid.Nodes[0].Age = time.Hour, 30*minute
	byTheMinute := watched(nil, costing(node("a"), 3_600_000))
	byTheMinute.BillingPeriod, byTheMinute.Nodes[0].Age = minute, minute
	empty := fleet(watched(nil, costing(node("a"), 3_600_000)))
	going := fleet(under())
	unwanted := fleet(quiet(nil, node("a")), func(o *FleetOptions) { o.Empty, o.UnderUsed = false, false })
	roomy := fleet(under(ago(job("p", 1, time.Hour), patience)))
	replaced := func(change func(*scene)) string {
		return round(func(s *scene) {
			s.c.MoveServices, s.c.Replace, s.c.Horizon = true, disruption.Policy{Drifted: true}, minute
			s.ready("a", "small", service("x", 4)).Outdated = true
			change(s)
		})
	}
	deferred := fleet(dollarsByTheSecond(podsOf(job("p", 6, time.Hour)), full("a", 5*minute)), func(o *FleetOptions) { *o = waitingFor(10 * minute) })
	expected := func(n int) string {
		return fleet(came(quiet(podsOf(job("p", 2, time.Hour))), often(job("", 2, time.Hour), n)...))
	}

	noticed := func(notice string, pods ...cluster.Pod) string {
		return round(func(s *scene) {
			s.ready("a", "large", pods...).NodeState.Notice = notice
			s.node("a").Phase = cluster.Leaving
		})
	}
	toLose := func(pods int) string {
		return noticed("taint t", podsOf(job("x", 1, time.Hour), job("y", 1, time.Hour))[:pods]...)
	}

	sentences.Check(t, []string{"deferral.go", "draining.go", "fleet.go", "forecast.go", "lag.go", "lessons.go", "limits.go", "memory.go", "nominations.go", "overdue.go", "release.go", "round.go", "terms.go", "waiting.go"}, []sentences.Case{
		// Machines that are not bought.
		{"no machine is bought for %s: %s on order, and %d would be enough for all waiting pods if they had come at once", (&Withheld{Pods: []string{"p"}, OnOrder: 3, Needed: 1}).Reason(), ""},
		{"1 machine is", (&Withheld{Pods: []string{"p"}, OnOrder: 1}).Reason(), (&Withheld{Pods: []string{"p"}, OnOrder: 3}).Reason()},
		{"%d machines are", (&Withheld{Pods: []string{"p"}, OnOrder: 3}).Reason(), (&Withheld{Pods: []string{"p"}, OnOrder: 1}).Reason()},

		// Nodes that are drained.
		{"node %s has pod %s, which does not leave: %s", staying("it must not"), staying("")},
		{"the machine of node %s is about to be taken: it has %s. Its pods leave", toLose(0), noticed("")},
		{"; %s cannot be moved with %s state: %v of work is lost unless %s within the notice, %v of it in pod %s", toLose(1), toLose(0)},
		{"it ends", toLose(1), toLose(2)},
		{"they end", toLose(2), toLose(1)},
		{"services are not moved", serving(time.Hour, false), serving(time.Hour, true)},
		{"it was bound after the node was cordoned", serving(minute-1, true), serving(minute, true)},
		{"it has been on its node for %v and may not be moved before %v", serving(2*minute, true), serving(5*minute, true)},
		{"uncordoned node %s: it has room for pending pod %s", wanted, plain},
		{"flavor %s must keep at least %s", most, plain},
		{"node %s is kept: %s", most, plain},
		{"the fleet may not act: it is in mode Observe, or Supercargo is paused", observing, plain},
		{"pod %s must not be moved: %s", serving(time.Hour, false), most},
		{"%s %s not left within %v", late(time.Hour, job("x", 4, time.Hour)), late(minute, job("x", 4, time.Hour))},
		{"pods of %s are kept for %v: pod %s was created after an eviction of one of them was requested, and found no room", successor(30 * time.Second), successor(time.Hour)},
		{"after an eviction of another pod of its controller, a new one found no room", successor(30 * time.Second), successor(time.Hour)},
		{"it could not be drained and is in back-off: ", kept(job("x", 1, time.Hour)), plain},

		// Machines that do not come.
		{"%s %s of flavor %s%s: %s; the flavor is in back-off until %s", gone, machine(10*minute - 1)},
		{", and still waits for %d", some, gone},
		{"still waits for", awaited, gone},
		{"stopped waiting for", stopped, gone},
		{"it has %s fewer than desired", missing(10 * minute), missing(10*minute - 1)},
		{"node %s has not become ready within %v", never, ceased},
		{"node %s has not been ready since %s", ceased, never},
		{", and the grace period of the terminating pod on it is over", remains(1, ""), remains(2, "")},
		{", and the grace periods of the %d terminating pods on it are over", remains(2, ""), remains(1, "")},
		{"no ready node within %v: %s", waits, gone},
		{"no ready node within %v", gone, never},
		{"node %s is not ready, and pod %s on it is not being deleted and may still run: delete the pod, or set taint %s on the node if its machine is off", remains(1, "p"), remains(1, "")},
		{"node %s is not ready, and its flavor %s has its minimum number of machines: replace the machine", machine(time.Hour, onNode(func(*NodeState) {}), atLeast(1)), never},
		{"node %s of flavor %s still has taint %s %v after its machine was ordered, so the taint counts as permanent: check the component that should remove it, or add it to the taints of the flavor", tainted("driver:NoSchedule"), tainted()},
		{"node %s of flavor %s still has no %s %v after its machine was ordered: check the driver and the device plugin that publish it, or correct what the flavor states", without("nvidia.com/gpu"), without("")},

		// Pods without a machine.
		{"has waited for %v although node %s seems to have room for it: check the events of its scheduler", unexplained(patience), unexplained(patience - 1)},
		{"node %s of flavor %s seemed to have room for it, but its scheduler did not use it", unexplained(patience), unexplained(patience - 1)},
		{"flavor %s was expected to leave %s for pods, but a machine of it, node %s, leaves %s", learned(3, service("p", 4)), learned(4, service("p", 4))},
		{"flavor %s was expected to admit it, but a machine of it, node %s, does not: %s", admitted("driver"), admitted("")},
		{"CPU %dm and %d MiB of memory", learned(3, service("p", 4)), admitted("driver")},
		{", %d of resource %s", gpus(0), learned(3, service("p", 4))},
		{"%s; in back-off until %s", learned(3, service("p", 4)), learned(4, service("p", 4))},
		{"image %q does not run on %s (exec format error)", crashes, lacks},
		{"image %q has no variant for %s", lacks, crashes},
		{"Image %q does not run on %s, exec format error", crashes, lacks},
		{"Image %q has no variant for %s", lacks, crashes},
		{"pods that use it", lacks, crashes},
		{"pods of namespace ", crashes, lacks},
		{" that use it", lacks, free},
		{"%s: no %s machines are bought for %s for the next %v; pod %s stays on node %s until it is deleted", lacks, free},
		{" (and %d more)", lacks, images(lacking("a", "arm64"))},

		// Limits.
		{" is reached", limited(cluster.Limits{Machines: new(int64(0))}), free},
		{"the limit spec.limits.machines", limited(cluster.Limits{Machines: new(int64(0))}), free},
		{"the limit spec.limits.cpu", limited(cluster.Limits{MilliCPU: new(int64(1))}), free},
		{"the limit spec.limits.memory", limited(cluster.Limits{MemoryBytes: new(int64(1))}), free},
		{"the limit spec.limits.dollarsPerHour", limited(cluster.Limits{MicroDollarsPerHour: new(int64(1))}), free},
		{"the limit of the cloud project on machines", quota(cluster.Limits{Machines: new(int64(0))}), free},
		{"the limit of the cloud project on CPUs", quota(cluster.Limits{MilliCPU: new(int64(1))}), free},
		{"the limit of the cloud project on memory", quota(cluster.Limits{MemoryBytes: new(int64(1))}), free},
		{"one more machine of flavor %s would exceed %s", limited(cluster.Limits{MilliCPU: new(int64(1))}), free},
		{"flavor %s has fewer machines than its minimum of %d: one more would exceed %s", least(1, 0), least(1, 1)},

		// Purchases.
		{"%s %s for room that becomes free: the expected cost until all machines are empty again is $%s, and $%s if machines were bought now", deferred, free},
		{"; %d of them %s expected within %v", expected(8), expected(0)},

		// Machines that are released or kept.
		{"it is empty, and spec.consolidation.policy is Never", unwanted, empty},
		{"pending pods may need the room that its pods would take", fleet(under(service("p", 9))), going},
		{"spec.consolidation.policy does not allow releasing a machine with pods", fleet(under(), func(o *FleetOptions) { o.UnderUsed = false }), going},
		{"its pods have room elsewhere, but its billing period has not ended: it is emptied in %v at the earliest", fleet(paid), going},
		{"spec.consolidation.maxUnavailable is reached", fleet(under(), func(o *FleetOptions) { o.Budget = 0 }), going},
		{"it is to be replaced, because %s. But it stays: %s", replaced(func(s *scene) { s.c.MaxUnavailable = intstr.FromInt32(0) }), replaced(func(*scene) {})},
		{" has its minimum number of machines, and no other can be bought", replaced(func(s *scene) {
			s.node("a").Pods, s.flavor("small").Min, s.State.Flavors = nil, 1, s.State.Flavors[:1]
		}), replaced(func(s *scene) { s.node("a").Pods, s.flavor("small").Min = nil, 1 })},
		{" has its minimum number of machines", fleet(under(), func(o *FleetOptions) { o.Spare = nil }), going},
		{"it seems to have room for a pending pod", roomy, going},
		{"it is empty", empty, going},
		{" and costs $%.4f/h", empty, fleet(watched(nil, costing(node("a"), 0)))},
		{", billed for %v at a time", fleet(byTheMinute), empty},
		{"; without it, no more pods are expected to wait within %v", empty, going},
		{", and starting another machine would cost $%.6f", empty, fleet(watched(nil, costing(node("a"), 0)))},
	}, map[string]string{"machine %d of %s": "the name of a machine on order, which is not printed"})
}
