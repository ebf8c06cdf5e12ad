package world

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/budget"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/surroundings"
)

// Annotations by which pods tell other autoscalers whether they may be evicted.
const (
	annotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// Exit is how a pod can leave its node.
type Exit struct {
	// Ways are the methods by which the pod can leave; if there are none, it stays.
	Ways cluster.Ways
	// Held is the reason why the pod may not be moved.
	Held string
	// Refusals are why the pod cannot be moved with its state, if that is why it may not be moved.
	Refusals []movable.Refusal
	// Budget says which PodDisruptionBudget currently forbids disrupting the pod; empty if none does.
	Budget string
}

// Now returns the methods by which the pod can leave now.
func (e Exit) Now() cluster.Ways {
	if e.Budget != "" {
		return e.Ways.Without(cluster.Migrate).Without(cluster.Evict)
	}
	return e.Ways
}

// Exit returns how a pod can leave its node in the current state of the cluster. A pod leaves by checkpoint if it
// requests that and can be moved (package movable). It leaves by eviction if it opts in to being restarted, or if it is
// a service and the owner of the node evicts services that do not opt out (see [View.EvictServices]). A batch pod with
// a known runtime may be waited for. Other pods are not disrupted, nor are pods that need more of a node than plans of
// moves consider.
func (v *View) Exit(pod *corev1.Pod) Exit {
	if v.moving[pod.UID] || Restoring(pod) {
		return Exit{Held: "it is being moved"}
	}
	var e Exit
	var ways []cluster.Method
	if v.endsByItself(pod) {
		ways = append(ways, cluster.Wait)
	}
	wanted, held, refusals := v.wanted(pod)
	if held == "" {
		held = v.pinned(pod)
	}
	e.Refusals = refusals
	if e.Held = held; held == "" {
		ways = append(ways, wanted)
		e.Budget = v.budgetHolds(pod, wanted == cluster.Evict)
	}
	e.Ways = cluster.WaysOf(ways...)
	return e
}

// wanted returns the method by which the pod, or the owner of its node, allows it to be moved, or the reason why it may
// not be moved. If its state does not allow that, the refusals are the reason.
func (v *View) wanted(pod *corev1.Pod) (cluster.Method, string, []movable.Refusal) {
	services := v.servicesOn(pod)
	if why := refuses(pod, services, v.now); why != "" {
		return 0, why, nil
	}
	if pod.Annotations[v1alpha1.AnnotationMigration] != v1alpha1.MigrationCheckpoint {
		return cluster.Evict, v.unevictable(pod, services), nil
	}
	if kind := v.unreadOf(pod); kind != "" {
		return 0, fmt.Sprintf("it is moved with its state only, and %s were not read", kind), nil
	}
	if !v.migrates {
		return 0, "Migrations are not installed", nil
	}
	in, _ := surroundings.Of(context.Background(), around{v}, pod) // it reads memory, and cannot fail
	verdict := movable.Check(in)
	return cluster.Migrate, movable.Message(verdict.Refusals), verdict.Refusals
}

// unreadOf returns the first kind that was not read and on which it depends whether a Migration can move the pod, or "".
func (v *View) unreadOf(pod *corev1.Pod) string {
	kinds := []string{"Migrations", "Services"}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		kinds = append(kinds, owner.Kind+"s")
	}
	if slices.ContainsFunc(pod.Spec.Volumes, func(s corev1.Volume) bool { return s.PersistentVolumeClaim != nil }) {
		kinds = append(kinds, kindClaims)
	}
	for _, kind := range kinds {
		if v.unread[kind] {
			return kind
		}
	}
	return ""
}

// endsByItself reports whether the pod is a batch pod with a known runtime.
func (v *View) endsByItself(pod *corev1.Pod) bool {
	if kind, _ := class.OfPod(pod); kind != class.Batch || pod.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return false
	}
	if _, written := runtimes.Written(pod); written {
		return true
	}
	if _, declared, err := runtimes.Declared(pod); declared && err == nil {
		return true
	}
	_, learned := v.learned.Median(pod.Namespace, pod.Annotations[v1alpha1.AnnotationCategory])
	return learned
}

// budgetHolds names the PodDisruptionBudgets that currently forbid disrupting the pod, or returns "". The eviction API
// refuses every pod that several of them select; Migrations do not.
func (v *View) budgetHolds(pod *corev1.Pod, byEviction bool) string {
	if names := v.sharing(pod); byEviction && len(names) > 1 && !v.oneBudget {
		return fmt.Sprintf("it has %d PodDisruptionBudgets (%s), and the API server refuses to evict such a pod", len(names), strings.Join(names, ", "))
	}
	for _, b := range v.refusing(pod) {
		if !v.ignored(b.Name) {
			return fmt.Sprintf("PodDisruptionBudget %s allows no disruption now", b.Name)
		}
	}
	return ""
}

// refusing returns the PodDisruptionBudgets that refuse the disruption of the pod now.
func (v *View) refusing(pod *corev1.Pod) (all []*policyv1.PodDisruptionBudget) {
	for i := range v.selecting[pod.Namespace] {
		if s := &v.selecting[pod.Namespace][i]; budget.Refuses(s.budget, pod, v.now) && s.selector.Matches(labels.Set(pod.Labels)) {
			all = append(all, s.budget)
		}
	}
	return all
}

