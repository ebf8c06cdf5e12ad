// Package table reads comma-separated files of users: a header with the names of the columns, and a row for each item.
//
// Files are in UTF-8 with one header row. A byte order mark and CRLF line ends are accepted, blank lines are skipped,
// and columns may be in any order. Space around a cell is dropped. A quoted cell must end on the line on which it
// began.
//
// Numbers are parsed exactly, without floating point, except by [Table.Float]. Invalid input is rejected, never
// repaired, and [Errors] lists every fault with its line and column. Input size, line length and the number of rows are
// bounded by the Max constants.
//
// The package is pure: no clock, client, logger or random source.
package table

const (
	// MaxInputBytes is the maximum size of an input.
	MaxInputBytes = 64 << 20
	// MaxLineBytes is the maximum length of a line, without its end.
	MaxLineBytes = 16 << 10
	// MaxRows is the maximum number of items that one input may describe, including counts. Callers must enforce it.
	MaxRows = 1_000_000
	// MaxErrors is the maximum number of listed faults; further ones are only counted.
	MaxErrors = 20
)
