package auditreport

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// The maximum number of lines in each part of the table. All parts together fit on one screen.
const (
	mostObstacles = 8
	mostMachines  = 6
	mostStays     = 4
)

// WriteTable writes the document as a table for a terminal.
func (d *Document) WriteTable(w io.Writer) error {
	var b strings.Builder
	if err := d.printBills(&b); err != nil {
		return err
	}
	d.printFullness(&b)
	for _, part := range []func(*strings.Builder) error{d.printObstacles, d.printWorst} {
		if err := part(&b); err != nil {
			return err
		}
	}
	d.printNotes(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// row is one line of the bills.
type row struct {
	Name string
	Bill
	// Saves is the reduction against the present bill.
	Saves string
	What  string
}

// rows returns the bills.
func (d *Document) rows() []row {
	all := []row{
		{"now", d.Now, "", machinesOf(d.Now.Machines)},
		{"by moving pods alone", d.Moved, d.below(d.Moved.PerHour), fmt.Sprintf("%d pods move, %d nodes are released", d.Moves, len(d.Emptied))},
	}
	if d.Homogeneous != nil {
		all = append(all, row{"on machines of one type", *d.Homogeneous, d.below(d.Homogeneous.PerHour), machinesOf(d.Homogeneous.Machines)})
	}
	bound := Bill{PerHour: d.LowerBoundPerHour, PerMonth: d.LowerBoundPerHour * hoursPerMonth}
	return append(all,
		row{"on the cheapest machines found", d.Cheapest, d.below(d.Cheapest.PerHour), machinesOf(d.Cheapest.Machines)},
		row{"lower bound of any machines", bound, d.below(d.LowerBoundPerHour), ""},
	)
}

func (d *Document) below(perHour float64) string {
	if d.Now.PerHour <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*(1-perHour/d.Now.PerHour))
}

func (d *Document) printBills(b *strings.Builder) error {
	fmt.Fprintf(b, "%d pods on %d nodes, priced by %s\n\n", d.Pods, d.Now.Nodes, d.Source)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "THE SAME PODS\t$/HOUR\t$/MONTH\tSAVES\tNODES\tMACHINES\n")
	for _, r := range d.rows() {
		nodes := "-"
		if r.Nodes > 0 {
			nodes = fmt.Sprint(r.Nodes)
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.0f\t%s\t%s\t%s\n", r.Name, r.PerHour, r.PerMonth, cmp.Or(r.Saves, "-"), nodes, r.What)
	}
	return t.Flush()
}

// machinesOf names the machine types with the highest total price.
func machinesOf(all []Count) string {
	spent := slices.Clone(all)
	slices.SortStableFunc(spent, func(x, y Count) int {
		return cmp.Compare(float64(y.Count)*y.PricePerHour, float64(x.Count)*x.PricePerHour)
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

func (d *Document) printFullness(b *strings.Builder) {
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

func (d *Document) printObstacles(b *strings.Builder) error {
	if len(d.Obstacles) == 0 {
		b.WriteString("\nNothing prevents a lower bill.\n")
		return nil
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "IN THE WAY\tOF\tPODS\tNODES\t$/HOUR WITHOUT IT\tBY\n")
	for _, o := range d.Obstacles[:min(len(d.Obstacles), mostObstacles)] {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\n", o.Kind, o.Subject, o.Pods, o.Nodes, o.saves(), o.means())
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
func (o *Obstacle) saves() string {
	switch {
	case o.SavesPerHour == nil:
		return fmt.Sprintf("not computed, %.2f at most", o.NodesPerHour)
	case *o.SavesPerHour == 0:
		return "no less"
	}
	return fmt.Sprintf("%.2f less", *o.SavesPerHour)
}

// means says how the bill would be reduced.
func (o *Obstacle) means() string {
	if o.Lowers == "moved" {
		return "moving pods"
	}
	return "other machines"
}

func (d *Document) printWorst(b *strings.Builder) error {
	if len(d.Worst) == 0 {
		return nil
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "WORST NODES\tTYPE\t$/HOUR\tIDLE $/HOUR\tCPU\tMEMORY\tPODS\tWHAT WOULD EMPTY IT\n")
	for _, n := range d.Worst {
		fmt.Fprintf(t, "%s\t%s\t%.3f\t%.3f\t%.0f %%\t%.0f %%\t%d\t%s\n",
			n.Node, cmp.Or(n.InstanceType, "(unknown)"), n.PerHour, n.IdlePerHour, 100*n.Requested.CPU, 100*n.Requested.Memory, n.Pods, shortened(n.Remedy))
	}
	return t.Flush()
}

func (d *Document) printNotes(b *strings.Builder) {
	notes := slices.Clone(d.Notes)
	if d.Incomplete {
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

func printStays(b *strings.Builder, what string, all []Stay) {
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
