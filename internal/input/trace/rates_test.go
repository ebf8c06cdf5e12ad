package trace

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadRates(t *testing.T) {
	got, err := ReadRates("r.csv", strings.NewReader("\ufeffrate_per_s,time_s\r\n412.5,0\r\n\r\n0,0.5\n1e-3,60\n"))
	want := []Rate{{0, 412.5}, {500 * time.Millisecond, 0}, {time.Minute, 0.001}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("rates (-want +got): %s, %v", diff, err)
	}
}

func TestBadRatesAreRefusedByLineAndColumn(t *testing.T) {
	for _, tc := range []struct{ name, input, says string }{
		{"nothing", "", "r.csv: is empty"},
		{"no rows", "time_s,rate_per_s\n", "no rows"},
		{"no rate", "time_s,requests\n0,1\n", "rate_per_s"},
		{"no number", "time_s,rate_per_s\n0,NaN\n", "r.csv:2: rate_per_s: \"NaN\" is not a decimal number"},
		{"infinite", "time_s,rate_per_s\n0,Inf\n", "r.csv:2: rate_per_s"},
		{"hexadecimal", "time_s,rate_per_s\n0,0x10\n", "r.csv:2: rate_per_s"},
		{"negative", "time_s,rate_per_s\n0,-1\n", "r.csv:2: rate_per_s: \"-1\" must be 0 or more"},
		{"too large", "time_s,rate_per_s\n0,1e400\n", "must be at most 1e+09"},
		{"empty cell", "time_s,rate_per_s\n0,1\n1,\n", "r.csv:3: rate_per_s: is required"},
		{"a clock that goes back", "time_s,rate_per_s\n0,1\n60,2\n60,3\n", "r.csv:4: time_s: \"60\" must be later than the previous row"},
		{"negative time", "time_s,rate_per_s\n-1,1\n", "r.csv:2: time_s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rates, err := ReadRates("r.csv", strings.NewReader(tc.input))
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("read %v, %v, want an error with %q", rates, err, tc.says)
			}
		})
	}
}

// FuzzReadRates: accepted rates are numbers, with ascending times.
func FuzzReadRates(f *testing.F) {
	f.Add([]byte("time_s,rate_per_s\n0,1\n60,2.5e2\n"))
	f.Add([]byte("rate_per_s,time_s\n.,1\n+1,0.1\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		rates, err := ReadRates("t.csv", bytes.NewReader(input))
		if err != nil {
			checkRefusal(t, err)
			return
		}
		for i, r := range rates {
			if r.At < 0 || i > 0 && r.At <= rates[i-1].At || !(r.PerSecond >= 0) || math.IsInf(r.PerSecond, 0) {
				t.Fatalf("row %d is %+v", i, r)
			}
		}
	})
}
