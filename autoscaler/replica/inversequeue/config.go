// Package inversequeue keeps a mean response time with an inverse queueing model and feedback: FeedBack_InverseQM of
// Cai and Buyya (IEEE TPDS 2022).
//
// [Decide] is their algorithm 4. While the queue is stable, the reference response time is learned for each arrival
// rate from the service itself (reference.go, their ARML). An integral controller moves the response time for which the
// queueing model is inverted; its gain maps errors of the service to errors of the model (mapping.go, AOM). When the
// queue is not stable, its length decides (overload.go, QLP).
//
// Where the paper leaves something open, or its loops do not terminate, the doc comments say what is done. W(N) below
// is the M/M/N response time at the present arrival rate lambda and the service rate mu that the model gives for it,
// and L_s(N) the number of requests in the system; see package queueing.
package inversequeue

import (
	"errors"
	"fmt"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/law"
)

// Name is the law's name in the catalogue.
const Name = "inversequeue"

// Config has the constants; [Default] returns those of the paper.
type Config struct {
	law.Goal
	// Gap is g: arrival rates closer than this, in 1/s, share a reference model.
	Gap float64
	// Reach is g': the distance, in 1/s, within which a mature reference model is used.
	Reach float64
	// Keep is the number of response times kept for each number of replicas.
	Keep int
	// Spread is the maximum deviation of a response time from their mean, as a share of the mean, for it to count.
	Spread float64
	// Rank selects the reference response time among the stable means, from the largest. The first two are so near to
	// the SLO that small changes of the load break it.
	Rank int
	// MatureSizes is how many numbers of replicas must have kept the SLO before a model is used as a guide; all of
	// them, if the limits allow fewer.
	MatureSizes int
	// Gain is K_I of the integral controller.
	Gain float64
	// QueueFactor and ResponseFactor are the factors by which the queue length, and the response time at the least
	// stable N, may exceed the model before the queue counts as not stable.
	QueueFactor, ResponseFactor float64
	// DrainTime is T_r, the time in which added replicas must work off a queue.
	DrainTime time.Duration
	// QuietEvaluations is the number of consecutive evaluations without requests after which the law scales in to the
	// minimum.
	QuietEvaluations int
	// MaxModels bounds the memory: the least recently used model is dropped.
	MaxModels int
}

// Default returns the paper's constants (sections 4 and 5).
func Default() Config {
	return Config{
		Goal: law.DefaultGoal(), Gap: 5, Reach: 20, Keep: 10, Spread: 0.4, Rank: 3, MatureSizes: 5, Gain: 0.15,
		QueueFactor: 10, ResponseFactor: 1.2, DrainTime: 10 * time.Second, QuietEvaluations: 3, MaxModels: 200,
	}
}

// Validate returns all faults of the constants.
func (c Config) Validate() error {
	return errors.Join(
		c.Goal.Validate(),
		law.Want(c.Gap > 0, "requests per second above 0", "gap %v", c.Gap),
		law.Want(c.Reach >= c.Gap, "at least the gap", "reach %v", c.Reach),
		law.Want(c.Keep >= 1 && c.Keep <= 1000, "1 to 1000 response times", "keep %d", c.Keep),
		law.Want(c.Spread > 0, "a share above 0", "spread %v", c.Spread),
		law.Want(c.Rank >= 1, "1 or more", "rank %d", c.Rank),
		law.Want(c.MatureSizes >= c.Rank, "at least the rank", "mature sizes %d", c.MatureSizes),
		law.Want(c.Gain > 0 && c.Gain <= 1, "a number above 0 and at most 1", "gain %v", c.Gain),
		law.Want(c.QueueFactor >= 1, "1 or more", "queue factor %v", c.QueueFactor),
		law.Want(c.ResponseFactor >= 1, "1 or more", "response factor %v", c.ResponseFactor),
		law.Want(c.DrainTime > 0, "a time above 0", "drain time %v", c.DrainTime),
		law.Want(c.QuietEvaluations >= 1, "1 or more", "quiet evaluations %d", c.QuietEvaluations),
		law.Want(c.MaxModels >= 1, "1 or more", "models %d", c.MaxModels),
	)
}

// Memory is what the law has learned, and the state of its controller.
type Memory struct {
	// Models are the reference models, by arrival rate.
	Models []Reference `json:"models,omitempty"`
	// Previous is the arrival rate of the model used at the last evaluation; 0 for none.
	Previous float64 `json:"previous,omitempty"`
	// Input is u of the last evaluation, in seconds; 0 for none.
	Input float64 `json:"input,omitempty"`
	// Evaluations counts the evaluations. It tells which model was used last.
	Evaluations int64 `json:"looks,omitempty"`
	// Ready is the number of Ready replicas at the last evaluation; 0 if it is not known.
	Ready int `json:"ready,omitempty"`
	// Rose is the evaluation, counted as in Evaluations, at which the number of Ready replicas last rose; 0 if it never rose
	// or fell since. Fell is the evaluation at which it fell by more than MatureSizes; 0 if it never did.
	Rose int64 `json:"rose,omitempty"`
	Fell int64 `json:"fell,omitempty"`
	// Quiet records for how long no request has arrived.
	Quiet law.Quiet `json:"quiet,omitzero"`
}

// Reference is the reference model of one arrival rate.
type Reference struct {
	// ArrivalRate is the rate in 1/s for which the model was created.
	ArrivalRate float64 `json:"arrivalRate"`
	// TooFew is n_r, the greatest number of replicas that broke the SLO; nil if it is not known. It may be 0: one
	// replica was enough.
	TooFew *int `json:"tooFew,omitempty"`
	// Sizes are the numbers of replicas that kept the SLO, ascending.
	Sizes []Size `json:"sizes,omitempty"`
	// Used is the evaluation at which the model was last used.
	Used int64 `json:"used"`
}

// Size is a number of replicas with the last response times at which it kept the SLO, in microseconds, the oldest
// first.
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
