package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/internal/runtimes"
)

// The annotations by which pods say to other autoscalers whether they may be
// evicted.
const (
	annotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// Exit is how a pod may leave its node.
type Exit struct {
	// Ways are all it may leave by; none means that it stays.
	Ways cluster.Ways
	// Held says why it may not leave by the way that it asked for, or by any.
	Held string
	// Restart says that a Migration can start the pod anew elsewhere. That is better than
	// an eviction: the new pod has its place before the old one goes, and a Job neither
	// counts a failure nor waits before it makes another.
	Restart bool
	// Budget says which PodDisruptionBudget forbids for now to take it away; empty if
	// none does.
	Budget string
}

// Now returns the ways by which the pod may leave at this moment.
func (e Exit) Now() cluster.Ways {
	if e.Budget != "" {
		return e.Ways.Without(cluster.Migrate).Without(cluster.Evict)
	}
	return e.Ways
}

// Exit says how a pod may leave its node while the cluster is as it is: by checkpoint if
// it asks for that and can be moved (package movable), by eviction if it says that it may
// be started again, or if it is of a service and the node's owner evicts those that do not
// object (see [View.EvictServices]). A batch pod of which it is known how long it runs may be
// waited for. Otherwise nobody takes a pod away without its own word, nor one that needs more
// of a node than plans of moves count.
func (v *View) Exit(pod *corev1.Pod) Exit {
	if v.moving[pod.UID] || Restoring(pod) {
		return Exit{Held: "it is being moved"}
	}
	var e Exit
	var ways []cluster.Method
	if v.endsByItself(pod) {
		ways = append(ways, cluster.Wait)
	}
	wanted, held := v.wanted(pod)
	if held == "" {
		held = v.pinned(pod)
	}
	if e.Held = held; held == "" {
		ways = append(ways, wanted)
		e.Budget = v.budgetHolds(pod)
		e.Restart = wanted == cluster.Evict && v.restarts(pod)
	}
	e.Ways = cluster.WaysOf(ways...)
	return e
}

// wanted returns the way by which the pod may be taken away by its own word, or by that of
// the node's owner, or why it is not.
func (v *View) wanted(pod *corev1.Pod) (cluster.Method, string) {
	services := v.servicesOn(pod)
	if why := refuses(pod, services, v.now); why != "" {
		return 0, why
	}
	if pod.Annotations[v1alpha1.AnnotationMigration] != v1alpha1.MigrationCheckpoint {
		return cluster.Evict, unevictable(pod, services, v.Budgets)
	}
	if !v.migrates {
		return 0, "Migrations are not installed"
	}
	verdict := movable.Check(v.movability(pod, v1alpha1.MethodCheckpoint))
	return cluster.Migrate, movable.Message(verdict.Refusals)
}

// startedAnew reports whether a Migration has started the pod's work from the beginning
// before. Each time may be worth it by itself, but together they may keep it from its end.
func startedAnew(pod *corev1.Pod) bool {
	kind, _ := class.OfPod(pod)
	return kind == class.Batch && pod.Annotations[v1alpha1.AnnotationMigrationName] != "" &&
		pod.Annotations[v1alpha1.AnnotationMigration] == v1alpha1.MigrationRestart
}

// endsByItself reports whether the pod is a batch pod of which it is known how long it
// runs.
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

// budgetHolds names the PodDisruptionBudget that forbids to take the pod away now, or
// returns "".
func (v *View) budgetHolds(pod *corev1.Pod) string {
	for _, b := range v.forbidding[pod.Namespace] {
		if !v.ignored(b.name) && b.is(pod) {
			return fmt.Sprintf("PodDisruptionBudget %s allows for no disruption now", b.name)
		}
	}
	return ""
}

// ignored reports whether a view is one as if a budget were not there.
func (v *View) ignored(budget string) bool {
	return v.without != nil && (*v.without == budget || *v.without == "")
}

// forbidding is a PodDisruptionBudget that allows for no disruption.
type forbidding struct {
	name     string
	selector labels.Selector // nil for one that cannot be read: it may be about any pod
}

// is reports whether the budget is for a pod of its namespace.
func (f *forbidding) is(pod *corev1.Pod) bool {
	return f.selector == nil || f.selector.Matches(labels.Set(pod.Labels))
}

// forbiddingBudgets returns the budgets that allow for no disruption, by namespace.
func forbiddingBudgets(budgets []policyv1.PodDisruptionBudget) map[string][]forbidding {
	all := map[string][]forbidding{}
	for i := range budgets {
		b := &budgets[i]
		if b.Status.DisruptionsAllowed > 0 {
			continue
		}
		f := forbidding{name: b.Name}
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil {
			f.selector = selector
		}
		all[b.Namespace] = append(all[b.Namespace], f)
	}
	return all
}

// restarts reports whether a Migration can start the pod anew elsewhere.
func (v *View) restarts(pod *corev1.Pod) bool {
	return v.migrates && pod.Annotations[v1alpha1.AnnotationMigration] == v1alpha1.MigrationRestart &&
		len(movable.Check(v.movability(pod, v1alpha1.MethodRestart)).Refusals) == 0
}

// movability is what the answer depends on whether the pod can be moved by that method.
func (v *View) movability(pod *corev1.Pod, method v1alpha1.MigrationMethod) movable.Input {
	in := movable.Input{
		Pod: pod, Method: method, Services: v.Services[pod.Namespace], Nodes: v.peersOf(pod.Spec.NodeName),
		Claims: map[string]*corev1.PersistentVolumeClaim{},
	}
	switch owner := metav1.GetControllerOfNoCopy(pod); {
	case owner == nil:
	case owner.Kind == "Job":
		in.Job = v.Jobs[pod.Namespace+"/"+owner.Name]
	case owner.Kind == "ReplicaSet":
		in.ReplicaSet = v.ReplicaSets[pod.Namespace+"/"+owner.Name]
	}
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
			if claim := v.volumes.claims[pod.Namespace+"/"+source.ClaimName]; claim != nil {
				in.Claims[source.ClaimName] = claim
			}
		}
	}
	return in
}

// mostPeers is how many nodes that can do the same are looked at for a pod: one that takes
// pods is enough, and one of them may be the pod's own.
const mostPeers = 2

// peersOf returns a node, and some others of each kind that take pods: whether a pod can
// be moved at all depends on no more.
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

// findPeers picks some nodes that take pods of each kind, by what their agents can do.
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

// Restoring reports whether a pod has been made by a Migration that has not ended: it
// waits for a place of its own, and is nobody else's concern.
func Restoring(pod *corev1.Pod) bool {
	return strings.TrimSpace(pod.Labels[v1alpha1.LabelMigration]) != ""
}
