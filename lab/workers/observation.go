package workers

import (
	"cmp"
	"slices"
	"time"

	workerdecide "supercargo.dev/supercargo/autoscaler/worker/workerdecide"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
	"supercargo.dev/supercargo/internal/input/trace"
)

// observation returns the plant as the WorkerPool controller observes it. It contains only what the
// API server and a manager report: for a pod that has not started, its creation time; for a running
// task, its start; for finished tasks, their number per category and their total runtime.
func (p *plant) observation() workerdecide.Observation {
	var o workerdecide.Observation
	for _, w := range p.workers {
		o.Pods = append(o.Pods, p.pod(w))
	}
	o.Reading = p.reading()
	return o
}

// pod returns the pod of a worker. Times of the API server are whole seconds. A worker connects as
// soon as its container has started.
func (p *plant) pod(w *worker) workerdecide.Pod {
	size := w.Capacity
	size.DiskBytes = workerdecide.Boundless
	pod := workerdecide.Pod{Name: w.Name, Worker: size, Asked: second(min(w.askedAt, w.readyAt)), Leaving: w.leaving}
	if w.connected {
		pod.Scheduled, pod.Started = second(w.readyAt), second(w.readyAt)
	}
	return pod
}

// second returns the date of a time of the run, with the precision of the API server.
func second(at time.Duration) time.Time { return epoch.Add(at).Truncate(time.Second) }

// reading returns the answer of the manager.
func (p *plant) reading() *workerdecide.Reading {
	r := &workerdecide.Reading{Queue: answer.Queue{Project: "workflow", Started: epoch, ExecutedGood: p.executed}}
	categories := map[string]*answer.Category{}
	of := func(t *trace.Task) *answer.Category {
		name := categoryOf(t)
		c := categories[name]
		if c == nil {
			c = &answer.Category{Name: name, Done: p.done[name]}
			categories[name] = c
		}
		return c
	}
	for name, n := range p.done {
		categories[name] = &answer.Category{Name: name, Done: n}
	}
	for _, w := range p.workers {
		if !w.connected {
			continue
		}
		r.Queue.Workers++
		r.Workers = append(r.Workers, p.workerAnswer(w))
		for _, s := range w.running {
			t := p.taskAnswer(s.task)
			t.State, t.Worker, t.Started = answer.Running, addressOf(w), epoch.Add(s.at)
			r.Tasks = append(r.Tasks, t)
			r.Queue.OnWorkers++
			r.Queue.Running++
			c := of(&p.Tasks[s.task])
			c.OnWorkers++
			c.Running++
		}
	}
	for _, task := range p.queue.inOrder() {
		t := p.taskAnswer(task)
		t.State = answer.Waiting
		r.Tasks = append(r.Tasks, t)
		r.Queue.Waiting++
		of(&p.Tasks[task]).Waiting++
	}
	for _, c := range categories {
		r.Categories = append(r.Categories, *c)
	}
	slices.SortFunc(r.Categories, func(a, b answer.Category) int { return cmp.Compare(a.Name, b.Name) })
	return r
}

// categoryOf returns the category that a manager assigns to a task: "default" if none is stated.
func categoryOf(t *trace.Task) string { return cmp.Or(t.Category, "default") }

// taskAnswer returns the fields of the manager's answer that all tasks have. IDs are assigned in
// the order in which tasks became ready, because a workflow submits them then.
func (p *plant) taskAnswer(task int) answer.Task {
	t := &p.Tasks[task]
	return answer.Task{
		ID: p.submitted[task], Category: categoryOf(t), Now: epoch.Add(p.now),
		Declared: answer.Resources{Cores: coresOf(t.MilliCores), MemoryMB: megabytesOf(t.MemoryBytes), DiskMB: exact(0), GPUs: exact(0)},
	}
}

// workerAnswer returns the manager's answer for a connected worker. Disks and GPUs are not
// simulated.
func (p *plant) workerAnswer(w *worker) answer.Worker {
	return answer.Worker{
		Address: addressOf(w), Hostname: w.Name, Started: epoch.Add(w.readyAt), Now: epoch.Add(p.now), TasksRunning: int64(len(w.running)),
		Total: answer.Resources{Cores: coresOf(w.Capacity.MilliCores), MemoryMB: megabytesOf(w.Capacity.MemoryBytes), DiskMB: exact(0), GPUs: exact(0)},
		InUse: answer.Resources{
			Cores: coresOf(w.Capacity.MilliCores - w.free.MilliCores), MemoryMB: megabytesOf(w.Capacity.MemoryBytes - w.free.MemoryBytes), DiskMB: exact(0), GPUs: exact(0),
		},
	}
}

func addressOf(w *worker) string { return w.Name + ":9123" }

func exact(value float64) answer.Amount { return answer.Amount{Value: value, Bound: answer.Exact} }

func coresOf(milli int64) answer.Amount { return exact(float64(milli) / 1000) }

func megabytesOf(bytes int64) answer.Amount { return exact(float64(bytes) / (1 << 20)) }
