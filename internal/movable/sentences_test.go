package movable

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// told returns the refusals and the notes about a pod, which without changes is a bare pod that can be moved.
func told(change ...func(*Input)) string {
	in := movableInput()
	for _, f := range change {
		f(&in)
	}
	v := Check(in)
	return Message(v.Refusals) + "\n" + strings.Join(v.Notes, "\n")
}

func toBe(node string) func(*Input) { return func(in *Input) { in.TargetNode = node } }

// says has a pod with that annotation of how it may be moved.
func says(how string) func(*Input) {
	return func(in *Input) { in.Pod.Annotations[v1alpha1.AnnotationMigration] = how }
}

func job(change ...func(*batchv1.Job)) func(*Input) {
	return func(in *Input) {
		j := owned(in)
		for _, f := range change {
			f(j)
		}
	}
}

func replicaSet(change ...func(*appsv1.ReplicaSet)) func(*Input) {
	return func(in *Input) { ofReplicaSet(in, change...) }
}

func container(change func(*corev1.Container)) func(*Input) {
	return func(in *Input) { change(&in.Pod.Spec.Containers[0]) }
}

// The policies of a container, which come before that of its pod, and rules, which come before both.
func always(c *corev1.Container) { c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways) }

func never(c *corev1.Container) { c.RestartPolicy = new(corev1.ContainerRestartPolicyNever) }

func ruled(c *corev1.Container) {
	c.RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart}}
}

// TestEachSentenceAboutAMoveIsSaidWhereItIsTrueAndNotWhereItIsNot has all sentences of the package.
func TestEachSentenceAboutAMoveIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	var all []sentences.Case
	for _, cases := range [][]sentences.Case{aboutThePod(), aboutItsOwner(), aboutVolumesAndProbes(), aboutNodes(), aboutTheNewPod(t)} {
		all = append(all, cases...)
	}
	sentences.Check(t, []string{"*.go"}, all, map[string]string{"exceeded quota": "it matches an error of the API server"})
}

