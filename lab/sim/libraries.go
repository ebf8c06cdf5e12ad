//go:build !kubernetes1.36

package sim

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// recorders returns the same recorder for every profile.
func recorders(one events.EventRecorderLogger) profile.RecorderFactory {
	return func(string) events.EventRecorder { return one }
}

func schedulePod(ctx context.Context, s *scheduler.Scheduler, a Attempt, pod *corev1.Pod) (scheduler.ScheduleResult, error) {
	return s.SchedulePod(ctx, a.Framework, a.State, pod)
}
