//go:build kubernetes1.36

package sim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// recorders returns the same recorder for every profile.
func recorders(one events.EventRecorderLogger) profile.RecorderFactory {
	return func(string) events.EventRecorderLogger { return one }
}

// schedulePod also updates the snapshot of the cluster and signs the pod, which since 1.36 are duties of
// the caller of SchedulePod.
func schedulePod(ctx context.Context, s *scheduler.Scheduler, a Attempt, pod *corev1.Pod) (scheduler.ScheduleResult, error) {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return scheduler.ScheduleResult{}, err
	}
	snapshot, ok := a.Framework.SnapshotSharedLister().(*cache.Snapshot)
	if !ok {
		return scheduler.ScheduleResult{}, fmt.Errorf("schedule pod %s: the scheduler's snapshot is a %T", pod.Name, a.Framework.SnapshotSharedLister())
	}
	if err := s.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		return scheduler.ScheduleResult{}, fmt.Errorf("schedule pod %s: take a snapshot: %w", pod.Name, err)
	}
	return s.SchedulePod(ctx, a.Framework, a.State, &framework.QueuedPodInfo{PodInfo: info, PodSignature: a.Framework.SignPod(ctx, pod)})
}
