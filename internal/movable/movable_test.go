package movable

import (
	"errors"
	"slices"
	"strings"
	"testing"

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
	pod := fixtures.MovablePod("work", "a")
	pod.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
	return Input{
		Pod: pod, Claims: map[string]*corev1.PersistentVolumeClaim{},
		Nodes: map[string]*corev1.Node{"a": fixtures.AbleNode("a"), "b": fixtures.AbleNode("b")},
	}
}

// owned makes a Job the owner of the input's pod.
func owned(in *Input) *batchv1.Job {
	in.Job = fixtures.OwnerJob(in.Pod)
	return in.Job
}

// ofReplicaSet makes a ReplicaSet of a Deployment the owner of the input's pod.
func ofReplicaSet(in *Input, change ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	in.ReplicaSet = fixtures.OwnerReplicaSet(in.Pod)
	for _, c := range change {
		c(in.ReplicaSet)
	}
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

// emptyDir adds an emptyDir, of which the container mounts a part, or all of it.
func emptyDir(medium corev1.StorageMedium, part string) func(*Input) {
	return func(in *Input) {
		volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}})(in)
		in.Pod.Spec.Containers[0].VolumeMounts = append(in.Pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: "/data", SubPath: part})
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
		{"a ReplicaSet that is gone", func(in *Input) { ofReplicaSet(in); in.ReplicaSet = nil }, "OwnerUnsupported", "web-5d of the pod is gone"},
		{"another ReplicaSet of that name", func(in *Input) { ofReplicaSet(in).UID = "later" }, "OwnerUnsupported", "is gone"},
		{"a ReplicaSet that goes", func(in *Input) { ofReplicaSet(in).DeletionTimestamp = &metav1.Time{} }, "Deleting", "is being deleted"},
		{"a ReplicaSet that wants none", func(in *Input) { ofReplicaSet(in).Spec.Replicas = new(int32(0)) }, "ScaledDown", "scaled to 0"},
		{"a ReplicaSet that takes what has no label", func(in *Input) {
			ofReplicaSet(in, func(set *appsv1.ReplicaSet) {
				set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}}}}
			})
		}, "SelectorUnsupported", "too early"},
		{"a ReplicaSet that needs one label and not another", func(in *Input) {
			ofReplicaSet(in, func(set *appsv1.ReplicaSet) {
				set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}}}
			})
		}, "", ""},
		{"a ReplicaSet whose selector nobody understands", func(in *Input) {
			ofReplicaSet(in, func(set *appsv1.ReplicaSet) {
				set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
			})
		}, "SelectorUnsupported", "too early"},
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
		{"opted in for a restart", func(in *Input) { in.Pod.Annotations[v1alpha1.AnnotationMigration] = "restart" }, "NotOptedIn", `"restart", so it is evicted and not migrated`},
		{"opted out", func(in *Input) { in.Pod.Annotations[v1alpha1.AnnotationMigration] = "never" }, "NotOptedIn", `"never", and a Migration needs "checkpoint"`},
		{"being deleted", func(in *Input) { in.Pod.DeletionTimestamp = &metav1.Time{} }, "Deleting", "being deleted"},
		{"pending", func(in *Input) { in.Pod.Status.Phase = corev1.PodPending }, "NotRunning", "the pod is Pending"},
		{"without a running container", func(in *Input) { in.Pod.Status.ContainerStatuses[0].State = corev1.ContainerState{} }, "NotRunning", "container main"},
		{"static", func(in *Input) { in.Pod.Annotations[corev1.MirrorPodAnnotationKey] = "x" }, "StaticPodUnsupported", "manifest"},
		{"of a ReplicaSet", ownedBy("ReplicaSet"), "OwnerUnsupported", "ReplicaSet it"},
		{"of a StatefulSet", ownedBy("StatefulSet"), "OwnerUnsupported", "the same name"},
		{"of a DaemonSet", ownedBy("DaemonSet"), "OwnerUnsupported", "belongs to its node"},
		{"of somebody who does not control it", func(in *Input) { in.Pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Flow", Name: "f"}} }, "OwnerUnsupported", "Flow f"},
		{"of a Job that is gone", func(in *Input) { owned(in); in.Job = nil }, "OwnerUnsupported", "is gone"},
		{"of a Job that has another's name", func(in *Input) { owned(in).UID = "other" }, "OwnerUnsupported", "is gone"},
		{"of a Job that is being deleted", func(in *Input) { owned(in).DeletionTimestamp = &metav1.Time{} }, "Deleting", "Job job"},
		{"of a Job that others manage", func(in *Input) { owned(in).Spec.ManagedBy = new("x/y") }, "OwnerUnsupported", "managed by x/y"},
		{"of a suspended Job", func(in *Input) { owned(in).Spec.Suspend = new(true) }, "JobSuspended", "suspended"},
		{"of a Job that replaces too early", func(in *Input) { owned(in).Spec.PodReplacementPolicy = new(batchv1.TerminatingOrFailed) }, "PodReplacementPolicyUnsupported", "podReplacementPolicy: Failed"},
		{"of a Job that does not specify it", func(in *Input) { owned(in).Spec.PodReplacementPolicy = nil }, "PodReplacementPolicyUnsupported", "podFailurePolicy"},
		{"two containers", func(in *Input) {
			in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, corev1.Container{Name: "two"})
		}, "MultipleContainers", "2 containers"},
		{"a sidecar", func(in *Input) {
			in.Pod.Spec.InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
		}, "MultipleContainers", "sidecar proxy"},
		{"debugged", func(in *Input) {
			in.Pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "sh"}}}
		}, "MultipleContainers", "ephemeral container sh"},
		{"a claim to a device", func(in *Input) { in.Pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }, "DevicesUnsupported", "resourceClaims"},
		{"a device", container(func(c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		}), "DevicesUnsupported", "nvidia.com/gpu"},
		{"huge pages", container(func(c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{"hugepages-2Mi": resource.MustParse("2Mi")}
		}), "DevicesUnsupported", "hugepages-2Mi"},
		{"a block device", container(func(c *corev1.Container) { c.VolumeDevices = []corev1.VolumeDevice{{DevicePath: "/dev/xvda"}} }), "DevicesUnsupported", "/dev/xvda"},
		{"the new pod of another Migration", func(in *Input) { in.Pod.Labels = map[string]string{v1alpha1.LabelMigration: "u"} }, "BeingMoved", "has not ended"},
		{"in a gang", func(in *Input) { fixtures.Gang("train")(in.Pod) }, "GangUnsupported", "gang train"},
		{"another runtime", func(in *Input) { in.Pod.Spec.RuntimeClassName = new("kata") }, "RuntimeClassUnsupported", "kata"},
		{"an emptyDir", emptyDir(corev1.StorageMediumDefault, ""), "", ""},
		{"an emptyDir in memory", emptyDir(corev1.StorageMediumMemory, ""), "", ""},
		{"an emptyDir of huge pages", emptyDir("HugePages-2Mi", ""), "EmptyDirUnsupported", "use medium Memory"},
		{"a part of an emptyDir", emptyDir(corev1.StorageMediumDefault, "part"), "EmptyDirUnsupported", "mount all of it"},
		{"a part of an emptyDir by a variable", func(in *Input) {
			emptyDir(corev1.StorageMediumDefault, "")(in)
			in.Pod.Spec.Containers[0].VolumeMounts[0].SubPathExpr = "$(POD)"
		}, "EmptyDirUnsupported", "/data"},
		{"a folder of the node", volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), "VolumeUnsupported", "ReadWriteMany"},
		{"a claim for one node", claim(corev1.ReadWriteOnce), "VolumeNotShared", "claim disk"},
		{"a claim for one node to write, or many to read", claim(corev1.ReadWriteOnce, corev1.ReadOnlyMany), "VolumeNotShared", "claim disk"},
		{"a claim of no mode", claim(), "VolumeNotShared", "claim disk"},
		{"a claim for one pod", claim(corev1.ReadWriteOncePod), "VolumeNotShared", "claim disk"},
		{"a claim that is not there", func(in *Input) { claim()(in); in.Claims = nil }, "VolumeUnsupported", "does not exist"},
		{"the node's network", func(in *Input) { in.Pod.Spec.HostNetwork = true }, "HostNamespaceUnsupported", "hostNetwork"},
		{"the node's processes", func(in *Input) { in.Pod.Spec.HostPID = true }, "HostNamespaceUnsupported", "hostPID"},
		{"the node's IPC", func(in *Input) { in.Pod.Spec.HostIPC = true }, "HostNamespaceUnsupported", "hostIPC"},
		{"users of its own", func(in *Input) { in.Pod.Spec.HostUsers = new(false) }, "UserNamespaceUnsupported", "hostUsers: false"},
		{"shared processes", func(in *Input) { in.Pod.Spec.ShareProcessNamespace = new(true) }, "HostNamespaceUnsupported", "shareProcessNamespace"},
		{"behind a Service", func(in *Input) {
			in.Services = []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "work"}}}}
		}, "ServiceUnsupported", "Service web"},
		{"its node is gone", func(in *Input) { delete(in.Nodes, "a") }, "NodeGone", "node a"},
		{"its node is not ready", func(in *Input) { in.Nodes["a"].Status.Conditions = nil }, "NodeNotReady", "node a"},
		{"no agent", func(in *Input) { in.Nodes["a"].Annotations = nil }, "AgentMissing", "manifests/agent"},
		{"an agent that speaks otherwise", func(in *Input) { in.Nodes["a"].Annotations[v1alpha1.AnnotationCapability] = "{}" }, "AgentMissing", "version"},
		{"an agent without a back-end", func(in *Input) {
			in.Nodes["a"] = fixtures.AbleNode("a", fixtures.Backends())
		}, "NoBackend", "cannot take checkpoints"},
		{"no such target", func(in *Input) { in.TargetNode = "z" }, "TargetUnsuitable", "node z not found"},
		{"the target is where it is", func(in *Input) { in.TargetNode = "a" }, "TargetUnsuitable", "already on node a"},
		{"the target is closed", func(in *Input) { in.TargetNode = "b"; in.Nodes["b"].Spec.Unschedulable = true }, "TargetUnsuitable", "kubectl uncordon b"},
		{"the target is not ready", func(in *Input) { in.TargetNode = "b"; in.Nodes["b"].Status.Conditions = nil }, "TargetUnsuitable", "not ready"},
		{"the target restores nothing", func(in *Input) {
			in.TargetNode = "b"
			in.Nodes["b"] = fixtures.AbleNode("b", func(n *capability.Node) { n.Restore = false })
		}, "TargetUnsuitable", "does not restore checkpoints"},
		{"the target is of another kind", func(in *Input) {
			in.TargetNode = "b"
			in.Nodes["b"] = fixtures.AbleNode("b", func(n *capability.Node) { n.Arch = "arm64" })
		}, "TargetUnsuitable", "arm64"},
		{"no other node", func(in *Input) { delete(in.Nodes, "b") }, "TargetUnsuitable", "no other node is ready"},
		{"no other node that can", func(in *Input) { in.Nodes["b"].Annotations = nil }, "TargetUnsuitable", "no agent has reported on node b"},
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
	emptyDir("HugePages", "")(&in)
	v := Check(in)
	var reasons []string
	for _, r := range v.Refusals {
		reasons = append(reasons, r.Reason)
	}
	if want := []string{"EmptyDirUnsupported", "HostNamespaceUnsupported"}; !slices.Equal(reasons, want) {
		t.Errorf("refused for %v, want %v", reasons, want)
	}
	if len(v.Notes) != 0 {
		t.Errorf("says what changes for a pod that cannot be moved: %v", v.Notes)
	}
}

