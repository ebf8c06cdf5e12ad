package movable

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/test/fixtures"
)

// movableInput returns a bare pod on node a that can move to node b.
func movableInput() Input {
	return Input{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "work", UID: "pod-uid",
				Labels: map[string]string{"app": "work"}, Annotations: map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationCheckpoint},
			},
			Spec: corev1.PodSpec{
				NodeName: "a", RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "main", Image: "registry/work:1", ImagePullPolicy: corev1.PullAlways}},
				Volumes:    []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", ContainerID: "containerd://abc", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}}},
		},
		Method: v1alpha1.MethodCheckpoint,
		Nodes:  map[string]*corev1.Node{"a": node("a"), "b": node("b")},
		Claims: map[string]*corev1.PersistentVolumeClaim{},
	}
}

func node(name string, change ...func(*capability.Node)) *corev1.Node {
	can := capability.Node{Backends: []v1alpha1.MigrationBackend{v1alpha1.BackendContainerd, v1alpha1.BackendRestart}, Arch: "amd64", Restore: true}
	for _, c := range change {
		c(&can)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.AnnotationCapability: can.Encode()}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// owned makes a Job the owner of the input's pod.
func owned(in *Input) *batchv1.Job {
	in.Job = &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "job", UID: "job-uid"},
		Spec: batchv1.JobSpec{PodReplacementPolicy: new(batchv1.Failed), Selector: &metav1.LabelSelector{
			MatchLabels:      map[string]string{batchv1.ControllerUidLabel: "job-uid"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "shard", Operator: metav1.LabelSelectorOpExists}},
		}},
	}
	in.Pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(in.Job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	in.Pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
	in.Pod.Labels[batchv1.ControllerUidLabel], in.Pod.Labels[batchv1.JobNameLabel] = "job-uid", "job"
	in.Pod.Labels["shard"] = "7"
	return in.Job
}

// ofReplicaSet makes a ReplicaSet of a Deployment the owner of the input's pod.
func ofReplicaSet(in *Input, change ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	in.ReplicaSet = &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-5d", UID: "set-uid"},
		Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(2)), Selector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"app": "work", appsv1.DefaultDeploymentUniqueLabelKey: "5d"},
		}},
	}
	for _, c := range change {
		c(in.ReplicaSet)
	}
	in.Pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(in.ReplicaSet, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	in.Pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey], in.Pod.Labels["team"] = "5d", "blue"
	in.Pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return in.ReplicaSet
}

func ownedBy(kind string) func(*Input) {
	return func(in *Input) {
		in.Pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "it", Controller: new(true)}}
	}
}

func volume(source corev1.VolumeSource) func(*Input) {
	return func(in *Input) {
		in.Pod.Spec.Volumes = append(in.Pod.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: source})
	}
}

func claim(modes ...corev1.PersistentVolumeAccessMode) func(*Input) {
	return func(in *Input) {
		volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}})(in)
		in.Claims["disk"] = &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes}}
	}
}

