package migrationdecide

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/text/clip"
	"supercargo.dev/supercargo/internal/text/plural"
)

const (
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unknown = metav1.ConditionUnknown
)

// longest is the maximum length of a condition's message. The API's limit is eight times as
// large.
const longest = 4096

// status is a copy of the status that is being changed.
type status struct {
	*v1alpha1.MigrationStatus
	generation int64
}

func copyStatus(m *v1alpha1.Migration) *status {
	s := &status{m.Status.DeepCopy(), m.Generation}
	s.ObservedGeneration = m.Generation
	s.HeldBy = "" // unless setHold finds that it still is
	return s
}

func condition(s *v1alpha1.MigrationStatus, kind string) *metav1.Condition {
	return meta.FindStatusCondition(s.Conditions, kind)
}

// set sets a condition. Its time is that of the last change of its value.
func (s *status) set(kind string, value metav1.ConditionStatus, reason, message string, now time.Time) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: clip.Bytes(message, longest), ObservedGeneration: s.generation, LastTransitionTime: metav1.NewTime(now),
	})
}

// setHold sets what a migration waits for, if there is something to report, and returns when to decide again.
func (s *status) setHold(h hold, now time.Time) time.Time {
	if h.by != "" {
		s.HeldBy = h.by
		s.set(h.kind, h.value, h.reason, h.message, now)
	}
	return h.until
}

// write returns the step that writes the status.
func (s *status) write(why string) Step {
	return Step{Do: WriteStatus, Why: why, Status: s.MigrationStatus}
}

// writeOr writes the status if it has changed, and waits otherwise.
func (s *status) writeOr(m *v1alpha1.Migration, why string, until time.Time) Step {
	if equality.Semantic.DeepEqual(&m.Status, s.MigrationStatus) {
		return wait(why, until)
	}
	return s.write(why)
}

func (s *status) measured() *v1alpha1.MigrationMeasured {
	if s.Measured == nil {
		s.Measured = &v1alpha1.MigrationMeasured{}
	}
	return s.Measured
}

// setProgress sets conditions and measurements from the agents' reports.
func (s *status) setProgress(o Observation, now time.Time) {
	source := s.Source
	if source == nil || source.FrozenAt == nil {
		return
	}
	m := s.measured()
	m.DumpSeconds, m.CheckpointBytes = source.DumpSeconds, source.DumpBytes
	m.ShipSeconds, m.ShippedBytes = source.ShipSeconds, source.ShipBytes
	if source.ThawedAt != nil && Back(o.Migration) {
		m.FrozenSeconds = seconds(source.ThawedAt.Sub(source.FrozenAt.Time))
		s.set(v1alpha1.MigrationFrozen, no, v1alpha1.MigrationReasonThawed, "the container was frozen for "+m.FrozenSeconds+" s", now)
		return
	}
	if c := condition(s.MigrationStatus, v1alpha1.MigrationFrozen); c == nil || c.Status == yes && o.Migration.Status.HeldBy == "" {
		s.setFrozen(now)
	}
	if staged(o) {
		s.set(v1alpha1.MigrationShipped, yes, v1alpha1.MigrationReasonStaged, fmt.Sprintf("%d bytes sent in %s s, %d attempts; %d bytes staged on node %s",
			source.ShipBytes, orZero(source.ShipSeconds), source.ShipTries, s.Target.StagedBytes, s.Target.Node), now)
	}
}

// setFrozen sets the condition for a container that its agent has frozen.
func (s *status) setFrozen(now time.Time) {
	text := "since " + s.Source.FrozenAt.UTC().Format("15:04:05.000 MST")
	if s.Source.DumpSeconds != "" {
		text += fmt.Sprintf("; %d bytes dumped in %s s", s.Source.DumpBytes, s.Source.DumpSeconds)
	}
	s.set(v1alpha1.MigrationFrozen, yes, v1alpha1.MigrationReasonFrozen, text, now)
}

