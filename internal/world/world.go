// Package world turns the state of the cluster in the API into the input of decisions about machines and moves (package
// cluster).
//
// A [World] is read once per round. A [View] of it derives sizes, expected runtimes, constraints and reserved room of
// pods and nodes.
package world

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// World is the state of the cluster in the API.
type World struct {
	// Nodes are all nodes, by name.
	Nodes map[string]*corev1.Node
	// Pods are the pods that have not finished. They are shared with the cache and must not be changed.
	Pods []*corev1.Pod
	// Daemons, Budgets and Migrations are all objects of their kinds.
	Daemons    []appsv1.DaemonSet
	Budgets    []policyv1.PodDisruptionBudget
	Migrations []v1alpha1.Migration
	// Namespaces are the labels, and NamespaceAnnotations the annotations, of all namespaces, by name.
	Namespaces           map[string]map[string]string
	NamespaceAnnotations map[string]map[string]string
	// Jobs and ReplicaSets are all objects of their kinds, by namespace/name, and Services by namespace.
	Jobs        map[string]*batchv1.Job
	ReplicaSets map[string]*appsv1.ReplicaSet
	Services    map[string][]corev1.Service
	// DaemonSizes remembers sizes from earlier observations; nil if nothing is remembered.
	DaemonSizes *DaemonSizes
	// Facts remembers pods of earlier observations; nil if nothing is remembered.
	Facts *Facts

	unread   map[string]bool // see Unread
	failed   []*corev1.Pod   // the pods that have failed
	volumes  volumes
	migrates bool // the kind Migration is installed
}

// Kinds returns an object of each kind that [Read] lists, for callers that cache them. The kind Migration is included
// only if migrations is set, that is, if it is installed.
func Kinds(migrations bool) []client.Object {
	kinds := []client.Object{
		&corev1.Node{}, &corev1.Pod{}, &appsv1.DaemonSet{}, &policyv1.PodDisruptionBudget{}, &corev1.Namespace{}, &batchv1.Job{}, &appsv1.ReplicaSet{},
		&corev1.Service{},
		&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{}, &storagev1.CSINode{},
	}
	if migrations {
		kinds = append(kinds, &v1alpha1.Migration{})
	}
	return kinds
}

