package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/workqueuetest"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// task is a task as a manager lists it; where names the worker that runs it.
func task(id int, category string, cores int, where string) string {
	if where == "" {
		return fmt.Sprintf(`{"taskid":%d,"category":%q,"state":"WAITING","cores":%d}`, id, category, cores)
	}
	return fmt.Sprintf(`{"taskid":%d,"category":%q,"state":"running","cores":%d,"address_port":%q}`, id, category, cores, where)
}

// answers are those of a manager with these tasks and workers.
func answers(started, waiting, running int, tasks, workers []string) map[string]string {
	return map[string]string{
		"queue_status":  fmt.Sprintf(`[{"project":"p","starttime":%d,"tasks_waiting":%d,"tasks_on_workers":%d,"workers_connected":%d}]`, started, waiting, running, len(workers)),
		"task_status":   "[" + strings.Join(tasks, ",") + "]",
		"worker_status": "[" + strings.Join(workers, ",") + "]",
		"wable_status":  `[{"category":"split"}]`,
	}
}

// anIdleWorker is a pool with one worker that has connected and been idle for so long that the next reconciliation
// would drain it.
func anIdleWorker(t *testing.T) (*bench, *workqueuetest.Manager, string) {
	t.Helper()
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	b.evaluate()
	pod := b.pods()[0]
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(begin)}}}}
	if err := b.Client.Status().Update(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	worker := fmt.Sprintf(`{"address_port":"10.0.0.1:1","hostname":%q,"cores_total":4,"memory_total":8192,"disk_total":1000}`, pod.Name)
	m.Put(answers(1795334232, 0, 0, nil, []string{worker}))
	b.clock.SetTime(begin.Add(time.Minute + time.Second)) // an initialisation time after the last resize
	if b.evaluate(); len(b.pods()) != 1 {
		t.Fatal("the worker went before it was idle for long")
	}
	b.clock.SetTime(begin.Add(2 * time.Minute))
	return b, m, worker
}

func TestNothingIsResizedForABadAnswer(t *testing.T) {
	b, _, _ := anIdleWorker(t)
	if b.evaluate(); len(b.pods()) > 0 {
		t.Fatal("an idle worker stays: what follows shows nothing")
	}
	for _, query := range []string{"queue_status", "task_status", "worker_status", "wable_status"} {
		for _, bad := range []struct{ name, answer, says string }{
			{"cut off", `[{"category":"split","taskid":1,`, "query "},
			{"no JSON", "<html>", "must be a JSON array"},
			{"nothing", "", "closed without an answer"},
			{"a count below 0", `[{"tasks_waiting":-1,"taskid":-1,"total_tasks_running":-1}]`, "-1"},
			{"never", workqueuetest.Hang, "context deadline exceeded"},
		} {
			t.Run(query+" "+bad.name, func(t *testing.T) {
				b, m, _ := anIdleWorker(t)
				if bad.answer == workqueuetest.Hang { // other answers get the time that a busy machine needs
					b.timeout(500 * time.Millisecond)
				}
				m.Put(map[string]string{query: bad.answer})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := b.Reconcile(ctx, reconcile.Request{NamespacedName: name}); err != nil || ctx.Err() != nil || len(b.pods()) != 1 {
					t.Errorf("%d workers, error %v (%v), want the one that there was, and the pool's own timeout", len(b.pods()), err, ctx.Err())
				}
				b.expectAnswer(bad.says)
				b.expect(v1alpha1.PoolReady, metav1.ConditionFalse, "NotResized")
			})
		}
	}
	t.Run("answers that contradict each other", func(t *testing.T) {
		b, m, _ := anIdleWorker(t)
		m.Put(map[string]string{"queue_status": `[{"project":"p","starttime":1795334232,"tasks_waiting":40,"workers_connected":1}]`})
		if b.evaluate(); len(b.pods()) != 1 {
			t.Error("the worker is told to leave")
		}
		b.expect(v1alpha1.PoolReady, metav1.ConditionFalse, "NotResized")
	})
}

