package table

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"supercargo.dev/supercargo/internal/text/clip"
)

// Format describes the columns of one kind of file.
type Format struct {
	// Name is the name of such a file in messages.
	Name string
	// Required and Optional are the names of columns.
	Required []string
	Optional []string
	// Lenient ignores further columns, which are otherwise rejected.
	Lenient bool
}

// Table iterates over the rows of one input and collects its faults.
type Table struct {
	file   string
	lines  *lineReader
	line   int
	column map[string]int // header name to position
	width  int
	cells  []string
	faults Errors
}

// Open reads the header row and selects the format that it fits best, the first of equals. file is only used in errors
// and may be empty. The returned error is final and of type [*Errors]. [Table.Err] or [Table.End] return faults of
// rows.
func Open(file string, r io.Reader, formats ...Format) (*Table, *Format, error) {
	t := &Table{file: file, lines: newLineReader(r)}
	header, err := t.header()
	if err != nil {
		return nil, nil, err
	}
	f := t.detect(header, formats)
	if err := t.faults.orNil(); err != nil {
		return nil, nil, err
	}
	return t, f, nil
}

// header returns the cells of the first line that is not blank.
func (t *Table) header() ([]string, error) {
	for {
		text, err := t.nextLine()
		switch {
		case errors.Is(err, io.EOF):
			t.Fault(0, "", "is empty: must have a header row and at least one row")
			return nil, t.faults.orNil()
		case err != nil:
			t.Fault(t.line, "", err.Error())
			return nil, t.faults.orNil()
		case text == "":
			continue
		}
		cells, err := splitCells(nil, text)
		if err != nil {
			t.Fault(t.line, "", err.Error())
			return nil, t.faults.orNil()
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		return cells, nil
	}
}

// detect selects the format with the most required columns in the header, the first of equals, and records faults of
// the header.
func (t *Table) detect(header []string, formats []Format) *Format {
	best, most := &formats[0], -1
	for i := range formats {
		if n := countOf(header, formats[i].Required); n > most {
			best, most = &formats[i], n
		}
	}
	if most == 0 && (len(formats) > 1 || !best.Lenient) {
		var wants []string
		for _, f := range formats {
			wants = append(wants, fmt.Sprintf("%s (%s)", strings.Join(f.Required, ","), f.Name))
		}
		t.Fault(t.line, "", "has no known column: the header must have "+strings.Join(wants, " or "))
		return best
	}
	t.checkHeader(header, best)
	return best
}

func countOf(header, names []string) int {
	n := 0
	for _, name := range names {
		if slices.Contains(header, name) {
			n++
		}
	}
	return n
}

// checkHeader records duplicate, unknown and missing columns.
func (t *Table) checkHeader(header []string, f *Format) {
	t.column = make(map[string]int, len(header))
	t.width = len(header)
	for i, name := range header {
		known := slices.Contains(f.Required, name) || slices.Contains(f.Optional, name)
		if _, twice := t.column[name]; twice && (known || !f.Lenient) {
			t.Fault(t.line, clip.Cell(name), "is in the header twice: columns must be unique")
		} else if !known && !f.Lenient {
			t.Fault(t.line, clip.Cell(name), fmt.Sprintf("is not a column of the %s: must be one of %s", f.Name,
				strings.Join(slices.Concat(f.Required, f.Optional), ",")))
		}
		t.column[name] = i
	}
	for _, name := range f.Required {
		if _, ok := t.column[name]; !ok {
			problem := fmt.Sprintf("is missing from the header: the %s requires %s", f.Name, strings.Join(f.Required, ","))
			if f.Lenient {
				problem += "; the header has " + named(header)
			}
			t.Fault(t.line, name, problem)
		}
	}
}

// named lists the names of columns for a message, or their number if the list is too long.
func named(header []string) string {
	const most = 300
	if all := strings.Join(header, ", "); len(all) <= most {
		return all
	}
	return fmt.Sprintf("%d others", len(header))
}

// Ignored returns the columns of the header that are not in f, in order.
func (t *Table) Ignored(f *Format) []string {
	var names []string
	for name := range t.column {
		if !slices.Contains(f.Required, name) && !slices.Contains(f.Optional, name) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return t.column[a] - t.column[b] })
	return names
}

// Next advances to the next row and reports whether there is one. Rows that cannot be split into the right number of
// cells are recorded as faults and skipped.
func (t *Table) Next() bool {
	for {
		text, err := t.nextLine()
		switch {
		case errors.Is(err, io.EOF):
			return false
		case errors.Is(err, errLongLine):
			t.Fault(t.line, "", err.Error())
			continue
		case err != nil:
			t.Fault(t.line, "", err.Error())
			return false
		case text == "":
			continue
		}
		t.cells, err = splitCells(t.cells[:0], text)
		if err != nil {
			t.Fault(t.line, "", err.Error())
			continue
		}
		if len(t.cells) != t.width {
			t.Fault(t.line, "", fmt.Sprintf("has %d cells: must be %d as in the header", len(t.cells), t.width))
			continue
		}
		return true
	}
}

