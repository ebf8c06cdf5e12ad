package workerdecide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

// begin is the start time of farms.
var begin = time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)

const giga = 1 << 30

func cores(n int64) estimate.Resources {
	return estimate.Resources{MilliCores: 1000 * n, MemoryBytes: 4 * n * giga, DiskBytes: Boundless}
}

// limits returns a generous configuration.
func limits(change ...func(*Config)) Config {
	c := Config{
		Law: Supercargo, Max: 20, Cycle: 5 * time.Second, Prior: 60 * time.Second, Gone: 10 * time.Minute,
		Flavors: []Flavor{{Name: "four", Worker: cores(4), MicroDollarsPerHour: 200_000}},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// job is a task of a farm.
type job struct {
	id       int64
	category string
	cores    int64 // 0 declares nothing
	takes    time.Duration
	worker   string // that runs it
	began    time.Time
	done     bool
}

// machine is a pod of a farm, with its worker.
type machine struct {
	Pod
	comes time.Time // when it connects
	idle  time.Time // since when it has been idle
	total int64     // cores
}

// farm simulates a manager with its workers, task by task and step by step.
type farm struct {
	now      time.Time
	started  time.Time // of the manager
	jobs     []*job
	machines []*machine
	init     time.Duration
	made     int
	executed time.Duration
	done     map[string]int64
	lost     []string      // lost tasks; there must be none
	patience time.Duration // how long a leaving worker waits for a task before it goes
}

func newFarm(init time.Duration) *farm {
	return &farm{now: begin, started: begin.Add(-time.Hour), init: init, done: map[string]int64{}}
}

func (f *farm) submit(category string, n int, cores int64, takes time.Duration) {
	for range n {
		f.jobs = append(f.jobs, &job{id: int64(len(f.jobs) + 1), category: category, cores: cores, takes: takes})
	}
}

// step advances time: tasks end, workers connect, others leave when they have been idle for long enough, and tasks
// start, also on leaving workers, because the manager does not know that they are leaving.
func (f *farm) step(d time.Duration) {
	f.now = f.now.Add(d)
	for _, j := range f.jobs {
		if j.worker != "" && !j.done && !f.now.Before(j.began.Add(j.takes)) {
			j.done, j.worker = true, ""
			f.executed += j.takes
			f.done[j.category]++
		}
	}
	f.machines = slices.DeleteFunc(f.machines, func(m *machine) bool {
		if f.free(m) < m.total {
			m.idle = f.now
		}
		connected := !m.comes.After(f.now)
		return m.Leaving && f.free(m) == m.total && (!connected || f.now.Sub(m.idle) >= f.patience)
	})
	for _, j := range f.jobs {
		if j.done || j.worker != "" {
			continue
		}
		for _, m := range f.machines {
			need := j.cores
			if need == 0 {
				need = m.total
			}
			if !m.comes.After(f.now) && f.free(m) >= need {
				j.worker, j.began = m.Name, f.now
				break
			}
		}
	}
}

func (f *farm) free(m *machine) int64 {
	free := m.total
	for _, j := range f.jobs {
		if j.worker == m.Name {
			if j.cores == 0 {
				return 0
			}
			free -= j.cores
		}
	}
	return free
}

// do carries out a decision. Draining a worker with tasks loses them.
func (f *farm) do(d Decision, c Config) {
	for range d.Add {
		f.made++
		name := fmt.Sprintf("w-%03d", f.made)
		worker := c.flavor(d.Flavor).Worker
		comes := f.now.Add(f.init)
		f.machines = append(f.machines, &machine{Pod: Pod{
			Name: name, Flavor: d.Flavor, Worker: worker, Asked: f.now, NodeMade: f.now.Add(f.init / 2),
		}, comes: comes, total: worker.MilliCores / 1000})
	}
	for _, m := range f.machines {
		if slices.Contains(d.Drain, m.Name) {
			m.Leaving = true
			if !m.comes.After(f.now) && f.free(m) < m.total {
				f.lost = append(f.lost, m.Name)
			}
		}
	}
}

func (f *farm) left() (n int) {
	for _, j := range f.jobs {
		if !j.done {
			n++
		}
	}
	return n
}

func exact(v float64) answer.Amount { return answer.Amount{Value: v, Bound: answer.Exact} }

// atMost is the greatest amount measured so far.
func atMost(v float64) answer.Amount { return answer.Amount{Value: v, Bound: answer.SoFar} }

// observe returns the farm as its manager would report it.
func (f *farm) observe() Observation {
	r := &Reading{Queue: answer.Queue{Project: "farm", Started: f.started, ExecutedGood: f.executed}}
	categories := map[string]*answer.Category{}
	for _, j := range f.jobs {
		c := categories[j.category]
		if c == nil {
			c = &answer.Category{Name: j.category, Done: f.done[j.category]}
			categories[j.category] = c
		}
		if j.done {
			continue
		}
		t := answer.Task{ID: j.id, Category: j.category, State: answer.Waiting}
		if j.cores > 0 {
			t.Declared.Cores = exact(float64(j.cores))
		}
		if j.worker == "" {
			r.Queue.Waiting++
		} else {
			r.Queue.OnWorkers++
			t.State, t.Worker, t.Started, t.Now = answer.Running, "at/"+j.worker, j.began, f.now
		}
		r.Tasks = append(r.Tasks, t)
	}
	for _, c := range categories {
		r.Categories = append(r.Categories, *c)
	}
	slices.SortFunc(r.Categories, func(a, b answer.Category) int { return strings.Compare(a.Name, b.Name) })
	o := Observation{Reading: r}
	for _, m := range f.machines {
		if !m.comes.After(f.now) {
			m.Scheduled, m.Started = m.Asked.Add(f.init/2), m.comes
			used := m.total - f.free(m)
			running := int64(0)
			for _, j := range f.jobs {
				if j.worker == m.Name {
					running++
				}
			}
			r.Workers = append(r.Workers, answer.Worker{
				Address: "at/" + m.Name, Hostname: m.Name, Started: m.comes, Now: f.now, TasksRunning: running,
				Total: answer.Resources{Cores: exact(float64(m.total)), MemoryMB: exact(float64(4096 * m.total)), DiskMB: exact(100_000)},
				InUse: answer.Resources{Cores: exact(float64(used))},
			})
			r.Queue.Workers++
		}
		o.Pods = append(o.Pods, m.Pod)
	}
	return o
}

// flavor returns the flavor with that name, or nil.
func (c *Config) flavor(name string) *Flavor {
	for i := range c.Flavors {
		if c.Flavors[i].Name == name {
			return &c.Flavors[i]
		}
	}
	return nil
}
