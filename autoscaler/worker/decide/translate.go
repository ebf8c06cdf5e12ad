package decide

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

// need is what a task occupies.
type need struct {
	estimate.Resources
	source NeedSource
}

// host is a connected worker with what it runs.
type host struct {
	worker *answer.Worker
	total  estimate.Resources
	tasks  []*answer.Task
}

// idle reports whether the manager says so in each way that it can: it counts no task there,
// sets nothing aside there, and lists no task that is there.
func (h *host) idle() bool {
	return h.worker.TasksRunning == 0 && h.worker.InUse.Cores.Value == 0 && len(h.tasks) == 0
}

// amounts translates what a manager says of resources; what is not stated is 0.
func amounts(r answer.Resources) estimate.Resources {
	const mostMB, mostUnits = 1 << 30, 1 << 30 // more than any machine has, and no overflow
	megabytes := func(a answer.Amount) int64 { return int64(min(a.Value, mostMB)) << 20 }
	return estimate.Resources{
		MilliCores:  int64(min(thousandths(r.Cores), mostUnits)),
		MemoryBytes: megabytes(r.MemoryMB), DiskBytes: megabytes(r.DiskMB), GPUs: int64(min(r.GPUs.Value, mostUnits)),
	}
}

func thousandths(a answer.Amount) float64 { return math.Round(a.Value * 1000) }

// stated reports whether anything is said to be needed.
func stated(r answer.Resources) bool {
	return r.Cores.Bound != answer.Unstated || r.MemoryMB.Bound != answer.Unstated || r.DiskMB.Bound != answer.Unstated || r.GPUs.Bound != answer.Unstated
}

// over is what r states, and of what it leaves open what other states.
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

// onlyExact is what of r is declared.
func onlyExact(r answer.Resources) answer.Resources {
	for _, a := range []*answer.Amount{&r.Cores, &r.MemoryMB, &r.DiskMB, &r.GPUs} {
		if a.Bound != answer.Exact {
			*a = answer.Amount{}
		}
	}
	return r
}

// kind is what a reading says of the tasks of one category together.
type kind struct {
	// given is what the manager sets aside for a task of what it does not declare itself, and
	// source where that is from; empty if it gives a whole worker.
	given  answer.Resources
	source NeedSource
	// longest is how long the longest of those that run has run.
	longest time.Duration
	// runtime is how long those that wait will run.
	runtime time.Duration
	// need is the greatest that was seen; its source is empty if none was.
	need need
}

// kinds are by category.
type kinds map[string]*kind

// of returns that of a category, made if there is none.
func (k kinds) of(category string) *kind {
	of := k[category]
	if of == nil {
		of = &kind{}
		k[category] = of
	}
	return of
}

// kindsOf reads from what a manager says of its categories, of its workers and of the tasks
// that run what it holds of each category.
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

// given is what a manager sets aside for a task of a category that declares nothing itself:
// what the category declares, or what the manager has made of its measurements where it was
// told to go by them, which it is not by default: a task of which the monitor has seen that it
// uses a tenth still gets a whole worker then. Where it goes by them it says a first
// allocation that is less than the largest worker. What that leaves open is the most seen.
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

// needOf is what a task occupies on its worker. What it declares the manager sets aside for
// it, whatever it uses; else what it gives to the category; else a whole worker. Of what is
// left open where something is declared it is the least that the manager gives, whatever the
// worker has: of cores one, unless it wants GPUs, and of others nothing.
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

// on is what a task occupies that runs on a worker which has so much in all. Of what the task
// leaves open the manager gives it the same share as of what it wants the greatest share of.
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

// note keeps the greatest need.
func (k *kind) note(n need) {
	if k.need.source != "" {
		before := &k.need
		n.MilliCores, n.MemoryBytes = max(n.MilliCores, before.MilliCores), max(n.MemoryBytes, before.MemoryBytes)
		n.DiskBytes, n.GPUs = max(n.DiskBytes, before.DiskBytes), max(n.GPUs, before.GPUs)
	}
	k.need = n
}

// translation is a reading as the estimator sees it.
type translation struct {
	state estimate.State
	// pods are the names of the workers that belong to a pod, in the order of the state.
	pods map[string]*Pod
	// foreign is how many workers do not.
	foreign int
	// kinds are what is known by category.
	kinds kinds
	// shortage is the cores that waiting tasks want, in thousandths.
	shortage int64
	hosts    map[string]*host
	// lost are the workers that will not connect.
	lost []string
	// whole says of each batch that waits whether a task of it takes a worker whole,
	// whatever that has.
	whole []bool
}

// hostsOf finds for each pod the worker that is connected from it, by the name of its host,
// else by its address, and returns those that belong to no pod besides.
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

// translator makes a state out of a reading.
type translator struct {
	config *Config
	memory *Memory
	flavor *Flavor
	now    time.Time
	// lost are the workers that will not connect.
	lost []string
}

// translate makes a state out of a reading, with new workers of the flavor given. Workers
// stand in the order in which the manager is likely to fill them: those that are nobody's
// first, since they cost nothing, then by when they were asked for.
func (t *translator) translate(o *Observation, hosts map[string]*host, foreign []*host) translation {
	r := o.Reading
	tr := translation{pods: map[string]*Pod{}, kinds: t.memory.kindsOf(r), hosts: hosts, foreign: len(foreign), lost: t.lost}
	tr.state.Resized = t.memory.Resized
	for _, h := range foreign {
		w := estimate.Worker{Name: "elsewhere/" + h.worker.Address, Capacity: h.total}
		t.load(&tr, &w, h)
		tr.state.Workers = append(tr.state.Workers, w)
	}
	for i := range o.Pods { // in the order in which they were asked for
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

// worker translates a pod.
func (t *translator) worker(tr *translation, p *Pod) estimate.Worker {
	w := estimate.Worker{Name: p.Name, Capacity: p.Worker, Draining: p.Leaving}
	mem, h := t.memory.pods[p.Name], tr.hosts[p.Name]
	switch {
	case h != nil:
		w.Capacity = h.total
		w.Takes = p.Leaving // the manager knows nothing of its leaving
		t.load(tr, &w, h)
		if !mem.idleSince.IsZero() {
			w.IdleFor = max(0, t.now.Sub(mem.idleSince))
		}
	case mem.connected: // between two sessions, as idle workers are
		w.ReadyIn = reconnect
	case slices.Contains(t.lost, p.Name):
		w.ReadyIn = estimate.Unknown
	default:
		init := t.memory.initTime(t.config, p.Flavor)
		w.ReadyIn = max(init-max(0, t.now.Sub(p.Asked)), init/overdue)
	}
	return w
}

const (
	// reconnect is how long a worker is away that leaves when it has been idle and comes back.
	reconnect = 10 * time.Second
	// overdue is in what part of an initialisation time a worker is expected that should have
	// come by now.
	overdue = 8
)

// load translates what a worker runs.
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

// queue translates the tasks that wait, by number, which is the order in which they were
// submitted.
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

// enqueue puts a task behind the others.
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

// on is the queue as it is for workers of one size only.
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

// whole is what a task occupies that gets a whole worker, so that each of the workers there
// and to come holds one: of each resource the least that one of them has.
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
