// Package auditreport prints the results of `supercargo audit` as a table that fits one screen and
// as an HTML page. [Document] is the form printed as JSON and YAML.
package auditreport

import (
	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/auditor"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// hoursPerMonth is the mean number of hours in a month, as sellers count: 365 · 24 / 12.
const hoursPerMonth = 730

// Document is an audit as JSON. Money is in dollars. Scripts read it: fields may be added but never
// renamed.
type Document struct {
	// Source names the source of the machine prices. Notes lists what was assumed or left out.
	Source string   `json:"source"`
	Notes  []string `json:"notes"`
	// Now, Moved, Homogeneous and Cheapest are bills of the same pods: on the present nodes, after
	// moves alone, on the cheapest machines of one instance type, and on the cheapest machines
	// found. Homogeneous is nil if no instance type holds all pods. LowerBoundPerHour is a lower
	// bound on the price of any machines that hold the pods.
	Now               Bill    `json:"now"`
	Moved             Bill    `json:"moved"`
	Homogeneous       *Bill   `json:"homogeneous,omitempty"`
	Cheapest          Bill    `json:"cheapest"`
	LowerBoundPerHour float64 `json:"lowerBoundPerHour"`
	// Moves is the number of pods that move for Moved. Emptied lists the nodes that this removes.
	Moves   int      `json:"moves"`
	Emptied []string `json:"emptied"`
	// Pods is the number of pods in the bills, without those of DaemonSets and static pods. Pending
	// is the number of pods without a node.
	Pods    int `json:"pods"`
	Pending int `json:"pending"`
	// Requested is the share of the priced nodes that pods request. Used is the share in use, or
	// nil if there are no usage metrics.
	Requested Shares  `json:"requested"`
	Used      *Shares `json:"used,omitempty"`
	// Unpriced are the nodes in no bill. Staying are the nodes in every bill.
	Unpriced []Stay `json:"unpriced"`
	Staying  []Stay `json:"staying"`
	// Obstacles are ordered by their cost, Worst by the price of the idle part.
	Obstacles []Obstacle `json:"obstacles"`
	Worst     []Worst    `json:"worst"`
	// Incomplete is set if the time limit expired before the audit was complete.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Bill is the price of a set of machines.
type Bill struct {
	PerHour  float64 `json:"perHour"`
	PerMonth float64 `json:"perMonth"`
	Nodes    int     `json:"nodes"`
	// Machines are ordered by instance type.
	Machines []Count `json:"machines"`
}

// Count is a number of identical machines.
type Count struct {
	InstanceType string `json:"instanceType"`
	Count        int    `json:"count"`
	// PricePerHour is the price of one machine.
	PricePerHour float64 `json:"pricePerHour"`
}

// Shares are fractions of the total, from 0 to 1. Pods is 0 for usage.
type Shares struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	Pods   float64 `json:"pods,omitempty"`
	// Nodes is the number of nodes counted.
	Nodes int `json:"nodes"`
}

// Stay is a node that is in no bill or in every bill, and the reason.
type Stay struct {
	Node         string `json:"node"`
	InstanceType string `json:"instanceType,omitempty"`
	Reason       string `json:"reason"`
}

// Obstacle is a constraint and its cost.
type Obstacle struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	Advice  string `json:"advice"`
	Pods    int    `json:"pods"`
	Nodes   int    `json:"nodes"`
	// NodesPerHour is the price of the nodes that run the pods.
	NodesPerHour float64 `json:"nodesPerHour"`
	// Lowers names the bill that is lower without the constraint: moved or cheapest. SavesPerHour
	// is the difference, or nil if it was not computed.
	Lowers       string   `json:"lowers"`
	SavesPerHour *float64 `json:"savesPerHour,omitempty"`
}

// Worst is a node with low use for its price.
type Worst struct {
	Node         string  `json:"node"`
	InstanceType string  `json:"instanceType,omitempty"`
	PerHour      float64 `json:"perHour"`
	// IdlePerHour is the price of the part that no pod requests.
	IdlePerHour float64 `json:"idlePerHour"`
	Requested   Shares  `json:"requested"`
	Used        *Shares `json:"used,omitempty"`
	Pods        int     `json:"pods"`
	// Emptied is set if moves alone empty the node. Remedy says what would empty it.
	Emptied bool   `json:"emptied"`
	Remedy  string `json:"remedy"`
}

// NewDocument converts a result to its printed form.
func NewDocument(o *auditor.Observation, r *audit.Result) *Document {
	d := &Document{
		Source: o.Source, Notes: jsondoc.List(o.Notes), Now: billOf(&r.Now), Moved: billOf(&r.Moved), Cheapest: billOf(&r.Cheapest),
		LowerBoundPerHour: dollars.Of(r.Bound), Moves: r.Moves, Emptied: jsondoc.List(r.Emptied), Pods: r.Pods, Pending: r.Pending,
		Unpriced: staysOf(r.Unpriced), Staying: staysOf(r.Staying), Obstacles: []Obstacle{}, Worst: []Worst{}, Incomplete: r.Stopped,
	}
	if r.Homogeneous != nil {
		d.Homogeneous = new(billOf(r.Homogeneous))
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
