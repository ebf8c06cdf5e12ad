package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var testInPage = regexp.MustCompile(`\bTest[A-Z]\w+`)

// TestEveryTestThatPagesNameExists finds names of tests anywhere in the pages, in prose and in commands.
func TestEveryTestThatPagesNameExists(t *testing.T) {
	tests := testsOfTheTree(t)
	found := 0
	for _, p := range pages(t) {
		for i, line := range strings.Split(p.text, "\n") {
			for _, name := range testInPage.FindAllString(line, -1) {
				found++
				if !tests[name] {
					t.Errorf("%s:%d names %s, and there is no such test", p.name, i+1, name)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("found only %d names", found)
	}
}

// platforms are the columns of the summary of what works where, and the rows of its sections.
var platforms = []string{"EKS", "AKS", "GKE", "kubeadm", "OpenStack"}

// rowsOf returns the cells of the rows of all tables that have one of the platforms in their header or in their first
// column, by the heading that is above them. Targets of links are removed.
func rowsOf(p page) map[string][][]string {
	rows, under := map[string][][]string{}, ""
	for _, line := range p.prose() {
		if match := heading.FindStringSubmatch(line); match != nil {
			under = match[1]
		}
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") {
			continue
		}
		var cells []string
		for _, cell := range strings.Split(strings.Trim(linkTarget.ReplaceAllString(line, "]"), "| "), "|") {
			cells = append(cells, strings.Trim(strings.TrimSpace(cell), "[]"))
		}
		rows[under] = append(rows[under], cells)
	}
	return rows
}

// summaryOf returns what a summary says of each part and platform, as "part on platform", and the faults of its form.
func summaryOf(rows [][]string) (said map[string]string, faults []string) {
	said = map[string]string{}
	if len(rows) == 0 || !slices.Equal(rows[0], append([]string{"part"}, platforms...)) {
		return nil, []string{fmt.Sprintf("the summary has the columns %q", rows)}
	}
	for _, row := range rows[1:] {
		for i, platform := range platforms {
			if !summaryCell.MatchString(row[i+1]) {
				faults = append(faults, fmt.Sprintf("%s on %s is %q", row[0], platform, row[i+1]))
			}
			said[row[0]+" on "+platform] = row[i+1]
		}
	}
	return said, faults
}

var (
	summaryCell = regexp.MustCompile(`^(no|(yes|part); (tested|data tested|simulated|not tried))$`)
	sectionCell = regexp.MustCompile(`^(yes|no|part)$`)
)

// worksFaults compares the summary with the sections: each part has a section with a row for each platform, which says
// whether the part works there, why, and by which test it was tried, or that it was not.
func worksFaults(p page) (faults []string) {
	rows := rowsOf(p)
	said, faults := summaryOf(rows["Summary"])
	for i := 1; i < len(rows["Summary"]); i++ {
		part := rows["Summary"][i][0]
		section := rows[part]
		if len(section) != len(platforms)+1 || !slices.Equal(section[0], []string{"cluster", "works", "why", "tried"}) {
			faults = append(faults, fmt.Sprintf("%s has the section %q", part, section))
			continue
		}
		for i, platform := range platforms {
			faults = append(faults, cellFaults(part, platform, section[i+1], said[part+" on "+platform])...)
		}
	}
	return faults
}

// cellFaults compares a row of a section with what the summary says.
func cellFaults(part, platform string, row []string, summary string) (faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s on %s: ", part, platform)+fmt.Sprintf(format, args...))
	}
	works, tried, _ := strings.Cut(summary, "; ")
	if row[0] != platform || !sectionCell.MatchString(row[1]) || row[1] != works || row[2] == "" {
		fault("the row is %q, and the summary says %q", row, summary)
	}
	named, untried := testInPage.MatchString(row[3]), strings.HasPrefix(row[3], "not tried: ")
	if named == untried {
		fault("%q neither names a test nor begins with why it was not tried", row[3])
	}
	if works != "no" && untried != (tried == "not tried") {
		fault("tried: %q, and the summary says %q", row[3], summary)
	}
	return faults
}

func TestWhatWorksWhereSaysHowEachCellWasTried(t *testing.T) {
	works := named(t, "docs/what-works-where.md")
	for _, fault := range worksFaults(works) {
		t.Error(fault)
	}
	for name, change := range map[string][2]string{
		"a summary that contradicts its section": {"| yes; tested | yes; not tried |", "| part; tested | yes; not tried |"},
		"a trial that is not there":              {"`TestANodeIsPricedByTheFirstThatKnowsItsPriceAndNeverGuessed` with labels of GKE", "a live cluster"},
		"a test where none is said to have run":  {"not tried: on EKS", "`TestALiveClusterOfEKS`"},
		"a row of another platform":              {"| AKS | part | the cluster's autoscaler", "| Azure | part | the cluster's autoscaler"},
		"another word for how it was tried":      {"; data tested |", "; works fine |"},
	} {
		p := works
		p.text = strings.Replace(p.text, change[0], change[1], 1)
		if p.text == works.text || len(worksFaults(p)) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
}

// TestTheREADMESaysOfWhatWorksWhereWhatItsPageSays holds the table of the README to the summary of the page.
func TestTheREADMESaysOfWhatWorksWhereWhatItsPageSays(t *testing.T) {
	summaries := map[string][][]string{}
	for _, p := range pages(t) {
		for _, rows := range rowsOf(p) {
			if _, faults := summaryOf(rows); faults == nil {
				summaries[p.name] = rows
			}
		}
	}
	if diff := cmp.Diff(summaries["docs/what-works-where.md"], summaries["README.md"]); diff != "" || len(summaries["README.md"]) == 0 {
		t.Errorf("the README differs from the page (-page +README):\n%s", diff)
	}
}
