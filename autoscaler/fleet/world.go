package fleet

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/constraint"
)

// world is what the API server says of the cluster, read once a round.
type world struct {
	nodes      map[string]*corev1.Node
	pods       []corev1.Pod // that have not finished
	daemons    []appsv1.DaemonSet
	budgets    []policyv1.PodDisruptionBudget
	namespaces map[string]map[string]string // labels by name
	volumes    volumes
}

func readWorld(ctx context.Context, c client.Reader) (*world, error) {
	var nodes corev1.NodeList
	var pods corev1.PodList
	var daemons appsv1.DaemonSetList
	var budgets policyv1.PodDisruptionBudgetList
	var namespaces corev1.NamespaceList
	var claims corev1.PersistentVolumeClaimList
	var disks corev1.PersistentVolumeList
	var classes storagev1.StorageClassList
	for what, list := range map[string]client.ObjectList{
		"nodes": &nodes, "pods": &pods, "DaemonSets": &daemons, "PodDisruptionBudgets": &budgets, "namespaces": &namespaces,
		"PersistentVolumeClaims": &claims, "PersistentVolumes": &disks, "StorageClasses": &classes,
	} {
		if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", what, err)
		}
	}
	w := &world{
		nodes: make(map[string]*corev1.Node, len(nodes.Items)), daemons: daemons.Items, budgets: budgets.Items,
		namespaces: make(map[string]map[string]string, len(namespaces.Items)),
		volumes: volumes{
			claims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{}, classes: map[string]*storagev1.StorageClass{},
		},
	}
	for i := range claims.Items {
		w.volumes.claims[claims.Items[i].Namespace+"/"+claims.Items[i].Name] = &claims.Items[i]
	}
	for i := range disks.Items {
		w.volumes.volumes[disks.Items[i].Name] = &disks.Items[i]
	}
	for i := range classes.Items {
		w.volumes.classes[classes.Items[i].Name] = &classes.Items[i]
	}
	for i := range nodes.Items {
		w.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	for i := range pods.Items {
		if phase := pods.Items[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			w.pods = append(w.pods, pods.Items[i])
		}
	}
	for i := range namespaces.Items {
		w.namespaces[namespaces.Items[i].Name] = namespaces.Items[i].Labels
	}
	return w, nil
}

// compiler returns one that tells pods apart by what somebody demands of them, and not
// by the name of the Job that they are of.
func (w *world) compiler() *constraint.Compiler {
	demanding := make([]*corev1.Pod, 0, len(w.pods)+len(w.daemons))
	for i := range w.pods {
		demanding = append(demanding, &w.pods[i])
	}
	for i := range w.daemons {
		demanding = append(demanding, daemonPod(&w.daemons[i]))
	}
	return constraint.NewCompilerFor(w.namespaces, demanding)
}

// unschedulable reports whether the scheduler has found no room for the pod.
func unschedulable(pod *corev1.Pod) (corev1.PodCondition, bool) {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return corev1.PodCondition{}, false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c, true
		}
	}
	return corev1.PodCondition{}, false
}

// ready returns since when the node has been ready.
func ready(node *corev1.Node) (corev1.NodeCondition, bool) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c, c.Status == corev1.ConditionTrue
		}
	}
	return corev1.NodeCondition{}, false
}
