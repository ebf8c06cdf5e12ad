package migration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// inFlight returns a migration in flight at a version of the API server; stuck if its agent is
// silent.
func inFlight(version string, stuck bool) v1alpha1.Migration {
	m := v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m", UID: "1", ResourceVersion: version}}
	m.Status.Plan = &v1alpha1.MigrationPlan{SourceNode: "n"}
	if stuck {
		m.Status.HeldBy = v1alpha1.HoldSourceAgent
	}
	return m
}

func TestTheNewerOfCacheAndLastWriteCounts(t *testing.T) {
	for name, test := range map[string]struct {
		written, cached v1alpha1.Migration
		stuck           bool
	}{
		"the cache does not know the write yet":              {inFlight("100", true), inFlight("99", false), true},
		"the cache knows the write":                          {inFlight("100", true), inFlight("100", true), true},
		"the cache knows of a write not yet answered":        {inFlight("99", false), inFlight("100", true), true},
		"an agent has reported since":                        {inFlight("99", true), inFlight("100", false), false},
		"versions that cannot be compared: what was written": {inFlight("x", true), inFlight("100", false), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := registry{}
			r.wrote(&test.written)
			flights := r.others([]v1alpha1.Migration{test.cached}, "")
			if len(flights) != 1 || flights[0].Stuck != test.stuck {
				t.Errorf("%+v; one flight is wanted, stuck: %t", flights, test.stuck)
			}
		})
	}
}

func TestAMigrationThatHasEndedIsNotInFlight(t *testing.T) {
	r := registry{}
	ended, before := inFlight("100", false), inFlight("99", false)
	ended.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MigrationFinished, Status: metav1.ConditionTrue}}
	r.wrote(&ended)
	if flights := r.others([]v1alpha1.Migration{before}, ""); len(flights) != 0 {
		t.Errorf("in flight: %+v", flights)
	}
	r.others(nil, "")
	if len(r.latest) != 0 {
		t.Errorf("what is gone is remembered: %v", r.latest)
	}
}
