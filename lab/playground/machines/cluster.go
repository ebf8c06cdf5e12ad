package machines

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// LabelCluster is the label with which cluster-api marks the objects of a Cluster.
const LabelCluster = "cluster.x-k8s.io/cluster-name"

// clusterReconciler writes the kubeconfig of the Cluster that a KwokCluster belongs to, and reports
// the KwokCluster as ready.
type clusterReconciler struct {
	client     client.Client
	kubeconfig []byte
}

// Reconcile implements reconcile.Reconciler.
func (r *clusterReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var c KwokCluster
	if err := r.client.Get(ctx, req.NamespacedName, &c); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	// cluster-api connects once this is reported as ready. If there is no kubeconfig then, it
	// retries only after half a minute.
	if c.Labels[LabelCluster] == "" || !c.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	if err := writeKubeconfig(ctx, r.client, &c, r.kubeconfig); err != nil {
		return reconcile.Result{}, err
	}
	before := c.DeepCopy()
	c.Status.Initialization.Provisioned = ptr(true)
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type: readyCondition, Status: metav1.ConditionTrue, Reason: "NothingNeeded", ObservedGeneration: c.Generation,
	})
	if equality.Semantic.DeepEqual(before.Status, c.Status) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.client.Status().Patch(ctx, &c, client.MergeFrom(before))
}

// refreshKubeconfigs rewrites the kubeconfigs of all Clusters. After a playground is resumed, the
// old ones are invalid.
func refreshKubeconfigs(ctx context.Context, c client.Client, kubeconfig []byte) error {
	var clusters KwokClusterList
	if err := c.List(ctx, &clusters); err != nil {
		return fmt.Errorf("list clusters: %w", err)
	}
	for i := range clusters.Items {
		if err := writeKubeconfig(ctx, c, &clusters.Items[i], kubeconfig); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfig writes the Secret from which cluster-api reads the kubeconfig of the Cluster that
// c belongs to, if there is such a Cluster.
func writeKubeconfig(ctx context.Context, cl client.Client, c *KwokCluster, kubeconfig []byte) error {
	const key = "value"
	cluster := c.Labels[LabelCluster]
	if cluster == "" {
		return nil
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: cluster + "-kubeconfig",
			Labels:          map[string]string{LabelCluster: cluster},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, GroupVersion.WithKind("KwokCluster"))},
		},
		Type: "cluster.x-k8s.io/secret",
		Data: map[string][]byte{key: kubeconfig},
	}
	err := cl.Create(ctx, secret.DeepCopy())
	if apierrors.IsAlreadyExists(err) {
		var found corev1.Secret
		err = cl.Get(ctx, client.ObjectKeyFromObject(secret), &found)
		if err == nil && !bytes.Equal(found.Data[key], kubeconfig) {
			found.Data = secret.Data
			err = cl.Update(ctx, &found)
		}
	}
	if err != nil {
		return fmt.Errorf("write kubeconfig of cluster %s/%s: %w", c.Namespace, cluster, err)
	}
	return nil
}

// controlPlaneReconciler reports every KwokControlPlane as running.
type controlPlaneReconciler struct{ client client.Client }

// Reconcile implements reconcile.Reconciler.
func (r *controlPlaneReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var c KwokControlPlane
	if err := r.client.Get(ctx, req.NamespacedName, &c); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := c.DeepCopy()
	c.Status.Initialization.ControlPlaneInitialized = ptr(true)
	c.Status.Version = c.Spec.Version
	c.Status.ExternalManagedControlPlane = true
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type: "Available", Status: metav1.ConditionTrue, Reason: "Running", ObservedGeneration: c.Generation,
	})
	if equality.Semantic.DeepEqual(before.Status, c.Status) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.client.Status().Patch(ctx, &c, client.MergeFrom(before))
}

// templateReconciler reports the size of a template's machines.
type templateReconciler struct{ client client.Client }

// Reconcile implements reconcile.Reconciler.
func (r *templateReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var t KwokMachineTemplate
	if err := r.client.Get(ctx, req.NamespacedName, &t); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := t.DeepCopy()
	t.Status.Capacity = t.Spec.Template.Spec.Capacity()
	t.Status.NodeInfo = NodeInfo{Architecture: t.Spec.Template.Spec.Arch, OperatingSystem: "linux"}
	if equality.Semantic.DeepEqual(before.Status, t.Status) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.client.Status().Patch(ctx, &t, client.MergeFrom(before))
}
