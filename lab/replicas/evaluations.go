package replicas

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"
	"strings"

	"supercargo.dev/supercargo/lab/replicas/loop"
)

// EvaluationWriter writes every evaluation of a law as CSV.
type EvaluationWriter struct {
	rows *csv.Writer
	err  error
}

// NewEvaluationWriter returns a EvaluationWriter and writes the header.
func NewEvaluationWriter(w io.Writer) *EvaluationWriter {
	l := &EvaluationWriter{rows: csv.NewWriter(w)}
	l.err = l.rows.Write([]string{"time_s", "rate_per_s", "measured_rate_per_s", "response_s", "queue_length", "utilization_percent",
		"ready", "wanted", "replicas", "next_s", "held", "reasons"})
	return l
}

// Add writes one evaluation. A value that was not measured stays empty.
func (l *EvaluationWriter) Add(s loop.Step) {
	if l.err != nil {
		return
	}
	number := func(x float64) string {
		if math.IsNaN(x) {
			return ""
		}
		return strconv.FormatFloat(x, 'g', 8, 64)
	}
	l.err = l.rows.Write([]string{number(s.Seconds), number(s.Rate), number(s.ArrivalRate), number(s.ResponseTime), number(s.QueueLength),
		number(s.Utilization), strconv.Itoa(s.Ready), strconv.Itoa(s.Desired), strconv.Itoa(s.Replicas), number(s.Next.Seconds()),
		strconv.FormatBool(s.Held), strings.Join(s.Reasons, "; ")})
}

// Flush writes buffered data and returns the first error of all writes.
func (l *EvaluationWriter) Flush() error {
	l.rows.Flush()
	if l.err != nil {
		return l.err
	}
	return l.rows.Error()
}