func TestAManagerThatBeganAgainIsServedByTheWorkersThatAreThere(t *testing.T) {
	b, m, worker := anIdleWorker(t)
	if p := b.pool(); len(p.Status.Categories) != 1 || p.Status.Categories[0].Name != "split" {
		t.Fatalf("categories %+v, want split", p.Status.Categories)
	}
	m.Put(answers(1795339999, 1, 0, []string{task(1, "fold", 2, "")}, []string{worker}))
	m.Put(map[string]string{"wable_status": `[{"category":"fold"}]`})
	p := b.evaluate()
	if len(b.pods()) != 1 || len(p.Status.Categories) != 1 || p.Status.Categories[0].Name != "fold" || !p.Status.Queue.Started.Equal(&metav1.Time{Time: time.Unix(1795339999, 0)}) {
		t.Errorf("%d workers and status %+v, want the worker kept and what was learned of the queue before forgotten", len(b.pods()), p.Status)
	}
	if !b.told("QueueReplaced the manager has a new queue") {
		t.Error("no Event says so")
	}
}

// told reports whether an Event with this reason was recorded, and drops all recorded Events.
func (b *bench) told(reason string) (found bool) {
	for {
		select {
		case e := <-b.events.Events:
			found = found || strings.Contains(e, " "+reason)
		default:
			return found
		}
	}
}

func TestTasksThatChangeTheirNeedInMidRunAreMeasuredAgain(t *testing.T) {
	b, m, worker := anIdleWorker(t)
	m.Put(answers(1795334232, 1, 0, []string{task(7, "split", 3, "")}, []string{worker}))
	if p := b.evaluate(); len(b.pods()) != 1 || p.Status.Categories[0].CPU.Value() != 3 || p.Status.ShortageCores != "3" {
		t.Errorf("%d workers, categories %+v, want three cores where there was one", len(b.pods()), p.Status.Categories)
	}
}

func TestATaskThatNoWorkerHoldsIsNamedInTheStatus(t *testing.T) {
	m := startManager(t)
	m.Put(answers(1795334232, 3, 0, []string{task(1, "giant", 16, ""), task(2, "giant", 16, ""), task(3, "split", 1, "")}, nil))
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	p := b.evaluate()
	const says = "2 tasks of category giant: a task needs 16 cores, but the largest worker has 4"
	b.expect(v1alpha1.PoolLimited, metav1.ConditionTrue, "TasksTooLarge")
	if !b.told("TasksTooLarge " + says) {
		t.Error("no Event names it")
	}
	if c := p.Status.Categories[0]; c.Name != "giant" || c.Unplaceable != "a task needs 16 cores, but the largest worker has 4" || len(b.pods()) != 1 {
		t.Errorf("category %+v and %d workers, want it named and one worker for the other", c, len(b.pods()))
	}
	if b.evaluate(); b.told("TasksTooLarge") {
		t.Error("the same is told twice")
	}
	pool := b.pool()
	pool.Spec.Worker.Resources.Cores = 16
	testapi.Update(t, b, pool)
	if p := b.evaluate(); p.Status.Categories[0].Unplaceable != "" {
		t.Errorf("category %+v, want nothing said of it: workers are larger now", p.Status.Categories[0])
	}
}

func TestAPoolOfNoWorkersSaysThatItIsAtItsLimit(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address, func(s *v1alpha1.WorkerPoolSpec) { s.Limits.Max = 0 }))
	if p := b.evaluate(); len(b.pods()) > 0 || p.Status.ShortageCores != "2" {
		t.Errorf("%d workers, a shortage of %s cores, want none and two", len(b.pods()), p.Status.ShortageCores)
	}
	b.expect(v1alpha1.PoolLimited, metav1.ConditionTrue, "LimitReached")
	b.expect(v1alpha1.PoolReady, metav1.ConditionTrue, "Active")
}

// TestALimitIsKnownOnlyWhileTheManagerAnswers has tasks that wait because of the limit, and a manager that falls silent.
func TestALimitIsKnownOnlyWhileTheManagerAnswers(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address, func(s *v1alpha1.WorkerPoolSpec) { s.Limits.Max = 0 }))
	b.evaluate()
	b.expect(v1alpha1.PoolLimited, metav1.ConditionTrue, "LimitReached")
	for query := range m.Answers() {
		m.Put(map[string]string{query: ""})
	}
	b.clock.SetTime(begin.Add(2 * time.Minute))
	b.evaluate()
	b.expect(v1alpha1.PoolConnected, metav1.ConditionFalse, "NotResponding")
	b.expect(v1alpha1.PoolLimited, metav1.ConditionTrue, "LimitReached")
	if c := meta.FindStatusCondition(b.pool().Status.Conditions, v1alpha1.PoolLimited); !strings.Contains(c.Message, "its maximum of 0 workers") {
		t.Errorf("Limited says %q", c.Message)
	}
}
