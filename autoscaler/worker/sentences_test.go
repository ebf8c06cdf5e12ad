package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/workqueuetest"
	"supercargo.dev/supercargo/test/kit/sentences"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// says reconciles the pool, and returns its Events since the last call, and the conditions and texts in its status.
func (b *bench) says() string {
	b.Helper()
	_, err := b.Reconcile(b.Context(), reconcile.Request{NamespacedName: name})
	all := []string{fmt.Sprint(err)}
	for len(b.events.Events) > 0 {
		all = append(all, <-b.events.Events)
	}
	s := b.pool().Status
	for _, c := range s.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	for _, c := range s.Categories {
		all = append(all, c.Name+" "+c.Unplaceable)
	}
	if d := s.LastDecision; d != nil {
		all = append(all, d.Reason)
		for _, r := range d.Rejected {
			all = append(all, r.Name+" "+r.Reason)
		}
	}
	return strings.Join(all, "\n")
}

// after steps the clock and reconciles.
func (b *bench) after(d time.Duration) string {
	b.Helper()
	b.clock.SetTime(b.clock.Now().Add(d))
	return b.says()
}

// set changes the status of all pods.
func (b *bench) set(status func(*corev1.PodStatus)) {
	b.Helper()
	for _, pod := range b.pods() {
		status(&pod.Status)
		if err := b.Client.Status().Update(b.Context(), &pod); err != nil {
			b.Fatal(err)
		}
	}
}

// running says that the worker runs.
func running(s *corev1.PodStatus) {
	s.Phase = corev1.PodRunning
	s.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(begin)}}}}
}

// waiting says that the worker waits to start.
func waiting(reason, message string) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
}

// TestAFlavorWithAWarningCanBeUsed has a flavor whose machines are bought although they endanger pods.
func TestAFlavorWithAWarningCanBeUsed(t *testing.T) {
	m := startManager(t)
	f := fleetOf()
	for i := range f.Status.Flavors {
		f.Status.Flavors[i].Warning = "its machines may be deleted with their pods"
	}
	b := newBench(t, interceptor.Funcs{}, f, poolAt(m.Address, func(s *v1alpha1.WorkerPoolSpec) { s.Worker.Resources, s.Worker.NodeFleet = nil, "batch" }))
	if text := b.says(); len(b.pods()) != 1 || strings.Contains(text, "no flavor is available") {
		t.Errorf("%d pods: %s", len(b.pods()), text)
	}
}

// TestAWorkerThatDoesNotStartIsOverdueWithoutAReason has a container that is being created without end, as if a volume were
// missing.
func TestAWorkerThatDoesNotStartIsOverdueWithoutAReason(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	b.evaluate()
	b.set(waiting("ContainerCreating", ""))
	if text := b.after(3*time.Minute - time.Second); !strings.Contains(text, "no worker is overdue") {
		t.Errorf("it says too soon\n%s", text)
	}
	if text := b.after(time.Second); strings.Contains(text, "no worker is overdue") || !strings.Contains(text, "Degraded=True WorkersNotReady pod ") {
		t.Errorf("it says\n%s", text)
	}
}

// TestWhetherWorkersConnectIsKnownOnlyFromAReading has a worker that does not connect, and a manager that falls silent.
func TestWhetherWorkersConnectIsKnownOnlyFromAReading(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	b.evaluate()
	b.set(running)
	b.says()
	b.after(3 * time.Minute)
	b.expect(v1alpha1.PoolDegraded, metav1.ConditionTrue, "WorkersDoNotConnect")
	sound := m.Answers()
	m.Put(map[string]string{"queue_status": ""})
	b.after(10 * time.Second)
	b.expect(v1alpha1.PoolDegraded, metav1.ConditionTrue, "WorkersDoNotConnect")
	fresh := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	if text := fresh.says(); strings.Contains(text, "no worker is overdue") || !strings.Contains(text, "no pod of a worker is overdue") {
		t.Errorf("without any answer it says\n%s", text)
	}
	m.Put(sound)
	if text := fresh.says(); !strings.Contains(text, "no worker is overdue") {
		t.Errorf("with an answer it says\n%s", text)
	}
}

// TestNumbersOfWorkersAreThoseOfTheLastReading has a manager that falls silent, and one that contradicts itself.
func TestNumbersOfWorkersAreThoseOfTheLastReading(t *testing.T) {
	for name, silent := range map[string]map[string]string{
		"silent":             {"queue_status": ""},
		"contradicts itself": {"queue_status": `[{"project":"p","starttime":1795334232,"tasks_waiting":40,"workers_connected":1}]`, "task_status": "[]"},
	} {
		b, m, worker := anIdleWorker(t)
		m.Put(answers(1795334232, 1, 0, []string{task(1, "split", 1, "")}, []string{worker}))
		before := b.evaluate().Status
		m.Put(silent)
		b.clock.SetTime(b.clock.Now().Add(10 * time.Second))
		if after := b.evaluate().Status; before.Workers.Connected != 1 || before.ShortageCores != "1" || after.Workers != before.Workers || after.ShortageCores != before.ShortageCores {
			t.Errorf("%s: before %+v and a shortage of %s, after %+v and %s", name, before.Workers, before.ShortageCores, after.Workers, after.ShortageCores)
		}
	}
}

