package planfile

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/packing"
)

// readPods fails the test on an error.
func readPods(t *testing.T, name, text string) *Pods {
	t.Helper()
	pods, err := ReadPods(name, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

func TestTablesAreReadByName(t *testing.T) {
	const table = "cpu_milli,memory_mib,name,count,arch,runtime_s\n500,1,web,2,arm64,60\n1,2,a,,,\n"
	want := &Pods{Pods: []Pod{
		{Pod: cluster.Pod{Item: packing.Item{Name: "a", Size: packing.Size{MilliCPU: 1, MemoryBytes: 2 << 20}}}},
		{Pod: cluster.Pod{Item: packing.Item{Name: "web-0", Size: packing.Size{MilliCPU: 500, MemoryBytes: 1 << 20}}, Arch: "arm64"}},
		{Pod: cluster.Pod{Item: packing.Item{Name: "web-1", Size: packing.Size{MilliCPU: 500, MemoryBytes: 1 << 20}}, Arch: "arm64"}},
	}}
	for _, name := range []string{"pods.csv", "stdin", "pods"} {
		if diff := cmp.Diff(want, readPods(t, name, table)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPodsOfATraceAreReadByNameToo(t *testing.T) {
	pods := readPods(t, "t.csv", "arrival_s,cpu_milli,memory_mib,runtime_s,name\n1,1,1,1,z\n2,1,1,1,a\n")
	if len(pods.Pods) != 2 || pods.Pods[0].Name != "a" || pods.Pods[1].Name != "z" {
		t.Errorf("pods are %+v, want a and z", pods.Pods)
	}
}

const onePod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"

func TestManifestsAreToldFromTables(t *testing.T) {
	for _, text := range []string{
		onePod,
		"# pods\n" + onePod,
		"\n---\n" + onePod,
		`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}`,
	} {
		pods := readPods(t, "stdin", text)
		if len(pods.Pods) != 1 || pods.Pods[0].Name != "p" || pods.Pods[0].Manifest == nil {
			t.Errorf("%q is read as %+v, want pod p", text, pods.Pods)
		}
	}
	if _, err := ReadPods("pods.csv", strings.NewReader(onePod)); err == nil || !strings.Contains(err.Error(), "has no known column: the header must have name,cpu_milli,memory_mib") {
		t.Errorf("a manifest called .csv gives %v, want that there is no header", err)
	}
	if _, err := ReadPods("pods.yaml", strings.NewReader("name,cpu_milli,memory_mib\n")); err == nil || !strings.Contains(err.Error(), "must be a Pod or a List") {
		t.Errorf("a table called .yaml gives %v, want that it is no object", err)
	}
}

func TestWhatAPodAsksForIsWhatTheSchedulerCounts(t *testing.T) {
	const gib = 1 << 30
	container := func(cpu, memory string) string {
		return "{name: c, image: i, resources: {requests: {cpu: " + cpu + ", memory: " + memory + "}}}"
	}
	tests := []struct {
		name, spec string
		want       packing.Size
	}{
		{"nothing", "containers: [{name: c, image: i}]", packing.Size{}},
		{"the sum of containers", "containers: [" + container("500m", "1Gi") + ", " + container("0.25", "2Gi") + "]", packing.Size{MilliCPU: 750, MemoryBytes: 3 * gib}},
		{"an init container that needs more", "containers: [" + container("1", "1Gi") + "]\n  initContainers: [" + container("100m", "4Gi") + "]", packing.Size{MilliCPU: 1000, MemoryBytes: 4 * gib}},
		{"a sidecar that stays", "containers: [" + container("1", "1Gi") + "]\n  initContainers: [" + strings.Replace(container("100m", "1Gi"), "name: c", "name: c, restartPolicy: Always", 1) + "]", packing.Size{MilliCPU: 1100, MemoryBytes: 2 * gib}},
		{"overhead", "overhead: {cpu: 10m, memory: 1Gi}\n  containers: [" + container("1", "1Gi") + "]", packing.Size{MilliCPU: 1010, MemoryBytes: 2 * gib}},
		{"limits where there are no requests", "containers: [{name: c, image: i, resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}}]", packing.Size{MilliCPU: 1000, MemoryBytes: gib}},
		{"limits of the pod as a whole", "resources: {limits: {cpu: 3, memory: 1Gi}}\n  containers: [{name: c, image: i}]", packing.Size{MilliCPU: 3000, MemoryBytes: gib}},
		{"limits of the pod as a whole where a container has requests", "resources: {limits: {cpu: 3, memory: 1Gi}}\n  containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]", packing.Size{MilliCPU: 1000, MemoryBytes: gib}},
		{"less than a thousandth is one", "containers: [" + container("100u", "1") + "]", packing.Size{MilliCPU: 1, MemoryBytes: 1}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			pods := readPods(t, "p.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  "+tc.spec+"\n")
			if got := pods.Pods[0].Size; got != tc.want {
				t.Errorf("size %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestListsAndDocumentsAreReadTogether(t *testing.T) {
	const text = onePod + "---\n" +
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: p, namespace: prod}\n  spec: {containers: []}\n" +
		"---\n---\napiVersion: v1\nkind: PodList\nitems: [{metadata: {name: a, namespace: dev}, spec: {containers: []}}]\n"
	var names []string
	for _, p := range readPods(t, "p.yaml", text).Pods {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"dev/a", "p", "prod/p"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if pods := readPods(t, "p.yaml", "apiVersion: v1\nkind: List\nitems: []\n"); len(pods.Pods) != 0 {
		t.Errorf("an empty list has %d pods", len(pods.Pods))
	}
}

func TestPodsThatNeedNoMachineAreSkipped(t *testing.T) {
	pod := func(name, metadata, status string) string {
		return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + metadata + "}\nspec: {containers: []}\n" + status
	}
	text := pod("z", ", annotations: {kubernetes.io/config.mirror: x}", "") +
		pod("failed", "", "status: {phase: Failed}\n") +
		pod("ds", ", ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: logs, uid: u, controller: true}]", "") +
		pod("odd", ", ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: logs, uid: u, controller: false}]", "") +
		pod("runs", "", "status: {phase: Running, whatIsNewInThisRelease: 1}\n") +
		pod("done", "", "status: {phase: Succeeded}\n") +
		"---\napiVersion: v1\nkind: Pod\nmetadata: {name: cheap}\nspec: {containers: [], priority: -11}\n" +
		"---\napiVersion: v1\nkind: Pod\nmetadata: {name: pause}\nspec: {containers: [], priority: -10}\n"
	got := readPods(t, "p.yaml", text)
	want := []Skipped{{"z", "is a static pod of its node"}, {"failed", "has ended"}, {"ds", "belongs to DaemonSet logs, which creates a pod for each node that it selects"}, {"done", "has ended"}, {"cheap", "has priority -11: by default, a NodeFleet buys no machine for a pod below -10"}}
	if diff := cmp.Diff(want, got.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	if len(got.Pods) != 3 || got.Pods[0].Name != "odd" || got.Pods[1].Name != "pause" || got.Pods[2].Name != "runs" {
		t.Errorf("%+v are left, want odd, which no DaemonSet controls, pause, and runs", got.Pods)
	}
}

func TestBadManifestsAreRefusedWithLineAndField(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing at all", "", "p.yaml: is empty: must contain pods"},
		{"nothing but a separator", "---\n", "p.yaml: is empty: must contain pods"},
		{"no YAML", "kind: Pod\n\t- x\n", "p.yaml:2: is not valid YAML: "},
		{"no object", "- a\n", "p.yaml:1: must be a Pod or a List of Pods"},
		{"another kind", "apiVersion: v1\nkind: Service\n", "p.yaml: contains no pods, only 1 Service: must contain pods, as in the output of kubectl get pods -o yaml"},
		{"no kind", "apiVersion: v1\n", "p.yaml:1: kind: is required: must be Pod or List"},
		{"no kind in a list", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1}\n", "p.yaml:4: items[0].kind: is required: must be Pod"},
		{"another version", "apiVersion: v2\nkind: Pod\n", "p.yaml:1: apiVersion: must be v1"},
		{"a list without items", "apiVersion: v1\nkind: List\n", "p.yaml:1: items: must be a list of pods"},
		{"another kind in a list", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node}\n", "p.yaml: contains no pods, only 1 Node: must contain pods, as in the output of kubectl get pods -o yaml"},
		{"an unknown field", onePod[:len(onePod)-1] + "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: q}\nspec:\n  containers:\n  - name: c\n    imagine: x\n", "p.yaml:12: spec.containers[0].imagine: is not a field of a Pod"},
		{"an unknown field of a list's pod", "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: q}\n  spec:\n    gpu: 1\n", "p.yaml:6: items[0].spec.gpu: is not a field of a Pod"},
		{"a field of another type", "apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n", "p.yaml:1: is not a valid Pod: "},
		{"a key that is no text", "apiVersion: v1\nkind: Pod\n1: 2\n", "p.yaml:1: has a key that is not a string"},
		{"no name", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: p-}\nspec: {containers: []}\n", `metadata.name: "" is not a valid pod name: `},
		{"a bad name", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: P_\nspec: {containers: []}\n", `p.yaml:4: metadata.name: "P_" is not a valid pod name: `},
		{"a name twice", onePod + "---\n" + onePod, `p.yaml:8: metadata.name: "p" is also the name of the pod at line 1: names must be unique`},
		{"no spec", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", "p.yaml:1: spec: is required"},
		{"no amount", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    resources:\n      requests:\n        cpu: -1\n",
			`p.yaml:9: spec.containers[0].resources.requests.cpu: "-1" must be a quantity from 0 to 1Pi, such as 500m or 2Gi`},
		{"a bad amount behind an alias", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  initContainers: &c [{name: c, resources: {requests: &r {cpu: -1}}}]\n  containers: *c\n", `spec.containers[0].resources.requests.cpu: "-1" must be a quantity`},
		{"too large a limit of the pod as a whole", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  resources: {limits: {memory: 2Pi}}\n", `p.yaml:5: spec.resources.limits.memory: "2Pi" must be a quantity`},
		{"too large an amount", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  overhead: {memory: 2Pi}\n", `p.yaml:5: spec.overhead.memory: "2Pi" must be a quantity`},
		{"too large a sum", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: a, resources: {requests: {memory: 1Pi}}}\n  - {name: b, resources: {requests: {memory: 1Pi}}}\n",
			"pod p requests CPU 0 and memory 2Pi: must be at most 1M and 1Pi"},
		{"too many CPUs", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: a, resources: {requests: {cpu: 1000001}}}\n", "requests CPU 1000001 and memory 0"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			pods, err := ReadPods("p.yaml", strings.NewReader(tc.text))
			if err == nil || pods != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("ReadPods = %v, %v, want no pods and %s", pods, err, tc.want)
			}
		})
	}
}

func TestObjectsThatAreNotPodsAreCountedAndIgnored(t *testing.T) {
	const list = "---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node}\n- {apiVersion: apps/v1, kind: Deployment}\n- {apiVersion: v1, kind: Node}\n" +
		"---\napiVersion: v1\nkind: Service\n"
	got := readPods(t, "p.yaml", onePod+list)
	if diff := cmp.Diff(map[string]int{"Node": 2, "Deployment": 1, "Service": 1}, got.Others); diff != "" || len(got.Pods) != 1 {
		t.Errorf("%d pods, others (-want +got):\n%s", len(got.Pods), diff)
	}
}

func TestAFileWhosePodsHaveEndedHasPods(t *testing.T) {
	got := readPods(t, "p.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: done}\nspec: {containers: []}\nstatus: {phase: Succeeded}\n---\napiVersion: v1\nkind: Node\n")
	if len(got.Pods) != 0 || len(got.Skipped) != 1 || got.Others["Node"] != 1 {
		t.Errorf("it has %+v", got)
	}
}

func TestFaultsAreCountedAndNotAllTold(t *testing.T) {
	var text strings.Builder
	for range 30 {
		text.WriteString("---\nkind: Pod\n")
	}
	var faults *table.Errors
	if _, err := ReadPods("p.yaml", strings.NewReader(text.String())); !errors.As(err, &faults) || len(faults.List) != table.MaxErrors || faults.More != 30-table.MaxErrors {
		t.Errorf("error is %v, want %d faults and %d more", err, table.MaxErrors, 30-table.MaxErrors)
	}
}

// endless is an infinite input.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '#'
	}
	return len(p), nil
}

func TestInputIsBounded(t *testing.T) {
	for _, name := range []string{"p.yaml", "p.csv"} {
		if _, err := ReadPods(name, endless{}); err == nil || !strings.Contains(err.Error(), "larger than") && !strings.Contains(err.Error(), "longer than") {
			t.Errorf("%s: an endless input gives %v, want that it is too large", name, err)
		}
	}
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 9) + "*" + string(c-1) + "]\n"
	}
	if _, err := ReadPods("p.yaml", strings.NewReader("apiVersion: v1\nkind: Pod\n"+bomb)); err == nil {
		t.Error("aliases of aliases of aliases are read")
	}
}

func FuzzReadPods(f *testing.F) {
	f.Add([]byte(onePod))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: &s {containers: [{resources: {requests: {cpu: 1e3, memory: 1Ei}}}]}}\n- {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: *s}\n"))
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {<<: {x: 1}, containers: [], overhead: {cpu: .nan}}\n"))
	f.Add([]byte("name,cpu_milli,memory_mib\na,1,1\n"))
	f.Add([]byte("--- &a\napiVersion: v1\nkind: Pod\nmetadata: *a\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(text, []byte("count")) {
			t.Skip("may stand for so many pods that little else is tried")
		}
		pods, err := ReadPods("stdin", bytes.NewReader(text))
		if err != nil {
			var faults *table.Errors
			if !errors.As(err, &faults) || len(faults.List) == 0 || len(faults.List) > table.MaxErrors {
				t.Fatalf("refused with %T %v, want *table.Errors within the bound", err, err)
			}
			return
		}
		if !slices.IsSortedFunc(pods.Pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) }) {
			t.Fatal("pods are in no order")
		}
		for i, p := range pods.Pods {
			if p.Name == "" || i > 0 && p.Name == pods.Pods[i-1].Name || p.Size.MilliCPU < 0 || p.Size.MemoryBytes < 0 || p.Size.MemoryBytes > 1<<50 {
				t.Fatalf("pod %+v", p)
			}
		}
	})
}

func TestFlavorsSayWhatTheirNodesAre(t *testing.T) {
	flavors, err := ReadFlavors("f.csv", strings.NewReader("name,cpu,memory_gib,price_per_hour,arch,machine_type,max_pods,zones,labels,taints\n"+
		"plain,2,4,0.1,,,,,,\nrich,2,4,0.1,arm64,fast,8,b;a,disk=ssd,only=few:NoSchedule\n"))
	if err != nil {
		t.Fatal(err)
	}
	plain, rich := flavors[0], flavors[1]
	if plain.Arch != "amd64" || *plain.MaxPods != 110 || *rich.MaxPods != 8 {
		t.Errorf("flavors are %+v, want amd64 and 110 pods where nothing else is said", flavors)
	}
	if diff := cmp.Diff([][]string{{""}, {"a", "b"}}, [][]string{plain.Zoned(), rich.Zoned()}); diff != "" {
		t.Errorf("zones (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "plain",
		"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/instance-type": "plain"}, plain.NodeLabels("")); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{
		"kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "rich",
		"topology.kubernetes.io/zone": "b", "supercargo.dev/machine-type": "fast", "disk": "ssd",
		"beta.kubernetes.io/arch": "arm64", "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/instance-type": "rich", "failure-domain.beta.kubernetes.io/zone": "b",
		"topology.ebs.csi.aws.com/zone": "b", "topology.gke.io/zone": "b", "topology.disk.csi.azure.com/zone": "b", "topology.cinder.csi.openstack.org/zone": "b",
		"topology.csi.vmware.com/k8s-zone": "b",
	}, rich.NodeLabels("b")); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.Taint{{Key: "only", Value: "few", Effect: corev1.TaintEffectNoSchedule}}, rich.NodeTaints()); diff != "" || plain.NodeTaints() != nil {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
}

func TestADocumentHasNoNulls(t *testing.T) {
	var out bytes.Buffer
	if err := (Document{}).Write(&out); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "null") || strings.Count(text, "[]") != 5 || !strings.HasSuffix(text, "}\n") {
		t.Errorf("an empty plan is written as\n%s", text)
	}
}

func TestAGapIsWhatIsPaidAboveTheBound(t *testing.T) {
	for _, tc := range []struct {
		price, bound int64
		want         float64
	}{{0, 0, 0}, {100, 100, 0}, {150, 100, 0.5}, {100, 150, 0}, {1, 0, 0}} {
		if got := Gap(tc.price, tc.bound); got != tc.want {
			t.Errorf("Gap(%d, %d) = %v, want %v", tc.price, tc.bound, got, tc.want)
		}
	}
}
