// Package series reads measurements from CSV files: a header with the names of the columns, and a row for each
// measurement.
//
// The package is pure: it uses no clock.
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

// MaxRows is the maximum number of rows of a file: one per second of a day.
const MaxRows = 86_400

// Format selects the columns of a file. Names are as in the header, and each must occur once; other columns are
// ignored.
type Format struct {
	// Time is the column of times, in RFC 3339 or seconds. If the file has it, it must not decrease from row to row. A
	// file without it is assumed to be in chronological order, unless NeedsTime is set.
	Time      string
	NeedsTime bool
	// Columns are the columns of numbers.
	Columns []Column
}

// Column is a column of numbers.
type Column struct {
	Name string
	// Valid reports whether a number is valid. It is not called for NaN.
	Valid func(float64) bool
	// Want describes valid numbers in a message, such as "watts above 0".
	Want string
	// MayMiss allows cells that are empty or NaN, for missing measurements. They are read as NaN.
	MayMiss bool
}

// Read reads the numbers of each row, in the order of f.Columns. It rejects a file with more than [MaxRows] rows, or
// with a cell that is not a number in its range, and then returns no rows. Errors are of type [*table.Errors]. A file
// with only a header has no rows.
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
			t.Fault(t.Line(), "", fmt.Sprintf("exceeds %d rows, the maximum: keep fewer rows, for example one every few seconds", MaxRows))
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

// order checks that times do not decrease, if there is a column of times.
type order struct {
	column string
	last   float64
	begun  bool // last is the time of the previous row
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
		t.BadCell(o.column, errors.New("is before the previous row: rows must be in ascending order of time"))
	}
	o.last, o.begun = now, true
}

// number reads the cell of the current row.
func (c Column) number(t *table.Table) float64 {
	if text := t.Cell(c.Name); c.MayMiss && (text == "" || strings.EqualFold(text, "nan")) {
		return math.NaN()
	}
	return t.Float(c.Name, c.Valid, c.Want)
}

// moment parses a time in RFC 3339 or in seconds, and returns seconds.
func moment(text string) (float64, bool) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return float64(t.UnixNano()) / 1e9, true
	}
	seconds, err := strconv.ParseFloat(text, 64)
	return seconds, err == nil && !math.IsNaN(seconds) && !math.IsInf(seconds, 0)
}