func aboutThePod() []sentences.Case {
	plain := told()
	policy := func(p corev1.RestartPolicy) func(*Input) {
		return func(in *Input) { in.Pod.Spec.RestartPolicy = p }
	}
	phase := func(p corev1.PodPhase) string { return told(func(in *Input) { in.Pod.Status.Phase = p }) }
	two := told(func(in *Input) {
		in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, corev1.Container{Name: "two"})
	})
	service := func(app string) func(*Input) {
		return func(in *Input) {
			in.Services = []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": app}}}}
		}
	}
	return []sentences.Case{
		{"the pod has annotation %s: %q, and a Migration needs %q: set it in the pod template", told(says("never")), told(says("restart"))},
		{"the pod has annotation %s: %q, so it is evicted and not migrated: `kubectl drain` and the Eviction API start it again elsewhere", told(says("restart")), told(says("never"))},
		{"the pod has no annotation %s, and a Migration needs %q: set it in the pod template", told(func(in *Input) { in.Pod.Annotations = nil }), told(says("never"))},
		{"the pod is being deleted", told(func(in *Input) { in.Pod.DeletionTimestamp = &metav1.Time{} }), plain},
		{"the pod is the new pod of a Migration that has not ended: create the Migration again later", told(func(in *Input) { in.Pod.Labels[v1alpha1.LabelMigration] = "u" }),
			told(func(in *Input) { in.Pod.Annotations[v1alpha1.AnnotationMigrationName] = "m" })}, // it has ended
		{"the pod is in gang %s, whose pods are scheduled together: the new pod would not belong to it", told(func(in *Input) { fixtures.Gang("train")(in.Pod) }), plain},
		{"the pod is %s: only pods in phase Running can be moved", phase(corev1.PodPending), plain},
		{"in no phase", phase(""), phase(corev1.PodPending)},
		{"container %s of the pod is not running", told(func(in *Input) { in.Pod.Status.ContainerStatuses[0].State = corev1.ContainerState{} }), plain},
		{"the pod has %d containers, and only one can be frozen and restored consistently: use pods with one container", two, plain},
		{"the pod has sidecar %s: run it in a separate pod", told(func(in *Input) {
			in.Pod.Spec.InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
		}), told(func(in *Input) { in.Pod.Spec.InitContainers = []corev1.Container{{Name: "once"}} })},
		{"the pod has ephemeral container %s, which cannot be removed: this pod cannot be moved", told(func(in *Input) {
			in.Pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "sh"}}}
		}), plain},
		{"the pod claims devices (resourceClaims), whose state cannot be moved: do not request devices", told(func(in *Input) { in.Pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }), plain},
		{"container %s uses %s, whose state cannot be moved: do not request it", told(container(func(c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		})), told(container(func(c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{"ephemeral-storage": resource.MustParse("1Gi")}
		}))},
		{"container %s uses block device %s, which cannot be attached to two nodes", told(container(func(c *corev1.Container) { c.VolumeDevices = []corev1.VolumeDevice{{DevicePath: "/dev/xvda"}} })), plain},
		{"the pod runs with RuntimeClass %s, which CRIU may not support: use the default runtime", told(func(in *Input) { in.Pod.Spec.RuntimeClassName = new("kata") }), plain},
		{"the pod uses %s, which differs between nodes: run the pod without it", told(func(in *Input) { in.Pod.Spec.HostIPC = true }), plain},
		{"the pod has a user namespace of its own (hostUsers: false), whose users have other numbers on each node: run the pod without it",
			told(func(in *Input) { in.Pod.Spec.HostUsers = new(false) }), told(func(in *Input) { in.Pod.Spec.HostUsers = new(true) })},
		{"the pod shares its process namespace (shareProcessNamespace), which contains processes of the node: run the pod without it",
			told(func(in *Input) { in.Pod.Spec.ShareProcessNamespace = new(true) }), told(func(in *Input) { in.Pod.Spec.ShareProcessNamespace = new(false) })},
		{"Service %s sends requests to the pod, and would continue while the pod is frozen: move pods of Services with a rolling update", told(service("work")), told(service("other"))},

		// What changes for it.
		{"the pod continues under a new name and with a new IP address", plain, two},
		{"the new pod has restartPolicy Never, since a checkpoint is restored once", told(policy(corev1.RestartPolicyOnFailure)), told(policy(corev1.RestartPolicyNever))},
		{"the new pod has restartPolicy Never, since a checkpoint is restored once", told(container(always)), told(container(never), policy(corev1.RestartPolicyAlways))},
		{"the new pod has restartPolicy Never, since a checkpoint is restored once", told(container(never), container(ruled)), told(container(never))},
		{"; when it ends, its owner creates a new pod if required", told(policy(corev1.RestartPolicyOnFailure), job()), told(policy(corev1.RestartPolicyOnFailure))},
		{"its command names no program, since its processes come from the checkpoint", plain, two},
		{"the files in its emptyDirs are copied while it is frozen", told(emptyDir("", "")), plain},
		{"its init containers are not run again", told(func(in *Input) { in.Pod.Spec.InitContainers = []corev1.Container{{Name: "once"}} }), plain},
		{"its postStart hook is not run again", told(container(func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}} })),
			told(container(func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{}} }))},
		{"it gets its labels when it takes over: until then they select the frozen pod, for NetworkPolicies too", plain, told(job())},
		{"it gets its labels when it takes over: until then they select the frozen pod, for NetworkPolicies too", plain, told(func(in *Input) { in.Pod.Labels = nil })},
	}
}

// unable has nodes whose agents take no checkpoints.
func unable(in *Input) {
	for _, name := range []string{"a", "b"} {
		in.Nodes[name] = fixtures.AbleNode(name, fixtures.Backends())
	}
}

