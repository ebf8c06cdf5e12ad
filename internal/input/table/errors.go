package table

import (
	"fmt"
	"strings"
)

// Error is one fault of an input.
type Error struct {
	// File is the caller's name for the input; may be empty.
	File string
	// Line counts from 1 for the header row; 0 means the whole input.
	Line int
	// Column is the header name of the faulty cell; empty means the row.
	Column string
	// Problem says what is wrong and what is valid.
	Problem string
}

// Error returns "file:line: column: problem", without the parts that are empty. Without a file, which the caller then
// names, it is "line 3, column cpu: problem".
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

// Errors holds the faults of one input in the order in which they were found.
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

// Unwrap gives [errors.As] access to each [Error].
func (e *Errors) Unwrap() []error {
	all := make([]error, len(e.List))
	for i, fault := range e.List {
		all[i] = fault
	}
	return all
}

// Add adds a fault.
func (e *Errors) Add(fault Error) {
	if len(e.List) == MaxErrors {
		e.More++
		return
	}
	e.List = append(e.List, fault)
}

// orNil returns e as an error, or nil if there are no faults.
func (e *Errors) orNil() error {
	if len(e.List) == 0 {
		return nil
	}
	return e
}
