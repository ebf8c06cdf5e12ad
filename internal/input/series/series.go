// Package series reads measurements from CSV files: a header with the names of the columns, and
// a row for each measurement.
//
// The package is pure: it reads what it is given and asks no clock.
package series

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/input/table"
)

// MaxRows is the most rows of a file: a day of seconds.
const MaxRows = 86_400

// Format says which columns of a file count. Names are as in the header, and each is there
// once; other columns are passed over.
type Format struct {
	// Time is checked to go on from row to row, where the file has it: times in RFC 3339, or
	// seconds. A file without it is taken to be in the order of time, unless NeedsTime.
	Time      string
	NeedsTime bool
	// Columns are those of numbers.
	Columns []Column
}

// Column is a column of numbers.
type Column struct {
	Name string
	// Valid tells which numbers may be there. It is not asked about NaN.
	Valid func(float64) bool
	// Want says the same in a message, such as "watts above 0".
	Want string
	// MayMiss allows cells that are empty or NaN: nothing was measured. They are read as NaN.
	MayMiss bool
}

// Read reads the numbers of each row, in the order of f.Columns. It refuses a file with over
// [MaxRows] rows, or with a cell that is no number in its range, and returns nothing of it then.
// Errors are of type [*table.Errors]. A file with a header alone has no rows.
func Read(file io.Reader, f Format) ([][]float64, error) {
	format := table.Format{Name: "series", Lenient: true}
	for _, c := range f.Columns {
		format.Required = append(format.Required, c.Name)
	}
	if f.NeedsTime {
		format.Required = append(format.Required, f.Time)
	} else {
		format.Optional = []string{f.Time}
	}
	t, _, err := table.Open("", file, format)
	if err != nil {
		return nil, err
	}
	var rows [][]float64
	order := order{column: f.Time}
	for t.Next() {
		if len(rows) == MaxRows {
			t.Fault(t.Line(), "", fmt.Sprintf("continues after %d rows: keep fewer, such as one in a few seconds", MaxRows))
			break
		}
		order.check(t)
		row := make([]float64, len(f.Columns))
		for i, c := range f.Columns {
			row[i] = c.number(t)
		}
		rows = append(rows, row)
	}
	if err := t.Err(); err != nil {
		return nil, err
	}
	return rows, nil
}

// order sees that times ascend, where there is a column of them.
type order struct {
	column string
	last   float64
	begun  bool // last is the time of the row before
}

func (o *order) check(t *table.Table) {
	if !t.Has(o.column) {
		return
	}
	now, ok := moment(t.Cell(o.column))
	switch {
	case !ok:
		t.Wrong(o.column, "seconds, or a time such as 2026-01-31T15:00:00Z")
		return
	case o.begun && !(now >= o.last):
		t.BadCell(o.column, errors.New("is before the row above: want rows in the order of time"))
	}
	o.last, o.begun = now, true
}

// number reads the cell of the present row.
func (c Column) number(t *table.Table) float64 {
	if text := t.Cell(c.Name); c.MayMiss && (text == "" || strings.EqualFold(text, "nan")) {
		return math.NaN()
	}
	return t.Float(c.Name, c.Valid, c.Want)
}

// moment reads a time in RFC 3339 or in seconds, as seconds.
func moment(text string) (float64, bool) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return float64(t.UnixNano()) / 1e9, true
	}
	seconds, err := strconv.ParseFloat(text, 64)
	return seconds, err == nil && !math.IsNaN(seconds) && !math.IsInf(seconds, 0)
}
