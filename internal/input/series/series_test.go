package series

import (
	"fmt"
	"strings"
	"testing"

	"supercargo.dev/supercargo/internal/input/table"
)

// format has a required number and one that may be missing.
var format = Format{Time: "time", Columns: []Column{
	{Name: "size", Valid: func(x float64) bool { return x >= 1 && x <= 9 }, Want: "1 to 9"},
	{Name: "delay", Valid: func(x float64) bool { return x >= 0 && x <= 60 }, Want: "0 to 60", MayMiss: true},
}}

func TestRowsAreReadInTheOrderOfTheColumnsAskedFor(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       [][]float64
	}{
		{"among others, in any order", "delay,host,size\n0.5,a,1\n 6e1 ,b, 2\n", [][]float64{{1, 0.5}, {2, 60}}},
		{"times in both forms", "time,size,delay\n2026-01-01T12:00:00Z,1,0\n2026-01-01T13:00:00.5+01:00,2,0\n", [][]float64{{1, 0}, {2, 0}}},
		{"two at one moment", "time,size,delay\n5,1,0\n5,2,0\n", [][]float64{{1, 0}, {2, 0}}},
		{"from a spreadsheet", "\ufeff\"size\",\"delay\"\r\n\"1\",\"0\"\r\n", [][]float64{{1, 0}}},
		{"no rows", "size,delay\n", nil},
	} {
		got, err := Read(strings.NewReader(tc.text), format)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: %v, %v; want %v", tc.name, got, err, tc.want)
		}
	}
}

func TestWhatWasNotMeasuredIsNaNWhereThatIsAllowed(t *testing.T) {
	got, err := Read(strings.NewReader("size,delay\n1,\n2, NaN \n3,4\n"), format)
	if want := "[[1 NaN] [2 NaN] [3 4]]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

func TestWhatIsNoNumberInItsRangeIsRefusedByLineAndColumn(t *testing.T) {
	const header = "time,size,delay\n"
	needsTime := format
	needsTime.NeedsTime = true
	for _, tc := range []struct {
		name, text string
		format     Format
		says       []string
	}{
		{"nothing", "", format, []string{"header"}},
		{"no such columns", "t,w\n1,2\n", format, []string{"line 1", "column size", "column delay", "the header has t, w"}},
		{"a column twice", "size,delay,size\n", format, []string{"line 1", "column size", "twice"}},
		{"no time, which was asked for", "size,delay\n1,0\n", needsTime, []string{"line 1", "column time"}},
		{"a word", header + "0,1,0\n1,many,0\n", format, []string{"line 3", "column size", `"many"`, "must be 1 to 9"}},
		{"empty", header + "0,,0\n", format, []string{"line 2", "column size", `""`}},
		{"NaN", header + "0,NaN,0\n", format, []string{"line 2", "column size", `"NaN"`}},
		{"infinite", header + "0,1,Inf\n", format, []string{"line 2", "column delay", `"Inf"`}},
		{"out of range where it may be missing", header + "0,1,-0.1\n", format, []string{"line 2", "column delay", "must be 0 to 60"}},
		{"back in time", header + "5,1,0\n4,1,0\n", format, []string{"line 3", "column time", "order"}},
		{"no time in its column", header + "noon,1,0\n", format, []string{"line 2", "column time", `"noon"`}},
		{"a cell too few", header + "0,1\n", format, []string{"line 2"}},
	} {
		got, err := Read(strings.NewReader(tc.text), tc.format)
		for _, part := range tc.says {
			if err == nil || got != nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, error %v, want nothing and an error that says %q", tc.name, got, err, part)
			}
		}
	}
}

func TestAFileIsReadUpToItsLimits(t *testing.T) {
	most := "size,delay\n" + strings.Repeat("1,0\n", MaxRows)
	if rows, err := Read(strings.NewReader(most), format); err != nil || len(rows) != MaxRows {
		t.Errorf("%d rows, %v, want %d", len(rows), err, MaxRows)
	}
	for name, tc := range map[string]struct{ text, says string }{
		"a row too many": {most + "1,0\n", fmt.Sprintf("exceeds %d rows", MaxRows)},
		"too long a row": {"size,delay\n" + strings.Repeat("1", table.MaxLineBytes+1), fmt.Sprintf("line 2: is longer than %d bytes", table.MaxLineBytes)},
		"a long header":  {strings.Repeat("x", table.MaxLineBytes+1), fmt.Sprintf("line 1: is longer than %d bytes", table.MaxLineBytes)},
	} {
		if _, err := Read(strings.NewReader(tc.text), format); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, tc.says)
		}
	}
}
