package cli

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/cli/auditor"
	"supercargo.dev/supercargo/test/kit/commandtest"
)

// namesServer is an API server that lists the metadata of objects by path, and returns a kubeconfig with two contexts:
// one of namespace shop, which is current, and one of namespace jobs.
func namesServer(t *testing.T, names map[string][]string) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := r.URL.Path
		if fields := r.URL.Query().Get("fieldSelector"); fields != "" {
			at += "?" + fields
		}
		found, is := names[at]
		if !is {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
			t.Errorf("%s is asked for whole objects: %s", at, r.Header.Get("Accept"))
		}
		list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
		for _, name := range found {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return commandtest.File(t, `{apiVersion: v1, kind: Config, current-context: work,
  contexts: [{name: work, context: {cluster: c, user: u, namespace: shop}}, {name: night, context: {cluster: c, user: u, namespace: jobs}}],
  users: [{name: u, user: {}}], clusters: [{name: c, cluster: {server: "`+server.URL+`"}}]}`)
}

// completions returns what a shell is offered for the last argument. No file may be offered.
func completions(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := supercargo(t, "", append([]string{"__complete"}, args...)...)
	offered, directive, _ := strings.Cut("\n"+stdout, "\n:")
	if code != 0 || !strings.HasPrefix(directive, "4\n") { // ShellCompDirectiveNoFileComp
		t.Errorf("%v: exit code %d, directive %q: %s", args, code, directive, stderr)
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(offered, " ", "_")), " ")
}

func TestNamesOfTheClusterAreCompleted(t *testing.T) {
	kubeconfig := namesServer(t, map[string][]string{
		"/api/v1/namespaces/shop/pods": {"web-2", "web-1", "done"}, "/api/v1/namespaces/jobs/pods": {"job"}, "/api/v1/nodes": {"n1", "n2"}, "/api/v1/namespaces": {"shop", "jobs"},
		"/api/v1/namespaces/shop/pods?status.phase=Running": {"web-1", "web-2"}, "/apis/supercargo.dev/v1alpha1/nodefleets": {"batch"},
		"/apis/karpenter.sh/v1/nodepools":               {"spot", "default"},
		"/apis/supercargo.dev/v1alpha1/machineprofiles": {"xeon"}, "/apis/supercargo.dev/v1alpha1/namespaces/shop/workerpools": {"blast"},
	})
	kinds := "pod node nodefleet replicapolicy workerpool migration machineprofile pods all_pods_without_a_node consolidation the_descheduler's_last_decision_about_nodes"
	for _, tc := range []struct{ line, want string }{
		{"explain ", kinds},
		{"explain pod ", "done web-1 web-2"},
		{"explain po web", "done web-1 web-2"}, // the shell picks those that begin so
		{"explain pods ", "done web-1 web-2"},
		{"explain pod/", "pod/done pod/web-1 pod/web-2"},
		{"explain po/w", "po/done po/web-1 po/web-2"},
		{"explain -n jobs pod ", "job"},
		{"explain --context night pod ", "job"},
		{"explain node ", "n1 n2"},
		{"explain nodefleet ", "batch"},
		{"explain nf/", "nf/batch"},
		{"explain wp ", "blast"},
		{"explain machineprofile ", "xeon"},
		{"explain migration ", ""}, // the cluster has no such kind
		{"explain nothing ", ""},
		{"explain consolidation ", ""},
		{"explain pod web-1 ", ""},
		{"explain pod/web-1 ", ""},
		{"adopt ", "nodepool nodepools all_NodePools_of_Karpenter machinedeployments those_that_cluster-autoscaler_scales"},
		{"adopt nodepool/", "nodepool/default nodepool/spot"},
		{"adopt nodepool/spot nodepool/", "nodepool/default"},
		{"adopt nodepool ", "default spot"},
		{"adopt nodepools ", "default spot"},
		{"adopt machinedeployments ", ""},
		{"adopt machinedeployments -n ", "jobs shop"},
		{"migrate ", "web-1 web-2"},
		{"migrate web-1 ", ""},
		{"migrate web-1 --to ", "n1 n2"},
		{"explain -n ", "jobs shop"},
		{"explain pods --namespace ", "jobs shop"},
		{"pause -n ", "jobs shop"},
		{"record -n ", "jobs shop"},
		{"audit --context ", "night work"},
		{"dashboard --context ", "night work"},
		{"resume --cluster ", "c"},
		{"explain --user ", "u"},
	} {
		args := strings.Split(tc.line, " ")
		last := args[len(args)-1]
		args = append(append(args[:1:1], "--kubeconfig", kubeconfig), args[1:]...)
		args[len(args)-1] = last
		if diff := cmp.Diff(tc.want, completions(t, args...)); diff != "" {
			t.Errorf("supercargo %s<TAB> (-want +got):\n%s", tc.line, diff)
		}
	}
}

func TestValuesOfFlagsAreCompleted(t *testing.T) {
	for line, want := range map[string]string{
		"adopt -o ": "yaml json", "audit -o ": "table json yaml", "explain -o ": "table json yaml", "plan -o ": "table json", "version -o ": "table json", "plan --algorithm ": "supercargo greedy",
		"simulate --policy default,coca,s": "default,coca,most-allocated default,coca,stratus default,coca,htas default,coca,supercargo",
		"replicas --law hpa,":              "hpa,predictive hpa,inversequeue hpa,doublethreshold hpa,hpa-dhpa hpa,qmdl hpa,qmca hpa,inversep hpa,proportional",
		"workers --law ":                   "supercargo hta hta-paper hpa-20 hpa-50",
		"demo --profile ":                  "default supercargo",
		"audit --arch arm64,":              "arm64,amd64 arm64,ppc64le arm64,riscv64 arm64,s390x",
		"audit ":                           "", "plan ": "", "dashboard ": "", "simulate ": "", "report energy ": "",
	} {
		if diff := cmp.Diff(want, completions(t, strings.Split(line, " ")...)); diff != "" {
			t.Errorf("supercargo %s<TAB> (-want +got):\n%s", line, diff)
		}
	}
	regions := strings.Fields(completions(t, "audit", "--region", ""))
	for _, region := range regions {
		if !auditor.KnownRegion(region) {
			t.Errorf("--region %s is offered, and not taken", region)
		}
	}
	if !slices.Contains(regions, "us-east-1") {
		t.Errorf("regions are %s", regions)
	}
	// Files are still offered where one is read.
	if _, stdout, _ := supercargo(t, "", "__complete", "plan", "-f", ""); !strings.HasPrefix(stdout, ":0\n") {
		t.Errorf("for a file it offers %q", stdout)
	}
}

// TestCompletionDoesNotWaitForAClusterThatDoesNotAnswer: the user waits at the prompt.
func TestCompletionDoesNotWaitForAClusterThatDoesNotAnswer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections, and nobody reads from them
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, kubeconfig := range map[string]string{"silent": kubeconfigOf(t, "http://"+silent.Addr().String()), "gone": kubeconfigOf(t, gone.URL), "none": "/none"} {
		for _, line := range []string{"explain nodefleet/", "explain -n "} {
			args := strings.Split(line, " ")
			start := time.Now()
			offered := completions(t, append(append(args[:1:1], "--kubeconfig", kubeconfig), args[1:]...)...)
			if waited := time.Since(start); offered != "" || waited > 10*time.Second {
				t.Errorf("%s, %s<TAB>: %q after %v", name, line, offered, waited)
			}
		}
	}
}
