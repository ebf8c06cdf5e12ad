package queueing

import "math"

// System is an M/M/N queue. The zero value is not valid; see [System.Valid].
type System struct {
	Servers     int     // N, at least 1
	ArrivalRate float64 // lambda, requests per second
	ServiceRate float64 // mu, requests per second of one busy server
}

// Valid reports whether the queue is well-defined: at least one server, a finite arrival rate of 0 or more, and a
// service rate above 0. An infinite service rate is valid and means that service takes no time.
func (s System) Valid() bool {
	return s.Servers >= 1 && s.ArrivalRate >= 0 && !math.IsInf(s.ArrivalRate, 1) && s.ServiceRate > 0
}

// Stable reports whether the servers keep up: N·mu > lambda. Otherwise the queue grows without bound.
func (s System) Stable() bool { return s.Valid() && s.spare() > 0 }

// spare returns N·mu - lambda, rounded once. Near saturation, rounding the product separately would leave only rounding
// error.
func (s System) spare() float64 {
	return math.FMA(float64(s.Servers), s.ServiceRate, -s.ArrivalRate)
}

// Waits returns the probability that a request has to wait, by Erlang's formula C:
//
//	C = B·N·mu / (N·mu - lambda + lambda·B)
//
// with B from [Blocks]. It is 1 for a queue that is not stable and NaN for one that is not valid. Cost: O(N).
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

// Response returns the mean time W of a request from arrival to answer, in seconds:
//
//	W = 1/mu + C / (N·mu - lambda)
//
// It falls as N or mu rises and rises with lambda. It is 1/mu at lambda = 0, +Inf for a queue that is not stable and
// NaN for one that is not valid. Relative error: below 1e-9 for N up to 200, growing with N. Cost: O(N).
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

// Requests returns the mean number Ls of requests in the system, waiting and in service, by Little's law: lambda·W. It
// is 0 at lambda = 0, and +Inf and NaN as in [System.Response]. Cost: O(N).
func (s System) Requests() float64 {
	if s.ArrivalRate == 0 && s.Valid() {
		return 0
	}
	return s.ArrivalRate * s.Response()
}

// Blocks returns Erlang's formula B: the share of requests that would find all n servers busy if no request could wait.
// load is lambda/mu, in busy servers. The recursion
//
//	B(0) = 1, B(k) = load·B(k-1) / (k + load·B(k-1))
//
// adds and divides positive numbers only, so its relative error stays near n times that of one division. It cannot
// overflow, and values that underflow to 0 are negligible in every sum. The result is NaN for n < 0 or a load that is
// negative or NaN, and 1 for an infinite load. Cost: O(n).
func Blocks(n int, load float64) float64 {
	if n < 0 || !(load >= 0) {
		return math.NaN()
	}
	return continueBlocks(1, 0, n, load)
}

// continueBlocks computes B(to) from b = B(from).
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
