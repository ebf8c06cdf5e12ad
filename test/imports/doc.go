// Package imports tests which packages of this module may import which, and what the pure ones may not do.
// The rules and their reasons are in rules.go.
//
// The rules do not apply to test files: a test may set up whatever it needs.
package imports
