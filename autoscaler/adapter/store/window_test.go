package store

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

func TestHowFarBackAQueryReads(t *testing.T) {
	for expression, want := range map[string]time.Duration{
		"a": 0, "sum(a) + 3": 0, "rate(a[1m])": time.Minute, "rate(a[1m]) / rate(b[5m])": 5 * time.Minute,
		"rate(a[1m] offset 2m)": 3 * time.Minute, "rate(a[1m] offset -2m)": time.Minute, "max_over_time(rate(a[1m])[10m:15s])": 11 * time.Minute,
		"max_over_time(rate(a[1m])[10m:15s] offset 1h)": 71 * time.Minute, "a offset 1h": 0,
	} {
		parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
		if err != nil {
			t.Fatal(err)
		}
		if got := reach(parsed); got != want {
			t.Errorf("%s reads %v back, want %v", expression, got, want)
		}
	}
}

// TestAYoungStoreWarnsOfRatesThatAreTooLow: a target has answered ten requests a second for long, and the store, which has
// just been opened, scrapes it every 15 s. Rates over a minute are too low at first. Whenever one is, it comes with a
// warning, also to Prometheus' own client; and not for longer than a minute and a half.
func TestAYoungStoreWarnsOfRatesThatAreTooLow(t *testing.T) {
	_, client := servedAfter(t, 2*time.Minute)
	warned := 0
	for second := 15; second <= 120; second += 5 {
		at := noon.Add(time.Duration(second) * time.Second)
		value, warnings, err := client.Query(t.Context(), "rate(a[1m])", at)
		if err != nil {
			t.Fatal(err)
		}
		if len(warnings) > 0 {
			warned++
			if !strings.Contains(warnings[0], "since 2026-01-02T12:00:30Z") {
				t.Errorf("after %d s it warns: %s", second, warnings)
			}
		}
		found, ok := value.(model.Vector)
		if !ok || second > 30 && len(found) != 1 {
			t.Fatalf("after %d s: %v", second, value)
		}
		if low := len(found) == 1 && found[0].Value < 9.9; low && len(warnings) == 0 || second >= 90 && len(warnings) > 0 {
			t.Errorf("after %d s: %s, warnings %q", second, value, warnings)
		}
	}
	if warned == 0 {
		t.Error("it never warns")
	}
	if _, warnings, err := client.Query(t.Context(), "a", noon.Add(time.Minute)); err != nil || len(warnings) > 0 {
		t.Errorf("a query without a range: %q, %v", warnings, err)
	}
}
