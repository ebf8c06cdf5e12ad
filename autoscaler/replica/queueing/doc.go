// Package queueing computes how long requests take in a service of equal replicas, and how many replicas a response
// time needs.
//
// The service is an M/M/N queue: requests arrive at random at the rate lambda (1/s) and wait in one queue, and each of
// N servers takes an exponentially distributed time of mean 1/mu seconds for one. A replica is a server. In [Model], mu
// falls as lambda rises, as in Cai and Buyya ("Inverse Queuing Model-Based Feedback Control", IEEE TPDS 2022, section
// 4.1), and [Fit] learns its constants from measurements.
//
// The textbook sums (equations 2 to 4 there) overflow from N = 171. Here everything is computed from Erlang's recursion
// for the blocking probability, whose terms stay in [0, 1], and from one subtraction that is rounded once.
//
// The package is pure: no clock, client, logger or random source.
package queueing
