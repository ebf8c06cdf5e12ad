// Package plant simulates a service of replicas behind a load balancer in virtual time: an M/M/N
// queue with changing arrival rate, service rate and number of servers, a bounded queue, a
// time-out, and replicas that take time to start.
//
// Every request is simulated. All rates are constant between two events, and the times between
// events are exponentially distributed, so the simulation is exact: without changes, the mean
// response time converges to that of package queueing.
//
// The package is pure; the caller provides the random source.
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
	// Model gives the service rate of a replica at an arrival rate. Alpha is ignored: the past acts
	// through the requests that are still in the system.
	Model queueing.Model
	// Timeout is how long a request waits before it times out. Its response time is then Timeout. 0
	// means no time-out.
	Timeout time.Duration
	// Connections is the maximum number of requests in the system per Ready replica. Further
	// requests are rejected with a response time of Timeout. 0 means no limit. Without Ready
	// replicas the limit is that of one.
	Connections int
	// Start is the start-up time of a replica, and Stop the time to remove one.
	Start, Stop time.Duration
	// OneByOne starts or stops a replica only after the previous one has finished. Otherwise all
	// start or stop concurrently.
	OneByOne bool
	// Replicas is the number of Ready replicas at the beginning.
	Replicas int
	// Dead is the number of requested replicas that never become Ready, such as those on a broken node. They cost as much
	// as others, and exist from the beginning.
	Dead int
}

// Default returns the service of the InverseQueue paper: a time-out of 10 s, 500 connections per
// replica, and replicas that start in 5 s.
func Default() Config {
	return Config{Model: queueing.PaperModel(), Timeout: 10 * time.Second, Connections: 500, Start: 5 * time.Second, Replicas: 1}
}

// Validate reports everything that is invalid.
func (c Config) Validate() error {
	errs := input.Faults{c.Model.Validate()}
	errs.If(c.Timeout < 0 || c.Start < 0 || c.Stop < 0, "timeout %v, start %v and stop %v: must be 0 or more", c.Timeout, c.Start, c.Stop)
	errs.If(c.Connections < 0 || c.Replicas < 0, "%d connections and %d replicas: must be 0 or more", c.Connections, c.Replicas)
	errs.If(c.Dead < 0, "%d replicas that never become Ready: must be 0 or more", c.Dead)
	errs.If(c.Connections > 0 && c.Timeout == 0, "a limit of connections requires a timeout, which is the response time of rejected requests")
	return errors.Join(errs...)
}

// Plant is a running service. It is not safe for concurrent use.
type Plant struct {
	c   Config
	r   *rand.Rand
	now float64 // seconds

	lambda, mu float64
	ready      int
	wanted     int
	changes    []change // replicas that are starting or stopping, in time order
	started    []time.Duration

	busy    int
	waiting line
	seen    Window
}

// change adds or removes one replica at a time.
type change struct {
	at    float64
	by    int
	asked float64 // when it was requested
}

// Window has the measurements over a period.
type Window struct {
	// Seconds is the duration, and ReplicaSeconds the integral of the requested or the existing
	// replicas, whichever are more, because those are billed.
	Seconds, ReplicaSeconds float64
	// Arrived, Started, Answered, TimedOut and Rejected count requests. Started requests have begun
	// service. Rejected requests count as arrived too.
	Arrived, Started, Answered, TimedOut, Rejected int64
	// WaitSeconds is the sum of the waits of Started requests, and BusySeconds the integral of the
	// busy replicas.
	WaitSeconds, BusySeconds float64
	// OverloadSeconds is the time in which requests arrived faster than the Ready replicas could
	// serve.
	OverloadSeconds float64
	// FailedSeconds is the sum of the response times attributed to rejected and timed-out requests.
	FailedSeconds float64
	// PeakUtilization is the greatest utilization, see [Plant.Utilization].
	PeakUtilization float64
}

// Response returns the mean response time of the window in seconds, or NaN if no request ended in
// it. It is the mean wait of the requests that began service or failed plus the mean service time
// of the answered ones, which requires no record of each request.
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

