package costreport

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/plural"
)

// The names of rows without a name of the cluster.
const (
	noValue  = "(no value)"
	idleName = "(idle)"
)

// mostUnpriced is the maximum number of machines without a price that the table names.
const mostUnpriced = 5

// WriteTable prints a report for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s by %s: $%s for %s and %s\n", r.what(), r.By, r.Total.text(), plural.Count(r.Nodes, "node"), plural.Count(r.Pods, "pod"))
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	head, cells := "$", func(c *Cost) string { return c.text() }
	if r.Total.PerHour != nil {
		head, cells = "$/HOUR\t$/MONTH", func(c *Cost) string { return dollars.Format(int64(*c.PerHour)) + "\t" + cents(*c.PerMonth) }
	}
	fmt.Fprintf(t, "\n%s\tPODS\t%s\tSHARE\n", strings.ToUpper(strings.TrimPrefix(r.By, labelPrefix)), head)
	line := func(c *Cost, pods, name string) {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.1f %%\n", printable(name), pods, cells(c), 100*c.Share)
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		line(&row.Cost, strconv.Itoa(row.Pods), cmp.Or(row.Name, noValue))
	}
	line(&r.Idle, "-", idleName)
	if err := t.Flush(); err != nil {
		return err
	}
	for _, note := range r.remarks() {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// what says which cost it is.
func (r *Report) what() string {
	if r.From == nil {
		return "Cost per hour now"
	}
	return fmt.Sprintf("Cost from %s to %s", r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
}

// text returns the main amount in dollars.
func (c *Cost) text() string {
	if c.PerHour != nil {
		return dollars.Format(int64(*c.PerHour))
	}
	return dollars.Format(int64(*c.Dollars))
}

// cents returns an amount in dollars and cents.
func cents(a dollars.Amount) string { return strconv.FormatFloat(a.Dollars(), 'f', 2, 64) }

// remarks returns the notes, with those about machines without a price.
func (r *Report) remarks() []string {
	if len(r.Unpriced) == 0 {
		return r.Notes
	}
	var b strings.Builder
	n := len(r.Unpriced)
	fmt.Fprintf(&b, "%s left out with %s, because the price is unknown:", plural.Count(n, "node")+plural.Form(n, " is", " are"), plural.Form(n, "its pods", "their pods"))
	for _, u := range r.Unpriced[:min(n, mostUnpriced)] {
		fmt.Fprintf(&b, "\n  %s: %s", printable(u.Node), printable(u.Reason))
	}
	if more := n - mostUnpriced; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return append([]string{b.String()}, r.Notes...)
}

// WriteCSV writes a report for spreadsheets: a row for each group and one for what is idle, which add up to the total.
func (r *Report) WriteCSV(w io.Writer) error {
	rate := r.Total.PerHour != nil
	head := []string{"name", "pods", "dollars", "share"}
	if rate {
		head = []string{"name", "pods", "dollars_per_hour", "dollars_per_month", "share"}
	}
	all := [][]string{head}
	add := func(name, pods string, c *Cost) {
		line := []string{name, pods, c.text()}
		if rate {
			line = append(line, dollars.Format(int64(*c.PerMonth)))
		}
		all = append(all, append(line, strconv.FormatFloat(c.Share, 'f', 6, 64)))
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		add(cmp.Or(row.Name, noValue), strconv.Itoa(row.Pods), &row.Cost)
	}
	add(idleName, "", &r.Idle)
	if err := csv.NewWriter(w).WriteAll(all); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// printable returns a name of the cluster without control characters, which could be escape sequences of a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
