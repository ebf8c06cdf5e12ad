//go:build workers

package workers

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"supercargo.dev/supercargo/autoscaler/adapter/tasks"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue"
)

// TestARealManagerIsFoundAndUnderstood runs a workflow to its end on one worker and observes it with the
// client.
func TestARealManagerIsFoundAndUnderstood(t *testing.T) {
	const project = "supercargo-e2e"
	catalog := startCatalog(t)
	flow := startWorkflow(t, project, catalog)

	var found workqueue.Found
	until(t, "the catalog server knows the manager", func() (bool, any) {
		var err error
		found, err = workqueue.Discover(t.Context(), []workqueue.Catalog{{Address: catalog}}, project)
		return err == nil, err
	})
	manager := &workqueue.Client{Address: found.Address, Password: flow.password}
	var queue workqueue.Queue
	ask := func() error {
		var err error
		queue, err = manager.Queue(t.Context())
		return err
	}
	until(t, "six tasks wait", func() (bool, any) {
		err := ask()
		return err == nil && queue.Waiting == 6, []any{queue, err}
	})
	if queue.Project != project || queue.Workers != 0 || queue.Started.IsZero() {
		t.Errorf("queue %+v, want that of the project, without workers", queue)
	}
	if _, err := (&workqueue.Client{Address: found.Address, Password: "another"}).Queue(t.Context()); !errors.Is(err, workqueue.ErrPassword) {
		t.Errorf("with another password: error %v, want %v", err, workqueue.ErrPassword)
	}
	watchWaiting(t, manager)
	watchThroughTheAdapter(t, &tasks.Source{Catalogs: []workqueue.Catalog{{Address: catalog}}, Project: project, PasswordFile: flow.passwordFile, Timeout: workqueue.DefaultTimeout})
	watchThroughPools(t, flow, found.Address, catalog, project)

	host, port, err := net.SplitHostPort(found.Address)
	if err != nil {
		t.Fatal(err)
	}
	program(t, flow.dir, "work_queue_worker", "--cores", "3", "--memory", "1000", "--disk", "1000", "-P", flow.passwordFile, "-s", t.TempDir(), "-t", "60", host, port)
	until(t, "three tasks run", func() (bool, any) {
		err := ask()
		return err == nil && queue.Running == 3, []any{queue, err}
	})
	watchRunning(t, manager)
	until(t, "three tasks are done", func() (bool, any) {
		err := ask()
		return err == nil && queue.Done >= 3, []any{queue, err}
	})
	if queue.WorkersLost != 0 {
		t.Errorf("the manager counts %d workers as lost, want none: it was asked something that it does not know", queue.WorkersLost)
	}
	select {
	case <-flow.ended:
	case <-t.Context().Done():
		t.Fatal("the workflow does not end")
	}
	if all, err := os.ReadFile(filepath.Join(flow.dir, "all")); err != nil || string(all) != "0\n1\n2\n3\n4\n5\n" {
		t.Errorf("the workflow made %q (%v)", all, err)
	}
}

// watchWaiting checks the waiting tasks.
func watchWaiting(t *testing.T, manager workqueue.Manager) {
	t.Helper()
	tasks, err := manager.Tasks(t.Context())
	if err != nil || len(tasks) != 6 || tasks[0].State != workqueue.Waiting || tasks[0].Category != "split" || tasks[0].Declared.Cores.Value != 1 {
		t.Errorf("tasks %+v (%v), want six of category split that wait and want a core", tasks, err)
	}
	categories, err := manager.Categories(t.Context())
	if err != nil || len(categories) != 1 || categories[0].Name != "split" || categories[0].Waiting != 6 {
		t.Errorf("categories %+v (%v), want one with six tasks", categories, err)
	}
}

// watchThroughTheAdapter checks the metrics that the adapter would store.
func watchThroughTheAdapter(t *testing.T, source *tasks.Source) {
	t.Helper()
	queue, err := source.Queue(t.Context())
	if err != nil {
		t.Errorf("the metrics adapter: %v", err)
		return
	}
	series, err := tasks.Of(&queue)
	if err != nil || len(queue.Categories) != 1 {
		t.Errorf("series of %d categories: error %v, want one category", len(queue.Categories), err)
	}
	for key, want := range map[tasks.Key]float64{
		{Name: tasks.Waiting}: 6, {Name: tasks.OnWorkers}: 0, {Name: tasks.Submitted}: 6, {Name: tasks.CategoryWaiting, Category: "split"}: 6,
	} {
		if got, ok := series[key]; !ok || got != want {
			t.Errorf("series %v is %v (%v), want %v", key, got, ok, want)
		}
	}
}

// watchRunning checks the running tasks and their workers.
func watchRunning(t *testing.T, manager workqueue.Manager) {
	t.Helper()
	var workers []workqueue.Worker
	until(t, "the worker has three tasks", func() (bool, any) {
		var err error
		workers, err = manager.Workers(t.Context())
		return err == nil && len(workers) == 1 && workers[0].TasksRunning == 3, []any{workers, err}
	})
	if workers[0].Total.Cores.Value != 3 || workers[0].InUse.Cores.Value != 3 {
		t.Errorf("worker %+v, want three cores, all in use", workers[0])
	}
	tasks, err := manager.Tasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	running := 0
	for _, task := range tasks {
		if task.State != workqueue.Running {
			continue
		}
		running++
		if task.Worker != workers[0].Address || task.Started.Before(task.Submitted) || task.Now.Before(task.Started) {
			t.Errorf("%+v, want it on %s, submitted before it started", task, workers[0].Address)
		}
	}
	if running != 3 {
		t.Errorf("%d tasks run, want 3", running)
	}
}
