// Package replicas tests laws for replicas on real processes: Debian's nginx as load
// balancer before worker processes of a service that burns CPU, each held to a few
// hundredths of a core by a control group, all of them together below one core.
// Requests come from an open-loop generator that follows a trace, whether earlier ones
// were answered or not; what became of them stands in nginx's access log.
//
// The tests have the build tag replicas and need root, for control groups. They install
// nothing, and fail with the name of the package where a program is missing.
package replicas
