package nginx

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Request is one line of the access log: a request that was answered, or that the client
// cancelled.
type Request struct {
	// At is when nginx wrote the line, which is after the response was sent; zero if the line
	// has no time.
	At time.Time
	// Status is the HTTP status of the response. nginx writes 499 if the client closed the
	// connection first, and 0 if there was no response.
	Status int
	// Seconds is the time from the first byte read to the last byte sent.
	Seconds float64
	// UpstreamSeconds is the time spent with upstream servers, over all attempts; NaN if
	// there was none.
	UpstreamSeconds float64
	// Bytes is the size of the request, including the header.
	Bytes uint64
	// Upstream is the name of the upstream; "" if the line has none.
	Upstream string
}

// Class returns the status class, 1xx to 5xx, or "other" for other numbers.
func (r Request) Class() string {
	if r.Status < 100 || r.Status > 599 {
		return "other"
	}
	return strconv.Itoa(r.Status/100) + "xx"
}

// Limits of accepted values.
const (
	maxSeconds  = 1e7  // four months
	maxMillis   = 1e15 // the year 33658
	maxUpstream = 253  // characters, as for a host name
)

// ParseLine parses a line in [LogFormat], without its end. Numbers may be JSON strings, as in
// that format, or JSON numbers. It returns an error if the line is not a JSON object, has no
// status or request_time, or has a number out of range.
func ParseLine(line []byte) (Request, error) {
	var entry struct {
		Msec            text `json:"msec"`
		Status          text `json:"status"`
		Seconds         text `json:"request_time"`
		UpstreamSeconds text `json:"upstream_response_time"`
		Bytes           text `json:"request_length"`
		Upstream        text `json:"upstream"`
	}
	if err := json.Unmarshal(line, &entry); err != nil {
		return Request{}, fmt.Errorf("read a line of the access log: %w", err)
	}
	r := Request{Upstream: string(entry.Upstream)}
	if r.Upstream == "-" {
		r.Upstream = ""
	}
	var errs [5]error
	r.At, errs[0] = parseMoment(string(entry.Msec))
	r.Status, errs[1] = parseStatusCode(string(entry.Status))
	r.Seconds, errs[2] = parseSeconds(string(entry.Seconds))
	r.UpstreamSeconds, errs[3] = parseUpstream(string(entry.UpstreamSeconds))
	r.Bytes, errs[4] = parseBytes(string(entry.Bytes))
	if len(r.Upstream) > maxUpstream {
		return Request{}, fmt.Errorf("read a line of the access log: the name of an upstream has %d characters, must be at most %d", len(r.Upstream), maxUpstream)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return Request{}, fmt.Errorf("read a line of the access log: %w", err)
	}
	return r, nil
}

// text is a JSON string, or a JSON number as written.
type text string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *text) UnmarshalJSON(data []byte) error {
	switch {
	case data[0] == '"':
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*t = text(s)
	case data[0] == '-' || data[0] >= '0' && data[0] <= '9':
		*t = text(data)
	default:
		return fmt.Errorf("%.20s: must be a string or a number", data)
	}
	return nil
}

// parseMoment parses seconds since 1970 with milliseconds.
func parseMoment(s string) (time.Time, error) {
	if s == "" || s == "-" {
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseFloat(s, 64)
	if millis := math.Round(seconds * 1000); err == nil && millis >= 0 && millis <= maxMillis {
		return time.UnixMilli(int64(millis)), nil
	}
	return time.Time{}, fmt.Errorf("msec %q: must be seconds since 1970", s)
}

func parseStatusCode(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n > 999 {
		return 0, fmt.Errorf("status %q: must be an HTTP status", s)
	}
	return int(n), nil
}

func parseSeconds(s string) (float64, error) {
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil || !(seconds >= 0 && seconds <= maxSeconds) {
		return 0, fmt.Errorf("time %q: must be seconds", s)
	}
	return seconds, nil
}

// parseUpstream returns the sum over the attempts: nginx separates them by commas, and by
// colons after an internal redirect to another upstream. An attempt without a response is a
// dash.
func parseUpstream(s string) (float64, error) {
	sum, asked := 0.0, false
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ':' || r == ' ' }) {
		if part == "-" {
			continue
		}
		seconds, err := parseSeconds(part)
		if err != nil {
			return 0, fmt.Errorf("upstream %w", err)
		}
		sum, asked = sum+seconds, true
	}
	if !asked {
		return math.NaN(), nil
	}
	return sum, nil
}

func parseBytes(s string) (uint64, error) {
	if s == "" || s == "-" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("request_length %q: must be a number of bytes", s)
	}
	return n, nil
}
