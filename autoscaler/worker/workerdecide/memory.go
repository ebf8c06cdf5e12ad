package workerdecide

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
)

// Memory is the state between decisions. The zero value is fresh memory. [Decide] does not change the one that it is
// given.
type Memory struct {
	// Queue is the last queue that was read.
	Queue QueueID
	// SilentSince is the first failure of the manager to answer since it last did; zero while it answers.
	SilentSince time.Time
	// GoneSince is the time since which every attempt has found it [Gone]; zero if the last one has not.
	GoneSince time.Time
	// Resized is when workers were last added or drained.
	Resized time.Time
	// Categories are sorted by name, InitTimes by flavor.
	Categories []Category
	InitTimes  []InitTime

	// The rest may be lost. Then one reading teaches nothing, and the idle times of workers start again.
	last lastReading
	pods map[string]podMemory
}

// QueueID identifies a queue among those at the same address.
type QueueID struct {
	Project string
	Started time.Time
}

// Category is what is known about tasks of one kind of work.
type Category struct {
	Name string
	// Need is the greatest need of a task in the last reading, and Source its origin.
	Need   estimate.Resources
	Source NeedSource
	// Used is the greatest use by a finished task that the manager's monitor has measured; 0 for resources that were
	// not measured.
	Used estimate.Resources
	// Recent are the last runtimes, the latest at the end; at most [MaxRecent].
	Recent []time.Duration
	// Ended is the total number of learned runtimes. Relearned counts how often the earlier ones were discarded because
	// the tasks had changed.
	Ended, Relearned int64
}

// MaxRecent is the number of runtimes kept for a category.
const MaxRecent = 32

// NeedSource is the origin of a need.
type NeedSource string

// The origins of needs.
const (
	// Declared means that tasks declare their needs, which the manager reserves.
	Declared NeedSource = "Declared"
	// Measured means that the manager derives needs from its monitor, because it is configured to.
	Measured NeedSource = "Measured"
	// WholeWorker means that tasks declare nothing, so the manager gives each a whole worker.
	WholeWorker NeedSource = "WholeWorker"
)

// Mean returns the mean of the recent runtimes, or 0 if there is none.
func (c *Category) Mean() time.Duration {
	if len(c.Recent) == 0 {
		return 0
	}
	sum := time.Duration(0)
	for _, d := range c.Recent {
		sum += d
	}
	return sum / time.Duration(len(c.Recent))
}

// lastReading is the last reading, to find what has changed since.
type lastReading struct {
	at       time.Time
	executed time.Duration
	done     map[string]int64 // by category
	running  map[int64]ran
}

// ran is a task that ran at the last reading.
type ran struct {
	category string
	since    time.Duration
}

// podMemory is the state of a pod.
type podMemory struct {
	// apart reports whether the pod was ever observed without a connected worker, connected whether it has been
	// connected since.
	apart, connected bool
	// alone is the time since which each reading has shown that its container runs and its worker has never connected;
	// zero otherwise.
	alone time.Time
	// idleSince is zero for a worker that runs tasks.
	idleSince time.Time
	// seen is the size that the worker reported.
	seen estimate.Resources
}

// clone returns a copy that shares no mutable state.
func (m Memory) clone() Memory {
	m.Categories = slices.Clone(m.Categories)
	for i := range m.Categories {
		m.Categories[i].Recent = slices.Clone(m.Categories[i].Recent)
	}
	m.InitTimes = slices.Clone(m.InitTimes)
	pods := make(map[string]podMemory, len(m.pods))
	for name, p := range m.pods {
		pods[name] = p
	}
	m.pods = pods
	return m
}

// category returns the category with that name, and creates it if needed.
func (m *Memory) category(name string) *Category {
	i, found := slices.BinarySearchFunc(m.Categories, name, func(c Category, name string) int { return cmp.Compare(c.Name, name) })
	if !found {
		m.Categories = slices.Insert(m.Categories, i, Category{Name: name})
	}
	return &m.Categories[i]
}

// lookup returns the category with that name, or nil.
func (m *Memory) lookup(name string) *Category {
	i, found := slices.BinarySearchFunc(m.Categories, name, func(c Category, name string) int { return cmp.Compare(c.Name, name) })
	if !found {
		return nil
	}
	return &m.Categories[i]
}

// anotherQueue discards what was learned about the previous queue. Initialisation times do not depend on the queue.
func (m *Memory) anotherQueue(id QueueID) {
	m.Queue, m.Categories, m.last = id, nil, lastReading{}
	for name, p := range m.pods {
		p.idleSince = time.Time{}
		m.pods[name] = p
	}
}
