package podedit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/test/fixtures"
)

// inputOf returns the input for a bare pod on node a that can move to node b.
func inputOf() movable.Input {
	pod := fixtures.MovablePod("work", "a")
	pod.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
	return movable.Input{
		Pod:   pod,
		Nodes: map[string]*corev1.Node{"a": fixtures.AbleNode("a"), "b": fixtures.AbleNode("b")},
	}
}

// owned makes a Job the owner of the input's pod. The Job selects its pods by the label shard too.
func owned(in *movable.Input) *batchv1.Job {
	in.Job = fixtures.OwnerJob(in.Pod)
	in.Job.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "shard", Operator: metav1.LabelSelectorOpExists}}
	in.Pod.Labels["shard"] = "7"
	return in.Job
}

// ofReplicaSet makes a ReplicaSet of a Deployment the owner of the input's pod.
func ofReplicaSet(in *movable.Input) *appsv1.ReplicaSet {
	in.ReplicaSet = fixtures.OwnerReplicaSet(in.Pod)
	in.Pod.Labels["team"] = "blue"
	in.Pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return in.ReplicaSet
}

var planned = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// planFor returns the plan and the new pod of an input.
func planFor(t *testing.T, in movable.Input) (*v1alpha1.MigrationPlan, *corev1.Pod) {
	t.Helper()
	v := movable.Check(in)
	if len(v.Refusals) > 0 {
		t.Fatal(movable.Message(v.Refusals))
	}
	m := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "move", UID: "12345678-9abc"}, Spec: v1alpha1.MigrationSpec{TargetNode: in.TargetNode}}
	plan := NewPlan(in, v, m.UID, planned, time.Minute)
	pod, err := NewPod(m, plan, in.Pod, in.Selector(), "needs")
	if err != nil {
		t.Fatal(err)
	}
	return plan, pod
}

func TestTheNewPodIsTheOldOneOnAnotherNodeAndNobodys(t *testing.T) {
	in := inputOf()
	owned(&in)
	in.Pod.Annotations[batchv1.JobCompletionIndexAnnotation] = "3"
	in.Pod.Annotations[v1alpha1.AnnotationExpectedFinish] = "soon"
	in.Pod.Annotations[corev1.LastAppliedConfigAnnotation] = "{}"
	in.Pod.Spec.InitContainers = []corev1.Container{{Name: "once"}}
	in.Pod.Spec.Tolerations = []corev1.Toleration{{Key: "k"}}
	in.Pod.Spec.Containers[0].Command, in.Pod.Spec.Containers[0].Args = []string{"work"}, []string{"--fast"}
	in.Pod.Spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	in.Pod.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart}}
	plan, pod := planFor(t, in)

	want := &v1alpha1.MigrationPlan{
		StartedAt: metav1.NewTime(planned), DeadlineAt: metav1.NewTime(planned.Add(time.Minute)), SourceNode: "a", PodUID: "uid-work",
		Container: "main", ContainerID: "work", BaseImage: "registry/work:1", Backend: v1alpha1.BackendContainerd, RestoredPod: "work-m12345678",
		Owner: &in.Pod.OwnerReferences[0], Notes: plan.Notes,
	}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	wantPod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "work-m12345678",
			Labels: map[string]string{"app": "work", v1alpha1.LabelClass: "batch", v1alpha1.LabelMigration: "12345678-9abc"},
			Annotations: map[string]string{
				v1alpha1.AnnotationMigration: "checkpoint", v1alpha1.AnnotationMigrationName: "move", AnnotationSource: "work/uid-work", v1alpha1.AnnotationRequirements: "needs",
				v1alpha1.AnnotationBaseImage: "registry/work:1", v1alpha1.AnnotationCommand: `{"command":["work"],"args":["--fast"]}`, batchv1.JobCompletionIndexAnnotation: "3",
				AnnotationWithheldLabels: `{"batch.kubernetes.io/controller-uid":"job-uid","batch.kubernetes.io/job-name":"job","shard":"7"}`,
			},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(30)), Volumes: in.Pod.Spec.Volumes, Tolerations: in.Pod.Spec.Tolerations,
			Containers: []corev1.Container{{Name: "main", Image: "registry/work:1", ImagePullPolicy: corev1.PullNever, Command: []string{RestoredCommand}}},
			Affinity:   pod.Spec.Affinity,
		},
	}
	if diff := cmp.Diff(wantPod, pod); diff != "" {
		t.Errorf("new pod (-want +got):\n%s", diff)
	}
	if got := fields(pod); got != "[[NotIn [a]]]" {
		t.Errorf("it may go to nodes %s", got)
	}
}

