// Package commands runs the commands of the documentation against playgrounds, as a user who copies them does. Its
// tests have the build tag commands, and need the binaries, kubectl and Helm in the folder that SUPERCARGO_BIN names;
// `make e2e-commands` builds them first. Package [supercargo.dev/supercargo/test/docs/commands] lists
// the commands that run here.
package commands
