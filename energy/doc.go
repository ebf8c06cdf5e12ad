// Package energy models the power and energy of machines: a power model for machines without a meter, its coefficients
// and its fit to measured series, readings of meters and their faults, and the conversion of watts to joules.
//
// The package is pure: times are arguments, and equal input gives equal output, bit for bit on one architecture. It
// makes no decisions about pods.
//
// # The folder
//
// Pure calculations, from the bottom up:
//
//   - regress has the least squares that all fits share;
//   - energy, this package, is the model of a machine and what a meter reads;
//   - profile learns how much energy and time a pod takes on a machine type, from observed pods and probes;
//   - tariff has the price of a kilowatt-hour, in dollars or grams of CO2;
//   - score weighs the energy of a pod on each node against its speed there, by tariff;
//   - bill attributes the energy of a cluster, and its cost, to namespaces, workloads and machine types.
//
// What reads the world:
//
//   - tarifffile follows a tariff in a file;
//   - meterapi is the API with which clients read the meter of a node;
//   - powerquery reads the power of nodes from a PromQL server instead;
//   - probe measures how fast a machine is and how much energy it uses, under each of its CPU governors
//     (probe/governor).
//
// Programs and controllers:
//
//   - nodemeter is the program that reads the power of its node (nodemeter/meter) and serves it;
//   - profiler is the controller that has new machine types probed, learns from finished pods, and maintains the
//     MachineProfiles: profiler/profilerdecide decides, and profiler/record is its memory.
package energy

// Watts is a power in watts.
type Watts float64

// Joules is an energy in joules. A kilowatt-hour is 3.6e6 joules.
type Joules float64
