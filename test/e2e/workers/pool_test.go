//go:build workers

package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/rights"
	"supercargo.dev/supercargo/test/kit/testfile"
)

const (
	home    = "supercargo-system"
	account = "supercargo-autoscaler"
	space   = "genomics"
)

// The numbers of tasks of the stages.
const split, align, reduce = 24, 3, 18

// stages returns a Makeflow of three stages: many tasks of one core, then three of which one takes long while
// most workers are idle, then again many and one that joins all. Each task records in a ledger that it ran.
func stages(ledger string) (rules string, outputs []string) {
	var b strings.Builder
	category := func(name string, cores int) {
		fmt.Fprintf(&b, ".MAKEFLOW CATEGORY %s\nCORES=%d\nMEMORY=100\nDISK=10\n", name, cores)
	}
	rule := func(output, needs string, seconds int, does string) {
		fmt.Fprintf(&b, "%s: %s\n\techo %s >> %s; sleep %d; %s > %s\n", output, needs, output, ledger, seconds, does, output)
		outputs = append(outputs, output)
	}
	names := func(prefix string, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("%s.%d", prefix, i))
		}
		return list
	}
	category("split", 1)
	for i, name := range names("part", split) {
		rule(name, "", 6, fmt.Sprintf("echo %d", i))
	}
	category("align", 1)
	parts := strings.Join(names("part", split), " ")
	for i, name := range names("aligned", align) {
		rule(name, parts, 2+i/2*33, fmt.Sprintf("cat %s | head -n %d", parts, i+1))
	}
	category("reduce", 1)
	aligned := strings.Join(names("aligned", align), " ")
	for i, name := range names("sum", reduce) {
		rule(name, aligned, 6, fmt.Sprintf("cat %s | wc -l | awk '{print $1+%d}'", aligned, i))
	}
	category("join", 2)
	rule("all", strings.Join(names("sum", reduce), " "), 1, "cat "+strings.Join(names("sum", reduce), " "))
	return b.String(), outputs
}

// maxWorkers is the maximum number of workers of a pool.
const maxWorkers = 4

// poolBench contains a control plane, a fleet, an autoscaler with only the permissions in the manifests, and
// a workflow.
type poolBench struct {
	*testing.T
	client.Client
	site *kit.Site
	log  *kit.Log
	shim *shim
}

func (b *poolBench) make(objects ...client.Object) {
	b.Helper()
	for _, o := range objects {
		if err := b.Create(b.Context(), o); err != nil {
			b.Fatalf("make %T %s: %v", o, o.GetName(), err)
		}
	}
}

func newPoolBench(t *testing.T, password string) *poolBench {
	t.Helper()
	site, err := sites.Get()
	if err != nil {
		t.Fatalf("start the site: %v", err)
	}
	b := &poolBench{T: t, Client: site.Client, site: site, log: &kit.Log{}}
	b.make(kit.Namespace(space))
	for _, file := range []string{"namespace/namespace.yaml", "autoscaler/rbac.yaml", "workers/rbac.yaml"} {
		b.make(kit.Objects(t, "../../../manifests/"+file)...)
	}
	b.make(kit.Objects(t, "../../../manifests/samples/workerpool.yaml")[1]) // the binding in the namespace
	b.make(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kwok-machine-templates"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"infrastructure.playground.supercargo.dev"}, Resources: []string{"kwokmachinetemplates"}, Verbs: []string{"get"},
	}}}, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kwok-machine-templates"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kwok-machine-templates"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: home, Name: account}},
	}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "makeflow"}, Data: map[string][]byte{"password": []byte(password)}})
	b.eventually("pods can be made", func() string {
		return say(b.Get(b.Context(), client.ObjectKey{Namespace: space, Name: "default"}, &corev1.ServiceAccount{}))
	})
	b.shim = startShim(t, site.Client, space, password)
	return b
}

