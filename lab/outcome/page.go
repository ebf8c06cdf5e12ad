package outcome

import (
	"bytes"
	_ "embed" // the parts of the page
	"fmt"
	"html/template"
	"io"
	"math"

	"supercargo.dev/supercargo/internal/text/contentpolicy"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string

	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
		"shown": shown, "style": styleOf,
	}).Parse(pageHTML))

	// contentPolicy is the Content-Security-Policy of the page: it loads nothing and applies only
	// this style sheet and this script, so that even injected markup could do nothing.
	contentPolicy = contentpolicy.Of(pageCSS, pageJS)
)

// styles is the number of line styles. Further policies start again with the first.
const styles = 10

// page is the data of the template.
type page struct {
	Security      string // the Content-Security-Policy
	CSS           template.CSS
	JS            template.JS
	Title, Kicker string
	Heading       string
	Facts         []string
	Lead          string
	Notes         []string
	Legend        []legendEntry
	Summary       tableView
	Reasons       []pendingList
	Further       []tableView // below the charts
	Bars          []barChart
	Lines         []lineChart
	Data          *hoverData
}

// legendEntry is a policy that the charts show.
type legendEntry struct {
	Policy int
	Name   string
}

// pendingList has the reasons why pods of one policy are pending.
type pendingList struct {
	Name    string
	Reasons []string
}

// hoverData is the data with which the script shows the values at a moment.
type hoverData struct {
	Span     float64       `json:"span"` // of the time axis, in seconds
	Charts   []hoverChart  `json:"charts"`
	Policies []hoverSeries `json:"policies"`
}

type hoverChart struct {
	Prefix     string `json:"prefix"`
	Suffix     string `json:"suffix"`
	Digits     int    `json:"digits"`
	Cumulative bool   `json:"cumulative"`
}

type hoverSeries struct {
	Step   float64     `json:"step"`
	Values [][]float64 `json:"values"` // by chart
}

// WriteHTML writes the report as one HTML page that needs no network and no script: tables and
// charts are in the page, and the script only adds details under the pointer. All text is escaped.
// With the ten policies that have a style of their own and 600 samples each, it stays below a
// megabyte. It returns an error and writes nothing in the cases of [Report.WriteJSON].
func (r Report) WriteHTML(w io.Writer) error {
	if err := r.check(); err != nil {
		return err
	}
	p := page{
		Title: shown(r.Scenario) + ": simulated cost", Kicker: "Simulation", Heading: r.Scenario, Facts: r.facts(), Lead: r.lead(),
	}
	if len(r.Policies) > 0 {
		p.Notes = r.notes(math.MaxInt)
		for i, policy := range r.ended() {
			p.Legend = append(p.Legend, legendEntry{i, policy.Name})
		}
		p.Summary = r.table().view("Figures of each policy")
		if energy := r.energyTable(); len(energy.columns) > 0 {
			p.Further = append(p.Further, energy.view("Energy"))
		}
		p.Further = append(p.Further, r.moreFigures().view("More figures"), r.eventCounts().view("Events by kind"))
		p.Reasons = r.pendingLists()
	}
	if len(p.Legend) > 0 {
		p.Bars = []barChart{r.costBars(), r.waitBars()}
		p.Lines = r.lineCharts()
		p.Data = r.hoverData()
	}
	return p.write(w)
}

func (p page) write(w io.Writer) error {
	p.Security, p.CSS, p.JS = contentPolicy, template.CSS(pageCSS), template.JS(pageJS)
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, p); err != nil {
		return fmt.Errorf("render the page: %w", err)
	}
	_, err := out.WriteTo(w)
	return err
}

const everyPolicyFailed = "Every policy failed."

// facts returns the facts about the whole report.
func (r Report) facts() []string {
	facts := []string{fmt.Sprintf("seed %d", r.Seed), counted(len(r.Policies), "policy")}
	if !r.hasEnded() {
		return facts
	}
	end := figures{policies: r.Policies}.largest(func(p Policy) float64 { return p.EndSeconds })
	return append(facts, counted(r.first().Pods.Submitted, "pod"), duration(end)+" simulated")
}