// Read reads a World, usually from a cache. The caller must not change the objects. Migrations are read only if
// migrations is set, that is, if the kind is installed.
func Read(ctx context.Context, c client.Reader, migrations bool) (*World, error) {
	var nodes corev1.NodeList
	var daemons appsv1.DaemonSetList
	var budgets policyv1.PodDisruptionBudgetList
	var namespaces corev1.NamespaceList
	var claims corev1.PersistentVolumeClaimList
	var disks corev1.PersistentVolumeList
	var classes storagev1.StorageClassList
	var drivers storagev1.CSINodeList
	var jobs batchv1.JobList
	var sets appsv1.ReplicaSetList
	var services corev1.ServiceList
	var moves v1alpha1.MigrationList
	lists := map[string]client.ObjectList{
		"nodes": &nodes, "DaemonSets": &daemons, "PodDisruptionBudgets": &budgets, "namespaces": &namespaces,
		"PersistentVolumeClaims": &claims, "PersistentVolumes": &disks, "StorageClasses": &classes, "CSINodes": &drivers, "Jobs": &jobs, "ReplicaSets": &sets, "Services": &services,
	}
	if migrations {
		lists["Migrations"] = &moves
	}
	for what, list := range lists {
		if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", what, err)
		}
	}
	w := &World{
		migrates: migrations,
		Nodes:    make(map[string]*corev1.Node, len(nodes.Items)), Daemons: daemons.Items, Budgets: budgets.Items, Migrations: moves.Items,
		Jobs: byName(jobs.Items), ReplicaSets: byName(sets.Items), Services: servicesByNamespace(services.Items),
		Namespaces:           make(map[string]map[string]string, len(namespaces.Items)),
		NamespaceAnnotations: make(map[string]map[string]string, len(namespaces.Items)),
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
	w.volumes.readDrivers(drivers.Items)
	for i := range nodes.Items {
		w.Nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	pods, err := ListPods(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	w.keepRunning(pods)
	for i := range namespaces.Items {
		w.Namespaces[namespaces.Items[i].Name] = namespaces.Items[i].Labels
		w.NamespaceAnnotations[namespaces.Items[i].Name] = namespaces.Items[i].Annotations
	}
	return w, nil
}

// PodSharer is implemented by readers that can list all pods without a copy. A [corev1.PodList] has a copy of each pod, which
// takes 1.2 kB: a quarter of the memory that a round needs besides the cache.
type PodSharer interface {
	// SharedPods returns all pods, in any order. Callers must not change them.
	SharedPods(ctx context.Context) ([]*corev1.Pod, error)
}

// ListPods returns all pods of a reader, shared if it is a [PodSharer]. Callers must not change them.
func ListPods(ctx context.Context, c client.Reader) ([]*corev1.Pod, error) {
	if sharer, is := c.(PodSharer); is {
		return sharer.SharedPods(ctx)
	}
	var list corev1.PodList
	if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return pointersTo(list.Items), nil
}

func pointersTo(pods []corev1.Pod) []*corev1.Pod {
	all := make([]*corev1.Pod, len(pods))
	for i := range pods {
		all[i] = &pods[i]
	}
	return all
}

// keepRunning sets the pods that have not finished, and those that have failed.
func (w *World) keepRunning(pods []*corev1.Pod) {
	w.Pods = make([]*corev1.Pod, 0, len(pods))
	for _, pod := range pods {
		switch pod.Status.Phase {
		case corev1.PodSucceeded:
		case corev1.PodFailed:
			w.failed = append(w.failed, pod)
		default:
			w.Pods = append(w.Pods, pod)
		}
	}
}

// Unread records kinds, by plural name, of which none were read although there may be some: reasons then do not say that
// such an object does not exist.
func (w *World) Unread(kinds ...string) {
	w.unread = make(map[string]bool, len(kinds))
	for _, kind := range kinds {
		w.unread[kind] = true
	}
	w.volumes.unread = w.unread
}

// Compiler returns a compiler that considers only labels that a constraint mentions, so that pods that differ only in,
// for example, the name of their Job are equal.
func (w *World) Compiler() *constraint.Compiler {
	demanding := append(make([]*corev1.Pod, 0, len(w.Pods)+len(w.Daemons)), w.Pods...)
	for i := range w.Daemons {
		demanding = append(demanding, daemonPod(&w.Daemons[i]))
	}
	c := constraint.NewCompilerFor(w.Namespaces, demanding)
	c.ResolvesNamespaces = w.since(resolvingNamespaces)
	c.SpreadsAmongAll = w.since(spreadingAmongAll)
	return c
}

// The first versions of Kubernetes whose kube-scheduler does as [constraint.Compiler.ResolvesNamespaces] and
// [constraint.Compiler.SpreadsAmongAll] say.
var (
	resolvingNamespaces = version.MajorMinor(1, 37)
	spreadingAmongAll   = version.MajorMinor(1, 38)
)

// since reports whether a node's kubelet has a version of Kubernetes or a later one. kube-scheduler then usually has it
// too: no kubelet may be newer than the API server.
func (w *World) since(first *version.Version) bool {
	for _, n := range w.Nodes {
		if v, err := version.ParseGeneric(n.Status.NodeInfo.KubeletVersion); err == nil && v.AtLeast(first) {
			return true
		}
	}
	return false
}

// Unschedulable returns the condition by which the scheduler reports that a pod is unschedulable, and whether it
// exists.
func Unschedulable(pod *corev1.Pod) (corev1.PodCondition, bool) {
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

// BecameUnschedulable reports whether a pod has become unschedulable.
func BecameUnschedulable(before, after *corev1.Pod) bool {
	_, was := Unschedulable(before)
	_, is := Unschedulable(after)
	return is && !was
}

// Ready returns the Ready condition of a node, and whether the node is ready.
func Ready(node *corev1.Node) (corev1.NodeCondition, bool) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c, c.Status == corev1.ConditionTrue
		}
	}
	return corev1.NodeCondition{}, false
}

// AvailabilityChanged reports whether a node's readiness, cordon or taints have changed.
func AvailabilityChanged(before, after *corev1.Node) bool {
	_, was := Ready(before)
	_, is := Ready(after)
	return was != is || before.Spec.Unschedulable != after.Spec.Unschedulable ||
		!slices.EqualFunc(before.Spec.Taints, after.Spec.Taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) })
}

// Joined reports whether a node has joined: it is ready, says what pods can use, and has no startup taints.
func Joined(node *corev1.Node) bool {
	_, is := Ready(node)
	return is && !node.Status.Allocatable.Cpu().IsZero() && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return StartupTaint(t.Key) })
}
