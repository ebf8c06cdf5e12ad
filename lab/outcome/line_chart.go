package outcome

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Paths use whole units of a grid that the browser stretches to the size of the chart. It is fine
// enough for a wide screen, and the numbers are short.
const (
	gridWidth  = 2000
	gridHeight = 1000
)

// course is a series as a chart shows it.
type course struct {
	title, about string
	// prefix and suffix enclose a value, as in "$12.30" and "64.1 %".
	prefix, suffix string
	// axisUnit is the axis title, unless prefix or suffix are enough.
	axisUnit string
	// factor converts a sample to the displayed value: 100 for shares.
	factor float64
	// cumulative means that the last value stays valid after the end of the run.
	cumulative bool
	whole      bool
	samples    func(Series) []float64
}

var courses = []course{
	{title: "Cost so far", about: "The bill, added up.", prefix: "$", factor: 1, cumulative: true,
		samples: func(s Series) []float64 { return s.CostDollars }},
	{title: "Active machines", about: "Machines that are paid for.", axisUnit: "machines", factor: 1, whole: true,
		samples: func(s Series) []float64 { return floats(s.Machines) }},
	{title: "CPU utilisation", about: "Share of the CPU of all machines that is requested.", suffix: " %", factor: 100,
		samples: func(s Series) []float64 { return s.CPU }},
	{title: "Memory utilisation", about: "Share of the memory of all machines that is requested.", suffix: " %", factor: 100,
		samples: func(s Series) []float64 { return s.Memory }},
	{title: "Pending pods", about: "Pods that wait for a machine.", axisUnit: "pods", factor: 1, whole: true,
		samples: func(s Series) []float64 { return floats(s.Pending) }},
	{title: "Moves so far", about: "Migrations and evictions, added up.", axisUnit: "moves", factor: 1, cumulative: true, whole: true,
		samples: func(s Series) []float64 { return floats(s.Moves) }},
}

// lineChart is a course of all policies over time. It is the input of the template.
type lineChart struct {
	Title, About, Label string
	AxisUnit, TimeUnit  string
	YTicks, XTicks      []place
	Bound               *place // nil: none
	Lines               []line
}

// line is the line of one policy.
type line struct {
	Policy     int
	Name       string
	Path       string // in the grid; empty if there is only one sample
	EndX, EndY string // the last sample, in percent of the chart
}

// place is a position on an axis in percent, with its text.
type place struct{ At, Text string }

// lineCharts draws all courses on one time axis, from 0 to the last sample of any
// policy. Cost: linear in the number of samples.
func (r Report) lineCharts() []lineChart {
	times, timeUnit := timeAxis(r.span())
	charts := make([]lineChart, len(courses))
	for i, c := range courses {
		values := r.axisOf(c)
		chart := lineChart{
			Title: c.title, About: c.about, Label: r.describe(c, times.max), AxisUnit: c.axisUnit, TimeUnit: timeUnit.name,
			XTicks: places(times, false), YTicks: places(values.labelled(c.prefix, c.suffix), true),
		}
		if bound := r.bound(); i == 0 && bound > 0 {
			chart.Bound = &place{percentOf(1 - bound/values.max), r.boundName() + " " + r.money(bound)}
		}
		for j, p := range r.ended() {
			if samples := c.samples(p.Series); len(samples) > 0 {
				l := drawLine(samples, p.Series.StepSeconds/times.max, values.max)
				l.Policy, l.Name = j, p.Name
				chart.Lines = append(chart.Lines, l)
			}
		}
		charts[i] = chart
	}
	return charts
}

// drawLine joins samples at the distance step, a share of the time axis.
func drawLine(samples []float64, step, highest float64) line {
	last := len(samples) - 1
	l := line{EndX: "0", EndY: percentOf(1 - samples[last]/highest)}
	if last == 0 {
		return l
	}
	l.EndX = percentOf(float64(last) * step)
	l.Path = path(samples, step, highest)
	return l
}

