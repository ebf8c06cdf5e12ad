package outcome

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// servedPolicies returns twoPolicies with a served bound of 75 dollars. The second policy lets
// services wait for longer than that bound assumes.
func servedPolicies() Report {
	r := twoPolicies()
	for i := range r.Policies {
		p := &r.Policies[i]
		p.ServedBoundDollars, p.ServedBoundWaitSeconds, p.ServiceWaitSeconds = 75, 30, 20*float64(i+1)
	}
	return r
}

func TestCostIsShownOverTheServedBound(t *testing.T) {
	reports := []Report{servedPolicies(), servedPolicies()}
	reports[1].Seed++
	summary := summaryOf(t, reports)
	const note = "No policy whose services wait for a machine at most 30.0 s on average can cost less."
	const waited = "packing left a service without a machine for 40.0 s on average, longer than that bound assumes."
	for name, tc := range map[string]struct {
		text  string
		wants []string
	}{
		"table":        {written(t, reports[0].WriteTable), []string{"served %", " 33.3 ", "Served bound: $75.00. " + note, waited}},
		"page":         {written(t, reports[0].WriteHTML), []string{"served %", "<td>6.7</td>", note, waited, "Served bound $75.00", "above the served bound"}},
		"summary":      {written(t, summary.WriteTable), []string{"served %", "6.7 [6.7, 6.7]", "Served bound: $75.00 [$75.00, $75.00]. " + note, waited}},
		"summary page": {written(t, summary.WriteHTML), []string{"served %", "Served bound, mean $75.00", note, waited}},
	} {
		for _, want := range tc.wants {
			if !strings.Contains(tc.text, want) {
				t.Errorf("%s: %q is missing:\n%s", name, want, tc.text)
			}
		}
		if strings.Contains(tc.text, "default left a service") {
			t.Errorf("%s: default is said to let services wait for too long:\n%s", name, tc.text)
		}
	}
}

func TestServicesThatDoNotWaitInTheServedBoundAreSaidSo(t *testing.T) {
	r := servedPolicies()
	for i := range r.Policies {
		r.Policies[i].ServedBoundWaitSeconds = 0.04
	}
	const want = "No policy whose services never wait for a machine can cost less."
	if text := written(t, r.WriteTable); !strings.Contains(text, want) {
		t.Errorf("%q is missing:\n%s", want, text)
	}
}

func TestTheServedBoundIsInTheDocument(t *testing.T) {
	var got struct {
		Policies []struct{ ServedBoundDollars, ServedBoundWaitSeconds, ServiceWaitSeconds float64 }
	}
	testfile.JSON(t, written(t, servedPolicies().WriteJSON), &got)
	if p := got.Policies[1]; p.ServedBoundDollars != 75 || p.ServedBoundWaitSeconds != 30 || p.ServiceWaitSeconds != 40 {
		t.Errorf("the document has %+v", p)
	}
}
