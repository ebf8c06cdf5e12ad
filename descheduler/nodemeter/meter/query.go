package meter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/platform/powerquery"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// Server is one that others tell what nodes draw, and what it is asked.
type Server struct {
	// Querier asks it. It must answer, or give up, within seconds.
	Querier promql.Querier
	// Preset is what is asked for; the node's own series alone are.
	Preset powerquery.Preset
	// Every is how often.
	Every time.Duration
	// MaxAge is how old a reading may be. For so long one counts as what the node draws now,
	// and two that are no further apart than that are taken to have nothing between them
	// that they do not show.
	MaxAge time.Duration
}

// maxSkew is how much newer than the question a reading may be: servers round the moment that
// they are asked about.
const maxSkew = time.Second

// queried is a meter of the node that is read through a server. The server is asked beside
// the loop that reads: a question that is never answered keeps up nobody.
type queried struct {
	meter powerquery.NodeMeter
	every time.Duration
	age   time.Duration
	first bool // it goes before the node's own meters

	asking  sync.WaitGroup
	answers chan answer // room for one, so that who answers never waits
	open    bool        // a question is
	askedAt time.Time   // when the last one was put

	heard   *measurement // what the newest answer gave; nil if none has come since the last look
	lastAt  time.Time    // moment of the newest sound reading
	failing bool         // the newest answer was an error
}

// answer is what came of a question.
type answer struct {
	energy.Reading
	fault energy.Fault
	err   error
}

// newQueried makes the meter. It asks nothing yet.
func newQueried(node string, rated energy.Watts, s Server) (*queried, error) {
	if s.Every <= 0 || s.MaxAge < s.Every {
		return nil, fmt.Errorf("power is asked for every %v and may be %v old: want more than 0, and an age of no less", s.Every, s.MaxAge)
	}
	if s.Querier == nil {
		return nil, errors.New("no server to query for power")
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

// ask asks the server, unless a question is open or the last was less than a while ago, by
// more than ticks of the loop that reads may come early.
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

// listen takes the answer, if one has come. It returns what is wrong with its reading, and
// whether the server has begun to fail, by which error, or to answer.
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
		q.heard.none = true // nobody has scraped the node since
	default:
		if a.At.Sub(q.lastAt) <= q.meter.MeanOf() {
			q.heard.since = q.lastAt
		}
		q.lastAt = a.At
	}
	return a.fault, changed, a.err
}

// ready reports whether the newest reading is new enough.
func (q *queried) ready(now time.Time) bool {
	return !q.lastAt.IsZero() && now.Sub(q.lastAt) <= q.age
}

func (q *queried) source() energy.Source { return q.meter.Source() }

// rated is not known to the server.
func (q *queried) rated() energy.Watts { return 0 }

// read returns what was heard.
func (q *queried) read(func() time.Time) (measurement, error) {
	if q.heard == nil {
		return measurement{none: true}, nil
	}
	return *q.heard, nil
}
