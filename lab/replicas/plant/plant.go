// Package plant plays a service of replicas behind a load balancer, in virtual
// time: an M/M/N queue whose arrival rate, service rate and number of servers
// change, with a bounded line, a time-out and replicas that take time to start.
//
// Every request is played. All rates are constant between two events, and times
// between events are exponentially distributed, so that what is drawn is exact:
// with nothing changing, the mean response time tends to that of package
// queueing.
//
// The package is pure; its random numbers come from a source that it is given.
package plant

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/internal/input"
)

// Config describes a service.
type Config struct {
	// Model gives the service rate of a replica at an arrival rate. Alpha is not
	// heeded: the past acts by the requests that are still inside.
	Model queueing.Model
	// Timeout is how long a request waits before it times out. It counts as
	// answered after Timeout then. 0 is forever.
	Timeout time.Duration
	// Connections is how many requests may be inside for each Ready replica;
	// further ones are rejected, and count as answered after Timeout. 0 is no
	// bound. With no replica Ready the bound is that of one.
	Connections int
	// Start is how long a replica takes to start, and Stop to be taken out.
	Start, Stop time.Duration
	// OneByOne lets the next replica start or stop when the one before has.
	// Otherwise all do at once.
	OneByOne bool
	// Replicas are Ready at the beginning.
	Replicas int
}

// Default is the service of the InverseQueue paper: a time-out of 10 s, 500
// connections for each replica, and replicas that start in 5 s.
func Default() Config {
	return Config{Model: queueing.PaperModel(), Timeout: 10 * time.Second, Connections: 500, Start: 5 * time.Second, Replicas: 1}
}

// Validate refuses what cannot be played, all faults at once.
func (c Config) Validate() error {
	errs := input.Faults{c.Model.Validate()}
	errs.If(c.Timeout < 0 || c.Start < 0 || c.Stop < 0, "time-out %v, start %v and stop %v: want 0 or more", c.Timeout, c.Start, c.Stop)
	errs.If(c.Connections < 0 || c.Replicas < 0, "%d connections and %d replicas: want 0 or more", c.Connections, c.Replicas)
	errs.If(c.Connections > 0 && c.Timeout == 0, "a bound of connections without a time-out: want one, which is what a rejected request counts as")
	return errors.Join(errs...)
}

// Plant is a service that is running. It is not safe for concurrent use.
type Plant struct {
	c   Config
	r   *rand.Rand
	now float64 // seconds

	lambda, mu float64
	ready      int
	wanted     int
	changes    []change // what starts or stops, in the order of its time
	started    []time.Duration

	busy    int
	waiting line
	seen    Window
}

// change is one replica more or less at a time.
type change struct {
	at    float64
	by    int
	asked float64 // when it was asked for
}

// Window is what was measured over a time.
type Window struct {
	// Seconds is how long, and ReplicaSeconds the integral of the replicas asked
	// for or still there, whichever are more: that is what is paid.
	Seconds, ReplicaSeconds float64
	// Arrived, Started, Answered, TimedOut and Rejected count requests; Started
	// are those whose service began, and Rejected ones have arrived too.
	Arrived, Started, Answered, TimedOut, Rejected int64
	// WaitSeconds sums the waits of Started, and BusySeconds is the integral of
	// the busy replicas.
	WaitSeconds, BusySeconds float64
	// OverloadSeconds is for how long requests came faster than the Ready
	// replicas could serve.
	OverloadSeconds float64
	// FailedSeconds is what requests that were rejected or timed out count as.
	FailedSeconds float64
	// PeakUtilization is the greatest utilisation, see [Plant.Utilization].
	PeakUtilization float64
}

// Response is the mean response time of the window in seconds, NaN when no
// request ended in it. It is the mean wait of the requests that began service or
// failed plus the mean service of those that were answered, which needs no
// record of each.
func (w Window) Response() float64 {
	ended := float64(w.Started + w.TimedOut + w.Rejected)
	if ended == 0 {
		return math.NaN()
	}
	mean := (w.WaitSeconds + w.FailedSeconds) / ended
	if w.Answered > 0 {
		mean += w.BusySeconds / float64(w.Answered) * float64(w.Started) / ended
	}
	return mean
}

