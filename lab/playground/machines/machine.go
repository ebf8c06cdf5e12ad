package machines

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// Finalizer keeps a KwokMachine until its Node is deleted.
	Finalizer = "infrastructure.playground.supercargo.dev/machine"

	// annotationPaused is the annotation with which cluster-api pauses the reconciliation of an
	// object.
	annotationPaused = "cluster.x-k8s.io/paused"

	// clusterAPI is the group and version of cluster-api's own kinds.
	clusterAPI = "cluster.x-k8s.io/v1beta2"

	// askAgain is the requeue interval while the prerequisites of a machine are missing. Normally
	// they exist at once.
	askAgain = time.Second

	// readyCondition is the condition that cluster-api copies to the Machine.
	readyCondition = "Ready"
)

// ProviderID returns the provider ID of a machine and its Node.
func ProviderID(name string) string { return "kwok://" + name }

// Capacity returns the capacity of the Node of such a machine.
func (s *KwokMachineSpec) Capacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: s.CPU, corev1.ResourceMemory: s.Memory,
		corev1.ResourcePods: *resource.NewQuantity(int64(s.Pods), resource.DecimalSI),
	}
}

// lag returns the acquisition lag of the machine called name. It is drawn from a normal
// distribution, limited to at least zero, and seeded by the name.
func (s *KwokMachineSpec) lag(name string) time.Duration {
	mean, sd := s.AcquisitionLag.Duration, s.AcquisitionLagSD.Duration
	if sd <= 0 {
		return mean
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	off := rand.New(rand.NewPCG(h.Sum64(), 0)).NormFloat64()
	return max(0, mean+time.Duration(off*float64(sd)))
}

// machineReconciler creates and deletes the Nodes of KwokMachines.
type machineReconciler struct {
	client client.Client
	live   client.Reader // bypasses the cache
	nodes  client.Client // of the cluster that has the Nodes
	clock  clock.PassiveClock
	node   func(*KwokMachine) (*corev1.Node, error)
}

func (r *machineReconciler) now() *metav1.MicroTime { return ptr(metav1.NewMicroTime(r.clock.Now())) }

// Reconcile advances one machine as far as currently possible.
func (r *machineReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var m KwokMachine
	if err := r.client.Get(ctx, req.NamespacedName, &m); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if _, paused := m.Annotations[annotationPaused]; paused {
		return reconcile.Result{}, nil
	}
	wait, err := r.step(ctx, &m)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// The cache is stale and an update is on its way. If the object itself is gone, there is
		// nothing left to do.
		return reconcile.Result{RequeueAfter: 10 * time.Millisecond}, nil
	}
	return reconcile.Result{RequeueAfter: wait}, err
}

// step returns when to requeue, or 0 if the next change of the object triggers it.
func (r *machineReconciler) step(ctx context.Context, m *KwokMachine) (time.Duration, error) {
	switch {
	case !m.DeletionTimestamp.IsZero():
		return r.release(ctx, m)
	case metav1.GetControllerOf(m) == nil && len(m.OwnerReferences) == 0:
		return 0, nil // cluster-api sets the Machine as owner first
	case !controllerutil.ContainsFinalizer(m, Finalizer):
		return r.begin(ctx, m)
	case m.Status.RequestTime == nil:
		return r.request(ctx, m)
	case m.Status.ProvisionTime == nil:
		return r.acquire(ctx, m)
	}
	return 0, nil
}

// begin chooses the machine's type and sets its finalizer and provider ID.
func (r *machineReconciler) begin(ctx context.Context, m *KwokMachine) (time.Duration, error) {
	if why, err := r.choose(ctx, m); err != nil {
		return 0, err
	} else if why != "" {
		return askAgain, r.refuse(ctx, m, why)
	}
	controllerutil.AddFinalizer(m, Finalizer)
	m.Spec.ProviderID = ProviderID(m.Name) // not read before the machine is provisioned
	return 0, r.client.Update(ctx, m)
}

// request records the request time once cluster-api has finished its own preparations.
func (r *machineReconciler) request(ctx context.Context, m *KwokMachine) (time.Duration, error) {
	ready, err := r.mayBeMade(ctx, m)
	if err != nil || !ready {
		return askAgain, client.IgnoreNotFound(err)
	}
	m.Status.RequestTime = r.now()
	if m.Spec.Fault == FaultFail || m.Spec.lag(m.Name) <= 0 {
		return r.acquire(ctx, m) // each saved write makes machines start sooner when there are many
	}
	setReady(m, metav1.ConditionFalse, "Provisioning", "")
	return 0, r.client.Status().Update(ctx, m)
}

