package auditreport

import (
	"time"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// Document is the JSON of a result: its fields, and those under the names that scripts read. Money is in dollars.
// Fields may be added but never renamed.
type Document struct {
	*audit.Result
	DollarsPerHour dollars.Amount `json:"dollarsPerHour"`
	Now            bill           `json:"now"`
	Moved          bill           `json:"moved"`
	Homogeneous    *bill          `json:"homogeneous,omitempty"`
	Cheapest       cheapest       `json:"cheapest"`
	ByMoves        byMoves        `json:"byMoves"`
	Obstacles      []obstacle     `json:"obstacles"`
	WorstNodes     []worstNode    `json:"worstNodes"`
	UnpricedNodes  []unpricedNode `json:"unpricedNodes"`
	ElapsedMillis  int64          `json:"elapsedMillis"`
}

// bill is a bill whose machines have their flavor.
type bill struct {
	audit.Bill
	Machines []machine `json:"machines"`
}

type machine struct {
	Flavor string `json:"flavor"`
	audit.Count
}

type cheapest struct {
	bill
	DollarsPerHour    dollars.Amount `json:"dollarsPerHour"`
	LowerBoundPerHour dollars.Amount `json:"lowerBoundPerHour"`
}

type byMoves struct {
	DollarsPerHour dollars.Amount `json:"dollarsPerHour"`
	Moves          int            `json:"moves"`
	Emptied        []string       `json:"emptied"`
}

// obstacle is an obstacle with what its removal saves; without that if it was not computed.
type obstacle struct {
	audit.Cost
	Object         string          `json:"object"`
	DollarsPerHour *dollars.Amount `json:"dollarsPerHour,omitempty"`
}

type worstNode struct {
	audit.Worst
	DollarsPerHour dollars.Amount `json:"dollarsPerHour"`
	EmptiedBy      string         `json:"emptiedBy"`
}

type unpricedNode struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// DocumentOf returns the document of a result that took the given time; 0 leaves it out of account.
func DocumentOf(d *audit.Result, took time.Duration) Document {
	all := Document{
		Result: d, DollarsPerHour: d.Now.PerHour, Now: billOf(d.Now), Moved: billOf(d.Moved),
		Cheapest: cheapest{billOf(d.Cheapest), d.Cheapest.PerHour, d.Bound}, ByMoves: byMoves{d.Moved.PerHour, d.Moves, d.Emptied},
		ElapsedMillis: took.Milliseconds(),
	}
	if d.Homogeneous != nil {
		all.Homogeneous = new(billOf(*d.Homogeneous))
	}
	for _, o := range d.Obstacles {
		all.Obstacles = append(all.Obstacles, obstacle{o, o.Subject, o.SavesPerHour})
	}
	for _, n := range d.Worst {
		all.WorstNodes = append(all.WorstNodes, worstNode{n, n.PerHour, n.Remedy})
	}
	for _, n := range d.Unpriced {
		all.UnpricedNodes = append(all.UnpricedNodes, unpricedNode{n.Node, n.Reason})
	}
	all.Obstacles, all.WorstNodes, all.UnpricedNodes = jsondoc.List(all.Obstacles), jsondoc.List(all.WorstNodes), jsondoc.List(all.UnpricedNodes)
	return all
}

func billOf(b audit.Bill) bill {
	all := bill{Bill: b, Machines: []machine{}}
	for _, c := range b.Machines {
		all.Machines = append(all.Machines, machine{c.InstanceType, c})
	}
	return all
}