func (t *Table) nextLine() (string, error) {
	text, err := t.lines.next()
	if err == nil || !errors.Is(err, io.EOF) {
		t.line++
	}
	if t.line == 1 {
		text = strings.TrimPrefix(text, "\ufeff")
	}
	return text, err
}

// Line returns the line of the current row, 1 for the first line of the file.
func (t *Table) Line() int { return t.line }

// Faults returns the number of recorded faults.
func (t *Table) Faults() int { return len(t.faults.List) + t.faults.More }

// Err returns the recorded faults as [*Errors], or nil if there are none.
func (t *Table) Err() error { return t.faults.orNil() }

// End is [Table.Err] after the last row. It records a fault if there were no rows.
func (t *Table) End(rows int) error {
	if rows == 0 && t.Faults() == 0 {
		t.Fault(0, "", "has a header but no rows: must have at least one row")
	}
	return t.Err()
}

// Fault records a fault.
func (t *Table) Fault(line int, column, problem string) {
	t.faults.Add(Error{File: t.file, Line: line, Column: column, Problem: problem})
}

// BadCell records a fault of a cell of the current row with its content.
func (t *Table) BadCell(column string, err error) {
	t.Fault(t.line, column, fmt.Sprintf("%q %v", clip.Cell(t.Cell(column)), err))
}

// Has reports whether the header has a column.
func (t *Table) Has(column string) bool {
	_, ok := t.column[column]
	return ok
}

// Cell returns the trimmed text of a column in the current row, or "" if the input has no such column.
func (t *Table) Cell(column string) string {
	i, ok := t.column[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(t.cells[i])
}

// Number reads a cell as a decimal in the given unit. An empty cell is a fault.
func (t *Table) Number(column string, unit int64, r Rounding) int64 {
	text := t.Cell(column)
	if text == "" {
		t.Fault(t.line, column, "is empty: a number is required")
		return 0
	}
	value, err := Decimal(text, unit, r)
	if err != nil {
		t.BadCell(column, err)
	}
	return value
}

// OptionalNumber is [Table.Number], but an empty cell or a missing column is zero.
func (t *Table) OptionalNumber(column string, unit int64, r Rounding) int64 {
	if t.Cell(column) == "" {
		return 0
	}
	return t.Number(column, unit, r)
}

// splitCells appends the cells of one line to dst.
func splitCells(dst []string, line string) ([]string, error) {
	if !utf8.ValidString(line) {
		return dst, errors.New("is not valid UTF-8")
	}
	if strings.IndexByte(line, '"') < 0 {
		for {
			cell, rest, more := strings.Cut(line, ",")
			dst = append(dst, cell)
			if !more {
				return dst, nil
			}
			line = rest
		}
	}
	cells, err := csv.NewReader(strings.NewReader(line)).Read()
	if err != nil {
		return dst, errors.New(`has a quote within a cell: cells must be plain text, or completely in "..." with inner quotes doubled`)
	}
	return append(dst, cells...), nil
}

var (
	errLongLine  = fmt.Errorf("is longer than %d bytes", MaxLineBytes)
	errLongInput = fmt.Errorf("input is larger than %d bytes", MaxInputBytes)
)

// lineReader reads lines without their ends. It holds at most one line.
type lineReader struct {
	buffer *bufio.Reader
	read   int64
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{buffer: bufio.NewReaderSize(r, MaxLineBytes+2)}
}

// next returns the next line. It returns io.EOF after the last one, and errLongLine for a line that it skipped.
func (l *lineReader) next() (string, error) {
	raw, err := l.buffer.ReadSlice('\n')
	l.read += int64(len(raw))
	if l.read > MaxInputBytes {
		return "", errLongInput
	}
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", l.skipLine()
	case errors.Is(err, io.EOF) && len(raw) == 0:
		return "", io.EOF
	case err != nil && !errors.Is(err, io.EOF):
		return "", fmt.Errorf("read: %w", err)
	}
	raw = bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r"))
	if len(raw) > MaxLineBytes {
		return "", errLongLine
	}
	return string(raw), nil
}

// skipLine drops the rest of a line that does not fit the buffer.
func (l *lineReader) skipLine() error {
	for {
		raw, err := l.buffer.ReadSlice('\n')
		l.read += int64(len(raw))
		switch {
		case l.read > MaxInputBytes:
			return errLongInput
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("read: %w", err)
		}
		return errLongLine
	}
}
