// Package law defines what a control law for replicas observes, remembers and decides.
//
// A law is a pure function of its configuration, its memory and one observation. The same function runs in a
// reconciler, whose status stores the memory, and against a simulated service. The laws are in packages next to this
// one; the catalogue lists them by name.
//
// Every law guarantees: the decision is within its [Limits]. If a needed value is missing, stale or impossible, the law
// holds or, if what is left shows that there are too few replicas, scales out. It gives the reason, and leaves its memory
// unchanged. Returned memory can be written as JSON and read back
// without any effect on later decisions. The given memory is not changed.
package law

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Observation is the input of a law about a service. A missing measurement is NaN, never 0.
type Observation struct {
	// At is the time of the evaluation, and Age is the age of the measurements at that time.
	At  time.Time
	Age time.Duration
	// ArrivalRate is the mean number of requests per second since the last evaluation.
	ArrivalRate float64
	// ResponseTime is the mean response time in seconds of the requests answered since the last evaluation.
	ResponseTime float64
	// QueueLength is the number of requests in the system now, waiting and in service.
	QueueLength float64
	// Utilization is the mean load of a Ready replica in percent of its request. Above 100, the replica is overloaded.
	Utilization float64
	// Desired is the number of replicas decided last, and Ready the number of those that serve.
	Desired, Ready int
	// Spec is the number of replicas in the spec of the service, where another component carries out the decisions of
	// the law and may apply its own limits. 0 means the same as Desired.
	Spec int
	// StartUp is the learned time from requesting a replica until it serves; 0 if it is not known.
	StartUp time.Duration
}

// Starting returns the number of requested replicas that do not serve yet.
func (o Observation) Starting() int { return max(0, o.Desired-o.Ready) }

// Settled reports whether all replicas in the spec serve, so that the measurements apply to that number.
func (o Observation) Settled() bool { return o.Ready == o.asked() }

// Serves reports whether n replicas serve, and the spec has n.
func (o Observation) Serves(n int) bool { return o.Ready == n && o.Settled() }

func (o Observation) asked() int {
	if o.Spec > 0 {
		return o.Spec
	}
	return o.Desired
}

// Decision is the result of a law.
type Decision struct {
	// Replicas is the desired number.
	Replicas int
	// Next is the time until the next evaluation.
	Next time.Duration
	// Held reports that the law could not decide, and keeps the number of replicas.
	Held bool
	// Doubt is the reason why the law distrusts the measurements, and therefore holds. It is empty if the law uses
	// them.
	Doubt string
	// Reasons explain the decision, the most important first.
	Reasons []string
}

// Limits bound the number of replicas. Both ends are included.
type Limits struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Validate returns an error if no number satisfies the limits.
func (l Limits) Validate() error {
	var errs input.Faults
	errs.If(l.Min < 1, "minimum replicas %d: must be 1 or more", l.Min)
	errs.If(l.Max < l.Min, "maximum replicas %d: must be at least the minimum, %d", l.Max, l.Min)
	return errors.Join(errs...)
}

// Clamp returns the number within the limits that is nearest to n.
func (l Limits) Clamp(n int) int { return min(max(n, l.Min), l.Max) }

// Hold keeps the desired number of replicas, clamped to the limits.
func (l Limits) Hold(o Observation, next time.Duration, reason string) Decision {
	return Decision{Replicas: l.Clamp(o.Desired), Next: next, Held: true, Reasons: []string{"hold: " + reason}}
}

// Ask decides on n replicas, clamped to the limits. If clamping changes n, a reason says so.
func (l Limits) Ask(n int, next time.Duration, reasons ...string) Decision {
	if to := l.Clamp(n); to != n {
		reasons = append(reasons, fmt.Sprintf("limits allow %d, not %d", to, n))
		n = to
	}
	return Decision{Replicas: n, Next: next, Reasons: reasons}
}

