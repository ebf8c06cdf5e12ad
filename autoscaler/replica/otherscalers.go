package replica

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
)

// otherScalers finds the other autoscalers of the target.
func (e *evaluation) otherScalers(ctx context.Context) (*replicadecide.OtherScalers, error) {
	in, target := client.InNamespace(e.key.Namespace), policyTarget(e.object)
	var policies v1alpha1.ReplicaPolicyList
	if err := e.Client.List(ctx, &policies, in, client.MatchingFields{policiesByTarget: target}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the ReplicaPolicies of %s: %w", target, err)
	}
	s := &replicadecide.OtherScalers{}
	slices.SortFunc(policies.Items, seniority)
	for i := range policies.Items {
		p := &policies.Items[i]
		if p.UID == e.object.UID {
			break
		}
		if p.Spec.Mode != v1alpha1.ReplicasObserve && p.DeletionTimestamp.IsZero() {
			s.Older = p.Name
			break
		}
	}
	var scalers autoscalingv2.HorizontalPodAutoscalerList
	if err := e.Client.List(ctx, &scalers, in, client.MatchingFields{autoscalersByTarget: target}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the HorizontalPodAutoscalers of %s: %w", target, err)
	}
	slices.SortFunc(scalers.Items, func(a, b autoscalingv2.HorizontalPodAutoscaler) int { return cmp.Compare(a.Name, b.Name) })
	for i := range scalers.Items {
		h := &scalers.Items[i]
		s.Autoscalers = append(s.Autoscalers, replicadecide.Autoscaler{Name: h.Name, Follows: follows(h, e.key.Name), Tolerance: tolerance(h)})
	}
	return s, nil
}

// seniority orders policies by precedence for a target: by creation time, ties by name.
func seniority(a, b v1alpha1.ReplicaPolicy) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// follows reports whether a HorizontalPodAutoscaler uses the metric that a policy publishes, and no other policy's: it adds
// up all series that its selector matches. The selector may have other labels besides the name of the policy, which depend
// on the adapter that serves the metric.
func follows(h *autoscalingv2.HorizontalPodAutoscaler, policy string) bool {
	return slices.ContainsFunc(h.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.External != nil && m.External.Metric.Name == replicadecide.DesiredMetric && selects(m.External.Metric.Selector, policy)
	})
}

// selects reports whether a selector of metrics selects those with the name of one policy.
func selects(selector *metav1.LabelSelector, policy string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false
	}
	value, found := parsed.RequiresExactMatch("name")
	return found && value == policy
}

// usualTolerance is the tolerance of a HorizontalPodAutoscaler that states none, unless the cluster's controller manager
// has another.
const usualTolerance = 0.1

// tolerance returns by which share a HorizontalPodAutoscaler may be below a metric without following it.
func tolerance(h *autoscalingv2.HorizontalPodAutoscaler) float64 {
	if b := h.Spec.Behavior; b != nil && b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
		return b.ScaleUp.Tolerance.AsApproximateFloat64()
	}
	return usualTolerance
}
