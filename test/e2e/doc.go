// Package e2e tests the binaries as a user runs them: as processes, through their flags, output, signals and
// exit codes. Its tests have the build tag e2e and find the binaries in the folder that SUPERCARGO_BIN names;
// `make e2e` builds them first.
package e2e
