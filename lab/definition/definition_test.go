package definition

import (
	"testing"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func TestAnObjectIsCompletedWithTheDefaultsOfItsDefinition(t *testing.T) {
	var pool v1alpha1.WorkerPool
	stated := map[string]any{"spec": map[string]any{"manager": map[string]any{"timeout": "3s"}, "worker": map[string]any{}, "limits": map[string]any{"max": int64(7)}}}
	if err := Complete("workerpools", stated, &pool); err != nil {
		t.Fatal(err)
	}
	s := &pool.Spec
	if s.Manager.Timeout.Duration != 3*time.Second || s.Limits.Max != 7 {
		t.Errorf("manager %+v and limits %+v, want what was stated", s.Manager, s.Limits)
	}
	if s.Scaling.Interval.Duration != 10*time.Second || s.Scaling.Law != v1alpha1.WorkerLawSupercargo || s.Worker.IdleTimeout.Duration != 30*time.Second || s.Mode != v1alpha1.WorkerPoolAct {
		t.Errorf("scaling %+v, worker %+v and mode %s, want the defaults of the API type", s.Scaling, s.Worker, s.Mode)
	}
}

func TestWhatCannotBeCompletedIsAnError(t *testing.T) {
	var pool v1alpha1.WorkerPool
	if err := Complete("teapots", map[string]any{}, &pool); err == nil {
		t.Error("a kind that does not exist is completed")
	}
	if err := Complete("workerpools", map[string]any{"spec": "none"}, &pool); err == nil {
		t.Error("a spec that is text is completed")
	}
}
