package manifests

import (
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/energy/meterapi"
)

// TestTheMeterHasNoPrivilege: an attacker who takes it over is only root without capabilities, who sees two
// folders of the node and can write to neither.
func TestTheMeterHasNoPrivilege(t *testing.T) {
	spec := objects(t, "../../manifests/meter/daemonset.yaml")[0].(*appsv1.DaemonSet).Spec.Template.Spec
	if spec.HostPID || spec.HostIPC || len(spec.Containers) != 1 || len(spec.InitContainers) != 0 {
		t.Fatalf("it is more than a container without the processes of its node: %+v", spec)
	}
	c := spec.Containers[0]
	want := &corev1.SecurityContext{
		RunAsUser: c.SecurityContext.RunAsUser, SeccompProfile: c.SecurityContext.SeccompProfile,
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if diff := cmp.Diff(want, c.SecurityContext); diff != "" {
		t.Errorf("the security context of its container (-want +got):\n%s", diff)
	}
	if len(c.Args) == 0 || c.Args[0] != "meter" || len(c.Command) > 0 {
		t.Errorf("it runs %q %q, want the command meter of the image's program", c.Command, c.Args)
	}
	for _, v := range spec.Volumes {
		if v.HostPath == nil || v.HostPath.Path != "/sys/class" && v.HostPath.Path != "/sys/devices" {
			t.Errorf("it has volume %+v", v)
		}
	}
	for _, m := range c.VolumeMounts {
		if !m.ReadOnly || m.RecursiveReadOnly == nil || m.MountPropagation != nil {
			t.Errorf("it may write to %s, or to what is mounted below", m.MountPath)
		}
	}
}

// TestMetersAreShownTokensForNothingElse: with tokens for the API server, an attacker who takes over a node
// would have all permissions of the descheduler.
func TestMetersAreShownTokensForNothingElse(t *testing.T) {
	for _, file := range []string{"../../manifests/descheduler/deployment.yaml", "../../manifests/adapter/server/deployment.yaml"} {
		spec := objects(t, file)[0].(*appsv1.Deployment).Spec.Template.Spec
		mounted := ""
		for _, m := range spec.Containers[0].VolumeMounts {
			if m.MountPath == path.Dir(meterapi.TokenFile) {
				mounted = m.Name
			}
		}
		i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mounted && v.Projected != nil })
		if mounted == "" || i < 0 {
			t.Errorf("%s has no token at %s", file, meterapi.TokenFile)
			continue
		}
		for _, source := range spec.Volumes[i].Projected.Sources {
			if source.ServiceAccountToken == nil || source.ServiceAccountToken.Audience != meterapi.Audience || source.ServiceAccountToken.Path != path.Base(meterapi.TokenFile) {
				t.Errorf("%s mounts %+v", file, source)
			}
		}
	}
}
