package outcome

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const joulesPerKilowattHour = 3.6e6

// table returns the main figures of the policies side by side.
func (r Report) table() table {
	f := figures{policies: r.Policies}
	cost := f.column("cost", "$", "The bill of all machines.", dollarsDigits, func(p Policy) float64 { return p.CostDollars })
	above := f.aboveBound()
	if f.any(servedBound) {
		above = f.above("served %", servedHelp, servedBound)
	}
	columns := []column{cost, above, f.saved()}
	if f.any(func(p Policy) float64 { return p.EnergyJoules }) {
		columns = append(columns, f.column("energy", "kWh", "What the machines drew while they were paid for, idle power included.",
			digitsFor, func(p Policy) float64 { return p.EnergyJoules / joulesPerKilowattHour }))
	}
	wait := unitFor(f.largest(func(p Policy) float64 { return max(p.Scheduling.Mean, p.Scheduling.P95) }))
	lost := unitFor(f.largest(func(p Policy) float64 { return p.Moves.LostWorkSeconds }))
	columns = append(columns,
		f.column("wait", "mean "+wait.symbol,
			"From the submission of a pod to its first start, waiting for machines included, over the pods that started.",
			digitsFor, func(p Policy) float64 { return p.Scheduling.Mean / wait.seconds }),
		f.column("wait", "p95 "+wait.symbol, "95 % of the pods that started waited at most this long.",
			digitsFor, func(p Policy) float64 { return p.Scheduling.P95 / wait.seconds }),
		f.column("CPU", "%", "Share of the machines' CPU that running pods requested, while the machines were paid for.",
			oneDigit, func(p Policy) float64 { return 100 * p.Utilization.CPU }),
		f.column("memory", "%", "The same for memory.",
			oneDigit, func(p Policy) float64 { return 100 * p.Utilization.Memory }),
		f.column("nodes", "peak", "The most machines at one time.",
			noDigit, func(p Policy) float64 { return float64(p.Nodes.Peak) }),
		f.column("nodes", "hours", "Machine hours paid for.",
			digitsFor, func(p Policy) float64 { return p.Nodes.Hours }),
		f.texts("moves", "mig/evict", "Pods moved with their state / pods killed to be started elsewhere.",
			func(p Policy) string { return count(p.Moves.Migrations) + "/" + count(p.Moves.Evictions) }),
		f.column("lost", "work "+lost.symbol, "Work of evicted pods that had to be done again.",
			digitsFor, func(p Policy) float64 { return p.Moves.LostWorkSeconds / lost.seconds }),
		f.texts("completed", "/submitted", "Pods that did their work / pods of the workload. A service that runs to the end of the run is not completed.",
			func(p Policy) string { return count(p.Pods.Completed) + "/" + count(p.Pods.Submitted) }),
		f.texts("undone", "pend/fail", "Pods that wait at the end of the run / pods that ended before their work was done and were not started again.",
			func(p Policy) string { return count(p.Pods.Pending) + "/" + count(p.Pods.Failed) }))
	return table{policies: f.names(), columns: columns}.failing(f.failed())
}

