// Package estimate says how many workers a queue of tasks needs once new ones could
// be there, which workers it no longer needs, and when to ask again.
//
// A worker takes minutes to come: a machine is made, an image is pulled, a process
// connects. Until then tasks end, others start in their place, and workers ordered
// before arrive. [Foresee] plays that window through, and [HTA] decides by what is
// left at its end (Zheng et al., "Autoscaling High-Throughput Workloads on Container
// Orchestrators", IPDPS workshops 2020, algorithm 1, with corrections that its
// comment names). [Supercargo] is ours: it counts work, not tasks, and keeps idle workers
// for a while.
//
// Everything here is pure. What a category of tasks needs and how long it runs is
// for the caller to know; a runtime that nobody knows yet is [Unknown].
package estimate
