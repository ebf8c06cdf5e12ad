// Package fleetdecide decides which machines a NodeFleet buys, keeps, drains and releases.
//
// Every decision minimizes one number: the dollars that machines are expected to cost until they are empty again. That
// is their price over the start-up time and the time that their pods need, in started billing periods, plus the cost of
// moving pods or of losing their work. autoscaler/purchase chooses what to buy by it, [moves.Planner] and
// [moves.Exchange] choose what to drain, and [Fleet] chooses what to keep.
//
// All functions are pure: the same state and options give the same decision.
package fleetdecide
