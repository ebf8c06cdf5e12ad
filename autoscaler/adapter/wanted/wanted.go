// Package wanted gives the replicas that ReplicaPolicies want as an external metric, by
// which a stock HorizontalPodAutoscaler follows them, within its own limits and behaviour.
package wanted

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/query"
	"supercargo.dev/supercargo/autoscaler/replica/decide"
)

// The labels of the metric.
const (
	NamespaceLabel = "namespace"
	NameLabel      = "name" // of the ReplicaPolicy
)

// DefaultStaleAfter is three times as long as a controller that runs leaves a status as it
// is, beside the time that its law takes between two looks.
const DefaultStaleAfter = 3 * time.Minute

// Source reads ReplicaPolicies. Their statuses come from a cache that watches, so that a
// question costs the API server nothing.
type Source struct {
	Reader client.Reader
	Clock  clock.PassiveClock
	// StaleAfter is how old the last observation of a policy may be, beside the longest time
	// between two looks of its law.
	StaleAfter time.Duration
}

// Values returns how many replicas the policies of a namespace want whose labels the
// selector takes. Where ReplicaPolicies are not installed there are none.
func (s *Source) Values(ctx context.Context, namespace string, selector kubelabels.Selector) ([]query.Sample, error) {
	var policies v1alpha1.ReplicaPolicyList
	if err := s.Reader.List(ctx, &policies, client.InNamespace(namespace)); meta.IsNoMatchError(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list ReplicaPolicies in %s: %w", namespace, err)
	}
	var found []query.Sample
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

// longestWait is the longest time between two looks of a policy's law; 0 for a policy of which
// the spec is invalid, which is not checked.
func longestWait(p *v1alpha1.ReplicaPolicy) time.Duration {
	sound, err := decide.New(p.Namespace, &p.Spec)
	if err != nil {
		return 0 // the autoscaler says so in its status
	}
	return sound.Longest
}

// current returns what a policy wants at the time now. It wants nothing if it does not
// publish, is on its way out or paused, has not looked yet, or should have looked again staleAfter ago:
// its controller may be gone, and what it wanted is no longer right. The autoscaler then
// keeps the replicas there are.
func current(p *v1alpha1.ReplicaPolicy, now time.Time, staleAfter time.Duration) (query.Sample, bool) {
	s := &p.Status
	if p.Spec.Mode != v1alpha1.ReplicasViaHPA || p.DeletionTimestamp != nil || s.WantedReplicas <= 0 ||
		s.LastObservation == nil || meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionPaused) {
		return query.Sample{}, false
	}
	age := now.Sub(s.LastObservation.Time.Time)
	if age > staleAfter && age > staleAfter+longestWait(p) {
		return query.Sample{}, false
	}
	return query.Sample{Value: float64(s.WantedReplicas), At: s.LastObservation.Time.Time}, true
}
