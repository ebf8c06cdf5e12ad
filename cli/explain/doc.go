// Package explain prints the status of objects of a cluster as text: the last decision and its
// reasons, its expected outcome and its measured one.
//
// It only formats: it neither reads from a cluster nor decides anything.
package explain
