package outcome

import (
	"fmt"
	"strings"
)

// Heights in a bar chart, in pixels from its top or from the top of a row. Widths are percentages
// of the available width.
const (
	headHeight = 26 // for the label of the lower bound
	rowHeight  = 46
	barTop     = 21 // below the name
	barHeight  = 14
)

// barChart has a bar for each policy. It is the input of the template.
type barChart struct {
	Title, About, Label string
	Height              int // of the bars, without the axis
	Ticks               []place
	Bound               *place // nil: none
	BoundAnchor         string // start, middle or end
	Bars                []bar
}

// bar shows one policy. A ranged bar has a second, thin line over it, from Low to High.
type bar struct {
	Policy               int
	Name, Value          string
	NameY, BarY, MiddleY int
	Width                string
	Ranged               bool
	Low, High            string
	CapTop, CapBottom    int
}

// measure is the content of a bar: a value and, if ranged, a range around it.
type measure struct {
	index       int // of the policy
	policy      string
	value       float64
	ranged      bool
	low, high   float64
	text        string // the visible label
	description string // the text for screen readers
}

// scale has the labels of a bar chart's axis and the lower bound; 0 means none.
type scale struct {
	prefix, suffix string
	bound          float64
	boundText      string
}

// newBarChart draws the measures on an axis from 0.
func newBarChart(measures []measure, s scale) barChart {
	largest := s.bound
	for _, m := range measures {
		largest = max(largest, m.value, m.high)
	}
	a := amountAxis(largest, false)
	chart := barChart{Height: rowHeight * len(measures), Ticks: places(a.labelled(s.prefix, s.suffix), false)}
	top := 0
	if s.bound > 0 {
		top = headHeight
		at := s.bound / a.max
		chart.Bound, chart.BoundAnchor = &place{percentOf(at), s.boundText}, anchorAt(at)
	}
	chart.Height += top
	for i, m := range measures {
		y := top + i*rowHeight
		b := bar{
			Policy: m.index, Name: m.policy, Value: m.text, Width: percentOf(m.value / a.max),
			NameY: y, BarY: y + barTop, MiddleY: y + barTop + barHeight/2,
		}
		if m.ranged {
			b.Ranged, b.Low, b.High = true, percentOf(m.low/a.max), percentOf(m.high/a.max)
			b.CapTop, b.CapBottom = b.MiddleY-4, b.MiddleY+4
		}
		chart.Bars = append(chart.Bars, b)
	}
	chart.Label = describeBars(measures, s.boundText)
	return chart
}

// anchorAt returns the text anchor that keeps a text at the given share of the width inside the
// chart.
func anchorAt(at float64) string {
	switch {
	case at < 0.3:
		return "start"
	case at > 0.7:
		return "end"
	}
	return "middle"
}

func describeBars(measures []measure, boundText string) string {
	var parts []string
	if boundText != "" {
		parts = append(parts, boundText)
	}
	for _, m := range measures {
		parts = append(parts, shown(m.policy)+": "+m.description)
	}
	return strings.Join(parts, ". ") + "."
}

// costBars compares the costs of the policies.
func (r Report) costBars() barChart {
	var measures []measure
	for i, p := range r.ended() {
		text := r.money(p.CostDollars)
		measures = append(measures, measure{index: i, policy: p.Name, value: p.CostDollars, text: text, description: text})
	}
	s := scale{prefix: "$", bound: r.bound()}
	if s.bound > 0 {
		s.boundText = capital(r.boundName()) + " " + r.money(s.bound)
	}
	chart := newBarChart(measures, s)
	chart.Title = "Cost"
	chart.About = "The bill of the whole run."
	chart.Label = "Cost of each policy. " + chart.Label
	return chart
}

// waitBars compares the waits of pods: a bar up to the mean, a line on to the 95th percentile.
func (r Report) waitBars() barChart {
	f := figures{policies: r.Policies}
	largest := f.largest(func(p Policy) float64 { return max(p.Scheduling.Mean, p.Scheduling.P95) })
	u := unitFor(largest)
	digits := digitsFor(largest / u.seconds)
	var measures []measure
	for i, p := range r.ended() {
		mean, p95 := p.Scheduling.Mean/u.seconds, p.Scheduling.P95/u.seconds
		measures = append(measures, measure{
			index: i, policy: p.Name, value: mean, ranged: true, low: min(mean, p95), high: max(mean, p95),
			text:        fmt.Sprintf("%s / %s %s", fixed(mean, digits), fixed(p95, digits), u.symbol),
			description: fmt.Sprintf("mean %s %s, 95th percentile %s %s", fixed(mean, digits), u.name, fixed(p95, digits), u.name),
		})
	}
	chart := newBarChart(measures, scale{suffix: " " + u.symbol})
	chart.Title = "Time to schedule"
	chart.About = "From submission to first start: mean (bar) / 95th percentile (line)."
	chart.Label = "Time from submission to first start. " + chart.Label
	return chart
}
