package queueing

import (
	"fmt"
	"strings"
	"testing"
)

var columns = Columns{Time: "time", Replicas: "replicas", ArrivalRate: "rate", Response: "response"}

func TestSamplesKnowTheResponseTimeOfTheRowAbove(t *testing.T) {
	got, err := ReadSamples(strings.NewReader("time,rate,replicas,response\n0,50,3,0.1\n60,60,4,0.2\n120,55.5,4,0.15\n"), columns)
	if want := "[{3 50 0.1 NaN} {4 60 0.2 0.1} {4 55.5 0.15 0.2}]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// TestFitLeavesOutStepsThatSayNothing: Fit drops a step in which no request arrived or was answered, or whose response
// time is above the limit, and also the next step, whose past is unknown.
func TestFitLeavesOutStepsThatSayNothing(t *testing.T) {
	for name, row := range map[string]string{
		"nothing came": "0,3,", "nothing came, and the last mean stands": "0,3,0.4", "not a number": "50,3,NaN", "no answer": "50,3,", "0 s": "50,3,0", "overloaded": "50,3,0.401", "no rate": ",3,0.2",
	} {
		text := "rate,replicas,response\n50,3,0.1\n55,3,0.11\n" + row + "\n60,4,0.4\n65,4,0.25\n70,4,0.3\n"
		bounded := columns
		bounded.MostResponse = 0.4
		got, err := ReadSamples(strings.NewReader(text), bounded)
		if err != nil || len(got) != 6 {
			t.Errorf("%s: %v, %v, want 6 samples", name, got, err)
			continue
		}
		for i, want := range []bool{false, true, false, false, true, true} {
			if got[i].Valid() != want {
				t.Errorf("%s: row %d is %+v: counts %v, want %v", name, i+1, got[i], got[i].Valid(), want)
			}
		}
	}
}

func TestSamplesThatCannotBeAreRefused(t *testing.T) {
	for _, tc := range []struct{ name, rows, says string }{
		{"no replicas", "50,0,0.1\n", `line 2, column replicas: "0": must be a whole number of replicas from 1 to 1000000`},
		{"part of a replica", "50,2.5,0.1\n", `line 2, column replicas: "2.5"`},
		{"replicas without end", "50,1000001,0.1\n", "line 2, column replicas"},
		{"unknown replicas", "50,,0.1\n", "line 2, column replicas"},
		{"a rate below 0", "50,1,0.1\n-1,1,0.1\n", `line 3, column rate: "-1": must be requests per second from 0`},
		{"a rate without end", "Inf,1,0.1\n", "line 2, column rate"},
		{"an answer before the question", "50,1,-0.1\n", `line 2, column response: "-0.1": must be seconds from 1e-09 to 3600`},
		{"an answer in no time", "50,1,1e-10\n", "line 2, column response"},
		{"an answer next day", "50,1,3601\n", "line 2, column response"},
		{"too much to compute with", strings.Repeat("50,1000000,0.1\n", 4) + "50,1,0.1\n", "more than 4000000 replicas"},
	} {
		got, err := ReadSamples(strings.NewReader("rate,replicas,response\n"+tc.rows), columns)
		if err == nil || got != nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, %v, want it refused with %q", tc.name, got, err, tc.says)
		}
	}
	most := "rate,replicas,response\n" + strings.Repeat("50,1000000,0.1\n", 4)
	if got, err := ReadSamples(strings.NewReader(most), columns); err != nil || len(got) != 4 {
		t.Errorf("%v, %v, want as much as can be computed with", got, err)
	}
}
