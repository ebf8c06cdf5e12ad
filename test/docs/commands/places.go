package commands

import "regexp"

// Place specifies where commands of the documentation run. The first place that matches a command applies. A command
// without a place runs unchanged on the playground. At most one of Test, Reason and Kubeadm is set.
type Place struct {
	// Pages is a regular expression that the path of the page matches; empty for all pages.
	Pages string
	// Command is a regular expression that matches the beginning of the command's text.
	Command string

	// Test is the name of the test that runs the command, possibly with other names.
	Test string
	// Reason is the reason why no test of the commands runs it.
	Reason string
	// Kubeadm is set if the command runs on the cluster that kubeadm makes, where pods have containers and logs.
	Kubeadm bool

	// Replace lists pairs of a part of the command and its replacement on the playground.
	Replace []string
	// Until is a regular expression, for a command that does not end by itself. The command runs until its output matches.
	Until string
}

// Runs reports whether the command runs on the playground.
func (p *Place) Runs() bool { return p == nil || p.Test == "" && p.Reason == "" && !p.Kubeadm }

// Of returns the place of a command, or nil if the command runs unchanged on the playground.
func Of(c Command) *Place {
	for i := range Places {
		p := &Places[i]
		if regexp.MustCompile(p.Pages).MatchString(c.Page) && regexp.MustCompile("^(?:"+p.Command+")").MatchString(c.Text) {
			return p
		}
	}
	return nil
}

// installed is the test that installs, upgrades and removes everything with only kubectl and helm.
const installed = "TestSupercargoIsInstalledUsedUpgradedAndRemoved"

const (
	measures  = "a measurement that takes long; the page has its figures, date and machine"
	suite     = "builds, or runs tests: the suites run it"
	privilege = "changes the machine"
	published = "needs a registry, a key or a published release"
)

// decided runs a descheduler until it has published a decision, and shows that.
const decided = "{ timeout 100 bin/descheduler --kubeconfig playground.kubeconfig --leader-elect=false --metrics-bind-address=0 --health-probe-bind-address=0" +
	" --consolidation-interval=1s --pause-namespace=supercargo-system >descheduler.log 2>&1 & trap \"kill $!\" EXIT;" +
	" timeout 90 bash -c 'until supercargo explain consolidation 2>explain.log; do sleep 1; done' || { cat explain.log descheduler.log; exit 1; }; }"

