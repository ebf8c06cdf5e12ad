//go:build install

package install

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// boughtPool is the value of the label and taint of bought machines' nodes. No kubelet runs on them, so pods
// that must do something must not be scheduled there.
const boughtPool = "bought"

var boughtTaints = []corev1.Taint{{Key: "pool", Value: boughtPool, Effect: corev1.TaintEffectNoSchedule}}

// boughtFleet is a fleet of machines of the management cluster, with short intervals.
const boughtFleet = `
apiVersion: supercargo.dev/v1alpha1
kind: NodeFleet
metadata: {name: ` + boughtPool + `}
spec:
  mode: Act
  clusterAPI: {namespace: default, names: [large]}
  pricing: {billingPeriod: 1s}
  scaling: {interval: 2s, batchIdle: 1s, batchMax: 10s}
  consolidation: {policy: WhenEmpty, after: 1s, queueEmptyFor: 1s}
`

// boughtJobs is a Job of three pods that end after two minutes. Two of them fit on a machine.
const boughtJobs = `
apiVersion: batch/v1
kind: Job
metadata: {name: elsewhere}
spec:
  completions: 3
  parallelism: 3
  template:
    metadata: {annotations: {supercargo.dev/runtime: 120s}}
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      nodeSelector: {pool: ` + boughtPool + `}
      tolerations: [{key: pool, value: ` + boughtPool + `}]
      containers: [{name: main, image: none, resources: {requests: {cpu: 1500m, memory: 1Gi}}}]
`

// management is the management cluster: a playground whose machines become nodes of the cluster
// that kubeadm made.
type management struct {
	*site
	folder string // contains the kubeconfig of both clusters, and the files that the steps write
}

// fleetBuysElsewhere sets up a management cluster by the steps of docs/nodefleet.md, lets a
// NodeFleet buy machines there, and reverts the release to its former values.
func (s *site) fleetBuysElsewhere() {
	m := s.newManagement()
	m.documented("export machines=default\n")
	s.ready()
	s.apply(boughtFleet)
	s.says("True Reconciled", `{.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].reason}`, "nodefleet", boughtPool)
	s.apply(boughtJobs)
	s.kubectl("wait", "--for=jsonpath={.status.ready}=3", "job/elsewhere", "--timeout=5m")
	bought := lines(s.get(`{range .items[*]}{.metadata.name}{"\n"}{end}`, "nodes", "-l", "pool="+boughtPool))
	machines := lines(m.inManagement("get", "machines", "-A", "-o", `jsonpath={range .items[*]}{.status.nodeRef.name}{"\n"}{end}`))
	if err := differ(machines, bought); err != nil || len(bought) != 2 {
		s.Errorf("two machines are needed: the nodes are %q, and those of the machines %q", bought, machines)
	}
	if nodes := m.inManagement("get", "nodes", "-o", "name"); strings.TrimSpace(nodes) != "" && !strings.Contains(nodes, "No resources found") {
		s.Errorf("the management cluster has nodes of its own: %s", nodes)
	}
	s.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=2m") // the nodes keep renewing their Leases
	s.tokenIsReplaced(m)
	s.kubectl("wait", "--for=condition=Complete", "job/elsewhere", "--timeout=10m")
	s.says("", `{.items[*].metadata.name}`, "nodes", "-l", "pool="+boughtPool)
	s.eventually("no machine is left", func() error {
		if left := m.inManagement("get", "machines", "-A", "-o", "jsonpath={.items[*].metadata.name}"); left != "" {
			return errors.New(left)
		}
		return nil
	})
	s.kubectl("delete", "nodefleet", boughtPool)
	s.kubectl("delete", "job", "elsewhere")
	s.helm("upgrade", "supercargo", "manifests/helm/supercargo", "--namespace", namespace, "--values", everything)
	s.ready()
}

// tokenIsReplaced replaces the token by the steps of the page, and checks that no pod restarts.
// The fleet is not Ready while the autoscaler has the old token.
func (s *site) tokenIsReplaced(m *management) {
	restarts := func() string {
		return s.get(`{range .items[*]}{.metadata.name} {.status.containerStatuses[0].restartCount}{"\n"}{end}`, "pods", "-n", namespace, "-l", "app.kubernetes.io/name=supercargo-autoscaler")
	}
	before := restarts()
	ready := `{.status.conditions[?(@.type=="Ready")].reason}`
	m.inManagement("delete", "secret", "supercargo-autoscaler-token", "-n", "supercargo-management")
	s.says("ProviderUnreachable", ready, "nodefleet", boughtPool)
	m.documentedAfter("**Another token.**", "delete secret")
	s.says("Reconciled", ready, "nodefleet", boughtPool)
	if after := restarts(); after != before {
		s.Errorf("pods of the autoscaler, with their restarts, were\n%sand are\n%s", before, after)
	}
}