// endHold sets the condition back for a migration that waits for the new pod no longer.
func (s *status) endHold(o Observation, now time.Time) {
	if o.Migration.Status.HeldBy != "" && s.Source != nil && s.Source.FrozenAt != nil {
		s.setFrozen(now)
	}
}

func orZero(number string) string {
	if number == "" {
		return "0"
	}
	return number
}

// setVerified sets the condition for a running new pod, and measures its start.
//
// Kubernetes reports the start of a container in whole seconds. It is taken to be at the end of
// that second, or now if that is earlier, but not before the checkpoint was staged. So the
// measured time without a running copy is never too short.
func (s *status) setVerified(o Observation, now time.Time) {
	pod, container := o.restored(), s.Plan.Container
	started := now
	if c := containerStatus(pod, container); c != nil {
		var at metav1.Time
		switch {
		case c.State.Running != nil:
			at = c.State.Running.StartedAt
		case c.State.Terminated != nil:
			at = c.State.Terminated.StartedAt
		}
		if !at.IsZero() {
			started = earlier(now, at.Add(time.Second))
		}
	}
	if stagedAt := s.Target.Time.Time; started.Before(stagedAt) {
		started = stagedAt
	}
	m := s.measured()
	m.RestoreSeconds = seconds(started.Sub(s.Target.Time.Time))
	if source := s.Source; source != nil && source.FrozenAt != nil {
		m.FrozenSeconds = seconds(started.Sub(source.FrozenAt.Time))
	}
	s.set(v1alpha1.MigrationVerified, yes, v1alpha1.MigrationReasonRunning, fmt.Sprintf("pod %s runs on node %s; restored in %s s", s.Plan.RestoredPod, pod.Spec.NodeName, m.RestoreSeconds), now)
}

// setTotal measures the total duration.
func (s *status) setTotal(o Observation, now time.Time) {
	s.measured().TotalSeconds = seconds(now.Sub(s.Plan.StartedAt.Time))
	if f := condition(s.MigrationStatus, v1alpha1.MigrationFrozen); f != nil && f.Status == yes {
		reason, message := v1alpha1.MigrationReasonEnded, "the old container is dead"
		if Back(o.Migration) {
			reason, message = v1alpha1.MigrationReasonSourceGone, "the old container is gone"
		} else if s.Measured.FrozenSeconds != "" {
			message = "no copy ran for " + s.Measured.FrozenSeconds + " s; " + message
		}
		s.set(v1alpha1.MigrationFrozen, no, reason, message, now)
	}
}

// setCleanedUp sets the condition for leftovers.
func (s *status) setCleanedUp(o Observation, now time.Time) {
	if left := dirty(o); len(left) > 0 {
		s.set(v1alpha1.MigrationCleanedUp, no, v1alpha1.MigrationReasonAgentsNotReporting, plural.Form(len(left),
			"the agent of "+left[0]+" has not reported that it has cleaned up", "the agents of "+strings.Join(left, " and ")+" have not reported that they have cleaned up"), now)
		return
	}
	s.set(v1alpha1.MigrationCleanedUp, yes, v1alpha1.MigrationReasonCleanedUp, "no leftovers remain on either node", now)
}

// summary describes a success in one line.
func (s *status) summary(o Observation) string {
	m := s.measured()
	node := ""
	if s.Reservation != nil {
		node = " on node " + s.Reservation.Node
	}
	return fmt.Sprintf("pod %s%s has taken over; no copy ran for %s s (dump %s s, ship %s s, restore %s s; %d bytes)",
		s.Plan.RestoredPod, node, orZero(m.FrozenSeconds), orZero(m.DumpSeconds), orZero(m.ShipSeconds), orZero(m.RestoreSeconds), m.CheckpointBytes)
}

// seconds formats a duration in seconds, at least 0, because the clocks of two nodes differ.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(max(0, d).Seconds(), 'f', 3, 64)
}
