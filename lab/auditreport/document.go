// Package auditreport prints what `supercargo audit` finds: as a table on one screen and as one page of HTML.
// Its [Document] is what is printed as JSON and YAML.
package auditreport

import (
	"supercargo.dev/supercargo/autoscaler/audit"
	"supercargo.dev/supercargo/autoscaler/auditor"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// hoursPerMonth is how many hours a month has on average, as sellers count: 365 · 24 / 12.
const hoursPerMonth = 730

// Document is an audit as JSON. Money is in dollars. Scripts read it: fields may be added and never
// renamed.
type Document struct {
	// Source says which prices machines are bought at, Notes what was assumed or left out.
	Source string   `json:"source"`
	Notes  []string `json:"notes"`
	// Now, Moved and Cheapest are bills of the same pods: as it is, after moves alone, and on the cheapest
	// machines found. LowerBoundPerHour is what any machines cost that hold the pods.
	Now               Bill    `json:"now"`
	Moved             Bill    `json:"moved"`
	Cheapest          Bill    `json:"cheapest"`
	LowerBoundPerHour float64 `json:"lowerBoundPerHour"`
	// Moves is how many pods move for Moved, Emptied which nodes go.
	Moves   int      `json:"moves"`
	Emptied []string `json:"emptied"`
	// Pods is how many pods are in the bills, those of DaemonSets and static ones left out, and Pending how
	// many have no node.
	Pods    int `json:"pods"`
	Pending int `json:"pending"`
	// Requested are the shares of the priced nodes that pods request; Used those that are used, nil where
	// nobody measures.
	Requested Shares  `json:"requested"`
	Used      *Shares `json:"used,omitempty"`
	// Unpriced are nodes in no bill, and Staying those that are in each.
	Unpriced []Stay `json:"unpriced"`
	Staying  []Stay `json:"staying"`
	// Obstacles are ordered by what they cost, Worst by what is paid for what is idle.
	Obstacles []Obstacle `json:"obstacles"`
	Worst     []Worst    `json:"worst"`
	// Incomplete says that the time was up before all was looked at.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Bill is a number of machines.
type Bill struct {
	PerHour  float64 `json:"perHour"`
	PerMonth float64 `json:"perMonth"`
	Nodes    int     `json:"nodes"`
	// Machines are ordered by instance type.
	Machines []Count `json:"machines"`
}

// Count is a number of equal machines.
type Count struct {
	InstanceType string `json:"instanceType"`
	Count        int    `json:"count"`
	// PricePerHour is that of one machine.
	PricePerHour float64 `json:"pricePerHour"`
}

// Shares are parts of what there is, from 0 to 1. Pods is 0 of what is used.
type Shares struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	Pods   float64 `json:"pods,omitempty"`
	// Nodes is how many nodes are counted.
	Nodes int `json:"nodes"`
}

// Stay is a node and why it is in no bill, or in each.
type Stay struct {
	Node         string `json:"node"`
	InstanceType string `json:"instanceType,omitempty"`
	Reason       string `json:"reason"`
}

// Obstacle is a demand and what it costs.
type Obstacle struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	Advice  string `json:"advice"`
	Pods    int    `json:"pods"`
	Nodes   int    `json:"nodes"`
	// NodesPerHour is what the nodes cost on which the pods are.
	NodesPerHour float64 `json:"nodesPerHour"`
	// Lowers is the bill that would be lower without it: moved or cheapest. SavesPerHour is by how much;
	// nil where that was not worked out.
	Lowers       string   `json:"lowers"`
	SavesPerHour *float64 `json:"savesPerHour,omitempty"`
}

// Worst is a node that is used little for its price.
type Worst struct {
	Node         string  `json:"node"`
	InstanceType string  `json:"instanceType,omitempty"`
	PerHour      float64 `json:"perHour"`
	// IdlePerHour is what is paid for the part that nobody requests.
	IdlePerHour float64 `json:"idlePerHour"`
	Requested   Shares  `json:"requested"`
	Used        *Shares `json:"used,omitempty"`
	Pods        int     `json:"pods"`
	// Emptied says that moves alone empty it; Remedy what would.
	Emptied bool   `json:"emptied"`
	Remedy  string `json:"remedy"`
}

// NewDocument turns a result into what is printed.
func NewDocument(o *auditor.Observation, r *audit.Result) *Document {
	d := &Document{
		Source: o.Source, Notes: jsondoc.List(o.Notes), Now: billOf(&r.Now), Moved: billOf(&r.Moved), Cheapest: billOf(&r.Cheapest),
		LowerBoundPerHour: dollars.Of(r.Bound), Moves: r.Moves, Emptied: jsondoc.List(r.Emptied), Pods: r.Pods, Pending: r.Pending,
		Unpriced: staysOf(r.Unpriced), Staying: staysOf(r.Staying), Obstacles: []Obstacle{}, Worst: []Worst{}, Incomplete: r.Stopped,
	}
	f := &r.Fullness
	d.Requested = sharesOf(f.Requested, f.Whole, r.Now.Nodes())
	d.Requested.Pods = audit.Share(f.Pods, f.Places)
	if f.Measured > 0 {
		used := sharesOf(f.Used, f.MeasuredWhole, f.Measured)
		d.Used = &used
	}
	for i := range r.Obstacles {
		d.Obstacles = append(d.Obstacles, obstacleOf(&r.Obstacles[i]))
	}
	for i := range r.Worst {
		d.Worst = append(d.Worst, worstOf(&r.Worst[i]))
	}
	return d
}

func billOf(b *audit.Bill) Bill {
	bill := Bill{PerHour: dollars.Of(b.MicroDollarsPerHour), PerMonth: dollars.Of(b.MicroDollarsPerHour * hoursPerMonth), Nodes: b.Nodes(), Machines: []Count{}}
	for _, c := range b.Machines {
		bill.Machines = append(bill.Machines, Count{c.InstanceType, c.Machines, dollars.Of(c.MicroDollarsPerHour)})
	}
	return bill
}

func sharesOf(part, whole packing.Size, nodes int) Shares {
	return Shares{CPU: audit.Share(part.MilliCPU, whole.MilliCPU), Memory: audit.Share(part.MemoryBytes, whole.MemoryBytes), Nodes: nodes}
}

func staysOf(all []audit.Stay) []Stay {
	list := make([]Stay, len(all))
	for i, s := range all {
		list[i] = Stay(s)
	}
	return list
}

func obstacleOf(c *audit.Cost) Obstacle {
	o := Obstacle{Kind: c.Kind, Subject: c.Subject, Advice: c.Advice, Pods: c.Pods, Nodes: c.Nodes, NodesPerHour: dollars.Of(c.At), Lowers: "cheapest"}
	if c.ByMoving {
		o.Lowers = "moved"
	}
	if c.Known {
		o.SavesPerHour = new(dollars.Of(c.Saves))
	}
	return o
}

func worstOf(w *audit.Worst) Worst {
	n := Worst{
		Node: w.Node, InstanceType: w.InstanceType, PerHour: dollars.Of(w.MicroDollarsPerHour), IdlePerHour: dollars.Of(w.Idle),
		Requested: Shares{CPU: w.CPU, Memory: w.Memory, Nodes: 1}, Pods: w.Pods, Emptied: w.Emptied, Remedy: w.Remedy,
	}
	if w.UsedCPU >= 0 {
		n.Used = &Shares{CPU: w.UsedCPU, Memory: w.UsedMemory, Nodes: 1}
	}
	return n
}
