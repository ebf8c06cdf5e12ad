package outcome

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// table has a row per policy and a column per figure. The terminal and the page share it.
type table struct {
	policies []string
	columns  []column
}

// column is one figure of all policies.
type column struct {
	title, unit string
	// help explains the figure in a sentence; it may be empty.
	help  string
	cells []cell
}

// cell is the figure of one policy. spread is its range over the seeds, or empty.
type cell struct{ value, spread string }

// failing returns the table with a word in the first cell of each policy that failed. Its other
// cells are absent already.
func (t table) failing(failed []bool) table {
	for i, is := range failed {
		if is {
			t.columns[0].cells[i].value = "failed"
		}
	}
	return t
}

// longestName is the number of runes of a policy's name that the terminal shows. Pages show all.
const longestName = 24

// gap is the minimum space between two columns.
const gap = "  "

// write prints the table with two header lines, titles above units. Names are on the left, and
// figures are aligned on the right.
func (t table) write(w io.Writer) error {
	width := len("policy")
	for _, name := range t.policies {
		width = max(width, utf8.RuneCountInString(shortened(name, longestName)))
	}
	lines := make([]strings.Builder, 2+len(t.policies))
	names := append([]string{"policy", ""}, t.policies...)
	for i, name := range names {
		if i > 1 {
			name = shortened(name, longestName)
		}
		fmt.Fprintf(&lines[i], "%-*s\t", width, name)
	}
	for _, c := range t.columns {
		fmt.Fprintf(&lines[0], "%s\t", c.title)
		fmt.Fprintf(&lines[1], "%s\t", c.unit)
		for i, cell := range c.cells {
			fmt.Fprintf(&lines[2+i], "%s\t", strings.TrimSpace(cell.value+" "+cell.spread))
		}
	}
	var out strings.Builder
	aligned := tabwriter.NewWriter(&out, 0, 0, len(gap), ' ', tabwriter.AlignRight)
	for i := range lines {
		fmt.Fprintln(aligned, lines[i].String())
	}
	if err := aligned.Flush(); err != nil {
		return err
	}
	// With right alignment, the first column has a gap before it as well.
	_, err := io.WriteString(w, strings.ReplaceAll(strings.TrimPrefix(out.String(), gap), "\n"+gap, "\n"))
	return err
}

// WriteTable writes the report for a terminal: a row per policy, a breakdown of the energy if it is
// known, the lower bound, and the reasons for pending pods. Empty columns, such as an energy of 0
// for all policies, are omitted. Lines stay below 150 columns for amounts of up to seven digits.
// Names are cut to 24 runes, and unprintable characters are escaped. It returns an error in the
// cases of [Report.WriteJSON].
func (r Report) WriteTable(w io.Writer) error {
	if err := r.check(); err != nil {
		return err
	}
	out := &strings.Builder{}
	fmt.Fprintf(out, "Scenario %s, seed %d, %s.\n", shortened(r.Scenario, 100), r.Seed, counted(len(r.Policies), "policy"))
	if len(r.Policies) > 0 {
		fmt.Fprintln(out)
		if err := r.table().write(out); err != nil {
			return err
		}
		if energy := r.energyTable(); len(energy.columns) > 0 {
			fmt.Fprintln(out)
			if err := energy.write(out); err != nil {
				return err
			}
		}
		fmt.Fprintln(out)
		for _, line := range r.notes(longestName) {
			fmt.Fprintln(out, line)
		}
	}
	for _, p := range r.Policies {
		for _, reason := range p.pendingReasons() {
			fmt.Fprintf(out, "Pending with %s: %s × %s\n", shortened(p.Name, longestName), count(reason.pods), shortened(reason.text, 100))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
