package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volumehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/internal/world"
)

// The kinds without which something about pods is unknown.
const (
	nodeFleets = "NodeFleets"
	claims     = "PersistentVolumeClaims"
	disks      = "PersistentVolumes"
	classes    = "StorageClasses"
	budgets    = "PodDisruptionBudgets"
	namespaces = "Namespaces"
)

var volumeKinds = []string{claims, disks, classes}

func usesClaims(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

// stopped returns why no scheduler handles the pod, or "".
func stopped(pod *corev1.Pod) string {
	switch gates := pod.Spec.SchedulingGates; {
	case pod.DeletionTimestamp != nil:
		return "it is being deleted, so no scheduler handles it"
	case len(gates) > 0:
		names := make([]string, len(gates))
		for i := range gates {
			names[i] = gates[i].Name
		}
		return fmt.Sprintf("no scheduler handles it before these scheduling gates are removed, each by the controller that has set it: %s", strings.Join(names, ", "))
	}
	return ""
}

// onlyNode returns the node for which a DaemonSet made a pod, or "". The controller requires it by an affinity to the name of
// the node, in each term.
func onlyNode(pod *corev1.Pod) string {
	owner, a := metav1.GetControllerOfNoCopy(pod), pod.Spec.Affinity
	if owner == nil || owner.Kind != "DaemonSet" || a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	only := ""
	for i, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		name := ""
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
				name = f.Values[0]
			}
		}
		if name == "" || i > 0 && name != only {
			return ""
		}
		only = name
	}
	return only
}

// held returns why no node takes a pod that its scheduler handles, or "".
func (p *Pending) held(in *WhyInput) string {
	if p.OnlyNode != "" && in.View.Nodes[p.OnlyNode] == nil {
		return fmt.Sprintf("its DaemonSet made it for node %s, which does not exist: kube-controller-manager deletes such pods", p.OnlyNode)
	}
	if why := in.View.Blocked(in.Pod); why != "" {
		return why
	}
	if why := in.Devices.blocks(in.Pod); why != "" {
		return why
	}
	if p.Scheduler != nil || p.Nomination != "" {
		return ""
	}
	return unscheduled(in)
}

// unscheduled describes a pod without a word from its scheduler: whether other pods show that the scheduler runs.
func unscheduled(in *WhyInput) string {
	name := in.Pod.Spec.SchedulerName
	others, handled := 0, 0
	for _, other := range in.View.Pods {
		if other.Spec.SchedulerName != name || world.PodName(other) == world.PodName(in.Pod) {
			continue
		}
		if _, static := other.Annotations[corev1.MirrorPodAnnotationKey]; static {
			continue // the kubelet runs it
		}
		others++
		if other.Spec.NodeName != "" || evaluated(other) {
			handled++
		}
	}
	text := fmt.Sprintf("scheduler %s has not reported on it (it has set no condition PodScheduled)", cmp.Or(name, "none"))
	switch {
	case handled > 0:
		return text + fmt.Sprintf("; with this schedulerName, %s %s a node or such a condition", plural.Count(handled, "other pod"), plural.Form(handled, "has", "have"))
	case others > 0:
		return text + fmt.Sprintf(", nor on the %s with this schedulerName: check that such a scheduler runs", plural.Count(others, "other pod"))
	}
	return text + ", and no other pod has this schedulerName: check that such a scheduler runs"
}

// evaluated reports whether a scheduler has set the condition PodScheduled. The API server sets it on gated pods.
func evaluated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason != corev1.PodReasonSchedulingGated
	})
}

// nomination says for what a pod waits that its scheduler has given a node, or returns "". A node is nominated for a
// pod when others are preempted for it, and while its scheduler prepares the binding.
func nomination(in *WhyInput) string {
	node := in.Pod.Status.NominatedNodeName
	text := ""
	switch {
	case node != "" && in.View.Nodes[node] == nil:
		return fmt.Sprintf("It is nominated to node %s, which does not exist.", node)
	case node != "":
		text = fmt.Sprintf("It is nominated to node %s", node)
		if victims := victims(in, node); len(victims) > 0 {
			return fmt.Sprintf("%s: pods of lower priority leave it to make room: %s.", text, someNames(victims))
		}
	}
	for _, claim := range in.View.Claims(in.Pod) {
		chosen := claim.Annotations[volumehelpers.AnnSelectedNode]
		if claim.Spec.VolumeName != "" || chosen == "" || node != "" && chosen != node {
			continue
		}
		if text == "" {
			text = "A scheduler has chosen node " + chosen
		}
		by := cmp.Or(claim.Annotations[volumehelpers.AnnStorageProvisioner], claim.Annotations[volumehelpers.AnnBetaStorageProvisioner])
		if by == "" {
			return fmt.Sprintf("%s, for which the volume of claim %s is to be created first.", text, claim.Name)
		}
		return fmt.Sprintf("%s, for which provisioner %s is to create the volume of claim %s first.", text, by, claim.Name)
	}
	if text != "" {
		text += "."
	}
	return text
}

