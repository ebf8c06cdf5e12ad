package objects

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// page is how many objects are requested from the API server at a time.
const page = 500

// listed is a kind that is listed from a cluster.
type listed struct {
	name     string // plural, for messages
	list     func() client.ObjectList
	required bool
	// extra means that a cluster may lack the kind without loss.
	extra bool
}

var machineDeployments = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "MachineDeployment"}

var asked = []listed{
	{name: "Nodes", list: func() client.ObjectList { return &corev1.NodeList{} }, required: true},
	{name: "Pods", list: func() client.ObjectList { return &corev1.PodList{} }, required: true},
	{name: "PodDisruptionBudgets", list: func() client.ObjectList { return &policyv1.PodDisruptionBudgetList{} }},
	{name: "DaemonSets", list: func() client.ObjectList { return &appsv1.DaemonSetList{} }},
	{name: "ReplicaSets", list: func() client.ObjectList { return &appsv1.ReplicaSetList{} }},
	{name: "Jobs", list: func() client.ObjectList { return &batchv1.JobList{} }},
	{name: "Services", list: func() client.ObjectList { return &corev1.ServiceList{} }},
	{name: "Namespaces", list: func() client.ObjectList { return &corev1.NamespaceList{} }},
	{name: "PersistentVolumeClaims", list: func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} }},
	{name: "PersistentVolumes", list: func() client.ObjectList { return &corev1.PersistentVolumeList{} }},
	{name: "StorageClasses", list: func() client.ObjectList { return &storagev1.StorageClassList{} }},
	{name: "NodeMetrics", list: func() client.ObjectList { return &metricsv1beta1.NodeMetricsList{} }, extra: true},
}

// Live reads the objects of a cluster page by page. The client must be allowed to list nodes and pods. Other kinds that
// it may not list, or that do not exist, are recorded in Missing. The client's scheme must include the kinds of
// Kubernetes and NodeMetrics.
func Live(ctx context.Context, c client.Client) (*Objects, error) {
	o := &Objects{Missing: map[string]string{}}
	all := asked
	// The version of the kind differs between clusters.
	if mapping, err := c.RESTMapper().RESTMapping(machineDeployments); err == nil {
		kind := mapping.GroupVersionKind.GroupVersion().WithKind(machineDeployments.Kind + "List")
		all = append(slices.Clone(asked), listed{name: "MachineDeployments", extra: true, list: func() client.ObjectList {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(kind)
			return list
		}})
	}
	for _, kind := range all {
		err := o.readAll(ctx, c, kind.list)
		switch {
		case err == nil:
		case kind.required || ctx.Err() != nil:
			return nil, fmt.Errorf("list %s: %w", kind.name, err)
		case absent(err) && kind.extra:
		case Absent(err), kind.extra:
			o.Missing[kind.name] = reason(err)
		default:
			return nil, fmt.Errorf("list %s: %w", kind.name, err)
		}
	}
	return o, nil
}

// MachineDeployments returns the metadata of the MachineDeployments of cluster-api, of the version that the cluster
// has. It returns none if the cluster lacks the kind.
func MachineDeployments(ctx context.Context, c client.Client) ([]metav1.PartialObjectMetadata, error) {
	mapping, err := c.RESTMapper().RESTMapping(machineDeployments)
	if err != nil {
		return nil, client.IgnoreNotFound(ignoreNoMatch(err))
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(machineDeployments.Kind + "List"))
	if err := c.List(ctx, list); err != nil {
		return nil, err
	}
	return list.Items, nil
}

func ignoreNoMatch(err error) error {
	if meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// readAll lists a kind. If the API server's continue token expires, it starts again and discards what it has read, up
// to three times in total.
func (o *Objects) readAll(ctx context.Context, c client.Reader, kind func() client.ObjectList) error {
	const mostTries = 3
	var err error
	for range mostTries {
		before := *o
		if err = o.pages(ctx, c, kind); !apierrors.IsResourceExpired(err) {
			return err
		}
		missing := o.Missing
		*o = before
		o.Missing = missing
	}
	return err
}

func (o *Objects) pages(ctx context.Context, c client.Reader, kind func() client.ObjectList) error {
	next := ""
	for {
		list := kind()
		if err := c.List(ctx, list, client.Limit(page), client.Continue(next)); err != nil {
			return err
		}
		err := meta.EachListItem(list, func(object runtime.Object) error {
			o.Add(object)
			return nil
		})
		if err != nil {
			return fmt.Errorf("read a page: %w", err)
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// Absent reports whether the error of a request says that the cluster lacks the kind, or that the user may not read it.
func Absent(err error) bool { return absent(err) || apierrors.IsForbidden(err) }

// absent reports whether the error says that the cluster lacks the kind.
func absent(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

func reason(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "the user may not list them"
	case absent(err):
		return "the cluster has no such kind"
	}
	return err.Error()
}
