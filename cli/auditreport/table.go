package auditreport

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/internal/text/plural"
)

// The maximum number of lines in each part of the table. All parts together fit on one screen.
const (
	mostObstacles = 8
	mostStays     = 4
	mostParts     = 8
)

// WriteTable writes a result as a table for a terminal. The first line says how many nodes are priced and what they
// cost, and the next ones which prices are used.
func WriteTable(w io.Writer, d *audit.Result) error {
	b := &table{}
	b.line(headline(d))
	for _, text := range d.Pricing {
		b.line(text)
	}
	b.bills(d)
	b.line(utilization(d))
	b.allocation(&d.ByNamespace, d)
	if d.ByLabel != nil {
		b.allocation(d.ByLabel, d)
	}
	b.obstacles(d)
	b.worst(d)
	b.notes(d)
	_, err := io.WriteString(w, b.String())
	return err
}

// table is a table in progress.
type table struct{ strings.Builder }

// line adds a line; none for an empty text.
func (b *table) line(text string) {
	if text != "" {
		fmt.Fprintln(b, text)
	}
}

// columns adds an empty line, a header and rows, whose cells are separated by tabs.
func (b *table) columns(header string, rows []string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintln(b)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, header)
	for _, row := range rows {
		fmt.Fprintln(t, row)
	}
	_ = t.Flush() // a Builder does not fail
}

// more adds how many rows are left out.
func (b *table) more(n int) {
	if n > 0 {
		fmt.Fprintf(b, "... and %d more, which -o json lists.\n", n)
	}
}

func (b *table) bills(d *audit.Result) {
	var lines []string
	for _, r := range rows(d) {
		nodes := "-"
		if r.Nodes > 0 {
			nodes = fmt.Sprint(r.Nodes)
		}
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", r.Name, cents(r.PerHour), whole(r.PerMonth), cmp.Or(r.Saves, "-"), nodes, r.What))
	}
	b.columns("THE SAME PODS\t$/HOUR\t$/MONTH\tSAVES\tNODES\tMACHINES", lines)
	if len(lines) > 0 {
		fmt.Fprintln(b)
	}
}

func (b *table) allocation(a *audit.Allocation, d *audit.Result) {
	if d.PricedNodes == 0 {
		return
	}
	var lines []string
	line := func(name string, p *audit.Part) {
		lines = append(lines, fmt.Sprintf("%s\t%d\t%s\t%s\t%s\t%s", name, p.Pods, mills(p.PerHour), whole(p.PerMonth), share(d, p.PerHour), elsewhere(p)))
	}
	var others audit.Part
	for i := range a.Parts {
		p := &a.Parts[i]
		if i < mostParts {
			line(partName(p.Name), p)
			continue
		}
		others.Pods, others.UnpricedPods = others.Pods+p.Pods, others.UnpricedPods+p.UnpricedPods
		others.PerHour, others.PerMonth = others.PerHour+p.PerHour, others.PerMonth+p.PerMonth
	}
	if n := len(a.Parts) - mostParts; n > 0 {
		line(plural.Count(n, "other"), &others)
	}
	line(idleRoom, &audit.Part{PerHour: a.Idle, PerMonth: audit.HoursPerMonth * a.Idle})
	line(inTotal, &audit.Part{Pods: d.PricedPods, PerHour: d.Now.PerHour, PerMonth: d.Now.PerMonth})
	sort, key, _ := strings.Cut(a.By, " ")
	b.columns(strings.TrimSpace("COST BY "+strings.ToUpper(sort)+" "+key)+"\tPODS\t$/HOUR\t$/MONTH\tSHARE\t", lines)
}

func (b *table) obstacles(d *audit.Result) {
	if text := unhindered(d); text != "" {
		fmt.Fprintln(b)
		b.line(text)
	}
	var lines []string
	for i := range d.Obstacles[:min(len(d.Obstacles), mostObstacles)] {
		o := &d.Obstacles[i]
		lines = append(lines, fmt.Sprintf("%s\t%s\t%d\t%d\t%s\t%s", o.Kind, o.Subject, o.Pods, o.Nodes, saves(o), means(o)))
	}
	b.columns("IN THE WAY\tOF\tPODS\tNODES\tWITHOUT IT\tBY", lines)
	b.more(len(d.Obstacles) - mostObstacles)
}

func (b *table) worst(d *audit.Result) {
	var lines []string
	for _, n := range d.Worst {
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s", n.Node, sold(n.InstanceType, n.CapacityType), mills(n.PerHour), mills(n.IdlePerHour),
			percent(n.Requested.CPU), percent(n.Requested.Memory), n.Pods, n.Remedy))
	}
	b.columns("WORST NODES\tTYPE\t$/HOUR\tIDLE $/HOUR\tCPU\tMEMORY\tPODS\tWHAT WOULD EMPTY IT", lines)
}

func (b *table) notes(d *audit.Result) {
	notes := slices.Clone(d.Notes)
	if d.Stopped {
		notes = append(notes, stopped)
	}
	if len(notes) > 0 {
		fmt.Fprintln(b)
	}
	for _, n := range notes {
		b.line(n)
	}
	b.stays(unpricedNodes(len(d.Unpriced)), d.Unpriced)
	b.stays(stayingNodes(len(d.Staying)), d.Staying)
}

func (b *table) stays(heading string, all []audit.Stay) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", heading)
	groups := byReason(all)
	more := len(all)
	for _, g := range groups[:min(len(groups), mostStays)] {
		name := g[0].Node
		if n := len(g) - 1; n > 0 {
			name += fmt.Sprintf(" (and %d like it)", n)
		}
		fmt.Fprintf(b, "  %s: %s\n", name, g[0].Reason)
		more -= len(g)
	}
	if more > 0 {
		fmt.Fprintf(b, "  ... and %d more, which -o json lists.\n", more)
	}
}

// byReason groups nodes by reason, the largest group first, ties in the order of their first nodes.
func byReason(all []audit.Stay) (groups [][]audit.Stay) {
	at := map[string]int{}
	for _, s := range all {
		i, known := at[s.Reason]
		if !known {
			i, at[s.Reason] = len(groups), len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], s)
	}
	slices.SortStableFunc(groups, func(a, b []audit.Stay) int { return cmp.Compare(len(b), len(a)) })
	return groups
}
