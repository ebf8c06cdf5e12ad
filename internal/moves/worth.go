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

// costs is what keeping the changed nodes for their new pods costs, in
// micro-dollars. Nodes with a service stay anyway.
func (r *round) costs(changed map[int]room) int64 {
	var sum int64
	for at, after := range changed {
		n, before := after.node, r.rooms[at]
		if n.Has(class.Service) {
			continue
		}
		price := func(remaining time.Duration) int64 {
			return cluster.Bill(n.MicroDollarsPerHour, n.Age+remaining+r.state.Release, r.state.BillingPeriod)
		}
		sum += price(after.Remaining) - price(before.Remaining)
	}
	return sum
}
