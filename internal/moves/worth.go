package moves

import (
	"time"

	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/cluster"
)

// saves is what giving the node back once its pods have moved saves against
// keeping it until they have ended, in micro-dollars.
func (r *round) saves(n *cluster.Node) int64 {
	var moved time.Duration
	if r.config.Method == cluster.Migrate { // evicted pods are gone at once
		for i := range n.Pods {
			moved = max(moved, r.state.Migration.Time(n.Pods[i].Size.MemoryBytes))
		}
	}
	later := cluster.Bill(n.MicroDollarsPerHour, n.Age+n.Remaining()+r.state.Release, r.state.BillingPeriod)
	sooner := cluster.Bill(n.MicroDollarsPerHour, n.Age+moved+r.state.Release, r.state.BillingPeriod)
	return later - sooner
}

// costs is what keeping the nodes with new pods for these costs, in micro-dollars.
// Nodes with a service, and those that are kept, stay anyway.
func (t *trial) costs() int64 {
	var sum int64
	for _, before := range t.saved {
		n := before.node
		if n.Kept || n.Has(class.Service) {
			continue
		}
		price := func(remaining time.Duration) int64 {
			return cluster.Bill(n.MicroDollarsPerHour, n.Age+remaining+t.state.Release, t.state.BillingPeriod)
		}
		sum += price(t.byName[n.Name].Remaining) - price(before.Remaining)
	}
	return sum
}
