//go:build vm

package migration

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/vm/machine"
	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestMachinesHaveTheUnifiedHierarchyAndTheKubeletItsDefaults(t *testing.T) {
	w := twoOf(t, older, older)
	for _, m := range []*machine.Machine{w.first, w.second} {
		out, err := m.Run(w.Context(), "stat -fc %T /sys/fs/cgroup; cat /proc/1/comm /sys/module/apparmor/parameters/enabled; systemctl is-active kubepods.slice")
		if want := "cgroup2fs\nsystemd\nY\nactive\n"; err != nil || string(out) != want {
			t.Errorf("%s has %q, %v, want %q", m.Name, out, err, want)
		}
		text, err := w.Client().CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes", m.Name, "proxy/configz").DoRaw(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		var configz struct {
			Config struct {
				FailCgroupV1           bool     `json:"failCgroupV1"`
				CgroupDriver           string   `json:"cgroupDriver"`
				CgroupRoot             string   `json:"cgroupRoot"`
				EnforceNodeAllocatable []string `json:"enforceNodeAllocatable"`
			} `json:"kubeletconfig"`
		}
		testfile.JSON(t, text, &configz)
		if c := configz.Config; !c.FailCgroupV1 || c.CgroupDriver != "systemd" || c.CgroupRoot != "" || len(c.EnforceNodeAllocatable) != 1 {
			t.Errorf("the kubelet of %s has %+v, want its defaults, and systemd", m.Name, c)
		}
	}
}

func TestACounterMovesToTheOtherMachineAndBackAndLosesNothing(t *testing.T) {
	w := twoOf(t, older, older)
	name := "counter"
	w.starts(w.first, w.Pod(name, cluster.Images["counter"]))
	for _, to := range []*machine.Machine{w.second, w.first} {
		before := w.follow(name)
		m := w.Succeeded(w.moves(name))
		name = m.Status.Plan.RestoredPod
		if on := w.Get(name).Spec.NodeName; on != to.Name {
			t.Errorf("pod %s is on %s, want %s", name, on, to.Name)
		}
		w.LogDuration(m)
		w.continues(before, name)
	}
}

// facts returns the limits and the security settings that the kernel applies to a pod's container.
func (w *town) facts(pod string) map[string]string {
	w.Helper()
	p := w.Get(pod)
	id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
	out, err := w.cluster.Machine(p.Spec.NodeName).Run(w.Context(), fmt.Sprintf(`set -eu
pid=$(ctr -n k8s.io tasks ls | awk '$1 == "%s" { print $2 }')
group=/sys/fs/cgroup$(cut -d: -f3- /proc/$pid/cgroup)
echo "scope=$(basename "$group" | sed 's/%s/ID/')"
for file in cpu.max cpu.weight memory.max memory.swap.max memory.oom.group pids.max; do echo "$file=$(cat $group/$file)"; done
grep -E '^(Uid|Gid|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp|Seccomp_filters):' /proc/$pid/status | sed 's/:\t/=/'
echo "apparmor=$(cat /proc/$pid/attr/apparmor/current)"
echo "oom_score_adj=$(cat /proc/$pid/oom_score_adj)"`, id, id))
	if err != nil {
		w.Fatal(err)
	}
	facts := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		facts[name] = value
	}
	return facts
}

func TestLimitsAndSecurityAreTheSameAfterAMove(t *testing.T) {
	w := twoOf(t, older, older)
	pod := w.Pod("limited", cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: "16"})
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("700m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
	}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		RunAsUser: ptr.To[int64](1000), RunAsNonRoot: ptr.To(true), AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	w.starts(w.first, pod)
	was := w.facts("limited")
	for name, want := range map[string]string{
		"scope": "cri-containerd-ID.scope", "cpu.max": "70000 100000", "memory.max": "134217728", "Seccomp": "2", "NoNewPrivs": "1",
		"Uid": "1000\t1000\t1000\t1000", "CapEff": "0000000000000000", "CapBnd": "0000000000000000", "apparmor": "cri-containerd.apparmor.d (enforce)",
	} {
		if was[name] != want {
			t.Errorf("before the move %s is %q, want %q", name, was[name], want)
		}
	}
	before := w.follow("limited")
	m := w.Succeeded(w.moves("limited"))
	w.LogDuration(m)
	w.continues(before, m.Status.Plan.RestoredPod)
	is := w.facts(m.Status.Plan.RestoredPod)
	if len(is) != len(was) {
		t.Errorf("after the move there is %v, before it there was %v", is, was)
	}
	for name, value := range was {
		if is[name] != value {
			t.Errorf("after the move %s is %q, before it was %q", name, is[name], value)
		}
	}
}

func TestAJobWithoutRetriesIsMovedHalfWayAndCountsNoFailure(t *testing.T) {
	const steps = 400
	w := twoOf(t, older, older)
	w.Chains("work", 1, steps, func(s *batchv1.JobSpec) { s.BackoffLimit = ptr.To[int32](0) })
	m := w.Succeeded(w.moves(w.RunningPods(w.Context(), "work")["0"].Name))
	w.LogDuration(m)
	job := w.Complete("work")
	if job.Status.Failed != 0 || job.Status.Succeeded != 1 {
		t.Errorf("the Job counts %d failed and %d succeeded, want 0 and 1", job.Status.Failed, job.Status.Succeeded)
	}
	pods := w.PodsOf(w.Context(), "work")
	if len(pods) != 1 || pods[0].Name != m.Status.Plan.RestoredPod {
		t.Errorf("the Job has %d pods, want only %s", len(pods), m.Status.Plan.RestoredPod)
	}
	for i := range pods {
		w.WholeChain(&pods[i], steps)
	}
}
