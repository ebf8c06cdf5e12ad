// Package replicas tests laws for replicas on real processes: Debian's nginx as load balancer in front of
// worker processes of a service that burns CPU. A control group limits each worker to a few hundredths of a
// core, and all of them together need less than one core. Requests come from an open-loop generator that
// follows a trace, whether earlier ones were answered or not. nginx's access log contains their outcomes.
//
// The tests have the build tag replicas and need root, for control groups. They install nothing, and fail
// with the package name of a missing program.
package replicas
