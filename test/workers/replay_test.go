// Package workers tests that `supercargo workers` replays the decisions of the controller of WorkerPools.
package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker"
	"supercargo.dev/supercargo/autoscaler/worker/workerdecide"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/workqueuetest"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/definition"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/workers"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// finalizer keeps a pod that was deleted until its worker has left the plant.
const finalizer = "test.supercargo.dev/leaving"

// poolOf returns a WorkerPool with the defaults of its CRD.
func poolOf(t *testing.T, law v1alpha1.WorkerLaw, address string) *v1alpha1.WorkerPool {
	t.Helper()
	pool := &v1alpha1.WorkerPool{}
	err := definition.Complete("workerpools", map[string]any{
		"metadata": map[string]any{"namespace": "ns", "name": "flow", "uid": "pool-uid"},
		"spec": map[string]any{
			"manager": map[string]any{"address": address},
			"worker":  map[string]any{"resources": map[string]any{"cores": int64(3), "memory": "12Gi"}},
			"limits":  map[string]any{"max": int64(20)},
			"scaling": map[string]any{"law": string(law)},
		},
	}, pool)
	if err != nil {
		t.Fatal(err)
	}
	pool.Spec.Template = runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"worker","image":"cctools"}]}}`)}
	return pool
}

// planOf runs a workflow of test/scenarios on the workers of a pool.
func planOf(t *testing.T, file string, start int, pool *v1alpha1.WorkerPool) workers.Plan {
	t.Helper()
	f, err := os.Open("../scenarios/workers/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tasks, err := trace.ReadTasks(file, f)
	if err != nil {
		t.Fatal(err)
	}
	size := workerdecide.SizeOf(pool.Spec.Worker.Resources)
	size.DiskBytes = 0
	return workers.Plan{
		Tasks: tasks, Worker: size, Start: start, Max: int(pool.Spec.Limits.Max), IdleTimeout: pool.Spec.Worker.IdleTimeout.Duration,
		InitTime: scenario.Lag{Mean: 157_400 * time.Millisecond, SD: 4200 * time.Millisecond}, Seed: 1,
		MicroDollarsPerHour: 190_000, BillingPeriod: time.Minute,
	}
}

// controller is the reconciler of WorkerPools as a law: it observes the plant through an API server and a
// Work Queue manager. The pods that it creates and deletes are the orders.
type controller struct {
	*testing.T
	client     client.Client
	clock      *clocktesting.FakePassiveClock
	manager    *workqueuetest.Manager
	pool       *v1alpha1.WorkerPool
	reconciler *worker.Reconciler
	made       int // pods, including those at the start
}

func newController(t *testing.T, law v1alpha1.WorkerLaw) *controller {
	t.Helper()
	c := &controller{T: t, clock: clocktesting.NewFakePassiveClock(time.Time{}), manager: workqueuetest.Start(t, nil, "", nil)}
	c.pool = poolOf(t, law, c.manager.Address)
	// Like the API server, but with the names by which the plant knows its workers.
	create := func(ctx context.Context, into client.WithWatch, object client.Object, options ...client.CreateOption) error {
		object.SetName("worker-" + strconv.Itoa(c.made))
		object.SetCreationTimestamp(metav1.NewTime(c.clock.Now()))
		object.SetFinalizers([]string{finalizer})
		c.made++
		return into.Create(ctx, object, options...)
	}
	c.client = fixtures.Client().WithStatusSubresource(&v1alpha1.WorkerPool{}).WithObjects(c.pool).
		WithInterceptorFuncs(interceptor.Funcs{Create: create}).Build()
	c.reconciler = &worker.Reconciler{Client: c.client, Live: c.client, Events: events.NewFakeRecorder(100_000), Clock: c.clock}
	return c
}

// Decide implements [workers.Law].
func (c *controller) Decide(v workers.View) (workers.Order, error) {
	o := v.Observation()
	c.showPods(o.Pods)
	c.showManager(o.Reading)
	c.clock.SetTime(v.Time())
	before, leaving := c.made, c.leaving()
	result, err := c.reconciler.Reconcile(c.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c.pool)})
	if err != nil {
		return workers.Order{}, err
	}
	order := workers.Order{Add: c.made - before, Next: result.RequeueAfter}
	for _, name := range c.leaving() {
		if !slices.Contains(leaving, name) {
			order.Delete = append(order.Delete, name)
		}
	}
	return order, nil
}

func (c *controller) pods() []corev1.Pod {
	c.Helper()
	var list corev1.PodList
	testapi.List(c, c.client, &list)
	return list.Items
}

// leaving returns the names of the deleted pods whose workers have not left.
func (c *controller) leaving() (names []string) {
	for _, p := range c.pods() {
		if p.DeletionTimestamp != nil {
			names = append(names, p.Name)
		}
	}
	return names
}

// showPods makes the API server contain these pods.
func (c *controller) showPods(pods []workerdecide.Pod) {
	c.Helper()
	there := map[string]*workerdecide.Pod{}
	for i := range pods {
		there[pods[i].Name] = &pods[i]
	}
	known := c.pods()
	for i := range known {
		seen := there[known[i].Name]
		delete(there, known[i].Name)
		if seen == nil { // its worker has left
			known[i].Finalizers = nil
			if err := c.client.Update(c.Context(), &known[i]); client.IgnoreNotFound(err) != nil {
				c.Fatal(err)
			}
			continue
		}
		c.showStatus(&known[i], seen)
	}
	for i := range pods {
		if p := there[pods[i].Name]; p != nil {
			c.clock.SetTime(p.Asked)
			pod := c.first(p)
			testapi.Create(c, c.client, pod)
			if pod.Name != p.Name {
				c.Fatalf("pod %s is called %s", p.Name, pod.Name)
			}
			c.showStatus(pod, p)
		}
	}
}

// first returns a pod that exists when the run begins.
func (c *controller) first(p *workerdecide.Pod) *corev1.Pod {
	size := c.pool.Spec.Worker.Resources
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.pool.Namespace, Labels: map[string]string{v1alpha1.LabelWorkerPool: c.pool.Name},
			OwnerReferences: []metav1.OwnerReference{{Kind: "WorkerPool", Name: c.pool.Name, UID: c.pool.UID}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(int64(size.Cores), resource.DecimalSI), corev1.ResourceMemory: size.Memory,
		}}}}},
	}
}

// showStatus updates the status of a pod that has started.
func (c *controller) showStatus(pod *corev1.Pod, seen *workerdecide.Pod) {
	c.Helper()
	if seen.Started.IsZero() || len(pod.Status.ContainerStatuses) > 0 {
		return
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(seen.Scheduled)}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(seen.Started)}}}}
	if err := c.client.Status().Update(c.Context(), pod); err != nil && !apierrors.IsNotFound(err) {
		c.Fatal(err)
	}
}

// showManager sets the answers of the manager.
func (c *controller) showManager(r *workerdecide.Reading) {
	c.Helper()
	write := func(entries any) string {
		text, err := json.Marshal(entries)
		if err != nil {
			c.Fatal(err)
		}
		return string(text)
	}
	tasks, workers, categories := []map[string]any{}, []map[string]any{}, []map[string]any{}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		entry := map[string]any{"taskid": t.ID, "category": t.Category, "state": t.State, "current_time": t.Now.UnixMicro()}
		if t.State == answer.Running {
			entry["address_port"], entry["time_when_commit_end"] = t.Worker, t.Started.UnixMicro()
		}
		state(entry, "", &t.Declared)
		tasks = append(tasks, entry)
	}
	for i := range r.Workers {
		w := &r.Workers[i]
		entry := map[string]any{
			"address_port": w.Address, "hostname": w.Hostname, "total_tasks_running": w.TasksRunning,
			"start_time": max(1, w.Started.UnixMicro()), "current_time": w.Now.UnixMicro(),
		}
		state(entry, "_total", &w.Total)
		state(entry, "_inuse", &w.InUse)
		workers = append(workers, entry)
	}
	for i := range r.Categories {
		k := &r.Categories[i]
		categories = append(categories, map[string]any{"category": k.Name, "tasks_waiting": k.Waiting, "tasks_on_workers": k.OnWorkers, "tasks_running": k.Running, "tasks_done": k.Done})
	}
	q := &r.Queue
	c.manager.Put(map[string]string{
		"queue_status": write([]any{map[string]any{
			"project": q.Project, "starttime": q.Started.Unix(), "tasks_waiting": q.Waiting, "tasks_on_workers": q.OnWorkers, "tasks_running": q.Running,
			"workers_connected": q.Workers, "time_workers_execute_good": q.ExecutedGood.Microseconds(),
		}}),
		"task_status": write(tasks), "worker_status": write(workers), "wable_status": write(categories),
	})
}

// state writes resources under their names in answers.
func state(entry map[string]any, suffix string, r *answer.Resources) {
	for name, amount := range map[string]answer.Amount{"cores": r.Cores, "memory": r.MemoryMB, "disk": r.DiskMB, "gpus": r.GPUs} {
		entry[name+suffix] = amount.String()
	}
}

// TestTheReplayDecidesAsTheControllerDoes runs each workflow twice in the same plant: once under the law that
// `supercargo workers` runs, and once under the controller itself, which observes the plant through an API
// server and a manager.
func TestTheReplayDecidesAsTheControllerDoes(t *testing.T) {
	for _, tc := range []struct {
		file  string
		start int
		law   v1alpha1.WorkerLaw
	}{
		{"blast.csv", 3, v1alpha1.WorkerLawSupercargo}, {"blast.csv", 3, v1alpha1.WorkerLawHTA},
		{"io.csv", 1, v1alpha1.WorkerLawSupercargo}, {"io.csv", 1, v1alpha1.WorkerLawHTA},
	} {
		t.Run(fmt.Sprint(tc.file, " ", tc.law), func(t *testing.T) {
			t.Parallel()
			c := newController(t, tc.law)
			plan := planOf(t, tc.file, tc.start, c.pool)
			want, err := workers.Run(plan, c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := workers.Run(plan, &workers.Pool{Config: workerdecide.ConfigOf(&c.pool.Spec)})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := resizes(&got), resizes(&want); !slices.Equal(got, want) {
				t.Errorf("the replay resizes\n%q\nand the controller\n%q", got, want)
			}
			if len(want.Decisions) == 0 || got.MicroDollars != want.MicroDollars || got.Makespan != want.Makespan {
				t.Errorf("the replay takes %v and %d micro-dollars, the controller %v and %d", got.Makespan, got.MicroDollars, want.Makespan, want.MicroDollars)
			}
		})
	}
}

// resizes lists when workers were added and which were told to leave.
func resizes(r *workers.Result) (lines []string) {
	for _, d := range r.Decisions {
		slices.Sort(d.Order.Delete)
		lines = append(lines, fmt.Sprintf("%v: %d more, without %v", d.At, d.Order.Add, d.Order.Delete))
	}
	return lines
}
