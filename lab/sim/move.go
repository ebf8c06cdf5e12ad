package sim

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/runtimes"
)

// empty executes a drain. It also drains a node that is only cordoned.
func (e *engine) empty(d cluster.Drain) error {
	m := e.machine(d.Node)
	if m == nil || m.node == nil || m.drain != nil && (!m.drain.cordonOnly || d.CordonOnly) || len(m.coming) > 0 {
		return fmt.Errorf("%w: empty %s, which is not a node or has pods moving to it", errPlan, d.Node)
	}
	if m.drain == nil {
		e.cordon(m, true)
		e.count("drains")
	}
	m.drain = &drain{reason: d.Reason, until: e.now + d.Until, waits: d.Method == cluster.Wait, cordonOnly: d.CordonOnly}
	if d.Replacement != nil {
		replacement, err := e.buy(*d.Replacement)
		if err != nil {
			return err
		}
		replacement.replaces = m
		return e.emptied(m)
	}
	if err := e.evictAll(m, d); err != nil {
		return err
	}
	if err := e.migrateAll(m, d); err != nil {
		return err
	}
	return e.emptied(m)
}

// migrateAll starts the migrations of a drain, in their order. The machine waits for pods that are to end there.
func (e *engine) migrateAll(m *machine, d cluster.Drain) error {
	for _, move := range d.Moves {
		switch move.Method {
		case cluster.Evict:
			continue
		case cluster.Wait:
			m.drain.waits = true
			continue
		case cluster.Migrate:
		}
		at := slices.IndexFunc(m.pods, func(r *running) bool { return r.pod.Name == move.Pod })
		target := e.machine(move.Target)
		if at < 0 || m.pods[at].to != nil || target == nil || target.node == nil || !target.fits(m.pods[at]) {
			return fmt.Errorf("%w: move pod %s from %s to %s", errPlan, move.Pod, d.Node, move.Target)
		}
		if err := e.migrate(m.pods[at], target, d.Reason); err != nil {
			return err
		}
	}
	return nil
}

// evictAll kills the pods that a drain evicts, in the order in which they came to the machine.
func (e *engine) evictAll(m *machine, d cluster.Drain) error {
	methods := make(map[string]cluster.Method, len(d.Moves))
	for _, move := range d.Moves {
		methods[move.Pod] = move.Method
	}
	for _, r := range slices.Clone(m.pods) {
		method, named := methods[r.pod.Name]
		if !named {
			method = d.Method
		}
		if method != cluster.Evict {
			continue
		}
		if err := e.evict(r); err != nil {
			return err
		}
	}
	return nil
}

// uncordon makes a machine that waits for its last pods schedulable again.
func (e *engine) uncordon(s cluster.Stay) error {
	m := e.machine(s.Node)
	if m == nil || m.drain == nil || !m.drain.cordonOnly && !m.onlyWaits() {
		return fmt.Errorf("%w: uncordon %s, which is not a cordoned node or has pods being moved", errPlan, s.Node)
	}
	m.drain = nil
	e.cordon(m, false)
	e.count("drainsDropped")
	e.roomier()
	return nil
}

// onlyWaits reports whether a drained machine only waits for pods to end.
func (m *machine) onlyWaits() bool {
	return m.drain != nil && m.drain.waits && len(m.coming) == 0 && !slices.ContainsFunc(m.pods, func(r *running) bool { return r.to != nil })
}

func (m *machine) fits(r *running) bool {
	return m.class.Takes(r.pod.Class) && (r.pod.Arch == "" || r.pod.Arch == m.flavor.Arch) &&
		r.pod.Size.Fits(m.room()) && m.flavor.Takes(m.count()+1) && m.drain == nil
}

// emptied releases a drained machine if it is empty.
func (e *engine) emptied(m *machine) error {
	if m.drain == nil || m.drain.cordonOnly || m.count() > 0 {
		return nil
	}
	return e.release(m)
}

// evict kills a pod, which is requeued and starts from the beginning. A batch pod that was evicted
// too often has failed.
func (e *engine) evict(r *running) error {
	lost := e.lose(r)
	if err := e.leave(r); err != nil {
		return fmt.Errorf("evict pod %s: %w", r.pod.Name, err)
	}
	e.result.Evictions++
	e.result.LostWork += lost
	r.moves++
	e.evicted[r.pod]++
	e.record(fact{what: podEvicted, pod: r.pod.Name, node: r.on.name})
	if r.pod.Class == class.Batch && e.evicted[r.pod] > maxEvictions {
		e.result.Failed++
		return nil
	}
	q := e.enqueue(r.pod, e.evicted[r.pod])
	q.started, q.first, q.ends, q.reason = true, r.first, r.ends, "evicted, and not yet scheduled again"
	e.parked = append(e.parked, q)
	if q.ends > 0 {
		e.push(event{at: q.ends, kind: expiry, queued: q})
	}
	return nil
}