// victims returns the pods of lower priority that are preempted on a node.
func victims(in *WhyInput, node string) (names []string) {
	for _, other := range in.View.On(node) {
		preempted := slices.ContainsFunc(other.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
		})
		if preempted && other.DeletionTimestamp != nil && ptr.Deref(other.Spec.Priority, 0) < ptr.Deref(in.Pod.Spec.Priority, 0) {
			names = append(names, world.PodName(other))
		}
	}
	slices.Sort(names)
	return names
}

// someNames returns the first names, and the number of the others.
func someNames(names []string) string {
	text := strings.Join(names[:min(len(names), mostNames)], ", ")
	if more := len(names) - mostNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Devices are the objects that the resource claims of a pod name.
type Devices struct {
	// Claims and Templates are those that exist, by name in the pod's namespace. Classes are the DeviceClasses that
	// exist, by name.
	Claims    map[string]*resourcev1.ResourceClaim
	Templates map[string]bool
	Classes   map[string]bool
	// Unread is why they could not be read; nothing is said about them then.
	Unread string
}

// mostReserved is the maximum number of users of a claim.
const mostReserved = resourcev1.ResourceClaimReservedForMaxSize

// blocks returns why the resource claims of a pod keep it from all nodes, or "".
func (d *Devices) blocks(pod *corev1.Pod) string {
	if d == nil || d.Unread != "" {
		return ""
	}
	for i := range pod.Spec.ResourceClaims {
		if why := d.blocksBy(pod, &pod.Spec.ResourceClaims[i]); why != "" {
			return why
		}
	}
	return ""
}

func (d *Devices) blocksBy(pod *corev1.Pod, use *corev1.PodResourceClaim) string {
	name, owned, err := resourceclaim.Name(pod, use)
	switch template := use.ResourceClaimTemplateName; {
	case err != nil && template != nil && !d.Templates[*template]:
		return fmt.Sprintf("ResourceClaimTemplate %s does not exist: create it, or correct the name in the pod", *template)
	case err != nil:
		return fmt.Sprintf("resource claim %s of the pod does not exist yet: kube-controller-manager creates it", use.Name)
	case name == nil:
		return "" // no claim is needed
	}
	claim := d.Claims[*name]
	switch {
	case claim == nil:
		return fmt.Sprintf("ResourceClaim %s does not exist: create it, or correct the name in the pod", *name)
	case owned && !metav1.IsControlledBy(claim, pod):
		return fmt.Sprintf("ResourceClaim %s was created for another pod", *name)
	case claim.DeletionTimestamp != nil:
		return fmt.Sprintf("ResourceClaim %s is being deleted", *name)
	case claim.Status.Allocation != nil && !reservedFor(pod, claim) && len(claim.Status.ReservedFor) >= mostReserved:
		return fmt.Sprintf("ResourceClaim %s is in use by %d pods, which is the maximum", *name, mostReserved)
	case claim.Status.Allocation != nil:
		return ""
	}
	for _, class := range deviceClasses(claim) {
		if !d.Classes[class] {
			return fmt.Sprintf("DeviceClass %s, which ResourceClaim %s requests, does not exist: it usually comes with the driver of the devices", class, *name)
		}
	}
	return ""
}

func reservedFor(pod *corev1.Pod, claim *resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == pod.UID })
}

// deviceClasses returns the classes that each allocation of a claim needs. Of alternatives none is needed.
func deviceClasses(claim *resourcev1.ResourceClaim) (all []string) {
	for i := range claim.Spec.Devices.Requests {
		if exactly := claim.Spec.Devices.Requests[i].Exactly; exactly != nil {
			all = append(all, exactly.DeviceClassName)
		}
	}
	return all
}