// fields returns the node names that each term of a pod's affinity requires.
func fields(pod *corev1.Pod) string {
	var terms [][]string
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		var of []string
		for _, f := range term.MatchFields {
			of = append(of, fmt.Sprintf("%s %s", f.Operator, f.Values))
		}
		terms = append(terms, of)
	}
	return fmt.Sprint(terms)
}

func TestTheNewPodKeepsItsOwnAffinityAndGoesElsewhere(t *testing.T) {
	given := func(fields ...corev1.NodeSelectorRequirement) *corev1.Affinity {
		zone := []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"z"}}}
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: zone, MatchFields: fields}, {MatchFields: fields}},
		}}}
	}
	not := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"old"}}
	for _, tc := range []struct {
		name, target string
		moved        bool
		affinity     *corev1.Affinity
		want         string
	}{
		{"anywhere else", "", false, given(), "[[NotIn [a]] [NotIn [a]]]"},
		{"to one node", "b", false, given(), "[[In [b]] [In [b]]]"},
		{"not to one that its owner does not want", "", false, given(not), "[[NotIn [old] NotIn [a]] [NotIn [old] NotIn [a]]]"},
		{"back to where it came from", "", true, given(not), "[[NotIn [a]] [NotIn [a]]]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := inputOf()
			in.TargetNode = tc.target
			in.Pod.Spec.Affinity = tc.affinity
			if tc.moved {
				in.Pod.Annotations[v1alpha1.AnnotationBaseImage] = "registry/work:0"
			}
			_, pod := planFor(t, in)
			if got := fields(pod); got != tc.want {
				t.Errorf("it may go to nodes %s, want %s", got, tc.want)
			}
			if got := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Key; got != "zone" {
				t.Errorf("its own term has become %s", got)
			}
		})
	}
}

func TestAPodCanBeMovedAgain(t *testing.T) {
	in := inputOf()
	in.Pod.Name = "work-m0a1b2c3d"
	in.Pod.Annotations[v1alpha1.AnnotationBaseImage] = "registry/work:0"
	in.Pod.Annotations[v1alpha1.AnnotationCommand] = `{"args":["--fast"]}`
	in.Pod.Spec.Containers[0].Command = []string{RestoredCommand}
	plan, pod := planFor(t, in)
	if got := pod.Annotations[v1alpha1.AnnotationCommand]; got != `{"args":["--fast"]}` {
		t.Errorf("the command that it keeps is %s, want that of the first pod", got)
	}
	if plan.RestoredPod != "work-m12345678" {
		t.Errorf("name %s", plan.RestoredPod)
	}
}

func TestTheNameOfTheNewPodDoesAsAHostName(t *testing.T) {
	in := inputOf()
	in.Pod.Name = strings.Repeat("x", 52) + "-" + strings.Repeat("y", 100)
	plan, _ := planFor(t, in)
	if want := strings.Repeat("x", 52) + "-m12345678"; plan.RestoredPod != want {
		t.Errorf("named %s, want %s", plan.RestoredPod, want)
	}
}

// Whoever may create a pod may write its annotations. The descheduler creates pods that others may not.
func TestNoAnnotationChoosesTheImageOfTheNewPod(t *testing.T) {
	in := inputOf()
	in.Pod.Annotations[v1alpha1.AnnotationBaseImage] = "supercargo.dev/checkpoint:12345678-9abc"
	plan, pod := planFor(t, in)
	if got := []string{plan.BaseImage, pod.Spec.Containers[0].Image, pod.Annotations[v1alpha1.AnnotationBaseImage]}; slices.ContainsFunc(got, func(image string) bool { return image != "registry/work:1" }) {
		t.Errorf("the images are %q, want that of the pod", got)
	}
}

