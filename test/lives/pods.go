package lives

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// pod returns a new pod of a workload, whose pods have the same template.
func (l *life) pod(namespace, name, owner string, requests corev1.ResourceList) *corev1.Pod {
	l.made++
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(fmt.Sprint("pod-uid-", l.made)), CreationTimestamp: metav1.NewTime(l.now.Truncate(time.Second)),
			Labels: map[string]string{"app": name}, Annotations: map[string]string{},
		},
		Spec:   corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "owner", UID: "owner", Controller: new(true)}}
	}
	return p
}

// workloadComes creates pods of a Deployment, a Job, a StatefulSet, or without a controller.
func (l *life) workloadComes() error {
	owner := oneOf(l, "ReplicaSet", "ReplicaSet", "Job", "Job", "Job", "StatefulSet", "")
	base, namespace := fmt.Sprint("w-", l.made), oneOf(l, "default", "shop", "jobs")
	if l.oneIn(6) {
		base = "same" // as another workload, in this or another namespace
	}
	requests := l.requests()
	seed := l.r.Uint64()
	for i := range 1 + l.r.IntN(5) {
		p := l.pod(namespace, fmt.Sprintf("%s-%d", base, i), owner, requests)
		l.constrain(p, seed)
		if l.exists(p) {
			continue
		}
		l.pods = append(l.pods, p)
		if err := l.observe(l.seenPod(p)); err != nil {
			return err
		}
	}
	return nil
}

func (l *life) exists(pod *corev1.Pod) bool {
	for _, p := range l.pods {
		if p.Namespace == pod.Namespace && p.Name == pod.Name {
			return true
		}
	}
	return false
}

// requests draws what a container requests: nothing, or several resources.
func (l *life) requests() corev1.ResourceList {
	if l.oneIn(12) {
		return nil
	}
	r := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(oneOf(l, int64(0), 1, 50, 100, 250, 500, 1000, 3000), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(oneOf(l, int64(0), 64*mebi, 256*mebi, 512*mebi, 1<<30, 4<<30, 1_000_000_007), resource.BinarySI),
	}
	if l.oneIn(10) {
		r[gpu] = *resource.NewQuantity(1+l.r.Int64N(8), resource.DecimalSI)
	}
	if l.oneIn(6) {
		r[corev1.ResourceEphemeralStorage] = resource.MustParse("2Gi")
	}
	if l.oneIn(20) {
		r["hugepages-2Mi"] = resource.MustParse("64Mi")
	}
	if l.oneIn(20) {
		r["example.com/dongle"] = resource.MustParse("3")
	}
	if l.oneIn(30) { // more than any machine has
		r[corev1.ResourceCPU] = resource.MustParse("2k")
	}
	if l.oneIn(40) { // as people mistype it
		r[corev1.ResourceMemory] = resource.MustParse("512m")
	}
	return r
}

// constrain sets what the template of a workload says of its pods. Equal seeds give equal constraints.
func (l *life) constrain(p *corev1.Pod, seed uint64) {
	of := func(n uint64) uint64 { // one of n choices, each call another
		seed = seed*6364136223846793005 + 1442695040888963407
		return seed >> 33 % n
	}
	spec := &p.Spec
	archs := []string{"amd64", "arm64", "arm64", "s390x", "x86_64", "ARM"}
	switch of(6) {
	case 0:
		spec.NodeSelector = map[string]string{corev1.LabelArchStable: archs[of(6)]}
	case 1:
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: archs[of(5):][:1]}}},
		}}}}
	case 2:
		spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "eu-1a"}
	}
	switch of(8) {
	case 0:
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}, TopologyKey: corev1.LabelHostname},
		}}}
	case 1:
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}
	case 2:
		spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	case 3:
		spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("40Mi")}
	case 4:
		spec.InitContainers = []corev1.Container{{Name: "side", RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m")}}}}
	}
	some := func(n uint64, key string, values ...string) {
		if of(n) == 0 {
			p.Annotations[key] = values[of(uint64(len(values)))]
		}
	}
	some(3, v1alpha1.AnnotationRuntime, "90s", "25m", "3h", "0s", "-1m", "soon", "6h")
	some(4, v1alpha1.AnnotationCategory, "render", "a, \"b\"", " padded ", "two\nlines", "a\tb", strings.Repeat("long", 100), strings.Repeat("x", 20_000), "bad \xff bytes")
	some(4, v1alpha1.AnnotationMigration, "checkpoint", "restart", "never", "teleport")
	some(6, v1alpha1.AnnotationEnergyWeight, "0.618", "1", "2", "NaN", "1e-7")
	some(9, "karpenter.sh/do-not-disrupt", "true", "30m")
	if of(6) == 0 {
		p.Labels[v1alpha1.LabelClass] = []string{"batch", "service", "any"}[of(3)]
	}
}

// daemonComes creates a pod of a DaemonSet, or a static pod, on a node.
func (l *life) daemonComes(node *corev1.Node, set string) error {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(oneOf(l, "0", "10m", "50m")), corev1.ResourceMemory: resource.MustParse(oneOf(l, "0", "16Mi", "50Mi"))}
	p := l.pod("kube-system", fmt.Sprint(set, "-", l.made), oneOf(l, "DaemonSet", "DaemonSet", "Node"), requests)
	p.Spec.NodeName, p.Status.Phase, p.Status.StartTime = node.Name, corev1.PodRunning, new(metav1.NewTime(l.now.Add(l.skews[node.Name]).Truncate(time.Second)))
	l.pods = append(l.pods, p)
	return l.observe(l.seenPod(p))
}
