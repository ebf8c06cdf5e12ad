package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/test/kit/commandtest"
)

const nodePoolFiles = "../../../test/data/nodepools/"

func TestAdoptRefusesBadInputWithTwo(t *testing.T) {
	file := nodePoolFiles + "gcp/default-nodepool.yaml"
	for _, tc := range []struct {
		stdin string
		args  []string
		says  string
	}{
		{"", nil, "name what to adopt: nodepool/NAME, nodepools or machinedeployments"},
		{"", []string{"nodepool"}, "NodePool"}, // all of them, without a cluster
		{"", []string{"nodepool/"}, `"nodepool/": name what to adopt`},
		{"", []string{"nodepool/a", "machinedeployments"}, `"machinedeployments": name what to adopt`},
		{"", []string{"machinedeployments/x"}, `"machinedeployments/x": name what to adopt`},
		{"", []string{"deployments"}, `"deployments": name what to adopt`},
		{"", []string{"nodepools", "-l", "a=b"}, "--selector: selects MachineDeployments: name NodePools instead"},
		{"", []string{"machinedeployments", "-l", "a>3"}, `--selector "a>3": gt: must use`},
		{"", []string{"nodepools", "-f", file, "--context", "x"}, "--context and -f are mutually exclusive"},
		{"", []string{"nodepools", "-f", "none.yaml"}, "-f: open none.yaml"},
		{"prose", []string{"nodepools", "-f", "-"}, "stdin: document 1: "},
		{"", []string{"nodepools", "-f", "-"}, "stdin: is empty"},
		{"", []string{"nodepool/x", "-f", file}, "NodePool x does not exist: there are default-nodepool"},
		{"", []string{"machinedeployments", "-f", file}, "there is nothing to adopt"},
	} {
		if len(tc.args) == 1 && tc.args[0] == "nodepool" {
			tc.args, tc.says = append(tc.args, "--kubeconfig", "/none"), "/none"
		}
		code, stdout, stderr := supercargo(t, tc.stdin, append([]string{"adopt"}, tc.args...)...)
		if code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, tc.says) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want %d, nothing and %q", tc.args, code, stdout, stderr, command.ExitUsage, tc.says)
		}
	}
}

// adoptDocument is the part of the JSON that scripts use.
type adoptDocument struct {
	Kind  string
	Items []struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			Mode       string
			ClusterAPI struct {
				Namespace string
				Selector  struct{ MatchLabels map[string]string }
			}
		}
	}
	Notes []struct{ Fleet, Object, Field, Value, Difference, Action string }
	Steps []struct {
		Text     string
		Commands []string
	}
}

func readAdopted(t *testing.T, args ...string) (d adoptDocument) {
	t.Helper()
	code, stdout, stderr := supercargo(t, "", append(append([]string{"adopt"}, args...), "-o", "json")...)
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || code != command.ExitOK || stderr != "" {
		t.Fatalf("exit code %d, %q on stderr, and stdout %q (%v)", code, stderr, stdout, err)
	}
	return d
}

func TestOneOfSeveralNodePoolsIsAdoptedAndTheOthersAreNamed(t *testing.T) {
	d := readAdopted(t, "nodepool", "arm64", "-f", nodePoolFiles+"aws/multiple-arch.yaml", "--region", "us-east-1")
	if len(d.Items) != 1 || d.Kind != "List" || d.Items[0].Kind != "NodeFleet" || d.Items[0].Metadata.Name != "arm64" || d.Items[0].Spec.Mode != "Observe" {
		t.Errorf("adopted are %+v", d.Items)
	}
	if !strings.HasSuffix(d.Steps[2].Text, "separate them by a taint: amd64.") {
		t.Errorf("step 3 says %q", d.Steps[2].Text)
	}
	if d := readAdopted(t, "nodepool/arm64", "nodepool/amd64", "nodepool/arm64", "-f", nodePoolFiles+"aws/multiple-arch.yaml", "--region", "us-east-1"); len(d.Items) != 2 || d.Items[0].Metadata.Name != "amd64" {
		t.Errorf("adopted are %+v", d.Items)
	}
}

