package auditreport

import (
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// CheckFile returns an error unless [WriteFile] knows a format for the name of a file.
func CheckFile(name string) error {
	switch ending(name) {
	case "", ".html", ".htm", ".md", ".csv":
		return nil
	}
	return fmt.Errorf("--report %s: the format %q is unknown: must end in .html, .md or .csv", name, ending(name))
}

func ending(name string) string { return strings.ToLower(filepath.Ext(name)) }

// WriteFile writes a result in the format of the file's name: Markdown for .md, CSV for .csv, else HTML.
func WriteFile(w io.Writer, name string, d *audit.Result) error {
	switch ending(name) {
	case ".md":
		return WriteMarkdown(w, d)
	case ".csv":
		return WriteCSV(w, d)
	}
	return WriteHTML(w, d)
}

// csvHeader are the columns of [WriteCSV].
var csvHeader = []string{"section", "name", "instance_type", "arch", "capacity_type", "nodes", "pods", "dollars_per_hour", "dollars_per_month", "note"}

// WriteCSV writes a result for spreadsheets. Column section says what a row is: cluster (what is priced), bill, machine
// (of the bill now), namespace or label KEY, obstacle, node (one of the worst), or unpriced. Rows of one namespace or
// label section add up to the bill now. Unknown amounts are empty.
func WriteCSV(w io.Writer, d *audit.Result) error {
	out := csv.NewWriter(w)
	rowsOf := [][]string{csvHeader, {"cluster", "", "", "", "", strconv.Itoa(d.Nodes), strconv.Itoa(d.Pods), "", "", headline(d)}}
	money := func(a dollars.Amount) []string {
		return []string{dollars.Format(int64(a)), dollars.Format(int64(audit.HoursPerMonth * a))}
	}
	add := func(a *dollars.Amount, note string, cells ...string) {
		amounts := []string{"", ""}
		if a != nil {
			amounts = money(*a)
		}
		rowsOf = append(rowsOf, append(append(cells, amounts...), note))
	}
	for _, r := range rows(d) {
		nodes := ""
		if r.Nodes > 0 {
			nodes = strconv.Itoa(r.Nodes)
		}
		add(&r.PerHour, r.What, "bill", r.Name, "", "", "", nodes, "")
	}
	for _, m := range d.Now.Machines {
		add(new(dollars.Amount(m.Count)*m.PricePerHour), "", "machine", "", m.InstanceType, m.Arch, m.CapacityType, strconv.Itoa(m.Count), "")
	}
	allocations := []audit.Allocation{d.ByNamespace}
	if d.ByLabel != nil {
		allocations = append(allocations, *d.ByLabel)
	}
	for _, a := range allocations {
		if d.PricedNodes == 0 {
			break
		}
		for i := range a.Parts {
			p := &a.Parts[i]
			add(&p.PerHour, elsewhere(p), a.By, partName(p.Name), "", "", "", "", strconv.Itoa(p.Pods))
		}
		add(&a.Idle, "", a.By, idleRoom, "", "", "", "", "")
	}
	for i := range d.Obstacles {
		o := &d.Obstacles[i]
		add(o.SavesPerHour, o.Advice, "obstacle", o.Kind+" of "+o.Subject, "", "", "", strconv.Itoa(o.Nodes), strconv.Itoa(o.Pods))
	}
	for i := range d.Worst {
		n := &d.Worst[i]
		add(&n.PerHour, n.Remedy, "node", n.Node, n.InstanceType, "", n.CapacityType, "1", strconv.Itoa(n.Pods))
	}
	for _, n := range d.Unpriced {
		add(nil, n.Reason, "unpriced", n.Node, n.InstanceType, "", "", "1", "")
	}
	if err := out.WriteAll(rowsOf); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// WriteMarkdown writes a result as Markdown with the tables of GitHub. Text of the cluster is escaped.
func WriteMarkdown(w io.Writer, d *audit.Result) error {
	m := &markdown{}
	fmt.Fprintf(m, "# Audit of a Kubernetes cluster\n\n**%s**\n", escaped(headline(d)))
	for _, text := range append(append([]string{}, d.Pricing...), findings(d), utilization(d)) {
		m.paragraph(text)
	}
	var cells [][]string
	for _, r := range rows(d) {
		nodes := ""
		if r.Nodes > 0 {
			nodes = strconv.Itoa(r.Nodes)
		}
		cells = append(cells, []string{r.Name, cents(r.PerHour), whole(r.PerMonth), r.Saves, nodes, r.What})
	}
	m.table("What the same pods cost", "pods|$/hour|$/month|saves|nodes|machines", cells)
	if d.PricedNodes > 0 {
		m.allocation(&d.ByNamespace, d)
		if d.ByLabel != nil {
			m.allocation(d.ByLabel, d)
		}
		m.paragraph(rule)
	}
	cells = nil
	for i := range d.Obstacles[:min(len(d.Obstacles), mostShown)] {
		o := &d.Obstacles[i]
		cells = append(cells, []string{o.Kind, o.Subject, strconv.Itoa(o.Pods), strconv.Itoa(o.Nodes), saves(o), means(o), o.Advice})
	}
	m.table("What prevents a lower bill", "what|of|pods|nodes|without it|by|what would remove it", cells)
	m.paragraph(unshown(d))
	m.paragraph(unhindered(d))
	cells = nil
	for _, n := range d.Worst {
		cells = append(cells, []string{n.Node, sold(n.InstanceType, n.CapacityType), mills(n.PerHour), mills(n.IdlePerHour), percent(n.Requested.CPU), percent(n.Requested.Memory),
			strconv.Itoa(n.Pods), n.Remedy})
	}
	m.table("The worst nodes", "node|type|$/hour|idle, $/hour|CPU requested|memory requested|pods|what would empty it", cells)
	m.notes(d)
	_, err := io.WriteString(w, m.String())
	return err
}

// markdown is a page in progress.
type markdown struct{ strings.Builder }

// paragraph adds a paragraph; none for an empty text.
func (m *markdown) paragraph(text string) {
	if text != "" {
		fmt.Fprintf(m, "\n%s\n", escaped(text))
	}
}

// table adds a heading and a table; nothing without rows.
func (m *markdown) table(heading, header string, cells [][]string) {
	if len(cells) == 0 {
		return
	}
	fmt.Fprintf(m, "\n## %s\n\n| %s |\n|%s\n", escaped(heading), strings.ReplaceAll(header, "|", " | "), strings.Repeat(" --- |", strings.Count(header, "|")+1))
	for _, row := range cells {
		for i := range row {
			row[i] = escaped(row[i])
		}
		fmt.Fprintf(m, "| %s |\n", strings.Join(row, " | "))
	}
}

func (m *markdown) allocation(a *audit.Allocation, d *audit.Result) {
	var cells [][]string
	for _, r := range dividedBy(a, d).Rows {
		pods := ""
		if r.Pods > 0 {
			pods = strconv.Itoa(r.Pods)
		}
		cells = append(cells, []string{r.Name, pods, mills(r.PerHour), whole(r.PerMonth), r.Share, elsewhere(&r.Part)})
	}
	m.table("Cost by "+a.By, escaped(a.By)+"|pods|$/hour|$/month|share|", cells)
}

func (m *markdown) notes(d *audit.Result) {
	for _, text := range d.Notes {
		m.paragraph(text)
	}
	if d.Stopped {
		m.paragraph(stopped)
	}
	m.stays(unpricedNodes(len(d.Unpriced)), d.Unpriced)
	m.stays(stayingNodes(len(d.Staying)), d.Staying)
}

func (m *markdown) stays(heading string, all []audit.Stay) {
	var cells [][]string
	for _, s := range all {
		cells = append(cells, []string{s.Node, named(s.InstanceType), s.Reason})
	}
	m.table(heading, "node|type|why", cells)
}

// escaped escapes what Markdown and HTML interpret.
func escaped(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "\n", " ").Replace(text)
}
