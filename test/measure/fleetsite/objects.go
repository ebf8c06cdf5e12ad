package fleetsite

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// FleetName is the name of the NodeFleet, and Machines the namespace of its MachineDeployments.
const (
	FleetName = "fleet"
	Machines  = "machines"
)

// maxPods is the number of pods that a node holds.
const maxPods = 110

// Fleet returns the fleet with the defaults of the API, a day old.
func Fleet(now time.Time) *v1alpha1.NodeFleet {
	d := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	return &v1alpha1.NodeFleet{
		ObjectMeta: metav1.ObjectMeta{Name: FleetName, UID: "fleet", Generation: 1, CreationTimestamp: metav1.NewTime(now.Add(-24 * time.Hour))},
		Spec: v1alpha1.NodeFleetSpec{
			Class: v1alpha1.FleetAny, Mode: v1alpha1.FleetAct, Provider: v1alpha1.FleetClusterAPI,
			ClusterAPI: &v1alpha1.ClusterAPIFlavors{Namespace: Machines, Selector: &metav1.LabelSelector{}},
			Pricing:    v1alpha1.FleetPricing{BillingPeriod: d(time.Minute)},
			Scaling: v1alpha1.FleetScaling{
				Interval: d(time.Minute), BatchIdle: d(time.Second), BatchMax: d(10 * time.Second), JoinTimeout: d(15 * time.Minute), BackOff: d(5 * time.Minute),
				ExpectedLag: d(2 * time.Minute),
			},
			Consolidation: v1alpha1.FleetConsolidation{
				Policy: v1alpha1.ConsolidateWhenUnderUsed, ThresholdPercent: new(int32(50)), QueueEmptyFor: d(time.Minute), Horizon: d(time.Hour),
				EvictServices: v1alpha1.EvictServicesOptOut, MaxUnavailable: "10%", DrainTimeout: d(10 * time.Minute), ReleaseDelay: d(3 * time.Second),
			},
		},
	}
}

// Node returns a ready node of a flavor.
func Node(name string, f *catalogue.Flavor, zone string, made time.Time) *corev1.Node {
	created := metav1.NewTime(made)
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(f.Size.MilliCPU, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(f.Size.MemoryBytes, resource.BinarySI),
		corev1.ResourcePods: *resource.NewQuantity(maxPods, resource.DecimalSI),
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), CreationTimestamp: created, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelInstanceTypeStable: f.Name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
			corev1.LabelTopologyZone: zone, corev1.LabelTopologyRegion: "us-east-1",
		}},
		Spec: corev1.NodeSpec{ProviderID: providerID(name)},
	}
	n.Status.Capacity, n.Status.Allocatable = amounts, amounts
	n.Status.NodeInfo.KubeletVersion = "v1.35.0"
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: created, LastHeartbeatTime: created}}
	return n
}

func providerID(node string) string { return "aws:///us-east-1/" + node }

// Container returns a container as Deployments have it, with its requests.
func Container(milli, mib int64) corev1.Container {
	return corev1.Container{
		Name: "main", Image: "registry.example.com/app:1.2.3", ImagePullPolicy: corev1.PullIfNotPresent,
		Env: []corev1.EnvVar{{Name: "MODE", Value: "production"}, {Name: "LOG_LEVEL", Value: "info"}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(mib<<20, resource.BinarySI),
		}},
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
	}
}

// Pod returns a pod that no node runs yet, without a controller.
func Pod(namespace, name string, milli, mib int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), Generation: 1},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, ServiceAccountName: "default", SchedulerName: "default-scheduler",
			Containers:                    []corev1.Container{Container(milli, mib)},
			TerminationGracePeriodSeconds: new(int64(30)),
			Tolerations: []corev1.Toleration{
				{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
			},
			Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}}},
			}}}},
		},
	}
}

// RunsOn makes a pod run on a node.
func RunsOn(p *corev1.Pod, node string, since time.Time) {
	start := metav1.NewTime(since)
	p.Spec.NodeName, p.CreationTimestamp = node, start
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &start, HostIP: "10.0.0.1", PodIP: "10.1.0.1", QOSClass: corev1.PodQOSBurstable}
	for _, c := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: start})
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Ready: true, Started: new(true), Image: "registry.example.com/app:1.2.3", ImageID: "registry.example.com/app@sha256:0123456789abcdef",
		ContainerID: "containerd://0123456789abcdef0123456789abcdef", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}},
	}}
}
