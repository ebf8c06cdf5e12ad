package planfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"supercargo.dev/supercargo/internal/text/plural"
)

// mostLines is the maximum number of lines for machines, and for reasons, in a table.
const mostLines = 20

// WriteTable writes the plan for a terminal: its price, the machines by flavor, each machine with
// its reason, and the pods without a machine.
func (d Document) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s for $%.4f/h (%s).\n", plural.Count(len(d.Assignments), "pod"), plural.Count(len(d.Purchases), "machine"), d.PricePerHour, d.Algorithm)
	fmt.Fprintf(&b, "Any plan costs at least $%.4f/h: this one is at most %.2f %% above the cheapest there is.\n", d.LowerBoundPerHour, 100*d.Gap)
	if d.ElapsedMillis > 0 {
		fmt.Fprintf(&b, "Planned in %.3f s.\n", d.ElapsedMillis/1000)
	}
	if err := errors.Join(tabulateFlavors(&b, d), tabulateMachines(&b, d), tabulateAlternatives(&b, d)); err != nil {
		return err
	}
	printReasons(&b, "has no machine", "have no machine", d.Unplaceable)
	printReasons(&b, "needs no machine", "need no machine", d.Skipped)
	if len(d.Others) > 0 {
		fmt.Fprintf(&b, "\nIgnored objects that are not pods: %s.\n", counted(d.Others))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func tabulateFlavors(b *strings.Builder, d Document) error {
	if len(d.Machines) == 0 {
		return nil
	}
	pods := map[string]int{}
	for _, p := range d.Purchases {
		pods[p.Flavor] += p.Pods
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nFLAVOR\tMACHINES\tPODS\t$/H EACH\t$/H\n")
	for _, m := range d.Machines {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.4f\t%.4f\n", m.Flavor, m.Count, pods[m.Flavor], m.PricePerHour, float64(m.Count)*m.PricePerHour)
	}
	return t.Flush()
}

func tabulateMachines(b *strings.Builder, d Document) error {
	if len(d.Purchases) == 0 {
		return nil
	}
	zone := func(Purchase) string { return "" }
	header := "MACHINE\t"
	if slices.ContainsFunc(d.Purchases, func(p Purchase) bool { return p.Zone != "" }) {
		zone = func(p Purchase) string { return p.Zone + "\t" }
		header += "ZONE\t"
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\n"+header+"PODS\tCPU\tMEMORY\tWHY\n")
	shown := 0
	for line := 0; line < mostLines && shown < len(d.Purchases); line++ {
		first := d.Purchases[shown]
		alike := 1
		for shown+alike < len(d.Purchases) && sameButName(first, d.Purchases[shown+alike]) {
			alike++
		}
		name := first.Machine
		if alike > 1 {
			last := d.Purchases[shown+alike-1].Machine
			name += " to " + strings.TrimPrefix(last, first.Flavor+"-")
		}
		fmt.Fprintf(t, "%s\t%s%d\t%.0f %%\t%.0f %%\t%s\n", name, zone(first), first.Pods, first.CPUPercent, first.MemoryPercent, first.Reason)
		shown += alike
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more := len(d.Purchases) - shown; more > 0 {
		fmt.Fprintf(b, "... and %d more, which -o json lists.\n", more)
	}
	return nil
}

// sameButName reports whether two machines are equal except for their names.
func sameButName(a, b Purchase) bool {
	a.Machine = b.Machine
	return a == b
}

// printReasons groups pods by reason.
func printReasons(b *strings.Builder, one, many string, pods []Reason) {
	if len(pods) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s %s:\n", plural.Count(len(pods), "pod"), plural.Form(len(pods), one, many))
	var reasons []string
	names := map[string][]string{}
	for _, p := range pods {
		if names[p.Reason] == nil {
			reasons = append(reasons, p.Reason)
		}
		names[p.Reason] = append(names[p.Reason], p.Pod)
	}
	for _, reason := range reasons[:min(mostLines, len(reasons))] {
		some, more := names[reason], ""
		if len(some) > 3 {
			some, more = some[:3], fmt.Sprintf(" and %d more", len(some)-3)
		}
		fmt.Fprintf(b, "  %s%s: %s\n", strings.Join(some, ", "), more, reason)
	}
	if more := len(reasons) - mostLines; more > 0 {
		fmt.Fprintf(b, "  ... and %s, which -o json lists.\n", plural.Count(more, "more reason"))
	}
}

// counted returns the numbers of objects by kind, such as "5 Nodes and 1 Service".
func counted(kinds map[string]int) string {
	var words []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		words = append(words, plural.Count(kinds[kind], kind))
	}
	return plural.List(words)
}

// tabulateAlternatives prints the prices of plans without a flavor, and what they buy instead.
func tabulateAlternatives(w io.Writer, d Document) error {
	if len(d.Alternatives) == 0 {
		return nil
	}
	bought := map[string]int{}
	for _, m := range d.Machines {
		bought[m.Flavor] = m.Count
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nWITHOUT\t$/H\tMORE\tBUYS INSTEAD\n")
	for _, a := range d.Alternatives {
		more := "nothing"
		if d.PricePerHour > 0 {
			more = fmt.Sprintf("%+.2f %%", 100*(a.PricePerHour/d.PricePerHour-1))
		}
		if a.Unplaceable > 0 {
			more = fmt.Sprintf("pods left out: %d", a.Unplaceable)
		}
		fmt.Fprintf(t, "%s\t%.4f\t%s\t%s\n", a.Without, a.PricePerHour, more, instead(a, bought))
	}
	return t.Flush()
}

// instead names the flavors of which an alternative buys more, the largest difference first.
func instead(a Alternative, bought map[string]int) string {
	const most = 3
	type extra struct {
		flavor string
		more   int
	}
	var extras []extra
	for _, m := range a.Machines {
		if more := m.Count - bought[m.Flavor]; more > 0 {
			extras = append(extras, extra{m.Flavor, more})
		}
	}
	slices.SortStableFunc(extras, func(x, y extra) int { return cmp.Compare(y.more, x.more) })
	var names []string
	for _, e := range extras[:min(most, len(extras))] {
		names = append(names, fmt.Sprintf("%d %s", e.more, e.flavor))
	}
	if left := len(extras) - most; left > 0 {
		names = append(names, plural.Count(left, "other flavor"))
	}
	return strings.Join(names, ", ")
}
