package operator

import (
	"testing"

	"k8s.io/client-go/rest"
)

func TestOnlyAProgramThatIsElectedHasAFence(t *testing.T) {
	config := &rest.Config{}
	for name, o := range map[string]Options{"no election": {}, "dry run": {LeaderElection: true, DryRun: true}} {
		if o.Fence("autoscaler")(config) != config {
			t.Errorf("%s: it has one", name)
		}
	}
	o := Options{LeaderElection: true}
	if fenced := o.Fence("autoscaler")(config); fenced == config || fenced.WrapTransport == nil {
		t.Error("a program that is elected has none")
	}
	if config.WrapTransport != nil {
		t.Error("the configuration that was given has changed")
	}
}