// adoptServer is an API server with these answers by path, which forbids everything else.
func adoptServer(t *testing.T, answers map[string]string) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if answer := answers[r.URL.Path]; answer != "" {
			fmt.Fprint(w, answer)
			return
		}
		code, reason := http.StatusForbidden, "Forbidden"
		if strings.HasPrefix(r.URL.Path, "/apis/") && strings.Count(r.URL.Path, "/") == 3 { // a version that is not served
			code, reason = http.StatusNotFound, "NotFound"
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d, "message": %q}`, reason, code, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	return kubeconfigOf(t, server.URL)
}

// TestALiveNodePoolIsAdoptedWithWhatMayBeRead: nodes and NodeClasses may be forbidden.
func TestALiveNodePoolIsAdoptedWithWhatMayBeRead(t *testing.T) {
	pool := `{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"}}}}}`
	answers := map[string]string{
		"/api":                            `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":                           `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "karpenter.sh", "versions": [{"groupVersion": "karpenter.sh/v1", "version": "v1"}]}, {"name": "karpenter.k8s.aws", "versions": [{"groupVersion": "karpenter.k8s.aws/v1", "version": "v1"}], "preferredVersion": {"groupVersion": "karpenter.k8s.aws/v1", "version": "v1"}}]}`,
		"/api/v1":                         `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "nodes", "kind": "Node", "verbs": ["list"]}]}`,
		"/apis/karpenter.sh/v1":           `{"kind": "APIResourceList", "groupVersion": "karpenter.sh/v1", "resources": [{"name": "nodepools", "kind": "NodePool", "verbs": ["list"]}]}`,
		"/apis/karpenter.k8s.aws/v1":      `{"kind": "APIResourceList", "groupVersion": "karpenter.k8s.aws/v1", "resources": [{"name": "ec2nodeclasses", "kind": "EC2NodeClass", "verbs": ["get"]}]}`,
		"/apis/karpenter.sh/v1/nodepools": `{"kind": "NodePoolList", "apiVersion": "karpenter.sh/v1", "metadata": {}, "items": [` + pool + `]}`,
	}
	zones := func() string {
		d := readAdopted(t, "nodepool/default", "--kubeconfig", adoptServer(t, answers))
		for _, n := range d.Notes {
			if strings.Contains(n.Difference, "lists no zones") {
				return n.Value + ": " + n.Difference
			}
		}
		return ""
	}
	const known = "The NodePool lists no zones. A fleet buys for pods that require a zone only in zones that it lists: these are "
	if diff := cmp.Diff(": The NodePool lists no zones, and they are not known. The fleet buys nothing for pods that require a zone.", zones()); diff != "" {
		t.Errorf("without permissions (-want +got):\n%s", diff)
	}
	answers["/api/v1/nodes"] = `{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": [{"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "us-east-1d"}}}]}`
	if diff := cmp.Diff("us-east-1d: "+known+"the zones in which the cluster has nodes.", zones()); diff != "" {
		t.Errorf("with nodes (-want +got):\n%s", diff)
	}
	answers["/apis/karpenter.k8s.aws/v1/ec2nodeclasses/c"] = `{"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "c"}, "status": {"subnets": [{"zone": "us-east-1a"}]}}`
	if diff := cmp.Diff("us-east-1a: "+known+"the zones of its NodeClass.", zones()); diff != "" {
		t.Errorf("with the NodeClass (-want +got):\n%s", diff)
	}
	code, stdout, stderr := supercargo(t, "", "adopt", "nodepool/x", "--kubeconfig", adoptServer(t, answers))
	if code != command.ExitFailed || stdout != "" || !strings.Contains(stderr, "NodePool x does not exist: there are default") {
		t.Errorf("a NodePool that does not exist: exit code %d, %q, %s", code, stdout, stderr)
	}
	for path := range answers {
		if strings.HasPrefix(path, "/apis/") {
			delete(answers, path)
		}
	}
	answers["/apis"] = `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`
	for arg, says := range map[string]string{
		"nodepools":          "the cluster serves no NodePools of karpenter.sh/v1: install Karpenter 1.0 or later",
		"machinedeployments": "the cluster serves no MachineDeployments: select the management cluster of cluster-api with --context",
	} {
		code, stdout, stderr := supercargo(t, "", "adopt", arg, "--kubeconfig", adoptServer(t, answers))
		if code != command.ExitFailed || stdout != "" || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, %q, %s", arg, code, stdout, stderr)
		}
	}
}

