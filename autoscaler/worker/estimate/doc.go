// Package estimate computes how many workers a queue of tasks needs by the time new ones could be ready, which workers
// it no longer needs, and when to decide again.
//
// A worker takes minutes to start: a machine is created, an image is pulled, a process connects. Until then tasks end,
// others start in their place, and workers requested earlier arrive. [Foresee] simulates that window, and [HTA] decides
// on its end state (Zheng et al., "Autoscaling High-Throughput Workloads on Container Orchestrators", IPDPS workshops
// 2020, algorithm 1, with corrections that its comment names). [Supercargo] is our own law: it counts work, not tasks,
// and keeps idle workers for a while.
//
// The package is pure. The caller provides the needs and runtimes of tasks; a runtime that is not known is [Unknown].
package estimate
