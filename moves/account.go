package moves

import (
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

// account is the result of an exchange in micro-dollars: see [Exchange].
type account struct {
	saves, costs int64
	// paid is what the old machines would still cost.
	paid int64
}

func (a account) gain() int64 { return a.saves - a.costs }

func (x *exchanger) pays(a account) bool {
	return a.gain() > 0 && float64(a.gain()) > x.c.Margin*float64(a.paid)
}

// untilMoved returns how long a machine is needed for the pod if it is moved.
func (t *trial) untilMoved(pod *cluster.Pod) time.Duration { return t.cut(t.end(pod)+t.lost(pod), pod) }

// lost returns how much later a pod is expected to end because it is moved.
func (t *trial) lost(pod *cluster.Pod) time.Duration { return t.delay(pod, t.way(pod)) }

// leave returns when the last pod has left.
func (t *trial) leave() time.Duration {
	last := t.wait
	for i := range t.waiting {
		last = max(last, t.end(&t.waiting[i]))
	}
	for _, from := range t.from {
		for i := range from.node.Pods {
			p := &from.node.Pods[i]
			if t.way(p) == cluster.Migrate && !t.waits(p) {
				last = max(last, t.wait+t.takes(p, cluster.Migrate))
			}
		}
	}
	return last
}

func (t *trial) waits(p *cluster.Pod) bool {
	return slices.ContainsFunc(t.waiting, func(w cluster.Pod) bool { return w.Name == p.Name })
}

// account calculates the result of the trial if the given machines are bought.
func (t *trial) account(machines []machine) account {
	var before, after, costs, paid int64
	left := t.leave()
	for _, from := range t.from {
		n := from.node
		given := t.bill(n, left)
		before += t.bill(n, from.stay)
		after += given
		costs += given - cluster.Bill(n.MicroDollarsPerHour, n.Age+left+t.state.Release, 0)
		paid += cluster.Bill(n.MicroDollarsPerHour, from.stay, 0)
	}
	for i := range machines {
		m := &machines[i]
		price := m.flavor.MicroDollarsPerHour
		bill, repeated := t.use(&cluster.Node{MicroDollarsPerHour: price, Capacity: m.flavor.Size}, left, m.pods)
		after += bill + repeated
		costs += repeated + cluster.Bill(price, t.wait, 0)
	}
	at := map[int][]cluster.Pod{}
	for _, m := range t.moved {
		at[m.to.at] = append(at[m.to.at], m.pod)
	}
	for place, pods := range at {
		was := t.saved[place]
		bill, repeated := t.use(was.node, was.stay, pods)
		before += t.bill(was.node, was.stay)
		after += bill + repeated
		costs += repeated
	}
	return account{saves: before - after + costs, costs: costs, paid: paid}
}

// bill returns what a node costs that is needed for the given time from now.
func (r *round) bill(n *cluster.Node, stay time.Duration) int64 {
	return cluster.Bill(n.MicroDollarsPerHour, n.Age+stay+r.state.Release, r.state.BillingPeriod)
}

// use returns what a node costs that is needed for stay anyway and receives the pods, as if moving them took no time,
// and the extra cost of that time.
func (t *trial) use(n *cluster.Node, stay time.Duration, pods []cluster.Pod) (bill, repeated int64) {
	needed, shares := stay, int64(0)
	for i := range pods {
		p := &pods[i]
		needed, stay = max(needed, t.untilMoved(p)), max(stay, t.until(p))
		shares += shareOf(n, p.Size, t.lost(p))
	}
	bill = t.bill(n, stay)
	return bill, max(t.bill(n, needed)-bill, shares)
}

// shareOf returns the price of a share of a node for a time. The share is the greater of the shares of CPU and memory.
func shareOf(n *cluster.Node, size packing.Size, d time.Duration) int64 {
	part := max(share(size.MilliCPU, n.Capacity.MilliCPU), share(size.MemoryBytes, n.Capacity.MemoryBytes))
	return int64(math.Ceil(part * float64(cluster.Bill(n.MicroDollarsPerHour, d, 0))))
}

// leastPrice returns a lower bound in micro-dollars on the price of machines for the pods without room: each pod needs
// a machine for as long as it runs, and all pods together pay for their requests at the best rate. possible is false if
// a pod fits no flavor.
func (t *trial) leastPrice(flavors []cluster.Flavor) (least int64, possible bool) {
	cpuRate, memoryRate := math.Inf(1), math.Inf(1)
	for i := range flavors {
		price := float64(flavors[i].MicroDollarsPerHour)
		cpuRate = min(cpuRate, price/max(1, float64(flavors[i].Size.MilliCPU)))
		memoryRate = min(memoryRate, price/max(1, float64(flavors[i].Size.MemoryBytes)))
	}
	var cpu, memory float64
	for i := range t.left {
		p := &t.left[i]
		hours := t.until(p).Hours()
		cpu += float64(p.Size.MilliCPU) * hours
		memory += float64(p.Size.MemoryBytes) * hours
		cheapest := int64(-1)
		for j := range flavors {
			f := &flavors[j]
			n := cluster.Node{Class: class.Any, Arch: f.Arch, Host: f.Host}
			if p.Size.Fits(f.Size) && (cheapest < 0 || f.MicroDollarsPerHour < cheapest) && n.Suits(p) {
				cheapest = f.MicroDollarsPerHour
			}
		}
		if cheapest < 0 {
			return 0, false
		}
		least = max(least, cluster.Bill(cheapest, t.until(p)+t.state.Release, t.state.BillingPeriod))
	}
	if len(t.left) > 0 {
		// Allow for rounding errors.
		least = max(least, int64(max(cpu*cpuRate, memory*memoryRate)*(1-1e-9))-1)
	}
	return least, true
}
