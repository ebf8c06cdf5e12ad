// Package commands runs the commands of the documentation, as a user who copies them does, against playgrounds. Its
// tests have the build tag commands and find the binaries, kubectl and Helm in the folder that SUPERCARGO_BIN names;
// `make e2e-commands` builds them first. [supercargo.dev/supercargo/test/docs/commands] says which commands run here.
package commands
