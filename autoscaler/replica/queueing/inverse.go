package queueing

import (
	"errors"
	"fmt"
	"math"
)

// MaxServers bounds every search for a number of servers.
const MaxServers = 1_000_000

// ErrUnreachable is wrapped by the error of [Inverse] if no number of servers is enough.
var ErrUnreachable = errors.New("response time cannot be achieved")

// LeastStable returns the lowest N of at least 1 with N·mu > lambda. It returns [MaxServers] + 1 if that is more than
// MaxServers, or if the rates are not valid.
//
// The paper starts its searches from the lowest integer that is not below lambda/mu, which is not stable if the two are
// equal.
func LeastStable(lambda, mu float64) int {
	if !(System{Servers: 1, ArrivalRate: lambda, ServiceRate: mu}).Valid() || !(lambda/mu < MaxServers) {
		return MaxServers + 1
	}
	n := max(1, int(lambda/mu))
	for n > 1 && (System{n - 1, lambda, mu}).Stable() {
		n--
	}
	for !(System{n, lambda, mu}).Stable() {
		n++
	}
	return n
}

// Inverse returns the lowest N, up to most servers, whose mean response time is at most w seconds. If there is none,
// the error wraps [ErrUnreachable]. It states what most servers reach, or the bare service time 1/mu, which is the
// limit for any number.
//
// It bisects between the least stable N and most (algorithm 2 of the paper increments N and does not terminate if w is
// below 1/mu). Response falls with N, so the result is unique. Each step continues from the blocking probability of the
// last one. Cost: linear in the greatest N on the way, about 4 N in total.
func Inverse(lambda, mu, w float64, most int) (int, error) {
	if !(System{Servers: max(most, 1), ArrivalRate: lambda, ServiceRate: mu}).Valid() || math.IsNaN(w) {
		return 0, fmt.Errorf("invert the queue with arrival rate %v/s, service rate %v/s and response time %v s: must be numbers, the service rate above 0", lambda, mu, w)
	}
	most = min(most, MaxServers)
	if w < 1/mu {
		return 0, fmt.Errorf("%w: one request alone takes %.6g s, which is more than %.6g s", ErrUnreachable, 1/mu, w)
	}
	least := LeastStable(lambda, mu)
	if least > most {
		return 0, fmt.Errorf("%w: %.6g requests/s require more than %d servers of %.6g/s each", ErrUnreachable, lambda, most, mu)
	}
	p := sizing{lambda: lambda, mu: mu, load: lambda / mu, at: 0, blocks: 1}
	p = p.to(least)
	if p.response() <= w {
		return least, nil
	}
	tooFew, enough, err := p.bracket(w, most)
	if err != nil {
		return 0, err
	}
	for tooFew.at+1 < enough {
		middle := tooFew.to(tooFew.at + (enough-tooFew.at)/2)
		if middle.response() <= w {
			enough = middle.at
		} else {
			tooFew = middle
		}
	}
	return enough, nil
}

// sizing is a number of servers with its B, from which greater numbers can be computed cheaply.
type sizing struct {
	lambda, mu, load float64
	at               int
	blocks           float64
}

func (p sizing) to(n int) sizing {
	p.blocks = continueBlocks(p.blocks, p.at, n, p.load)
	p.at = n
	return p
}

func (p sizing) response() float64 { return System{p.at, p.lambda, p.mu}.response(p.blocks) }

// bracket doubles its stride from p, which has too few servers, until there are enough.
func (p sizing) bracket(w float64, most int) (tooFew sizing, enough int, err error) {
	for stride := 1; ; stride *= 2 {
		next := p.to(min(p.at+stride, most))
		switch {
		case next.response() <= w:
			return p, next.at, nil
		case next.at == most:
			return p, 0, fmt.Errorf("%w: %d servers achieve %.6g s, which is more than %.6g s", ErrUnreachable, most, next.response(), w)
		}
		p = next
	}
}

// RateFor returns the service rate at which n servers answer in w seconds on average at arrival rate lambda: it turns a
// measured response time into the speed of a replica. W falls from infinity to 0 as the rate rises from lambda/n, so
// the result is unique. Its relative error is 1e-12. It is NaN if n, lambda or w is not above 0.
func RateFor(n int, lambda, w float64) float64 {
	if n < 1 || !finiteAbove0(lambda) || !finiteAbove0(w) {
		return math.NaN()
	}
	low := lambda / float64(n)
	high := low + 1/w
	for (System{n, lambda, high}).Response() > w {
		high *= 2
	}
	for high-low > 1e-12*high {
		middle := (low + high) / 2
		if middle <= low || middle >= high {
			break // adjacent floating-point numbers
		}
		if (System{n, lambda, middle}).Response() > w {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
