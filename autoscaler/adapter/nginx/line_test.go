package nginx

import (
	"math"
	"strings"
	"testing"
	"time"
)

const line = `{"msec":"1767225600.123","status":"200","request_time":"0.250",` +
	`"upstream_response_time":"0.100, - : 0.125","request_length":"78","upstream":"web"}`

func TestALineOfTheAccessLogIsRead(t *testing.T) {
	tests := []struct {
		name, line string
		want       Request
	}{
		{"as it is configured", line,
			Request{At: time.UnixMilli(1767225600123), Status: 200, Seconds: 0.25, UpstreamSeconds: 0.225, Bytes: 78, Upstream: "web"}},
		{"with bare numbers, other members, and in another order", `{"request_time":0.5,"agent":"a\"b","status":503,"more":{"x":[1]}}`,
			Request{Status: 503, Seconds: 0.5, UpstreamSeconds: math.NaN()}},
		{"without an upstream or an answer", `{"status":"000","request_time":"0.000","upstream_response_time":"-","request_length":"0","upstream":"-"}`,
			Request{UpstreamSeconds: math.NaN()}},
		{"with bytes that are no UTF-8", "{\"status\":\"200\",\"request_time\":\"1\",\"upstream\":\"a\xff\"}",
			Request{Status: 200, Seconds: 1, UpstreamSeconds: math.NaN(), Upstream: "a\uFFFD"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseLine([]byte(tc.line))
			if err != nil {
				t.Fatal(err)
			}
			if math.IsNaN(got.UpstreamSeconds) != math.IsNaN(tc.want.UpstreamSeconds) {
				t.Errorf("upstream %v, want %v", got.UpstreamSeconds, tc.want.UpstreamSeconds)
			}
			if math.IsNaN(got.UpstreamSeconds) {
				got.UpstreamSeconds, tc.want.UpstreamSeconds = 0, 0
			}
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestAGarbledLineIsRefusedWithWhatIsWrong(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{"", "JSON"},
		{line[:40], "JSON"},
		{`127.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5`, "after top-level value"},
		{`{"status":"200"}`, "time"},
		{`{"request_time":"0.1"}`, "status"},
		{`{"status":"1e2","request_time":"0.1"}`, "status"},
		{`{"status":"70000","request_time":"0.1"}`, "status"},
		{`{"status":true,"request_time":"0.1"}`, "string or a number"},
		{`{"status":"200","request_time":"NaN"}`, "time"},
		{`{"status":"200","request_time":"-1"}`, "time"},
		{`{"status":"200","request_time":"+Inf"}`, "time"},
		{`{"status":"200","request_time":"0.1","upstream_response_time":"0.1, x"}`, "upstream"},
		{`{"status":"200","request_time":"0.1","request_length":"-7"}`, "request_length"},
		{`{"status":"200","request_time":"0.1","msec":"1e300"}`, "msec"},
		{`{"status":"200","request_time":"0.1","upstream":"` + strings.Repeat("s", 254) + `"}`, "254"},
	} {
		if _, err := ParseLine([]byte(tc.line)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", tc.line, err, tc.want)
		}
	}
}

func TestEachStatusHasAClass(t *testing.T) {
	for status, want := range map[int]string{0: "other", 99: "other", 100: "1xx", 204: "2xx", 304: "3xx", 499: "4xx", 599: "5xx", 600: "other"} {
		if got := (Request{Status: status}).Class(); got != want {
			t.Errorf("%d is %s, want %s", status, got, want)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(line))
	f.Add([]byte(`{"status":1,"request_time":1e-400}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := ParseLine(line)
		if err != nil {
			if r != (Request{}) {
				t.Errorf("%q: %+v beside error %v", line, r, err)
			}
			return
		}
		// Accepted values can be added to counters, which refuse negative numbers.
		if !(r.Seconds >= 0 && r.Seconds <= maxSeconds) || r.UpstreamSeconds < 0 || math.IsInf(r.UpstreamSeconds, 0) || r.Status < 0 || r.Status > 999 || len(r.Upstream) > maxUpstream {
			t.Errorf("%q: %+v", line, r)
		}
	})
}

func BenchmarkParseLine(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseLine([]byte(line)); err != nil {
			b.Fatal(err)
		}
	}
}
