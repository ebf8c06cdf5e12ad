//go:build kubernetes1.37 && !kubernetes1.38

package packingsort

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func enqueue(ctx context.Context, q *queue.PriorityQueue, pod *corev1.Pod) { q.Add(ctx, pod) }

func pop(logger klog.Logger, q *queue.PriorityQueue) (*framework.QueuedPodInfo, error) {
	entity, err := q.Pop(logger)
	if err != nil {
		return nil, err
	}
	return entity.(*framework.QueuedPodInfo), nil // there are no gangs
}

func requeue(logger klog.Logger, q *queue.PriorityQueue, tried *framework.QueuedPodInfo) error {
	return q.AddUnschedulablePodIfNotPresent(logger, tried, q.SchedulingCycle())
}
