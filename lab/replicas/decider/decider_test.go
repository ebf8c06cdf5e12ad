package decider

import (
	"testing"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/lab/replicas/catalogue"
	"supercargo.dev/supercargo/lab/replicas/loop"
)

func TestLawsOfTheAPIArePoliciesAndOthersAreBare(t *testing.T) {
	for _, name := range catalogue.Names() {
		made, err := New(name, catalogue.Options{Goal: law.DefaultGoal(), PeakRate: 100})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, ships := laws[name]
		if _, policy := made.(loop.Policy); policy != ships || made.Name() != name {
			t.Errorf("%s is %T of the name %s, want a policy: %v", name, made, made.Name(), ships)
		}
	}
}

func TestAPolicyHasItsGoalAndTheDefaultsOfItsDefinition(t *testing.T) {
	goal := law.DefaultGoal()
	goal.Min, goal.Max, goal.SLO, goal.Interval = 2, 77, 150*time.Millisecond, 100*time.Second
	p, err := Policy(v1alpha1.LawPredictive, catalogue.Options{Goal: goal})
	if err != nil {
		t.Fatal(err)
	}
	s := &p.Spec
	if s.MinReplicas != 2 || s.MaxReplicas != 77 || s.SLO.ResponseTime.Duration != 150*time.Millisecond || s.Law.Interval.Duration != 100*time.Second ||
		s.Service.RatePerReplica.AsApproximateFloat64() != goal.Model.MuB {
		t.Errorf("%+v, want the goal", s)
	}
	if s.Mode != v1alpha1.ReplicasAct || s.Metrics.MaxAge.Duration != time.Minute {
		t.Errorf("mode %s and greatest age %v, want the defaults of the API", s.Mode, s.Metrics.MaxAge.Duration)
	}
}

func TestWhatIsRefusedIsNoDecider(t *testing.T) {
	if _, err := New("teapot", catalogue.Options{Goal: law.DefaultGoal()}); err == nil {
		t.Error("a law of no name is made")
	}
	goal := law.DefaultGoal()
	goal.Model.MuB = 0
	if _, err := New("predictive", catalogue.Options{Goal: goal}); err == nil {
		t.Error("a policy for replicas that serve nothing is made")
	}
}
