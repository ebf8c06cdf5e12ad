// Package queueing answers how long requests take in a service of equal
// replicas, and how many replicas a response time needs.
//
// The service is an M/M/N queue: requests arrive at random at the rate lambda
// (1/s), wait in one line, and each of N servers ends one after an
// exponentially distributed time of mean 1/mu seconds. A replica is a server.
// [Model] lets mu fall as lambda rises, as Cai and Buyya do ("Inverse Queuing
// Model-Based Feedback Control", IEEE TPDS 2022, section 4.1), and [Fit] learns
// its constants from what was measured.
//
// The textbook sums (equations 2 to 4 there) overflow from N = 171. Here
// everything comes from Erlang's recursion for the blocking probability, whose
// terms stay in [0, 1], and from one subtraction that is rounded once.
//
// The package is pure: no clock, client, logger or random source.
package queueing
