package table

import (
	"fmt"
	"strings"
)

// Error is one fault of an input.
type Error struct {
	// File is the name the caller gave the input, empty if it gave none.
	File string
	// Line counts from 1 for the header row; 0 concerns the whole input.
	Line int
	// Column is the header name of the faulty cell; empty concerns the row.
	Column string
	// Problem says what is wrong and what would be right.
	Problem string
}

// Error returns "file:line: column: problem", without the parts that are empty. Without a file,
// which whoever reads it then names, it is "line 3, column cpu: problem".
func (e Error) Error() string {
	var parts []string
	switch {
	case e.File != "" && e.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d", e.File, e.Line))
	case e.File != "":
		parts = append(parts, e.File)
	case e.Line > 0 && e.Column != "":
		return fmt.Sprintf("line %d, column %s: %s", e.Line, e.Column, e.Problem)
	case e.Line > 0:
		parts = append(parts, fmt.Sprintf("line %d", e.Line))
	}
	if e.Column != "" {
		parts = append(parts, e.Column)
	}
	return strings.Join(append(parts, e.Problem), ": ")
}

// Errors holds the faults of one input in the order of their lines.
type Errors struct {
	// List holds the first [MaxErrors] faults.
	List []Error
	// More counts the faults beyond List.
	More int
}

// Error returns one line per fault, and a last one when there are more.
func (e *Errors) Error() string {
	lines := make([]string, 0, len(e.List)+1)
	for _, fault := range e.List {
		lines = append(lines, fault.Error())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("... and %d more", e.More))
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets [errors.As] find each [Error].
func (e *Errors) Unwrap() []error {
	all := make([]error, len(e.List))
	for i, fault := range e.List {
		all[i] = fault
	}
	return all
}

// Add notes one fault.
func (e *Errors) Add(fault Error) {
	if len(e.List) == MaxErrors {
		e.More++
		return
	}
	e.List = append(e.List, fault)
}

// orNil returns e as an error, or nil when nothing was noted.
func (e *Errors) orNil() error {
	if len(e.List) == 0 {
		return nil
	}
	return e
}