// lead returns the result in a sentence: the lowest cost among the policies with the fewest
// unfinished pods, because others did less for their money.
func (r Report) lead() string {
	if len(r.Policies) == 0 {
		return "No policy was run."
	}
	if !r.hasEnded() {
		return everyPolicyFailed
	}
	first, best := r.Policies[0], r.first()
	for _, p := range r.ended() {
		if p.unfinished() < best.unfinished() || p.unfinished() == best.unfinished() && p.CostDollars < best.CostDollars {
			best = p
		}
	}
	above := ""
	if percent, ok := percentAbove(best.CostDollars, r.bound()); ok && percent >= 0 {
		above = fmt.Sprintf("%s %% above the %s", fixed(percent, 1), r.boundName())
	}
	sentence := fmt.Sprintf("%s costs %s", shown(best.Name), r.money(best.CostDollars))
	if percent, ok := percentBelow(best.CostDollars, first.CostDollars); ok && percent > 0 {
		sentence += fmt.Sprintf(", %s %% less than %s", fixed(percent, 1), shown(first.Name))
		if above != "" {
			above = " and " + above
		}
	} else if above != "" {
		above = ", " + above
	}
	sentence += above
	switch {
	case len(r.Policies) == 1:
		return sentence + "."
	case r.unequal():
		return "Lowest cost among those that left the fewest pods undone: " + sentence + "."
	}
	return "Lowest cost: " + sentence + "."
}

// unequal reports whether the policies left different numbers of pods unfinished.
func (r Report) unequal() bool {
	for _, p := range r.ended() {
		if p.unfinished() != r.first().unfinished() {
			return true
		}
	}
	return false
}

func (r Report) pendingLists() []pendingList {
	var lists []pendingList
	for _, p := range r.Policies {
		list := pendingList{Name: p.Name}
		for _, reason := range p.pendingReasons() {
			list.Reasons = append(list.Reasons, count(reason.pods)+" × "+shown(reason.text))
		}
		if len(list.Reasons) > 0 {
			lists = append(lists, list)
		}
	}
	return lists
}

// hoverData rounds the samples to the displayed precision, which keeps the page small.
func (r Report) hoverData() *hoverData {
	data := &hoverData{Span: r.span()}
	for _, p := range r.Policies {
		data.Policies = append(data.Policies, hoverSeries{Step: p.Series.StepSeconds})
	}
	for _, c := range courses {
		digits := r.digits(c)
		data.Charts = append(data.Charts, hoverChart{c.prefix, c.suffix, digits, c.cumulative})
		scale := math.Pow10(digits)
		for i, p := range r.Policies {
			values := make([]float64, len(p.Series.CostDollars))
			for j, v := range c.samples(p.Series) {
				values[j] = math.Round(c.factor*v*scale) / scale
			}
			data.Policies[i].Values = append(data.Policies[i].Values, values)
		}
	}
	return data
}

// styleOf returns the CSS class for the color and dashes of a policy.
func styleOf(policy int) string { return fmt.Sprintf("p%d", policy%styles) }

// tableView is a table in the form that the template needs.
type tableView struct {
	Title string
	Heads []headView
	Rows  []rowView
}

type headView struct{ Title, Unit, Help string }

type rowView struct {
	Policy int
	Name   string
	Cells  []cellView
}

type cellView struct{ Value, Spread string }

// view transposes a table: columns become cells of rows.
func (t table) view(title string) tableView {
	view := tableView{Title: title}
	for _, c := range t.columns {
		view.Heads = append(view.Heads, headView{c.title, c.unit, c.help})
	}
	for i, name := range t.policies {
		row := rowView{Policy: i, Name: name}
		for _, c := range t.columns {
			row.Cells = append(row.Cells, cellView{c.cells[i].value, c.cells[i].spread})
		}
		view.Rows = append(view.Rows, row)
	}
	return view
}