// Places lists the places of all commands that do not run unchanged on the playground. Order matters: the first match
// applies.
var Places = []Place{
	// Building, testing, measuring.
	{Command: `make bench-|go test .* -bench `, Reason: measures},
	{Pages: `benchmarks`, Command: `go run ./test/measure dump|/usr/bin/time|supercargo replicas|sed `, Reason: measures},
	{Command: `make demo$`, Test: "TestMakeDemoSaysFirstThatItTakesMinutes"},
	{Command: `grep -rl registry.invalid manifests `, Test: "TestNoManifestNamesARegistryOfOthers"}, // it would change the sources
	{Command: `make (images|release|verify-release) `, Reason: suite},
	{Command: `make( |$)`, Reason: suite},
	{Command: `apt-get `, Reason: privilege},
	{Command: `hack/nodes/nodes.sh `, Reason: privilege + ": make e2e-nodes and make e2e-install run it"},
	{Command: `hack/vms/vms.sh `, Reason: privilege + ": make e2e-vm runs it"},
	{Command: `go run ./test/e2e/install/up`, Test: installed},
	{Command: `(git tag |for p in dist/release|gpg )`, Reason: published},
	{Command: `(npm|tar) `, Reason: "fetches a new version of a file of the repository"},

	// The command line.
	{Command: `supercargo report energy --prometheus http://(prometheus\.monitoring|localhost:9090 --(power kepler|since 168h))`, Test: "TestReportEnergyOfAServer"},
	{Command: `supercargo report energy -f `, Test: "TestReportEnergyOfAFile"},
	{Command: `supercargo record .*--prometheus`, Test: "TestThePastOfAServerIsRecordedAndPlayed"},
	{Command: `supercargo report nodes .*--at `, Test: "TestReportNodesOfAMoment"},
	{Command: `supercargo report cost -f week.csv`, Test: "TestReportCostOfARecording"},
	{Command: `supercargo demo --open`, Test: "TestDemoComparesTheProfiles"},
	{Command: `supercargo dashboard --context production`, Replace: []string{"production", "supercargo-playground"}, Until: `http://127\.0\.0\.1:9000`},
	{Command: `(bin/)?supercargo dashboard`, Until: `http://`},
	{Command: `supercargo record `, Replace: []string{"168h", "5s"}},
	{Command: `bin/supercargo playground .*my-manifests`, Replace: []string{" -f ", " --cluster-api=false -f "}, Until: `(?m)^ready$`},
	{Pages: `start-playground`, Command: `bin/supercargo playground|export `, Reason: "the test of the commands does it first"},
	{Pages: `start-cluster`, Command: `export `, Reason: "the test of the commands does it first"},
	{Command: `supercargo migrate work-0-x7k2p`, Test: "TestTheCommandMovesAPodAndSaysHowItWent"},
	{Pages: `start-cluster`, Command: `helm uninstall |kubectl delete -k manifests/base`, Test: installed}, // other pages need the kinds
	{Command: `helm uninstall supercargo `, Test: installed},                                               // here a pod in a namespace of the release has no kubelet that would end it
	{Command: `supercargo explain consolidation`, Replace: []string{"supercargo explain consolidation", decided}},
	{Pages: `runbooks`, Command: `kubectl -n supercargo-system get configmap supercargo-pause `, Replace: []string{"kubectl -n", "supercargo pause --reason maintenance && kubectl -n"}},
	{Pages: `runbooks`, Command: `kubectl describe machine `, Replace: []string{" MACHINE", ""}},
	{Command: `kubectl annotate machinedeployment `, Replace: []string{"-n capi batch-4x", "-n default m7i.4xlarge"}},
	{Command: `supercargo workers .*tasks\.csv`, Replace: []string{"-f tasks.csv", "-f test/scenarios/workers/blast.csv"}},
	{Command: `nginx-exporter `},
	{Command: `node-agent probe `, Test: "TestARealNodeIsProbedAndPodsMoveByWhatIsLearned"},
	{Command: `node-agent meter `, Test: "TestTheMeterThatAsksPrometheusStartsWithItsFlags"},

	// Helm. The playground already has the kinds, so the commands that take over existing objects run there.
	{Pages: `nodefleet`, Command: `kubectl --(context|kubeconfig) |helm --kube-context |export `, Test: installed},
	{Command: `helm install (supercargo-crds )?\S+( manifests/helm/supercargo)?( --namespace supercargo-system --create-namespace.*)?$`, Test: installed},
	// The commands of other pages have changed arguments before.
	{Pages: `operations`, Command: `helm upgrade supercargo manifests`, Replace: []string{"helm upgrade", "helm upgrade --force-conflicts"}},
	{Pages: `operations`, Command: `kubectl patch migration `, Replace: []string{"kubectl patch", "kubectl apply --server-side --force-conflicts -f test/e2e/commands/testdata/objects.yaml && kubectl patch"}},
	{Command: `helm rollback `, Replace: []string{"helm rollback", "helm rollback --force-conflicts", "REVISION", "1"}},

	// Nodes and what runs on them.
	{Pages: `runbooks`, Command: `kubectl .*\blogs\b`, Kubeadm: true},
	{Pages: `runbooks`, Command: `kubectl .*\bget lease\b`, Kubeadm: true},
	{Pages: `runbooks`, Command: `kubectl .*\bget deployment supercargo-metrics-adapter\b`, Kubeadm: true}, // the playground's is no pod
	{Command: `kubectl .*\blogs\b`, Test: installed},
	{Command: `kubectl .*\btop\b`, Reason: "needs metrics-server"},
	{Command: `kubectl .*\bpodmonitor\b`, Reason: "needs Prometheus Operator; TestMonitorsAndAlertsFitTheirRealKinds checks the objects"},
	{Command: `kubectl .*\bport-forward\b`, Kubeadm: true, Until: `Forwarding from`},
	{Command: `kubectl get --raw /api/v1/nodes/NODE/proxy/healthz`, Kubeadm: true},
	{Command: `kubectl drain node-a`, Test: installed},
	{Pages: `scheduler/replace`, Command: `.`, Test: installed},
	{Command: `kubectl .*supercargo-kube-scheduler`, Test: installed},
	{Command: `kubectl .*(--watch|-w)$`, Until: `.`},
	{Pages: `openstack`, Command: `kubectl .* --from-literal=auth_url`, Replace: []string{"secret generic openstack ", "secret generic openstack-keys "}},
	// The playground already has a metrics adapter, and the binding of another page.
	{Command: `kubectl apply --server-side -k manifests/(adapter|replicas)`, Replace: []string{"--server-side", "--server-side --force-conflicts --dry-run=server"}},
	{Pages: `dashboard`, Command: `kubectl create clusterrolebinding audit `, Replace: []string{"binding audit ", "binding audit-too "}},

	// OpenStack and Work Queue.
	{Command: `openstack `, Test: "TestApplicationCredentialsLogIn"},
	{Command: `makeflow `, Test: "TestWorkflowsRunOnPoolsThatGrowAndDrain"},
}