func TestAPodIsRefusedWithTheReasonAndWhatWouldHelp(t *testing.T) {
	container := func(change func(*corev1.Container)) func(*Input) {
		return func(in *Input) { change(&in.Pod.Spec.Containers[0]) }
	}
	for _, tc := range []struct {
		name   string
		change func(*Input)
		reason string // empty: it can be moved
		says   string
	}{
		{"a bare pod", func(*Input) {}, "", ""},
		{"a pod of a Job", func(in *Input) { owned(in) }, "", ""},
		{"a pod of a ReplicaSet", func(in *Input) { ofReplicaSet(in) }, "", ""},
		{"a ReplicaSet that is gone", func(in *Input) { ofReplicaSet(in); in.ReplicaSet = nil }, "Owner", "web-5d of the pod is gone"},
		{"another ReplicaSet of that name", func(in *Input) { ofReplicaSet(in).UID = "later" }, "Owner", "is gone"},
		{"a ReplicaSet that goes", func(in *Input) { ofReplicaSet(in).DeletionTimestamp = &metav1.Time{} }, "Deleting", "is being deleted"},
		{"a ReplicaSet that wants none", func(in *Input) { ofReplicaSet(in).Spec.Replicas = new(int32(0)) }, "ScaledDown", "scaled to 0"},
		{"a ReplicaSet whose pods start anew", func(in *Input) {
			ofReplicaSet(in)
			in.Method, in.Pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MethodRestart, v1alpha1.MigrationRestart
		}, "ReplacedOnEviction", "evict the pod"},
		{"a ReplicaSet that takes what has no label", func(in *Input) {
			ofReplicaSet(in, func(set *appsv1.ReplicaSet) {
				set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}}}}
			})
		}, "Selector", "too early"},
		{"a ReplicaSet that needs one label and not another", func(in *Input) {
			ofReplicaSet(in, func(set *appsv1.ReplicaSet) {
				set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}}}
			})
		}, "", ""},
		{"a ReplicaSet whose selector nobody understands", func(in *Input) {
			ofReplicaSet(in, func(set *appsv1.ReplicaSet) {
				set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
			})
		}, "Selector", "too early"},
		{"a claim for many nodes", claim(corev1.ReadWriteOnce, corev1.ReadWriteMany), "", ""},
		{"a claim to read", claim(corev1.ReadOnlyMany), "", ""},
		{"an init container", func(in *Input) { in.Pod.Spec.InitContainers = []corev1.Container{{Name: "once"}} }, "", ""},
		{"CPU and memory limits", container(func(c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		}), "", ""},
		{"a Service for others", func(in *Input) {
			in.Services = []corev1.Service{
				{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "other"}}},
				{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "headless"}},
				{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "s"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "work"}}},
			}
		}, "", ""},

		{"not opted in", func(in *Input) { in.Pod.Annotations = nil }, "NotOptedIn", `needs "checkpoint"`},
		{"opted in for a restart", func(in *Input) { in.Pod.Annotations[v1alpha1.AnnotationMigration] = "restart" }, "NotOptedIn", `"restart", and method Checkpoint needs "checkpoint"`},
		{"opted in for its state, to be restarted", func(in *Input) { in.Method = v1alpha1.MethodRestart }, "NotOptedIn", `needs "restart"`},
		{"being deleted", func(in *Input) { in.Pod.DeletionTimestamp = &metav1.Time{} }, "Deleting", "being deleted"},
		{"pending", func(in *Input) { in.Pod.Status.Phase = corev1.PodPending }, "NotRunning", "the pod is Pending"},
		{"without a running container", func(in *Input) { in.Pod.Status.ContainerStatuses[0].State = corev1.ContainerState{} }, "NotRunning", "container main"},
		{"static", func(in *Input) { in.Pod.Annotations[corev1.MirrorPodAnnotationKey] = "x" }, "StaticPod", "manifest"},
		{"of a ReplicaSet", ownedBy("ReplicaSet"), "Owner", "ReplicaSet it"},
		{"of a StatefulSet", ownedBy("StatefulSet"), "Owner", "the same name"},
		{"of a DaemonSet", ownedBy("DaemonSet"), "Owner", "belongs to its node"},
		{"of somebody who does not control it", func(in *Input) { in.Pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Flow", Name: "f"}} }, "Owner", "Flow f"},
		{"of a Job that is gone", func(in *Input) { owned(in); in.Job = nil }, "Owner", "is gone"},
		{"of a Job that has another's name", func(in *Input) { owned(in).UID = "other" }, "Owner", "is gone"},
		{"of a Job that is being deleted", func(in *Input) { owned(in).DeletionTimestamp = &metav1.Time{} }, "Deleting", "Job job"},
		{"of a Job that others manage", func(in *Input) { owned(in).Spec.ManagedBy = new("x/y") }, "Owner", "managed by x/y"},
		{"of a suspended Job", func(in *Input) { owned(in).Spec.Suspend = new(true) }, "JobSuspended", "suspended"},
		{"of a Job that replaces too early", func(in *Input) { owned(in).Spec.PodReplacementPolicy = new(batchv1.TerminatingOrFailed) }, "PodReplacementPolicy", "podReplacementPolicy: Failed"},
		{"of a Job that says nothing of it", func(in *Input) { owned(in).Spec.PodReplacementPolicy = nil }, "PodReplacementPolicy", "podFailurePolicy"},
		{"two containers", func(in *Input) {
			in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, corev1.Container{Name: "two"})
		}, "SeveralContainers", "2 containers"},
		{"a sidecar", func(in *Input) {
			in.Pod.Spec.InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
		}, "SeveralContainers", "sidecar proxy"},
		{"debugged", func(in *Input) {
			in.Pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "sh"}}}
		}, "SeveralContainers", "ephemeral container sh"},
		{"a claim to a device", func(in *Input) { in.Pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }, "Devices", "resourceClaims"},
		{"a device", container(func(c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		}), "Devices", "nvidia.com/gpu"},
		{"huge pages", container(func(c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{"hugepages-2Mi": resource.MustParse("2Mi")}
		}), "Devices", "hugepages-2Mi"},
		{"a block device", container(func(c *corev1.Container) { c.VolumeDevices = []corev1.VolumeDevice{{DevicePath: "/dev/xvda"}} }), "Devices", "/dev/xvda"},
		{"the new pod of another Migration", func(in *Input) { in.Pod.Labels = map[string]string{v1alpha1.LabelMigration: "u"} }, "BeingMoved", "has not ended"},
		{"in a gang", func(in *Input) { fixtures.Gang("train")(in.Pod) }, "Gang", "gang train"},
		{"another runtime", func(in *Input) { in.Pod.Spec.RuntimeClassName = new("kata") }, "RuntimeClass", "kata"},
		{"an emptyDir", volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), "EmptyDir", "emptyDir"},
		{"a folder of the node", volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), "Volume", "ReadWriteMany"},
		{"a claim for one node", claim(corev1.ReadWriteOnce), "VolumeOfOneNode", "claim disk"},
		{"a claim for one pod", claim(corev1.ReadWriteOncePod), "VolumeOfOneNode", "claim disk"},
		{"a claim that is not there", func(in *Input) { claim()(in); in.Claims = nil }, "Volume", "does not exist"},
		{"the node's network", func(in *Input) { in.Pod.Spec.HostNetwork = true }, "HostNamespace", "hostNetwork"},
		{"the node's processes", func(in *Input) { in.Pod.Spec.HostPID = true }, "HostNamespace", "hostPID"},
		{"the node's IPC", func(in *Input) { in.Pod.Spec.HostIPC = true }, "HostNamespace", "hostIPC"},
		{"shared processes", func(in *Input) { in.Pod.Spec.ShareProcessNamespace = new(true) }, "HostNamespace", "shareProcessNamespace"},
		{"behind a Service", func(in *Input) {
			in.Services = []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "work"}}}}
		}, "Service", "Service web"},
		{"its node is gone", func(in *Input) { delete(in.Nodes, "a") }, "NodeGone", "node a"},
		{"its node is not ready", func(in *Input) { in.Nodes["a"].Status.Conditions = nil }, "NodeNotReady", "node a"},
		{"no agent", func(in *Input) { in.Nodes["a"].Annotations = nil }, "AgentMissing", "manifests/agent"},
		{"an agent that speaks otherwise", func(in *Input) { in.Nodes["a"].Annotations[v1alpha1.AnnotationCapability] = "{}" }, "AgentMissing", "version"},
		{"an agent without a back-end", func(in *Input) {
			in.Nodes["a"] = node("a", func(n *capability.Node) { n.Backends = []v1alpha1.MigrationBackend{v1alpha1.BackendRestart} })
		}, "NoBackend", "method Checkpoint"},
		{"no such target", func(in *Input) { in.TargetNode = "z" }, "Target", "node z not found"},
		{"the target is where it is", func(in *Input) { in.TargetNode = "a" }, "Target", "already on node a"},
		{"the target is closed", func(in *Input) { in.TargetNode = "b"; in.Nodes["b"].Spec.Unschedulable = true }, "Target", "kubectl uncordon b"},
		{"the target is not ready", func(in *Input) { in.TargetNode = "b"; in.Nodes["b"].Status.Conditions = nil }, "Target", "not ready"},
		{"the target restores nothing", func(in *Input) {
			in.TargetNode = "b"
			in.Nodes["b"] = node("b", func(n *capability.Node) { n.Restore = false })
		}, "Target", "does not restore checkpoints"},
		{"the target is of another kind", func(in *Input) {
			in.TargetNode = "b"
			in.Nodes["b"] = node("b", func(n *capability.Node) { n.Arch = "arm64" })
		}, "Target", "arm64"},
		{"no other node", func(in *Input) { delete(in.Nodes, "b") }, "Target", "no other node"},
		{"no other node that can", func(in *Input) { in.Nodes["b"].Annotations = nil }, "Target", "no agent runs on node b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := movableInput()
			tc.change(&in)
			before := in.Pod.DeepCopy()
			v := Check(in)
			if got := Reason(v.Refusals); got != tc.reason {
				t.Fatalf("refused for %q, want %q: %s", got, tc.reason, Message(v.Refusals))
			}
			if message := Message(v.Refusals); !strings.Contains(message, tc.says) {
				t.Errorf("does not say %q: %s", tc.says, message)
			}
			if diff := cmp.Diff(before, in.Pod); diff != "" {
				t.Errorf("the pod was changed (-was +is):\n%s", diff)
			}
		})
	}
}

