//go:build install

package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/docs/commands"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/oci"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// namespace is the namespace of the release.
const namespace = "supercargo-system"

// programs is the number of programs that the chart runs: the autoscaler, the descheduler, the webhook for
// evictions, the metrics adapter, the dashboard, the second scheduler, and on each node an agent and a meter.
const programs = 8

// everything is a values file that enables all parts of the chart.
const everything = "test/e2e/install/testdata/everything.yaml"

// TestSupercargoIsInstalledUsedUpgradedAndRemoved follows docs/operations.md. Its parts run in sequence on
// one cluster.
func TestSupercargoIsInstalledUsedUpgradedAndRemoved(t *testing.T) {
	host := &site{T: t}
	// Made before the cluster, since they fail if a program is not installed on this host.
	images := []oci.Image{host.nginxImage(), host.workerImage(), {Name: cluster.Images["chain"], Program: cluster.ProgramPath("workload/chain")}}
	s := newSite(t)
	s.part("the control plane's own pods are ready", (*site).controlPlaneIsReady)
	s.part("an audit of the cluster", (*site).isAudited)
	s.say("loading images")
	s.importImages()
	s.importToAll("workload.tar", images...)
	before := s.nodeStates()
	s.part("helm installs everything and every pod is ready", (*site).installed)
	s.part("the runbooks' commands about running pods work", (*site).runbookCommands)
	s.part("the dashboard admits those who may see it", (*site).dashboardAdmits)
	s.part("the default scheduler is replaced", (*site).schedulerIsReplaced)
	s.part("a Job is moved by kubectl drain and counts no failure", (*site).jobIsDrained)
	s.part("the stock scheduler comes back", (*site).schedulerGoesBack)
	s.part("a ReplicaPolicy scales nginx by what the adapter measures", (*site).serviceIsScaled)
	s.part("a WorkerPool follows a Work Queue manager", (*site).poolFollowsItsManager)
	s.part("leaders are killed and others lead", (*site).leadersAreKilled)
	s.part("a worker loses power and comes back", (*site).workerIsKilled)
	s.part("certificates are made again", (*site).certificatesAreMadeAgain)
	s.part("a NodeFleet buys machines in a management cluster", (*site).fleetBuysElsewhere)
	s.part("helm upgrade while a pod is being moved", (*site).upgradedWhileAPodMoves)
	s.part("every right that an account has is needed, and none is missing", (*site).rightsAreRight)
	s.part("the control plane has new certificates and starts again", (*site).controlPlaneIsRenewed)
	s.part("helm uninstall leaves nodes and objects as they were", func(s *site) { s.uninstalled(before) })
}

func (s *site) controlPlaneIsReady() {
	s.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=5m")
	s.kubectl("wait", "--for=condition=Ready", "pods", "--all", "--namespace=kube-system", "--timeout=5m")
}

// installed installs both charts right after each other, as a user who copies the commands does.
func (s *site) installed() {
	s.helm("install", "supercargo-crds", "manifests/helm/supercargo-crds")
	s.helm("install", "supercargo", "manifests/helm/supercargo", "--namespace", namespace, "--create-namespace", "--values", everything)
	s.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	if all := s.workloads(); len(all) != programs {
		s.Fatalf("the release has %d Deployments and DaemonSets, want %d: %v", len(all), programs, all)
	}
	s.ready()
	accounts := map[string]string{}
	for name, account := range s.accounts() {
		if account == "default" {
			s.Errorf("pod %s runs under the account default of its namespace", name)
		}
		accounts[account] = name
	}
	if len(accounts) != programs {
		s.Errorf("pods run under %d accounts, want one for each of %d programs: %v", len(accounts), programs, accounts)
	}
	restarts := s.get(`{range .items[*]}{.metadata.name}{range .status.containerStatuses[?(@.restartCount!=0)]} {.restartCount}{end}{"\n"}{end}`,
		"pods", "-A", "-l", "app.kubernetes.io/name")
	for _, line := range lines(restarts) {
		if pod, times, restarted := strings.Cut(line, " "); restarted {
			s.Errorf("pod %s was restarted %s times before it was ready", pod, times)
		}
	}
	for _, node := range s.Nodes {
		s.eventually("node "+node.Name+" can restore containers", func() error {
			capability := s.get(`{.metadata.annotations.supercargo\.dev/checkpoint-capability}`, "node", node.Name)
			var can struct {
				Restore bool
			}
			if err := json.Unmarshal([]byte(capability), &can); err != nil || !can.Restore {
				return fmt.Errorf("it says %q: %w", capability, err)
			}
			return nil
		})
	}
}

