// Package workerdecide decides how many workers a Work Queue manager gets.
//
// [Decide] takes the answers of a manager and the pods, learns the needs of each category of tasks and the
// initialisation time of workers, and runs a law of package estimate. It goes through the files in this order:
// decide.go (the steps), trust.go (whether to act on the reading), learn.go (tasks), init.go (starting workers),
// translate.go (the reading as a state of the estimator), flavor.go (which machines).
//
// A reading that is missing, contradictory, or of another queue causes no resize, with one exception: workers of a
// manager that is [Gone] are drained. Otherwise, a worker is drained only if it is idle by three accounts of the
// manager, or has never connected: a worker that has run for long without connecting is useless, unless no worker of
// the pool has connected. No worker is created while there are Max pods, including those that are leaving. The package
// is pure: its state goes in and comes out as [Memory].
package workerdecide
