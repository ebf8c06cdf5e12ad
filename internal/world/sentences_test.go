package world

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// change changes a world and its pod p.
type change func(w *World, pod *corev1.Pod)

// told returns all that a view says about a pod of a Job in a world with two nodes and the claims of [stored]: how it may
// leave its node, what keeps it there, and why nodes cannot take it.
func told(t *testing.T, changes ...change) string {
	t.Helper()
	w, pod := scene()
	w.volumes = stored().volumes
	for name, node := range w.Nodes {
		node.Labels = map[string]string{corev1.LabelTopologyZone: name, corev1.LabelHostname: name, corev1.LabelArchStable: "amd64"}
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}
	}
	for _, change := range changes {
		change(w, pod)
	}
	w.Pods = append(w.Pods, pod)
	v := NewView(w, noon, runtimes.NewLearner())
	for name := range w.Nodes {
		if owner := w.Nodes[name].Annotations["evicts"]; owner != "" {
			v.EvictServices(name, v1alpha1.ServiceEviction(owner))
		}
	}
	exit := v.Exit(pod)
	lines := []string{"leaves: " + exit.Held, "budget: " + exit.Budget, "blocked: " + v.Blocked(pod), "unchecked: " + strings.Join(v.Unchecked(pod), ", ")}
	for _, h := range v.Holds(pod) {
		lines = append(lines, "hold: "+h.Kind+" "+h.Budget, "advice: "+h.Advice)
	}
	_, held := v.plannable(pod)
	lines = append(lines, "planned: "+held)
	refusals, _, err := v.Refusals(pod)
	if err != nil {
		t.Fatal(err)
	}
	for name, why := range refusals {
		lines = append(lines, "node "+name+": "+why)
	}
	return strings.Join(lines, "\n")
}

