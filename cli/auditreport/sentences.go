package auditreport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/plural"
)

// headline says how many nodes are priced, and what these cost.
func headline(d *audit.Result) string {
	all := plural.Count(d.Nodes, "node")
	cost := fmt.Sprintf("$%s an hour, $%s a month", cents(d.Now.PerHour), whole(d.Now.PerMonth))
	switch left := d.Nodes - d.PricedNodes; {
	case d.Nodes == 0:
		return "The cluster has no nodes."
	case d.PricedNodes == 0:
		return fmt.Sprintf("0 of %s priced: what the cluster costs is unknown.", all)
	case left == 0 && d.Nodes == 1:
		return fmt.Sprintf("The only node is priced: the cluster costs %s, and runs %s.", cost, plural.Count(d.Pods, "pod"))
	case left == 0 && d.Nodes == 2:
		return fmt.Sprintf("Both nodes priced: the cluster costs %s, and runs %s.", cost, plural.Count(d.Pods, "pod"))
	case left == 0:
		return fmt.Sprintf("All %s priced: the cluster costs %s, and runs %s.", all, cost, plural.Count(d.Pods, "pod"))
	default:
		return fmt.Sprintf("%d of %s priced: %s %s, and %s %d of %s. No sum includes the other %s.",
			d.PricedNodes, all, plural.Form(d.PricedNodes, "it costs", "they cost"), cost, plural.Form(d.PricedNodes, "runs", "run"), d.PricedPods,
			plural.Count(d.Pods, "pod"), plural.Form(left, "node", fmt.Sprintf("%d nodes", left)))
	}
}

// findings says what the same pods could cost.
func findings(d *audit.Result) string {
	if d.PricedNodes == 0 {
		return ""
	}
	all := []string{"No cheaper machines were found for the same pods."}
	if d.Cheapest.PerHour < d.Now.PerHour {
		all[0] = fmt.Sprintf("The same pods fit on machines that cost %s less; no machines for sale cost less than $%s an hour.",
			below(d, d.Cheapest.PerHour), cents(d.Bound))
	}
	if d.Moved.PerHour < d.Now.PerHour {
		all = append(all, fmt.Sprintf("%s saves %s.", releasing(d), below(d, d.Moved.PerHour)))
	}
	return strings.Join(all, " ")
}

// releasing names the moves and the releases, as the beginning of a sentence.
func releasing(d *audit.Result) string {
	if d.Moves == 0 {
		return "Releasing " + plural.Count(len(d.Emptied), "empty node")
	}
	return fmt.Sprintf("Moving %s and releasing %s", plural.Count(d.Moves, "pod"), plural.Count(len(d.Emptied), "node"))
}

// released says what happens by moves alone.
func released(d *audit.Result) string {
	n := len(d.Emptied)
	switch {
	case n == 0:
		return "no node to release was found"
	case d.Moves == 0:
		return fmt.Sprintf("%s %s released", plural.Count(n, "empty node"), plural.Form(n, "is", "are"))
	}
	return fmt.Sprintf("%s %s, %s %s released", plural.Count(d.Moves, "pod"), plural.Form(d.Moves, "moves", "move"), plural.Count(n, "node"), plural.Form(n, "is", "are"))
}

// unhindered says that no obstacle was found; empty if there are some, or nothing is priced. A pod may stay on its node
// although no obstacle is listed, because of something that users do not remove, such as a device that it uses.
func unhindered(d *audit.Result) string {
	switch {
	case len(d.Obstacles) > 0 || d.PricedNodes == 0:
		return ""
	case d.HeldPods > 0:
		return fmt.Sprintf("No obstacle that can be removed was found; %s may not be moved for other reasons.", plural.Count(d.HeldPods, "pod"))
	}
	return "No pod has a demand that prevents a lower bill."
}

// unshown says how many obstacles a page leaves out; empty if it shows all.
func unshown(d *audit.Result) string {
	if left := len(d.Obstacles) - mostShown; left > 0 {
		return fmt.Sprintf("and %d more, which -o json lists", left)
	}
	return ""
}

// saves returns the reduction of the bill without an obstacle. The price of the nodes of its pods is no upper limit: if
// a pod leaves a cheap node, that node may receive the pods of an expensive one.
func saves(o *audit.Cost) string {
	const cent = 10_000 // micro-dollars
	switch {
	case o.SavesPerHour == nil:
		return fmt.Sprintf("not computed; its nodes cost $%s an hour", cents(o.NodesPerHour))
	case *o.SavesPerHour == 0:
		return "no saving found"
	case *o.SavesPerHour < cent:
		return "saves less than $0.01 an hour"
	}
	return fmt.Sprintf("saves $%s an hour", cents(*o.SavesPerHour))
}

// means says how the bill would be reduced.
func means(o *audit.Cost) string {
	if o.Lowers == audit.LowersMoved {
		return "moving pods"
	}
	return "other machines"
}

// unpricedNodes and stayingNodes are the headings of lists of nodes.
func unpricedNodes(n int) string {
	return fmt.Sprintf("%s %s no known price, and no sum includes %s", plural.Count(n, "node"), plural.Form(n, "has", "have"), plural.Form(n, "it", "them"))
}

func stayingNodes(n int) string {
	return fmt.Sprintf("%s %s in every plan of machines to buy", plural.Count(n, "node"), plural.Form(n, "stays", "stay"))
}

