package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/explain"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/commandtest"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// sampleProfile reads the sample profile, of the machine type xeon-8.
func sampleProfile(t *testing.T) *v1alpha1.MachineProfile {
	t.Helper()
	text := testfile.Read(t, "../../../manifests/samples/machineprofile.yaml")
	var o v1alpha1.MachineProfile
	testfile.StrictYAML(t, text, &o)
	return &o
}

// energyServer starts an API server with two nodes of known types, one of them idle, and one of an
// unknown type, a pod that fits them, and the profiles.
func energyServer(t *testing.T, profiles ...v1alpha1.MachineProfile) (kubeconfig string) {
	t.Helper()
	typed := func(machineType, zone string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Labels[v1alpha1.LabelMachineType], n.Labels[corev1.LabelTopologyZone] = machineType, zone
		}
	}
	busy, pod := fixtures.Pod("other", 1, 1), fixtures.Pod("work", 500, 2<<30, func(p *corev1.Pod) { p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"} })
	busy.Spec.NodeName = "xeon-a"
	resources := func(group string, kinds ...string) metav1.APIResourceList {
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group}
		for _, kind := range kinds {
			name := strings.ToLower(kind) + "s"
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: kind, Namespaced: kind == "Pod", Verbs: metav1.Verbs{"get", "list"}})
		}
		return list
	}
	version := []metav1.GroupVersionForDiscovery{{GroupVersion: "supercargo.dev/v1alpha1", Version: "v1alpha1"}}
	answers := map[string]any{
		"/api":                                 metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}},
		"/apis":                                metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{{Name: "supercargo.dev", Versions: version}}},
		"/apis/supercargo.dev":                 metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: "supercargo.dev", Versions: version},
		"/api/v1":                              resources("v1", "Pod", "Node", "Namespace"),
		"/apis/supercargo.dev/v1alpha1":        resources("supercargo.dev/v1alpha1", "MachineProfile"),
		"/api/v1/namespaces/default":           corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: map[string]string{v1alpha1.AnnotationEnergyWeight: "1"}}},
		"/api/v1/namespaces/default/pods/work": pod,
		"/api/v1/pods":                         corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{*busy, *pod}},
		"/api/v1/nodes": corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []corev1.Node{
			*fixtures.Node("riddle", 8000, 32<<30), *fixtures.Node("xeon-b", 8000, 32<<30, typed("xeon-8", "west")), *fixtures.Node("xeon-a", 8000, 32<<30, typed("xeon-8", "east")),
		}},
		"/apis/supercargo.dev/v1alpha1/machineprofiles": v1alpha1.MachineProfileList{TypeMeta: metav1.TypeMeta{APIVersion: "supercargo.dev/v1alpha1", Kind: "MachineProfileList"}, Items: profiles},
	}
	for i := range profiles {
		answers["/apis/supercargo.dev/v1alpha1/machineprofiles/"+profiles[i].Name] = profiles[i]
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return commandtest.File(t, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
  users: [{name: u, user: {}}], clusters: [{name: c, cluster: {server: "`+server.URL+`"}}]}`)
}

// TestExplainSaysWhereAPodTakesLess: 476 J on a busy node, plus 249 s of 60 W on an idle one.
func TestExplainSaysWhereAPodTakesLess(t *testing.T) {
	kubeconfig := energyServer(t, *sampleProfile(t))
	code, stdout, stderr := supercargo(t, "", "explain", "pod/work", "--kubeconfig", kubeconfig)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	_, energy, _ := strings.Cut(stdout, "Where would it take the least energy?\n")
	lines := strings.Split(strings.TrimSpace(energy), "\n")
	want := []string{
		"Pod default/work: weight of energy against runtime 1 (namespace)",
		"",
		"NODE    MACHINE TYPE  SCORE  ENERGY J  RUNTIME S  TRUST  NOTE",
		"xeon-a  xeon-8        97     476       249        100 %",
		"riddle  ?             49     ?         ?          -      no prediction for this pod on this machine type",
		"xeon-b  xeon-8        1      1.542e+04  249        100 %  idle: its idle power is included",
	}
	for i, w := range want {
		if i >= len(lines) || strings.Join(strings.Fields(lines[i]), " ") != strings.Join(strings.Fields(w), " ") {
			t.Fatalf("line %d is not %q:\n%s", i, w, stdout)
		}
	}
	code, stdout, stderr = supercargo(t, "", "explain", "pod/work", "-o", "json", "--kubeconfig", kubeconfig)
	var e explain.Pod
	if err := json.Unmarshal([]byte(stdout), &e); code != 0 || err != nil || len(e.Nodes) != 3 || e.Nodes[0].EnergyJoules != 476 || e.Nodes[1].Known || !e.Nodes[2].Idle {
		t.Errorf("exit %d, %s, %v: %s", code, stderr, err, stdout)
	}
}

// TestExplainSaysWhereEnergyIsCleaner: 476 J at 3600 g/kWh against 15416 J at 36 g/kWh.
func TestExplainSaysWhereEnergyIsCleaner(t *testing.T) {
	kubeconfig := energyServer(t, *sampleProfile(t))
	row := func(zone string, grams int, ago time.Duration) string {
		return fmt.Sprintf("%s,%s,%d\n", time.Now().Add(-ago).UTC().Format(time.RFC3339), zone, grams)
	}
	file := commandtest.File(t, "time,zone,grams_per_kwh\n"+row("east", 3600, time.Hour)+row("west", 36, time.Hour))
	code, stdout, stderr := supercargo(t, "", "explain", "pod/work", "--carbon-file", file, "--kubeconfig", kubeconfig)
	for _, want := range []string{
		"NODE MACHINE TYPE SCORE ENERGY J RUNTIME S TRUST ZONE ENERGY COSTS NOTE",
		"xeon-b xeon-8 68 1.542e+04 249 100 % west 0.154 g CO2 idle",
		"xeon-a xeon-8 1 476 249 100 % east 0.476 g CO2",
		"riddle ? 34 ? ? - ? ? no prediction",
	} {
		if code != 0 || !strings.Contains(strings.Join(strings.Fields(stdout), " "), want) {
			t.Errorf("exit %d, no %q: %s\n%s", code, want, stderr, stdout)
		}
	}
	expired := commandtest.File(t, "time,zone,grams_per_kwh\n"+row("east", 3600, 25*time.Hour)+row("west", 36, 25*time.Hour))
	code, stdout, stderr = supercargo(t, "", "explain", "pod/work", "--carbon-file", expired, "-o", "json", "--kubeconfig", kubeconfig)
	var e explain.Pod
	if err := json.Unmarshal([]byte(stdout), &e); code != 0 || err != nil || e.Unit != tariff.Grams || e.Nodes[0].Node != "xeon-a" || e.Nodes[0].Cost != nil || e.Nodes[0].Zone != "east" {
		t.Errorf("exit %d, %s, %v: want scores by joules: %s", code, stderr, err, stdout)
	}
	for flag, says := range map[string]string{"--price-file=" + file: "dollars_per_kwh", "--price-file=x --carbon-file=y": "mutually exclusive", "--carbon-file=/none": "/none"} {
		code, _, stderr := supercargo(t, "", append([]string{"explain", "pod/work", "--kubeconfig", kubeconfig}, strings.Fields(flag)...)...)
		if code != 2 || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit %d, %s; want 2 and %q", flag, code, stderr, says)
		}
	}
}

func TestExplainSaysThatNothingIsKnown(t *testing.T) {
	kubeconfig := energyServer(t)
	code, stdout, stderr := supercargo(t, "", "explain", "pod/work", "--energy-weight", "0.5", "--kubeconfig", kubeconfig)
	if code != 0 || strings.Count(stdout, "no prediction") != 3 || strings.Count(stdout, " 50 ") != 3 {
		t.Errorf("exit %d, %s: %s", code, stderr, stdout)
	}
	code, stdout, stderr = supercargo(t, "", "explain", "pod/work", "--kubeconfig", kubeconfig)
	if code != 0 || strings.Contains(stdout, "energy") || !strings.Contains(stdout, "Why is it pending?") {
		t.Errorf("exit %d, %s: want nothing about energy where nobody asks and nothing is known: %s", code, stderr, stdout)
	}
}

func TestExplainReadsAMachineProfile(t *testing.T) {
	code, stdout, stderr := supercargo(t, "", "explain", "mp/xeon-8", "--kubeconfig", energyServer(t, *sampleProfile(t)))
	if code != 0 || !strings.HasPrefix(stdout, "MachineProfile xeon-8") {
		t.Errorf("exit %d, %s: %s", code, stderr, stdout)
	}
}
