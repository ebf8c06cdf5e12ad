package movable

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Changed returns the refusals that follow from how the API server changes the new pod: made is that pod, or what a dry run
// returned. Only what the migration relies on is compared.
func Changed(wanted, made *corev1.Pod) []Refusal {
	var v Verdict
	if len(made.Spec.Containers) != len(wanted.Spec.Containers) || len(made.Spec.InitContainers) != len(wanted.Spec.InitContainers) {
		v.refuse(v1alpha1.MigrationReasonPodChanged, "admission changes the containers of the new pod: exempt pods with the label %s from the webhook or policy that does so", v1alpha1.LabelMigration)
		return v.Refusals
	}
	for _, part := range []struct {
		what    string
		changed bool
	}{
		{"the labels and annotations", !identified(wanted, made)},
		{"the restart policy", made.Spec.RestartPolicy != wanted.Spec.RestartPolicy},
		{"the runtime class", !equality.Semantic.DeepEqual(made.Spec.RuntimeClassName, wanted.Spec.RuntimeClassName)},
		{"the volumes", !slices.EqualFunc(made.Spec.Volumes, wanted.Spec.Volumes, func(a, b corev1.Volume) bool { return a.Name == b.Name })},
	} {
		if part.changed {
			v.refuse(v1alpha1.MigrationReasonPodChanged, "admission changes %s of the new pod, on which the migration relies: exempt pods with the label %s from the webhook or policy that does so",
				part.what, v1alpha1.LabelMigration)
		}
	}
	for i := range wanted.Spec.Containers {
		v.compare(&wanted.Spec.Containers[i], &made.Spec.Containers[i])
	}
	return v.Refusals
}

// identified reports whether a pod has the label and the annotations by which a migration and its agents recognize it.
func identified(wanted, made *corev1.Pod) bool {
	same := made.Labels[v1alpha1.LabelMigration] == wanted.Labels[v1alpha1.LabelMigration]
	for _, key := range []string{v1alpha1.AnnotationMigrationName, v1alpha1.AnnotationBaseImage, v1alpha1.AnnotationCommand, v1alpha1.AnnotationRequirements} {
		same = same && made.Annotations[key] == wanted.Annotations[key]
	}
	return same
}

// compare refuses changes of a container.
func (v *Verdict) compare(want, got *corev1.Container) {
	if want.ImagePullPolicy == corev1.PullNever && got.ImagePullPolicy != corev1.PullNever {
		v.refuse(v1alpha1.MigrationReasonImagesAlwaysPulled, "admission sets imagePullPolicy to %s, so the new pod would depend on a registry while the old one is frozen: "+
			"exempt pods with the label %s, or disable the admission plugin AlwaysPullImages", got.ImagePullPolicy, v1alpha1.LabelMigration)
	}
	if got.Image != want.Image {
		v.refuse(v1alpha1.MigrationReasonPodChanged, "admission changes the image of the new pod from %s to %s: exempt pods with the label %s from the webhook or policy that does so",
			want.Image, got.Image, v1alpha1.LabelMigration)
	}
	for _, part := range []struct {
		what    string
		changed bool
	}{
		{"the command", !slices.Equal(got.Command, want.Command)},
		{"the restart policy of the container", !equality.Semantic.DeepEqual(got.RestartPolicy, want.RestartPolicy) || len(got.RestartPolicyRules) != len(want.RestartPolicyRules)},
		{"the mounts", !slices.EqualFunc(got.VolumeMounts, want.VolumeMounts, func(a, b corev1.VolumeMount) bool { return a.MountPath == b.MountPath })},
	} {
		if part.changed {
			v.refuse(v1alpha1.MigrationReasonPodChanged, "admission changes %s of the new pod, without which it could start from the beginning or not at all: exempt pods with the label %s from the webhook or policy that does so",
				part.what, v1alpha1.LabelMigration)
		}
	}
}