func TestAllRefusalsAreFoundAtOnce(t *testing.T) {
	in := movableInput()
	in.Pod.Spec.HostNetwork = true
	volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})(&in)
	v := Check(in)
	var reasons []string
	for _, r := range v.Refusals {
		reasons = append(reasons, r.Reason)
	}
	if want := []string{"EmptyDir", "HostNamespace"}; !slices.Equal(reasons, want) {
		t.Errorf("refused for %v, want %v", reasons, want)
	}
	if len(v.Notes) != 0 {
		t.Errorf("says what changes for a pod that cannot be moved: %v", v.Notes)
	}
}

func TestTheBestBackendThatTheAgentHasIsTaken(t *testing.T) {
	for _, tc := range []struct {
		method v1alpha1.MigrationMethod
		has    []v1alpha1.MigrationBackend
		want   v1alpha1.MigrationBackend
	}{
		{v1alpha1.MethodCheckpoint, []v1alpha1.MigrationBackend{v1alpha1.BackendRestart, v1alpha1.BackendSimulated, v1alpha1.BackendContainerd}, v1alpha1.BackendContainerd},
		{v1alpha1.MethodCheckpoint, []v1alpha1.MigrationBackend{v1alpha1.BackendSimulated}, v1alpha1.BackendSimulated},
		{v1alpha1.MethodRestart, []v1alpha1.MigrationBackend{v1alpha1.BackendContainerd, v1alpha1.BackendRestart}, v1alpha1.BackendRestart},
	} {
		in := movableInput()
		in.Method = tc.method
		if tc.method == v1alpha1.MethodRestart {
			in.Pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
		}
		for _, name := range []string{"a", "b"} {
			in.Nodes[name] = node(name, func(n *capability.Node) { n.Backends = tc.has })
		}
		if v := Check(in); v.Backend != tc.want || len(v.Refusals) > 0 {
			t.Errorf("%s with %v: %s, want %s (%v)", tc.method, tc.has, v.Backend, tc.want, v.Refusals)
		}
	}
}

