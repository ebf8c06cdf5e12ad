// Package budget claims disruptions from PodDisruptionBudgets, with the rules and fields of
// Kubernetes' eviction API. A claim for a pod decrements status.disruptionsAllowed and adds the
// pod to status.disruptedPods, under the resourceVersion of the budget. So evictions by others
// and migrations share one budget.
//
// The disruption controller removes the entry of a pod when the pod is gone, or when the entry is
// older than [Lasts]; until then it does not count the pod as healthy. It recounts after each
// change, so releasing a claim only means removing the entry.
//
// Functions here write nothing: they return the budget to write.
package budget

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// Lasts is how long a claim counts while its pod exists. It is a constant of the disruption
	// controller.
	Lasts = 2 * time.Minute
	// renewal is the age from which a claim that is still needed is renewed.
	renewal = 30 * time.Second
	// mostNotes is the eviction API's limit of entries in status.disruptedPods.
	mostNotes = 2000
)

// Of returns the budgets that select a pod, by name. A budget with an invalid selector selects no
// pod, as in the eviction API.
func Of(all []policyv1.PodDisruptionBudget, pod *corev1.Pod) (found []*policyv1.PodDisruptionBudget) {
	for i := range all {
		b := &all[i]
		if b.Namespace != pod.Namespace {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, b)
		}
	}
	slices.SortFunc(found, func(a, b *policyv1.PodDisruptionBudget) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// Answer is a budget's answer to one more disruption.
type Answer struct {
	// Write is the budget to write; nil for none.
	Write *policyv1.PodDisruptionBudget
	// Refused is the reason for a refusal, in the words of the eviction API; empty if allowed.
	Refused string
	// Forbidden means that waiting does not help.
	Forbidden bool
	// Wait is how long to wait before the next try, if known; zero if not.
	Wait time.Duration
}

// Claim claims the disruption of a pod. It claims nothing if the pod has a claim, or is unhealthy
// and the budget allows the eviction of such pods.
func Claim(b *policyv1.PodDisruptionBudget, pod *corev1.Pod, now time.Time) Answer {
	if at, is := claimed(b, pod, now); is {
		return renew(b, pod.Name, at, now)
	}
	if goesUnclaimed(b, pod) {
		return Answer{}
	}
	switch s := &b.Status; refusal(b) {
	case unobserved:
		return Answer{Refused: fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name), Wait: 10 * time.Second}
	case negative:
		return Answer{Refused: fmt.Sprintf("The disruption budget %s allows a negative number of disruptions.", b.Name), Forbidden: true}
	case overfull:
		return Answer{Refused: fmt.Sprintf("The disruption budget %s has too many evictions that are not confirmed.", b.Name), Forbidden: true}
	case spent:
		return Answer{Refused: fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, s.DesiredHealthy, s.CurrentHealthy)}
	}
	to := b.DeepCopy()
	to.Status.DisruptionsAllowed--
	if to.Status.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&to.Status.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
			ObservedGeneration: to.Status.ObservedGeneration, LastTransitionTime: metav1.NewTime(now),
		})
	}
	note(to, pod.Name, now)
	return Answer{Write: to}
}

// Refuses reports whether a budget that selects the pod refuses its disruption now, as [Claim] and
// the eviction API do.
func Refuses(b *policyv1.PodDisruptionBudget, pod *corev1.Pod, now time.Time) bool {
	if refusal(b) == none || Ignores(pod) || goesUnclaimed(b, pod) {
		return false
	}
	_, is := claimed(b, pod, now)
	return !is
}

// claimed returns when the disruption of the pod was claimed, and whether that claim counts.
func claimed(b *policyv1.PodDisruptionBudget, pod *corev1.Pod, now time.Time) (at time.Time, is bool) {
	noted, is := b.Status.DisruptedPods[pod.Name]
	return noted.Time, is && now.Before(noted.Add(Lasts))
}

// goesUnclaimed reports whether the pod needs no claim: it is unhealthy, and the budget allows the
// eviction of such pods.
func goesUnclaimed(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	return !healthy(pod) && letsUnhealthyGo(b)
}

// refused is why a budget refuses the disruption of pods that need a claim and have none.
type refused int

const (
	none refused = iota
	unobserved
	negative
	overfull
	spent
)

func refusal(b *policyv1.PodDisruptionBudget) refused {
	switch s := &b.Status; {
	case s.ObservedGeneration < b.Generation:
		return unobserved
	case s.DisruptionsAllowed < 0:
		return negative
	case len(s.DisruptedPods) > mostNotes:
		return overfull
	case s.DisruptionsAllowed == 0:
		return spent
	}
	return none
}

// renew renews an existing claim. It is not counted again.
func renew(b *policyv1.PodDisruptionBudget, name string, at, now time.Time) Answer {
	if now.Before(at.Add(renewal)) {
		return Answer{}
	}
	to := b.DeepCopy()
	note(to, name, now)
	return Answer{Write: to}
}

func note(b *policyv1.PodDisruptionBudget, name string, now time.Time) {
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	b.Status.DisruptedPods[name] = metav1.NewTime(now)
}

// Keep keeps the claim of a pod that is disrupted already. It renews a claim that is about to
// lapse. It makes a lapsed claim again even if the budget allows no disruption by now, so that
// the budget allows no other in addition. If there is nothing to write, it returns when that is
// due; zero for never. An unhealthy pod without a claim needs none, because no budget counts it.
func Keep(b *policyv1.PodDisruptionBudget, pod *corev1.Pod, now time.Time) (write *policyv1.PodDisruptionBudget, due time.Time) {
	at, noted := b.Status.DisruptedPods[pod.Name]
	if due = at.Add(renewal); noted && now.Before(due) {
		return nil, due
	}
	if !noted && !healthy(pod) {
		return nil, time.Time{}
	}
	to := b.DeepCopy()
	if !noted && to.Status.DisruptionsAllowed > 0 {
		to.Status.DisruptionsAllowed--
	}
	note(to, pod.Name, now)
	return to, time.Time{}
}

// Release returns a budget without the claim of a pod; nil if it has no claim.
func Release(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) *policyv1.PodDisruptionBudget {
	if _, ok := b.Status.DisruptedPods[pod.Name]; !ok {
		return nil
	}
	to := b.DeepCopy()
	delete(to.Status.DisruptedPods, pod.Name)
	return to
}

// Ignores reports whether a pod may be evicted whatever its budgets say, because they do not
// count it.
func Ignores(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending:
		return true
	}
	return pod.DeletionTimestamp != nil
}

// healthy reports whether budgets count a pod as healthy.
func healthy(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// letsUnhealthyGo reports whether a budget allows the eviction of an unhealthy pod without a
// claim.
func letsUnhealthyGo(b *policyv1.PodDisruptionBudget) bool {
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.DesiredHealthy > 0 && b.Status.CurrentHealthy >= b.Status.DesiredHealthy
}
