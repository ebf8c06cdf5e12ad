package outcome

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// WriteJSON writes the summary as one indented JSON document that ends with a newline. It returns
// an error and writes nothing if a number is NaN, infinite or beyond 1e18. The error names every
// such field.
func (s Summary) WriteJSON(w io.Writer) error {
	if err := s.check(); err != nil {
		return err
	}
	s.Seeds, s.Policies = jsondoc.List(s.Seeds), jsondoc.List(s.Policies)
	return jsondoc.Write(w, s)
}

// WriteTable writes the summary as tables for a terminal: the mean of each figure over the seeds,
// with its minimum and maximum in brackets. Cost, energy, pods and moves have separate tables,
// which keeps lines below 150 columns. Names are treated as by [Report.WriteTable]. It returns an
// error in the cases of [Summary.WriteJSON].
func (s Summary) WriteTable(w io.Writer) error {
	if err := s.check(); err != nil {
		return err
	}
	out := &strings.Builder{}
	fmt.Fprintf(out, "Scenario %s, %s, %s. Mean over the seeds [least, most].\n",
		shortened(s.Scenario, 100), counted(len(s.Seeds), "seed"), counted(len(s.Policies), "policy"))
	if len(s.Policies) > 0 {
		for _, t := range []table{s.costTable(), s.energyTable(), s.podTable(), s.moveTable()} {
			if len(t.columns) == 0 {
				continue
			}
			fmt.Fprintln(out)
			if err := t.write(out); err != nil {
				return err
			}
		}
		fmt.Fprintln(out)
		for _, note := range s.notes(longestName) {
			fmt.Fprintln(out, note)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// WriteHTML writes the summary as one HTML page: a table, and bars with their range over the seeds.
// The properties of [Report.WriteHTML] apply.
func (s Summary) WriteHTML(w io.Writer) error {
	if err := s.check(); err != nil {
		return err
	}
	p := page{
		Title: shown(s.Scenario) + ": simulated cost over " + counted(len(s.Seeds), "seed"), Kicker: "Simulation, summary", Heading: s.Scenario,
		Facts: []string{counted(len(s.Seeds), "seed") + s.seedList(), counted(len(s.Policies), "policy")}, Lead: s.lead(),
	}
	if len(s.Policies) > 0 {
		p.Notes = append(s.notes(1<<30), "Figures are means over the seeds; the minimum and maximum are in brackets.")
		for i, policy := range s.ended() {
			p.Legend = append(p.Legend, legendEntry{i, policy.Name})
		}
		all := s.costTable()
		all.columns = slices.Concat(all.columns, s.energyTable().columns, s.podTable().columns, s.moveTable().columns)
		p.Summary = all.view("Figures of each policy, over all seeds")
	}
	if len(p.Legend) > 0 {
		p.Bars = []barChart{s.costBars(), s.waitBars()}
	}
	return p.write(w)
}

// seedList lists the seeds if there are at most ten.
func (s Summary) seedList() string {
	if len(s.Seeds) == 0 || len(s.Seeds) > 10 {
		return ""
	}
	return " (" + strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Seeds), " ", ", "), "[]") + ")"
}

// lead returns the result in a sentence, as Report.lead does.
func (s Summary) lead() string {
	if len(s.Policies) == 0 {
		return "No policy was run."
	}
	if !s.hasEnded() {
		return everyPolicyFailed
	}
	best := s.first()
	for _, p := range s.ended() {
		if p.PodsUndone.Mean < best.PodsUndone.Mean || p.PodsUndone.Mean == best.PodsUndone.Mean && p.CostDollars.Mean < best.CostDollars.Mean {
			best = p
		}
	}
	sentence := fmt.Sprintf("%s costs %s", shown(best.Name), s.money(best.CostDollars.Mean))
	if saved := best.SavedPercent; saved != nil && best.CostDollars.Mean < s.Policies[0].CostDollars.Mean {
		sentence += fmt.Sprintf("; seed by seed it saves %s %% [%s, %s] against %s",
			fixed(saved.Mean, 1), fixed(saved.Min, 1), fixed(saved.Max, 1), shown(s.Policies[0].Name))
	}
	switch {
	case len(s.Policies) == 1:
		return sentence + "."
	case s.unequal():
		return "Lowest mean cost among those that left the fewest pods undone: " + sentence + "."
	}
	return "Lowest mean cost: " + sentence + "."
}

func (s Summary) unequal() bool {
	for _, p := range s.ended() {
		if p.PodsUndone.Mean != s.first().PodsUndone.Mean {
			return true
		}
	}
	return false
}

