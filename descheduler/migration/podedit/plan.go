// Package podedit makes the objects and the edits of pods with which a Migration moves a pod: its plan (plan.go), the
// new pod (newpod.go), and how the new pod takes over from the old one (takeover.go).
//
// All functions are pure: they return changed copies, and leave the given pods as they are.
package podedit

import (
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable"
)

// NewPlan returns the plan for a pod that passed [movable.Check]. uid is that of the Migration; it makes names unique.
func NewPlan(in movable.Input, v movable.Verdict, uid types.UID, now time.Time, deadline time.Duration) *v1alpha1.MigrationPlan {
	pod := in.Pod
	return &v1alpha1.MigrationPlan{
		StartedAt:   metav1.NewTime(now),
		DeadlineAt:  metav1.NewTime(now.Add(deadline)),
		SourceNode:  pod.Spec.NodeName,
		PodUID:      string(pod.UID),
		Container:   pod.Spec.Containers[0].Name,
		ContainerID: ContainerID(pod),
		BaseImage:   pod.Spec.Containers[0].Image, // not annotation base-image, which any creator of pods can set
		Backend:     v.Backend,
		RestoredPod: newName(pod, uid),
		Owner:       metav1.GetControllerOf(pod),
		Notes:       v.Notes,
	}
}

// moved matches the end of the name of a pod that was moved.
var moved = regexp.MustCompile(`-m[0-9a-f]{8}$`)

// newName returns the name of the new pod: that of the old one without the suffix of an earlier move, plus a suffix for
// this move. The name must be valid as a host name.
func newName(pod *corev1.Pod, uid types.UID) string {
	base := pod.Name
	if _, before := pod.Annotations[v1alpha1.AnnotationBaseImage]; before {
		base = moved.ReplaceAllString(base, "")
	}
	mark := "-m" + (strings.ReplaceAll(string(uid), "-", "") + "00000000")[:8]
	const longest = 63
	if len(base) > longest-len(mark) {
		base = strings.TrimRight(base[:longest-len(mark)], "-.")
	}
	return base + mark
}

// ContainerID returns the ID of the pod's container without the runtime's prefix, or "" if it is not set.
func ContainerID(pod *corev1.Pod) string {
	if len(pod.Status.ContainerStatuses) == 0 {
		return ""
	}
	id := pod.Status.ContainerStatuses[0].ContainerID
	if _, after, ok := strings.Cut(id, "://"); ok {
		return after
	}
	return id
}
