//go:build replicas

package replicas

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// The polling interval of a kubelet, and of its heartbeat.
const (
	podSync   = 50 * time.Millisecond
	heartbeat = 5 * time.Second
)

// kubelet simulates the node of all pods, for the pods of one namespace: a pod is Running when its process
// has started, Ready when nginx sends it requests, and deleted when the process has ended.
type kubelet struct {
	client kubernetes.Interface
	node   string
	// namespace contains the pods of this trial; pods of earlier trials are ignored.
	namespace string
	pool      *pool
	pods      map[types.UID]*podProcess
	beat      time.Time
}

// podProcess is the process of a pod.
type podProcess struct {
	*replica
	ready, leaving bool // as reported, and as requested
}

// run syncs pods until ctx ends.
func (k *kubelet) run(ctx context.Context) error {
	k.pods = map[types.UID]*podProcess{}
	for tick := time.Tick(podSync); ; {
		if err := k.observe(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("play the kubelet of %s: %w", k.node, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
	}
}

func (k *kubelet) observe(ctx context.Context) error {
	if time.Since(k.beat) > heartbeat {
		if err := k.renew(ctx); err != nil {
			return err
		}
		k.beat = time.Now()
	}
	pods, err := k.client.CoreV1().Pods(k.namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", k.node).String()})
	if err != nil {
		return err
	}
	var errs []error
	for i := range pods.Items {
		// A pod that has changed meanwhile is synced again in the next round.
		if err := k.sync(ctx, &pods.Items[i]); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sync brings one pod one step further.
func (k *kubelet) sync(ctx context.Context, pod *corev1.Pod) error {
	process, leaves := k.pods[pod.UID], pod.DeletionTimestamp != nil
	switch {
	case process == nil && leaves, process != nil && leaves && closed(process.ended):
		delete(k.pods, pod.UID)
		return k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	case process == nil:
		k.pods[pod.UID] = &podProcess{replica: k.pool.add(pod.Name)}
		return k.say(ctx, pod, corev1.ConditionFalse)
	case leaves && !process.leaving:
		process.leaving = true
		k.pool.remove(process.replica)
	case !leaves && !process.ready && closed(process.serves):
		if err := k.say(ctx, pod, corev1.ConditionTrue); err != nil {
			return err
		}
		process.ready = true
	}
	return nil
}

// say writes the status of a running pod.
func (k *kubelet) say(ctx context.Context, pod *corev1.Pod, ready corev1.ConditionStatus) error {
	now := metav1.Now()
	if pod.Status.StartTime == nil {
		pod.Status.StartTime = &now
	}
	pod.Status.Phase = corev1.PodRunning
	conditions := []corev1.PodCondition{
		{Type: corev1.PodReady, Status: ready, LastTransitionTime: now}, {Type: corev1.ContainersReady, Status: ready, LastTransitionTime: now},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: now},
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			conditions = append(conditions, c)
		}
	}
	pod.Status.Conditions = conditions
	pod.Status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image,
			Ready: ready == corev1.ConditionTrue, Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
	}
	_, err := k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// renew sends the node's heartbeat.
func (k *kubelet) renew(ctx context.Context) error {
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NewMicroTime(time.Now())
	lease, err := leases.Get(ctx, k.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: k.node},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &k.node, LeaseDurationSeconds: ptr.To[int32](40), RenewTime: &now}}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// add starts a replica with a name.
func (p *pool) add(name string) *replica {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begin(name)
}

// remove stops a replica, unless it is already stopping.
func (p *pool) remove(r *replica) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !closed(r.leave) {
		p.dismiss(r)
	}
}