// costTable shows the costs of the policies.
func (s Summary) costTable() table {
	above := s.column("above", "bound %", "How far the cost lies above the lower bound, below which no policy can go.", oneDigit,
		func(p PolicySummary) *Spread { return p.AboveLowerBoundPercent })
	if s.largest(servedBounds) > 0 {
		above = s.column("above", "served %", servedHelp, oneDigit, func(p PolicySummary) *Spread { return p.AboveServedBoundPercent })
	}
	saved := s.column("saved", "%", "How much less than the first policy it cost, seed by seed.", oneDigit,
		func(p PolicySummary) *Spread { return p.SavedPercent })
	if len(s.Policies) > 0 {
		saved.cells[0] = cell{value: absent}
	}
	t := s.table(
		s.column("cost", "$", "The bill of all machines.", dollarsDigits, func(p PolicySummary) *Spread { return &p.CostDollars }), above, saved,
		s.column("node hours", "h", "Machine hours paid for.", digitsFor, func(p PolicySummary) *Spread { return &p.NodeHours }))
	if s.largest(func(p PolicySummary) *Spread { return &p.EnergyJoules }) > 0 {
		t.columns = append(t.columns, s.column("energy", "kWh", "What the machines drew while they were paid for, idle power included.", digitsFor,
			func(p PolicySummary) *Spread { return p.EnergyJoules.over(joulesPerKilowattHour) }))
	}
	failed := make([]bool, len(s.Policies))
	for i, p := range s.Policies {
		failed[i] = p.Error != ""
	}
	return t.failing(failed)
}

func servedBounds(p PolicySummary) *Spread { return &p.ServedBoundDollars }

// podTable shows the utilization of machines and the waits of pods.
func (s Summary) podTable() table {
	wait := unitFor(s.largest(func(p PolicySummary) *Spread { return &p.SchedulingSecondsMean }))
	t := s.table(
		s.column("wait", "mean "+wait.symbol, "From the submission of a pod to its first start, over the pods that started.", digitsFor,
			func(p PolicySummary) *Spread { return p.SchedulingSecondsMean.over(wait.seconds) }),
		s.column("CPU", "%", "Share of the machines' CPU that running pods requested, while the machines were paid for.", oneDigit,
			func(p PolicySummary) *Spread { return &p.CPUUtilizationPercent }),
		s.column("memory", "%", "The same for memory.", oneDigit, func(p PolicySummary) *Spread { return &p.MemoryUtilizationPercent }))
	undone := func(p PolicySummary) *Spread { return &p.PodsUndone }
	if s.largest(undone) > 0 {
		t.columns = append(t.columns, s.column("undone", "pods", "Pods that were pending or had failed at the end.", digitsFor, undone))
	}
	return t
}

// moveTable shows the number of moved pods. It has no columns if no pod moved.
func (s Summary) moveTable() table {
	migrations := func(p PolicySummary) *Spread { return &p.Migrations }
	evictions := func(p PolicySummary) *Spread { return &p.Evictions }
	if s.largest(migrations) == 0 && s.largest(evictions) == 0 {
		return s.table()
	}
	lost := unitFor(s.largest(func(p PolicySummary) *Spread { return &p.LostWorkSeconds }))
	return s.table(
		s.column("migrations", "pods", "Pods moved with their state.", digitsFor, migrations),
		s.column("evictions", "pods", "Pods killed to be started elsewhere.", digitsFor, evictions),
		s.column("lost", "work "+lost.symbol, "Work of evicted pods that had to be done again.", digitsFor,
			func(p PolicySummary) *Spread { return p.LostWorkSeconds.over(lost.seconds) }))
}

// notes returns the lines of text that belong to the tables.
func (s Summary) notes(runes int) []string {
	var lines []string
	for _, p := range s.Policies {
		if p.Error != "" {
			lines = append(lines, failedNote(p.Name, runes, p.Error))
		}
	}
	if !s.hasEnded() {
		return lines
	}
	return append(lines, s.endedNotes(runes)...)
}