// migrate moves a pod with its state. It is frozen until it arrives and occupies room on both
// machines.
func (e *engine) migrate(r *running, to *machine, reason string) error {
	took := e.migration().Time(r.pod.Size.MemoryBytes)
	e.result.Frozen += took
	r.left -= e.workDone(r)
	r.generation++ // voids its planned end
	r.moves++
	r.to, r.why = to, reason
	r.expected = e.expectedOn(r, to) + took
	r.copied = r.object.DeepCopy()
	r.copied.Name = fmt.Sprintf("%s-m%d", r.pod.Name, r.moves)
	r.copied.UID = types.UID(fmt.Sprintf("%s/m%d", r.object.UID, r.moves))
	r.copied.Spec.NodeName = to.name
	if r.pod.Class == class.Batch {
		if r.copied.Annotations == nil {
			r.copied.Annotations = map[string]string{}
		}
		r.copied.Annotations[v1alpha1.AnnotationExpectedFinish] = runtimes.Format(Epoch.Add(r.expected))
	}
	if err := e.sched.AddPod(r.copied); err != nil {
		return fmt.Errorf("move pod %s to %s: %w", r.pod.Name, to.name, err)
	}
	to.coming = append(to.coming, r)
	e.take(to, r.pod.Size)
	e.result.Migrations++
	e.record(fact{what: podFrozen, pod: r.pod.Name, node: to.name})
	e.push(event{at: e.now + took, kind: moved, running: r})
	return nil
}

// expectedOn returns the expected finish of a pod if it continued on another machine now.
func (e *engine) expectedOn(r *running, to *machine) time.Duration {
	from := r.on.flavor.Speed
	if from == to.flavor.Speed {
		return r.expected
	}
	return e.now + time.Duration(float64(r.expected-e.now)*(from/to.flavor.Speed))
}

// transfer moves one pod to a more suitable machine.
func (e *engine) transfer(t cluster.Transfer) error {
	from, to := e.machine(t.From), e.machine(t.To)
	if from == nil || to == nil || from == to || to.node == nil {
		return fmt.Errorf("%w: move pod %s from %s to %s, which are not two nodes", errPlan, t.Pod, t.From, t.To)
	}
	at := slices.IndexFunc(from.pods, func(r *running) bool { return r.pod.Name == t.Pod })
	if at < 0 || from.pods[at].to != nil || !to.fits(from.pods[at]) || t.Method == cluster.Migrate && from.flavor.Arch != to.flavor.Arch {
		return fmt.Errorf("%w: move pod %s from %s to %s", errPlan, t.Pod, t.From, t.To)
	}
	if err := e.move(from.pods[at], to, t); err != nil {
		return err
	}
	e.result.SavedJoules += max(0, t.Joules)
	e.result.AddedJoules += max(0, -t.Joules)
	return nil
}

// move moves a pod with its state, or evicts it: then the scheduler places it, not necessarily where it was to go.
func (e *engine) move(r *running, to *machine, t cluster.Transfer) error {
	if t.Method == cluster.Migrate {
		return e.migrate(r, to, t.Reason)
	}
	from := r.on
	if err := e.evict(r); err != nil {
		return err
	}
	return e.emptied(from)
}

// workDone returns the work of a batch pod since it last started or resumed.
func (e *engine) workDone(r *running) time.Duration {
	if r.pod.Class != class.Batch {
		return 0
	}
	return r.done(e.now)
}

// lose returns the work lost by an eviction.
func (e *engine) lose(r *running) time.Duration {
	if r.pod.Class != class.Batch {
		return 0
	}
	return r.pod.Runtime - r.left + r.done(e.now)
}

// arriveMoved resumes a pod on the machine that it has moved to.
func (e *engine) arriveMoved(r *running) error {
	from, to := r.on, r.to
	generation := r.generation
	if err := e.leave(r); err != nil {
		return fmt.Errorf("end the move of pod %s: %w", r.pod.Name, err)
	}
	r.generation = generation
	to.coming = slices.DeleteFunc(to.coming, func(other *running) bool { return other == r })
	to.pods = append(to.pods, r)
	r.on, r.to, r.object = to, nil, r.copied
	e.result.BatchRunning += batchOne(r.pod)
	e.place(r, to, "moved from "+from.name+": "+r.why)
	e.record(fact{what: podMoved, pod: r.pod.Name, node: to.name})
	e.endLater(r)
	e.progress()
	return e.emptied(from)
}

// toReplacement moves the remaining pods of a machine to its replacement.
func (e *engine) toReplacement(to *machine) error {
	from := to.replaces
	if from.gone >= 0 || from.drain == nil {
		return nil
	}
	for _, r := range slices.Clone(from.pods) {
		if r.to == nil && to.fits(r) {
			if err := e.migrate(r, to, from.drain.reason); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *engine) migration() cluster.Migration {
	return cluster.Migration(e.input.Scenario.Migration)
}
