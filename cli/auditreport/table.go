package auditreport

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// The maximum number of lines in each part of the table. All parts together fit on one screen.
const (
	mostObstacles = 8
	mostMachines  = 6
	mostStays     = 4
)

// WriteTable writes a result as a table for a terminal.
func WriteTable(w io.Writer, d *audit.Result) error {
	var b strings.Builder
	if err := printBills(&b, d); err != nil {
		return err
	}
	printFullness(&b, d)
	for _, part := range []func(*strings.Builder, *audit.Result) error{printObstacles, printWorst} {
		if err := part(&b, d); err != nil {
			return err
		}
	}
	printNotes(&b, d)
	_, err := io.WriteString(w, b.String())
	return err
}

// row is one line of the bills.
type row struct {
	Name string
	audit.Bill
	// Saves is the reduction against the present bill.
	Saves string
	What  string
}

// rows returns the bills.
func rows(d *audit.Result) []row {
	all := []row{
		{"now", d.Now, "", machinesOf(d.Now.Machines)},
		{"by moving pods alone", d.Moved, below(d, d.Moved.PerHour), fmt.Sprintf("%d pods move, %d nodes are released", d.Moves, len(d.Emptied))},
	}
	if d.Homogeneous != nil {
		all = append(all, row{"on machines of one type", *d.Homogeneous, below(d, d.Homogeneous.PerHour), machinesOf(d.Homogeneous.Machines)})
	}
	bound := audit.Bill{PerHour: d.Bound, PerMonth: audit.HoursPerMonth * d.Bound}
	return append(all,
		row{"on the cheapest machines found", d.Cheapest, below(d, d.Cheapest.PerHour), machinesOf(d.Cheapest.Machines)},
		row{"lower bound of any machines", bound, below(d, d.Bound), ""},
	)
}

func below(d *audit.Result, perHour dollars.Amount) string {
	if d.Now.PerHour <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*(1-perHour.Dollars()/d.Now.PerHour.Dollars()))
}

func printBills(b *strings.Builder, d *audit.Result) error {
	fmt.Fprintf(b, "%d pods on %d nodes, priced by %s\n\n", d.Pods, d.Now.Nodes, d.Source)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "THE SAME PODS\t$/HOUR\t$/MONTH\tSAVES\tNODES\tMACHINES\n")
	for _, r := range rows(d) {
		nodes := "-"
		if r.Nodes > 0 {
			nodes = fmt.Sprint(r.Nodes)
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.0f\t%s\t%s\t%s\n", r.Name, r.PerHour.Dollars(), r.PerMonth.Dollars(), cmp.Or(r.Saves, "-"), nodes, r.What)
	}
	return t.Flush()
}

// machinesOf names the machine types with the highest total price.
func machinesOf(all []audit.Count) string {
	spent := slices.Clone(all)
	slices.SortStableFunc(spent, func(x, y audit.Count) int {
		return cmp.Compare(dollars.Amount(y.Count)*y.PricePerHour, dollars.Amount(x.Count)*x.PricePerHour)
	})
	var names []string
	for _, c := range spent[:min(len(spent), mostMachines)] {
		names = append(names, fmt.Sprintf("%d %s", c.Count, cmp.Or(c.InstanceType, "(unknown)")))
	}
	if more := len(spent) - mostMachines; more > 0 {
		names = append(names, fmt.Sprintf("%d other types", more))
	}
	return strings.Join(names, ", ")
}

func printFullness(b *strings.Builder, d *audit.Result) {
	r := d.Requested
	fmt.Fprintf(b, "\nRequested: %.0f %% of CPU, %.0f %% of memory, %.0f %% of pods.", 100*r.CPU, 100*r.Memory, 100*r.Pods)
	if d.Used == nil {
		b.WriteString(" Usage is unknown: metrics-server was not queried or does not respond.\n")
		return
	}
	fmt.Fprintf(b, " Used: %.0f %% of CPU, %.0f %% of memory", 100*d.Used.CPU, 100*d.Used.Memory)
	if d.Used.Nodes < d.Now.Nodes {
		fmt.Fprintf(b, " (of %d nodes that are measured)", d.Used.Nodes)
	}
	b.WriteString(".\n")
}

func printObstacles(b *strings.Builder, d *audit.Result) error {
	if len(d.Obstacles) == 0 {
		b.WriteString("\nNothing prevents a lower bill.\n")
		return nil
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "IN THE WAY\tOF\tPODS\tNODES\t$/HOUR WITHOUT IT\tBY\n")
	for i := range d.Obstacles[:min(len(d.Obstacles), mostObstacles)] {
		o := &d.Obstacles[i]
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\n", o.Kind, o.Subject, o.Pods, o.Nodes, saves(o), means(o))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more := len(d.Obstacles) - mostObstacles; more > 0 {
		fmt.Fprintf(b, "... and %d more, which -o json lists.\n", more)
	}
	return nil
}

// saves returns the reduction of the bill in words.
func saves(o *audit.Cost) string {
	switch {
	case o.SavesPerHour == nil:
		return fmt.Sprintf("not computed, %.2f at most", o.NodesPerHour.Dollars())
	case *o.SavesPerHour == 0:
		return "no less"
	}
	return fmt.Sprintf("%.2f less", o.SavesPerHour.Dollars())
}

// means says how the bill would be reduced.
func means(o *audit.Cost) string {
	if o.Lowers == audit.LowersMoved {
		return "moving pods"
	}
	return "other machines"
}

func printWorst(b *strings.Builder, d *audit.Result) error {
	if len(d.Worst) == 0 {
		return nil
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "WORST NODES\tTYPE\t$/HOUR\tIDLE $/HOUR\tCPU\tMEMORY\tPODS\tWHAT WOULD EMPTY IT\n")
	for _, n := range d.Worst {
		fmt.Fprintf(t, "%s\t%s\t%.3f\t%.3f\t%.0f %%\t%.0f %%\t%d\t%s\n",
			n.Node, cmp.Or(n.InstanceType, "(unknown)"), n.PerHour.Dollars(), n.IdlePerHour.Dollars(), 100*n.Requested.CPU, 100*n.Requested.Memory, n.Pods, shortened(n.Remedy))
	}
	return t.Flush()
}

func printNotes(b *strings.Builder, d *audit.Result) {
	notes := slices.Clone(d.Notes)
	if d.Stopped {
		notes = append(notes, "The time limit was reached before the audit was complete.")
	}
	if len(notes) > 0 {
		b.WriteString("\n")
	}
	for _, n := range notes {
		fmt.Fprintln(b, n)
	}
	printStays(b, "nodes have no price and are left out of all figures", d.Unpriced)
	printStays(b, "nodes are kept whatever is bought", d.Staying)
}

func printStays(b *strings.Builder, what string, all []audit.Stay) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%d %s:\n", len(all), what)
	for _, s := range all[:min(len(all), mostStays)] {
		fmt.Fprintf(b, "  %s: %s\n", s.Node, s.Reason)
	}
	if more := len(all) - mostStays; more > 0 {
		fmt.Fprintf(b, "  ... and %d more, which -o json lists.\n", more)
	}
}

// shortened cuts text to the width of a table column. The other formats have the full text.
func shortened(text string) string {
	const most = 90
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most-3]) + "..."
	}
	return text
}
