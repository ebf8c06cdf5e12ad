package outcome

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// TestEveryNumberIsChecked sets each number of a report in turn to an invalid value. It walks
// through the type itself, with paths in Go notation.
func TestEveryNumberIsChecked(t *testing.T) {
	r := twoPolicies()
	numbers := 0
	visit(reflect.ValueOf(&r).Elem(), "", func(path string, number reflect.Value) {
		numbers++
		before := reflect.ValueOf(number.Interface())
		defer number.Set(before)
		if number.CanInt() {
			number.SetInt(-1)
			expectRefusal(t, r, path, "is -1: must be")
			return
		}
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -0.5, 2e18} {
			number.SetFloat(bad)
			expectRefusal(t, r, path, fmt.Sprintf("is %v: must be", bad))
		}
	})
	if numbers < 2*25+2*6 {
		t.Errorf("only %d numbers tried, want those of two policies", numbers)
	}
}

// visit calls f for each number in v that can be changed.
func visit(v reflect.Value, path string, f func(path string, number reflect.Value)) {
	switch v.Kind() {
	case reflect.Float64, reflect.Int:
		f(path, v)
	case reflect.Struct:
		for i := range v.NumField() {
			visit(v.Field(i), path+" "+v.Type().Field(i).Tag.Get("json"), f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			visit(v.Index(i), fmt.Sprintf("%s[%d]", path, i), f)
		}
	}
}

// expectRefusal expects that every way to write rejects the report, that the error has the number
// and its path, and that nothing is written.
func expectRefusal(t *testing.T, r Report, path, want string) {
	t.Helper()
	spelled := strings.ReplaceAll(strings.TrimSpace(path), " ", ".")
	for _, w := range writersOf(r) {
		var out bytes.Buffer
		err := w.write(&out)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), spelled) {
			t.Errorf("%s: error is %v, want it to contain %q and %q", w.name, err, spelled, want)
		}
		if out.Len() > 0 {
			t.Errorf("%s: %d bytes were written in spite of %v", w.name, out.Len(), err)
		}
	}
}

func TestNegativeCountsInMapsAreRefused(t *testing.T) {
	r := twoPolicies()
	r.Policies[0].Events["end"] = -3
	expectRefusal(t, r, `policies[0] events["end"]`, "is -3: must be")
	r = twoPolicies()
	r.Policies[1].PendingReasons["too large"] = -4
	if err := r.check(); err == nil || !strings.Contains(err.Error(), `pendingReasons["too large"] is -4`) {
		t.Errorf("error is %v", err)
	}
}

func TestReportsThatContradictThemselvesAreRefused(t *testing.T) {
	tests := []struct {
		name string
		edit func(r *Report)
		want string
	}{
		{"a course is shorter than the others", func(r *Report) { r.Policies[1].Series.Moves = []int{1} }, "policies[1].series: costDollars, cpu"},
		{"a course is missing", func(r *Report) { r.Policies[0].Series.CPU = nil }, "policies[0].series: costDollars, cpu"},
		{"three samples lie on each other", func(r *Report) { r.Policies[0].Series.StepSeconds = 0 }, "policies[0].series: stepSeconds is 0"},
		{"two samples lie on each other", func(r *Report) { r.Policies[1].Series.StepSeconds = 0 }, "policies[1].series: stepSeconds is 0"},
		{"served bounds differ", func(r *Report) { r.Policies[1].ServedBoundDollars = 61 }, "policies[1].servedBoundDollars is 61: must be 0"},
		{"waits of the served bound differ", func(r *Report) { r.Policies[1].ServedBoundWaitSeconds = 61 }, "policies[1].servedBoundWaitSeconds is 61: must be 0"},
		{"lower bounds differ", func(r *Report) { r.Policies[1].LowerBoundDollars = 61 }, "policies[1].lowerBoundDollars is 61: must be 60"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := twoPolicies()
			tc.edit(&r)
			expectRefusal(t, r, "", tc.want)
		})
	}
}

func TestAllFaultsAreListedAtOnce(t *testing.T) {
	r := twoPolicies()
	r.Policies[0].CostDollars, r.Policies[1].Utilization.Memory, r.Policies[1].Series.Pending[1] = math.NaN(), -1, -2
	err := r.check()
	for _, want := range []string{"policies[0].costDollars", "policies[1].utilization.memory", "policies[1].series.pending[1]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want it to name %s", err, want)
		}
	}
}
