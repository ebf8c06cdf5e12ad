package profiler

import (
	"fmt"
	"path"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/meterapi"
	"supercargo.dev/supercargo/energy/probe"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/internal/cluster/class"
)

const (
	// annotationNode and annotationFingerprint on the Job of a probe are its node and the
	// fingerprint of the node's hardware.
	annotationNode        = v1alpha1.GroupName + "/probe-node"
	annotationFingerprint = v1alpha1.GroupName + "/probe-fingerprint"
	// serviceAccount is the service account of probes. It has no permissions.
	serviceAccount = "supercargo-probe"
	// stateFolder is the node's folder for a probe's persistent state. The node's agent uses it
	// too.
	stateFolder = "/var/lib/supercargo/probe"
	// cpuFolder is the only part of the node's /sys that a probe can see and write. It contains
	// the CPU governors. It is not mounted at its own path, which container runtimes and
	// AppArmor's profile for containers keep read-only.
	cpuFolder = "/sys/devices/system/cpu"
	// retries is how many pods of a probe may fail; each continues where the last one ended.
	retries = 3
	// graceSeconds is how long a probe has to restore the governors.
	graceSeconds = 30
)

// meterVolume has the token for the node's meter. It is valid for nothing else.
const meterVolume = "node-meter"

// meterArgs returns the arguments for a probe to query the node's meter. authorities have signed
// the meter's certificate; if they are unknown, the probe uses no meter.
func (c *Config) meterArgs(authorities string) []string {
	if authorities == "" {
		return nil
	}
	return []string{
		fmt.Sprintf("--meter=https://$(HOST_IP):%d", c.MeterPort), "--meter-name=" + meterapi.ServerName(c.MeterNamespace),
		"--meter-authorities=" + authorities, "--meter-token=" + meterapi.TokenFile,
	}
}

// jobFor returns the Job that probes a node. authorities have signed the certificate of its
// meter; they are empty if it has none.
func (c *Config) jobFor(machineType, fingerprint string, node *corev1.Node, sizes probe.Sizes, authorities string) *batchv1.Job {
	cpu, memory := sizes.Flags()
	largest := sizes.Largest()
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(largest.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(largest.MemoryBytes, resource.BinarySI),
	}
	// A node of class service accepts no other pods.
	kind := class.Batch
	if of, _ := class.OfNode(node, class.Any); of == class.Service {
		kind = class.Service
	}
	labels := map[string]string{
		v1alpha1.LabelProbe: profile.NameOf(machineType), v1alpha1.LabelClass: string(kind), "app.kubernetes.io/name": "supercargo-probe",
	}
	folder, sysfs := corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: "probe-" + profile.NameOf(machineType), Labels: labels,
			Annotations: map[string]string{v1alpha1.AnnotationProbes: machineType, annotationNode: node.Name, annotationFingerprint: fingerprint},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(retries)), ActiveDeadlineSeconds: new(int64(c.Timeout.Seconds())),
			PodReplacementPolicy: new(batchv1.Failed), // two at the same time would measure each other
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
					v1alpha1.AnnotationMigration: v1alpha1.MigrationNever, "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
				}},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: serviceAccount, AutomountServiceAccountToken: new(false),
					TerminationGracePeriodSeconds: new(int64(graceSeconds)),
					Affinity:                      onNode(node.Name),
					Tolerations:                   []corev1.Toleration{{Key: v1alpha1.TaintProbing, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
					Containers: []corev1.Container{{
						Name: "probe", Image: c.Image,
						Args: append([]string{
							"probe", "--cpu=" + cpu, "--memory=" + memory, "--amount=" + strconv.Itoa(c.Amount), "--machine=" + fingerprint,
							"--sysfs=/host/sys", "--state-dir=" + stateFolder,
						}, c.meterArgs(authorities)...),
						Env:       []corev1.EnvVar{{Name: "HOST_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.hostIP"}}}},
						Resources: corev1.ResourceRequirements{Requests: resources, Limits: resources},
						SecurityContext: &corev1.SecurityContext{
							// Root owns the governors and the folder; the probe needs nothing
							// else of root.
							RunAsUser: new(int64(0)), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
							Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
							SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
						},
						VolumeMounts: []corev1.VolumeMount{
							{Name: "cpu", MountPath: "/host" + cpuFolder}, {Name: "state", MountPath: stateFolder},
							{Name: meterVolume, MountPath: path.Dir(meterapi.TokenFile), ReadOnly: true},
						},
					}},
					Volumes: []corev1.Volume{
						{Name: "cpu", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: cpuFolder, Type: &sysfs}}},
						{Name: "state", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: stateFolder, Type: &folder}}},
						{Name: meterVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
							{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: meterapi.Audience, Path: path.Base(meterapi.TokenFile)}},
						}}}},
					},
				},
			},
		},
	}
}

// onNode restricts a pod to one node, as for the pods of DaemonSets.
func onNode(name string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
		}}},
	}}}
}
