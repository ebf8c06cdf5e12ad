// Package energy says what machines draw and what they have used: a power model
// for machines without a meter, its coefficients and its fit to measured series,
// readings of meters and what is wrong with them, and joules from watts.
//
// It decides nothing about pods. Its folders do: regress has the least squares
// that all fits share, powerfit says how good a fit of power is, profile learns
// the energy and the runtime of a pod on a machine type, and score weighs the
// two.
//
// The package is pure: times are arguments, and equal input gives equal output,
// bit for bit on one architecture.
package energy

// Watts is power.
type Watts float64

// Joules is energy. A kilowatt-hour is 3.6e6 of them.
type Joules float64
