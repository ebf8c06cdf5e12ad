package replica

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
)

func TestAPausedPolicySaysHowManyReplicasItWantsAndScalesWhenItIsResumed(t *testing.T) {
	t.Parallel()
	b := newBench(t, "paused")
	b.deployment("web", 2)
	b.policy("web")
	resume := b.Site.Pause(t, b.Space, "an incident")
	b.autoscale(func(o *app.Options) { o.PauseNamespace = b.Space })
	b.Eventually("it is said what is wanted", func() string {
		if s := b.get("web").Status; s.LastDecision == nil || s.LastDecision.Mode != v1alpha1.ReplicasObserve || s.DesiredReplicas < 11 {
			return "not yet"
		}
		return ""
	})
	if c := b.condition("web", v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPausedByConfigMap); !strings.Contains(c.Message, "an incident") {
		t.Errorf("condition Paused says %q", c.Message)
	}
	b.HasEvent("ReplicaPolicy", "web", v1alpha1.ConditionPaused, "an incident")
	var d appsv1.Deployment
	if err := b.Get(t.Context(), b.Key("web"), &d); err != nil || *d.Spec.Replicas != 2 {
		t.Errorf("the Deployment has %d replicas, want the 2 that it had: %v", *d.Spec.Replicas, err)
	}

	resume()
	b.becomes(11, 20)
	b.HasEvent("ReplicaPolicy", "web", v1alpha1.ReasonResumed, "no longer paused")
	b.Eventually("condition Paused is gone", func() string {
		if meta.FindStatusCondition(b.get("web").Status.Conditions, v1alpha1.ConditionPaused) != nil {
			return "there"
		}
		return ""
	})
}
