// Package learning feeds finished pods into a [runtimes.Learner].
package learning

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/runtimes"
)

// shared holds one learner for each client, so that all plugins and profiles of a scheduler share one watch of finished
// pods.
var shared sync.Map // kubernetes.Interface -> *runtimes.Learner

// Shared returns the learner of a client and starts its watch at the first call; the watch ends with the context of
// that call.
//
// The scheduler's own pod informer omits finished pods. This second watch is of succeeded pods only, stripped to what
// is learned from. After a restart, runtimes are learned again from the pods that still exist.
func Shared(ctx context.Context, client kubernetes.Interface) *runtimes.Learner {
	learner, known := shared.LoadOrStore(client, runtimes.NewLearner())
	if !known {
		watch(ctx, client, learner.(*runtimes.Learner))
		context.AfterFunc(ctx, func() { shared.Delete(client) })
	}
	return learner.(*runtimes.Learner)
}

func watch(ctx context.Context, client kubernetes.Interface, learner *runtimes.Learner) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTransform(strip),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("status.phase", string(corev1.PodSucceeded)).String()
		}))
	// This fails only for a stopped informer, and a new one is not stopped.
	_, _ = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { learner.ObservePod(nil, obj.(*corev1.Pod)) },
	})
	factory.Start(ctx.Done())
}

// strip keeps what is learned from, so that thousands of finished pods need little memory. That includes the annotation
// of a pod that was migrated: such a pod ran only for the rest of its time and is no sample. The value does not matter.
func strip(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	slim := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Status:     corev1.PodStatus{Phase: pod.Status.Phase},
	}
	if category := pod.Annotations[v1alpha1.AnnotationCategory]; category != "" {
		slim.Annotations = map[string]string{v1alpha1.AnnotationCategory: category}
		if _, moved := pod.Annotations[v1alpha1.AnnotationBaseImage]; moved {
			slim.Annotations[v1alpha1.AnnotationBaseImage] = ""
		}
		for _, s := range pod.Status.ContainerStatuses {
			slim.Status.ContainerStatuses = append(slim.Status.ContainerStatuses, corev1.ContainerStatus{State: s.State})
		}
	}
	return slim, nil
}
