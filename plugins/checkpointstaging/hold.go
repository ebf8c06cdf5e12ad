package checkpointstaging

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/plugins/checkpointstaging/stagingdecide"
)

const (
	// retry is the delay before the plugin queries an API server again that has not answered. The pod is held
	// meanwhile.
	retry = 2 * time.Second
	// patience bounds the time to remove a reservation, and patientTries the attempts.
	patience     = 10 * time.Second
	patientTries = 5
)

// Reserve does nothing: the scheduler has reserved the resources, and PreBind writes the reservation, when no plugin
// can reject the node any more.
func (p *Plugin) Reserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return nil
}

// preflight tells the scheduler that the new pods of migrations will be held. The scheduler then sets the nominated
// node in their status, for the autoscaler.
func preflight(pod *corev1.Pod) *fwk.Status {
	if !moves(pod) {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// PreBind reserves the node in the pod's Migration and holds the pod until it can start there. It fails if the pod
// cannot succeed; the scheduler then releases the resources.
func (p *Plugin) PreBind(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	if !moves(pod) {
		return nil
	}
	s := read(cycle)
	if s == nil {
		return unprepared(pod)
	}
	s.held = true
	h := &hold{plugin: p, pod: pod, held: stagingdecide.Held{Pod: subject(pod), Node: node, Since: p.clock.Now(), Timeout: p.timeout}}
	outcome, err := h.run(ctx)
	s.reserved, s.outcome = h.held.Reserved, outcome
	observeHold(outcome, err, p.clock.Since(h.held.Since))
	switch {
	case err != nil:
		return fwk.AsStatus(fmt.Errorf("hold pod %s on node %s for migration %s: %w", klog.KObj(pod), node, migrationOf(pod), err))
	case outcome.Step == stagingdecide.GiveUp:
		return fwk.NewStatus(fwk.Unschedulable, "the pod "+outcome.Message)
	}
	return nil
}

func migrationOf(pod *corev1.Pod) klog.ObjectRef {
	return klog.KRef(pod.Namespace, pod.Annotations[v1alpha1.AnnotationMigrationName])
}

// hold is a held pod.
type hold struct {
	plugin *Plugin
	pod    *corev1.Pod
	held   stagingdecide.Held
	// changed receives a value after a possible change.
	changed <-chan struct{}
}

// run carries out the decided steps until the pod can be bound or is rejected. An
// error means that a step failed, or that the scheduler stops.
func (h *hold) run(ctx context.Context) (stagingdecide.Next, error) {
	changed, end := h.plugin.migrations.subscribe(h.pod.UID, h.held.Migration)
	defer end()
	h.changed = changed
	m, err := h.live(ctx)
	fresh := true
	for err == nil {
		switch next := h.next(m); {
		case next.Step == stagingdecide.Wait:
			m, err = h.await(ctx, m, next.Until)
			fresh = false
		case !fresh: // all steps except waiting require the live Migration
			m, err = h.live(ctx)
			fresh = true
		case next.Step == stagingdecide.Reserve:
			m, err = h.reserve(ctx, m)
		default:
			return next, nil
		}
	}
	return stagingdecide.Next{}, err
}

// next returns the next step.
func (h *hold) next(m *v1alpha1.Migration) stagingdecide.Next {
	pod := h.plugin.migrations.pod(h.pod.Namespace, h.pod.Name, h.pod.UID)
	h.held.Deleted = pod == nil || pod.DeletionTimestamp != nil
	if m != nil && m.Status.Plan != nil {
		h.held.Reserved = h.held.Reserved || h.held.Owns(m.Status.Reservation)
	}
	return h.held.Next(m, h.plugin.clock.Now())
}

// reserve writes the reservation. If the Migration has changed since it was read, reserve returns the new version.
func (h *hold) reserve(ctx context.Context, m *v1alpha1.Migration) (*v1alpha1.Migration, error) {
	call, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	written, err := h.plugin.migrations.reserve(call, m, &v1alpha1.MigrationReservation{
		Node: h.held.Node, PodUID: string(h.pod.UID), Time: metav1.NewTime(h.plugin.clock.Now()),
	})
	switch {
	case apierrors.IsConflict(err):
		return h.live(ctx)
	case err != nil:
		return nil, fmt.Errorf("reserve the node: %w", err)
	}
	klog.FromContext(ctx).V(2).Info("Reserved a node; the pod is held until it can start there", "pod", klog.KObj(h.pod),
		"node", klog.KRef("", h.held.Node), "migration", migrationOf(h.pod))
	h.plugin.handle.EventRecorder().Eventf(h.pod, nil, corev1.EventTypeNormal, v1alpha1.SchedulingReasonReserved, v1alpha1.ActionScheduling,
		"Node %s is reserved for migration %s; the pod is bound when it can start there", h.held.Node, m.Name)
	return written, nil
}

// live returns the Migration from the API server, or nil if it is gone. Once the node is reserved, it retries until
// there is an answer, and keeps the reservation meanwhile.
func (h *hold) live(ctx context.Context) (*v1alpha1.Migration, error) {
	for {
		call, cancel := context.WithTimeout(ctx, patience)
		m, err := h.plugin.migrations.live(call, h.pod.Namespace, h.pod.Annotations[v1alpha1.AnnotationMigrationName])
		cancel()
		if err == nil || !h.held.Reserved || apierrors.IsForbidden(err) {
			return m, err
		}
		klog.FromContext(ctx).Info("Failed to read the migration of a held pod; the pod remains held", "pod", klog.KObj(h.pod), "migration", migrationOf(h.pod), "error", err)
		if err := h.sleep(ctx, h.plugin.clock.Now().Add(retry)); err != nil {
			return nil, err
		}
	}
}

// await waits for a change or the given time, and returns the Migration from the cache, which may be older than m.
func (h *hold) await(ctx context.Context, m *v1alpha1.Migration, until time.Time) (*v1alpha1.Migration, error) {
	if err := h.sleep(ctx, until); err != nil {
		return nil, err
	}
	known, err := h.plugin.migrations.cached(h.pod.Namespace, h.pod.Annotations[v1alpha1.AnnotationMigrationName])
	if err != nil {
		return m, nil
	}
	return known, nil
}

// sleep waits for a change or the given time.
func (h *hold) sleep(ctx context.Context, until time.Time) error {
	timer := h.plugin.clock.NewTimer(until.Sub(h.plugin.clock.Now()))
	defer timer.Stop()
	select {
	case <-h.changed:
	case <-timer.C():
	case <-ctx.Done():
		return fmt.Errorf("the scheduler is shutting down: %w", context.Cause(ctx))
	}
	return nil
}

// Unreserve removes the reservation if that was decided, or if binding failed for another reason while the scheduler
// may still choose another node. A checkpoint that is being transferred keeps its node, and the pod is tried there
// again. The same applies when the scheduler stops.
//
// It also clears the node that the scheduler nominated in the pod's status because the pod would be held. The scheduler
// itself does not (Kubernetes 1.35): it compares with the status from before the nomination, and finds nothing to
// clear. The nomination would reserve room for the pod while it is tried on other nodes.
func (p *Plugin) Unreserve(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, node string) {
	s := read(cycle)
	if !moves(pod) || s == nil {
		return
	}
	p.clearNominatedNode(ctx, s, pod)
	if !s.reserved || s.outcome.Step == stagingdecide.GiveUp && !s.outcome.Undo {
		return
	}
	h := stagingdecide.Held{Pod: subject(pod), Node: node}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := p.undo(ctx, h, pod, s.outcome.Undo)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Failed to release the reservation; the node stays reserved until the pod is scheduled again or its migration ends", "pod", klog.KObj(pod),
			"node", klog.KRef("", node), "migration", migrationOf(pod))
	}
}

// clearNominatedNode clears the nominated node of a pod that was held.
func (p *Plugin) clearNominatedNode(ctx context.Context, s *state, pod *corev1.Pod) {
	if !s.held {
		return
	}
	call, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.migrations.clearNominatedNode(call, pod); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Failed to clear the nominated node; it stays nominated until the pod is scheduled again", "pod", klog.KObj(pod))
	}
}

// takeBack removes the pod's reservation if it is still its own. Unless that was decided, it does so only while another
// node would be suitable.
func (p *Plugin) undo(ctx context.Context, h stagingdecide.Held, pod *corev1.Pod, decided bool) error {
	for try := 1; ; try++ {
		m, err := p.migrations.live(ctx, pod.Namespace, pod.Annotations[v1alpha1.AnnotationMigrationName])
		if err != nil || m == nil || !h.Owns(m.Status.Reservation) {
			return err
		}
		if !decided && stagingdecide.Place(m, h.Pod, p.clock.Now()) != (stagingdecide.Placement{}) {
			return nil
		}
		_, err = p.migrations.reserve(ctx, m, nil)
		if !apierrors.IsConflict(err) || try == patientTries {
			return err
		}
	}
}