// ready waits until all workloads of the release exist and are ready.
func (s *site) ready() {
	s.Helper()
	for _, workload := range s.workloads() {
		s.kubectl(append([]string{"rollout", "status", "--timeout=5m"}, workload...)...)
	}
}

// workloads returns the Deployments and DaemonSets of the release, as arguments of kubectl.
func (s *site) workloads() [][]string {
	s.Helper()
	out := s.kubectl("get", "deployments,daemonsets", "-A", "-l", "app.kubernetes.io/part-of=supercargo",
		"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} --namespace={.metadata.namespace}{"\n"}{end}`)
	var all [][]string
	for _, line := range lines(out) {
		all = append(all, strings.Fields(line))
	}
	if len(all) == 0 {
		s.Fatalf("the release has no Deployments and DaemonSets:\n%s", out)
	}
	return all
}

// accounts maps the names of the release's pods to their ServiceAccounts.
func (s *site) accounts() map[string]string {
	s.Helper()
	accounts := map[string]string{}
	for _, line := range lines(s.kubectl("get", "pods", "-A", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.spec.serviceAccountName}{"\n"}{end}`)) {
		if name, account, _ := strings.Cut(line, " "); strings.HasPrefix(name, "supercargo-") {
			accounts[name] = account
		}
	}
	return accounts
}

// replacementSteps are the steps of manifests/scheduler/replace/README.md, with the files from the ConfigMap
// of the chart, on the control plane node.
const replacementSteps = `
export KUBECONFIG=/etc/kubernetes/admin.conf
kubectl -n kube-system get configmap supercargo-kube-scheduler -o jsonpath='{.data.supercargo-scheduler\.yaml}' >/etc/kubernetes/supercargo-scheduler.yaml
cp -r "$1" /etc/kubernetes/replace && cd /etc/kubernetes/replace
kubectl -n kube-system get configmap supercargo-kube-scheduler -o jsonpath='{.data.patch\.yaml}' >kube-scheduler+json.yaml
cp /etc/kubernetes/manifests/kube-scheduler.yaml /etc/kubernetes/kube-scheduler.stock.yaml
cp /etc/kubernetes/manifests/kube-scheduler.yaml kube-scheduler.yaml
kubectl kustomize . >/etc/kubernetes/kube-scheduler.new.yaml
mv /etc/kubernetes/kube-scheduler.new.yaml /etc/kubernetes/manifests/kube-scheduler.yaml
`

func (s *site) schedulerIsReplaced() {
	folder, err := filepath.Abs(filepath.Join(project, "manifests/scheduler/replace"))
	if err != nil {
		s.Fatal(err)
	}
	s.onControlPlane("set -- '" + folder + "'\n" + replacementSteps)
	s.schedules("registry.invalid/supercargo/kube-scheduler:v0.1.0")
}

func (s *site) schedulerGoesBack() {
	s.onControlPlane("mv /etc/kubernetes/kube-scheduler.stock.yaml /etc/kubernetes/manifests/kube-scheduler.yaml")
	s.schedules("localhost/kubernetes/kube-scheduler:v1.35.4")
}

// schedules waits until the default scheduler runs an image and is ready, and a pod that names no scheduler
// is bound.
func (s *site) schedules(image string) {
	s.Helper()
	pod := []string{"pod", "-n", "kube-system", "-l", "component=kube-scheduler"}
	s.says(image+" true", "{.items[*].spec.containers[0].image} {.items[*].status.containerStatuses[0].ready}", pod...)
	s.kubectl("run", "probe", "--image", cluster.PauseImage, "--restart", "Never")
	s.kubectl("wait", "--for=condition=PodScheduled", "pod/probe", "--timeout=2m")
	s.kubectl("delete", "pod", "probe", "--now")
}

// The schedulers that jobs may name: the default one, and the second one of the chart.
const (
	defaultScheduler = "default-scheduler"
	secondScheduler  = "batch-packing"
)

// job returns a Job of one movable pod, which computes a chain of hashes.
func job(name, scheduler string, steps int) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  backoffLimit: 0
  podReplacementPolicy: Failed
  template:
    metadata: {annotations: {supercargo.dev/migration: checkpoint}}
    spec:
      restartPolicy: Never
      schedulerName: %s
      terminationGracePeriodSeconds: 1
      automountServiceAccountToken: false
      containers:
        - name: main
          image: %s
          imagePullPolicy: Never
          env: [{name: STEPS, value: "%d"}]
          resources: {requests: {cpu: 10m, memory: 16Mi}}
`, name, scheduler, cluster.Images["chain"], steps)
}

// starts creates a Job and returns the node on which it runs.
func (s *site) starts(name, scheduler string, steps int) (node string) {
	s.Helper()
	s.apply(job(name, scheduler, steps))
	s.says("Running", "{.items[*].status.phase}", "pods", "-l", "job-name="+name)
	return s.get("{.items[0].spec.nodeName}", "pods", "-l", "job-name="+name)
}

// whole waits until a Job is complete, and checks that no step was lost, repeated or counted as a failure.
func (s *site) whole(name string, steps int64) {
	s.Helper()
	s.kubectl("wait", "--for=condition=Complete", "job/"+name, "--timeout=5m")
	if got := s.get("{.status.succeeded} {.status.failed}", "job", name); strings.TrimSpace(got) != "1" && got != "1 0" {
		s.Errorf("Job %s has succeeded and failed %q times, want once and never", name, got)
	}
	output := s.kubectl("logs", "job/"+name)
	if got, want := workload.LastLine([]byte(output)), workload.ChainResult(0, steps); got != want {
		s.Errorf("the chain of Job %s ended with %q, want %q", name, got, want)
	}
}

func (s *site) jobIsDrained() {
	s.drained("drained", defaultScheduler)
	s.says("Succeeded", "{.items[*].status.phase}", "migrations")
}

// drained drains the node of a new Job, which moves, and waits until the Job is complete.
func (s *site) drained(name, scheduler string) {
	s.Helper()
	const steps = 400
	node := s.starts(name, scheduler, steps)
	out := s.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=job-name="+name, "--timeout=4m")
	if !strings.Contains(out, "Eviction triggered evacuation") {
		s.Errorf("the drain does not say that a pod moves:\n%s", out)
	}
	s.says("Running", `{.items[?(@.spec.nodeName!="`+node+`")].status.phase}`, "pods", "-l", "job-name="+name)
	s.kubectl("uncordon", node)
	s.whole(name, steps)
}

// upgradedWhileAPodMoves upgrades the release while a Migration is in progress.
func (s *site) upgradedWhileAPodMoves() {
	s.movesDuring("upgraded", func() {
		s.helm("upgrade", "supercargo-crds", "manifests/helm/supercargo-crds")
		s.helm("upgrade", "supercargo", "manifests/helm/supercargo", "--namespace", namespace, "--values", everything,
			"--set", "descheduler.podAnnotations.upgraded=yes", "--set", "nodeAgent.podAnnotations.upgraded=yes",
			"--set", "autoscaler.podAnnotations.upgraded=yes")
		s.ready()
	})
}

// movesDuring starts a Job, has its pod moved, changes the release while the Migration is in progress, and
// checks that the Migration succeeds and the Job is complete.
func (s *site) movesDuring(name string, change func()) {
	s.Helper()
	const steps = 600
	node := s.starts(name, secondScheduler, steps)
	s.kubectl("cordon", node)
	s.apply(fmt.Sprintf(`
apiVersion: supercargo.dev/v1alpha1
kind: Migration
metadata: {name: %s}
spec: {podName: %s}
`, name, s.get("{.items[0].metadata.name}", "pods", "-l", "job-name="+name)))
	s.eventually("the Migration is under way", func() error {
		switch phase := s.get("{.status.phase}", "migration", name); phase {
		case "", "Pending":
			return errors.New("it has not begun")
		case "Succeeded", "RolledBack", "Refused":
			s.Fatalf("the Migration was %s before the release was changed", phase)
		}
		return nil
	})
	change()
	s.kubectl("uncordon", node)
	s.says("Succeeded", "{.status.phase}", "migration", name)
	s.whole(name, steps)
}

// nodeStates returns what users see of nodes: whether they are schedulable, and their taints.
func (s *site) nodeStates() []string {
	s.Helper()
	return lines(s.kubectl("get", "nodes", "-o",
		`jsonpath={range .items[*]}{.metadata.name} unschedulable={.spec.unschedulable} taints={.spec.taints}{"\n"}{end}`))
}

// uninstalled follows the steps of "Remove": it deletes Migrations while the descheduler and the agents run,
// then the releases.
func (s *site) uninstalled(before []string) {
	const steps = 900
	s.starts("left", secondScheduler, steps)
	s.apply(`
apiVersion: supercargo.dev/v1alpha1
kind: Migration
metadata: {name: left}
spec: {podName: ` + s.get("{.items[0].metadata.name}", "pods", "-l", "job-name=left") + `}
`)
	s.kubectl("delete", "migrations", "--all", "-A")
	s.helm("uninstall", "supercargo", "--namespace", namespace, "--wait")
	s.helm("uninstall", "supercargo-crds")
	if err := differ(before, s.nodeStates()); err != nil {
		s.Errorf("the nodes are not as they were before Supercargo was installed:\n%v", err)
	}
	s.whole("left", steps)
	for _, kind := range []string{"apiservices", "validatingwebhookconfigurations", "clusterroles", "clusterrolebindings", "validatingadmissionpolicies"} {
		if left := s.get(`{.items[*].metadata.name}`, kind, "-l", "app.kubernetes.io/part-of=supercargo"); left != "" {
			s.Errorf("%s of Supercargo are left: %s", kind, left)
		}
	}
	if crds := s.kubectl("get", "crds"); !strings.Contains(crds, "migrations.supercargo.dev") {
		s.Error("the kinds have gone with the releases")
	}
}

// runbookCommands runs the commands of the documentation that read logs and Leases, or connect to pods. They need
// running pods.
func (s *site) runbookCommands() {
	ran := 0
	for _, pattern := range []string{"docs/*.md", "docs/runbooks/*.md"} {
		files, err := filepath.Glob(filepath.Join(project, pattern))
		if err != nil {
			s.Fatal(err)
		}
		for _, file := range files {
			all, err := commands.Read(project, filepath.Join(filepath.Dir(pattern), filepath.Base(file)))
			if err != nil {
				s.Fatal(err)
			}
			for _, c := range all {
				if place := commands.Of(c); place != nil && place.Kubeadm {
					ran++
					s.runs(c, place)
				}
			}
		}
	}
	if ran < 20 {
		s.Errorf("only %d commands were run", ran)
	}
}

// runs runs a command of a page. A command that does not end by itself is stopped after five seconds.
func (s *site) runs(c commands.Command, place *commands.Place) {
	s.Helper()
	text, _, _ := strings.Cut(strings.TrimSuffix(c.Text, " &"), " | grep ") // grep fails if it finds nothing
	text = strings.NewReplacer("NAMESPACE", "default", "POOL", "pool", "NODE", s.Nodes[0].Name, "POD", s.podFor(c.Text), "--previous", "").Replace(text)
	if place.Until != "" {
		text = "timeout 5 " + text + "; test $? -eq 124"
	}
	if out, err := s.try("bash", "-c", text); err != nil {
		s.Errorf("%s: %v\n%s", c, err, out)
	}
}

// podFor returns the name that replaces POD in a command: that of a pod in the namespace that the command names.
func (s *site) podFor(text string) string {
	s.Helper()
	for namespace, program := range map[string]string{
		"supercargo-agent": "supercargo-node-agent", "supercargo-meter": "supercargo-node-meter", "supercargo-system": "supercargo-metrics-adapter",
	} {
		if strings.Contains(text, "-n "+namespace+" ") && strings.Contains(text, " POD") {
			return s.get("{.items[0].metadata.name}", "pods", "-n", namespace, "-l", "app.kubernetes.io/name="+program)
		}
	}
	return ""
}
