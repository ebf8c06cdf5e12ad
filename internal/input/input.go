// Package input collects all faults of an input, so that its author sees them at once.
//
// Its subpackages read files of users: table reads rows and columns of any kind. Based on it, series reads
// measurements, and catalogue reads machines. Package world reads Kubernetes objects.
package input

import "fmt"

// Faults are the faults of an input. Use errors.Join to combine them.
type Faults []error

// If adds a fault if is is true. The arguments are always evaluated.
func (f *Faults) If(is bool, format string, args ...any) {
	if is {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// In adds an error, unless it is nil, with its context, such as a flag.
func (f *Faults) In(what string, err error) {
	if err != nil {
		*f = append(*f, fmt.Errorf("%s: %w", what, err))
	}
}
