// Package desired serves the desired replicas of ReplicaPolicies as an external metric, which a
// stock HorizontalPodAutoscaler follows within its own limits and behaviour.
package desired

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// The labels of the metric.
const (
	NamespaceLabel = "namespace"
	NameLabel      = "name" // of the ReplicaPolicy
)

// DefaultStaleAfter is three times the longest interval between status updates of a running
// controller. The longest interval of the law is added to it.
const DefaultStaleAfter = 3 * time.Minute

// Source reads ReplicaPolicies. Their statuses come from a cache that watches, so a query
// costs no API request.
type Source struct {
	Reader client.Reader
	Clock  clock.PassiveClock
	// StaleAfter plus the longest interval of its law is the maximum age of the last
	// observation of a policy.
	StaleAfter time.Duration
}

// Values returns the desired replicas of the policies of a namespace whose labels match the
// selector. If ReplicaPolicies are not installed it returns none.
func (s *Source) Values(ctx context.Context, namespace string, selector kubelabels.Selector) ([]promql.Sample, error) {
	var policies v1alpha1.ReplicaPolicyList
	if err := s.Reader.List(ctx, &policies, client.InNamespace(namespace)); meta.IsNoMatchError(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list ReplicaPolicies in %s: %w", namespace, err)
	}
	var found []promql.Sample
	for i := range policies.Items {
		p := &policies.Items[i]
		labels := map[string]string{NamespaceLabel: p.Namespace, NameLabel: p.Name}
		if !selector.Matches(kubelabels.Set(labels)) {
			continue
		}
		if sample, ok := current(p, s.Clock.Now(), s.StaleAfter); ok {
			sample.Labels = labels
			found = append(found, sample)
		}
	}
	return found, nil
}

// longestWait returns the longest interval of a policy's law; 0 if the spec is invalid.
func longestWait(p *v1alpha1.ReplicaPolicy) time.Duration {
	sound, err := replicadecide.New(p.Namespace, &p.Spec)
	if err != nil {
		return 0 // the autoscaler reports this in the status
	}
	return sound.Longest
}

// current returns what a policy wants at the time now. It returns false if the policy does
// not publish, is being deleted, is paused, is in conflict with another autoscaler, has no observation, or should have been observed
// staleAfter ago: its controller may be gone, and its last value out of date. The
// HorizontalPodAutoscaler then keeps the current replicas.
func current(p *v1alpha1.ReplicaPolicy, now time.Time, staleAfter time.Duration) (promql.Sample, bool) {
	s := &p.Status
	if p.Spec.Mode != v1alpha1.ReplicasViaHPA || p.DeletionTimestamp != nil || s.DesiredReplicas <= 0 ||
		s.LastObservation == nil || meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionPaused) || meta.IsStatusConditionTrue(s.Conditions, v1alpha1.PolicyConflict) {
		return promql.Sample{}, false
	}
	age := now.Sub(s.LastObservation.Time.Time)
	if age > staleAfter && age > staleAfter+longestWait(p) {
		return promql.Sample{}, false
	}
	return promql.Sample{Value: float64(s.DesiredReplicas), At: s.LastObservation.Time.Time}, true
}