func TestTheTimeThatAPodMayRunContinues(t *testing.T) {
	in := inputOf()
	in.Pod.Spec.ActiveDeadlineSeconds = new(int64(100))
	in.Pod.Status.StartTime = new(metav1.NewTime(planned.Add(-40 * time.Second)))
	if _, pod := planFor(t, in); *pod.Spec.ActiveDeadlineSeconds != 60 {
		t.Errorf("it may run for %d s, want 60", *pod.Spec.ActiveDeadlineSeconds)
	}
	in.Pod.Status.StartTime = new(metav1.NewTime(planned.Add(-400 * time.Second)))
	if _, pod := planFor(t, in); *pod.Spec.ActiveDeadlineSeconds != 1 {
		t.Errorf("it may run for %d s, want 1", *pod.Spec.ActiveDeadlineSeconds)
	}
}

func TestTheNewPodIsExpectedToRunForTheRest(t *testing.T) {
	started := metav1.NewTime(planned.Add(-40 * time.Second))
	tests := []struct {
		name                    string
		runtime, finish, expect string
		start                   *metav1.Time
	}{
		{"what it says of itself, less what it has run", "100s", "", "1m0s", &started},
		{"until the scheduler expects it to end", "100s", planned.Add(90 * time.Second).Format(time.RFC3339), "1m30s", &started},
		{"also if it has no annotation", "", planned.Add(90 * time.Second).Format(time.RFC3339), "1m30s", &started},
		{"one that is late may end at any time", "30s", "", "1s", &started},
		{"nothing is known", "", "", "", &started},
		{"what it says cannot be read", "soon", "", "soon", &started},
		{"it is not known since when it runs", "100s", "", "100s", nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			in := inputOf()
			in.Pod.Status.StartTime = tc.start
			for key, value := range map[string]string{v1alpha1.AnnotationRuntime: tc.runtime, v1alpha1.AnnotationExpectedFinish: tc.finish} {
				if value != "" {
					in.Pod.Annotations[key] = value
				}
			}
			if _, pod := planFor(t, in); pod.Annotations[v1alpha1.AnnotationRuntime] != tc.expect {
				t.Errorf("runtime %q, want %q", pod.Annotations[v1alpha1.AnnotationRuntime], tc.expect)
			}
		})
	}
}

