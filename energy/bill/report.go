package bill

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/internal/text/jsondoc"
)

const joulesPerKilowattHour = 3.6e6

// Report is a bill for output: as text, as JSON or as a page.
type Report struct {
	Bill
	// PowerFrom is the preset or query with which power was read.
	PowerFrom string
	// Dropped counts the implausible readings.
	Dropped energy.Counts
	// Notes are further remarks, one sentence each.
	Notes []string
	// HasPrice and HasCarbon report which tariffs exist. Columns without a tariff are omitted.
	HasPrice, HasCarbon bool
}

// document is the JSON form of the report. It is a stable interface: fields may be added but never renamed.
type document struct {
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	PowerFrom string    `json:"powerFrom"`
	Total     costJSON  `json:"total"`
	// Unallocated is the part of Total that no pod is charged for.
	Unallocated   costJSON           `json:"unallocated"`
	ByNamespace   []rowJSON          `json:"byNamespace"`
	ByWorkload    []rowJSON          `json:"byWorkload"`
	ByMachineType []rowJSON          `json:"byMachineType"`
	IdleWatts     map[string]float64 `json:"idleWatts"` // by node
	// CoveredNodeHours and GapNodeHours are the time for which the power of nodes is known and unknown.
	CoveredNodeHours float64 `json:"coveredNodeHours"`
	GapNodeHours     float64 `json:"gapNodeHours"`
	// PricedPercent and CarbonPercent are the shares of the energy for which the tariffs have values.
	PricedPercent   *float64       `json:"pricedPercent,omitempty"`
	CarbonPercent   *float64       `json:"carbonPercent,omitempty"`
	ReadingsDropped map[string]int `json:"readingsDropped"` // by fault
	Notes           []string       `json:"notes,omitempty"`
}

type costJSON struct {
	Measured      amountJSON `json:"measured"`
	Modelled      amountJSON `json:"modelled"`
	DynamicJoules float64    `json:"dynamicJoules"` // of both
}

type amountJSON struct {
	Joules        float64  `json:"joules"`
	KilowattHours float64  `json:"kilowattHours"`
	Dollars       *float64 `json:"dollars,omitempty"`
	CO2Grams      *float64 `json:"co2Grams,omitempty"`
}

type rowJSON struct {
	Namespace   string `json:"namespace,omitempty"`
	Workload    string `json:"workload,omitempty"`
	MachineType string `json:"machineType,omitempty"`
	costJSON
}

func (r Report) amountJSON(a Amount) amountJSON {
	out := amountJSON{Joules: float64(a.Joules), KilowattHours: float64(a.Joules) / joulesPerKilowattHour}
	if r.HasPrice {
		out.Dollars = &a.Dollars
	}
	if r.HasCarbon {
		out.CO2Grams = &a.Grams
	}
	return out
}

func (r Report) costJSON(c Cost) costJSON {
	return costJSON{Measured: r.amountJSON(c.Measured), Modelled: r.amountJSON(c.Modelled), DynamicJoules: float64(c.Dynamic)}
}

func (r Report) rowsJSON(rows []Row) []rowJSON {
	out := make([]rowJSON, 0, len(rows))
	for _, row := range rows {
		out = append(out, rowJSON{Namespace: row.Namespace, Workload: row.Workload, MachineType: row.MachineType, costJSON: r.costJSON(row.Cost)})
	}
	return out
}

// WriteJSON writes the report as one JSON document.
func (r Report) WriteJSON(w io.Writer) error {
	d := document{
		From: r.From.UTC(), To: r.To.UTC(), PowerFrom: r.PowerFrom, Total: r.costJSON(r.Total), Unallocated: r.costJSON(r.Unallocated),
		ByNamespace: r.rowsJSON(r.ByNamespace), ByWorkload: r.rowsJSON(r.ByWorkload), ByMachineType: r.rowsJSON(r.ByMachineType),
		IdleWatts: map[string]float64{}, CoveredNodeHours: r.Covered.Hours(), GapNodeHours: r.Gaps.Hours(), ReadingsDropped: map[string]int{}, Notes: r.Notes,
	}
	for node, watts := range r.Idle {
		d.IdleWatts[node] = float64(watts)
	}
	for _, fault := range energy.Faults() {
		if n := r.Dropped.Of(fault); n > 0 {
			d.ReadingsDropped[fault.String()] = n
		}
	}
	if percent := 100 * r.PricedShare; r.HasPrice {
		d.PricedPercent = &percent
	}
	if percent := 100 * r.CarbonShare; r.HasCarbon {
		d.CarbonPercent = &percent
	}
	return jsondoc.Write(w, d)
}

