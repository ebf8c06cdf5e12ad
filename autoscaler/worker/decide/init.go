package decide

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/average"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

// InitTime is how long workers of a flavor took from being asked for to being connected: a
// mean and a standard deviation, exponentially weighted, and of what they consist.
type InitTime struct {
	Flavor          string
	Mean, Deviation time.Duration
	// Node is the mean time until there was a node, Image from then until the container
	// started, Connect from then until the manager knew the worker.
	Node, Image, Connect time.Duration
	// Samples is how many workers it was learned from.
	Samples int64
}

// initWindow is over about how many workers an initialisation time is averaged.
const initWindow = 16

// initTime is how long a worker of the flavor is expected to take.
func (m *Memory) initTime(c *Config, flavor string) time.Duration {
	for i := range m.InitTimes {
		if t := &m.InitTimes[i]; t.Flavor == flavor && t.Samples > 0 {
			return max(time.Second, t.Mean)
		}
	}
	return c.Prior
}

// learnInit notes a worker that has come. The first count alike, later ones as
// 1/initWindow (exponentially weighted means and variance).
func (m *Memory) learnInit(flavor string, node, image, connect time.Duration) {
	i, found := slices.BinarySearchFunc(m.InitTimes, flavor, func(t InitTime, name string) int { return cmp.Compare(t.Flavor, name) })
	if !found {
		m.InitTimes = slices.Insert(m.InitTimes, i, InitTime{Flavor: flavor})
	}
	t := &m.InitTimes[i]
	towards := func(mean, deviation, sample time.Duration) (time.Duration, time.Duration) {
		m, d, _ := average.Add(float64(mean), float64(deviation), t.Samples, initWindow, float64(sample))
		return time.Duration(m), time.Duration(d)
	}
	t.Mean, t.Deviation = towards(t.Mean, t.Deviation, node+image+connect)
	t.Node, _ = towards(t.Node, 0, node)
	t.Image, _ = towards(t.Image, 0, image)
	t.Connect, _ = towards(t.Connect, 0, connect)
	t.Samples++
}

// follow notes which pods have their workers connected, and learns from those that have just
// come. As in the paper only those count that went through all states: where machines are
// bought, that is no node, no image, running, and so a pod whose node is older than it tells
// nothing. One that was connected when it was first seen may have been for long.
func (m *Memory) follow(c *Config, pods []Pod, hosts map[string]*host, now time.Time) {
	kept := make(map[string]podMemory, len(pods))
	for i := range pods {
		p := &pods[i]
		mem, h := m.pods[p.Name], hosts[p.Name]
		switch {
		case h == nil && !mem.connected:
			mem.apart = true
			if mem.alone = since(mem.alone, now); p.Started.IsZero() {
				mem.alone = time.Time{}
			}
		case h != nil:
			first := !mem.connected && mem.apart
			mem.connected, mem.seen, mem.alone = true, h.total, time.Time{}
			if first && !p.Leaving {
				m.came(c, p, h.worker, now)
			}
		}
		switch {
		case h != nil && !h.idle():
			mem.idleSince = time.Time{}
		case mem.connected && mem.idleSince.IsZero():
			mem.idleSince = now
		}
		kept[p.Name] = mem
	}
	m.pods = kept
}

// patience is for how many initialisation times a worker may run without connecting.
const patience = 3

// unconnected names the workers that have run for long and never connected, in order. Whether
// one that is new to this process has connected before is not known, and a manager that is
// silent lets none connect: the time begins with the first look that shows it.
func (m *Memory) unconnected(c *Config, pods []Pod, now time.Time) (names []string) {
	for i := range pods {
		p := &pods[i]
		if alone := m.pods[p.Name].alone; !p.Leaving && !alone.IsZero() && now.Sub(alone) >= patience*m.initTime(c, p.Flavor) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// silence forgets for how long workers have run without connecting.
func (m *Memory) silence() {
	for name, p := range m.pods {
		p.alone = time.Time{}
		m.pods[name] = p
	}
}

// came learns from a worker that has just connected.
func (m *Memory) came(c *Config, p *Pod, w *answer.Worker, now time.Time) {
	if p.Asked.IsZero() || p.Scheduled.IsZero() || p.Started.IsZero() || c.Bought && !p.NodeMade.After(p.Asked) {
		return
	}
	connected := now
	if ago := w.Now.Sub(w.Started); !w.Started.IsZero() && !w.Now.IsZero() && ago > 0 {
		connected = now.Add(-ago) // by one clock, that of the manager
	}
	node, image, connect := p.Scheduled.Sub(p.Asked), p.Started.Sub(p.Scheduled), connected.Sub(p.Started)
	if node < 0 || image < 0 {
		return // clocks disagree
	}
	m.learnInit(p.Flavor, node, image, max(0, connect))
}
