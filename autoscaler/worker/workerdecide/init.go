package workerdecide

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
	"supercargo.dev/supercargo/internal/runtimes"
)

// InitTime is the time from the creation of a flavor's workers until they connect: an exponentially weighted mean and
// standard deviation, and its parts.
type InitTime struct {
	Flavor          string
	Mean, Deviation time.Duration
	// Node is the mean time until the pod has a node, Image from then until the container starts, Connect from then
	// until the worker connects to the manager.
	Node, Image, Connect time.Duration
	// Samples is the number of workers that it was learned from.
	Samples int64
}

// initWindow is the approximate number of workers over which an initialisation time is averaged.
const initWindow = 16

// initTime returns the expected initialisation time of a flavor's workers.
func (m *Memory) initTime(c *Config, flavor string) time.Duration {
	for i := range m.InitTimes {
		if t := &m.InitTimes[i]; t.Flavor == flavor && t.Samples > 0 {
			return max(time.Second, t.Mean)
		}
	}
	return c.Prior
}

// learnInit adds the sample of a new worker. The first samples have equal weights, later ones 1/initWindow
// (exponentially weighted means and variance).
func (m *Memory) learnInit(flavor string, node, image, connect time.Duration) {
	i, found := slices.BinarySearchFunc(m.InitTimes, flavor, func(t InitTime, name string) int { return cmp.Compare(t.Flavor, name) })
	if !found {
		m.InitTimes = slices.Insert(m.InitTimes, i, InitTime{Flavor: flavor})
	}
	t := &m.InitTimes[i]
	towards := func(mean, deviation, sample time.Duration) (time.Duration, time.Duration) {
		m, d, _ := runtimes.AddSample(float64(mean), float64(deviation), t.Samples, initWindow, float64(sample))
		return time.Duration(m), time.Duration(d)
	}
	t.Mean, t.Deviation = towards(t.Mean, t.Deviation, node+image+connect)
	t.Node, _ = towards(t.Node, 0, node)
	t.Image, _ = towards(t.Image, 0, image)
	t.Connect, _ = towards(t.Connect, 0, connect)
	t.Samples++
}

// follow records which pods have connected workers, and learns from new ones. As in the paper, only workers that went
// through all states count: if machines are bought, these are no node, no image, and running, so a pod on an older node
// is no sample. Neither is a worker that was connected when first observed, because it may have been so for long.
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

// patience is how many initialisation times a worker may run without connecting.
const patience = 3

// unconnected returns the workers that have run for long and never connected, sorted by name. The time starts with the
// first observation of such a worker, because a worker may have connected before this process started, and no worker
// can connect while the manager is silent.
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

// arrived returns the pods whose worker is connected, or has been since this process started.
func (m *Memory) arrived(pods []Pod) (names []string) {
	for i := range pods {
		if m.pods[pods[i].Name].connected {
			names = append(names, pods[i].Name)
		}
	}
	return names
}

// silence resets how long workers have run without connecting.
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
		connected = now.Add(-ago) // measured by the manager's clock alone
	}
	node, image, connect := p.Scheduled.Sub(p.Asked), p.Started.Sub(p.Scheduled), connected.Sub(p.Started)
	if node < 0 || image < 0 {
		return // clocks disagree
	}
	m.learnInit(p.Flavor, node, image, max(0, connect))
}
