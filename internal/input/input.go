// Package input tells who gives an input all that is wrong with it at once.
//
// The folders below it read files that users give: table has rows and columns of any kind, and on it
// stand series, which has measurements, and catalogue, which has machines. Who reads objects of
// Kubernetes finds that in package world.
package input

import "fmt"

// Faults are what is wrong with an input. errors.Join makes one error of them.
type Faults []error

// If notes a fault if it is one. The arguments are evaluated in either case.
func (f *Faults) If(is bool, format string, args ...any) {
	if is {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// In notes an error, unless it is nil, with what it is in, such as a flag.
func (f *Faults) In(what string, err error) {
	if err != nil {
		*f = append(*f, fmt.Errorf("%s: %w", what, err))
	}
}
