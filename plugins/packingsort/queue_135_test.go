//go:build !kubernetes1.36

package packingsort

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func enqueue(ctx context.Context, q *queue.PriorityQueue, pod *corev1.Pod) {
	q.Add(klog.FromContext(ctx), pod)
}

func pop(logger klog.Logger, q *queue.PriorityQueue) (*framework.QueuedPodInfo, error) {
	return q.Pop(logger)
}

func requeue(logger klog.Logger, q *queue.PriorityQueue, tried *framework.QueuedPodInfo) error {
	return q.AddUnschedulableIfNotPresent(logger, tried, q.SchedulingCycle())
}
