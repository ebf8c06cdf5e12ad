package queueing

import "math"

// System is an M/M/N queue. The zero value is not valid; see [System.Valid].
type System struct {
	Servers     int     // N, at least 1
	ArrivalRate float64 // lambda, requests per second
	ServiceRate float64 // mu, requests per second of one busy server
}

// Valid reports whether the queue can be computed with: at least one server, an
// arrival rate of 0 or more and finite, a service rate above 0. An infinite
// service rate is valid and means service in no time.
func (s System) Valid() bool {
	return s.Servers >= 1 && s.ArrivalRate >= 0 && !math.IsInf(s.ArrivalRate, 1) && s.ServiceRate > 0
}

// Stable reports whether the servers can keep up: N·mu > lambda. In a queue that
// is not stable requests wait ever longer.
func (s System) Stable() bool { return s.Valid() && s.spare() > 0 }

// spare is N·mu - lambda, rounded once: near saturation the product's own
// rounding would be all that is left.
func (s System) spare() float64 {
	return math.FMA(float64(s.Servers), s.ServiceRate, -s.ArrivalRate)
}

// Waits is the probability that a request has to wait, by Erlang's formula C:
//
//	C = B·N·mu / (N·mu - lambda + lambda·B)
//
// with B from [Blocks]. It is 1 for a queue that is not stable and NaN for one
// that is not valid. Cost: O(N).
func (s System) Waits() float64 {
	if !s.Valid() {
		return math.NaN()
	}
	return s.waits(Blocks(s.Servers, s.load()))
}

func (s System) load() float64 { return s.ArrivalRate / s.ServiceRate }

// waits is [System.Waits] for a known B.
func (s System) waits(blocks float64) float64 {
	if math.IsInf(s.ServiceRate, 1) {
		return 0
	}
	spare := s.spare()
	if !(spare > 0) {
		return 1
	}
	return blocks * float64(s.Servers) * s.ServiceRate / (spare + s.ArrivalRate*blocks)
}

// Response is the mean time W of a request from arrival to answer, in seconds:
//
//	W = 1/mu + C / (N·mu - lambda)
//
// It falls as N or mu rises and rises with lambda. It is 1/mu at lambda = 0,
// +Inf for a queue that is not stable and NaN for one that is not valid.
// Relative error: below 1e-9 for N up to 200, growing with N. Cost: O(N).
func (s System) Response() float64 {
	if !s.Valid() {
		return math.NaN()
	}
	return s.response(Blocks(s.Servers, s.load()))
}

// response is [System.Response] of a valid queue with a known B.
func (s System) response(blocks float64) float64 {
	if math.IsInf(s.ServiceRate, 1) {
		return 0
	}
	spare := s.spare()
	if !(spare > 0) {
		return math.Inf(1)
	}
	return 1/s.ServiceRate + s.waits(blocks)/spare
}

// Requests is the mean number Ls of requests inside, waiting and in service, by
// Little's law: lambda·W. It is 0 at lambda = 0, and +Inf and NaN as
// [System.Response] is. Cost: O(N).
func (s System) Requests() float64 {
	if s.ArrivalRate == 0 && s.Valid() {
		return 0
	}
	return s.ArrivalRate * s.Response()
}

// Blocks is Erlang's formula B: the share of requests that would find all n
// servers busy if none could wait. load is lambda/mu, in busy servers. The
// recursion
//
//	B(0) = 1, B(k) = load·B(k-1) / (k + load·B(k-1))
//
// adds and divides numbers above 0 only, so that its relative error stays near n
// times that of one division; it cannot overflow, and what underflows to 0 is
// too little to matter to any sum it enters. NaN for n < 0 or a load that is
// negative or NaN, 1 for an infinite load. Cost: O(n).
func Blocks(n int, load float64) float64 {
	if n < 0 || !(load >= 0) {
		return math.NaN()
	}
	return continueBlocks(1, 0, n, load)
}

// continueBlocks takes B(from) to B(to).
func continueBlocks(b float64, from, to int, load float64) float64 {
	if math.IsInf(load, 1) {
		return 1
	}
	for k := from + 1; k <= to && b > 0; k++ {
		b *= load
		b /= float64(k) + b
	}
	return b
}
