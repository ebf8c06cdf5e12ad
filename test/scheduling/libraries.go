//go:build !kubernetes1.36

package scheduling

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
)

func enqueue(ctx context.Context, q queue.SchedulingQueue, pod *corev1.Pod) {
	q.Add(klog.FromContext(ctx), pod)
}