// mayBeMade reports whether the Cluster's infrastructure is ready, the Machine has
// its bootstrap data, and the Cluster is not paused.
func (r *machineReconciler) mayBeMade(ctx context.Context, m *KwokMachine) (bool, error) {
	machine, err := r.read(ctx, "Machine", m.Namespace, m.OwnerReferences[0].Name)
	if err != nil {
		return false, err
	}
	if _, has, err := unstructured.NestedString(machine.Object, "spec", "bootstrap", "dataSecretName"); err != nil || !has {
		return false, err
	}
	cluster, err := r.read(ctx, "Cluster", m.Namespace, m.Labels[LabelCluster])
	if err != nil {
		return false, err
	}
	provisioned, _, err1 := unstructured.NestedBool(cluster.Object, "status", "initialization", "infrastructureProvisioned")
	paused, _, err2 := unstructured.NestedBool(cluster.Object, "spec", "paused")
	return provisioned && !paused, errors.Join(err1, err2)
}

func (r *machineReconciler) read(ctx context.Context, kind, namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(clusterAPI)
	object.SetKind(kind)
	if err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", kind, namespace, name, err)
	}
	return object, nil
}

// acquire creates the Node when the acquisition lag is over.
func (r *machineReconciler) acquire(ctx context.Context, m *KwokMachine) (time.Duration, error) {
	if m.Spec.Fault == FaultFail {
		if setReady(m, metav1.ConditionFalse, "ProvisioningFailed", "spec.fault of this machine is Fail") {
			return 0, r.client.Status().Update(ctx, m)
		}
		return 0, nil
	}
	if wait := m.Status.RequestTime.Add(m.Spec.lag(m.Name)).Sub(r.clock.Now()); wait > 0 {
		return wait, nil
	}
	if m.Spec.Fault != FaultNever {
		if err := r.join(ctx, m); err != nil {
			return 0, err
		}
	}
	m.Status.ProvisionTime = r.now()
	m.Status.Initialization.Provisioned = ptr(true)
	m.Status.Addresses = []Address{{Type: "Hostname", Address: m.Name}, {Type: "InternalDNS", Address: m.Name}}
	setReady(m, metav1.ConditionTrue, "Provisioned", "")
	return 0, r.client.Status().Update(ctx, m)
}

// join creates the Node if it does not exist.
func (r *machineReconciler) join(ctx context.Context, m *KwokMachine) error {
	node, err := r.node(m)
	if err != nil {
		return fmt.Errorf("describe node: %w", err)
	}
	node.Spec.ProviderID = ProviderID(m.Name)
	err = r.nodes.Create(ctx, node)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	var found corev1.Node
	if err := r.nodes.Get(ctx, client.ObjectKeyFromObject(node), &found); err != nil {
		return err
	}
	if found.Spec.ProviderID != node.Spec.ProviderID {
		return fmt.Errorf("create node %s: a node of this name belongs to another machine, with provider ID %q", node.Name, found.Spec.ProviderID)
	}
	return nil
}

// release deletes the Node when the release lag is over, and removes the finalizer.
func (r *machineReconciler) release(ctx context.Context, m *KwokMachine) (time.Duration, error) {
	if !controllerutil.ContainsFinalizer(m, Finalizer) {
		return 0, nil
	}
	if m.Status.ProvisionTime != nil {
		if m.Status.ReleaseTime == nil {
			m.Status.ReleaseTime = r.now()
			setReady(m, metav1.ConditionFalse, "Releasing", "")
			return 0, r.client.Status().Update(ctx, m)
		}
		if wait := m.Status.ReleaseTime.Add(m.Spec.ReleaseLag.Duration).Sub(r.clock.Now()); wait > 0 {
			return wait, nil
		}
	}
	if err := r.leave(ctx, m); err != nil {
		return 0, err
	}
	controllerutil.RemoveFinalizer(m, Finalizer)
	return 0, r.client.Update(ctx, m)
}

// leave deletes the Node if it exists and belongs to this machine.
func (r *machineReconciler) leave(ctx context.Context, m *KwokMachine) error {
	var node corev1.Node
	err := r.nodes.Get(ctx, client.ObjectKey{Name: m.Name}, &node)
	if err != nil || node.Spec.ProviderID != ProviderID(m.Name) {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(r.nodes.Delete(ctx, &node, client.Preconditions{UID: &node.UID}))
}

// setReady sets the condition Ready and reports whether it changed.
func setReady(m *KwokMachine, status metav1.ConditionStatus, reason, message string) bool {
	return meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: readyCondition, Status: status, Reason: reason, Message: message, ObservedGeneration: m.Generation,
	})
}
