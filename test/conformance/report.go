package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// verdict is what a test's outcomes mean.
type verdict string

const (
	byDesign   verdict = "by design"       // it differs and is in the list
	unexpected verdict = "NEW DIFFERENCE"  // it differs and is not in the list
	unstable   verdict = "unstable"        // it failed once with Supercargo, and passed once
	failsBoth  verdict = "fails in both"   // so it says nothing of Supercargo
	outdated   verdict = "LISTED, NO MORE" // it is in the list and does not differ
)

// finding is a test that failed with Supercargo, or an entry of the list that did not.
type finding struct {
	name, test string
	verdict    verdict
	reason     string
}

// report gathers what the packages' runs came to.
type report struct {
	ran      []string // packages
	passed   int
	findings []finding
}

// add takes a package's outcomes: of the first run with Supercargo, and of the second run
// of what failed in it and that with the stock scheduler, or nil when nothing failed. A
// difference is what failed in both and passed with the stock scheduler.
func (r *report) add(name string, first, second, stock outcomes) {
	r.ran = append(r.ran, name)
	r.passed += first.passed()
	for _, test := range first.failed() {
		f := finding{name: name, test: test, verdict: unexpected}
		switch {
		case stock[test] != passedOutcome && (test != wholePackage || len(stock.failed()) > 0):
			f.verdict = failsBoth
		case second[test] == passedOutcome || test == wholePackage && len(second.failed()) == 0:
			f.verdict = unstable
		}
		r.findings = append(r.findings, f)
	}
}

// judge compares the differences with the list. Entries of packages that were not run,
// or not completely, cannot be outdated.
func (r *report) judge(l *list, complete bool) {
	for _, e := range l.Differences {
		met := false
		for i := range r.findings {
			f := &r.findings[i]
			if !e.covers(f.name, f.test) {
				continue
			}
			met = true
			if f.verdict == unexpected {
				f.verdict, f.reason = byDesign, e.Reason
			}
		}
		if !met && complete && slices.Contains(r.ran, e.Package) {
			r.findings = append(r.findings, finding{e.Package, e.Test, outdated, "remove it from test/conformance/differences.yaml"})
		}
	}
}

// ok reports whether Supercargo differs where the list says so, and nowhere else.
func (r *report) ok() bool {
	return !slices.ContainsFunc(r.findings, func(f finding) bool { return f.verdict == unexpected || f.verdict == outdated })
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "\n%d packages, %d tests and subtests passed with Supercargo\n", len(r.ran), r.passed)
	if len(r.findings) == 0 {
		fmt.Fprintln(w, "No differences.")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nVERDICT\tPACKAGE\tTEST\tREASON")
	for _, f := range r.findings {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.verdict, f.name, f.test, f.reason)
	}
	_ = t.Flush() // a report that cannot be printed is noticed without it
}