func TestTheBestBackendThatTheAgentHasIsTaken(t *testing.T) {
	for _, tc := range []struct {
		has  []v1alpha1.MigrationBackend
		want v1alpha1.MigrationBackend
	}{
		{[]v1alpha1.MigrationBackend{v1alpha1.BackendSimulated, v1alpha1.BackendContainerd}, v1alpha1.BackendContainerd},
		{[]v1alpha1.MigrationBackend{v1alpha1.BackendSimulated}, v1alpha1.BackendSimulated},
	} {
		in := movableInput()
		for _, name := range []string{"a", "b"} {
			in.Nodes[name] = fixtures.AbleNode(name, fixtures.Backends(tc.has...))
		}
		if v := Check(in); v.Backend != tc.want || len(v.Refusals) > 0 {
			t.Errorf("%v: %s, want %s (%v)", tc.has, v.Backend, tc.want, v.Refusals)
		}
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
	wanted := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelMigration: "uid"}, Annotations: map[string]string{v1alpha1.AnnotationMigrationName: "m"}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "checkpoint", ImagePullPolicy: corev1.PullNever}}},
	}
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
		{name: "a webhook drops the label", change: func(p *corev1.Pod) { p.Labels = nil }, reason: "PodChanged"},
		{name: "a webhook drops annotations", change: func(p *corev1.Pod) { p.Annotations = nil }, reason: "PodChanged"},
		{name: "a webhook adds a label and an annotation", change: func(p *corev1.Pod) { p.Labels["team"], p.Annotations["a"] = "blue", "b" }},
		{name: "a webhook has it restarted", change: func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }, reason: "PodChanged"},
		{name: "a webhook has its container restarted", change: func(p *corev1.Pod) { always(&p.Spec.Containers[0]) }, reason: "PodChanged"},
		{name: "a webhook has its container restarted by a rule", change: func(p *corev1.Pod) { ruled(&p.Spec.Containers[0]) }, reason: "PodChanged"},
		{name: "a webhook mounts a volume", change: func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{MountPath: "/certs"}} }, reason: "PodChanged"},
		{name: "a webhook adds a volume", change: func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "certs"}} }, reason: "PodChanged"},
		{name: "a webhook selects a runtime", change: func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("gvisor") }, reason: "PodChanged"},
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