// ArrivalRate returns the arrivals per second.
func (w Window) ArrivalRate() float64 { return float64(w.Arrived) / w.Seconds }

// Add appends a window that follows.
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

// New starts a service at time 0 without requests in the system.
func New(c Config, r *rand.Rand) (*Plant, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("service to simulate: %w", err)
	}
	p := &Plant{c: c, r: r, ready: c.Replicas, wanted: c.Replicas + c.Dead}
	return p, p.SetRate(0)
}

// Now returns the time since the beginning, in seconds.
func (p *Plant) Now() float64 { return p.now }

// Ready returns the number of serving replicas.
func (p *Plant) Ready() int { return p.ready }

// Dead returns the number of requested replicas that never become Ready.
func (p *Plant) Dead() int { return min(p.c.Dead, p.wanted) }

// Desired returns the number of requested replicas.
func (p *Plant) Desired() int { return p.wanted }

// Started returns the start-up times of the replicas that became Ready since the last call, in that
// order.
func (p *Plant) Started() []time.Duration {
	started := p.started
	p.started = nil
	return started
}

// Inside returns the number of requests that wait or are served.
func (p *Plant) Inside() int { return p.busy + p.waiting.length() }

// Utilization returns the offered load in percent of the capacity of the Ready replicas,
// 100·lambda/(ready·mu). Above 100 the queue grows. It is 0 without arrivals, and infinite with
// arrivals and no Ready replica.
func (p *Plant) Utilization() float64 {
	if p.lambda == 0 {
		return 0
	}
	return 100 * p.lambda / (float64(p.ready) * p.mu)
}

// maxServiceRate is the maximum number of requests per second of a replica, however fast the model
// is at low arrival rates.
const maxServiceRate = 1e6

// SetRate sets the arrival rate to lambda requests per second from now on.
func (p *Plant) SetRate(lambda float64) error {
	if !(lambda >= 0) || math.IsInf(lambda, 1) {
		return fmt.Errorf("arrival rate %v: must be 0 or more requests per second", lambda)
	}
	p.lambda = lambda
	p.mu = min(p.c.Model.ServiceRate(lambda), maxServiceRate)
	if lambda == 0 {
		// The remaining requests are served at the basic rate: the model has no rate at 0.
		p.mu = p.c.Model.MuB
	}
	return nil
}

// Scale requests n replicas in total. Starts and stops that are no longer needed are cancelled, the
// last first. Of n replicas, those that never become Ready do not serve.
func (p *Plant) Scale(n int) {
	p.wanted = max(n, 0)
	n = max(p.wanted-p.c.Dead, 0)
	coming := p.ready
	for _, c := range p.changes {
		coming += c.by
	}
	for last := len(p.changes) - 1; last >= 0 && coming != n; last-- {
		by := p.changes[last].by
		if (n-coming)*by > 0 {
			break // it is in the right direction
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

// apply applies the changes that are due. A stopping replica ends no request: the request in
// service moves back to the head of the queue with no additional wait. Exponential service is
// memoryless, so nothing is lost.
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

// fill assigns waiting requests to idle replicas, and undoes requests from removed replicas.
func (p *Plant) fill() {
	for ; p.busy > p.ready; p.busy-- {
		p.waiting.pushFront(p.now)
		p.seen.Started-- // it will start again
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

// expire drops requests at the head of the queue that have timed out.
func (p *Plant) expire() {
	limit := p.c.Timeout.Seconds()
	for limit > 0 && p.waiting.length() > 0 && p.now-p.waiting.first() > limit {
		p.waiting.pop()
		p.seen.TimedOut++
		p.seen.FailedSeconds += limit
	}
}

// RunTo simulates until a time in seconds and returns the measurements since the last call. It
// panics if the time is in the past.
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

// play draws events until a time. Replicas and rates are constant until then.
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

// arrive processes one arrival.
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

// full reports whether no further request is accepted, after dropping requests that have timed out.
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