// stopped is the note about the time limit.
const stopped = "The time limit was reached before the audit was complete."

// rule says how the bill is divided.
const rule = "Half of a node's price is divided by requested CPU and half by requested memory; what no pod requests is idle."

// utilization says how much of the priced nodes is requested and used.
func utilization(d *audit.Result) string {
	if d.PricedNodes == 0 {
		return ""
	}
	r := d.Requested
	text := fmt.Sprintf("Requested: %s of CPU, %s of memory, %s of pods.", percent(r.CPU), percent(r.Memory), percent(r.Pods))
	if d.Used == nil {
		return text + " Usage is unknown: no measurements of these nodes were read."
	}
	text += fmt.Sprintf(" Used: %s of CPU, %s of memory", percent(d.Used.CPU), percent(d.Used.Memory))
	if d.Used.Nodes < d.PricedNodes {
		text += fmt.Sprintf(" (of %s that %s measured)", plural.Count(d.Used.Nodes, "node"), plural.Form(d.Used.Nodes, "is", "are"))
	}
	return text + "."
}

// row is one line of the bills.
type row struct {
	Name string
	audit.Bill
	// Saves is the reduction against the present bill.
	Saves string
	What  string
}

// rows returns the bills; none if nothing is priced.
func rows(d *audit.Result) []row {
	if d.PricedNodes == 0 {
		return nil
	}
	all := []row{
		{"now", d.Now, "", machinesOf(d.Now.Machines)},
		{"by moving pods alone", d.Moved, below(d, d.Moved.PerHour), released(d)},
	}
	if d.Homogeneous != nil {
		one := "on machines of one type"
		if len(d.Staying) > 0 {
			one = "with bought machines of one type"
		}
		all = append(all, row{one, *d.Homogeneous, below(d, d.Homogeneous.PerHour), machinesOf(d.Homogeneous.Machines)})
	}
	bound := audit.Bill{PerHour: d.Bound, PerMonth: audit.HoursPerMonth * d.Bound}
	return append(all,
		row{"on the cheapest machines found", d.Cheapest, below(d, d.Cheapest.PerHour), machinesOf(d.Cheapest.Machines)},
		row{"lower bound of any machines", bound, below(d, d.Bound), ""},
	)
}

// below returns by how much a bill is lower than the present one; empty if that is 0.
func below(d *audit.Result, perHour dollars.Amount) string {
	if d.Now.PerHour <= 0 {
		return ""
	}
	share := 100 * (1 - perHour.Dollars()/d.Now.PerHour.Dollars())
	if share < 0 {
		return fmt.Sprintf("%.1f %% more", -share)
	}
	return fmt.Sprintf("%.1f %%", share)
}

// The maximum number of instance types that a line names.
const mostMachines = 6

// machinesOf names the machines with the highest total price.
func machinesOf(all []audit.Count) string {
	spent := slices.Clone(all)
	slices.SortStableFunc(spent, func(x, y audit.Count) int {
		return cmp.Compare(dollars.Amount(y.Count)*y.PricePerHour, dollars.Amount(x.Count)*x.PricePerHour)
	})
	prices := map[string]int{}
	for _, c := range spent {
		prices[sold(c.InstanceType, c.CapacityType)]++
	}
	var names []string
	for _, c := range spent[:min(len(spent), mostMachines)] {
		name := sold(c.InstanceType, c.CapacityType)
		if prices[name] > 1 {
			name += " at $" + mills(c.PricePerHour)
		}
		names = append(names, fmt.Sprintf("%d %s", c.Count, name))
	}
	if len(spent) > mostMachines {
		others := 0 // machines, as the other items count
		for _, c := range spent[mostMachines:] {
			others += c.Count
		}
		names = append(names, plural.Count(others, "other"))
	}
	return strings.Join(names, ", ")
}

// sold names an instance type, and its capacity type unless that is on demand.
func sold(instanceType, capacityType string) string {
	name := named(instanceType)
	if capacityType != "" && capacityType != audit.OnDemand {
		name += " " + capacityType
	}
	return name
}

func named(instanceType string) string { return cmp.Or(instanceType, "(unknown)") }

// partName names a part of the bill. Pods without the label and those whose label is empty are one part.
func partName(name string) string { return cmp.Or(name, "(no value)") }

// The names of the rows below the parts of the bill.
const (
	idleRoom = "idle: requested by no pod"
	inTotal  = "in total"
)

// share returns the share of an amount in the present bill.
func share(d *audit.Result, a dollars.Amount) string {
	if d.Now.PerHour <= 0 {
		return "-"
	}
	return percent(a.Dollars() / d.Now.PerHour.Dollars())
}

// elsewhere says how many pods of a part are on nodes without a price; empty if none is.
func elsewhere(p *audit.Part) string {
	if p.UnpricedPods == 0 {
		return ""
	}
	return fmt.Sprintf("and %s on nodes without a price", plural.Count(p.UnpricedPods, "pod"))
}

func cents(a dollars.Amount) string { return fmt.Sprintf("%.2f", a.Dollars()) }
func whole(a dollars.Amount) string { return fmt.Sprintf("%.0f", a.Dollars()) }
func percent(v float64) string      { return fmt.Sprintf("%.0f %%", 100*v) }

// mills formats an amount in tenths of a cent. An amount that is less and not 0 does not look free.
func mills(a dollars.Amount) string {
	if a > 0 && a < 500 {
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", a.Dollars())
}
