package migrationdecide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// faultOfRestored checks the new pod.
func (o *Observation) faultOfRestored(now time.Time) *fault {
	m, r := o.Migration, o.restored()
	reservation := m.Status.Reservation
	switch {
	case r == nil && o.Restored != nil:
		return &fault{v1alpha1.MigrationReasonNameTaken, "another pod already has the name " + o.Restored.Name + " of the new pod"}
	case r == nil && m.Status.Order == v1alpha1.OrderPrepare:
		return nil // not created yet
	case r == nil:
		return &fault{v1alpha1.MigrationReasonNewPodGone, "another client has deleted the new pod"}
	case !labelled(m, r):
		return &fault{v1alpha1.MigrationReasonPodChanged, "the new pod has lost the label " + v1alpha1.LabelMigration + ", by which the scheduler and the agents recognize it: exempt pods with that label from the webhook or policy that removes it"}
	case r.DeletionTimestamp != nil:
		return &fault{v1alpha1.MigrationReasonNewPodDeleted, "another client is deleting the new pod"}
	case r.Status.Phase == corev1.PodFailed:
		return &fault{v1alpha1.MigrationReasonRestoreFailed, "the new pod has failed: " + whyFailed(r, m.Status.Plan.Container)}
	case r.Spec.NodeName != "" && m.Status.Order == v1alpha1.OrderPrepare:
		return &fault{v1alpha1.MigrationReasonCheckpointStagingMissing, "scheduler " + r.Spec.SchedulerName + " bound the new pod before its checkpoint was staged: enable the plugin CheckpointStaging in its profile"}
	case r.Spec.NodeName != "" && reservation != nil && r.Spec.NodeName != reservation.Node:
		return &fault{v1alpha1.MigrationReasonBoundElsewhere, "the new pod was bound to node " + r.Spec.NodeName + " instead of node " + reservation.Node + ", which was reserved for its checkpoint"}
	}
	return o.faultOfStart(now)
}

// faultOfStart checks whether the new, bound pod can start. The old container is frozen
// meanwhile, so a persistent error causes a rollback before the deadline.
func (o *Observation) faultOfStart(now time.Time) *fault {
	why, by := o.startError()
	if why == "" || by.IsZero() || now.Before(by) {
		return nil
	}
	return &fault{v1alpha1.MigrationReasonRestoreFailed, "the new pod does not start: " + why}
}

const (
	// startPatience is how long the kubelet may fail to start the new pod's container. It retries
	// two or three times meanwhile.
	startPatience = 30 * time.Second
	// sandboxPatience is how long after the binding of the new pod its volumes and its network
	// may take. The size of the checkpoint does not matter for that.
	sandboxPatience = 2 * time.Minute
)

// startError returns why the new, bound pod does not start, and until when that may be resolved;
// zero if its start was not recorded yet. It returns "" if nothing is wrong: a checkpoint that is
// being restored has no error, whatever its size.
func (o *Observation) startError() (why string, by time.Time) {
	r := o.restored()
	if r == nil || r.Spec.NodeName == "" || r.Status.Phase != corev1.PodPending {
		return "", time.Time{}
	}
	if s := containerStatus(r, o.Migration.Status.Plan.Container); s != nil && s.State.Waiting != nil && !slices.Contains(usual, s.State.Waiting.Reason) {
		if c := condition(&o.Migration.Status, v1alpha1.MigrationVerified); c != nil && c.Status == no {
			by = c.LastTransitionTime.Add(startPatience)
		}
		return strings.TrimSpace(s.State.Waiting.Reason + " " + s.State.Waiting.Message), by
	}
	bound, sandbox := podCondition(r, corev1.PodScheduled), podCondition(r, corev1.PodReadyToStartContainers)
	if bound != nil && bound.Status == corev1.ConditionTrue && sandbox != nil && sandbox.Status == corev1.ConditionFalse {
		return "its volumes are not mounted or its network is not ready: see the Events of the pod", bound.LastTransitionTime.Add(sandboxPatience)
	}
	return "", time.Time{}
}

// usual are the waiting reasons of a container that starts normally.
var usual = []string{"", "ContainerCreating", "PodInitializing"}

// setStart sets the condition for a new pod that does not start, and returns until when that may
// be resolved; zero if nothing is wrong.
func (s *status) setStart(o Observation, now time.Time) time.Time {
	why, by := o.startError()
	if why == "" || !by.IsZero() {
		return by
	}
	s.set(v1alpha1.MigrationVerified, no, v1alpha1.MigrationReasonStartError, "the new pod does not start: "+why, now)
	return now.Add(startPatience)
}

func whyFailed(pod *corev1.Pod, container string) string {
	if s := containerStatus(pod, container); s != nil {
		if t := s.State.Terminated; t != nil {
			return fmt.Sprintf("exit code %d, %s %s", t.ExitCode, t.Reason, t.Message)
		}
		if w := s.State.Waiting; w != nil {
			return w.Reason + " " + w.Message
		}
	}
	return pod.Status.Reason + " " + pod.Status.Message
}
