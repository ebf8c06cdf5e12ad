// Package inversequeue keeps a mean response time by an inverse queueing model
// with feedback: FeedBack_InverseQM of Cai and Buyya (IEEE TPDS 2022).
//
// [Decide] is their algorithm 4. While the queue is stable, what to aim at is
// learned for each arrival rate from the service itself (reference.go, their
// ARML), and an integral controller moves the response time that the queueing
// model is inverted at, with a gain that maps errors of the service to errors of
// the model (mapping.go, AOM). When the queue is not stable, its length decides
// (overload.go, QLP).
//
// Where the paper is silent or its loops do not end, the doc comments say what is
// done. W(N) below is the M/M/N response time at the present arrival rate lambda
// and the service rate mu that the model gives for it, and L_s(N) the requests
// inside; see package queueing.
package inversequeue

import (
	"errors"
	"fmt"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/law"
)

// Name is the law's name in the catalogue.
const Name = "inversequeue"

// Config has the constants; [Default] those of the paper.
type Config struct {
	law.Goal
	// Gap is g: arrival rates closer than this, in 1/s, share a reference model.
	Gap float64
	// Reach is g': how far, in 1/s, a mature reference model is used.
	Reach float64
	// Keep is how many response times are kept for each number of replicas.
	Keep int
	// Spread is how far from their mean, as a share of it, response times may be
	// and still count.
	Spread float64
	// Rank says which of the stable means is the reference response time, from
	// the largest; the first two lie so near to the SLO that small changes of the
	// load break it.
	Rank int
	// MatureSizes is how many numbers of replicas a model must have seen keep the
	// SLO before it guides; all of them where the limits allow fewer.
	MatureSizes int
	// Gain is K_I of the integral controller.
	Gain float64
	// QueueFactor and ResponseFactor are how many times longer than the model
	// says the queue, and response at the least stable N, may be before the queue
	// counts as not stable.
	QueueFactor, ResponseFactor float64
	// DrainTime is T_r, in which added replicas are to work off a queue.
	DrainTime time.Duration
	// QuietLooks is how many looks in a row must show no request before the least
	// replicas are asked for.
	QuietLooks int
	// MaxModels bounds the memory: the model that was used least lately makes
	// room.
	MaxModels int
}

// Default has the paper's constants (sections 4 and 5).
func Default() Config {
	return Config{
		Goal: law.DefaultGoal(), Gap: 5, Reach: 20, Keep: 10, Spread: 0.4, Rank: 3, MatureSizes: 5, Gain: 0.15,
		QueueFactor: 10, ResponseFactor: 1.2, DrainTime: 10 * time.Second, QuietLooks: 3, MaxModels: 200,
	}
}

// Validate refuses constants out of range, all of them at once.
func (c Config) Validate() error {
	return errors.Join(
		c.Goal.Validate(),
		law.Want(c.Gap > 0, "requests per second above 0", "gap %v", c.Gap),
		law.Want(c.Reach >= c.Gap, "no less than the gap", "reach %v", c.Reach),
		law.Want(c.Keep >= 1 && c.Keep <= 1000, "1 to 1000 response times", "keep %d", c.Keep),
		law.Want(c.Spread > 0, "a share above 0", "spread %v", c.Spread),
		law.Want(c.Rank >= 1, "1 or more", "rank %d", c.Rank),
		law.Want(c.MatureSizes >= c.Rank, "no fewer than the rank", "mature sizes %d", c.MatureSizes),
		law.Want(c.Gain > 0 && c.Gain <= 1, "a number above 0, at most 1", "gain %v", c.Gain),
		law.Want(c.QueueFactor >= 1, "1 or more", "queue factor %v", c.QueueFactor),
		law.Want(c.ResponseFactor >= 1, "1 or more", "response factor %v", c.ResponseFactor),
		law.Want(c.DrainTime > 0, "a time above 0", "drain time %v", c.DrainTime),
		law.Want(c.QuietLooks >= 1, "1 or more", "quiet looks %d", c.QuietLooks),
		law.Want(c.MaxModels >= 1, "1 or more", "models %d", c.MaxModels),
	)
}

// Memory is what the law has learned, and where its controller stands.
type Memory struct {
	// Models are the reference models, by arrival rate.
	Models []Reference `json:"models,omitempty"`
	// Previous is the arrival rate of the model of the last look; 0 for none.
	Previous float64 `json:"previous,omitempty"`
	// Input is u of the last look, in seconds; 0 for none.
	Input float64 `json:"input,omitempty"`
	// Looks counts the looks, to tell which model was used last.
	Looks int64 `json:"looks,omitempty"`
	// Ready is how many replicas were Ready at the last look; 0: not known.
	Ready int `json:"ready,omitempty"`
	// Rose is the look, counted as Looks does, at which the Ready replicas became more; 0:
	// never, or they became fewer since. Fell is the look at which they became fewer by
	// more than MatureSizes; 0: never.
	Rose int64 `json:"rose,omitempty"`
	Fell int64 `json:"fell,omitempty"`
	// Quiet is for how long no request has come.
	Quiet law.Quiet `json:"quiet,omitzero"`
}

// Reference is what has been learned at one arrival rate.
type Reference struct {
	// ArrivalRate is the rate in 1/s at which the model was made.
	ArrivalRate float64 `json:"arrivalRate"`
	// TooFew is n_r, the most replicas that broke the SLO; nil: not known. It may
	// be 0: one was enough.
	TooFew *int `json:"tooFew,omitempty"`
	// Sizes are the numbers of replicas that kept the SLO, ascending.
	Sizes []Size `json:"sizes,omitempty"`
	// Used is the look at which the model was used last.
	Used int64 `json:"used"`
}

// Size is a number of replicas with the last response times that it kept the SLO
// with, the oldest first, in microseconds.
type Size struct {
	Replicas       int     `json:"replicas"`
	ResponseMicros []int64 `json:"responseMicros"`
}

// New makes the law.
func New(c Config) (law.Law, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("law %s: %w", Name, err)
	}
	return law.New(Name, func(m Memory, o law.Observation) (Memory, law.Decision) { return Decide(c, m, o) }), nil
}