func say(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func (b *poolBench) eventually(what string, check func() string) {
	b.Helper()
	b.site.Eventually(b.T, kit.Waiting{Patience: patience, Poll: poll, Show: b.show}, what, check)
}

// show describes the state of all objects.
func (b *poolBench) show() string {
	var text strings.Builder
	var pools v1alpha1.WorkerPoolList
	_ = b.List(context.WithoutCancel(b.Context()), &pools, client.InNamespace(space))
	for i := range pools.Items {
		status, _ := json.MarshalIndent(pools.Items[i].Status, "", " ")
		fmt.Fprintf(&text, "WorkerPool %s: %s\n", pools.Items[i].Name, status)
	}
	var pods corev1.PodList
	_ = b.List(context.WithoutCancel(b.Context()), &pods, client.InNamespace(space))
	for _, p := range pods.Items {
		fmt.Fprintf(&text, "Pod %s: %s on %q, leaving %v\n", p.Name, p.Status.Phase, p.Spec.NodeName, p.DeletionTimestamp)
		said, _ := os.ReadFile(filepath.Join(b.shim.dir, p.Name+".log"))
		fmt.Fprintf(&text, "%s\n", said[max(0, len(said)-600):])
	}
	var events corev1.EventList
	_ = b.List(context.WithoutCancel(b.Context()), &events, client.InNamespace(space))
	for _, e := range events.Items {
		if e.InvolvedObject.Kind == "WorkerPool" {
			fmt.Fprintf(&text, "Event %s %s: %.300s\n", e.CreationTimestamp.Format("15:04:05"), e.Reason, e.Message)
		}
	}
	return text.String() + b.log.Tail(40)
}

// fleet creates a NodeFleet of two flavors, of which the larger costs less per core.
func (b *poolBench) fleet() {
	b.Helper()
	for _, f := range []playground.MachineDeploymentSpec{
		{Name: "workers-two", Flavor: "two", CPU: "2", Memory: "4Gi", PricePerHour: "0.11", Max: 10, AcquisitionLag: 3 * time.Second},
		{Name: "workers-four", Flavor: "four", CPU: "4", Memory: "8Gi", PricePerHour: "0.20", Max: 10, AcquisitionLag: 3 * time.Second},
	} {
		if err := b.site.AddMachineDeployment(b.Context(), f); err != nil {
			b.Fatal(err)
		}
	}
	second := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }
	fleet := &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "batch"}, Spec: v1alpha1.NodeFleetSpec{
		ClusterAPI:    &v1alpha1.ClusterAPIFlavors{Namespace: metav1.NamespaceDefault, Names: []string{"workers-two", "workers-four"}},
		Pricing:       v1alpha1.FleetPricing{BillingPeriod: second(1)},
		Scaling:       v1alpha1.FleetScaling{Interval: second(2), BatchIdle: second(1), BatchMax: second(5), JoinTimeout: second(120), BackOff: second(30), ExpectedLag: second(3)},
		Consolidation: v1alpha1.FleetConsolidation{Policy: v1alpha1.ConsolidateWhenEmpty, After: second(1), QueueEmptyFor: second(1), MaxUnavailable: "100%", DrainTimeout: second(60), ReleaseDelay: second(3)},
	}}
	b.make(fleet)
	b.Cleanup(func() { _ = b.Delete(context.WithoutCancel(b.Context()), fleet) })
}

// autoscale runs an autoscaler with the permissions in the manifests.
func (b *poolBench) autoscale() (requests *kit.Ledger) {
	b.Helper()
	requests = &kit.Ledger{}
	o := app.Options{Options: operator.Options{
		Config: operator.Throttle(b.site.Config()), MetricsAddress: "0", ProbeAddress: "0", Log: b.log.Logger("autoscaler"),
		LeaderElection: true, LeaderElectionNamespace: home,
	}}
	o.Config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + home + ":" + account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + home, "system:authenticated"},
	}
	o.Config.Wrap(requests.Wrap)
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, o) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Errorf("the autoscaler: %v", err)
		}
	})
	return requests
}