func TestAPodThatStartsAnewNeedsNoAgentOnItsNewNode(t *testing.T) {
	in := movableInput()
	in.Method, in.TargetNode = v1alpha1.MethodRestart, "b"
	in.Pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
	in.Nodes["b"].Annotations = nil
	if v := Check(in); len(v.Refusals) > 0 {
		t.Errorf("refused: %s", Message(v.Refusals))
	}
}

func TestItSaysWhatChangesForThePod(t *testing.T) {
	in := movableInput()
	in.Pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	owned(&in)
	in.Pod.Spec.InitContainers = []corev1.Container{{Name: "once"}}
	in.Pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}}
	notes := strings.Join(Check(in).Notes, "\n")
	for _, want := range []string{"new name", "restartPolicy Never", "its owner creates a new pod", "init containers are not run again", "postStart"} {
		if !strings.Contains(notes, want) {
			t.Errorf("does not say %q:\n%s", want, notes)
		}
	}
	if notes := strings.Join(Check(movableInput()).Notes, "\n"); !strings.Contains(notes, "it gets its labels when it takes over") {
		t.Errorf("does not say when a bare pod gets its labels:\n%s", notes)
	}
}

func TestWhatTheAPIServerSaysAboutTheNewPod(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	wanted := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "checkpoint", ImagePullPolicy: corev1.PullNever}}}}
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		err    error
		reason string
		fails  bool
	}{
		{name: "it is as wanted"},
		{name: "there is no room in the quota", err: apierrors.NewForbidden(pods, "p", errors.New("exceeded quota: q")), reason: "QuotaExceeded"},
		{name: "PodSecurity forbids it", err: apierrors.NewForbidden(pods, "p", errors.New("violates PodSecurity")), reason: "NotAdmitted"},
		{name: "it is invalid", err: apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", nil), reason: "NotAdmitted"},
		{name: "a webhook denies it", err: apierrors.NewBadRequest("admission webhook denied the request"), reason: "NotAdmitted"},
		{name: "the network is down", err: errors.New("connection refused"), fails: true},
		{name: "the API server is overloaded", err: apierrors.NewTooManyRequests("later", 1), fails: true},
		{name: "images are always pulled", change: func(p *corev1.Pod) { p.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways }, reason: "ImagesAlwaysPulled"},
		{name: "a webhook names another registry", change: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "mirror/checkpoint" }, reason: "PodChanged"},
		{name: "a webhook adds a sidecar", change: func(p *corev1.Pod) { p.Spec.InitContainers = make([]corev1.Container, 1) }, reason: "PodChanged"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			made := wanted.DeepCopy()
			if tc.change != nil {
				tc.change(made)
			}
			refusals, err := Admitted(wanted, made, tc.err)
			if (err != nil) != tc.fails {
				t.Fatalf("error %v, want one: %v", err, tc.fails)
			}
			if got := Reason(refusals); got != tc.reason {
				t.Errorf("refused for %q, want %q", got, tc.reason)
			}
		})
	}
}

