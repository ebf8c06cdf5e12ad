package energy

import (
	"fmt"
	"io"

	"supercargo.dev/supercargo/internal/input/series"
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
// of time. It refuses a file with over [MaxSeriesRows] rows, or with a cell that is no number in its range. Errors name line and column.
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
