//go:build nodes

package agent

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// heldCases are what a container can hold that cannot be restored on another node, and the reason for which it is refused.
// If it were not refused, the dump or the restore would fail while the container is frozen.
var heldCases = []struct {
	name   string
	env    []corev1.EnvVar
	reason string
}{
	{"a file of a ConfigMap that is open", hold("file:/etc/config/key"), v1alpha1.MigrationReasonVolumeFilesOpen},
	{"a lock on a shared volume", hold("lock:/shared/lock"), v1alpha1.MigrationReasonFileLocksHeld},
	{"a connection that its peer has closed", hold("half-closed"), v1alpha1.MigrationReasonOpenConnections},
	{"a connected UDP socket", hold("udp:10.0.0.1:53"), v1alpha1.MigrationReasonOpenConnections},
	{"a socket bound to the address of the pod", []corev1.EnvVar{
		{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
		{Name: "LISTEN", Value: "$(POD_IP):8080"},
	}, v1alpha1.MigrationReasonAddressUnsupported},
}

func hold(what string) []corev1.EnvVar { return []corev1.EnvVar{{Name: "HOLD", Value: what}} }

func TestWhatCannotBeRestoredIsRefusedWhileThePodRuns(t *testing.T) {
	for _, tc := range heldCases {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			pod := b.holder(b.Nodes[0], tc.env)
			b.counts(pod.Name, 3)
			m := b.migration(pod, v1alpha1.BackendContainerd)
			if r := b.sourceSays(m, v1alpha1.SourceFailed); r.Reason != tc.reason {
				t.Errorf("the source says %s: %s, want reason %s", r.Reason, r.Message, tc.reason)
			}
			if err := workload.CheckTicks(b.counts(pod.Name, 3), 1); err != nil {
				t.Error(err)
			}
			b.order(m, v1alpha1.OrderThaw)
			b.sourceSays(m, v1alpha1.SourceThawed)
		})
	}
}

// TestLocksOnTheContainersOwnFilesMove has what is allowed: the file is another one on the other node. A lock that is not
// restored would not be noticed by the process.
func TestLocksOnTheContainersOwnFilesMove(t *testing.T) {
	b := newBench(t)
	pod := b.holder(b.Nodes[0], hold("lock:/lock"))
	moved := b.move(pod, b.Nodes[1], v1alpha1.BackendContainerd)
	b.run(b.Nodes[1], "grep -q '^lock:' "+filepath.Dir(b.root(b.Nodes[1], moved))+"/fdinfo/*")
	if err := workload.CheckTicks(b.counts(moved.Name, 3), 1); err != nil {
		t.Error(err)
	}
}

// holder creates a counter with a ConfigMap, and with a folder of the machine in place of storage that many nodes mount.
func (b *bench) holder(node *cluster.Node, env []corev1.EnvVar) *corev1.Pod {
	b.Helper()
	b.make(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config", Namespace: b.namespace}, Data: map[string]string{"key": "value"}})
	shared := filepath.Join(b.Dir, "shared-"+b.namespace)
	if err := os.Mkdir(shared, 0o777); err != nil {
		b.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "counter", Namespace: b.namespace},
		Spec: corev1.PodSpec{
			NodeName: node.Name, RestartPolicy: corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: ptr.To[int64](1), AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{
				Name: "main", Image: cluster.Images["counter"], ImagePullPolicy: corev1.PullNever, Env: env,
				VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config"}, {Name: "shared", MountPath: "/shared"}},
			}},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
				{Name: "shared", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: shared}}},
			},
		},
	}
	b.make(pod)
	return b.runs(pod)
}