var planned = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// planFor returns the plan and the new pod of an input.
func planFor(t *testing.T, in Input) (*v1alpha1.MigrationPlan, *corev1.Pod) {
	t.Helper()
	v := Check(in)
	if len(v.Refusals) > 0 {
		t.Fatal(Message(v.Refusals))
	}
	m := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "move", UID: "12345678-9abc"}, Spec: v1alpha1.MigrationSpec{TargetNode: in.TargetNode}}
	plan := NewPlan(in, v, m.UID, planned, time.Minute)
	pod, err := New(m, plan, in.Pod, in.Selector(), "needs")
	if err != nil {
		t.Fatal(err)
	}
	return plan, pod
}

func TestTheNewPodIsTheOldOneOnAnotherNodeAndNobodys(t *testing.T) {
	in := movableInput()
	owned(&in)
	in.Pod.Annotations[batchv1.JobCompletionIndexAnnotation] = "3"
	in.Pod.Annotations[v1alpha1.AnnotationExpectedFinish] = "soon"
	in.Pod.Annotations[corev1.LastAppliedConfigAnnotation] = "{}"
	in.Pod.Spec.InitContainers = []corev1.Container{{Name: "once"}}
	in.Pod.Spec.Tolerations = []corev1.Toleration{{Key: "k"}}
	plan, pod := planFor(t, in)

	want := &v1alpha1.MigrationPlan{
		StartedAt: metav1.NewTime(planned), DeadlineAt: metav1.NewTime(planned.Add(time.Minute)), SourceNode: "a", PodUID: "pod-uid",
		Container: "main", ContainerID: "abc", BaseImage: "registry/work:1", Backend: v1alpha1.BackendContainerd, RestoredPod: "work-m12345678",
		Image: "supercargo.dev/checkpoint:12345678-9abc", Owner: &in.Pod.OwnerReferences[0], Notes: plan.Notes,
	}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	wantPod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "work-m12345678",
			Labels: map[string]string{"app": "work", v1alpha1.LabelClass: "batch", v1alpha1.LabelMigration: "12345678-9abc"},
			Annotations: map[string]string{
				v1alpha1.AnnotationMigration: "checkpoint", v1alpha1.AnnotationMigrationName: "move", AnnotationSource: "work/pod-uid", v1alpha1.AnnotationRequirements: "needs",
				v1alpha1.AnnotationBaseImage: "registry/work:1", batchv1.JobCompletionIndexAnnotation: "3",
				AnnotationPlace: `{"batch.kubernetes.io/controller-uid":"job-uid","batch.kubernetes.io/job-name":"job","shard":"7"}`,
			},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Volumes: in.Pod.Spec.Volumes, Tolerations: in.Pod.Spec.Tolerations,
			Containers: []corev1.Container{{Name: "main", Image: plan.Image, ImagePullPolicy: corev1.PullNever}},
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
			in := movableInput()
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
	in := movableInput()
	in.Pod.Name = "work-m0a1b2c3d"
	in.Pod.Annotations[v1alpha1.AnnotationBaseImage] = "registry/work:0"
	in.Pod.Spec.Containers[0].Image = "supercargo.dev/checkpoint:earlier"
	plan, pod := planFor(t, in)
	if plan.RestoredPod != "work-m12345678" || plan.BaseImage != "registry/work:0" || pod.Annotations[v1alpha1.AnnotationBaseImage] != "registry/work:0" {
		t.Errorf("name %s, base image %s", plan.RestoredPod, plan.BaseImage)
	}
}