// Grow decides on n replicas because there are too few, clamped to the limits. It never lowers the wanted number: the
// cause of the earlier decision still holds, and replicas that still start would be cancelled and created again.
func (l Limits) Grow(o Observation, n int, next time.Duration, reasons ...string) Decision {
	if n < l.Clamp(o.Desired) {
		reasons = append(reasons, fmt.Sprintf("%s already requested and %s not reduced to %d", plural.Form(o.Desired, "1 is", fmt.Sprintf("%d are", o.Desired)), plural.Form(o.Desired, "is", "are"), n))
		n = l.Clamp(o.Desired)
	}
	return l.Ask(n, next, reasons...)
}

// Needs is a set of measurements that a law needs.
type Needs uint8

// The measurements.
const (
	ArrivalRate Needs = 1 << iota
	ResponseTime
	QueueLength
	Utilization
)

// RequestNeeds returns the needs of a law that keeps a response time. If no request arrived, there is no response time,
// but it still matters whether requests are in the system.
func (o Observation) RequestNeeds() Needs {
	if o.ArrivalRate == 0 {
		return ArrivalRate | QueueLength
	}
	return ArrivalRate | ResponseTime | QueueLength
}

// RequestFault returns why a law that keeps a response time cannot use an observation, like Missing for RequestNeeds. It is
// empty if the law can use it. partial reports that the arrival rate is known nevertheless, so that the law can tell
// whether there are enough replicas, but not whether there are too many: it may scale out. That is so while all responses
// are errors, which have no response time.
func (o Observation) RequestFault(maxAge time.Duration) (why string, partial bool) {
	why = o.Missing(o.RequestNeeds(), maxAge)
	return why, why != "" && o.ArrivalRate > 0 && o.Missing(ArrivalRate, maxAge) == ""
}

// Possible returns the observation without impossible measurements of response time and queue length, which become NaN.
func (o Observation) Possible() Observation {
	for _, value := range []*float64{&o.ResponseTime, &o.QueueLength} {
		if !(*value >= 0 && *value <= mostMeasured) {
			*value = math.NaN()
		}
	}
	return o
}

// Partial turns the decision of a law on a partial observation into one that only scales out, and holds otherwise. why is
// what is missing.
func (l Limits) Partial(o Observation, d Decision, why string) Decision {
	if d.Replicas <= l.Clamp(o.Desired) {
		return l.Hold(o, d.Next, why)
	}
	d.Reasons = append(d.Reasons, why+": only scaling out")
	return d
}

// mostMeasured is above every rate, time in seconds, queue length and percentage that a service can have. Products and
// squares of smaller values are finite.
const mostMeasured = 1e12

// Missing returns why a law cannot use an observation: a needed measurement is missing, negative or above 1e12; the
// measurements are older than maxAge (0 for no bound) or newer than now; or no replica is Ready. It is empty if the law
// can use it.
func (o Observation) Missing(needs Needs, maxAge time.Duration) string {
	switch {
	case o.Age < 0:
		return fmt.Sprintf("the measurements are %v in the future: the clocks differ, or one was changed", -o.Age)
	case maxAge > 0 && o.Age > maxAge:
		return fmt.Sprintf("the measurements are %v old, more than %v", o.Age, maxAge)
	case o.Desired < 0 || o.Ready < 0:
		return "the number of replicas is unknown"
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
			return fmt.Sprintf("the measured %s of %v is impossible", m.name, m.value)
		}
	}
	if o.Ready == 0 && needs != 0 {
		return "no replica is Ready"
	}
	return ""
}

// Memory is the state of a law between evaluations. Its type is private to the law; encoding/json can encode it. Nil is
// fresh memory.
type Memory any

// Law is a configured control law.
type Law interface {
	// Name returns the law's name in the catalogue.
	Name() string
	// Decide evaluates one observation. It does not change its arguments.
	Decide(m Memory, o Observation) (Memory, Decision)
	// Restore decodes memory from JSON. Empty input gives fresh memory.
	Restore(saved []byte) (Memory, error)
}

// New makes a law from a function with typed memory M, whose zero value is fresh memory. Decide panics if it is given
// the memory of another law, which is a programming error.
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