// TestADecisionIsMeasuredOnlyIfItHappened has workers that could not be created, and a manager that contradicts itself while
// they start.
func TestADecisionIsMeasuredOnlyIfItHappened(t *testing.T) {
	m := startManager(t)
	refuse := true
	b := newBench(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if refuse {
			return errors.New("no quota")
		}
		return c.Create(ctx, o, opts...)
	}}, poolAt(m.Address))
	b.says()
	m.Put(answers(1795334232, 0, 0, nil, nil)) // the tasks are cancelled
	b.after(2 * time.Minute)
	if d := b.pool().Status.LastDecision; d == nil || d.Add != 1 || d.MeasuredReady != nil || d.ExpectedReady != nil {
		t.Errorf("of a worker that was not created it says %+v", d)
	}
	idle, manager, worker := anIdleWorker(t) // which has connected
	manager.Put(answers(1795334232, 1, 0, []string{task(9, "split", 4, ""), task(10, "fold", 4, "")}, []string{worker}))
	idle.Reconciler.Client = interceptor.NewClient(idle.Client.(client.WithWatch), interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return errors.New("no quota")
	}})
	idle.says()
	manager.Put(answers(1795334232, 0, 1, []string{task(9, "split", 4, "10.0.0.1:1")}, []string{worker}))
	idle.after(10 * time.Second)
	if d := idle.pool().Status.LastDecision; d == nil || d.Add != 1 || d.MeasuredReady != nil {
		t.Errorf("of a worker that was not created beside another it says %+v", d)
	}
	refuse = false
	m.Put(twoWait)
	b.after(10 * time.Second)
	m.Put(map[string]string{"queue_status": `[{"project":"p","starttime":1795334232}]`, "worker_status": `[{"address_port":"a:1"},{"address_port":"a:1"}]`})
	b.after(10 * time.Second)
	if d := b.pool().Status.LastDecision; d == nil || d.Add != 1 || d.MeasuredReady != nil || d.ExpectedReady == nil {
		t.Errorf("of a worker that is starting it says %+v", d)
	}
}

// TestAPoolThatCannotBeEvaluatedHasNoOtherConditions has a pool whose NodeFleet is deleted.
func TestAPoolThatCannotBeEvaluatedHasNoOtherConditions(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, fleetOf(), poolAt(m.Address, func(s *v1alpha1.WorkerPoolSpec) { s.Worker.Resources, s.Worker.NodeFleet = nil, "batch" }))
	b.says()
	testapi.Delete(t, b, fleetOf())
	b.says()
	if all := b.pool().Status.Conditions; len(all) != 1 || all[0].Reason != "NodeFleetMissing" {
		t.Errorf("without its NodeFleet it says %+v", all)
	}
}

// TestAQueueOfALongNameIsTheSameAfterARestart has a name of a project that does not fit into the status.
func TestAQueueOfALongNameIsTheSameAfterARestart(t *testing.T) {
	m := startManager(t)
	m.Put(map[string]string{"queue_status": `[{"project":"` + strings.Repeat("p", 300) + `","starttime":1795334232,"tasks_waiting":2}]`})
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	b.says()
	b.restart()
	if text := b.says(); strings.Contains(text, "new queue") || len(b.pool().Status.Queue.Project) != 253 {
		t.Errorf("it says\n%s", text)
	}
}

func TestEachSentenceOfAPoolIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	type spec = v1alpha1.WorkerPoolSpec
	on := func(m *workqueuetest.Manager, change ...func(*spec)) *bench {
		return newBench(t, interceptor.Funcs{}, fleetOf(), secret("ca", "k", []byte("none")), poolAt(m.Address, change...))
	}
	manager := func(waiting int, tasks []string, workers ...string) *workqueuetest.Manager {
		m := startManager(t)
		m.Put(answers(1795334232, waiting, 0, tasks, workers))
		return m
	}
	atMost := func(n int32) func(*spec) { return func(s *spec) { s.Limits.Max = n } }
	acts := on(startManager(t)).says()
	observes := on(startManager(t), func(s *spec) { s.Mode = v1alpha1.WorkerPoolObserve }).says()
	idle := func(change ...func(*spec)) string {
		b, _, _ := anIdleWorker(t)
		b.change(func(s *spec) {
			for _, f := range change {
				f(s)
			}
		})
		return b.says()
	}
	drains := idle()

	// Managers.
	silent := func(change func(*bench, *workqueuetest.Manager), d time.Duration) string {
		m := workqueuetest.Start(t, twoWait, "word\n", nil)
		b := newBench(t, interceptor.Funcs{}, secret("makeflow", "password", []byte("word\n")), poolAt(m.Address, func(s *spec) {
			s.Manager.PasswordSecret = &v1alpha1.SecretKey{Name: "makeflow", Key: "password"}
		}))
		change(b, m)
		b.says()
		return b.after(d)
	}
	garbled := func(_ *bench, m *workqueuetest.Manager) { m.Put(map[string]string{"queue_status": "x"}) }
	invalid, notYet := silent(garbled, time.Minute), silent(garbled, 59*time.Second)
	moved := func(known bool) string {
		m := startManager(t)
		m.Put(map[string]string{"queue_status": strings.Replace(twoWait["queue_status"], `"p"`, `"flow"`, 1)})
		catalog, know := startCatalog(t)
		b := newBench(t, interceptor.Funcs{}, poolAt("", func(s *spec) {
			s.Manager.Address, s.Manager.Catalog = nil, &v1alpha1.WorkQueueCatalog{Servers: []string{catalog}, Project: "flow"}
		}))
		know(entry(m.Address, 100, ""))
		b.says()
		if !known {
			know()
		}
		return b.says()
	}
	replaced := func(started int) string {
		b, m, worker := anIdleWorker(t)
		b.says()
		m.Put(answers(started, 0, 0, nil, []string{worker}))
		return b.says()
	}
	relearned := func(seconds int) string {
		m := startManager(t)
		b := on(m)
		done := func(n, executed int) string {
			m.Put(map[string]string{
				"queue_status": fmt.Sprintf(`[{"project":"p","starttime":1795334232,"tasks_waiting":2,"time_workers_execute_good":%d,"categories":[{"category":"split","tasks_done":%d}]}]`, executed*1_000_000, n),
			})
			return b.after(10 * time.Second)
		}
		done(0, 0)
		done(10, 100)
		return done(13, 100+3*seconds)
	}

	// Limits.
	giants := func(n int, most int32) string {
		tasks := []string{task(9, "split", 1, "")}
		for i := range n {
			tasks = append(tasks, task(i, "giant", 16, ""))
		}
		return on(manager(n+1, tasks), atMost(most)).says()
	}
	limited, two := giants(0, 0), on(startManager(t), atMost(0)).says()

	// Usage.
	usage := func(done int, category string) string {
		m := startManager(t)
		b := on(m)
		put := func(done int) {
			m.Put(map[string]string{
				"task_status":  `[{"taskid":1,"category":"split","state":"WAITING","cores":1,"memory":4096}]`,
				"wable_status": fmt.Sprintf(`[{"category":"split","tasks_done":%d%s}]`, done, category),
			})
		}
		put(0)
		b.says()
		put(done)
		return b.after(10 * time.Second)
	}
	const measured = `,"max_cores":"~1.0","max_memory":"~4000","max_disk":"~1"`
	unmeasured, few, compared := usage(5, ""), usage(4, measured), usage(5, measured)

	// Workers.
	started := func(status func(*corev1.PodStatus), d time.Duration) string {
		b := on(startManager(t))
		b.says()
		b.set(status)
		b.says()
		return b.after(d)
	}
	unconnected := func(n int) string {
		tasks := []string{task(1, "a", 4, ""), task(2, "b", 4, "")}[:n]
		b := on(manager(n, tasks))
		b.says()
		b.set(running)
		b.says()
		return b.after(3 * time.Minute)
	}
	failed := func(phase corev1.PodPhase) string {
		b := on(startManager(t))
		b.says()
		b.set(func(s *corev1.PodStatus) { s.Phase, s.Reason = phase, "Evicted" })
		return b.says()
	}

	// Flavors.
	fleet := func(change ...func(*spec)) func(*spec) {
		return func(s *spec) {
			s.Worker.Resources, s.Worker.NodeFleet = nil, "batch"
			for _, f := range change {
				f(s)
			}
		}
	}
	flavors := func(names ...string) func(*spec) { return func(s *spec) { s.Worker.Flavors = names } }
	flavor := func(change func(*v1alpha1.FlavorStatus), specs ...func(*spec)) string {
		f := &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "batch"}}
		of := v1alpha1.FlavorStatus{Name: "f", CPU: new(resource.MustParse("4")), Memory: new(resource.MustParse("8Gi"))}
		if change != nil {
			change(&of)
			f.Status.Flavors = []v1alpha1.FlavorStatus{of}
		}
		b := newBench(t, interceptor.Funcs{}, f, poolAt(startManager(t).Address, fleet(specs...)))
		return b.says()
	}
	until := func(d time.Duration) func(*v1alpha1.FlavorStatus) {
		return func(f *v1alpha1.FlavorStatus) { f.BackOffUntil = new(metav1.NewTime(begin.Add(d))) }
	}
	cpu := func(text string) func(*v1alpha1.FlavorStatus) {
		return func(f *v1alpha1.FlavorStatus) { f.CPU = new(resource.MustParse(text)) }
	}
	cores := func(n int32) func(*spec) {
		return func(s *spec) {
			s.Worker.Resources = &v1alpha1.WorkerResources{Cores: n, Memory: resource.MustParse("1Gi")}
		}
	}
	plain := flavor(cpu("4"))

	sentences.Check(t, []string{"controller.go", "observe.go", "record.go", "act.go", "shape.go", "memory.go"}, []sentences.Case{
		// Managers.
		{"the manager at ", acts, invalid},
		{", but its address may be outdated: ", moved(false), moved(true)},
		{"; its workers are kept, since they may run tasks: ", invalid, notYet},
		{"the manager has a new queue", replaced(1795339999), replaced(1795334232)},
		{", which began at ", replaced(1795339999), replaced(0)},
		{": runtimes learned from the previous one are discarded", replaced(1795339999), replaced(1795334232)},
		{"the runtimes of tasks have changed and are learned again: ", relearned(30), relearned(19)},

		// Limits.
		{"%s of category %s: %s", giants(1, 5), acts},
		{"%s%s will wait when new workers could start, and the pool has, or is to have, its maximum of %s", limited, acts},
		{"at least ", two, limited},
		{"no task waits because of a limit", acts, limited},

		// Usage.
		{"the manager reports the resource usage of no category", unmeasured, few},
		{"no category can be assessed yet: one of its tasks must be listed, and %d must end, while the pool observes the manager", few, compared},
		{"no category of which %d or more tasks have ended uses far less than is allocated to it", compared, few},

		// Workers.
		{"its container does not run", started(waiting("PodInitializing", ""), 3*time.Minute), started(running, 3*time.Minute)},
		{"no pod of a worker is overdue", notYet, acts},
		{"no worker is overdue", acts, notYet},
		{"%s not connected to the manager at %s, such as pod %s: check its log, the manager's password and TLS, and the network policies between them", unconnected(1), started(running, time.Minute)},
		{"1 worker runs but has", unconnected(1), unconnected(2)},
		{"%d workers run but have", unconnected(2), unconnected(1)},

		// Decisions.
		{" of flavor ", plain, acts},

		// Flavors.
		{"spec.worker.nodeFleet: NodeFleet %s does not exist", on(startManager(t), fleet(func(s *spec) { s.Worker.NodeFleet = "none" })).says(), plain},
		{"spec.worker.nodeFleet: the status of NodeFleet %s lists no flavors yet", flavor(nil), flavor(cpu("4"), flavors("other"))},
		{"spec.worker.flavors: the status of NodeFleet %s lists none of them", flavor(cpu("4"), flavors("other")), flavor(nil)},
		{"in back-off until ", flavor(until(time.Minute)), flavor(until(0))},
		{": its last machines did not become usable, or did not stay so", flavor(until(time.Minute)), flavor(until(0))},
		{"the capacity of its machines is not known yet", flavor(func(f *v1alpha1.FlavorStatus) { f.CPU = nil }), plain},
		{"a machine has %s and %d MiB of memory for workers, which is too little for one", flavor(cpu("1"), cores(2)), flavor(cpu("2"), cores(2))},
		{"whole core", flavor(cpu("1"), cores(2)), plain},
		{"a machine (%s CPU, %s memory) has less than one core or one MiB left for a worker", flavor(cpu("999m")), flavor(cpu("1"))},
	}, map[string]string{
		"Failed to list WorkerPools, will reconcile each when it is due": "a line of the log",
		"Would resize": "a line of the log",
	})
	if !strings.Contains(observes, "would add 1 worker: ") || !strings.Contains(failed(corev1.PodFailed), " failed: Evicted") || strings.Contains(failed(corev1.PodSucceeded), "failed") {
		t.Errorf("it says\n%s\n%s", observes, failed(corev1.PodFailed))
	}
	if !strings.Contains(drains, "drain 1 worker: ") || !strings.Contains(acts, "add 1 worker: ") || strings.Contains(idle(func(s *spec) { s.Limits.Min = 1 }), "drain 1 worker") {
		t.Errorf("it says\n%s\n%s", drains, acts)
	}
	if c := meta.FindStatusCondition(on(startManager(t), func(s *spec) { s.Manager.PasswordSecret = &v1alpha1.SecretKey{Name: "none", Key: "k"} }).evaluate().Status.Conditions, v1alpha1.PoolReady); !strings.Contains(c.Message, "the manager cannot be queried: read Secret none") {
		t.Errorf("of a manager that was not asked it says %q", c.Message)
	}
}