func TestTheNameOfTheNewPodDoesAsAHostName(t *testing.T) {
	in := movableInput()
	in.Pod.Name = strings.Repeat("x", 52) + "-" + strings.Repeat("y", 100)
	plan, _ := planFor(t, in)
	if want := strings.Repeat("x", 52) + "-m12345678"; plan.RestoredPod != want {
		t.Errorf("named %s, want %s", plan.RestoredPod, want)
	}
}

func TestAPodThatStartsAnewKeepsItsImage(t *testing.T) {
	in := movableInput()
	in.Method = v1alpha1.MethodRestart
	in.Pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
	in.Pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	in.Pod.Spec.InitContainers = []corev1.Container{{Name: "once"}}
	plan, pod := planFor(t, in)
	c := pod.Spec.Containers[0]
	if plan.Image != "" || c.Image != "registry/work:1" || c.ImagePullPolicy != corev1.PullAlways || pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || len(pod.Spec.InitContainers) != 1 {
		t.Errorf("plan image %q, container %+v, %s", plan.Image, c, pod.Spec.RestartPolicy)
	}
	in.Pod.Annotations[v1alpha1.AnnotationBaseImage] = "registry/work:0" // it was restored before
	if _, pod = planFor(t, in); pod.Spec.Containers[0].Image != "registry/work:0" || pod.Spec.Containers[0].ImagePullPolicy != corev1.PullIfNotPresent {
		t.Errorf("container %+v", pod.Spec.Containers[0])
	}
}