// newManagement starts the management cluster. It grants the account of the autoscaler the right to read
// the playground's machine templates; the manifests name only the templates of other providers.
func (s *site) newManagement() *management {
	s.Helper()
	p := playground.ForTest(s.T, playground.Options{
		ClusterAPI: true, NoScheduler: true, WorkloadKubeconfig: s.Kubeconfig, KubeletsReach: net.ParseIP(s.Gateway()),
	})
	m := &management{site: s, folder: s.TempDir()}
	both := clientcmdapi.NewConfig()
	for name, path := range map[string]string{"management": p.KubeconfigPath(), "workload": s.Kubeconfig} {
		config, err := clientcmd.LoadFromFile(path)
		if err != nil {
			s.Fatal(err)
		}
		context := config.Contexts[config.CurrentContext]
		both.Clusters[name], both.AuthInfos[name] = config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
		both.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	if err := clientcmd.WriteToFile(*both, filepath.Join(m.folder, "kubeconfig")); err != nil {
		s.Fatal(err)
	}
	root, err := filepath.Abs(project)
	if err == nil {
		err = os.Symlink(filepath.Join(root, "manifests"), filepath.Join(m.folder, "manifests"))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(m.folder, "my-values.yaml"), m.values(), 0o600)
	}
	if err == nil {
		err = p.AddMachineDeployment(s.Context(), playground.MachineDeploymentSpec{
			Name: "large", Flavor: "m1.large", CPU: "4", Memory: "16Gi", PricePerHour: "0.2746", Max: 5,
			Labels: map[string]string{"pool": boughtPool}, Taints: boughtTaints,
		})
	}
	if err != nil {
		s.Fatal(err)
	}
	m.inManagement("create", "role", "kwok-machine-templates", "--verb=get", "--resource=kwokmachinetemplates.infrastructure.playground.supercargo.dev")
	m.inManagement("create", "rolebinding", "kwok-machine-templates", "--role=kwok-machine-templates", "--serviceaccount=supercargo-management:supercargo-autoscaler")
	return m
}

// values returns the values of everything without the catalogue, whose permissions belong in the management
// cluster.
func (m *management) values() []byte {
	m.Helper()
	text := testfile.Read(m, filepath.Join(project, everything))
	const here = "  catalogue: {enabled: true}\n"
	if !strings.Contains(string(text), here) {
		m.Fatalf("%s has no line %q", everything, here)
	}
	return []byte(strings.Replace(string(text), here, "", 1))
}

// inManagement runs kubectl as an administrator of the management cluster.
func (m *management) inManagement(args ...string) string {
	m.Helper()
	return m.must("kubectl", append([]string{"--kubeconfig", filepath.Join(m.folder, "kubeconfig"), "--context", "management"}, args...)...)
}

// documented runs the steps of docs/nodefleet.md that set up a management cluster, in a shell. The steps
// must begin with first.
func (m *management) documented(first string) {
	m.Helper()
	m.runs(m.steps("## Management cluster", "**Another token.**"), first)
}

// documentedAfter runs the steps after a text of the page. words are those of a command that deletes.
func (m *management) documentedAfter(text, words string) {
	m.Helper()
	// The test has already deleted the object.
	m.runs(strings.ReplaceAll(m.steps(text, "**While the management cluster"), words, words+" --ignore-not-found"), "kubectl")
}

// steps returns the lines of code between two texts of the page.
func (m *management) steps(from, to string) string {
	m.Helper()
	page := testfile.Read(m, filepath.Join(project, "docs/nodefleet.md"))
	_, rest, found := strings.Cut(string(page), from)
	section, _, ends := strings.Cut(rest, to)
	if !found || !ends {
		m.Fatalf("docs/nodefleet.md has nothing between %q and %q", from, to)
	}
	var steps strings.Builder
	for line := range strings.SplitSeq(section, "\n") {
		if command, isCode := strings.CutPrefix(line, "    "); isCode {
			fmt.Fprintln(&steps, command)
		}
	}
	return steps.String()
}

func (m *management) runs(steps, first string) {
	m.Helper()
	if !strings.HasPrefix(steps, first) {
		m.Fatalf("the steps do not begin with %q:\n%s", first, steps)
	}
	ctx, cancel := context.WithTimeout(m.Context(), 2*patience)
	defer cancel()
	shell := exec.CommandContext(ctx, "sh", "-exc", steps)
	shell.Dir = m.folder
	shell.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(m.folder, "kubeconfig"), "HOME="+m.folder)
	if out, err := shell.CombinedOutput(); err != nil {
		m.Fatalf("the steps of docs/nodefleet.md: %v\n%s", err, out)
	}
}