// path formats the samples as an SVG path. It uses relative coordinates, which are short, and skips
// points in the middle of a straight line: most courses stay level for long.
func path(samples []float64, step, highest float64) string {
	type point struct{ x, y int }
	at := func(i int) point {
		return point{
			int(math.Round(float64(i) * step * gridWidth)),
			int(math.Round((1 - samples[i]/highest) * gridHeight)),
		}
	}
	from := at(0)
	var b strings.Builder
	fmt.Fprintf(&b, "M%d %dl", from.x, from.y)
	for i := 1; i < len(samples); i++ {
		here := at(i)
		if i+1 < len(samples) {
			next := at(i + 1)
			if (here.x-from.x)*(next.y-here.y) == (here.y-from.y)*(next.x-here.x) && (here.y-from.y)*(next.y-here.y) >= 0 {
				continue
			}
		}
		b.WriteString(difference(here.x-from.x) + difference(here.y-from.y))
		from = here
	}
	return strings.Replace(b.String(), "l ", "l", 1)
}

// difference formats a number of a path. A minus sign separates numbers as a space does.
func difference(n int) string {
	if n < 0 {
		return strconv.Itoa(n)
	}
	return " " + strconv.Itoa(n)
}

// span returns the time of the last sample of any policy, in seconds.
func (r Report) span() float64 {
	var span float64
	for _, p := range r.Policies {
		span = max(span, float64(len(p.Series.CostDollars)-1)*p.Series.StepSeconds)
	}
	return span
}

// bound returns the bound that charts show: the served bound if it is known, else the lower bound,
// or 0 if there is none.
func (r Report) bound() float64 {
	if served := servedBound(r.first()); served > 0 {
		return served
	}
	return r.first().LowerBoundDollars
}

// boundName returns the name of bound.
func (r Report) boundName() string {
	if servedBound(r.first()) > 0 {
		return "served bound"
	}
	return "lower bound"
}

// axisOf returns the axis that covers a course of all policies.
func (r Report) axisOf(c course) axis {
	var largest float64
	for _, p := range r.Policies {
		for _, v := range c.samples(p.Series) {
			largest = max(largest, v)
		}
	}
	switch {
	case c.factor == 100:
		return shareAxis(largest)
	case c.prefix == "$":
		largest = max(largest, r.bound())
	}
	return amountAxis(largest, c.whole)
}

// digits returns the number of decimals of the course.
func (r Report) digits(c course) int {
	switch {
	case c.whole:
		return 0
	case c.factor == 100:
		return 1
	}
	return dollarsDigits(r.axisOf(c).max)
}

// describe describes the chart in words, for screen readers.
func (r Report) describe(c course, span float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s over %s.", c.title, duration(span))
	if c.prefix == "$" && r.bound() > 0 {
		fmt.Fprintf(&b, " %s %s.", capital(r.boundName()), r.money(r.bound()))
	}
	for _, p := range r.ended() {
		samples := c.samples(p.Series)
		if len(samples) == 0 {
			fmt.Fprintf(&b, " %s: no samples.", shown(p.Name))
			continue
		}
		write := func(v float64) string { return c.prefix + fixed(c.factor*v, r.digits(c)) + c.suffix }
		fmt.Fprintf(&b, " %s: at most %s, %s at the end.", shown(p.Name), write(slices.Max(samples)), write(samples[len(samples)-1]))
	}
	return b.String()
}

// places converts ticks to positions. Upward axes are counted from the top.
func places(a axis, upwards bool) []place {
	list := make([]place, len(a.ticks))
	for i, t := range a.ticks {
		at := t.at
		if upwards {
			at = 1 - at
		}
		list[i] = place{percentOf(at), t.label}
	}
	return list
}

// percentOf formats a share as a percentage, limited to 0 to 100.
func percentOf(share float64) string {
	text := strconv.FormatFloat(100*min(max(share, 0), 1), 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func floats(list []int) []float64 {
	values := make([]float64, len(list))
	for i, n := range list {
		values[i] = float64(n)
	}
	return values
}
