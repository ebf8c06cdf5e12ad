package migrationdecide

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// over reports whether the migration has no work left.
func (w *world) over() bool { return w.m == nil || Ended(w.m) }

// scheduler does the next step for the new pod, like the plugin CheckpointStaging.
func (w *world) scheduler() {
	pod := w.restored()
	if pod == nil || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		w.binding = ""
		return
	}
	if w.binding != "" { // its observation may be outdated
		if w.nodes[w.binding] != nil {
			pod.Spec.NodeName = w.binding
			w.changed(pod)
			w.logf("scheduler: binds %s to %s", pod.Name, w.binding)
		}
		w.binding = ""
		return
	}
	if pod.Labels[v1alpha1.LabelMigration] == "" { // a pod like any other
		w.binding = w.chooseNode()
		return
	}
	if !w.over() {
		w.hold(pod)
	}
}

// hold reserves room for the new pod, releases it, or lets the pod be bound.
func (w *world) hold(pod *corev1.Pod) {
	s := &w.m.Status
	mineToo := s.Reservation != nil && s.Reservation.PodUID == string(pod.UID)
	failed := s.Target != nil && s.Reservation != nil && s.Target.Node == s.Reservation.Node && s.Target.Step == v1alpha1.TargetFailed
	switch {
	case s.Order == v1alpha1.OrderThaw, s.Order == v1alpha1.OrderClean, Back(w.m), failed:
		if mineToo {
			s.Reservation = nil
			w.changed(w.m)
			w.logf("scheduler: takes the reservation back")
		}
	case !mineToo && s.Order == v1alpha1.OrderPrepare:
		if node := w.chooseNode(); node != "" {
			s.Reservation = &v1alpha1.MigrationReservation{Node: node, PodUID: string(pod.UID), Time: metav1.NewTime(w.now)}
			w.changed(w.m)
			w.logf("scheduler: reserves %s", node)
		}
	case mineToo && staged(Observation{Migration: w.m}):
		w.binding = s.Reservation.Node
	}
}

func (w *world) chooseNode() string {
	for _, name := range []string{nodeB, nodeC} {
		if n := w.nodes[name]; n != nil && !n.Spec.Unschedulable && n.Status.Conditions[0].Status == corev1.ConditionTrue {
			return name
		}
	}
	return ""
}

// report writes the report of the source's agent.
func (w *world) report(step v1alpha1.SourceStep, change ...func(*v1alpha1.SourceReport)) {
	r := &v1alpha1.SourceReport{}
	if w.m.Status.Source != nil {
		r = w.m.Status.Source.DeepCopy()
	}
	r.Step, r.Time = step, metav1.NewMicroTime(w.now)
	for _, c := range change {
		c(r)
	}
	w.m.Status.Source = r
	w.changed(w.m)
	w.logf("source: %s", step)
}

// sourceIsOver does what the agent of the source node does once the Migration has ended or is
// gone.
func (w *world) sourceIsOver(pod *corev1.Pod, p *process) {
	switch wanted := pod != nil && pod.DeletionTimestamp == nil; {
	case p.frozen && !w.killOrder && wanted && w.m == nil && w.restored() != nil: // its copy may run
		return
	case p.frozen && !w.killOrder && wanted:
		w.thaw(p)
	case p.frozen && w.m == nil: // somebody has removed the finalizer
		*p = process{node: p.node, progress: p.progress}
		w.logf("source: kills the container, whose pod goes")
	}
	w.left[nodeA] = false
}