func TestThePlaceGoesFromOnePodToTheOther(t *testing.T) {
	for _, own := range []func(*movable.Input){func(in *movable.Input) { owned(in) }, func(in *movable.Input) { ofReplicaSet(in) }, func(*movable.Input) {}} {
		in := inputOf()
		own(&in)
		plan, pod := planFor(t, in)
		if HasTakenOver(pod) {
			t.Error("a new pod has the place already")
		}
		taken, err := TakeOver(pod, plan.Owner)
		if err != nil {
			t.Fatal(err)
		}
		if !HasTakenOver(taken) || HasTakenOver(pod) {
			t.Error("the new pod has not taken the place, or the one observed has")
		}
		for key, value := range in.Pod.Labels {
			if taken.Labels[key] != value {
				t.Errorf("label %s is %q, want %q", key, taken.Labels[key], value)
			}
		}
		if diff := cmp.Diff(in.Pod.OwnerReferences, taken.OwnerReferences); diff != "" {
			t.Errorf("owners (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(in.Pod.Finalizers, taken.Finalizers); diff != "" {
			t.Errorf("finalizers (-want +got):\n%s", diff)
		}
		again, err := TakeOver(taken, plan.Owner)
		if diff := cmp.Diff(taken, again); diff != "" || err != nil {
			t.Errorf("a second time is not the same (%v):\n%s", err, diff)
		}
	}
}

func TestAPodThatIsBeingDeletedGetsNoFinalizer(t *testing.T) {
	in := inputOf()
	owned(&in)
	plan, pod := planFor(t, in)
	pod.DeletionTimestamp = &metav1.Time{}
	if taken, err := TakeOver(pod, plan.Owner); err != nil || len(taken.Finalizers) != 0 || len(taken.OwnerReferences) != 1 {
		t.Errorf("%v, finalizers %v, owners %v", err, taken.Finalizers, taken.OwnerReferences)
	}
}

func TestTheOldPodIsNobodysOnceItHasLeftItsPlace(t *testing.T) {
	in := inputOf()
	job := owned(&in)
	in.Pod.OwnerReferences = append(in.Pod.OwnerReferences, metav1.OwnerReference{UID: "other"})
	in.Pod.Finalizers = append(in.Pod.Finalizers, "other/finalizer")
	left := Release(in.Pod, &in.Pod.OwnerReferences[0], job.Spec.Selector)
	if diff := cmp.Diff(map[string]string{"app": "work"}, left.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if len(left.OwnerReferences) != 1 || left.OwnerReferences[0].UID != "other" || !slices.Equal(left.Finalizers, []string{"other/finalizer"}) {
		t.Errorf("owners %v, finalizers %v", left.OwnerReferences, left.Finalizers)
	}
	if without := Release(in.Pod, &in.Pod.OwnerReferences[0], nil); without.Labels["shard"] != "7" || without.Labels[batchv1.JobNameLabel] != "" {
		t.Errorf("without its Job it keeps %v", without.Labels)
	}
}

func TestTheNewPodOfAReplicaSetHasNoLabelByWhichThatFindsIt(t *testing.T) {
	in := inputOf()
	set := ofReplicaSet(&in)
	_, pod := planFor(t, in)
	want := map[string]string{"team": "blue", v1alpha1.LabelClass: "service", v1alpha1.LabelMigration: "12345678-9abc"}
	if diff := cmp.Diff(want, pod.Labels); diff != "" {
		t.Errorf("labels of the new pod (-want +got):\n%s", diff)
	}
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever || len(pod.Finalizers) > 0 {
		t.Errorf("restart policy %s, finalizers %v", pod.Spec.RestartPolicy, pod.Finalizers)
	}
	left := Release(in.Pod, &in.Pod.OwnerReferences[0], set.Spec.Selector)
	if diff := cmp.Diff(map[string]string{"team": "blue"}, left.Labels); diff != "" || len(left.OwnerReferences) > 0 {
		t.Errorf("owners %v, labels of the old pod (-want +got):\n%s", left.OwnerReferences, diff)
	}
	if without := Release(in.Pod, &in.Pod.OwnerReferences[0], nil); without.Labels["app"] != "work" || without.Labels[appsv1.DefaultDeploymentUniqueLabelKey] != "" {
		t.Errorf("without its ReplicaSet it keeps %v", without.Labels)
	}
}

func TestAReplicaSetDeletesTheOldPodBeforeTheNew(t *testing.T) {
	for _, tc := range []struct{ given, want string }{{"", ""}, {"100", "100"}, {"-2147483648", "-2147483647"}} {
		in := inputOf()
		ofReplicaSet(&in)
		if tc.given != "" {
			in.Pod.Annotations[corev1.PodDeletionCost] = tc.given
		}
		_, pod := planFor(t, in)
		if got := pod.Annotations[corev1.PodDeletionCost]; got != tc.want {
			t.Errorf("of a pod with deletion cost %q the new one has %q, want %q", tc.given, got, tc.want)
		}
		before := in.Pod.DeepCopy()
		old := WithLowestDeletionCost(in.Pod)
		if !HasLowestDeletionCost(old) || HasLowestDeletionCost(pod) {
			t.Errorf("the old pod goes first: %v, the new one: %v", HasLowestDeletionCost(old), HasLowestDeletionCost(pod))
		}
		if diff := cmp.Diff(before, in.Pod); diff != "" {
			t.Errorf("the pod that was observed has changed (-was +is):\n%s", diff)
		}
	}
	if !HasLowestDeletionCost(WithLowestDeletionCost(&corev1.Pod{})) {
		t.Error("a pod without annotations does not go first")
	}
}

func TestANoteOfLabelsThatSomebodyHasBrokenIsAnError(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationWithheldLabels: "{"}}}
	if _, err := TakeOver(pod, nil); err == nil {
		t.Error("none")
	}
}

func TestTheNewPodSaysWhichPodItWasMadeFrom(t *testing.T) {
	_, restored := planFor(t, inputOf())
	if name, uid, ok := SourceOf(restored); !ok || name != "work" || uid != "uid-work" {
		t.Errorf("%q, %q, %v", name, uid, ok)
	}
	for _, text := range []string{"", "work", "work/", "/uid-work"} {
		restored.Annotations[AnnotationSource] = text
		if _, _, ok := SourceOf(restored); ok {
			t.Errorf("%q leads to a pod", text)
		}
	}
}
