package workerdecide

import (
	"fmt"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/text/plural"
)

// shun marks the flavors whose pods have had no node for patience initialisation times, unless all flavors would be
// unavailable then: no machines of it are available, whether or not the NodeFleet knows it. flavors is changed.
func (m *Memory) shun(c *Config, flavors []Flavor, pods []Pod, now time.Time) {
	shunned := slices.Clone(flavors)
	available := false
	for i := range shunned {
		f := &shunned[i]
		n := 0
		for j := range pods {
			if p := &pods[j]; p.Flavor == f.Name && m.waits(p) && now.Sub(p.Asked) >= patience*m.initTime(c, p.Flavor) {
				n++
			}
		}
		if n > 0 && f.Trouble == "" {
			f.Trouble = fmt.Sprintf("%s had no node for a long time", plural.Form(n, "1 worker of it has", fmt.Sprintf("%d workers of it have", n)))
		}
		available = available || f.Trouble == ""
	}
	if available {
		copy(flavors, shunned)
	}
}

// unplaced returns the workers that wait for a node of a flavor that is not available, longer than a worker takes,
// while another flavor is chosen. They are not expected to come.
func (m *Memory) unplaced(c *Config, chosen *Flavor, flavors []Flavor, pods []Pod, now time.Time) (names []string) {
	for i := range pods {
		p := &pods[i]
		k := slices.IndexFunc(flavors, func(f Flavor) bool { return f.Name == p.Flavor })
		gone := k < 0 || flavors[k].Trouble != ""
		if m.waits(p) && gone && p.Flavor != chosen.Name && now.Sub(p.Asked) >= m.initTime(c, p.Flavor) {
			names = append(names, p.Name)
		}
	}
	return names
}

// waits reports whether a pod waits for a node.
func (m *Memory) waits(p *Pod) bool {
	return !p.Leaving && p.Scheduled.IsZero() && p.Started.IsZero() && !m.pods[p.Name].connected
}