// sourceAgent does the next step of the agent of the source node.
func (w *world) sourceAgent() {
	if w.cut[nodeA] {
		return
	}
	pod := w.pods[source]
	p := w.processes["uid-"+source]
	if w.restarted {
		p = &process{node: nodeA} // the container that it knows is gone
	}
	if w.over() {
		w.sourceIsOver(pod, p)
		return
	}
	s := &w.m.Status
	if s.Plan == nil {
		return
	}
	step := v1alpha1.SourceStep("")
	if s.Source != nil {
		step = s.Source.Step
	}
	switch s.Order {
	case v1alpha1.OrderPrepare:
		if step == "" {
			w.left[nodeA] = true
			w.report(v1alpha1.SourcePrepared, func(r *v1alpha1.SourceReport) {
				r.Requirements = capability.Requirements{Backend: s.Plan.Backend}.Encode()
			})
		}
	case v1alpha1.OrderFreeze:
		w.carryAway(step, p)
	case v1alpha1.OrderThaw:
		if p.frozen {
			w.thaw(p)
		} else if step != v1alpha1.SourceThawed {
			w.report(v1alpha1.SourceThawed, func(r *v1alpha1.SourceReport) {
				if r.FrozenAt != nil {
					r.ThawedAt = new(metav1.NewMicroTime(w.now))
				}
			})
		}
	case v1alpha1.OrderKill:
		w.kill(step, p)
	case v1alpha1.OrderClean:
		w.left[nodeA] = false
		if step != v1alpha1.SourceCleaned {
			w.report(v1alpha1.SourceCleaned)
		}
	}
}

func (w *world) thaw(p *process) {
	p.frozen, p.running = false, true
	w.logf("source: the container continues")
}

func (w *world) kill(step v1alpha1.SourceStep, p *process) {
	w.killOrder = true
	switch {
	case !p.dead():
		*p = process{node: p.node, progress: p.progress}
		w.logf("source: kills the container")
	case step != v1alpha1.SourceKilled:
		w.report(v1alpha1.SourceKilled)
	}
}

// carryAway freezes, dumps and ships.
func (w *world) carryAway(step v1alpha1.SourceStep, p *process) {
	switch {
	case step == v1alpha1.SourcePrepared:
		w.report(v1alpha1.SourceFrozen)
	case step == v1alpha1.SourceFrozen && p.dead():
		w.report(v1alpha1.SourceFailed, func(r *v1alpha1.SourceReport) { r.Reason, r.Message = "ContainerGone", "it is gone" })
	case step == v1alpha1.SourceFrozen && p.running:
		p.running, p.frozen = false, true
		w.frozenAt = p.progress
		w.logf("source: the container is frozen")
	case step == v1alpha1.SourceFrozen && w.rnd.IntN(20) == 0:
		w.report(v1alpha1.SourceFailed, func(r *v1alpha1.SourceReport) { r.Reason, r.Message = "DumpFailed", "CRIU said no" })
	case step == v1alpha1.SourceFrozen:
		w.dump = p.progress
		w.report(v1alpha1.SourceDumped, func(r *v1alpha1.SourceReport) {
			r.FrozenAt = new(metav1.NewMicroTime(w.now))
			r.DumpSeconds, r.DumpBytes = "0.100", 1000
		})
	case step == v1alpha1.SourceDumped && staged(Observation{Migration: w.m}):
		w.report(v1alpha1.SourceShipped, func(r *v1alpha1.SourceReport) { r.ShipSeconds, r.ShipBytes = "0.200", 500 })
	}
}

// targetAgent does the next step of a node's agent as the target.
func (w *world) targetAgent(node string) {
	if w.cut[node] {
		return
	}
	if w.over() {
		w.forget(node)
		return
	}
	s := &w.m.Status
	own := s.Target != nil && s.Target.Node == node
	order := s.Order
	if s.Reservation == nil || s.Reservation.Node != node {
		order = v1alpha1.OrderClean
	}
	switch order {
	case v1alpha1.OrderPrepare:
		if !own {
			w.left[node] = true
			if w.rnd.IntN(15) == 0 {
				w.reportTarget(node, v1alpha1.TargetFailed)
				return
			}
			w.reportTarget(node, v1alpha1.TargetPrepared)
		}
	case v1alpha1.OrderFreeze:
		if own && s.Target.Step == v1alpha1.TargetPrepared && s.Source.Step == v1alpha1.SourceDumped {
			w.images[node] = w.dump
			w.reportTarget(node, v1alpha1.TargetStaged)
		}
	case v1alpha1.OrderThaw, v1alpha1.OrderClean:
		w.forget(node)
		if own && s.Target.Step != v1alpha1.TargetCleaned {
			w.reportTarget(node, v1alpha1.TargetCleaned)
		}
	}
}

