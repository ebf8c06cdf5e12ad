package trace

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Rate is how many requests per second come from a time on.
type Rate struct {
	At        time.Duration // since the beginning of the series, 0 or more
	PerSecond float64       // 0 or more, finite
}

var ratesFormat = format{name: "arrival-rate series", required: []string{"time_s", "rate_per_s"}}

// maxRate is the highest arrival rate that is read, requests per second.
const maxRate = 1e9

// ReadRates reads an arrival-rate series with the columns time_s and rate_per_s.
// Times must ascend strictly. A rate may carry an exponent, as programs write
// small ones; it is the only kind of number here that becomes floating point,
// since nothing is computed with it but probabilities.
func ReadRates(file string, r io.Reader) ([]Rate, error) {
	t, _, err := openTable(file, r, []format{ratesFormat})
	if err != nil {
		return nil, err
	}
	var rates []Rate
	for t.next() {
		if len(rates) == MaxRows {
			t.fault(t.line, "", fmt.Sprintf("goes beyond %d rows, the most one series may have", MaxRows))
			break
		}
		rate := Rate{At: time.Duration(t.number("time_s", int64(time.Second), roundDown)), PerSecond: t.rate("rate_per_s")}
		if len(rates) > 0 && rate.At <= rates[len(rates)-1].At {
			t.badCell("time_s", fmt.Errorf("is not after the row before, at %v s, want times that ascend", rates[len(rates)-1].At.Seconds()))
		}
		rates = append(rates, rate)
	}
	if len(rates) == 0 && len(t.faults.List) == 0 {
		t.fault(0, "", "has a header but no rows, want at least one")
	}
	if err := t.faults.orNil(); err != nil {
		return nil, err
	}
	return rates, nil
}

// rate reads a cell as requests per second.
func (t *table) rate(column string) float64 {
	text := t.cell(column)
	if text == "" {
		t.fault(t.line, column, "is empty, want requests per second")
		return 0
	}
	value, err := strconv.ParseFloat(text, 64)
	switch {
	case strings.Trim(text, "0123456789.+-eE") != "" || err != nil && !errors.Is(err, strconv.ErrRange):
		t.badCell(column, errors.New("is not a decimal number such as 12, 0.5 or 1e-3"))
	case value < 0:
		t.badCell(column, errNegative)
	case value > maxRate || math.IsNaN(value):
		t.badCell(column, fmt.Errorf("is above %g requests per second, the most that is read", float64(maxRate)))
	default:
		return value
	}
	return 0
}
