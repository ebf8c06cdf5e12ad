package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
)

// mostPoints is the maximum number of points of each series in a range query, as in Prometheus.
const mostPoints = 11_000

// parameterError is an error in a parameter of a request.
type parameterError struct {
	name string
	err  error
}

func (e *parameterError) Error() string { return fmt.Sprintf("parameter %q: %v", e.name, e.err) }
func (e *parameterError) Unwrap() error { return e.err }

// names lists the names and values of labels.
type names = storage.LabelQuerier

// timeParameter parses a time, in seconds since 1970 or as in RFC 3339.
func timeParameter(r *http.Request, name string, otherwise time.Time) (time.Time, error) {
	text := r.FormValue(name)
	if text == "" {
		return otherwise, nil
	}
	t, err := parseTime(text)
	if err != nil {
		return time.Time{}, &parameterError{name, err}
	}
	return t, nil
}

// mostSeconds keeps times within the range of milliseconds in an int64 and of the calendar.
const mostSeconds = 1 << 38

func parseTime(text string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if !(math.Abs(seconds) < mostSeconds) { // NaN too
			return time.Time{}, fmt.Errorf("%q is too far from now", text)
		}
		whole, rest := math.Modf(seconds)
		return time.Unix(int64(whole), int64(math.Round(rest*1000))*int64(time.Millisecond)).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time: must be seconds since 1970, or a time as in RFC 3339", text)
	}
	if s := t.Unix(); s >= mostSeconds || s <= -mostSeconds {
		return time.Time{}, fmt.Errorf("%q is too far from now", text)
	}
	return t.UTC(), nil
}

// parseDuration parses a duration, in seconds or as in PromQL.
func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if !(math.Abs(seconds) < float64(math.MaxInt64)/float64(time.Second)) {
			return 0, fmt.Errorf("%q is too long", text)
		}
		return time.Duration(seconds * float64(time.Second)), nil
	}
	d, err := model.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: must be seconds, or a duration such as 5m", text)
	}
	return time.Duration(d), nil
}

// bounded returns the context of a request with its timeout parameter. The store's own timeout also
// applies.
func bounded(r *http.Request) (context.Context, context.CancelFunc, error) {
	text := r.FormValue("timeout")
	if text == "" {
		ctx, cancel := context.WithCancel(r.Context())
		return ctx, cancel, nil
	}
	timeout, err := parseDuration(text)
	if err != nil {
		return nil, nil, &parameterError{"timeout", err}
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	return ctx, cancel, nil
}

// queryOptions returns the options of a query: the lookback, if the request has one.
func queryOptions(r *http.Request) (promql.QueryOpts, error) {
	text := r.FormValue("lookback_delta")
	if text == "" {
		return nil, nil
	}
	lookback, err := parseDuration(text)
	if err != nil {
		return nil, &parameterError{"lookback_delta", err}
	}
	if lookback <= 0 {
		return nil, &parameterError{"lookback_delta", errors.New("must be above 0")}
	}
	return promql.NewPrometheusQueryOpts(false, lookback), nil
}

// window is the time range of a range query.
type window struct {
	start, end time.Time
	step       time.Duration
}

func rangeParameters(r *http.Request) (window, error) {
	var w window
	var err error
	for _, p := range []struct {
		name string
		to   *time.Time
	}{{"start", &w.start}, {"end", &w.end}} {
		if *p.to, err = timeParameter(r, p.name, time.Time{}); err != nil {
			return w, err
		}
		if p.to.IsZero() {
			return w, &parameterError{p.name, errors.New("is required")}
		}
	}
	if w.step, err = parseDuration(r.FormValue("step")); err != nil {
		return w, &parameterError{"step", err}
	}
	switch {
	case w.end.Before(w.start):
		return w, &parameterError{"end", errors.New("must not be before start")}
	case w.step < time.Millisecond:
		return w, &parameterError{"step", errors.New("must be 1ms or more")}
	case w.end.Sub(w.start)/w.step > mostPoints:
		return w, &parameterError{"step", fmt.Errorf("gives more than %d points of each series: use a longer step", mostPoints)}
	}
	return w, nil
}

// selection selects series by time and labels.
type selection struct {
	start, end int64 // milliseconds
	selectors  [][]*labels.Matcher
}

func (a *api) selection(r *http.Request) (selection, error) {
	s := selection{start: longAgo, end: farOff}
	for name, to := range map[string]*int64{"start": &s.start, "end": &s.end} {
		t, err := timeParameter(r, name, time.Time{})
		if err != nil {
			return s, err
		}
		if !t.IsZero() {
			*to = t.UnixMilli()
		}
	}
	for _, text := range r.Form["match[]"] {
		matchers, err := a.store.parser.ParseMetricSelector(text)
		if err != nil {
			return s, &parameterError{"match[]", err}
		}
		s.selectors = append(s.selectors, matchers)
	}
	return s, nil
}

// isLabelName reports whether a text is a valid label name in PromQL.
func isLabelName(text string) bool { return model.LegacyValidation.IsValidLabelName(text) }
