// Package decide decides how many workers a Work Queue manager is to have.
//
// [Decide] takes what a manager answered and which pods there are, learns from it what each
// category of tasks needs and how long workers take to come, and asks a law of package
// estimate. It goes through the files in this order: decide.go (the steps), trust.go (is the
// reading one to act on?), learn.go (tasks), init.go (workers on their way), translate.go
// (the reading as a state of the estimator), flavor.go (on which machines).
//
// A reading that is missing, contradicts itself, or is of another queue changes no number of
// workers, with one exception: workers of a manager that is [Gone] are drained. What else is
// drained is idle by three accounts of the manager at once, or has never connected: one that
// has run without connecting for long is of no use, unless none of the pool has connected. Workers
// are never made while there are Max pods, those that are leaving included. All of this is
// pure: what is remembered goes in and comes out as [Memory].
package decide