// moreFigures returns the figures that are not in the first table.
func (r Report) moreFigures() table {
	f := figures{policies: r.Policies}
	end := unitFor(f.largest(func(p Policy) float64 { return max(p.MakespanSeconds, p.EndSeconds) }))
	wait := unitFor(f.largest(func(p Policy) float64 { return p.Scheduling.Max }))
	columns := []column{
		f.column("makespan", end.symbol, "When the last batch pod ended, counted from the start.", digitsFor, func(p Policy) float64 { return p.MakespanSeconds / end.seconds }),
		f.column("run ended", end.symbol, "", digitsFor, func(p Policy) float64 { return p.EndSeconds / end.seconds }),
		f.column("wait median", wait.symbol, "", digitsFor, func(p Policy) float64 { return p.Scheduling.P50 / wait.seconds }),
		f.column("wait longest", wait.symbol, "", digitsFor, func(p Policy) float64 { return p.Scheduling.Max / wait.seconds }),
		f.column("scheduled", "pods", "", noDigit, func(p Policy) float64 { return float64(p.Pods.Scheduled) }),
		f.column("nodes at start", "", "", noDigit, func(p Policy) float64 { return float64(p.Nodes.Start) }),
		f.column("nodes added", "", "", noDigit, func(p Policy) float64 { return float64(p.Nodes.Added) }),
		f.column("nodes removed", "", "", noDigit, func(p Policy) float64 { return float64(p.Nodes.Removed) }),
	}
	if f.any(servedBound) { // the first table shows the served bound instead
		wait := unitFor(f.largest(func(p Policy) float64 { return p.ServiceWaitSeconds }))
		columns = append(columns, f.aboveBound(), f.column("service wait", "mean "+wait.symbol, "", digitsFor, func(p Policy) float64 { return p.ServiceWaitSeconds / wait.seconds }))
	}
	if f.any(func(p Policy) float64 { return p.WallSeconds }) {
		columns = append(columns, f.column("simulated in", "s", "", digitsFor, func(p Policy) float64 { return p.WallSeconds }))
	}
	return table{policies: f.names(), columns: columns}
}

// energyTable shows where the energy went and how long pods took. It has no columns if no policy
// reports energy.
func (r Report) energyTable() table {
	f := figures{policies: r.Policies}
	t := table{policies: f.names()}
	if !slices.ContainsFunc(r.Policies, func(p Policy) bool { return p.Energy != nil }) {
		return t
	}
	part := func(of func(*Energy) float64) func(Policy) float64 {
		return func(p Policy) float64 {
			if p.Energy == nil {
				return 0
			}
			return of(p.Energy) / 1000
		}
	}
	thousand := func(of func(*Energy) float64) func(Policy) float64 {
		return part(func(e *Energy) float64 { return 1000 * of(e) })
	}
	end := unitFor(f.largest(func(p Policy) float64 { return p.MakespanSeconds }))
	span := unitFor(f.largest(func(p Policy) float64 { return max(p.Runtime.mean(), p.Response.mean()) }))
	t.columns = []column{
		f.column("energy", "kJ", "What the machines drew while they were paid for.", digitsFor, func(p Policy) float64 { return p.EnergyJoules / 1000 }),
		f.savedEnergy("How much less energy than the first policy it took.", func(p Policy) float64 { return p.EnergyJoules }),
		f.column("to the", "same end", "The same if all machines had run until the longest run ended.", digitsFor, part(func(e *Energy) float64 { return e.SameEndJoules })),
		f.savedEnergy("How much less than the first policy it took up to the same end.", part(func(e *Energy) float64 { return e.SameEndJoules })),
		f.column("tasks", "kJ", "What pods drew above idle power.", digitsFor, part(func(e *Energy) float64 { return e.TaskJoules })),
		f.column("idle", "kJ", "The idle power of machines that could take pods.", digitsFor, part(func(e *Energy) float64 { return e.IdleJoules })),
		f.column("runtime", "mean "+span.symbol, "From the first start of a batch pod to its end.", digitsFor, func(p Policy) float64 { return p.Runtime.mean() / span.seconds }),
		f.column("response", "mean "+span.symbol, "From the arrival of a batch pod to its end.", digitsFor, func(p Policy) float64 { return p.Response.mean() / span.seconds }),
		f.column("makespan", end.symbol, "When the last batch pod ended.", digitsFor, func(p Policy) float64 { return p.MakespanSeconds / end.seconds }),
	}
	if saved := func(p Policy) float64 { return p.Moves.ExpectedSavedJoules / 1000 }; f.any(saved) {
		t.columns = append(t.columns, f.column("moves", "save kJ", "What moves to machines that suit the pods better were expected to save when they were decided.", digitsFor, saved))
	}
	if added := func(p Policy) float64 { return p.Moves.ExpectedAddedJoules / 1000 }; f.any(added) {
		t.columns = append(t.columns, f.column("moves", "cost kJ", "What other such moves were expected to cost, where runtime weighed more than energy.", digitsFor, added))
	}
	if dollars := thousand(func(e *Energy) float64 { return e.Dollars }); f.any(dollars) {
		t.columns = append(t.columns, f.column("electricity", "$", "The cost of the energy, in addition to the bill of the machines.", dollarsDigits, dollars))
	}
	if grams := thousand(func(e *Energy) float64 { return e.CarbonGrams }); f.any(grams) {
		t.columns = append(t.columns, f.column("carbon", "g", "The emissions of the energy, in grams of CO2 equivalent.", digitsFor, grams))
	}
	return t
}

