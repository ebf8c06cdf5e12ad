package table

import (
	"errors"
	"strings"
	"testing"
)

func TestAFaultSaysWhere(t *testing.T) {
	for _, tc := range []struct {
		fault Error
		want  string
	}{
		{Error{File: "a.csv", Line: 3, Column: "cpu", Problem: "is wrong"}, "a.csv:3: cpu: is wrong"},
		{Error{File: "a.csv", Line: 3, Problem: "is wrong"}, "a.csv:3: is wrong"},
		{Error{File: "a.csv", Problem: "is empty"}, "a.csv: is empty"},
		{Error{Line: 3, Column: "cpu", Problem: "is wrong"}, "line 3, column cpu: is wrong"},
		{Error{Line: 3, Problem: "is wrong"}, "line 3: is wrong"},
		{Error{Problem: "is empty"}, "is empty"},
	} {
		if got := tc.fault.Error(); got != tc.want {
			t.Errorf("%+v is %q, want %q", tc.fault, got, tc.want)
		}
	}
}

func TestColumnsThatNobodyReadsArePassedOverIfTheFormatSaysSo(t *testing.T) {
	format := Format{Name: "list", Required: []string{"a"}, Optional: []string{"b"}}
	for _, tc := range []struct {
		header        string
		strict, loose string // the fault; empty if there is none
	}{
		{"b,a", "", ""},
		{"a,x", "x: is not a column of the list", ""},
		{"x,a,x", "x: is in the header twice", ""},
		{"a,a", "a: is in the header twice", "a: is in the header twice"},
		{"b,x", "has no known column", "requires a; the header has b, x"},
		{"x,y", "has no known column", "a: is missing"},
	} {
		for _, lenient := range []bool{false, true} {
			f, want := format, tc.strict
			if f.Lenient = lenient; lenient {
				want = tc.loose
			}
			_, _, err := Open("f", strings.NewReader(tc.header+"\n"), f)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("header %s, lenient %t: %v, want %q", tc.header, lenient, err, want)
			}
		}
	}
}

func TestATableIsReadUpToItsFaults(t *testing.T) {
	in, _, err := Open("f", strings.NewReader("a,b\n1,2\n\n1\n nan ,7\n\"x\ny\",1\n"), Format{Name: "list", Required: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for in.Next() {
		rows++
		in.Float("a", func(x float64) bool { return x < 9 }, "less than 9")
	}
	err = in.End(rows)
	var faults *Errors
	if !errors.As(err, &faults) || rows != 2 {
		t.Fatalf("%d rows, %v", rows, err)
	}
	for _, want := range []string{"f:4: has 1 cells: must be 2", `f:5: a: "nan": must be less than 9`, "f:6: has a", "f:7: has a"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if len(faults.List) != 4 || in.Faults() != 4 {
		t.Errorf("%d faults, want 4", in.Faults())
	}
}
