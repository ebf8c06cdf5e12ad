// Package input collects all faults of an input, so that its author sees them at once.
//
// The folders below it read files of users: table reads rows and columns of any kind. On it
// stand series, which reads measurements, and catalogue, which reads machines. Package world reads
// objects of Kubernetes.
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
