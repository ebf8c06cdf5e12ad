package trace

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
)

// format describes the columns of one kind of file.
type format struct {
	name     string
	required []string
	optional []string
	lenient  bool // further columns are ignored, not refused
}

// table walks the rows of one input and collects its faults.
type table struct {
	file   string
	lines  *lineReader
	line   int
	column map[string]int // header name to position
	width  int
	cells  []string
	faults Errors
}

// openTable reads the header row and finds the format it fits. The returned
// error is final; faults of rows come later.
func openTable(file string, r io.Reader, formats []format) (*table, *format, error) {
	t := &table{file: file, lines: newLineReader(r)}
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

// header returns the names in the first line that is not blank.
func (t *table) header() ([]string, error) {
	for {
		text, err := t.nextLine()
		switch {
		case errors.Is(err, io.EOF):
			t.fault(0, "", "is empty, want a header row and at least one row")
			return nil, t.faults.orNil()
		case err != nil:
			t.fault(t.line, "", err.Error())
			return nil, t.faults.orNil()
		case text == "":
			continue
		}
		cells, err := splitCells(nil, text)
		if err != nil {
			t.fault(t.line, "", err.Error())
			return nil, t.faults.orNil()
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		return cells, nil
	}
}

// detect picks the format of which header has the most required columns, the
// first of equals, and notes what stands in its way.
func (t *table) detect(header []string, formats []format) *format {
	best, most := &formats[0], -1
	for i := range formats {
		if n := countOf(header, formats[i].required); n > most {
			best, most = &formats[i], n
		}
	}
	if most == 0 {
		var wants []string
		for _, f := range formats {
			wants = append(wants, fmt.Sprintf("%s (%s)", strings.Join(f.required, ","), f.name))
		}
		t.fault(t.line, "", "has no known column, want a header with "+strings.Join(wants, " or "))
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

// checkHeader notes duplicate, unknown and missing columns.
func (t *table) checkHeader(header []string, f *format) {
	t.column = make(map[string]int, len(header))
	t.width = len(header)
	for i, name := range header {
		known := slices.Contains(f.required, name) || slices.Contains(f.optional, name)
		if _, twice := t.column[name]; twice {
			t.fault(t.line, clip(name), "stands twice in the header, want each column once")
		} else if !known && !f.lenient {
			t.fault(t.line, clip(name), fmt.Sprintf("is no column of the %s, want one of %s", f.name,
				strings.Join(slices.Concat(f.required, f.optional), ",")))
		}
		t.column[name] = i
	}
	for _, name := range f.required {
		if _, ok := t.column[name]; !ok {
			t.fault(t.line, name, fmt.Sprintf("is missing from the header, the %s needs %s", f.name, strings.Join(f.required, ",")))
		}
	}
}

// ignored lists the columns that f does not know.
func (t *table) ignored(f *format) []string {
	var names []string
	for name := range t.column {
		if !slices.Contains(f.required, name) && !slices.Contains(f.optional, name) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return t.column[a] - t.column[b] })
	return names
}

// next moves to the next row and reports whether there is one. Rows that cannot
// be split into the right number of cells are noted and skipped.
func (t *table) next() bool {
	for {
		text, err := t.nextLine()
		switch {
		case errors.Is(err, io.EOF):
			return false
		case errors.Is(err, errLongLine):
			t.fault(t.line, "", err.Error())
			continue
		case err != nil:
			t.fault(t.line, "", err.Error())
			return false
		case text == "":
			continue
		}
		t.cells, err = splitCells(t.cells[:0], text)
		if err != nil {
			t.fault(t.line, "", err.Error())
			continue
		}
		if len(t.cells) != t.width {
			t.fault(t.line, "", fmt.Sprintf("has %d cells, want %d as in the header", len(t.cells), t.width))
			continue
		}
		return true
	}
}

func (t *table) nextLine() (string, error) {
	text, err := t.lines.next()
	if err == nil || !errors.Is(err, io.EOF) {
		t.line++
	}
	if t.line == 1 {
		text = strings.TrimPrefix(text, "\ufeff")
	}
	return text, err
}

// fault notes one fault.
func (t *table) fault(line int, column, problem string) {
	t.faults.add(Error{File: t.file, Line: line, Column: column, Problem: problem})
}

// badCell notes a fault of a cell of the present row and shows what it holds.
func (t *table) badCell(column string, err error) {
	t.fault(t.line, column, fmt.Sprintf("%q %v", clip(t.cell(column)), err))
}

// cell returns the trimmed text of a column, empty when the input has no such
// column.
func (t *table) cell(column string) string {
	i, ok := t.column[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(t.cells[i])
}

// number reads a cell as a decimal in the given unit. An empty cell is a fault.
func (t *table) number(column string, unit int64, r rounding) int64 {
	text := t.cell(column)
	if text == "" {
		t.fault(t.line, column, "is empty, want a number")
		return 0
	}
	value, err := decimal(text, unit, r)
	if err != nil {
		t.badCell(column, err)
	}
	return value
}

// optionalNumber is [table.number], but an empty cell or absent column is
// zero.
func (t *table) optionalNumber(column string, unit int64, r rounding) int64 {
	if t.cell(column) == "" {
		return 0
	}
	return t.number(column, unit, r)
}

// clip shortens text for a message.
func clip(text string) string {
	const most = 40
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "..."
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
		return dst, errors.New(`has a stray quote, want cells in plain text or wholly in "..." with inner quotes doubled`)
	}
	return append(dst, cells...), nil
}

var (
	errLongLine  = fmt.Errorf("is longer than %d bytes", MaxLineBytes)
	errLongInput = fmt.Errorf("input is larger than %d bytes", MaxInputBytes)
)

// lineReader yields lines without their ends and holds at most one of them.
type lineReader struct {
	buffer *bufio.Reader
	read   int64
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{buffer: bufio.NewReaderSize(r, MaxLineBytes+2)}
}

// next returns the next line; io.EOF after the last, errLongLine for a line
// that is skipped.
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
