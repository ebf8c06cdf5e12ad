// Package law says what a control law for replicas sees, remembers and decides.
//
// A law is a pure function of its configuration, its memory and one observation.
// The same function runs in a reconciler, whose status keeps the memory, and
// against a simulated service. Laws live in packages beside this one; the
// catalogue knows them by name.
//
// Every law keeps these promises: the answer lies within its [Limits]; where a
// value that it needs is missing, stale or impossible it holds, says why, and
// leaves its memory as it was; memory that it returned can be written as JSON,
// read back, and continues as if nothing had happened; the memory it was given is
// not changed.
package law

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"supercargo.dev/supercargo/internal/input"
)

// Observation is what is known of a service when a law looks. A measurement that
// is missing is NaN, never 0.
type Observation struct {
	// At is when the law looks, and Age how old the measurements are then.
	At  time.Time
	Age time.Duration
	// ArrivalRate is requests per second, the mean since the last look.
	ArrivalRate float64
	// ResponseTime is seconds, the mean of the requests answered since the last
	// look.
	ResponseTime float64
	// QueueLength is the requests inside now, waiting and in service.
	QueueLength float64
	// Utilization is the mean load of a Ready replica in percent of what it
	// requests; above 100 it has more to do than it can.
	Utilization float64
	// Wanted is the replicas asked for, and Ready those of them that serve.
	Wanted, Ready int
	// Asked is how many replicas the service is to have by its own spec, where somebody
	// else carries out what the law asks for and may keep back; 0: as many as Wanted.
	Asked int
	// StartUp is how long a replica takes from being asked for to serving, as
	// learned; 0 where nothing is known.
	StartUp time.Duration
}

// Starting is the replicas asked for that do not serve yet.
func (o Observation) Starting() int { return max(0, o.Wanted-o.Ready) }

// Settled says that every replica serves that the service is to have, so that what is measured
// is of that number.
func (o Observation) Settled() bool { return o.Ready == o.asked() }

// Serves says that n replicas serve, and that the service is to have as many.
func (o Observation) Serves(n int) bool { return o.Ready == n && o.Settled() }

func (o Observation) asked() int {
	if o.Asked > 0 {
		return o.Asked
	}
	return o.Wanted
}

// Decision is how many replicas there should be.
type Decision struct {
	// Replicas is the number to ask for.
	Replicas int
	// Next is how long to wait until the law looks again.
	Next time.Duration
	// Held says that the law could not decide, and leaves things as they are.
	Held bool
	// Doubt says why the law does not use what was measured, and so holds; empty if it
	// does.
	Doubt string
	// Reasons are what led to the number, the most important first.
	Reasons []string
}

// Limits bound the replicas, both ends included.
type Limits struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Validate refuses limits that no number fulfils.
func (l Limits) Validate() error {
	var errs input.Faults
	errs.If(l.Min < 1, "least replicas %d: want 1 or more", l.Min)
	errs.If(l.Max < l.Min, "most replicas %d: want %d or more, the least", l.Max, l.Min)
	return errors.Join(errs...)
}

// Clamp is the number nearest to n within the limits.
func (l Limits) Clamp(n int) int { return min(max(n, l.Min), l.Max) }

// Hold leaves the replicas asked for as they are, moved into the limits.
func (l Limits) Hold(o Observation, next time.Duration, reason string) Decision {
	return Decision{Replicas: l.Clamp(o.Wanted), Next: next, Held: true, Reasons: []string{"hold: " + reason}}
}

// Ask asks for n replicas, moved into the limits; if that changes n, a reason
// says so.
func (l Limits) Ask(n int, next time.Duration, reasons ...string) Decision {
	if to := l.Clamp(n); to != n {
		reasons = append(reasons, fmt.Sprintf("limits allow %d, not %d", to, n))
		n = to
	}
	return Decision{Replicas: n, Next: next, Reasons: reasons}
}

