package status

import (
	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// Summary is the totals of the cluster. Prices are in dollars per hour.
type Summary struct {
	Nodes int `json:"nodes"`
	Ready int `json:"ready"`
	// Empty is the number of nodes without pods other than system pods.
	Empty int `json:"empty"`
	// Pods is the number of pods on the listed nodes, Lost of those on other nodes, which may not exist, and Pending is the
	// number of pods without a node.
	Pods    int `json:"pods"`
	Lost    int `json:"lost"`
	Pending int `json:"pending"`
	// CPU and Memory are the requested shares of all nodes, from 0 to 1.
	CPU    float64 `json:"requestedCPU"`
	Memory float64 `json:"requestedMemory"`
	// Dollars is the current price of the Priced nodes.
	Dollars float64 `json:"dollars"`
	// DollarsPerMonth is Dollars for the mean number of hours in a month.
	DollarsPerMonth float64 `json:"dollarsPerMonth"`
	Priced          int     `json:"priced"`
	// Watts is the current modelled power of the Powered nodes.
	Watts   float64 `json:"watts"`
	Powered int     `json:"powered"`
	// CycleSeconds is the width of a time bin.
	CycleSeconds float64   `json:"cycleSeconds"`
	Audit        *Audit    `json:"audit,omitempty"`
	Says         Sentences `json:"says"`
}

// Audit is what the same pods could cost, as in `supercargo audit`.
type Audit struct {
	// At is the time of the audit, in seconds since 1970, and Took is its duration.
	At   int64   `json:"at"`
	Took float64 `json:"tookSeconds"`
	// Now is the bill at that time, Moved is the bill after moves alone, Homogeneous is the cheapest
	// bill with machines of one instance type, nil if there is none, Cheapest is the bill of the
	// cheapest machines found, and Bound is a lower bound for any machines for the pods.
	Now         Bill    `json:"now"`
	Moved       Bill    `json:"moved"`
	Homogeneous *Bill   `json:"homogeneous,omitempty"`
	Cheapest    Bill    `json:"cheapest"`
	Bound       float64 `json:"bound"`
	// BoundPerMonth is Bound in dollars per month.
	BoundPerMonth float64 `json:"boundPerMonth"`
	// BoundWatts is a lower bound of the modelled power of any machines of types whose power is known
	// if pods use the CPU that they request; nil if there is no such type. It is a bound of its own: the
	// machines of Bound may draw more.
	BoundWatts *float64 `json:"boundWatts,omitempty"`
	// Changed reports whether Now is no longer what the cluster costs.
	Changed bool `json:"changed,omitempty"`
	// Source describes the prices of machines for sale.
	Source string `json:"source"`
	// Notes are sentences about assumptions and omissions. Unsold is that of them which says why no machine is for sale;
	// empty if one is.
	Notes  []string `json:"notes,omitempty"`
	Unsold string   `json:"-"`
	// Error is why there are no newer figures.
	Error string `json:"error,omitempty"`
	// Result is what the other figures are computed from; nil before the first audit that succeeds. Sizes is the CPU
	// of the largest machine of each instance type that exists or is for sale, in milli-CPU.
	Result *audit.Result    `json:"-"`
	Sizes  map[string]int64 `json:"-"`
}

// Bill is what machines for the pods cost, in dollars per hour.
type Bill struct {
	Dollars         float64 `json:"dollars"`
	DollarsPerMonth float64 `json:"dollarsPerMonth"`
	Nodes           int     `json:"nodes"`
	// Watts is the modelled power of the machines if pods use the CPU that they request, and each
	// machine has the same share of it; nil if the power of an instance type is unknown.
	Watts *float64 `json:"watts,omitempty"`
}

// powered returns the audit with the figures of its result, and the power of machines.
func (a *Audit) powered(p power) *Audit {
	if a == nil || a.Result == nil {
		return a
	}
	of, r := *a, a.Result
	bill := func(b *audit.Bill) Bill {
		return Bill{b.PerHour.Dollars(), b.PerMonth.Dollars(), b.Nodes, p.ofBill(b, audit.Share(r.MilliCPU, b.MilliCPU))}
	}
	of.Now, of.Moved, of.Cheapest = bill(&r.Now), bill(&r.Moved), bill(&r.Cheapest)
	if r.Homogeneous != nil {
		of.Homogeneous = new(bill(r.Homogeneous))
	}
	of.Bound, of.BoundPerMonth = r.Bound.Dollars(), (audit.HoursPerMonth * r.Bound).Dollars()
	of.BoundWatts, of.Source, of.Notes, of.Unsold = p.least(r.MilliCPU, a.Sizes), r.Source, r.Notes, r.Unsold
	return &of
}

// summary computes the totals of a page.
func summary(s *Snapshot, p *Page) Summary {
	sum := Summary{Nodes: len(p.Nodes), CycleSeconds: s.Cycle.Seconds(), Audit: s.Audit.powered(newPower(s.Profiles))}
	var cpu, memory, requestedCPU, requestedMemory int64
	for i := range p.Nodes {
		n := &p.Nodes[i]
		cpu, memory = cpu+n.MilliCPU, memory+n.Memory
		requestedCPU, requestedMemory = requestedCPU+n.RequestedMilliCPU, requestedMemory+n.RequestedMemory
		sum.addNode(n)
	}
	sum.DollarsPerMonth = audit.HoursPerMonth * sum.Dollars
	sum.CPU, sum.Memory = audit.Share(requestedCPU, cpu), audit.Share(requestedMemory, memory)
	sum.countOthers(s)
	if sum.Audit != nil {
		with := *sum.Audit
		with.Changed = sum.changedSince(&with)
		sum.Audit = &with
	}
	sum.Says = sum.sentences(s.Prices != nil, !s.NoAudits)
	return sum
}

func (s *Summary) addNode(n *Node) {
	s.Pods += len(n.Pods) + n.MorePods
	if n.Ready {
		s.Ready++
	}
	if n.Bin == 0 && !hasWork(n) {
		s.Empty++
	}
	if n.Dollars != nil {
		s.Dollars += *n.Dollars
		s.Priced++
	}
	if n.Watts != nil {
		s.Watts += *n.Watts
		s.Powered++
	}
}

// hasWork reports whether a node has a pod that is not a system pod.
func hasWork(n *Node) bool { return len(n.Pods) > 0 && n.Pods[0].Class != system }

// countOthers counts the pods that are on none of the listed nodes.
func (s *Summary) countOthers(of *Snapshot) {
	listed := make(map[string]bool, len(of.Nodes))
	for _, node := range of.Nodes {
		listed[node.Name] = true
	}
	for _, pod := range of.Pods {
		switch {
		case class.Ended(pod):
		case pod.Spec.NodeName == "":
			s.Pending++
		case !listed[pod.Spec.NodeName]:
			s.Lost++
		}
	}
}