// ArrivalRate is the requests per second that came.
func (w Window) ArrivalRate() float64 { return float64(w.Arrived) / w.Seconds }

// Add joins a window that follows.
func (w Window) Add(v Window) Window {
	return Window{
		Seconds: w.Seconds + v.Seconds, ReplicaSeconds: w.ReplicaSeconds + v.ReplicaSeconds,
		Arrived: w.Arrived + v.Arrived, Started: w.Started + v.Started, Answered: w.Answered + v.Answered,
		TimedOut: w.TimedOut + v.TimedOut, Rejected: w.Rejected + v.Rejected,
		WaitSeconds: w.WaitSeconds + v.WaitSeconds, BusySeconds: w.BusySeconds + v.BusySeconds,
		OverloadSeconds: w.OverloadSeconds + v.OverloadSeconds, FailedSeconds: w.FailedSeconds + v.FailedSeconds,
		PeakUtilization: max(w.PeakUtilization, v.PeakUtilization),
	}
}

// New starts a service at time 0 with no request inside.
func New(c Config, r *rand.Rand) (*Plant, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("service to simulate: %w", err)
	}
	p := &Plant{c: c, r: r, ready: c.Replicas, wanted: c.Replicas}
	return p, p.SetRate(0)
}

// Now is the time since the beginning, in seconds.
func (p *Plant) Now() float64 { return p.now }

// Ready is how many replicas serve, and Wanted how many were asked for.
func (p *Plant) Ready() int { return p.ready }

// Wanted is how many replicas were asked for.
func (p *Plant) Wanted() int { return p.wanted }

// Started is how long each replica took from being asked for to serving that has come to
// serve since the last call, in the order in which they did.
func (p *Plant) Started() []time.Duration {
	started := p.started
	p.started = nil
	return started
}

// Inside is how many requests wait or are served.
func (p *Plant) Inside() int { return p.busy + p.waiting.length() }

// Utilization is the work that comes in percent of what the Ready replicas can
// do, 100·lambda/(ready·mu); above 100 the line grows. It is 0 when nothing comes
// and infinite when something does and no replica is Ready.
func (p *Plant) Utilization() float64 {
	if p.lambda == 0 {
		return 0
	}
	return 100 * p.lambda / (float64(p.ready) * p.mu)
}

// maxServiceRate is the most requests per second that a replica serves, however
// quick the model has it when next to nobody asks.
const maxServiceRate = 1e6

// SetRate makes requests come at lambda per second from now on.
func (p *Plant) SetRate(lambda float64) error {
	if !(lambda >= 0) || math.IsInf(lambda, 1) {
		return fmt.Errorf("arrival rate %v: want requests per second, 0 or more", lambda)
	}
	p.lambda = lambda
	p.mu = min(p.c.Model.ServiceRate(lambda), maxServiceRate)
	if lambda == 0 {
		// What is still inside is served at the basic rate: the model has none.
		p.mu = p.c.Model.MuB
	}
	return nil
}

// Scale asks for n replicas in all. What is starting or stopping and no longer
// needed is called off, the last first.
func (p *Plant) Scale(n int) {
	n = max(n, 0)
	p.wanted = n
	coming := p.ready
	for _, c := range p.changes {
		coming += c.by
	}
	for last := len(p.changes) - 1; last >= 0 && coming != n; last-- {
		by := p.changes[last].by
		if (n-coming)*by > 0 {
			break // it goes the right way
		}
		coming -= by
		p.changes = p.changes[:last]
	}
	for coming != n {
		c := change{at: p.now + p.c.Start.Seconds(), by: 1, asked: p.now}
		if n < coming {
			c = change{at: p.now + p.c.Stop.Seconds(), by: -1, asked: p.now}
		}
		if last := len(p.changes) - 1; p.c.OneByOne && last >= 0 {
			c.at += p.changes[last].at - p.now
		} else if last >= 0 {
			c.at = max(c.at, p.changes[last].at)
		}
		coming += c.by
		p.changes = append(p.changes, c)
	}
	p.apply()
}

