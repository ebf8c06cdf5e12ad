package dump

import (
	"fmt"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// machine is an instance type and its allocatable resources.
type machine struct {
	name       string
	milli, mib int64
	maxPods    int64
}

var machines = []machine{
	{"m5.xlarge", 3920, 14162, 58}, {"m5.2xlarge", 7910, 29317, 58}, {"r5.xlarge", 3920, 29317, 58}, {"c5.2xlarge", 7910, 14162, 58}, {"m5.4xlarge", 15890, 57991, 234},
}

var created = metav1.NewTime(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))

// free is the free room of a node.
type free struct{ milli, mib, places int64 }

// generate makes the objects of a cluster: Deployments of a few to a hundred pods of similar size, spread
// over nodes that are about half full. Unless plain is set, one in ten Deployments keeps its pods on
// different nodes and one in ten spreads them over zones; one in ten has a PodDisruptionBudget that allows no
// disruption.
func generate(nodes, pods int, random *rand.Rand, plain bool, emit func(any) error) error {
	if err := emit(daemonSet()); err != nil {
		return err
	}
	left := make([]free, nodes)
	for i := range nodes {
		m := machines[random.IntN(len(machines))]
		left[i] = free{m.milli - 100, m.mib - 128, m.maxPods - 1}
		if err := emit(node(i, m)); err != nil {
			return err
		}
		if err := emit(daemonPod(i)); err != nil {
			return err
		}
	}
	for d, made := 0, 0; made < pods; d++ {
		replicas := min(pods-made, 2+random.IntN(98))
		if d%10 == 1 {
			replicas = min(replicas, 10, nodes) // each on its own node
		}
		milli, mib := int64(50*(1+random.IntN(6))), int64(128*(1+random.IntN(8)))
		if d%10 == 3 {
			b := budget(d)
			if err := emit(b); err != nil {
				return err
			}
		}
		from := random.IntN(nodes)
		for r := range replicas {
			at := -1
			for try := range nodes {
				n := (from + r*7 + try) % nodes
				if left[n].milli >= milli && left[n].mib >= mib && left[n].places > 0 {
					at = n
					break
				}
			}
			made++
			if at < 0 {
				continue // the cluster is full
			}
			left[at].milli, left[at].mib, left[at].places = left[at].milli-milli, left[at].mib-mib, left[at].places-1
			if err := emit(pod(d, r, at, milli, mib, plain)); err != nil {
				return err
			}
		}
	}
	return nil
}

func nodeName(i int) string {
	return fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", i>>16, i>>8&255, i&255)
}

func zone(i int) string { return "us-east-1" + string("abc"[i%3]) }

func node(i int, m machine) *corev1.Node {
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(m.milli, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(m.mib<<20, resource.BinarySI),
		corev1.ResourcePods: *resource.NewQuantity(m.maxPods, resource.DecimalSI),
	}
	n := &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), UID: types.UID(fmt.Sprintf("node-%d", i)), CreationTimestamp: created, Labels: map[string]string{
			corev1.LabelHostname: nodeName(i), corev1.LabelInstanceTypeStable: m.name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
			corev1.LabelTopologyZone: zone(i), corev1.LabelTopologyRegion: "us-east-1", "eks.amazonaws.com/nodegroup": "general",
		}},
		Spec: corev1.NodeSpec{ProviderID: fmt.Sprintf("aws:///%s/i-%017x", zone(i), i)},
	}
	n.Status.Capacity, n.Status.Allocatable = amounts, amounts
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: created, LastHeartbeatTime: created}}
	return n
}

func daemonSet() *appsv1.DaemonSet {
	labels := map[string]string{"app": "agent"}
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{container(100, 128)}}},
		},
	}
}

func daemonPod(i int) *corev1.Pod {
	p := basicPod("kube-system", fmt.Sprintf("agent-%05d", i), i, 100, 128)
	p.Labels = map[string]string{"app": "agent"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true)}}
	return p
}

func container(milli, mib int64) corev1.Container {
	return corev1.Container{
		Name: "main", Image: "registry.example.com/app:1.2.3", ImagePullPolicy: corev1.PullIfNotPresent,
		Env: []corev1.EnvVar{{Name: "MODE", Value: "production"}, {Name: "LOG_LEVEL", Value: "info"}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(mib<<20, resource.BinarySI),
		}},
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		VolumeMounts:   []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 10},
	}
}

func basicPod(namespace, name string, at int, milli, mib int64) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), CreationTimestamp: created, ResourceVersion: "123456"},
		Spec: corev1.PodSpec{
			NodeName: nodeName(at), RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, ServiceAccountName: "default", SchedulerName: "default-scheduler",
			Containers:                    []corev1.Container{container(milli, mib)},
			TerminationGracePeriodSeconds: new(int64(30)),
			Tolerations: []corev1.Toleration{
				{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
			},
			Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}}},
			}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &created, HostIP: "10.0.0.1", PodIP: "10.1.0.1", QOSClass: corev1.PodQOSBurstable},
	}
	for _, c := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: created})
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Ready: true, Started: new(true), Image: "registry.example.com/app:1.2.3", ImageID: "registry.example.com/app@sha256:0123456789abcdef",
		ContainerID: "containerd://0123456789abcdef0123456789abcdef", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: created}},
	}}
	return p
}

func pod(d, r, at int, milli, mib int64, plain bool) *corev1.Pod {
	hash := fmt.Sprintf("%09x", d*7919+1)
	set := fmt.Sprintf("app-%d-%s", d, hash)
	p := basicPod(namespace(d), fmt.Sprintf("%s-%05d", set, r), at, milli, mib)
	p.Labels = map[string]string{"app": fmt.Sprintf("app-%d", d), "pod-template-hash": hash}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: types.UID(set), Controller: new(true)}}
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}}
	switch {
	case d%10 == 5:
		p.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
	case d%10 == 7:
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	case plain:
	case d%10 == 1:
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{LabelSelector: own, TopologyKey: corev1.LabelHostname},
		}}}
	case d%10 == 2:
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own}}
	}
	return p
}

func namespace(d int) string { return fmt.Sprintf("team-%d", d%50) }

func budget(d int) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace(d), Name: fmt.Sprintf("app-%d", d)},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromString("100%")), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("app-%d", d)}},
		},
	}
}
