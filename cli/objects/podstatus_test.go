package objects

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// resizing is the status of a pod as kubectl prints it. Its kubelet still holds more than its spec requests.
const resizing = `  status:
    conditions:
    - lastProbeTime: null
      lastTransitionTime: "2026-11-01T12:00:00Z"
      message: |-
        containers with unready status: [main]

        type: Ready
      reason: ContainersNotReady
      status: "False"
      type: Ready
    - lastProbeTime: null
      lastTransitionTime: "2026-11-01T12:00:00Z"
      status: "True"
      type: PodResizeInProgress
    containerStatuses:
    - allocatedResources:
        cpu: 3500m
        memory: 1Gi
      allocatedResourcesStatus:
      - name: example.org/device
        resources:
        - health: Healthy
          resourceID: one
      containerID: containerd://abc
      image: registry.example/main
      lastState:
        terminated:
          exitCode: 1
          message: |
            name: other
      name: main
      ready: false
      resources:
        claims:
        - name: device
        limits:
          cpu: "4"
        requests:
          cpu: 3500m
          memory: 1Gi
      restartCount: 2
      volumeMounts:
      - mountPath: /var
        name: token
        readOnly: true
    hostIP: 10.0.0.1
    hostIPs:
    - ip: 10.0.0.1
    phase: Running
    startTime: "2026-11-01T12:00:00Z"
`

func statusOf(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	o, err := Dump("dump", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return &o.Pods[0]
}

func TestWhatAPodHoldsWhileItIsResizedAndWhetherItIsReadyAreRead(t *testing.T) {
	before, _, _ := strings.Cut(podYAML, "  status:\n")
	list := listHead + nodeYAML + before + resizing + listTail
	for name, text := range map[string]string{
		"YAML": list, "JSON": asJSON(t, list), "lines that end as on Windows": strings.ReplaceAll(list, "\n", "\r\n"),
		"a status whose lists are indented": listHead + nodeYAML + before + "  status:\n    containerStatuses:\n      - name: main\n        image: x\n        resources:\n          requests:\n            cpu: 3500m\n" +
			"    conditions:\n      - type: Ready\n        status: \"False\"\n    phase: Running\n" + listTail,
	} {
		t.Run(name, func(t *testing.T) {
			pod := statusOf(t, text)
			if cpu, _, _ := constraint.Requests(pod); cpu != 3500 {
				t.Errorf("it holds %d milli-CPU; status %+v", cpu, pod.Status)
			}
			if c := pod.Status.Conditions; len(c) == 0 || c[0].Type != corev1.PodReady || c[0].Status != corev1.ConditionFalse || c[0].Message != "" {
				t.Errorf("conditions %+v", c)
			}
			if pod.Status.Phase != corev1.PodRunning {
				t.Errorf("phase %q", pod.Status.Phase)
			}
		})
	}
}

func TestAResizeOfAWholePodAndOneThatIsInfeasibleAreRead(t *testing.T) {
	before, _, _ := strings.Cut(podYAML, "  status:\n")
	whole := strings.Replace(before, "    nodeName: a\n", "    resources:\n      requests:\n        cpu: \"1\"\n    nodeName: a\n", 1) +
		"  status:\n    allocatedResources:\n      cpu: \"2\"\n    phase: Running\n    resources:\n      requests:\n        cpu: \"2\"\n"
	infeasible := before + "  status:\n    conditions:\n    - reason: Infeasible\n      status: \"True\"\n      type: PodResizePending\n" +
		"    containerStatuses:\n    - allocatedResources:\n        cpu: 200m\n      name: main\n      resources:\n        requests:\n          cpu: 200m\n    phase: Running\n"
	for text, want := range map[string]int64{whole: 2000, infeasible: 200} {
		for _, list := range []string{listHead + nodeYAML + text + listTail, asJSON(t, listHead+nodeYAML+text+listTail)} {
			if cpu, _, _ := constraint.Requests(statusOf(t, list)); cpu != want {
				t.Errorf("it holds %d milli-CPU, want %d:\n%s", cpu, want, list)
			}
		}
	}
}

func TestAmountsThatNoAPIServerAcceptsAreRefusedWhereverAPodHasThem(t *testing.T) {
	before, _, _ := strings.Cut(podYAML, "  status:\n")
	held := func(field string) string {
		return before + "  status:\n    containerStatuses:\n    - " + field + "\n      name: main\n"
	}
	for want, item := range map[string]string{
		"status.containerStatuses[0].allocatedResources.cpu: \"-1\"": held("allocatedResources: {cpu: -1}"),
		"status.containerStatuses[0].resources.requests.cpu: \"-1\"": held("resources: {requests: {cpu: -1}}"),
		"spec.resources.requests.memory: \"2Pi\"":                    strings.Replace(before, "    nodeName: a\n", "    resources: {requests: {memory: 2Pi}}\n", 1),
	} {
		if _, err := Dump("dump", strings.NewReader(listHead+nodeYAML+item+listTail)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it says %v, want %s", err, want)
		}
	}
}
