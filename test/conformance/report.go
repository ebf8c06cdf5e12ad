package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// verdict is the conclusion from a test's outcomes.
type verdict string

const (
	byDesign   verdict = "by design"       // it differs and is in the list
	unexpected verdict = "NEW DIFFERENCE"  // it differs and is not in the list
	unstable   verdict = "unstable"        // it failed once with Supercargo, and passed once
	failsBoth  verdict = "FAILS IN BOTH"   // not caused by Supercargo, but it compares nothing
	outdated   verdict = "LISTED, NO MORE" // it is in the list, but does not differ
)

// finding is a test that failed with Supercargo, or an entry of the list whose tests did not.
type finding struct {
	name, test string
	verdict    verdict
	reason     string
}

// report collects the results of the packages' runs.
type report struct {
	ran      []string // packages
	passed   int
	findings []finding
}

// add records a package's outcomes: first is the first run with Supercargo. second and stock are the runs of
// the failed tests with Supercargo and with the stock scheduler, or nil if nothing failed. A test that failed
// in both runs and passed with the stock scheduler is a difference.
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

// judge compares the differences with the list. Entries of packages that did not run, or did not run
// completely, cannot be outdated.
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

// ok reports whether every test was compared, and Supercargo differs exactly where the list says so.
func (r *report) ok() bool {
	return !slices.ContainsFunc(r.findings, func(f finding) bool { return f.verdict != byDesign && f.verdict != unstable })
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
	_ = t.Flush() // the exit code is enough if the report cannot be printed
}
