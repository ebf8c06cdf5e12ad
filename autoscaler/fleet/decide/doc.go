// Package decide says which machines a NodeFleet buys, keeps, empties and releases.
//
// All of it follows from one number: the dollars that machines are expected to cost until
// they are empty again, which is their price for the time until they take pods and the time
// for which pods need them, by started billing periods, and what moving pods or losing their
// work costs. autoscaler/planner chooses what to buy by it, [moves.Planner] and
// [moves.Exchange] what to empty, and [Fleet] what to keep.
//
// Every function is pure: a state and options give the same decision.
package decide
