// Command runc-supercargo is the container runtime that containerd starts in place of runc on nodes to which containers
// move with their state. It is runc for every container but those; see package ociruntime.
package main

import (
	"fmt"
	"os"

	"supercargo.dev/supercargo/descheduler/checkpoint/ociruntime"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	config, err := ociruntime.Load(program)
	if err != nil { // containers that are not restored start as ever
		fmt.Fprintln(os.Stderr, err)
	}
	return config.Run(os.Args[1:])
}
