package adapter

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/cmd/supercargo/cli"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// machineType is a machine type whose idle power is in the table.
const machineType = "m5.xlarge"

// secret is the adapter's token for the kubelet.
const secret = "the adapter's"

// kubelet simulates the kubelet of a node: for authenticated requests it serves the CPU time of two pods, of
// which one uses a core and the other three, and many other metrics.
type kubelet struct {
	*httptest.Server
	authorities, token string // files
	began              time.Time
}

func newKubelet(dir string) (*kubelet, error) {
	k := &kubelet{began: time.Now(), authorities: filepath.Join(dir, "kubelet.crt"), token: filepath.Join(dir, "token")}
	k.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics/resource" || r.Header.Get("Authorization") != "Bearer "+secret {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		now := time.Now()
		for pod, cores := range map[string]float64{"light-7d4b9c6f5d-bcdfg": 1, "heavy-bcdfg": 3} {
			used, at := 100+cores*now.Sub(k.began).Seconds(), now.UnixMilli()
			fmt.Fprintf(w, "pod_cpu_usage_seconds_total{namespace=\"energy\",pod=%q} %v %d\n", pod, used, at)
			fmt.Fprintf(w, "container_cpu_usage_seconds_total{namespace=\"energy\",pod=%q,container=\"c\"} %v %d\n", pod, used, at)
			fmt.Fprintf(w, "pod_memory_working_set_bytes{namespace=\"energy\",pod=%q} 1e+06 %d\n", pod, at)
		}
	}))
	signed := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.Certificate().Raw})
	if err := os.WriteFile(k.authorities, signed, 0o600); err != nil {
		return nil, err
	}
	return k, os.WriteFile(k.token, []byte(secret), 0o600)
}

// endpoint returns its address.
func (k *kubelet) endpoint() (host string, port int32) {
	at, _ := url.Parse(k.URL) // its own URL
	n, _ := strconv.ParseInt(at.Port(), 10, 32)
	return at.Hostname(), int32(n)
}

// agent simulates the agent of a node, which announces itself and has a meter that counts 100 W.
func agent(t *testing.T, node string) *httptest.Server {
	t.Helper()
	began := time.Now()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		of := fmt.Sprintf("{node=%q,source=\"rapl\",kind=\"measured\"}", node)
		fmt.Fprintf(w, "supercargo_node_power_watts%s 100\nsupercargo_node_energy_joules_total%s %v\n", of, of, 100*time.Since(began).Seconds())
		fmt.Fprintf(w, "supercargo_node_info{node=%q,machine_type=%q,zone=\"z1\",arch=\"amd64\",power_model=\"\"} 1\n", node, machineType)
	}))
	t.Cleanup(server.Close)
	return server
}

