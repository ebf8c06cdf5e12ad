package queueing

import (
	"fmt"
	"io"
	"math"

	"supercargo.dev/supercargo/internal/input/series"
)

// Bounds of what is read, so that all that is computed with them is finite.
const (
	maxArrivalRate = 10_000_000 // requests per second
	minResponse    = 1e-9       // seconds
	maxResponse    = 3600
)

// MaxWork is how many replicas all samples that [ReadSamples] reads may have together. The cost
// of [Fit] grows with them.
const MaxWork = 4_000_000

// Columns name the columns of a measured series that count. Names are as in the header, and
// each is there once; other columns are passed over.
type Columns struct {
	// Time is checked to go on from row to row, where the file has it: times in RFC 3339, or
	// seconds. A file without it is taken to be in the order of time, unless NeedsTime.
	Time      string
	NeedsTime bool
	// Replicas is how many served: a whole number, 1 or more.
	Replicas string
	// ArrivalRate is requests per second.
	ArrivalRate string
	// Response is the mean response time, in seconds.
	Response string
	// MostResponse is the longest response time, in seconds, that counts; 0 for no bound. The
	// model is of a steady queue, and says nothing of one that grows or is worked off.
	MostResponse float64
}

// ReadSamples reads what was measured of a service step by step, from a CSV file with a header
// row, in the order of time. There is a sample for each row; [Sample.Before] is the response
// time of the row above. An arrival rate or a response time that is 0, empty or NaN says that
// nothing came or was answered: that sample and the next have something missing, as the first
// has, and [Fit] leaves them out. A response time above c.MostResponse is taken as NaN.
//
// It refuses a file with over [series.MaxRows] rows, with over [MaxWork] replicas in all rows together, or with a cell that is no number in its range. Errors
// about a cell name line and column.
func ReadSamples(file io.Reader, c Columns) ([]Sample, error) {
	rows, err := series.Read(file, series.Format{Time: c.Time, NeedsTime: c.NeedsTime, Columns: []series.Column{
		{Name: c.Replicas, Valid: func(x float64) bool { return x >= 1 && x <= MaxServers && x == math.Trunc(x) },
			Want: fmt.Sprintf("a whole number of replicas from 1 to %d", MaxServers)},
		{Name: c.ArrivalRate, Valid: func(x float64) bool { return x >= 0 && x <= maxArrivalRate }, MayMiss: true,
			Want: fmt.Sprintf("requests per second from 0 to %d, or nothing", maxArrivalRate)},
		{Name: c.Response, Valid: func(x float64) bool { return x == 0 || x >= minResponse && x <= maxResponse }, MayMiss: true,
			Want: fmt.Sprintf("seconds from %g to %d, or 0 or nothing where none was answered", minResponse, maxResponse)},
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
			return nil, fmt.Errorf("over %d replicas in all rows together: keep fewer rows", MaxWork)
		}
	}
	return samples, nil
}
