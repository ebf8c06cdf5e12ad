package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// Hold is one thing that keeps a pod on its node and that a user could change.
type Hold struct {
	// Kind describes the hold. Budget is the PodDisruptionBudget, if it is one.
	Kind, Budget string
	// Advice says what to change.
	Advice string
	// Ways are the methods by which the pod could leave now without this hold; none if something else holds it, too.
	Ways cluster.Ways
}

// Anything is the kind of the last hold of a pod: all others together.
const Anything = "anything that keeps pods on their nodes"

// lifts are the changes to a pod that remove a hold; lift reports whether the hold was present. The pod must own its
// annotations. Those with optOut only keep services on nodes from which services leave unless they opt out: elsewhere the
// pod has to opt in, and then none of them keeps it.
var lifts = []struct {
	kind, advice string
	optOut       bool
	lift         func(pod *corev1.Pod, now time.Time) bool
}{
	{"annotation " + annotationDoNotDisrupt, "remove the annotation, or give it a duration that the pod has run for", false, func(pod *corev1.Pod, now time.Time) bool {
		holds := undisrupted(pod, now) != ""
		delete(pod.Annotations, annotationDoNotDisrupt)
		return holds
	}},
	{"annotation " + annotationSafeToEvict + ": false", "remove the annotation", false, func(pod *corev1.Pod, _ time.Time) bool {
		value := pod.Annotations[annotationSafeToEvict]
		delete(pod.Annotations, annotationSafeToEvict)
		return value == "false"
	}},
	{"annotation " + v1alpha1.AnnotationMigration + ": never", "remove the annotation", false, func(pod *corev1.Pod, _ time.Time) bool {
		value := pod.Annotations[v1alpha1.AnnotationMigration]
		delete(pod.Annotations, v1alpha1.AnnotationMigration)
		return value == v1alpha1.MigrationNever
	}},
	{"no controller", "run it with a Deployment, a StatefulSet or a Job", false, func(pod *corev1.Pod, _ time.Time) bool {
		if metav1.GetControllerOfNoCopy(pod) != nil || pod.Annotations[v1alpha1.AnnotationMigration] == v1alpha1.MigrationCheckpoint {
			return false // a Migration moves bare pods with their state
		}
		pod.OwnerReferences = append(slices.Clone(pod.OwnerReferences), metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: pod.Name, Controller: new(true)})
		return true
	}},
	{"local storage", "annotation " + annotationLocalVolumes + " lists volumes that may be lost", true, func(pod *corev1.Pod, _ time.Time) bool {
		if localVolume(pod) == nil || optsIn(pod) {
			return false
		}
		names := make([]string, len(pod.Spec.Volumes))
		for i := range pod.Spec.Volumes {
			names[i] = pod.Spec.Volumes[i].Name
		}
		pod.Annotations[annotationLocalVolumes] = strings.Join(names, ",")
		return true
	}},
	{"batch pod that does not opt in to being moved", "annotation " + v1alpha1.AnnotationMigration + ": restart or checkpoint", false, func(pod *corev1.Pod, _ time.Time) bool {
		kind, _ := class.OfPod(pod)
		if kind != class.Batch || optsIn(pod) || pod.Annotations[v1alpha1.AnnotationMigration] != "" {
			return false
		}
		pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
		return true
	}},
}

// Holds returns the holds of a pod, one by one, then together. It returns none for a pod that may leave or cannot be
// planned for. Pods that belong on every node keep no node: callers do not ask about them.
func (v *View) Holds(pod *corev1.Pod) []Hold {
	if v.Exit(pod).Now().Without(cluster.Wait) != 0 || v.moving[pod.UID] || Restoring(pod) {
		return nil
	}
	var all []Hold
	leaves := func(v *View, pod *corev1.Pod) cluster.Ways { return v.Exit(pod).Now().Without(cluster.Wait) }
	for _, b := range v.refusing(pod) {
		all = append(all, Hold{
			Kind: "PodDisruptionBudget that allows no disruption", Budget: pod.Namespace + "/" + b.Name,
			Advice: budgetAdvice(b), Ways: leaves(v.lookingPast(b.Name), pod),
		})
	}
	if v.withOneBudget().Exit(pod).Budget != v.Exit(pod).Budget {
		all = append(all, Hold{
			Kind: "several PodDisruptionBudgets", Advice: "selectors by which one PodDisruptionBudget selects each pod: the API server refuses to evict others",
			Ways: leaves(v.withOneBudget(), pod),
		})
	}
	free := *pod // the pod without any of the holds
	optOut := v.servicesOn(pod) == v1alpha1.EvictServicesOptOut
	for _, l := range lifts {
		changed := annotated(pod)
		if (optOut || !l.optOut) && l.lift(&changed, v.now) {
			all = append(all, Hold{Kind: l.kind, Advice: l.advice, Ways: leaves(v, &changed)})
			free = annotated(&free)
			l.lift(&free, v.now)
		}
	}
	open := v.lookingPast("").withOneBudget()
	if optOut && pod.Namespace == metav1.NamespaceSystem && !optsIn(pod) && !v.unread["PodDisruptionBudgets"] && !budgeted(pod, v.Budgets) {
		all = append(all, Hold{
			Kind: fmt.Sprintf("namespace %s without a PodDisruptionBudget", metav1.NamespaceSystem), Advice: "a PodDisruptionBudget for it", Ways: leaves(v.withBudget(pod.Namespace), pod),
		})
		open = open.withBudget(pod.Namespace)
	}
	if len(all) > 0 {
		all = append(all, Hold{Kind: Anything, Advice: "remove all other obstacles to moving these pods", Ways: leaves(open, &free)})
	}
	return all
}

// lookingPast returns the view as if a PodDisruptionBudget allowed disruptions, or all of them if budget is empty.
func (v *View) lookingPast(budget string) *View {
	other := *v
	other.without = &budget
	return &other
}

// withOneBudget returns the view as if no two PodDisruptionBudgets selected the same pod.
func (v *View) withOneBudget() *View {
	other := *v
	other.oneBudget = true
	return &other
}

// withBudget returns the view as if the namespace had a PodDisruptionBudget for all its pods that allows disruptions.
func (v *View) withBudget(namespace string) *View {
	b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
	b.Spec.Selector, b.Status.DisruptionsAllowed = &metav1.LabelSelector{}, 1
	w, other := *v.World, *v
	w.Budgets = append(slices.Clone(w.Budgets), b)
	other.World = &w
	return &other
}

// annotated returns a copy of the pod that owns its annotations.
func annotated(pod *corev1.Pod) corev1.Pod {
	own := *pod
	if own.Annotations = maps.Clone(pod.Annotations); own.Annotations == nil {
		own.Annotations = map[string]string{}
	}
	return own
}