// TestEnergyIsSharedOutAmongPodsWithoutAnythingInstalledBeside uses only the adapter's own store: the agents'
// meters, the pods' requests and the CPU time from kubelets.
func TestEnergyIsSharedOutAmongPodsWithoutAnythingInstalledBeside(t *testing.T) {
	t.Parallel()
	s := site(t)
	const name = "energy"
	namespace(t, s, name)
	host, port := shared.kubelet.endpoint()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "metered", Labels: map[string]string{corev1.LabelInstanceTypeStable: machineType}}}
	pods := []*corev1.Pod{
		placed(name, "light-7d4b9c6f5d-bcdfg", "metered", "1", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "light-7d4b9c6f5d", UID: "1", Controller: new(true)}),
		placed(name, "heavy-bcdfg", "metered", "1", metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "heavy", UID: "2", Controller: new(true)}),
		placed(name, "agent", "metered", "0", metav1.OwnerReference{}),
	}
	at, err := url.Parse(agent(t, "metered").URL)
	if err != nil {
		t.Fatal(err)
	}
	pods[2].Annotations = map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": at.Port()}
	for _, object := range []client.Object{node, pods[0], pods[1], pods[2]} {
		testapi.Create(t, s.Client, object)
	}
	status := func(object client.Object, change func()) {
		t.Helper()
		before := object.DeepCopyObject().(client.Object)
		change()
		if err := s.Client.Status().Patch(t.Context(), object, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	status(node, func() {
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	})
	for _, p := range pods {
		status(p, func() { p.Status.Phase, p.Status.PodIP = corev1.PodRunning, "127.0.0.1" })
	}
	const cores = `sum by (pod) (rate(pod_cpu_usage_seconds_total{namespace="energy",pod="heavy-bcdfg",node="metered",job="kubelets"}[20s]))`
	becomes(t, s, "the CPU time of a pod", "3", func() string { return rounded(promql(cores)) })
	if got := promql(`count(pod_memory_working_set_bytes) or count(container_cpu_usage_seconds_total)`); got != "" {
		t.Errorf("%s series are kept that nobody reads", got)
	}
	becomes(t, s, "half a minute of the meter", "1", func() string {
		return promql(`count(count_over_time(supercargo_node_energy_joules_total{node="metered"}[1m]) >= 35)`)
	})
	checkShares(t)
}

// rounded rounds a value, which may be missing.
func rounded(value string) string {
	f, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return value
	}
	return fmt.Sprint(math.Round(f))
}

// placed returns a pod on a node.
func placed(namespace, name, node, cpu string, owner metav1.OwnerReference) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if owner.Name != "" {
		p.OwnerReferences = []metav1.OwnerReference{owner}
	}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	return p
}

// checkShares requests the report as a user does. The idle power from the table is shared by requests: a
// quarter for each of the two pods, and half for none. Power above idle is shared by the CPU time of the
// pods.
func checkShares(t *testing.T) {
	t.Helper()
	machine, ok := energy.BuiltIn().MachineType(machineType)
	if !ok {
		t.Fatalf("machine type %s is not in the table", machineType)
	}
	idle := float64(machine.Idle)
	ask := func(output string) string {
		t.Helper()
		var out, faults bytes.Buffer
		args := []string{"supercargo", "report", "energy", "--prometheus", "http://" + shared.queries, "--since", "30s", "--step", "30s", "--price", "0.25", "-o", output}
		if code := cli.Main(args, strings.NewReader(""), &out, &faults); code != 0 {
			t.Fatalf("it ends with %d: %s", code, faults.String())
		}
		return out.String()
	}
	type used struct {
		Namespace, Workload, MachineType string
		Measured, Modelled               struct{ Joules, Dollars float64 }
	}
	var report struct {
		Total, Unallocated        used
		ByWorkload, ByMachineType []used
	}
	text := ask("json")
	testfile.JSON(t, text, &report)
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.1*want {
			t.Errorf("%s: %v, want %v, in\n%s", what, got, want, text)
		}
	}
	const watts, seconds = 100, 30
	near("joules", report.Total.Measured.Joules, watts*seconds)
	near("dollars", report.Total.Measured.Dollars, watts*seconds/3.6e6*0.25)
	near("unallocated joules", report.Unallocated.Measured.Joules, idle/2*seconds)
	shares := map[string]float64{"light": idle/4 + (watts-idle)/4, "heavy": idle/4 + (watts-idle)*3/4}
	if report.Total.Modelled.Joules != 0 || len(report.ByWorkload) != len(shares) || len(report.ByMachineType) != 1 || report.ByMachineType[0].MachineType != machineType {
		t.Errorf("the report is %s", text)
	}
	for _, w := range report.ByWorkload {
		near("joules of "+w.Workload, w.Measured.Joules, shares[w.Workload]*seconds)
	}
	table := ask("table")
	for _, want := range []string{"light", "heavy", machineType} {
		if !strings.Contains(table, want) {
			t.Errorf("%s is not in\n%s", want, table)
		}
	}
}