func aboutItsOwner() []sentences.Case {
	gone := func(in *Input) { in.Job, in.ReplicaSet = nil, nil }
	leaving := &metav1.Time{Time: time.Unix(0, 0)}
	plainJob, plainSet := told(job()), told(replicaSet())
	return []sentences.Case{
		{"the pod is a static pod of its kubelet: move its manifest to the other node", told(func(in *Input) { in.Pod.Annotations[corev1.MirrorPodAnnotationKey] = "x" }), told()},
		{"the pod belongs to %s %s, which would not adopt the new pod: only bare pods and pods of Jobs and ReplicaSets can be moved",
			told(func(in *Input) { in.Pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Flow", Name: "f"}} }), told(ownedBy("Flow"))},
		{"the pod belongs to StatefulSet %s, whose pods keep their names, and two pods cannot have the same name: delete the pod to restart it on another node", told(ownedBy("StatefulSet")), told(ownedBy("Flow"))},
		{"the pod of %s %s belongs to its node", told(ownedBy("DaemonSet")), told(ownedBy("Flow"))},
		{"the pod belongs to %s %s, which would create a replacement itself: only bare pods and pods of Jobs and ReplicaSets can be moved", told(ownedBy("Flow")), told(ownedBy("DaemonSet"))},
		{"Job %s of the pod is gone", told(job(), gone), plainJob},
		{"Job %s of the pod is being deleted", told(job(func(j *batchv1.Job) { j.DeletionTimestamp = leaving })), plainJob},
		{"Job %s is managed by %s, whose handling of replaced pods is unknown: use the Job controller", told(job(func(j *batchv1.Job) { j.Spec.ManagedBy = new("x/y") })),
			told(job(func(j *batchv1.Job) { j.Spec.ManagedBy = new(batchv1.JobControllerName) }))},
		{"Job %s is suspended, so its pods will be deleted", told(job(func(j *batchv1.Job) { j.Spec.Suspend = new(true) })), told(job(func(j *batchv1.Job) { j.Spec.Suspend = new(false) }))},
		{"Job %s replaces pods as soon as they are being deleted, and counts them as failed: ", told(job(func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = nil })), plainJob},
		{"set podReplacementPolicy: Failed (or a podFailurePolicy, which implies it) when you create the Job", told(job(func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = nil })), plainJob},
		{"ReplicaSet %s of the pod is gone", told(replicaSet(), gone), plainSet},
		{"ReplicaSet %s of the pod is being deleted", told(replicaSet(func(s *appsv1.ReplicaSet) { s.DeletionTimestamp = leaving })), plainSet},
		{"ReplicaSet %s is scaled to 0, so its pods will be deleted", told(replicaSet(func(s *appsv1.ReplicaSet) { s.Spec.Replicas = new(int32(0)) })),
			told(replicaSet(func(s *appsv1.ReplicaSet) { s.Spec.Replicas = new(int32(1)) }))},
		{"ReplicaSet %s would adopt the new pod too early: its selector matches pods without the labels that it names", told(replicaSet(func(s *appsv1.ReplicaSet) {
			s.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}}}}
		})), plainSet},
	}
}

func aboutVolumesAndProbes() []sentences.Case {
	probe := func(failures int32, policy corev1.RestartPolicy, change ...func(*corev1.Container)) string {
		return told(func(in *Input) {
			for _, f := range change {
				f(&in.Pod.Spec.Containers[0])
			}
			in.Pod.Spec.RestartPolicy, in.Pod.Spec.Containers[0].LivenessProbe = policy, &corev1.Probe{PeriodSeconds: 10, FailureThreshold: failures}
		})
	}
	startup := func(started bool) string {
		return told(func(in *Input) {
			in.Pod.Spec.Containers[0].StartupProbe, in.Pod.Status.ContainerStatuses[0].Started = &corev1.Probe{}, &started
		})
	}
	strict, tolerant, again := probe(3, corev1.RestartPolicyNever), probe(37, corev1.RestartPolicyNever), probe(37, corev1.RestartPolicyAlways)
	shared := told(claim(corev1.ReadWriteMany))
	return []sentences.Case{
		{"volume %s is an emptyDir of huge pages, which cannot be moved: use medium Memory", told(emptyDir("HugePages", "")), told(emptyDir(corev1.StorageMediumMemory, ""))},
		{"volume %s is an emptyDir of which %s has a part (subPath), whose contents are not moved: mount all of it", told(emptyDir("", "part")), told(emptyDir("", ""))},
		{"volume %s is of a type whose contents may stay on the node: use a claim that many nodes can mount (ReadWriteMany)", told(volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}})),
			told(volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}))},
		{"volume %s uses claim %s, which does not exist", told(claim(), func(in *Input) { in.Claims = nil }), shared},
		{"volume %s uses claim %s, which only one node can mount at a time, and both nodes mount it during the migration: use a claim with access mode ReadWriteMany",
			told(claim(corev1.ReadWriteOnce, corev1.ReadOnlyMany)), told(claim(corev1.ReadWriteOnce, corev1.ReadWriteMany))},
		{"the startup probe of container %s has not succeeded yet, and would kill the container while it is frozen: wait until it has started", startup(false), startup(true)},
		{"container %s has a liveness probe, which kills a container that is frozen for too long, and with restartPolicy %s the kubelet would then start ", again, strict},
		{"container %s has a liveness probe, which kills a container that is frozen for too long, and with restartPolicy %s the kubelet would then start ",
			probe(37, corev1.RestartPolicyNever, always), probe(37, corev1.RestartPolicyAlways, never)},
		{"container %s has a liveness probe, which kills a container that is frozen for too long, and with restartPolicy %s the kubelet would then start ",
			probe(37, corev1.RestartPolicyNever, never, ruled), probe(37, corev1.RestartPolicyNever, never)},
		{"a second copy in addition to the new pod: remove the probe, or use restartPolicy Never", again, strict},
		{"the liveness probe of container %s kills it after %s without a response, and the container can be frozen for up to %s (the deadline and %s): ", strict, tolerant},
		{"remove the probe, raise its failureThreshold to at least %d, or set a shorter deadline", strict, tolerant},
	}
}

