package decide

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
)

// Memory is what is known from before. The zero value knows nothing. [Decide] changes
// nothing in the one that it is given.
type Memory struct {
	// Queue is the one that was read last.
	Queue QueueID
	// SilentSince is when the manager first did not answer, after it last did; zero while it
	// does.
	SilentSince time.Time
	// GoneSince is since when each attempt has found it [Gone]; zero if the last one has not.
	GoneSince time.Time
	// Resized is when workers were last added or drained.
	Resized time.Time
	// Categories are by name, InitTimes by flavor, both in that order.
	Categories []Category
	InitTimes  []InitTime

	// What follows may be lost: then one look teaches nothing, and workers count as idle
	// from now.
	last lastLook
	pods map[string]podMemory
}

// QueueID tells one queue from the next at the same address.
type QueueID struct {
	Project string
	Started time.Time
}

// Category is what is known of tasks that do the same kind of work.
type Category struct {
	Name string
	// Need is what one occupies, at most, as was seen last, and Source where that is from.
	Need   estimate.Resources
	Source NeedSource
	// Used is the most that the manager's monitor has seen one use, of those that ended; 0 of
	// what nobody has measured.
	Used estimate.Resources
	// Recent are the runtimes of those that ended last, the latest at the end; at most
	// [MaxRecent].
	Recent []time.Duration
	// Ended is how many runtimes were learned in all, and Relearned how often all before
	// the last few were forgotten because the tasks had become others.
	Ended, Relearned int64
}

// MaxRecent is how many runtimes of a category are kept.
const MaxRecent = 32

// NeedSource says where a need is from.
type NeedSource string

// Where needs are from.
const (
	// Declared is what tasks say that they need: the manager sets that aside.
	Declared NeedSource = "Declared"
	// Measured is what the manager has made of what its monitor has seen, where it was told to
	// go by that.
	Measured NeedSource = "Measured"
	// WholeWorker is what the manager gives to tasks that declare nothing.
	WholeWorker NeedSource = "WholeWorker"
)

// Mean is the mean of the recent runtimes; 0 if there is none.
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

// lastLook is what the last reading said, to tell what has changed since.
type lastLook struct {
	at       time.Time
	executed time.Duration
	done     map[string]int64 // by category
	running  map[int64]ran
}

// ran is a task that ran when it was last looked at.
type ran struct {
	category string
	since    time.Duration
}

// podMemory is what is remembered of a pod.
type podMemory struct {
	// apart says that it was once seen without its worker being connected, connected that it
	// has been since.
	apart, connected bool
	// alone is since when each look has shown that its container runs and that its worker has
	// never connected; zero while that is not so.
	alone time.Time
	// idleSince is zero for one that runs something.
	idleSince time.Time
	// seen is what the worker said it has.
	seen estimate.Resources
}

// clone returns a memory that shares nothing that is changed.
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

// category returns the one with that name, made if there is none.
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

// anotherQueue forgets what was learned of the queue before. How long workers take to come
// does not depend on it.
func (m *Memory) anotherQueue(id QueueID) {
	m.Queue, m.Categories, m.last = id, nil, lastLook{}
	for name, p := range m.pods {
		p.idleSince = time.Time{}
		m.pods[name] = p
	}
}
