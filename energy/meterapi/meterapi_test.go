package meterapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/energy"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 123456789, time.UTC)

// meter draws 10 W since noon, measured, and 1 W, modelled.
func meter(from, to time.Time) (energy.Usage, bool) {
	s := to.Sub(from).Seconds()
	return energy.Usage{Measured: energy.Joules(10 * s), Modelled: energy.Joules(s)}, !from.Before(noon)
}

func TestWhatTheMeterKnowsComesThrough(t *testing.T) {
	server := httptest.NewServer(Handler(meter))
	defer server.Close()
	c := Client{URL: server.URL}
	if u, known, err := c.Usage(t.Context(), noon.In(time.FixedZone("", 3600)), noon.Add(3*time.Second)); err != nil || !known || u.Measured != 30 || u.Modelled != 3 {
		t.Errorf("%+v, known: %t, %v", u, known, err)
	}
	if _, known, err := c.Usage(t.Context(), noon.Add(-1), noon.Add(time.Second)); known || err != nil {
		t.Errorf("before noon: known: %t, %v", known, err)
	}
	if _, _, err := c.Usage(t.Context(), noon, noon); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("no time: %v", err)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for _, answer := range []string{"", "{", `{"measuredJoules":-1}`, `{"modelledJoules":"x"}`, `{"measuredJoules":1e999}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
		if u, known, err := (Client{URL: server.URL}).Usage(t.Context(), noon, noon.Add(time.Second)); err == nil || known {
			t.Errorf("%q is read as %+v", answer, u)
		}
		server.Close()
	}
	if _, _, err := (Client{URL: "http://127.0.0.1:1"}).Usage(t.Context(), noon, noon.Add(1)); err == nil {
		t.Error("nobody answers, and there is no error")
	}
}