func aboutNodes() []sentences.Case {
	without := func(node string) func(*Input) { return func(in *Input) { delete(in.Nodes, node) } }
	unready := func(node string) func(*Input) {
		return func(in *Input) { in.Nodes[node].Status.Conditions = nil }
	}
	alone := told(without("b"))
	return []sentences.Case{
		{"node %s of the pod is gone", told(without("a")), told(unready("a"))},
		{"node %s of the pod is not ready: wait until it is", told(unready("a")), told()},
		{"the agent of node %s cannot take checkpoints: see its log for what the node lacks", told(unable), told()},
		{"node %s not found: use one of `kubectl get nodes`", told(toBe("z")), told(toBe("b"))},
		{"the pod is already on node %s: use another node", told(toBe("a")), told(toBe("b"))},
		{"no other node is ready, accepts pods and has an agent that has reported", alone, told(unready("b"))},
		{"no other node is a possible target: %s", told(unready("b")), alone},
		// The reason is an error that becomes a part of the sentence.
		{"no other node is a possible target: %s", told(func(in *Input) { in.Nodes["b"].Spec.Unschedulable = true }), told()},
		{"no other node is a possible target: %s", told(func(in *Input) { in.Nodes["b"].Annotations = nil }), told()},
	}
}

// aboutTheNewPod has what the API server would make of the new pod.
func aboutTheNewPod(t *testing.T) []sentences.Case {
	t.Helper()
	pods := schema.GroupResource{Resource: "pods"}
	wanted := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelMigration: "uid"}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "checkpoint", ImagePullPolicy: corev1.PullNever}}},
	}
	admitted := func(err error, change ...func(*corev1.Pod)) string {
		t.Helper()
		made := wanted.DeepCopy()
		for _, f := range change {
			f(made)
		}
		refusals, failed := Admitted(wanted, made, err)
		if failed != nil {
			t.Fatal(failed)
		}
		return Message(refusals)
	}
	quota, security := admitted(apierrors.NewForbidden(pods, "p", errors.New("exceeded quota: q"))), admitted(apierrors.NewForbidden(pods, "p", errors.New("violates PodSecurity")))
	pulled := admitted(nil, func(p *corev1.Pod) { p.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways })
	commanded := admitted(nil, func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"wrapped"} })
	mirrored := admitted(nil, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "mirror/work" })
	restarted := admitted(nil, func(p *corev1.Pod) { always(&p.Spec.Containers[0]) })
	mounted := admitted(nil, func(p *corev1.Pod) {
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{MountPath: "/injected"}}
	})
	unlabelled := admitted(nil, func(p *corev1.Pod) { p.Labels = nil })
	return []sentences.Case{
		{"the quota of the namespace does not allow a second pod during the migration: raise its ResourceQuota, or wait (%v)", quota, security},
		{"the API server does not admit the new pod: %v", security, quota},
		// A webhook may also remove one.
		{"admission changes the containers of the new pod: exempt pods with the label %s from the webhook or policy that does so", admitted(nil, func(p *corev1.Pod) { p.Spec.Containers = nil }), mirrored},
		{"admission changes the containers of the new pod: exempt pods with the label %s from the webhook or policy that does so",
			admitted(nil, func(p *corev1.Pod) { p.Spec.InitContainers = make([]corev1.Container, 1) }), admitted(nil, func(p *corev1.Pod) { p.Labels["a"] = "b" })},
		{"admission sets imagePullPolicy to %s, so the new pod would depend on a registry while the old one is frozen: ", pulled, mirrored},
		{"exempt pods with the label %s, or disable the admission plugin AlwaysPullImages", pulled, mirrored},
		{"admission changes %s of the new pod, without which it could start from the beginning or not at all: exempt pods with the label %s from the webhook or policy that does so", commanded, pulled},
		{"the command", commanded, pulled},
		{"the restart policy of the container", restarted, commanded},
		{"the mounts", mounted, commanded},
		{"admission changes %s of the new pod, on which the migration relies: exempt pods with the label %s from the webhook or policy that does so", unlabelled, commanded},
		{"the labels and annotations", unlabelled, commanded},
		{"the restart policy", admitted(nil, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }), unlabelled},
		{"the runtime class", admitted(nil, func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("kata") }), unlabelled},
		{"the volumes", admitted(nil, func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "injected"}} }), unlabelled},
		{"admission changes the image of the new pod from %s to %s: exempt pods with the label %s from the webhook or policy that does so", mirrored, pulled},
	}
}