// mean returns 0 for nil.
func (w *Waits) mean() float64 {
	if w == nil {
		return 0
	}
	return w.Mean
}

func (f figures) savedEnergy(help string, energy func(Policy) float64) column {
	c := f.texts("saved", "%", help, func(p Policy) string {
		if percent, ok := percentBelow(energy(p), energy(f.policies[0])); ok {
			return fixed(percent, 1)
		}
		return absent
	})
	c.cells[0].value = absent
	return c
}

// eventCounts has a column for each kind of event.
func (r Report) eventCounts() table {
	f := figures{policies: r.Policies}
	kinds := map[string]bool{}
	for _, p := range r.Policies {
		for kind := range p.Events {
			kinds[kind] = true
		}
	}
	t := table{policies: f.names()}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.columns = append(t.columns, f.column(shown(kind), "", "", noDigit, func(p Policy) float64 { return float64(p.Events[kind]) }))
	}
	return t
}

// notes returns the lines of plain text that belong to the table. Names are cut to the given number
// of runes.
func (r Report) notes(runes int) []string {
	var lines []string
	for _, p := range r.Policies {
		if p.Error != "" {
			lines = append(lines, failedNote(p.Name, runes, p.Error))
		}
	}
	if !r.hasEnded() {
		return lines
	}
	return append(lines, r.endedNotes(runes)...)
}

// endedNotes returns the lines about the policies that did not fail, of which there is at least one.
func (r Report) endedNotes(runes int) []string {
	first := r.first()
	lines := []string{"No lower bound of the cost is known."}
	if first.LowerBoundDollars > 0 {
		lines[0] = fmt.Sprintf("Lower bound: %s. No policy that does all the work can cost less.", r.money(first.LowerBoundDollars))
	}
	if first.ServedBoundDollars > 0 {
		lines = append(lines, servedNote(r.money(first.ServedBoundDollars), seconds(first.ServedBoundWaitSeconds)))
	}
	if r.BoundsError != "" {
		lines = append(lines, boundsNote(r.BoundsError))
	}
	for _, p := range r.Policies {
		if p.ServedBoundDollars > 0 && p.ServiceWaitSeconds > p.ServedBoundWaitSeconds {
			lines = append(lines, waitedNote(shortened(p.Name, runes), seconds(p.ServiceWaitSeconds)))
		}
	}
	if len(r.Policies) > 1 {
		lines = append(lines, savedNote(r.Policies[0].Name, runes, r.Policies[0].Error))
	}
	if slices.ContainsFunc(r.Policies, func(p Policy) bool { return p.unfinished() > 0 }) {
		lines = append(lines, "Pods stayed pending or failed: a policy that leaves work undone pays less for that reason alone.")
	}
	return lines
}

const servedHelp = "How far the cost lies above the served bound, which is for policies that keep each service on a machine from its arrival to its end."

// servedNote explains the served bound and its assumption.
func servedNote(bound, wait string) string {
	whose := "whose services never wait for a machine"
	if wait != seconds(0) {
		whose = fmt.Sprintf("whose services wait for a machine at most %s on average", wait)
	}
	return fmt.Sprintf("Served bound: %s. No policy %s can cost less.", bound, whose)
}

// failedNote names a policy that failed, and why.
func failedNote(name string, runes int, err string) string {
	return fmt.Sprintf("Policy %s failed: %s.", shortened(name, runes), oneLine(err))
}

// boundsNote says why a bound is missing.
func boundsNote(err string) string { return capital(oneLine(err)) + "." }

// oneLine returns the text of an error on one line, without a final period.
func oneLine(err string) string {
	return strings.TrimSuffix(shown(strings.ReplaceAll(err, "\n", "; ")), ".")
}

