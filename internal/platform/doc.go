// Package platform contains the packages that programs need to run and to query other servers. They make no decisions:
// access explains why a cluster cannot be reached, operator has the flags and the controller manager, self and version
// identify a program, poll repeats a check until it succeeds, promql and powerquery query metrics servers, and tarifffile
// follows a file.
package platform
