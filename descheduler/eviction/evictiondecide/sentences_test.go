package evictiondecide

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// TestEachSentenceOfAnEvictionIsSaidWhereItIsTrueAndNotWhereItIsNot: the API server may still refuse an eviction that is not
// refused here, so no sentence says that a pod is evicted.
func TestEachSentenceOfAnEvictionIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	says := func(c Config, changes ...func(*Observation)) string {
		o := seen()
		both(changes...)(&o)
		a := Reply(c, o, now)
		if a.Status != nil {
			return a.Status.Message
		}
		return a.Warning
	}
	keep := config
	keep.AfterFailure = Keep
	twice := both(migration("evict-uid-1", v1alpha1.MigrationRolledBack), migration("evict-uid-2", v1alpha1.MigrationRolledBack))
	unexplained := both(twice, func(o *Observation) { o.Migrations[1].Status.Conditions[0].Message = "" })
	arriving := both(migration("m", "", func(m *v1alpha1.Migration) { m.Spec.PodName = "old" }), pod(func(p *corev1.Pod) { p.Labels[v1alpha1.LabelMigration] = "of-m" }))
	refused := func(o *Observation) {
		o.Verdict.Refusals = []movable.Refusal{{Reason: "EmptyDirUnsupported", Message: "m"}}
	}
	unready := func(o *Observation) { o.Verdict.Refusals = []movable.Refusal{{Reason: "NodeNotReady", Message: "m"}} }
	sentences.Check(t, []string{"decide.go"}, []sentences.Case{
		{"Eviction triggered evacuation", says(config), says(config, refused)},
		{"%s: Migration %s moves pod %s to another node", says(config, migration("m", "")), says(config, arriving)},
		{"Migration %s is moving pod %s to this node: the pod can be evicted once it has ended", says(config, arriving), says(config, migration("m", ""))},
		{"pod %s loses its state if it is evicted: it cannot be moved: %s: %s", says(config, refused), says(config, twice)},
		{"pod %s would lose its state if it were evicted, and cannot be moved yet: %s: %s; to end it anyway, delete it", says(config, unready), says(config, refused)},
		{"pod %s loses its state if it is evicted, because it could not be moved: %s", says(config, twice), says(keep, twice)},
		{"pod %s could not be moved, and --eviction-after-failure=Keep refuses its eviction: %s", says(keep, twice), says(config, twice)},
		{"Migration %s has ended: %s", says(config, twice), says(config, migration("evict-uid-1", v1alpha1.MigrationRolledBack))},
		{"its phase is ", says(config, unexplained), says(config, twice)},
		{"Cannot evict pod as it would violate the pod's disruption budget.", says(config, allows("b", 0)), says(config, allows("b", 1))},
	}, map[string]string{"%s of the pod %s failed": "TestFailuresCountThoughTheirMigrationsAreGone has it, with the Migrations gone"})
}