// endedNotes returns the lines about the policies that did not fail, of which there is at least one.
func (s Summary) endedNotes(runes int) []string {
	first := s.first()
	bound := first.LowerBoundDollars
	lines := []string{"No lower bound of the cost is known."}
	if bound.Max > 0 {
		lines[0] = fmt.Sprintf("Lower bound: %s [%s, %s]. No policy that does all the work can cost less.",
			s.money(bound.Mean), s.money(bound.Min), s.money(bound.Max))
	}
	if served := first.ServedBoundDollars; served.Max > 0 {
		lines = append(lines, servedNote(fmt.Sprintf("%s [%s, %s]", s.money(served.Mean), s.money(served.Min), s.money(served.Max)),
			seconds(first.ServedBoundWaitSeconds.Mean)))
	}
	if s.BoundsError != "" {
		lines = append(lines, boundsNote(s.BoundsError))
	}
	for _, p := range s.Policies {
		if p.ServedBoundDollars.Max > 0 && p.ServiceWaitSeconds.Mean > p.ServedBoundWaitSeconds.Mean {
			lines = append(lines, waitedNote(shortened(p.Name, runes), seconds(p.ServiceWaitSeconds.Mean)))
		}
	}
	if len(s.Policies) > 1 {
		lines = append(lines, savedNote(s.Policies[0].Name, runes, s.Policies[0].Error))
	}
	if s.largest(func(p PolicySummary) *Spread { return &p.PodsUndone }) > 0 {
		lines = append(lines, "Pods stayed pending or failed: a policy that leaves work undone pays less for that reason alone.")
	}
	return lines
}

func (s Summary) costBars() barChart {
	axis, name := scale{prefix: "$", bound: s.first().LowerBoundDollars.Mean}, "Lower bound"
	if served := s.first().ServedBoundDollars.Mean; served > 0 {
		axis.bound, name = served, "Served bound"
	}
	if axis.bound > 0 {
		axis.boundText = name + ", mean " + s.money(axis.bound)
	}
	chart := s.bars(axis, func(p PolicySummary) *Spread { return &p.CostDollars }, s.money)
	chart.Title, chart.Label = "Cost", "Cost of each policy. "+chart.Label
	chart.About = "Mean over the seeds (bar), from the least to the most (line)."
	return chart
}

func (s Summary) waitBars() barChart {
	wait := func(p PolicySummary) *Spread { return &p.SchedulingSecondsMean }
	u := unitFor(s.largest(wait))
	digits := digitsFor(s.largest(wait) / u.seconds)
	chart := s.bars(scale{suffix: " " + u.symbol}, func(p PolicySummary) *Spread { return wait(p).over(u.seconds) },
		func(v float64) string { return fixed(v, digits) + " " + u.symbol })
	chart.Title, chart.Label = "Mean time to schedule", "Mean time to schedule of each policy. "+chart.Label
	chart.About = "From submission to first start: mean over the seeds (bar), from the least to the most (line)."
	return chart
}

// bars draws a figure with its range.
func (s Summary) bars(axis scale, figure func(PolicySummary) *Spread, write func(float64) string) barChart {
	var measures []measure
	for i, p := range s.ended() {
		f := figure(p)
		measures = append(measures, measure{
			index: i, policy: p.Name, value: f.Mean, ranged: true, low: f.Min, high: f.Max, text: write(f.Mean),
			description: fmt.Sprintf("mean %s, from %s to %s", write(f.Mean), write(f.Min), write(f.Max)),
		})
	}
	return newBarChart(measures, axis)
}

// money formats an amount with as many decimals as suit the costs of the summary.
func (s Summary) money(v float64) string {
	cost := func(p PolicySummary) *Spread {
		return &Spread{Max: max(p.CostDollars.Max, p.LowerBoundDollars.Max, p.ServedBoundDollars.Max)}
	}
	return dollars(v, s.largest(cost))
}

func (s Summary) table(columns ...column) table {
	t := table{columns: columns}
	for _, p := range s.Policies {
		t.policies = append(t.policies, p.Name)
	}
	return t
}

// column has a spread for each policy; nil means that it does not exist.
func (s Summary) column(title, unit, help string, digits func(largest float64) int, figure func(PolicySummary) *Spread) column {
	after := digits(s.largest(figure))
	c := column{title: title, unit: unit, help: help}
	for _, p := range s.Policies {
		f := figure(p)
		if f == nil || p.Error != "" {
			c.cells = append(c.cells, cell{value: absent})
			continue
		}
		c.cells = append(c.cells, cell{fixed(f.Mean, after), "[" + fixed(f.Min, after) + ", " + fixed(f.Max, after) + "]"})
	}
	return c
}

func (s Summary) largest(figure func(PolicySummary) *Spread) float64 {
	var largest float64
	for _, p := range s.Policies {
		if f := figure(p); f != nil {
			largest = max(largest, f.Max)
		}
	}
	return largest
}

// over returns the spread in a larger unit.
func (s Spread) over(unit float64) *Spread {
	return &Spread{s.Mean / unit, s.Min / unit, s.Max / unit}
}

// check reports every number of the summary that is NaN, infinite or beyond 1e18.
func (s Summary) check() error {
	return errors.Join(numbersOutside(reflect.ValueOf(s), "", -limit)...)
}
