// Package series reads measurements from CSV files: a header with the names of the columns, and
// a row for each measurement.
//
// The package is pure: it reads what it is given and asks no clock.
package series

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a file that is read: a day of seconds, with some 190 bytes for each.
const (
	MaxRows  = 86_400
	MaxBytes = 16 << 20
)

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
// [MaxRows] rows or [MaxBytes] bytes, or with a cell that is no number in its range, and returns
// nothing of it then. Errors name line and column. A file with a header alone has no rows.
func Read(file io.Reader, f Format) ([][]float64, error) {
	limited := &io.LimitedReader{R: file, N: MaxBytes + 1}
	buffered := bufio.NewReader(limited)
	const mark = "\ufeff" // with which spreadsheets begin a file
	if begin, _ := buffered.Peek(len(mark)); string(begin) == mark {
		_, _ = buffered.Discard(len(mark)) // what was peeked at is there
	}
	reader := csv.NewReader(buffered)
	reader.ReuseRecord = true
	header, err := reader.Read()
	if err != nil || limited.N == 0 {
		return nil, fmt.Errorf("header: %w", orTooLong(limited, err))
	}
	r, err := rowReaderOf(header, f)
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	var rows [][]float64
	for {
		cells, err := reader.Read()
		switch {
		case limited.N == 0 || err != nil && !errors.Is(err, io.EOF):
			return nil, orTooLong(limited, err) // one of csv names the line
		case err != nil:
			return rows, nil
		case len(rows) == MaxRows:
			return nil, fmt.Errorf("over %d rows: keep fewer, such as one in a few seconds", MaxRows)
		}
		row, err := r.read(cells)
		if err != nil {
			line, _ := reader.FieldPos(0)
			return nil, fmt.Errorf("line %d, %w", line, err)
		}
		rows = append(rows, row)
	}
}

// orTooLong returns what is wrong with a file of which no more is read.
func orTooLong(limited *io.LimitedReader, err error) error {
	if limited.N == 0 {
		return fmt.Errorf("over %d bytes: keep fewer rows, or only the columns that count", MaxBytes)
	}
	return err
}

// rowReader reads the rows of a file.
type rowReader struct {
	Format
	time    int   // column; -1 where there is none
	columns []int // in the order of Format.Columns
	last    float64
	begun   bool // last is the time of the row before
}

func rowReaderOf(header []string, f Format) (*rowReader, error) {
	for i, name := range header {
		header[i] = strings.TrimSpace(name)
	}
	var errs []error
	at := func(name string) int {
		i := slices.Index(header, name)
		switch {
		case i < 0:
			errs = append(errs, fmt.Errorf("column %s is missing: there are %s", name, named(header)))
		case slices.Contains(header[i+1:], name):
			errs = append(errs, fmt.Errorf("column %s is there twice", name))
		}
		return i
	}
	r := &rowReader{Format: f, time: -1}
	for _, c := range f.Columns {
		r.columns = append(r.columns, at(c.Name))
	}
	if f.NeedsTime || slices.Contains(header, f.Time) {
		r.time = at(f.Time)
	}
	return r, errors.Join(errs...)
}

// named returns what a message shows of the names of columns.
func named(header []string) string {
	const most = 300
	if all := strings.Join(header, ", "); len(all) <= most {
		return all
	}
	return fmt.Sprintf("%d others", len(header))
}

// read returns the numbers of a row. The error begins with the column.
func (r *rowReader) read(cells []string) ([]float64, error) {
	if r.time >= 0 {
		now, err := moment(cells[r.time])
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", r.Time, err)
		}
		if r.begun && !(now >= r.last) {
			return nil, fmt.Errorf("column %s: %s is before the row above: want rows in the order of time", r.Time, quoted(cells[r.time]))
		}
		r.last, r.begun = now, true
	}
	row := make([]float64, len(r.columns))
	for i, c := range r.Columns {
		var err error
		if row[i], err = c.number(cells[r.columns[i]]); err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	return row, nil
}

func (c Column) number(cell string) (float64, error) {
	text := strings.TrimSpace(cell)
	if c.MayMiss && text == "" {
		return math.NaN(), nil
	}
	x, err := strconv.ParseFloat(text, 64)
	switch {
	case err == nil && math.IsNaN(x) && c.MayMiss:
		return x, nil
	case err != nil || math.IsNaN(x) || !c.Valid(x):
		return 0, fmt.Errorf("%s: want %s", quoted(cell), c.Want)
	}
	return x, nil
}

// moment reads a time in RFC 3339 or in seconds, as seconds.
func moment(cell string) (float64, error) {
	cell = strings.TrimSpace(cell)
	if t, err := time.Parse(time.RFC3339Nano, cell); err == nil {
		return float64(t.UnixNano()) / 1e9, nil
	}
	seconds, err := strconv.ParseFloat(cell, 64)
	if err != nil || math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		return 0, fmt.Errorf("%s: want seconds, or a time such as 2026-01-31T15:00:00Z", quoted(cell))
	}
	return seconds, nil
}

// quoted returns what a message shows of a cell, which may be of any length.
func quoted(cell string) string {
	const most = 40
	if len(cell) > most {
		return strconv.Quote(cell[:most]) + "..."
	}
	return strconv.Quote(cell)
}