func TestTheTimeThatAPodMayRunGoesOn(t *testing.T) {
	in := movableInput()
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
		method                  v1alpha1.MigrationMethod
		runtime, finish, expect string
		start                   *metav1.Time
	}{
		{"what it says of itself, less what it has run", v1alpha1.MethodCheckpoint, "100s", "", "1m0s", &started},
		{"until the scheduler expects it to end", v1alpha1.MethodCheckpoint, "100s", planned.Add(90 * time.Second).Format(time.RFC3339), "1m30s", &started},
		{"also if it says nothing of itself", v1alpha1.MethodCheckpoint, "", planned.Add(90 * time.Second).Format(time.RFC3339), "1m30s", &started},
		{"one that is late may end at any time", v1alpha1.MethodCheckpoint, "30s", "", "1s", &started},
		{"nothing is known", v1alpha1.MethodCheckpoint, "", "", "", &started},
		{"what it says cannot be read", v1alpha1.MethodCheckpoint, "soon", "", "soon", &started},
		{"it is not known since when it runs", v1alpha1.MethodCheckpoint, "100s", "", "100s", nil},
		{"one that starts again from nothing", v1alpha1.MethodRestart, "100s", "", "100s", &started},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			in := movableInput()
			in.Method, in.Pod.Status.StartTime = tc.method, tc.start
			if tc.method == v1alpha1.MethodRestart {
				in.Pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
			}
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
	for _, own := range []func(*Input){func(in *Input) { owned(in) }, func(in *Input) { ofReplicaSet(in) }, func(*Input) {}} {
		in := movableInput()
		own(&in)
		plan, pod := planFor(t, in)
		if HasPlace(pod) {
			t.Error("a new pod has the place already")
		}
		taken, err := TakesPlace(pod, plan.Owner)
		if err != nil {
			t.Fatal(err)
		}
		if !HasPlace(taken) || HasPlace(pod) {
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
		again, err := TakesPlace(taken, plan.Owner)
		if diff := cmp.Diff(taken, again); diff != "" || err != nil {
			t.Errorf("a second time is not the same (%v):\n%s", err, diff)
		}
	}
}

func TestAPodThatIsBeingDeletedGetsNoFinalizer(t *testing.T) {
	in := movableInput()
	owned(&in)
	plan, pod := planFor(t, in)
	pod.DeletionTimestamp = &metav1.Time{}
	if taken, err := TakesPlace(pod, plan.Owner); err != nil || len(taken.Finalizers) != 0 || len(taken.OwnerReferences) != 1 {
		t.Errorf("%v, finalizers %v, owners %v", err, taken.Finalizers, taken.OwnerReferences)
	}
}

func TestTheOldPodIsNobodysOnceItHasLeftItsPlace(t *testing.T) {
	in := movableInput()
	job := owned(&in)
	in.Pod.OwnerReferences = append(in.Pod.OwnerReferences, metav1.OwnerReference{UID: "other"})
	in.Pod.Finalizers = append(in.Pod.Finalizers, "other/finalizer")
	left := LeavesPlace(in.Pod, &in.Pod.OwnerReferences[0], job.Spec.Selector)
	if diff := cmp.Diff(map[string]string{"app": "work"}, left.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if len(left.OwnerReferences) != 1 || left.OwnerReferences[0].UID != "other" || !slices.Equal(left.Finalizers, []string{"other/finalizer"}) {
		t.Errorf("owners %v, finalizers %v", left.OwnerReferences, left.Finalizers)
	}
	if without := LeavesPlace(in.Pod, &in.Pod.OwnerReferences[0], nil); without.Labels["shard"] != "7" || without.Labels[batchv1.JobNameLabel] != "" {
		t.Errorf("without its Job it keeps %v", without.Labels)
	}
}

func TestTheNewPodOfAReplicaSetHasNoLabelByWhichThatFindsIt(t *testing.T) {
	in := movableInput()
	set := ofReplicaSet(&in)
	_, pod := planFor(t, in)
	want := map[string]string{"team": "blue", v1alpha1.LabelClass: "service", v1alpha1.LabelMigration: "12345678-9abc"}
	if diff := cmp.Diff(want, pod.Labels); diff != "" {
		t.Errorf("labels of the new pod (-want +got):\n%s", diff)
	}
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever || len(pod.Finalizers) > 0 {
		t.Errorf("restart policy %s, finalizers %v", pod.Spec.RestartPolicy, pod.Finalizers)
	}
	left := LeavesPlace(in.Pod, &in.Pod.OwnerReferences[0], set.Spec.Selector)
	if diff := cmp.Diff(map[string]string{"team": "blue"}, left.Labels); diff != "" || len(left.OwnerReferences) > 0 {
		t.Errorf("owners %v, labels of the old pod (-want +got):\n%s", left.OwnerReferences, diff)
	}
	if without := LeavesPlace(in.Pod, &in.Pod.OwnerReferences[0], nil); without.Labels["app"] != "work" || without.Labels[appsv1.DefaultDeploymentUniqueLabelKey] != "" {
		t.Errorf("without its ReplicaSet it keeps %v", without.Labels)
	}
}

func TestAReplicaSetDeletesTheOldPodBeforeTheNew(t *testing.T) {
	for _, tc := range []struct{ given, want string }{{"", ""}, {"100", "100"}, {"-2147483648", "-2147483647"}} {
		in := movableInput()
		ofReplicaSet(&in)
		if tc.given != "" {
			in.Pod.Annotations[corev1.PodDeletionCost] = tc.given
		}
		_, pod := planFor(t, in)
		if got := pod.Annotations[corev1.PodDeletionCost]; got != tc.want {
			t.Errorf("of a pod with deletion cost %q the new one has %q, want %q", tc.given, got, tc.want)
		}
		before := in.Pod.DeepCopy()
		old := ToGoFirst(in.Pod)
		if !GoesFirst(old) || GoesFirst(pod) {
			t.Errorf("the old pod goes first: %v, the new one: %v", GoesFirst(old), GoesFirst(pod))
		}
		if diff := cmp.Diff(before, in.Pod); diff != "" {
			t.Errorf("the pod that was observed has changed (-was +is):\n%s", diff)
		}
	}
	if !GoesFirst(ToGoFirst(&corev1.Pod{})) {
		t.Error("a pod without annotations does not go first")
	}
}

func TestANoteOfLabelsThatSomebodyHasBrokenIsAnError(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationPlace: "{"}}}
	if _, err := TakesPlace(pod, nil); err == nil {
		t.Error("none")
	}
}

func TestTheNewPodSaysWhichPodItWasMadeFrom(t *testing.T) {
	_, restored := planFor(t, movableInput())
	if name, uid, ok := SourceOf(restored); !ok || name != "work" || uid != "pod-uid" {
		t.Errorf("%q, %q, %v", name, uid, ok)
	}
	for _, text := range []string{"", "work", "work/", "/pod-uid"} {
		restored.Annotations[AnnotationSource] = text
		if _, _, ok := SourceOf(restored); ok {
			t.Errorf("%q leads to a pod", text)
		}
	}
}