// TestEachSentenceAboutAPodIsSaidWhereItIsTrueAndNotWhereItIsNot has all sentences of the package.
func TestEachSentenceAboutAPodIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	say := func(changes ...change) string { t.Helper(); return told(t, changes...) }
	of := func(f func(*corev1.Pod)) change { return func(_ *World, pod *corev1.Pod) { f(pod) } }
	pending := of(func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending })
	uses := func(claims ...string) change { return of(claiming(claims...)) }
	annotated := func(key, value string) change {
		return of(func(p *corev1.Pod) { p.Annotations[key] = value })
	}
	restarts, moves := annotated(v1alpha1.AnnotationMigration, v1alpha1.MigrationRestart), annotated(v1alpha1.AnnotationMigration, v1alpha1.MigrationCheckpoint)
	bare := of(func(p *corev1.Pod) { p.OwnerReferences = nil })
	service := of(func(p *corev1.Pod) { p.Labels[v1alpha1.LabelClass] = "service" })
	evicts := func(which v1alpha1.ServiceEviction) change {
		return func(w *World, _ *corev1.Pod) { w.Nodes["a"].Annotations["evicts"] = string(which) }
	}
	mounted := func(source corev1.VolumeSource) change {
		return of(func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: source})
		})
	}
	scratch := mounted(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	hostPath := mounted(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}})
	ephemeral := of(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
	})
	system := of(func(p *corev1.Pod) { p.Namespace = metav1.NamespaceSystem })
	unread := func(kinds ...string) change { return func(w *World, _ *corev1.Pod) { w.Unread(kinds...) } }
	withClaim := func(name string, f func(*corev1.PersistentVolumeClaim)) change {
		return func(w *World, _ *corev1.Pod) { f(w.volumes.claims["default/"+name]) }
	}
	lost := func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }
	budget := func(f func(*policyv1.PodDisruptionBudget)) change {
		return func(w *World, _ *corev1.Pod) {
			b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}}
			f(&b)
			w.Budgets = []policyv1.PodDisruptionBudget{b}
		}
	}
	spent := func(most, least string) string {
		t.Helper()
		return say(restarts, budget(func(b *policyv1.PodDisruptionBudget) {
			if most != "" {
				b.Spec.MaxUnavailable = new(intstr.Parse(most))
			}
			if least != "" {
				b.Spec.MinAvailable = new(intstr.Parse(least))
			}
		}))
	}
	allowing := budget(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 })
	notInstalled := func(w *World, _ *corev1.Pod) { w.migrates = false }
	several := say(restarts, allowing, notInstalled, func(w *World, _ *corev1.Pod) {
		other := w.Budgets[0]
		other.Name = "c"
		w.Budgets = append(w.Budgets, other)
	})
	changed := say(restarts, budget(func(b *policyv1.PodDisruptionBudget) {
		b.Generation, b.Spec.MaxUnavailable = 2, new(intstr.FromInt32(1))
	}))
	failing := say(restarts, budget(func(b *policyv1.PodDisruptionBudget) {
		b.Status.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: "no scale"}}
	}))
	failsJob := say(restarts, ruled(onCondition(batchv1.PodFailurePolicyActionFailJob, "")))
	failsIndex := say(restarts, ruled(onCondition(batchv1.PodFailurePolicyActionFailIndex, "")))
	sole := of(claiming("sole"))
	user := func(namespace string) change {
		return func(w *World, _ *corev1.Pod) {
			w.Pods = append(w.Pods, fixtures.Pod("other", 100, 1<<20, claiming("sole"), func(p *corev1.Pod) { p.Namespace, p.UID, p.Spec.NodeName = namespace, "o", "b" }))
		}
	}
	slots := func(n string) change {
		return func(w *World, _ *corev1.Pod) {
			for _, node := range w.Nodes {
				node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse(n)
			}
		}
	}
	classed := func(class string) change {
		return func(w *World, _ *corev1.Pod) { w.Nodes["b"].Labels[v1alpha1.LabelClass] = class }
	}
	attached := func(mode corev1.PersistentVolumeAccessMode) change {
		return func(w *World, _ *corev1.Pod) {
			w.volumes.volumes["affine"].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{mode}
		}
	}
	attaches := func(count int32) change { // of the volume of claim affine, on all nodes
		return func(w *World, _ *corev1.Pod) {
			w.volumes.volumes["affine"].Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs"}
			var nodes []storagev1.CSINode
			for name := range w.Nodes {
				nodes = append(nodes, storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{driver("ebs", count)}}})
			}
			w.volumes.readDrivers(nodes)
		}
	}
	started := func(ago time.Duration) change {
		return of(func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: noon.Add(-ago)} })
	}
	undisrupted := func(value string, changes ...change) string {
		t.Helper()
		return say(append(changes, restarts, annotated(annotationDoNotDisrupt, value))...)
	}
	inMove := func(w *World, p *corev1.Pod) {
		w.Migrations = []v1alpha1.Migration{{Status: v1alpha1.MigrationStatus{Plan: &v1alpha1.MigrationPlan{PodUID: string(p.UID)}}}}
	}

	base, open := say(), say(restarts)
	optOut := say(service, evicts(v1alpha1.EvictServicesOptOut))
	bareOptOut := say(service, evicts(v1alpha1.EvictServicesOptOut), bare)
	scratchOptOut, hostPathOptOut := say(service, evicts(v1alpha1.EvictServicesOptOut), scratch), say(service, evicts(v1alpha1.EvictServicesOptOut), hostPath)
	systemOptOut := say(service, evicts(v1alpha1.EvictServicesOptOut), system)
	late, now := say(pending, uses("late")), say(pending, uses("now"))
	unregistered, silent, registered := fixtures.Node("n", 1000, 1<<30), &corev1.Node{}, fixtures.Node("n", 1000, 1<<30)
	unregistered.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}}
	registered.Labels = map[string]string{"karpenter.sh/registered": "true"}
	cases := []sentences.Case{
		// Why no node takes a pod because of a claim.
		{"the claim %s of its ephemeral volume does not exist yet: kube-controller-manager creates it", say(pending, ephemeral, of(func(p *corev1.Pod) { p.Name = "q" })), say(pending, ephemeral)},
		{"volume claim %s does not exist: create it, or correct the name in the pod", say(pending, uses("nope")), say(pending, uses("nope"), unread("PersistentVolumeClaims"))},
		{"volume claim %s exists but was not created for the pod's ephemeral volume: delete the claim, or rename the pod", say(pending, ephemeral), say(pending, ephemeral, withClaim("p-scratch", func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{UID: "pod", Controller: new(true)}}
		}))},
		{"volume claim %s has access mode ReadWriteOncePod, and pod %s uses it", say(pending, sole, user("default")), say(pending, sole, user("elsewhere"))},
		{"volume claim %s is being deleted", say(pending, uses("leaving")), late},
		{"volume claim %s is bound to volume %s, which does not exist", say(pending, uses("lost")), say(pending, uses("affine"), withClaim("affine", lost))},
		{"volume claim %s has lost its volume: the Events of the claim say why", say(pending, uses("affine"), withClaim("affine", lost)), say(pending, uses("lost"))},
		{"volume claim %s names volume %s and is not bound to it: the Events of the claim say why", say(pending, uses("named")), say(pending, uses("labelled"))},
		{"volume claim %s is not bound and names no StorageClass: create a volume that it matches", say(pending, uses("no-class")), say(pending, uses("hand"))},
		{"volume claim %s is not bound and names no StorageClass: mark a StorageClass as the default, or create a volume that it matches", say(pending, uses("default-class")), say(pending, uses("no-class"))},
		{"volume claim %s is not bound, and its StorageClass %s does not exist", say(pending, uses("typo-class")), say(pending, uses("typo-class"), unread("StorageClasses"))},
		{"volume claim %s is not bound: create a volume of StorageClass %s that it matches", say(pending, uses("hand")), now},
		{"volume claim %s is not bound: provisioner %s of StorageClass %s must create its volume first; the Events of the claim say how far it is", now, late},

		// Why a node does not take a pod.
		{"volume %s of claim %s cannot be used there (its node affinity)", say(pending, uses("affine")), say(pending, uses("affine"), func(w *World, _ *corev1.Pod) { delete(w.Nodes, "b") })},
		{"volume %s of claim %s is in another zone (its labels)", say(pending, uses("labelled")), say(pending, uses("labelled"), func(w *World, _ *corev1.Pod) { delete(w.Nodes, "a") })},
		{"the volume of claim %s is to be created for node %s (annotation %s)", say(pending, uses("chosen")), late},
		{"no free volume there for claim %s", say(pending, uses("local")), say(pending, uses("local"), unread("PersistentVolumes"))},
		{"StorageClass %s creates no volumes there (allowedTopologies)", say(pending, uses("late-b")), late},
		{"accepts only %v pods, if its scheduler has the plugin NodeClass", say(pending, classed("service")), say(pending, classed("batch"))},
		{"Too many pods", say(pending, slots("0")), say(pending, slots("1"))},

		// What is not checked.
		{"the devices of nodes", say(of(func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} })), base},
		{"how many volumes a node can attach", say(uses("affine"), attached(corev1.ReadWriteOnce)), say(uses("affine"), attached(corev1.ReadWriteMany))},
		{"%s of CSI driver %s can be attached there, the pods there have %d, and this one has %d more", say(pending, uses("affine"), attaches(0)), say(pending, uses("affine"), attaches(1))},
		{"the free capacity of storage", late, say(uses("affine"))},
		{"which disks other pods use", say(mounted(corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{}})), say(mounted(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}))},
		{"whether all pods of gang ", say(of(fixtures.Gang("train"))), base},
		{" find room", say(of(fixtures.Gang("train"))), base},

		// Why a pod stays on its node.
		{"it is being moved", say(restarts, inMove), open},
		{"it is moved with its state only, and %s were not read", say(moves, unread("Jobs")), say(moves, unread("ReplicaSets"))},
		{"Migrations are not installed", say(moves, notInstalled), say(moves, unread("Migrations"), notInstalled)},
		{"it has annotation ", say(annotated(annotationSafeToEvict, "false")), open},
		{", which must be true, false or a duration such as 5m", undisrupted("soon"), undisrupted("5m")},
		{", and has not started", undisrupted("5m", of(func(p *corev1.Pod) { p.Status.StartTime = nil })), undisrupted("5m")},
		{"%s, and started %v ago", undisrupted("5m"), undisrupted("5m", started(5*time.Minute))},
		{"it belongs to a service, and spec.consolidation.evictServices of the NodeFleet is Never", say(service, evicts(v1alpha1.EvictServicesNever)), optOut},
		{"it does not opt in to being moved with annotation ", base, open},
		{"it has no controller that would restart it", bareOptOut, optOut},
		{"it belongs to a Job, and Jobs were not read", say(restarts, unread("Jobs")), say(restarts, unread("ReplicaSets"))},
		{"the podFailurePolicy of Job %s fails the Job when a pod is evicted", failsJob, failsIndex},
		{"the podFailurePolicy of Job %s fails the index of a pod that is evicted", failsIndex, failsJob},
		{"it may have replaced a pod that was restarted, and might never complete if restarted repeatedly",
			say(restarts, failed(1), createdAfter(time.Hour)), say(restarts, failed(1), createdAfter(0))},
		{"Job %s counts an evicted pod as failed, and its backoffLimitPerIndex is 0", say(restarts, perIndex(0, "0")), say(restarts, perIndex(1, "0"))},
		{"Job %s counts evicted pods as failed, and would fail: its backoffLimit is %d", say(restarts, limited(0)), say(restarts, limited(1))},
		{"the contents of its local volume %s would be lost: set annotation %s to allow that", scratchOptOut, hostPathOptOut},
		{"its local volume %s stays on the node: set annotation %s to allow that", hostPathOptOut, scratchOptOut},
		{"it is in namespace ", systemOptOut, optOut},
		{", and no PodDisruptionBudgets were read", say(service, evicts(v1alpha1.EvictServicesOptOut), system, unread("PodDisruptionBudgets")), systemOptOut},
		{", and no PodDisruptionBudget selects it", systemOptOut, say(service, evicts(v1alpha1.EvictServicesOptOut), system, unread("PodDisruptionBudgets"))},
		{"it requests %s, which plans of moves do not consider", say(restarts, besideGPUs(requests("example.com/nic", "1"))), open},
		{"it uses %s, which plans of moves do not consider", say(restarts, of(func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} })), open},
		{"volume %s of claim %s may have to be attached, and the number of volumes that other nodes can attach is unknown", say(restarts, uses("affine"), attached(corev1.ReadWriteOnce)), say(restarts, uses("affine"), attached(corev1.ReadWriteMany))},

		// Why nothing can be planned for the volumes of a pod.
		{"volume claim %s %s", say(uses("nope")), late},
		{"volume %s of claim %s %s", say(uses("lost")), late},
		{"was not read", say(uses("nope"), unread("PersistentVolumeClaims")), say(uses("nope"))},
		{"does not exist", say(uses("nope")), late},
		{"volume claim %s is not bound yet", now, late},
		{"StorageClass %s of volume claim %s %s", say(uses("typo-class"), unread("StorageClasses")), say(uses("typo-class"))},
		{"volume claim %s requires a volume that no provisioner creates, and a new machine may have none", say(uses("local")), late},

		// Why a node has not started.
		{"it has taint ", Unstarted(unregistered), Unstarted(silent)},
		{"its kubelet has not reported its capacity", Unstarted(silent), Unstarted(unregistered)},
		{"Karpenter has not initialized it", Unstarted(registered), Unstarted(silent)},

		// What a user can change.
		{"anything that keeps pods on their nodes", bareOptOut, optOut},
		{"remove all other obstacles to moving these pods", bareOptOut, optOut},
		{"PodDisruptionBudget that allows no disruption", spent("1", ""), say(restarts, allowing)},
		{"PodDisruptionBudget %s allows no disruption now", spent("1", ""), say(restarts, allowing)},
		{"it has %d PodDisruptionBudgets (%s), and the API server refuses to evict such a pod", several, say(restarts, allowing, notInstalled)},
		{"several PodDisruptionBudgets", several, say(restarts, allowing, notInstalled)},
		{"selectors by which one PodDisruptionBudget selects each pod: the API server refuses to evict others", several, say(restarts, allowing, notInstalled)},
		{"remove the annotation, or give it a duration that the pod has run for", undisrupted("5m"), undisrupted("5m", started(5*time.Minute))},
		{"remove the annotation", say(restarts, annotated(annotationSafeToEvict, "false")), open},
		{"no controller", bareOptOut, say(bare, moves, notInstalled)},
		{"run it with a Deployment, a StatefulSet or a Job", bareOptOut, say(bare, moves, notInstalled)},
		{"local storage", scratchOptOut, say(scratch)},
		{" lists volumes that may be lost", scratchOptOut, say(scratch)},
		{"batch pod that does not opt in to being moved", base, open},
		{": restart or checkpoint", base, open},
		{"namespace %s without a PodDisruptionBudget", systemOptOut, say(system)},
		{"a PodDisruptionBudget for it", systemOptOut, say(system)},
		{"the disruption controller, which has not processed the last change of the budget", changed, spent("1", "")},
		{"what the budget's condition DisruptionAllowed asks for: ", failing, spent("1", "")},
		{"a higher maxUnavailable: %s never allows a disruption", spent("0%", ""), spent("1%", "")},
		{"that all of its pods become ready, or a higher maxUnavailable", spent("1", ""), changed},
		{"a lower minAvailable: 100% never allows a disruption", spent("", "100%"), spent("", "99%")},
		{"more replicas that are ready, or a lower minAvailable", spent("", "2"), spent("", "100%")},
		{"a value for its minAvailable or maxUnavailable", spent("", ""), spent("1", "")},
	}
	exempt := map[string]string{}
	for _, text := range platformMissing {
		exempt[text] = "what a runtime says, which is read"
	}
	for _, pattern := range []string{refusedProgram.String(), refusedByCrun.String()} {
		exempt[pattern] = "what a runtime says, which is read"
	}
	sentences.Check(t, []string{"*.go", "../jobs/*.go"}, cases, exempt)
}
