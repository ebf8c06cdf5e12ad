package workerdecide

import (
	"cmp"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

// need is what a task occupies, and the origin of that information.
type need struct {
	estimate.Resources
	source NeedSource
}

// host is a connected worker with its tasks.
type host struct {
	worker *answer.Worker
	total  estimate.Resources
	tasks  []*answer.Task
}

// idle reports whether the manager confirms it in every way: it counts no task on the worker, reserves nothing on it,
// and lists no task for it.
func (h *host) idle() bool {
	return h.worker.TasksRunning == 0 && h.worker.InUse.Cores.Value == 0 && len(h.tasks) == 0
}

// amounts converts the manager's resources. An amount that is not stated becomes 0.
func amounts(r answer.Resources) estimate.Resources {
	const mostMB, mostUnits = 1 << 30, 1 << 30 // above any machine, and without overflow
	megabytes := func(a answer.Amount) int64 { return int64(min(a.Value, mostMB)) << 20 }
	return estimate.Resources{
		MilliCores:  int64(min(thousandths(r.Cores), mostUnits)),
		MemoryBytes: megabytes(r.MemoryMB), DiskBytes: megabytes(r.DiskMB), GPUs: int64(min(r.GPUs.Value, mostUnits)),
	}
}

func thousandths(a answer.Amount) float64 { return math.Round(a.Value * 1000) }

// stated reports whether any amount is stated.
func stated(r answer.Resources) bool {
	return r.Cores.Bound != answer.Unstated || r.MemoryMB.Bound != answer.Unstated || r.DiskMB.Bound != answer.Unstated || r.GPUs.Bound != answer.Unstated
}

// over returns r, with its unstated amounts taken from other.
func over(r, other answer.Resources) answer.Resources {
	pick := func(a, b *answer.Amount) {
		if a.Bound == answer.Unstated {
			*a = *b
		}
	}
	pick(&r.Cores, &other.Cores)
	pick(&r.MemoryMB, &other.MemoryMB)
	pick(&r.DiskMB, &other.DiskMB)
	pick(&r.GPUs, &other.GPUs)
	return r
}

// onlyExact returns the declared amounts of r.
func onlyExact(r answer.Resources) answer.Resources {
	for _, a := range []*answer.Amount{&r.Cores, &r.MemoryMB, &r.DiskMB, &r.GPUs} {
		if a.Bound != answer.Exact {
			*a = answer.Amount{}
		}
	}
	return r
}

// kind is what a reading says about the tasks of one category.
type kind struct {
	// given is what the manager reserves for a task that does not declare it itself, and source its origin; empty if
	// the manager gives a whole worker.
	given  answer.Resources
	source NeedSource
	// longest is the time that the longest-running task has run.
	longest time.Duration
	// runtime is the expected runtime of waiting tasks.
	runtime time.Duration
	// need is the greatest need; its source is empty if there is none.
	need need
}

// kinds maps categories to what is known about them.
type kinds map[string]*kind

// of returns the kind of a category, and creates it if needed.
func (k kinds) of(category string) *kind {
	of := k[category]
	if of == nil {
		of = &kind{}
		k[category] = of
	}
	return of
}

// kindsOf collects the kinds from a manager's categories, workers and running tasks.
func (m *Memory) kindsOf(r *Reading) kinds {
	k := make(kinds, len(r.Categories))
	for i := range r.Categories {
		c := &r.Categories[i]
		k.of(c.Name).given, k.of(c.Name).source = given(c, r.Workers)
	}
	for i := range r.Tasks {
		if t := &r.Tasks[i]; t.State == answer.Running {
			of := k.of(t.Category)
			of.longest = max(of.longest, ranFor(t))
		} else if k[t.Category] == nil {
			k.of(t.Category)
		}
	}
	for name, of := range k {
		of.runtime = m.lookup(name).expect(of.longest)
	}
	return k
}

// given returns what a manager reserves for a task of a category that declares nothing itself: what the category
// declares, or what the manager has derived from its measurements, if it is configured to. By default it is not: a task
// that uses a tenth of a worker, as measured, still gets a whole one. If it is, its first allocation is less than the
// largest worker. Amounts that are still open are the greatest measured.
func given(c *answer.Category, workers []answer.Worker) (answer.Resources, NeedSource) {
	declared := onlyExact(c.Max)
	var cores, memory float64
	for i := range workers {
		cores, memory = max(cores, workers[i].Total.Cores.Value), max(memory, workers[i].Total.MemoryMB.Value)
	}
	switch first := c.First; {
	case first.Cores.Value > 0 && (first.Cores.Value < cores || first.MemoryMB.Value < memory) && stated(c.Measured()):
		return over(first, over(declared, c.Measured())), Measured
	case stated(declared):
		return declared, Declared
	}
	return answer.Resources{}, ""
}

// needOf returns what a task occupies on its worker. The manager reserves what the task declares, whatever it uses;
// otherwise what it reserves for the category; otherwise a whole worker. If only some amounts are declared, the others
// are the least that the manager gives on any worker: one core, unless the task wants GPUs, and nothing of the rest.
func (k *kind) needOf(t *answer.Task, whole estimate.Resources) need {
	source := Declared
	if !stated(t.Declared) {
		source = k.source
	}
	if source == "" {
		return need{whole, WholeWorker}
	}
	r := over(t.Declared, k.given)
	n := need{amounts(r), source}
	if r.Cores.Bound == answer.Unstated && n.GPUs == 0 {
		n.MilliCores = 1000
	}
	return n
}

// on returns what a task occupies on a worker with the given total. For undeclared amounts, the manager gives the task
// the greatest share among its declared ones.
func (k *kind) on(t *answer.Task, total estimate.Resources, n need) estimate.Resources {
	if n.source != Declared || k.source == Measured {
		return n.Resources
	}
	r := over(t.Declared, k.given)
	share := amounts(r).Share(total)
	part := func(of answer.Amount, least, total, unit int64) int64 {
		if of.Bound != answer.Unstated {
			return least
		}
		return max(least, int64(float64(total/unit)*share)*unit)
	}
	n.MemoryBytes, n.DiskBytes = part(r.MemoryMB, n.MemoryBytes, total.MemoryBytes, 1<<20), part(r.DiskMB, n.DiskBytes, total.DiskBytes, 1<<20)
	if n.GPUs == 0 {
		n.MilliCores = part(r.Cores, n.MilliCores, total.MilliCores, 1000)
	}
	return n.Resources
}

// note updates the greatest need.
func (k *kind) note(n need) {
	if k.need.source != "" {
		before := &k.need
		n.MilliCores, n.MemoryBytes = max(n.MilliCores, before.MilliCores), max(n.MemoryBytes, before.MemoryBytes)
		n.DiskBytes, n.GPUs = max(n.DiskBytes, before.DiskBytes), max(n.GPUs, before.GPUs)
	}
	k.need = n
}

// translation is a reading as input of the estimator.
type translation struct {
	state estimate.State
	// pods maps the names of the workers that belong to a pod to it.
	pods map[string]*Pod
	// foreign is the number of workers that belong to no pod.
	foreign int
	// kinds are what is known by category.
	kinds kinds
	// shortage is the number of millicores that waiting tasks request.
	shortage int64
	hosts    map[string]*host
	// lost are the workers that will not connect, and unplaced those that will not get a node.
	lost, unplaced []string
	// whole reports for each waiting batch whether its tasks each take a whole worker, of whatever size.
	whole []bool
}

// hostsOf returns the connected worker of each pod, matched by host name or else by address, and the workers that
// belong to no pod.
func hostsOf(pods []Pod, r *Reading) (of map[string]*host, foreign []*host) {
	byName, byIP := map[string]string{}, map[string]string{}
	for i := range pods {
		byName[pods[i].Name] = pods[i].Name
		if pods[i].IP != "" {
			byIP[pods[i].IP] = pods[i].Name
		}
	}
	byAddress := map[string]*host{}
	of = map[string]*host{}
	for i := range r.Workers {
		w := &r.Workers[i]
		h := &host{worker: w, total: amounts(w.Total)}
		byAddress[w.Address] = h
		short, _, _ := strings.Cut(w.Hostname, ".")
		name := cmp.Or(byName[w.Hostname], byName[short])
		if name == "" {
			if ip, _, err := net.SplitHostPort(w.Address); err == nil {
				name = byIP[ip]
			}
		}
		if before := of[name]; name == "" || before != nil && !before.worker.Started.Before(w.Started) {
			foreign = append(foreign, h)
		} else {
			if before != nil {
				foreign = append(foreign, before) // a connection that the manager has not closed yet
			}
			of[name] = h
		}
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if t.State == answer.Waiting {
			continue
		}
		if h := byAddress[t.Worker]; h != nil {
			h.tasks = append(h.tasks, t)
		}
	}
	slices.SortFunc(foreign, func(a, b *host) int { return cmp.Compare(a.worker.Address, b.worker.Address) })
	return of, foreign
}

// translator converts a reading into a state.
type translator struct {
	config *Config
	memory *Memory
	flavor *Flavor
	now    time.Time
	// lost are the workers that will not connect, and unplaced those that will not get a node.
	lost, unplaced []string
}

// translate converts a reading into a state, with new workers of the translator's flavor. Workers are in the order in
// which the manager is likely to fill them: first foreign ones, since they cost nothing, then by creation time.
func (t *translator) translate(o *Observation, hosts map[string]*host, foreign []*host) translation {
	r := o.Reading
	tr := translation{pods: map[string]*Pod{}, kinds: t.memory.kindsOf(r), hosts: hosts, foreign: len(foreign), lost: t.lost, unplaced: t.unplaced}
	tr.state.Resized = t.memory.Resized
	for _, h := range foreign {
		w := estimate.Worker{Name: "elsewhere/" + h.worker.Address, Capacity: h.total}
		t.load(&tr, &w, h)
		tr.state.Workers = append(tr.state.Workers, w)
	}
	for i := range o.Pods { // ordered by creation time
		tr.pods[o.Pods[i].Name] = &o.Pods[i]
		tr.state.Workers = append(tr.state.Workers, t.worker(&tr, &o.Pods[i]))
	}
	t.queue(&tr, r.Tasks)
	return tr
}

func ranFor(task *answer.Task) time.Duration {
	if task.Started.IsZero() {
		return 0
	}
	return max(0, task.Now.Sub(task.Started))
}

// worker converts a pod.
func (t *translator) worker(tr *translation, p *Pod) estimate.Worker {
	w := estimate.Worker{Name: p.Name, Capacity: p.Worker, Draining: p.Leaving}
	mem, h := t.memory.pods[p.Name], tr.hosts[p.Name]
	switch {
	case h != nil:
		w.Capacity = h.total
		w.Takes = p.Leaving // the manager does not know that it is leaving
		t.load(tr, &w, h)
		if !mem.idleSince.IsZero() {
			w.IdleFor = max(0, t.now.Sub(mem.idleSince))
		}
	case mem.connected: // between two sessions, as idle workers reconnect
		w.ReadyIn = reconnect
	case slices.Contains(t.lost, p.Name), slices.Contains(t.unplaced, p.Name):
		w.ReadyIn = estimate.Unknown
	default:
		init := t.memory.initTime(t.config, p.Flavor)
		w.ReadyIn = max(init-max(0, t.now.Sub(p.Asked)), init/overdue)
	}
	return w
}

const (
	// reconnect is how long an idle worker is away between two sessions.
	reconnect = 10 * time.Second
	// overdue divides the initialisation time: a worker that is late is expected within that part of it.
	overdue = 8
)

// load adds the tasks of a worker.
func (t *translator) load(tr *translation, w *estimate.Worker, h *host) {
	for _, task := range h.tasks {
		kind := tr.kinds.of(task.Category)
		n := kind.needOf(task, h.total)
		kind.note(n)
		run := estimate.Running{Category: task.Category, Need: kind.on(task, h.total, n), Ran: ranFor(task), Count: 1}
		if task.State == answer.Running {
			run.Left = kind.runtime
			if run.Left != estimate.Unknown {
				run.Left = max(0, run.Left-run.Ran)
			}
		}
		w.Running = append(w.Running, run)
	}
}

// queue adds the waiting tasks by number, which is the order of submission.
func (t *translator) queue(tr *translation, tasks []answer.Task) {
	waiting := make([]*answer.Task, 0, len(tasks))
	for i := range tasks {
		if tasks[i].State == answer.Waiting {
			waiting = append(waiting, &tasks[i])
		}
	}
	byNumber := func(a, b *answer.Task) int { return cmp.Compare(a.ID, b.ID) }
	if !slices.IsSortedFunc(waiting, byNumber) {
		slices.SortFunc(waiting, byNumber)
	}
	whole := t.whole(tr)
	tr.state.Waiting, tr.whole = make([]estimate.Batch, 0, len(waiting)), make([]bool, 0, len(waiting))
	for _, task := range waiting {
		kind := tr.kinds.of(task.Category)
		n := kind.needOf(task, whole)
		kind.note(n)
		tr.shortage += n.MilliCores
		tr.enqueue(estimate.Batch{Category: task.Category, Need: n.Resources, Runtime: kind.runtime, Count: 1}, n.source == WholeWorker)
	}
}

// enqueue appends a task.
func (tr *translation) enqueue(b estimate.Batch, whole bool) {
	if k := len(tr.state.Waiting) - 1; k >= 0 && tr.whole[k] == whole {
		last := tr.state.Waiting[k]
		if last.Count = 1; last == b {
			tr.state.Waiting[k].Count++
			return
		}
	}
	tr.state.Waiting, tr.whole = append(tr.state.Waiting, b), append(tr.whole, whole)
}

// on returns the queue for workers of one size.
func (tr *translation) on(worker estimate.Resources) []estimate.Batch {
	if !slices.Contains(tr.whole, true) {
		return tr.state.Waiting
	}
	waiting := slices.Clone(tr.state.Waiting)
	for i := range waiting {
		if tr.whole[i] {
			waiting[i].Need = worker
		}
	}
	return waiting
}

// whole returns what a task occupies that takes a whole worker: the minimum of each resource over present and new
// workers, so that each of them fits one such task.
func (t *translator) whole(tr *translation) estimate.Resources {
	least := t.flavor.Worker
	for i := range tr.state.Workers {
		w := &tr.state.Workers[i].Capacity
		if w.MilliCores > 0 {
			least.MilliCores = min(least.MilliCores, w.MilliCores)
			least.MemoryBytes, least.DiskBytes = min(least.MemoryBytes, w.MemoryBytes), min(least.DiskBytes, w.DiskBytes)
			least.GPUs = min(least.GPUs, w.GPUs)
		}
	}
	return least
}