// savedNote says what the savings are compared with. err is not empty if that policy failed.
func savedNote(first string, runes int, err string) string {
	if err != "" {
		return fmt.Sprintf("Saved: unknown, because %s, the first policy, failed.", shortened(first, runes))
	}
	return fmt.Sprintf("Saved: against %s, the first policy.", shortened(first, runes))
}

// waitedNote says that the policy violates the assumption of the served bound.
func waitedNote(name, wait string) string {
	return fmt.Sprintf("%s left a service without a machine for %s on average, longer than that bound assumes.", name, wait)
}

// seconds formats a time for a sentence.
func seconds(v float64) string { return fixed(v, 1) + " s" }

func servedBound(p Policy) float64 { return p.ServedBoundDollars }

// money formats an amount with as many decimals as suit the costs of the report.
func (r Report) money(v float64) string {
	f := figures{policies: r.Policies}
	return dollars(v, f.largest(func(p Policy) float64 { return max(p.CostDollars, p.LowerBoundDollars, p.ServedBoundDollars) }))
}

// unfinished returns the number of pods with unfinished work.
func (p Policy) unfinished() int { return p.Pods.Pending + p.Pods.Failed }

// reason is a reason for pending pods, and their number.
type reason struct {
	text string
	pods int64
}

// pendingReasons returns the most frequent reason first; ties are ordered by text.
func (p Policy) pendingReasons() []reason {
	var reasons []reason
	for text, pods := range p.PendingReasons {
		reasons = append(reasons, reason{text, pods})
	}
	slices.SortFunc(reasons, func(a, b reason) int {
		return cmp.Or(cmp.Compare(b.pods, a.pods), cmp.Compare(a.text, b.text))
	})
	return reasons
}

// figures makes columns of policies.
type figures struct{ policies []Policy }

func (f figures) names() []string {
	names := make([]string, len(f.policies))
	for i, p := range f.policies {
		names[i] = p.Name
	}
	return names
}

func (f figures) failed() []bool {
	failed := make([]bool, len(f.policies))
	for i, p := range f.policies {
		failed[i] = p.Error != ""
	}
	return failed
}

// column has a number for each policy. digits returns the number of decimals that suits the largest
// of them.
func (f figures) column(title, unit, help string, digits func(largest float64) int, value func(Policy) float64) column {
	after := digits(f.largest(value))
	return f.texts(title, unit, help, func(p Policy) string { return fixed(value(p), after) })
}

func (f figures) texts(title, unit, help string, text func(Policy) string) column {
	c := column{title: title, unit: unit, help: help}
	for _, p := range f.policies {
		if p.Error != "" {
			c.cells = append(c.cells, cell{value: absent})
			continue
		}
		c.cells = append(c.cells, cell{value: text(p)})
	}
	return c
}

func (f figures) aboveBound() column {
	return f.above("bound %", "How far the cost lies above the lower bound, below which no policy can go.",
		func(p Policy) float64 { return p.LowerBoundDollars })
}

func (f figures) above(unit, help string, bound func(Policy) float64) column {
	return f.texts("above", unit, help, func(p Policy) string {
		if percent, ok := percentAbove(p.CostDollars, bound(p)); ok {
			return fixed(percent, 1)
		}
		return absent
	})
}

func (f figures) saved() column {
	c := f.texts("saved", "%", "How much less than the first policy it cost.", func(p Policy) string {
		if percent, ok := percentBelow(p.CostDollars, f.policies[0].CostDollars); ok {
			return fixed(percent, 1)
		}
		return absent
	})
	if len(c.cells) > 0 {
		c.cells[0].value = absent
	}
	return c
}

func (f figures) largest(value func(Policy) float64) float64 {
	var largest float64
	for _, p := range f.policies {
		largest = max(largest, value(p))
	}
	return largest
}

func (f figures) any(value func(Policy) float64) bool { return f.largest(value) > 0 }

func dollarsDigits(largest float64) int { return max(2, digitsFor(largest)) }
func oneDigit(float64) int              { return 1 }
func noDigit(float64) int               { return 0 }
