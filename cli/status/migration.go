package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// mostMigrations is the maximum number of Migrations.
const mostMigrations = 100

// Migration is a Migration of a pod.
type Migration struct {
	Name  string `json:"name"` // namespace/name
	Pod   string `json:"pod"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	Phase string `json:"phase"`
	// Ended reports whether it has ended, and Failed whether it ended without moving the pod.
	Ended  bool `json:"ended,omitempty"`
	Failed bool `json:"failed,omitempty"`
	// Message is the latest message.
	Message string `json:"message,omitempty"`
	Steps   []Step `json:"steps"`
	// Created and Deadline are times in seconds since 1970; 0 if there is none.
	Created  int64 `json:"created"`
	Deadline int64 `json:"deadline,omitempty"`
	// Measured says how long the pod was frozen, how long it took, and the size of its checkpoint; empty if that is not
	// measured.
	Measured string `json:"measured,omitempty"`
}

// Step is a step of a migration.
type Step struct {
	Name string `json:"name"`
	// State is Done, Skipped, Now, Failed or To come.
	State string `json:"state"`
	// At is when the state was reached, in seconds since 1970; 0 for a step to come.
	At int64 `json:"at,omitempty"`
}

// The states of a step.
const (
	stepDone    = "Done"
	stepSkipped = "Skipped"
	stepNow     = "Now"
	stepFailed  = "Failed"
	stepToCome  = "To come"
)

// Steps are the conditions of a migration, in the order of the steps. The last one says how it ended.
var Steps = []string{
	v1alpha1.MigrationEligible, v1alpha1.MigrationReserved, v1alpha1.MigrationFrozen, v1alpha1.MigrationShipped,
	v1alpha1.MigrationVerified, v1alpha1.MigrationHandedOver, v1alpha1.MigrationCleanedUp, v1alpha1.MigrationFinished,
}

// steps are those that the page shows.
var steps = Steps[:len(Steps)-1]

// migrations returns the running migrations, then the ended ones, the latest first in each group, at
// most 100.
func migrations(all []*v1alpha1.Migration) []Migration {
	shown := make([]Migration, 0, len(all))
	for _, o := range all {
		shown = append(shown, migrationOf(o))
	}
	slices.SortFunc(shown, func(a, b Migration) int {
		switch {
		case !a.Ended && b.Ended:
			return -1
		case a.Ended && !b.Ended:
			return 1
		}
		return cmp.Or(cmp.Compare(b.Created, a.Created), cmp.Compare(a.Name, b.Name))
	})
	return shown[:min(len(shown), mostMigrations)]
}

func migrationOf(o *v1alpha1.Migration) Migration {
	s := &o.Status
	m := Migration{
		Name: o.Namespace + "/" + o.Name, Pod: o.Namespace + "/" + o.Spec.PodName, To: o.Spec.TargetNode,
		Phase: cmp.Or(string(s.Phase), string(v1alpha1.MigrationPending)), Created: seconds(o.CreationTimestamp.Time),
	}
	m.Ended, m.Failed = Ended(s.Phase)
	if s.Plan != nil {
		m.From, m.Deadline = s.Plan.SourceNode, seconds(s.Plan.DeadlineAt.Time)
	}
	if s.Reservation != nil {
		m.To = s.Reservation.Node
	}
	if t := s.Measured; t != nil {
		m.Measured = measured(t)
	}
	m.Steps, m.Message = stepsOf(s.Conditions, m.Ended), Latest(s.Conditions)
	return m
}

// measured returns the measurements as a line.
func measured(t *v1alpha1.MigrationMeasured) string {
	var parts []string
	if t.FrozenSeconds != "" {
		parts = append(parts, fmt.Sprintf("frozen for %s s", t.FrozenSeconds))
	}
	if t.TotalSeconds != "" {
		parts = append(parts, fmt.Sprintf("%s s in all", t.TotalSeconds))
	}
	if t.CheckpointBytes > 0 {
		parts = append(parts, byteCount(t.CheckpointBytes))
	}
	return strings.Join(parts, ", ")
}

// stepsOf returns the state of each step. The step after the last done one is the current one. A step that is not done
// although a later one is, such as freezing for a restart, was skipped.
func stepsOf(conditions []metav1.Condition, ended bool) []Step {
	last := -1
	for i, name := range steps {
		if meta.IsStatusConditionTrue(conditions, name) {
			last = i
		}
	}
	all := make([]Step, 0, len(steps))
	for i, name := range steps {
		step := Step{Name: name, State: stepToCome}
		c := meta.FindStatusCondition(conditions, name)
		switch {
		case c != nil && c.Status == metav1.ConditionTrue:
			step.State = stepDone
		case i < last:
			step.State = stepSkipped
		case ended && i == last+1:
			step.State = stepFailed
		case !ended && i == last+1:
			step.State = stepNow
		}
		if c != nil && step.State != stepToCome {
			step.At = seconds(c.LastTransitionTime.Time)
		}
		all = append(all, step)
	}
	return all
}

// Latest returns the message of the condition that changed last; ties go to the later step.
func Latest(conditions []metav1.Condition) string {
	var last metav1.Condition
	for _, name := range Steps {
		if c := meta.FindStatusCondition(conditions, name); c != nil && !c.LastTransitionTime.Before(&last.LastTransitionTime) {
			last = *c
		}
	}
	return last.Message
}

// Ended reports whether a migration in a phase has ended, and whether without moving the pod.
func Ended(phase v1alpha1.MigrationPhase) (ended, failed bool) {
	failed = phase == v1alpha1.MigrationRolledBack || phase == v1alpha1.MigrationRefused
	return failed || phase == v1alpha1.MigrationSucceeded, failed
}
