package meter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/powerquery"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// Server is a server that has the power of nodes, and how it is queried.
type Server struct {
	// Querier runs queries. It must return within seconds.
	Querier promql.Querier
	// Preset is the query. Only the node's own series are requested.
	Preset powerquery.Preset
	// Every is the time between queries.
	Every time.Duration
	// MaxAge is the maximum age of a reading. That long a reading counts as the current power,
	// and the energy between two readings that are no further apart is interpolated.
	MaxAge time.Duration
}

// maxSkew is how much newer than the query a reading may be: servers round the time of a query.
const maxSkew = time.Second

// queried is a meter that is read through a server. Queries run outside the read loop, so that a
// query without a response does not delay it.
type queried struct {
	meter powerquery.NodeMeter
	every time.Duration
	age   time.Duration
	first bool // it takes precedence over the node's own meters

	asking  sync.WaitGroup
	answers chan answer // has room for one, so that a query never blocks
	open    bool        // a query is pending
	askedAt time.Time   // when the last query started

	heard   *measurement // the newest response; nil if none has come since the last listen
	lastAt  time.Time    // time of the newest sound reading
	failing bool         // the newest response was an error
}

// answer is the result of a query.
type answer struct {
	energy.Reading
	fault energy.Fault
	err   error
}

// newQueried returns the meter. It runs no query yet.
func newQueried(node string, rated energy.Watts, s Server) (*queried, error) {
	if s.Every <= 0 || s.MaxAge < s.Every {
		return nil, fmt.Errorf("query interval %v, maximum age %v: the interval must be more than 0, and the maximum age at least the interval", s.Every, s.MaxAge)
	}
	if s.Querier == nil {
		return nil, errors.New("the client of the server is required")
	}
	m, err := powerquery.Meter{
		Querier: s.Querier, Preset: s.Preset, Limits: energy.Limits{MaxAge: s.MaxAge, MaxSkew: maxSkew, Rated: rated},
	}.Of(node)
	if err != nil {
		return nil, err
	}
	return &queried{
		meter: m, every: s.Every, age: s.MaxAge, first: s.Preset.Name == powerquery.OwnQuery, answers: make(chan answer, 1),
	}, nil
}

// ask queries the server, unless a query is pending or the last started less than every ago. It
// tolerates ticks that are early by half a readEvery.
func (q *queried) ask(ctx context.Context, now time.Time, every time.Duration) {
	if q.open || !q.askedAt.IsZero() && now.Sub(q.askedAt) < every-readEvery/2 {
		return
	}
	q.open, q.askedAt = true, now
	q.asking.Go(func() {
		r, fault, err := q.meter.Read(ctx, now)
		q.answers <- answer{r, fault, err}
	})
}

// listen receives a response, if one has come. It returns the fault of its reading, and whether
// the server has started or stopped to fail, with the error.
func (q *queried) listen() (fault energy.Fault, changed bool, err error) {
	q.heard = nil
	var a answer
	select {
	case a = <-q.answers:
	default:
		return energy.Sound, false, nil
	}
	q.open = false
	changed, q.failing = (a.err != nil) != q.failing, a.err != nil
	q.heard = &measurement{Reading: a.Reading, fault: a.fault, reach: q.age}
	switch {
	case a.fault != energy.Sound:
	case !a.At.After(q.lastAt):
		q.heard.none = true // the node was not scraped since
	default:
		if a.At.Sub(q.lastAt) <= q.meter.MeanOf() {
			q.heard.since = q.lastAt
		}
		q.lastAt = a.At
	}
	return a.fault, changed, a.err
}

// ready reports whether the newest reading is not too old.
func (q *queried) ready(now time.Time) bool {
	return !q.lastAt.IsZero() && now.Sub(q.lastAt) <= q.age
}

func (q *queried) source() energy.Source { return q.meter.Source() }

// rated returns 0, because the server does not know it.
func (q *queried) rated() energy.Watts { return 0 }

// read returns the response that listen received.
func (q *queried) read(func() time.Time) (measurement, error) {
	if q.heard == nil {
		return measurement{none: true}, nil
	}
	return *q.heard, nil
}