// apply carries out the changes that are due. A replica that stops ends no
// request: who is served moves back to the head of the line, having waited
// nothing more. Exponential service has no memory, so that nothing is lost.
func (p *Plant) apply() {
	for len(p.changes) > 0 && p.changes[0].at <= p.now {
		c := p.changes[0]
		p.ready += c.by
		if c.by > 0 {
			p.started = append(p.started, time.Duration((c.at-c.asked)*float64(time.Second)))
		}
		p.changes = p.changes[1:]
	}
	p.seen.PeakUtilization = max(p.seen.PeakUtilization, p.Utilization())
	p.fill()
}

// fill gives waiting requests to idle replicas, and takes requests from replicas
// that are gone.
func (p *Plant) fill() {
	for ; p.busy > p.ready; p.busy-- {
		p.waiting.pushFront(p.now)
		p.seen.Started-- // it begins anew
	}
	for p.busy < p.ready && p.waiting.length() > 0 {
		wait := p.now - p.waiting.pop()
		if limit := p.c.Timeout.Seconds(); limit > 0 && wait > limit {
			p.seen.TimedOut++
			p.seen.FailedSeconds += limit
			continue
		}
		p.busy++
		p.seen.Started++
		p.seen.WaitSeconds += wait
	}
}

// expire drops the requests at the head of the line that have waited too long.
func (p *Plant) expire() {
	limit := p.c.Timeout.Seconds()
	for limit > 0 && p.waiting.length() > 0 && p.now-p.waiting.first() > limit {
		p.waiting.pop()
		p.seen.TimedOut++
		p.seen.FailedSeconds += limit
	}
}

// RunTo plays until a time in seconds and returns what was measured since the
// last call. It panics if the time is past.
func (p *Plant) RunTo(end float64) Window {
	if end < p.now {
		panic(fmt.Sprintf("plant: time %v is before %v", end, p.now))
	}
	p.apply()
	for p.now < end {
		until := end
		if len(p.changes) > 0 {
			until = min(until, p.changes[0].at)
		}
		p.play(until)
		p.apply()
	}
	p.expire()
	w := p.seen
	p.seen = Window{}
	return w
}

// play draws events until a time, between which replicas and rates are constant.
func (p *Plant) play(until float64) {
	span := until - p.now
	p.seen.Seconds += span
	p.seen.ReplicaSeconds += float64(max(p.wanted, p.ready)) * span
	if p.lambda > float64(p.ready)*p.mu {
		p.seen.OverloadSeconds += span
	}
	for {
		total := p.lambda + float64(p.busy)*p.mu
		if total == 0 {
			break
		}
		step := p.r.ExpFloat64() / total
		if p.now+step >= until {
			break
		}
		p.now += step
		p.seen.BusySeconds += float64(p.busy) * step
		if p.r.Float64()*total < p.lambda {
			p.arrive()
		} else {
			p.busy--
			p.seen.Answered++
			p.fill()
		}
	}
	p.seen.BusySeconds += float64(p.busy) * (until - p.now)
	p.now = until
}

// arrive takes one request in.
func (p *Plant) arrive() {
	p.seen.Arrived++
	switch {
	case p.busy < p.ready:
		p.busy++
		p.seen.Started++
	case p.full():
		p.seen.Rejected++
		p.seen.FailedSeconds += p.c.Timeout.Seconds()
	default:
		p.waiting.push(p.now)
	}
}

// full reports whether no further request may come in, after those were dropped
// that have waited too long.
func (p *Plant) full() bool {
	if p.c.Connections == 0 {
		return false
	}
	bound := p.c.Connections * max(p.ready, 1)
	if p.Inside() < bound {
		return false
	}
	p.expire()
	return p.Inside() >= bound
}
