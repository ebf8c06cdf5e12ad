package energy

import (
	"fmt"
	"io"

	"supercargo.dev/supercargo/internal/input/series"
)

// Columns names the columns of a measured series, as in the header. Each must occur once; other columns are ignored.
type Columns struct {
	// Time is the column of times, in RFC 3339 or seconds. If the file has it, it must not decrease from row to row. A file
	// without it is assumed to be in chronological order, unless NeedsTime is set.
	Time      string
	NeedsTime bool
	// Watts is the power, above 0 and below 1,000,000.
	Watts string
	// Rates are the columns of rates, at least one. Their values are from 0 to MostRate.
	Rates    []string
	MostRate float64
}

// ReadSeries reads measurements of one machine, in chronological order, from a CSV file with a header row. It rejects a
// file with more than [MaxSeriesRows] rows, or with a cell that is not a number in its range. Errors name line and
// column.
func ReadSeries(file io.Reader, c Columns) ([]Activity, error) {
	format := series.Format{Time: c.Time, NeedsTime: c.NeedsTime, Columns: []series.Column{
		{Name: c.Watts, Valid: func(x float64) bool { return x > 0 && x < 1e6 }, Want: "watts above 0, below 1000000"},
	}}
	for _, name := range c.Rates {
		format.Columns = append(format.Columns, series.Column{
			Name: name, Valid: func(x float64) bool { return x >= 0 && x <= c.MostRate }, Want: fmt.Sprintf("a number from 0 to %g", c.MostRate),
		})
	}
	rows, err := series.Read(file, format)
	if err != nil {
		return nil, err
	}
	var samples []Activity
	for _, row := range rows {
		samples = append(samples, Activity{Watts: Watts(row[0]), Rates: row[1:]})
	}
	return samples, nil
}

// ByUtilization returns samples with the first rate as a share of full, which is the rate at full load and must be
// above 0. Greater rates count as full load.
func ByUtilization(samples []Activity, full float64) []Sample {
	by := make([]Sample, len(samples))
	for i, s := range samples {
		by[i] = Sample{Utilization: min(1, s.Rates[0]/full), Watts: s.Watts}
	}
	return by
}

// blocks is the number of chronological parts into which [HoldOut] divides a series.
const blocks = 20

// HeldOut describes how well models predict samples that they were not fitted to.
type HeldOut struct {
	// LastHalf is the quality on the last half of the samples of a model fitted to the first half: load at another
	// time. Between is the quality on every other twentieth of a model fitted to the rest: load that is similar to
	// known load.
	LastHalf, Between Quality
}

// HoldOut evaluates fit on parts of a chronological series. fit returns a function that judges the fitted model on
// other samples. The error names the part to which no model could be fitted.
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