// startPool creates a pool for the workers of a manager.
func (b *poolBench) startPool(name string, manager v1alpha1.WorkQueueManager) {
	b.Helper()
	second := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }
	manager.PasswordSecret, manager.Timeout, manager.GoneAfter = &v1alpha1.SecretKey{Name: "makeflow", Key: "password"}, second(10), second(6)
	b.make(&v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}, Spec: v1alpha1.WorkerPoolSpec{
		Manager:  manager,
		Worker:   v1alpha1.WorkerShape{NodeFleet: "batch", IdleTimeout: second(2), DrainTimeout: second(600)},
		Template: runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"worker","image":"cctools"}]}}`)},
		Limits:   v1alpha1.WorkerLimits{Max: maxWorkers},
		Scaling:  v1alpha1.WorkerScaling{Interval: second(1), ExpectedInitTime: second(8)},
	}})
}

func (b *poolBench) pool(name string) *v1alpha1.WorkerPool {
	b.Helper()
	pool := &v1alpha1.WorkerPool{}
	if err := b.Get(context.WithoutCancel(b.Context()), client.ObjectKey{Namespace: space, Name: name}, pool); err != nil {
		b.Fatal(err)
	}
	return pool
}

// startStages starts the workflow, and returns its folder, its ledger, the manager's address, its outputs,
// its process, and a channel that is closed when it ends.
func startStages(t *testing.T, password string) (dir, ledger, address string, outputs []string, manager *os.Process, ended <-chan struct{}) {
	t.Helper()
	dir, ledger = t.TempDir(), filepath.Join(t.TempDir(), "ledger")
	rules, outputs := stages(ledger)
	for name, content := range map[string]string{"flow.makeflow": rules, "password": password} {
		testfile.Write(t, filepath.Join(dir, name), content)
	}
	port := strconv.Itoa(freePort(t))
	manager, ended = launch(t, dir, "makeflow", "-T", "wq", "-p", port, "-C", "127.0.0.1:1", "--password", "password", "flow.makeflow")
	return dir, ledger, net.JoinHostPort("127.0.0.1", port), outputs, manager, ended
}

// TestWorkflowsRunOnPoolsThatGrowAndDrain uses real makeflow, manager and workers. The autoscaler creates and
// drains the pods of the workers, and a NodeFleet buys and releases their machines.
func TestWorkflowsRunOnPoolsThatGrowAndDrain(t *testing.T) {
	const password = "not a secret either\n"
	b := newPoolBench(t, password)
	b.fleet()
	requests := b.autoscale()
	t.Run("BLAST, found at a catalog server", func(t *testing.T) {
		const project = "blast.e2e"
		b, catalog := b.in(t), startCatalog(t)
		dir, ledger, outputs, ended, cuts := startBLAST(t, password, catalog, project)
		b.startPool("blast", v1alpha1.WorkQueueManager{Catalog: &v1alpha1.WorkQueueCatalog{Servers: []string{catalog}, Project: project}})
		w := b.watch("blast", password, ended)
		checkOutputs(t, dir, outputs)
		checkHits(t, filepath.Join(dir, "hits"), cuts)
		checkLedger(t, ledger, outputs)
		if w.started < 2 {
			t.Errorf("%d workers for %d searches, want at least 2", w.started, parts)
		}
		b.expectAllGone()
	})
	t.Run("three stages, at an address, whose manager is stopped while workers are busy", func(t *testing.T) {
		b := b.in(t)
		dir, ledger, address, outputs, manager, ended := startStages(t, password)
		b.startPool("stopped", v1alpha1.WorkQueueManager{Address: &address})
		b.stop("stopped", manager)
		w := b.watch("stopped", password, ended)
		checkOutputs(t, dir, outputs)
		checkAll(t, dir)
		checkLedger(t, ledger, outputs)
		if w.pods > maxWorkers {
			t.Errorf("%d pods at once, at most %d may be", w.pods, maxWorkers)
		}
		if w.peak < 2 || w.drained < 1 || w.started < 3 {
			t.Errorf("%d workers, %d of them drained before the end, at most %d at once; want at least 3, 1 and 2", w.started, w.drained, w.peak)
		}
		b.checkLearned("stopped")
		b.expectAllGone()
	})
	if _, forbade := requests.Read(); len(forbade) > 0 {
		t.Errorf("forbidden: %v", forbade)
	}
	// The fleet needs the rights of mode machines, and users bind those of the workers in their namespaces.
	machines, err := rights.OfMode("machines")
	if err != nil {
		t.Fatal(err)
	}
	var bound []byte
	for _, file := range []string{"workers/rbac.yaml", "samples/workerpool.yaml"} {
		content, err := os.ReadFile("../../../manifests/" + file)
		if err != nil {
			t.Fatal(err)
		}
		bound = append(append(bound, "\n---\n"...), content...)
	}
	workers, err := rights.Parse(bound)
	if err != nil {
		t.Fatal(err)
	}
	requests.FitsModeBeside(t, "workers", account, []*rights.Roles{machines, workers}, "infrastructure.playground.supercargo.dev")
}

// in returns the bench for a subtest.
func (b *poolBench) in(t *testing.T) *poolBench {
	sub := *b
	sub.T = t
	return &sub
}

// watched contains the observations of a workflow.
type watched struct {
	peak             int64
	pods             int // the maximum at one time
	started, drained int // workers, and how many of them left before the end
}

// watch queries the manager of a pool until its workflow has ended, and checks that it has lost no worker.
func (b *poolBench) watch(pool, password string, ended <-chan struct{}) (w watched) {
	b.Helper()
	began := time.Now()
	startedBefore, drainedBefore := b.shim.count()
	var last workqueue.Queue
	deadline := time.After(patience)
	for tick, over := time.Tick(poll), false; !over; {
		select {
		case <-ended:
			over = true
		case <-deadline:
			b.Fatalf("the workflow does not end: %s", b.show())
		case <-tick:
		}
		w.pods = max(w.pods, len(b.workers()))
		status := b.pool(pool).Status.Queue // where the autoscaler found it
		if status == nil || over {
			continue
		}
		manager := &workqueue.Client{Address: status.Address, Password: password, Timeout: 5 * time.Second}
		queue, err := manager.Queue(b.Context())
		if err != nil {
			continue // the manager has not started, or has just ended
		}
		w.peak = max(w.peak, queue.Workers)
		last = queue
	}
	w.started, w.drained = b.shim.count()
	w.started, w.drained = w.started-startedBefore, w.drained-drainedBefore
	b.Logf("the workflow took %v; %d workers, %d of them drained before its end, at most %d at once", time.Since(began).Round(time.Second), w.started, w.drained, w.peak)
	if last.WorkersLost != 0 || last.Done == 0 {
		b.Errorf("the manager has lost %d workers and done %d tasks, want none and some: %s", last.WorkersLost, last.Done, b.show())
	}
	return w
}

// workers returns the existing pods, including those that are terminating.
func (b *poolBench) workers() []corev1.Pod {
	b.Helper()
	var pods corev1.PodList
	if err := b.List(context.WithoutCancel(b.Context()), &pods, client.InNamespace(space)); err != nil {
		b.Fatal(err)
	}
	return pods.Items
}

// stop suspends the manager of a pool while it has tasks on at least two workers, until the pool reports
// this, and for the same time again. It then resumes the manager. All workers must be kept.
func (b *poolBench) stop(pool string, manager *os.Process) {
	b.Helper()
	b.eventually("two workers are busy", func() string {
		p := b.pool(pool)
		if p.Status.Queue == nil || p.Status.Workers.Connected < 2 || p.Status.Queue.Running < 4 {
			return fmt.Sprintf("%+v, workers %+v", p.Status.Queue, p.Status.Workers)
		}
		return ""
	})
	if err := manager.Signal(syscall.SIGSTOP); err != nil {
		b.Fatal(err)
	}
	stopped := time.Now()
	b.eventually("the pool says that its manager does not answer", func() string {
		c := meta.FindStatusCondition(b.pool(pool).Status.Conditions, v1alpha1.PoolDegraded)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != "ManagerUnreachable" {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	took := time.Since(stopped)
	b.eventually("as long again has passed", func() string {
		if left := 2*took - time.Since(stopped); left > 0 {
			return left.String()
		}
		return ""
	})
	for _, pod := range b.workers() {
		if pod.DeletionTimestamp != nil {
			b.Errorf("worker %s is told to leave while its manager is stopped: %s", pod.Name, b.show())
		}
	}
	b.Logf("the manager was stopped for %v with %d workers", time.Since(stopped).Round(time.Second), len(b.workers()))
	if err := manager.Signal(syscall.SIGCONT); err != nil {
		b.Fatal(err)
	}
}

// expectAllGone waits until workers and their machines are gone like their manager.
func (b *poolBench) expectAllGone() {
	b.Helper()
	b.eventually("workers and their machines are gone after the manager", func() string {
		var pods corev1.PodList
		var nodes corev1.NodeList
		if err := b.List(b.Context(), &pods, client.InNamespace(space)); err != nil {
			return err.Error()
		}
		if err := b.List(b.Context(), &nodes); err != nil {
			return err.Error()
		}
		if len(pods.Items)+len(nodes.Items)+b.shim.left() > 0 {
			return fmt.Sprintf("%d pods, %d nodes, %d processes are left", len(pods.Items), len(nodes.Items), b.shim.left())
		}
		return ""
	})
}

// checkOutputs checks that a workflow has made all its outputs.
func checkOutputs(t *testing.T, dir string, outputs []string) {
	t.Helper()
	for _, name := range outputs {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("an output is missing: %v", err)
		}
	}
}

// checkAll checks the final output of the workflow of three stages.
func checkAll(t *testing.T, dir string) {
	t.Helper()
	var want strings.Builder
	for i := range reduce { // three heads of the parts are 1, 2 and 3 lines; sum i adds i
		fmt.Fprintln(&want, 6+i)
	}
	if all, err := os.ReadFile(filepath.Join(dir, "all")); err != nil || string(all) != want.String() {
		t.Errorf("the workflow made %q (%v), want %q", all, err, want.String())
	}
}

// checkLedger checks that each task ran once.
func checkLedger(t *testing.T, ledger string, outputs []string) {
	t.Helper()
	text := testfile.Read(t, ledger)
	ran := strings.Fields(string(text))
	slices.Sort(ran)
	outputs = slices.Sorted(slices.Values(outputs))
	if !slices.Equal(ran, outputs) {
		t.Errorf("tasks that ran: %v, want each once: %v", ran, outputs)
	}
}

// checkLearned checks what the pool reports as learned.
func (b *poolBench) checkLearned(name string) {
	b.Helper()
	pool := b.pool(name)
	status, _ := json.MarshalIndent(pool.Status, "", " ")
	i := slices.IndexFunc(pool.Status.Categories, func(c v1alpha1.TaskCategory) bool { return c.Name == "split" })
	if i < 0 {
		b.Fatalf("nothing was learned of category split: %s", status)
	}
	split := pool.Status.Categories[i]
	if split.MeanRuntime == nil || split.MeanRuntime.Duration < 5*time.Second || split.MeanRuntime.Duration > 9*time.Second || split.CPU.Value() != 1 || split.Source != "Declared" {
		b.Errorf("category split is %+v, want about 6 s on the core that it declares", split)
	}
	if len(pool.Status.InitTimes) == 0 || pool.Status.InitTimes[0].Mean.Duration < 3*time.Second || pool.Status.InitTimes[0].Samples < 1 {
		b.Errorf("initialisation times are %+v, want some that are longer than a machine takes: %s", pool.Status.InitTimes, status)
	}
	if pool.Status.LastDecision == nil || meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.PoolConnected) == nil {
		b.Errorf("the status says no reason: %s", status)
	}
}
