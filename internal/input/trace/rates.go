package trace

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/input/table"
)

// Rate is the number of requests per second from a time on.
type Rate struct {
	At        time.Duration // since the beginning of the series, 0 or more
	PerSecond float64       // 0 or more, finite
}

var ratesFormat = table.Format{Name: "arrival-rate series", Required: []string{"time_s", "rate_per_s"}}

// maxRate is the maximum arrival rate in requests per second.
const maxRate = 1e9

// ReadRates reads an arrival-rate series with the columns time_s and rate_per_s. Times must be
// strictly ascending. A rate may have an exponent, as programs write small ones. Rates are the only
// numbers here in floating point, because they are only used for probabilities.
func ReadRates(file string, r io.Reader) ([]Rate, error) {
	t, _, err := table.Open(file, r, ratesFormat)
	if err != nil {
		return nil, err
	}
	var rates []Rate
	for t.Next() {
		if len(rates) == table.MaxRows {
			t.Fault(t.Line(), "", fmt.Sprintf("exceeds the limit of %d rows in a series", table.MaxRows))
			break
		}
		rate := Rate{At: time.Duration(t.Number("time_s", int64(time.Second), table.RoundDown)), PerSecond: rateOf(t, "rate_per_s")}
		if len(rates) > 0 && rate.At <= rates[len(rates)-1].At {
			t.BadCell("time_s", fmt.Errorf("must be later than the previous row, at %v s", rates[len(rates)-1].At.Seconds()))
		}
		rates = append(rates, rate)
	}
	if err := t.End(len(rates)); err != nil {
		return nil, err
	}
	return rates, nil
}

// rateOf reads a cell as requests per second.
func rateOf(t *table.Table, column string) float64 {
	text := t.Cell(column)
	if text == "" {
		t.Fault(t.Line(), column, "is required: must be requests per second")
		return 0
	}
	value, err := strconv.ParseFloat(text, 64)
	switch {
	case strings.Trim(text, "0123456789.+-eE") != "" || err != nil && !errors.Is(err, strconv.ErrRange):
		t.BadCell(column, errors.New("is not a decimal number such as 12, 0.5 or 1e-3"))
	case value < 0:
		t.BadCell(column, table.ErrNegative)
	case value > maxRate || math.IsNaN(value):
		t.BadCell(column, fmt.Errorf("must be at most %g requests per second", float64(maxRate)))
	default:
		return value
	}
	return 0
}
