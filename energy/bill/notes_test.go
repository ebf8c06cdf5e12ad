package bill

import (
	"strings"
	"testing"
	"time"
)

func TestAReportSaysWhatItsFiguresLack(t *testing.T) {
	timed := []Slice{{Pods: []Pod{{Used: new(1.0)}}}}
	for name, tc := range map[string]struct {
		report   Report
		observed []Slice
		modelled bool
		nameless int
		want     string
	}{
		"nothing is lacking":        {Report{Bill: Bill{Covered: time.Hour}}, timed, false, 0, ""},
		"no nodes to model":         {Report{}, nil, true, 0, "No nodes were found"},
		"no meters":                 {Report{}, nil, false, 0, "No power of any node"},
		"no pods":                   {Report{Bill: Bill{Covered: time.Hour}}, nil, false, 0, "No pods were found"},
		"no CPU time":               {Report{Bill: Bill{Covered: time.Hour}}, []Slice{{Pods: []Pod{{}}}}, false, 0, "is shared by requests"},
		"a pod without power":       {Report{Bill: Bill{Covered: time.Hour, Powerless: 1}}, timed, false, 0, "1 pod ran on a node whose power is unknown and is not in the bill"},
		"pods without power":        {Report{Bill: Bill{Covered: time.Hour, Powerless: 2}}, timed, false, 0, "2 pods ran on nodes whose power is unknown and are not in the bill"},
		"a sample without a node":   {Report{Bill: Bill{Covered: time.Hour}}, timed, false, 1, "1 sample of power has no node"},
		"gaps of a tenth":           {Report{Bill: Bill{Covered: 10 * time.Hour, Gaps: time.Hour}}, timed, false, 0, "unknown for 1.0 of 11.0 node-hours"},
		"samples that name no node": {Report{Bill: Bill{Covered: time.Hour}}, timed, false, 7, "7 samples of power have no node"},
	} {
		tc.report.AddNotes(tc.observed, tc.modelled, tc.nameless)
		if got := strings.Join(tc.report.Notes, "\n"); !strings.Contains(got, tc.want) || (tc.want == "") != (got == "") || len(tc.report.Notes) > 1 {
			t.Errorf("%s: %q, want %q alone", name, got, tc.want)
		}
	}
}