// table is a table of the report, for text and for the page.
type table struct {
	Title string
	Names []string // headings of the columns that name a row
	Rows  []Row
	name  func(Row) []string
}

// unknownType stands for an unknown machine type.
const unknownType = "(unknown)"

func (r Report) tables() []table {
	return []table{
		{"By namespace", []string{"Namespace"}, r.ByNamespace, func(row Row) []string { return []string{row.Namespace} }},
		{"By workload", []string{"Namespace", "Workload"}, r.ByWorkload, func(row Row) []string { return []string{row.Namespace, row.Workload} }},
		{"By machine type", []string{"Machine type"}, r.ByMachineType, func(row Row) []string {
			if row.MachineType == "" {
				return []string{unknownType}
			}
			return []string{row.MachineType}
		}},
	}
}

// named returns a row's names with unprintable characters replaced, which a terminal or browser could interpret.
func (t table) named(row Row) []string {
	names := t.name(row)
	for i := range names {
		names[i] = printable(names[i])
	}
	return names
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// heads returns the headings of the columns with figures.
func (r Report) heads() []string {
	heads := []string{"Measured kWh", "Modelled kWh", "By load %"}
	if r.HasPrice {
		heads = append(heads, "Measured $", "Modelled $")
	}
	if r.HasCarbon {
		heads = append(heads, "Measured kg CO2", "Modelled kg CO2")
	}
	return heads
}

// figures returns the figures of a row, in the order of heads.
func (r Report) figures(c Cost) []string {
	load := "-"
	if total := c.Total().Joules; total > 0 {
		load = fmt.Sprintf("%.0f", 100*float64(c.Dynamic/total))
	}
	cells := []string{kWh(c.Measured.Joules), kWh(c.Modelled.Joules), load}
	if r.HasPrice {
		cells = append(cells, figure(c.Measured.Dollars), figure(c.Modelled.Dollars))
	}
	if r.HasCarbon {
		cells = append(cells, figure(c.Measured.Grams/1e3), figure(c.Modelled.Grams/1e3))
	}
	return cells
}

// kWh formats an energy. Its digits suit both a node's use in a second and a cluster's in a year.
func kWh(j energy.Joules) string { return digits(float64(j)/joulesPerKilowattHour, 0.1) }

// figure formats a cost or an emission.
func figure(v float64) string { return digits(v, 0.01) }

// digits formats a value with four digits, or with six if it is less than few.
func digits(v, few float64) string {
	if v != 0 && math.Abs(v) < few {
		return fmt.Sprintf("%.6f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

// facts returns the facts about the whole report.
func (r Report) facts() []string {
	const layout = "2006-01-02 15:04"
	return []string{
		fmt.Sprintf("%s to %s UTC", r.From.UTC().Format(layout), r.To.UTC().Format(layout)),
		"power by " + printable(r.PowerFrom),
		fmt.Sprintf("%.1f node-hours with data, %.1f without", r.Covered.Hours(), r.Gaps.Hours()),
	}
}

// WriteTable writes the report as text, with at most top rows per table.
func (r Report) WriteTable(w io.Writer, top int) error {
	fmt.Fprintln(w, strings.Join(r.facts(), "; "))
	for _, t := range r.tables() {
		fmt.Fprintf(w, "\n%s\n", t.Title)
		out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		line := func(names, figures []string) {
			fmt.Fprintln(out, strings.Join(append(names, figures...), "\t")+"\t")
		}
		line(append([]string(nil), t.Names...), r.heads())
		for _, row := range t.Rows[:min(top, len(t.Rows))] {
			line(t.named(row), r.figures(row.Cost))
		}
		blank := make([]string, len(t.Names)-1)
		if rest := t.Rows[min(top, len(t.Rows)):]; len(rest) > 0 {
			sum := Cost{}
			for _, row := range rest {
				sum.add(row.Cost)
			}
			line(append([]string{fmt.Sprintf("(%d more)", len(rest))}, blank...), r.figures(sum))
		}
		if t.Title != "By machine type" {
			line(append([]string{"(unallocated)"}, blank...), r.figures(r.Unallocated))
		}
		line(append([]string{"(all)"}, blank...), r.figures(r.Total))
		if err := out.Flush(); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "\n%s\n", printable(note))
	}
	return nil
}
