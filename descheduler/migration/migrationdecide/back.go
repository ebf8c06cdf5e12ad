package migrationdecide

import (
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable/attempts"
)

// graceOfRestored is the grace period of a new pod that must go, in seconds: the smallest with
// which its kubelet still confirms that it is dead.
const graceOfRestored = 1

// goBack starts the rollback of a migration.
func goBack(o Observation, f fault, now time.Time) Step {
	m := o.Migration
	s := copyStatus(m)
	s.setProgress(o, now)
	if source := m.Status.Source; source != nil && source.Step == v1alpha1.SourceFailed && m.Status.Order == v1alpha1.OrderPrepare {
		s.set(v1alpha1.MigrationEligible, no, f.reason, f.message, now)
	}
	s.Phase = v1alpha1.MigrationRollingBack
	s.set(v1alpha1.MigrationFinished, no, f.reason, f.message, now)
	return s.write("roll back: " + f.reason + ": " + f.message)
}

// back removes what was made, and lets the old pod continue. The old container is not thawed
// before the new pod is gone.
func (c Config) back(o Observation, now time.Time) Step {
	m := o.Migration
	s := copyStatus(m)
	s.setProgress(o, now)
	if r := o.restored(); r != nil {
		if r.DeletionTimestamp == nil || r.DeletionGracePeriodSeconds != nil && *r.DeletionGracePeriodSeconds > graceOfRestored {
			return Step{Do: DeletePod, Why: "the new pod is deleted before the old one continues", Pod: r, GraceSeconds: graceOfRestored}
		}
		until := s.setHold(c.heldByNewPod(o, now), now)
		return waitFrozen(o, s, "wait until the new pod is gone", until, now)
	}
	switch m.Status.Order {
	case v1alpha1.OrderThaw:
		return c.thaw(o, s, now)
	case v1alpha1.OrderClean:
		return c.backEnd(o, s, now)
	}
	s.Order = v1alpha1.OrderThaw
	return s.write("the new pod is gone: resume the old one")
}

// thaw waits until the old container runs.
func (c Config) thaw(o Observation, s *status, now time.Time) Step {
	m := o.Migration
	source := m.Status.Source
	done := source != nil && (source.Step == v1alpha1.SourceThawed || source.Step == v1alpha1.SourceCleaned) ||
		dead(o.Source) || o.Nodes[m.Status.Plan.SourceNode] == nil
	var until time.Time
	if !done && !everFrozen(m) {
		// It runs in any case, so the wait has a timeout.
		until = condition(&m.Status, v1alpha1.MigrationFinished).LastTransitionTime.Add(c.CleanPatience)
		done = !now.Before(until)
	}
	if !done {
		if everFrozen(m) {
			until = s.setHold(c.heldByAgent(o, now), now)
		}
		return waitFrozen(o, s, "wait until the pod runs", until, now)
	}
	s.Order = v1alpha1.OrderClean
	s.set(v1alpha1.MigrationCleanedUp, no, v1alpha1.MigrationReasonInProgress, "the agents remove leftovers", now)
	return s.write("the pod continues: clean up")
}

// everFrozen reports whether the container may have been frozen.
func everFrozen(m *v1alpha1.Migration) bool { return m.Status.Commit != "" }

// backEnd ends a migration that was rolled back.
func (c Config) backEnd(o Observation, s *status, now time.Time) Step {
	m := o.Migration
	if done, until := c.cleaned(o, now); !done {
		return s.writeOr(m, "wait for the agents to clean up", until)
	}
	s.setCleanedUp(o, now)
	s.setTotal(o, now)
	s.Phase = v1alpha1.MigrationRolledBack
	if e := condition(&m.Status, v1alpha1.MigrationEligible); e != nil && e.Status == no {
		s.Phase = v1alpha1.MigrationRefused
	}
	why := condition(&m.Status, v1alpha1.MigrationFinished)
	message := why.Reason + ": " + why.Message
	if frozen := s.Measured; frozen != nil && frozen.FrozenSeconds != "" {
		message += "; the pod was frozen for " + frozen.FrozenSeconds + " s"
	}
	s.set(v1alpha1.MigrationFinished, yes, string(s.Phase), message, now)
	return o.remember(why.Reason, orRelease(o, s.write("the migration is rolled back")), now)
}

// remember returns the write that records a failed migration on the old pod, or end if there is
// nothing to write. A pod that is about to end is not moved again, and a cancelled migration has
// not failed.
func (o *Observation) remember(reason string, end Step, now time.Time) Step {
	if reason == v1alpha1.MigrationReasonCancelled || dead(o.Source) || o.Source.DeletionTimestamp != nil {
		return end
	}
	if noted := attempts.Note(o.Source, o.Migration, now); noted != nil {
		return Step{Do: PatchPod, Why: "record the failed migration on the pod", Pod: noted}
	}
	return end
}
