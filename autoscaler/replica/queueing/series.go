package queueing

import (
	"fmt"
	"io"
	"math"

	"supercargo.dev/supercargo/internal/input/series"
)

// Bounds of the input, so that all results computed from it are finite.
const (
	maxArrivalRate = 10_000_000 // requests per second
	minResponse    = 1e-9       // seconds
	maxResponse    = 3600
)

// MaxWork is the maximum total number of replicas in all samples that [ReadSamples] reads. The cost of [Fit] grows with
// it.
const MaxWork = 4_000_000

// Columns name the columns of a measured series. Names are as in the header, and each occurs once; other columns are
// ignored.
type Columns struct {
	// Time is the column of times in RFC 3339 or in seconds. If the file has it, times must increase from row to row.
	// Without it, rows are assumed to be in order of time, unless NeedsTime is set.
	Time      string
	NeedsTime bool
	// Replicas is the number that served: a whole number, 1 or more.
	Replicas string
	// ArrivalRate is in requests per second.
	ArrivalRate string
	// Response is the mean response time, in seconds.
	Response string
	// MostResponse is the longest response time, in seconds, that counts; 0 for no bound. The model describes a steady
	// queue, not one that grows or is worked off.
	MostResponse float64
}

// ReadSamples reads measurements of a service step by step from a CSV file with a header row, in order of time. There
// is a sample for each row; [Sample.Before] is the response time of the previous row. An arrival rate or a response
// time that is 0, empty or NaN means that no request arrived or was answered. That sample and the next, like the first
// one, are incomplete, and [Fit] drops them. A response time above c.MostResponse counts as NaN.
//
// It refuses a file with more than [series.MaxRows] rows, with more than [MaxWork] replicas in all rows together, or
// with a cell that is not a number in its range. Errors about a cell name its line and column.
func ReadSamples(file io.Reader, c Columns) ([]Sample, error) {
	rows, err := series.Read(file, series.Format{Time: c.Time, NeedsTime: c.NeedsTime, Columns: []series.Column{
		{Name: c.Replicas, Valid: func(x float64) bool { return x >= 1 && x <= MaxServers && x == math.Trunc(x) },
			Want: fmt.Sprintf("a whole number of replicas from 1 to %d", MaxServers)},
		{Name: c.ArrivalRate, Valid: func(x float64) bool { return x >= 0 && x <= maxArrivalRate }, MayMiss: true,
			Want: fmt.Sprintf("requests per second from 0 to %d, or empty", maxArrivalRate)},
		{Name: c.Response, Valid: func(x float64) bool { return x == 0 || x >= minResponse && x <= maxResponse }, MayMiss: true,
			Want: fmt.Sprintf("seconds from %g to %d, or 0 or empty if no request was answered", minResponse, maxResponse)},
	}})
	if err != nil {
		return nil, err
	}
	samples := make([]Sample, 0, len(rows))
	before, work := math.NaN(), 0
	for _, row := range rows {
		s := Sample{Replicas: int(row[0]), ArrivalRate: row[1], Response: row[2], Before: before}
		if c.MostResponse > 0 && s.Response > c.MostResponse {
			s.Response = math.NaN()
		}
		samples = append(samples, s)
		before = s.Response
		if !finiteAbove0(s.ArrivalRate) {
			before = math.NaN()
		}
		if work += s.Replicas; work > MaxWork {
			return nil, fmt.Errorf("more than %d replicas in all rows together: provide fewer rows", MaxWork)
		}
	}
	return samples, nil
}
