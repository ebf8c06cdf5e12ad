// Package meterapi is the API of node meters: how their clients ask how much energy a node used in a period, with the
// handler of the server, a client, and a transport that authenticates the two. GET /energy?from=T&to=T, with times in
// RFC 3339, returns {"measuredJoules": 1.5, "modelledJoules": 0}. A meter keeps two hours of history; for other
// times it returns 404.
package meterapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"

	"supercargo.dev/supercargo/energy"
)

// Path is the path of the API.
const Path = "/energy"

// usage is the response body.
type usage struct {
	Measured float64 `json:"measuredJoules"`
	Modelled float64 `json:"modelledJoules"`
}

// Handler serves the readings of a meter. meter returns false if the energy is unknown.
func Handler(meter func(from, to time.Time) (energy.Usage, bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := time.Parse(time.RFC3339Nano, r.URL.Query().Get("from"))
		var to time.Time
		if err == nil {
			to, err = time.Parse(time.RFC3339Nano, r.URL.Query().Get("to"))
		}
		if err != nil || !to.After(from) {
			http.Error(w, "from and to must be times in RFC 3339, and from before to", http.StatusBadRequest)
			return
		}
		u, known := meter(from, to)
		if !known {
			http.Error(w, "the energy of this period is unknown", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// An error means that the client has gone.
		_ = json.NewEncoder(w).Encode(usage{Measured: float64(u.Measured), Modelled: float64(u.Modelled)})
	})
}

// Client is a client of a node meter.
type Client struct {
	// URL is the meter's URL without a path, such as "https://10.0.0.7:8086".
	URL string
	// HTTP is the client to use; [http.DefaultClient] if nil.
	HTTP *http.Client
}

// Usage returns the energy that the node used in a period, and false if the meter does not know it. An error means that
// the agent could not be reached or returned an invalid response.
func (c Client) Usage(ctx context.Context, from, to time.Time) (energy.Usage, bool, error) {
	query := url.Values{"from": {from.UTC().Format(time.RFC3339Nano)}, "to": {to.UTC().Format(time.RFC3339Nano)}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+Path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return energy.Usage{}, false, fmt.Errorf("read energy from %s: %w", c.URL, err)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(request)
	if err != nil {
		return energy.Usage{}, false, fmt.Errorf("read energy from %s: %w", c.URL, err)
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return energy.Usage{}, false, nil
	default:
		return energy.Usage{}, false, fmt.Errorf("read energy from %s: unexpected status %s", c.URL, answer.Status)
	}
	var u usage
	const most = 4096
	if err := json.NewDecoder(io.LimitReader(answer.Body, most)).Decode(&u); err != nil {
		return energy.Usage{}, false, fmt.Errorf("read energy from %s: %w", c.URL, err)
	}
	if !(u.Measured >= 0) || !(u.Modelled >= 0) || math.IsInf(u.Measured+u.Modelled, 0) {
		return energy.Usage{}, false, fmt.Errorf("read energy from %s: invalid values %v and %v J", c.URL, u.Measured, u.Modelled)
	}
	return energy.Usage{Measured: energy.Joules(u.Measured), Modelled: energy.Joules(u.Modelled), Covered: to.Sub(from)}, true, nil
}