// Grow asks for n replicas because there are too few, moved into the limits. It never asks
// for fewer than were asked for before: what made the law ask for them continues, and those
// that still start would be cancelled and ordered again.
func (l Limits) Grow(o Observation, n int, next time.Duration, reasons ...string) Decision {
	if n < l.Clamp(o.Wanted) {
		reasons = append(reasons, fmt.Sprintf("%d are asked for already, and are not cancelled for %d", o.Wanted, n))
		n = l.Clamp(o.Wanted)
	}
	return l.Ask(n, next, reasons...)
}

// Needs names the measurements that a law cannot do without.
type Needs uint8

// The measurements.
const (
	ArrivalRate Needs = 1 << iota
	ResponseTime
	QueueLength
	Utilization
)

// RequestNeeds are what a law that keeps a response time cannot do without. Where no request
// was answered there is no response time; whether requests are inside still matters then.
func (o Observation) RequestNeeds() Needs {
	if o.ArrivalRate == 0 {
		return ArrivalRate | QueueLength
	}
	return ArrivalRate | ResponseTime | QueueLength
}

// mostMeasured is above every rate, time in seconds, queue and percentage that a service can
// have. Products and squares of what is below it are finite.
const mostMeasured = 1e12

// Missing says what keeps a law from using an observation: a measurement it
// needs is missing, negative or above 1e12, all are older than maxAge (0 for no
// bound), or there is no Ready replica to have measured. It is empty if nothing
// does.
func (o Observation) Missing(needs Needs, maxAge time.Duration) string {
	switch {
	case o.Age < 0:
		return fmt.Sprintf("the measurements are %v younger than now: a clock was set", -o.Age)
	case maxAge > 0 && o.Age > maxAge:
		return fmt.Sprintf("the measurements are %v old, more than %v", o.Age, maxAge)
	case o.Wanted < 0 || o.Ready < 0:
		return "the number of replicas is not known"
	}
	for _, m := range []struct {
		need  Needs
		name  string
		value float64
	}{
		{ArrivalRate, "arrival rate", o.ArrivalRate},
		{ResponseTime, "response time", o.ResponseTime},
		{QueueLength, "queue length", o.QueueLength},
		{Utilization, "utilisation", o.Utilization},
	} {
		switch {
		case needs&m.need == 0:
		case math.IsNaN(m.value):
			return "no " + m.name + " was measured"
		case m.value < 0, m.value > mostMeasured:
			return fmt.Sprintf("a %s of %v is impossible", m.name, m.value)
		}
	}
	if o.Ready == 0 && needs != 0 {
		return "no replica is Ready"
	}
	return ""
}

// Memory is what a law keeps from one look to the next. Only the law that made
// it knows what is inside; encoding/json can write it. Nil is fresh memory.
type Memory any

// Law is a law with its configuration.
type Law interface {
	// Name is the law's name in the catalogue.
	Name() string
	// Decide takes one look. It changes nothing that it was given.
	Decide(m Memory, o Observation) (Memory, Decision)
	// Restore reads memory that was written as JSON; empty input is fresh memory.
	Restore(saved []byte) (Memory, error)
}

// New makes a law of a function with typed memory M, whose zero value is fresh
// memory. Decide panics on the memory of another law, which is a fault of the
// program.
func New[M any](name string, decide func(M, Observation) (M, Decision)) Law {
	return typed[M]{name: name, decide: decide}
}

type typed[M any] struct {
	name   string
	decide func(M, Observation) (M, Decision)
}

// Name implements [Law].
func (l typed[M]) Name() string { return l.name }

// Decide implements [Law].
func (l typed[M]) Decide(m Memory, o Observation) (Memory, Decision) {
	var memory M
	if m != nil {
		memory = m.(M)
	}
	return l.decide(memory, o)
}

// Restore implements [Law].
func (l typed[M]) Restore(saved []byte) (Memory, error) {
	var memory M
	if len(saved) == 0 {
		return memory, nil
	}
	if err := json.Unmarshal(saved, &memory); err != nil {
		return nil, fmt.Errorf("read the memory of law %s: %w", l.name, err)
	}
	return memory, nil
}
