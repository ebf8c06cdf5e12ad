// Package table reads files of comma-separated values that users give: a header with the names of
// the columns, and a row for each thing.
//
// Files are UTF-8, comma-separated, with one header row. A byte order mark and
// CRLF line ends are accepted, blank lines are skipped, columns may stand in
// any order. Space around a cell is dropped. A quoted cell must end on the line
// it began.
//
// Numbers are read exactly, never through floating point. Bad input is refused, never
// repaired, and [Errors] names every fault found with its line and column. Input size,
// line length and the number of rows are bounded by the Max constants.
//
// The package is pure: no clock, client, logger or random source.
package table

const (
	// MaxInputBytes is the largest input that is read.
	MaxInputBytes = 64 << 20
	// MaxLineBytes is the longest line that is read, its end not counted.
	MaxLineBytes = 16 << 10
	// MaxRows is the largest number of things that one input may describe, counts included.
	// Whoever reads rows sees to it.
	MaxRows = 1_000_000
	// MaxErrors is how many faults are listed; further ones are only counted.
	MaxErrors = 20
)