// TestLiveMachineDeploymentsAreAdoptedByNamespaceAndLabels in the version that the cluster prefers.
func TestLiveMachineDeploymentsAreAdoptedByNamespaceAndLabels(t *testing.T) {
	item := func(namespace, pool string) string {
		return fmt.Sprintf(`{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": {"name": "a", "namespace": %q, "labels": {"pool": %q}, "annotations": {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "9"}}, "spec": {"clusterName": "prod"}}`, namespace, pool)
	}
	list := func(items ...string) string {
		return `{"kind": "MachineDeploymentList", "apiVersion": "cluster.x-k8s.io/v1beta2", "metadata": {}, "items": [` + strings.Join(items, ",") + `]}`
	}
	kubeconfig := adoptServer(t, map[string]string{
		"/api":                           `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":                          `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "cluster.x-k8s.io", "versions": [{"groupVersion": "cluster.x-k8s.io/v1beta2", "version": "v1beta2"}], "preferredVersion": {"groupVersion": "cluster.x-k8s.io/v1beta2", "version": "v1beta2"}}]}`,
		"/api/v1":                        `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "nodes", "kind": "Node", "verbs": ["list"]}]}`,
		"/apis/cluster.x-k8s.io/v1beta2": `{"kind": "APIResourceList", "groupVersion": "cluster.x-k8s.io/v1beta2", "resources": [{"name": "machinedeployments", "namespaced": true, "kind": "MachineDeployment", "verbs": ["list"]}]}`,
		"/apis/cluster.x-k8s.io/v1beta2/machinedeployments":                    list(item("capi", "workers"), item("far", "workers")),
		"/apis/cluster.x-k8s.io/v1beta2/namespaces/capi/machinedeployments":    list(item("capi", "workers")),
		"/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinedeployments": list(item("default", "workers")),
	})
	for _, tc := range []struct {
		args  []string
		fleet string
	}{
		{[]string{"machinedeployments", "-n", "capi", "-l", "pool=workers"}, "prod: capi map[pool:workers]"},
		{[]string{"md", "-n", "capi"}, "prod: capi map[]"},
		{[]string{"machinedeployments"}, "prod: default map[]"},
		{[]string{"machinedeployments", "-A"}, "far-prod: far map[] prod: capi map[]"},
	} {
		var fleets []string
		for _, f := range readAdopted(t, append(tc.args, "--kubeconfig", kubeconfig)...).Items {
			fleets = append(fleets, fmt.Sprintf("%s: %s %v", f.Metadata.Name, f.Spec.ClusterAPI.Namespace, f.Spec.ClusterAPI.Selector.MatchLabels))
		}
		if diff := cmp.Diff(tc.fleet, strings.Join(fleets, " ")); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.args, diff)
		}
	}
	code, stdout, stderr := supercargo(t, "", "adopt", "machinedeployments", "-n", "capi", "-l", "pool=none", "--kubeconfig", kubeconfig)
	if code != command.ExitFailed || stdout != "" || !strings.Contains(stderr, "there is nothing to adopt") {
		t.Errorf("nothing that matches: exit code %d, %q, %s", code, stdout, stderr)
	}
}

// TestTheJSONOfAdoptIsThatOfItsContract holds the names that scripts rely on.
func TestTheJSONOfAdoptIsThatOfItsContract(t *testing.T) {
	commandtest.Hold(t, run, []commandtest.Contract{{
		Name: "adopt", Args: []string{"adopt", "nodepools", "-f", nodePoolFiles + "gcp/default-nodepool.yaml"},
		Fields: `
			apiVersion            string
			kind                  string
			items[].apiVersion    string
			items[].kind          string
			items[].metadata.name string
			items[].spec.mode     string
			notes[].fleet         string
			notes[].object        string
			notes[].field         string
			notes[].difference    string
			notes[].action        string
			steps[].text          string
			back[].text           string`,
		Values: map[string]any{"kind": "List", "items[].kind": "NodeFleet", "items[].spec.mode": "Observe"},
	}})
}
