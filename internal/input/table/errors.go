package table

import (
	"fmt"
	"strings"
)

// Error is one fault of an input.
type Error struct {
	// File is the name the caller gave the input.
	File string
	// Line counts from 1 for the header row; 0 concerns the whole input.
	Line int
	// Column is the header name of the faulty cell; empty concerns the row.
	Column string
	// Problem says what is wrong and what would be right.
	Problem string
}

// Error returns "file:line: column: problem", without the parts that are empty.
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	if e.Column != "" {
		b.WriteString(e.Column)
		b.WriteString(": ")
	}
	b.WriteString(e.Problem)
	return b.String()
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
