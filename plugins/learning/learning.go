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

// shared holds one learner for each client, so that several plugins in several
// profiles of one scheduler watch finished pods once.
var shared sync.Map // kubernetes.Interface -> *runtimes.Learner

// Shared returns the learner of a client and starts its watch when it is asked
// for first; the watch ends with that first caller's context.
//
// kube-scheduler's own pod informer leaves finished pods out, so the watch is a
// second one, of succeeded pods only, stripped to what is learned from. Runtimes
// are learned again from the pods still there after a restart.
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
	// An error here means that the informer has stopped, which one just made has not.
	_, _ = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { learner.ObservePod(nil, obj.(*corev1.Pod)) },
	})
	factory.Start(ctx.Done())
}

// strip keeps what is learned from, so that thousands of finished pods cost little. That
// includes the mark of a pod that was moved, which ran for the rest of its time alone and
// teaches nothing; what the mark says does not matter.
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
