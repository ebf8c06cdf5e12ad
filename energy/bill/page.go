package bill

import (
	"bytes"
	_ "embed" // the parts of the page
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/internal/text/contentpolicy"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string

	pageTemplate = template.Must(template.New("page").Parse(pageHTML))

	// contentPolicy forbids loading anything and running scripts, so that a name that escaped its place could do no
	// harm.
	contentPolicy = contentpolicy.Of(pageCSS, "")
)

// page is the input of the template.
type page struct {
	Security string
	CSS      template.CSS
	Facts    []string
	Lead     string
	Notes    []string
	Tables   []pageTable
}

type pageTable struct {
	Title        string
	Names, Heads []string
	Lines        []pageLine
}

type pageLine struct {
	Names, Figures []string
	// Measured and Modelled are percentages of all energy. Percent is their sum as text.
	Measured, Modelled float64
	Percent            string
	Sum                bool // the row of unallocated energy
}

// WriteHTML writes the report as one page that needs no network and no scripts. All text is escaped.
func (r Report) WriteHTML(w io.Writer) error {
	p := page{Security: contentPolicy, CSS: template.CSS(pageCSS), Facts: r.facts(), Lead: r.lead(), Notes: r.Notes}
	for _, t := range r.tables() {
		out := pageTable{Title: t.Title, Names: t.Names, Heads: r.heads()}
		for _, row := range t.Rows {
			out.Lines = append(out.Lines, r.line(t.named(row), row.Cost))
		}
		if t.Title != "By machine type" {
			rest := r.line(append([]string{"(unallocated)"}, make([]string, len(t.Names)-1)...), r.Unallocated)
			rest.Sum = true
			out.Lines = append(out.Lines, rest)
		}
		p.Tables = append(p.Tables, out)
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, p); err != nil {
		return fmt.Errorf("fill in the page: %w", err)
	}
	_, err := out.WriteTo(w)
	return err
}

func (r Report) line(names []string, c Cost) pageLine {
	l := pageLine{Names: names, Figures: r.figures(c), Percent: "0"}
	if all := r.Total.Total().Joules; all > 0 {
		percent := func(j energy.Joules) float64 { return min(100, 100*float64(j/all)) }
		l.Measured, l.Modelled = percent(c.Measured.Joules), percent(c.Modelled.Joules)
		l.Percent = fmt.Sprintf("%.1f", percent(c.Total().Joules))
	}
	return l
}

// rounded formats an amount with two digits, or as in the tables if it is less than 0.01.
func rounded(v float64) string {
	if v != 0 && math.Abs(v) < 0.01 {
		return figure(v)
	}
	return fmt.Sprintf("%.2f", v)
}

// lead returns a sentence that summarizes the result.
func (r Report) lead() string {
	all := r.Total.Total()
	if all.Joules <= 0 {
		return "There is no data about the energy of the cluster in this period."
	}
	parts := []string{fmt.Sprintf("%s kWh, %.0f %% of it measured", kWh(all.Joules), 100*float64(r.Total.Measured.Joules/all.Joules))}
	if r.HasPrice {
		parts = append(parts, "$"+rounded(all.Dollars))
	}
	if r.HasCarbon {
		parts = append(parts, rounded(all.Grams/1e3)+" kg of CO2")
	}
	return fmt.Sprintf("The cluster used %s; %.0f %% of it was idle power, and %.0f %% is not allocated to pods.", strings.Join(parts, ", "),
		100*(1-float64(r.Total.Dynamic/all.Joules)), 100*float64(r.Unallocated.Total().Joules/all.Joules))
}
