package energy

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

// Limits of a series that is read: a day of seconds, with some 190 bytes for each.
const (
	MaxSeriesRows  = 86_400
	MaxSeriesBytes = 16 << 20
)

// Columns name the columns of a measured series that count. Names are as in the header, and
// each is there once; other columns are passed over.
type Columns struct {
	// Time is checked to go on from row to row, where the file has it: times in RFC 3339, or
	// seconds. A file without it is taken to be in the order of time, unless NeedsTime.
	Time      string
	NeedsTime bool
	// Watts is the power, above 0 and below 1,000,000.
	Watts string
	// Rates are numbers from 0 to MostRate, at least one column.
	Rates    []string
	MostRate float64
}

// ReadSeries reads measurements of one machine from a CSV file with a header row, in the order
// of time. It refuses a file with over [MaxSeriesRows] rows or [MaxSeriesBytes] bytes, or with a
// cell that is no number in its range. Errors name line and column.
func ReadSeries(file io.Reader, c Columns) ([]Activity, error) {
	limited := &io.LimitedReader{R: file, N: MaxSeriesBytes + 1}
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
	r, err := rowReaderOf(header, c)
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	var samples []Activity
	for {
		cells, err := reader.Read()
		switch {
		case limited.N == 0 || err != nil && !errors.Is(err, io.EOF):
			return nil, orTooLong(limited, err) // one of csv names the line
		case err != nil:
			return samples, nil
		case len(samples) == MaxSeriesRows:
			return nil, fmt.Errorf("over %d rows: keep fewer, such as one in a few seconds", MaxSeriesRows)
		}
		sample, err := r.read(cells)
		if err != nil {
			line, _ := reader.FieldPos(0)
			return nil, fmt.Errorf("line %d, %w", line, err)
		}
		samples = append(samples, sample)
	}
}

// orTooLong returns what is wrong with a file of which no more is read.
func orTooLong(limited *io.LimitedReader, err error) error {
	if limited.N == 0 {
		return fmt.Errorf("over %d bytes: keep fewer rows, or only the columns that count", MaxSeriesBytes)
	}
	return err
}

// rowReader reads the rows of a series.
type rowReader struct {
	Columns
	time, watts int // columns; time is -1 where there is none
	rates       []int
	last        float64 // time of the row before
	begun       bool
}

func rowReaderOf(header []string, c Columns) (*rowReader, error) {
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
	r := &rowReader{Columns: c, time: -1, watts: at(c.Watts)}
	if c.NeedsTime || slices.Contains(header, c.Time) {
		r.time = at(c.Time)
	}
	for _, name := range c.Rates {
		r.rates = append(r.rates, at(name))
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

// read returns the measurement of a row. The error begins with the column.
func (r *rowReader) read(cells []string) (Activity, error) {
	if r.time >= 0 {
		now, err := moment(cells[r.time])
		if err != nil {
			return Activity{}, fmt.Errorf("column %s: %w", r.Time, err)
		}
		if r.begun && !(now >= r.last) {
			return Activity{}, fmt.Errorf("column %s: %s is before the row above: want rows in the order of time", r.Time, quoted(cells[r.time]))
		}
		r.last, r.begun = now, true
	}
	watts, err := strconv.ParseFloat(strings.TrimSpace(cells[r.watts]), 64)
	if err != nil || !(watts > 0 && watts < 1e6) {
		return Activity{}, fmt.Errorf("column %s: %s: want watts above 0, below 1000000", r.Watts, quoted(cells[r.watts]))
	}
	sample := Activity{Watts: Watts(watts), Rates: make([]float64, len(r.rates))}
	for i, column := range r.rates {
		rate, err := strconv.ParseFloat(strings.TrimSpace(cells[column]), 64)
		if err != nil || !(rate >= 0 && rate <= r.MostRate) {
			return Activity{}, fmt.Errorf("column %s: %s: want a number from 0 to %g", r.Rates[i], quoted(cells[column]), r.MostRate)
		}
		sample.Rates[i] = rate
	}
	return sample, nil
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

// ByUtilization returns samples of the first rate as a share of the one that is full load:
// those of a greater one count as full load. It is above 0.
func ByUtilization(samples []Activity, full float64) []Sample {
	by := make([]Sample, len(samples))
	for i, s := range samples {
		by[i] = Sample{Utilization: min(1, s.Rates[0]/full), Watts: s.Watts}
	}
	return by
}

// blocks is into how many parts in the order of time [HeldOut] divides a series.
const blocks = 20

// HeldOut is how well models predict samples that they were not fitted to.
type HeldOut struct {
	// LastHalf is the quality on the last half of the samples of what was fitted to the first:
	// the load of another time. Between is that on every other twentieth of what was fitted to
	// those in between: loads that were seen.
	LastHalf, Between Quality
}

// HoldOut tries fitting on parts of a series in the order of time. fit returns how well what it
// fits follows other samples. The error names the part that cannot be fitted to.
func HoldOut(samples []Activity, fit func(known []Activity) (func(unseen []Activity) Quality, error)) (HeldOut, error) {
	quality := func(part string, learned func(i int) bool) (Quality, error) {
		var known, unseen []Activity
		for i, s := range samples {
			if learned(i) {
				known = append(known, s)
			} else {
				unseen = append(unseen, s)
			}
		}
		judge, err := fit(known)
		if err != nil {
			return Quality{}, fmt.Errorf("predict one half of the samples by %s: %w", part, err)
		}
		return judge(unseen), nil
	}
	n := len(samples)
	last, err := quality("the first half", func(i int) bool { return i < n/2 })
	if err != nil {
		return HeldOut{}, err
	}
	between, err := quality("every other twentieth", func(i int) bool { return i*blocks/n%2 == 0 })
	return HeldOut{LastHalf: last, Between: between}, err
}
