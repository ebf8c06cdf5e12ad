// Package energy models the power and energy of machines: a power model for machines without a meter, its coefficients
// and its fit to measured series, readings of meters and their faults, and the conversion of watts to joules.
//
// It makes no decisions about pods. Its subpackages do: regress has the least squares that all fits share, powerfit
// measures the quality of a power fit, profile learns the energy and runtime of a pod on a machine type, and score
// weighs the two.
//
// The package is pure: times are arguments, and equal input gives equal output, bit for bit on one architecture.
package energy

// Watts is a power in watts.
type Watts float64

// Joules is an energy in joules. A kilowatt-hour is 3.6e6 joules.
type Joules float64