// sharing returns the sorted names of the PodDisruptionBudgets that select a pod which they count.
func (v *View) sharing(pod *corev1.Pod) (names []string) {
	if budget.Ignores(pod) {
		return nil
	}
	for _, s := range v.selecting[pod.Namespace] {
		if s.selector.Matches(labels.Set(pod.Labels)) {
			names = append(names, s.budget.Name)
		}
	}
	slices.Sort(names)
	return names
}

// ignored reports whether the view ignores the budget.
func (v *View) ignored(budget string) bool {
	return v.without != nil && (*v.without == budget || *v.without == "")
}

// selecting is a PodDisruptionBudget with its selector.
type selecting struct {
	budget   *policyv1.PodDisruptionBudget
	selector labels.Selector
}

// readBudgets returns the budgets by namespace, without those whose selector is invalid: they select no pod, as in
// package budget.
func readBudgets(budgets []policyv1.PodDisruptionBudget) map[string][]selecting {
	all := map[string][]selecting{}
	for i := range budgets {
		b := &budgets[i]
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil {
			all[b.Namespace] = append(all[b.Namespace], selecting{b, selector})
		}
	}
	return all
}

// budgetAdvice returns what would make a PodDisruptionBudget that allows no disruption allow one.
func budgetAdvice(b *policyv1.PodDisruptionBudget) string {
	if c := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition); c != nil && c.Reason == policyv1.SyncFailedReason {
		return "what the budget's condition DisruptionAllowed asks for: " + c.Message
	}
	if b.Status.ObservedGeneration < b.Generation {
		return "the disruption controller, which has not processed the last change of the budget"
	}
	most, least := b.Spec.MaxUnavailable, b.Spec.MinAvailable
	switch {
	case most != nil && (most.String() == "0" || most.String() == "0%"):
		return fmt.Sprintf("a higher maxUnavailable: %s never allows a disruption", most)
	case most != nil:
		return "that all of its pods become ready, or a higher maxUnavailable"
	case least != nil && least.String() == "100%":
		return "a lower minAvailable: 100% never allows a disruption"
	case least != nil:
		return "more replicas that are ready, or a lower minAvailable"
	}
	return "a value for its minAvailable or maxUnavailable"
}

// around finds the objects around a pod in a view.
type around struct{ view *View }

var _ surroundings.Source = around{}

// Job implements [surroundings.Source].
func (a around) Job(_ context.Context, namespace, name string) (*batchv1.Job, error) {
	return a.view.Jobs[namespace+"/"+name], nil
}

// ReplicaSet implements [surroundings.Source].
func (a around) ReplicaSet(_ context.Context, namespace, name string) (*appsv1.ReplicaSet, error) {
	return a.view.ReplicaSets[namespace+"/"+name], nil
}

// Claim implements [surroundings.Source].
func (a around) Claim(_ context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return a.view.volumes.claims[namespace+"/"+name], nil
}

// Services implements [surroundings.Source].
func (a around) Services(_ context.Context, namespace string) ([]corev1.Service, error) {
	return a.view.Services[namespace], nil
}

// NodesFor returns the node of the pod and some of each kind of the others.
func (a around) NodesFor(_ context.Context, pod *corev1.Pod) (map[string]*corev1.Node, error) {
	return a.view.peersOf(pod.Spec.NodeName), nil
}

// mostPeers is how many nodes with equal capabilities are considered for a pod. One that accepts pods is enough, and
// one of them may be the pod's own node.
const mostPeers = 2

// peersOf returns a node and some schedulable nodes of each kind. These suffice to decide whether a pod can be moved at
// all.
func (v *View) peersOf(name string) map[string]*corev1.Node {
	peers := maps.Clone(v.peers)
	if peers == nil {
		peers = map[string]*corev1.Node{}
	}
	if node := v.Nodes[name]; node != nil {
		peers[name] = node
	}
	return peers
}

// findPeers returns some ready, schedulable nodes of each kind, by the capabilities of their agents.
func (w *World) findPeers() map[string]*corev1.Node {
	peers, counts := map[string]*corev1.Node{}, map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(w.Nodes)) {
		node := w.Nodes[name]
		if _, is := Ready(node); !is || node.Spec.Unschedulable {
			continue
		}
		can, err := capability.ParseNode(node.Annotations[v1alpha1.AnnotationCapability])
		if err != nil {
			continue // nothing can be moved there
		}
		kind := fmt.Sprintln(can.Arch, can.Restore, can.Backends)
		if counts[kind]++; counts[kind] <= mostPeers {
			peers[name] = node
		}
	}
	return peers
}

// byName indexes objects by namespace and name.
func byName[T any, P interface {
	*T
	metav1.Object
}](items []T) map[string]*T {
	all := make(map[string]*T, len(items))
	for i := range items {
		object := P(&items[i])
		all[object.GetNamespace()+"/"+object.GetName()] = &items[i]
	}
	return all
}

// servicesByNamespace groups Services.
func servicesByNamespace(services []corev1.Service) map[string][]corev1.Service {
	all := map[string][]corev1.Service{}
	for i := range services {
		all[services[i].Namespace] = append(all[services[i].Namespace], services[i])
	}
	return all
}

// Restoring reports whether a Migration created the pod and has not ended. The Migration finds a node for it, and no
// other component handles it.
func Restoring(pod *corev1.Pod) bool {
	return strings.TrimSpace(pod.Labels[v1alpha1.LabelMigration]) != ""
}