func (w *world) forget(node string) {
	delete(w.images, node)
	w.left[node] = false
}

func (w *world) reportTarget(node string, step v1alpha1.TargetStep) {
	r := &v1alpha1.TargetReport{Node: node, Step: step, Time: metav1.NewMicroTime(w.now)}
	if step == v1alpha1.TargetFailed {
		r.Reason, r.Message = "ImageMissing", "pull it first"
	}
	w.m.Status.Target = r
	w.changed(w.m)
	w.logf("target %s: %s", node, step)
}

// trouble causes one fault or interference.
func (w *world) trouble() {
	switch w.rnd.IntN(13) {
	case 0:
		if w.m != nil && w.m.DeletionTimestamp == nil {
			w.logf("the migration is cancelled")
			w.m.DeletionTimestamp = new(metav1.NewTime(w.now))
			w.changed(w.m)
			w.migrationMayGo()
		}
	case 1, 2:
		w.dies(source)
	case 3:
		if pod := w.restored(); pod != nil {
			w.dies(pod.Name)
		}
	case 4:
		w.deletedByOthers(w.pods[source])
	case 5:
		w.deletedByOthers(w.restored())
	case 6:
		if n := w.nodes[nodeB]; n != nil {
			n.Spec.Unschedulable = true
			w.logf("b is cordoned")
		}
	case 7, 8:
		w.cutOff(nodeB)
	case 9:
		w.cutOff(nodeA)
	case 10:
		w.now = w.now.Add(6 * time.Minute)
		w.logf("the deadline passes")
	case 11:
		w.reconnect()
	case 12:
		w.restartsSource()
	}
}

// dies ends the process of a pod, if it runs.
func (w *world) dies(name string) {
	pod := w.pods[name]
	if pod == nil {
		return
	}
	if p := w.processes[pod.UID]; p != nil && p.running {
		*p = process{node: p.node, progress: p.progress}
		w.died = true
		w.logf("the process of %s dies", name)
	}
}

// deletedByOthers deletes a pod.
func (w *world) deletedByOthers(pod *corev1.Pod) {
	if pod == nil || pod.DeletionTimestamp != nil {
		return
	}
	w.logf("somebody deletes %s", pod.Name)
	if pod.Name == source || w.m == nil || HandingOver(w.m) {
		w.died = true
	}
	w.ran = w.ran && pod.Name == source // who deletes the new pod wants the old one
	w.deletePod(pod, 30)
}

// cutOff disconnects a machine from the API server. Its processes continue.
func (w *world) cutOff(node string) {
	if n := w.nodes[node]; n != nil {
		w.cut[node] = true
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		w.logf("%s is cut off", node)
	}
}

func (w *world) reconnect() {
	for _, node := range slices.Sorted(maps.Keys(w.cut)) {
		if w.cut[node] && w.nodes[node] != nil {
			w.cut[node] = false
			w.nodes[node].Status.Conditions[0].Status = corev1.ConditionTrue
			w.logf("%s is back", node)
		}
	}
}

// scrap switches a machine off for good, and removes its node and pods.
func (w *world) scrap(node string) {
	w.logf("%s is scrapped", node)
	delete(w.nodes, node)
	w.left[node] = false
	delete(w.images, node)
	for _, p := range w.processes {
		if p.node == node && !p.dead() {
			*p = process{node: node, progress: p.progress}
			w.died = true
		}
	}
	for _, pod := range w.pods {
		if pod.Spec.NodeName == node {
			if w.m == nil || HandingOver(w.m) {
				w.died = true
			}
			pod.Status.Phase = corev1.PodFailed
			w.changed(pod)
			w.deletePod(pod, 0)
		}
	}
}
