// Command runc-supercargo is the container runtime that containerd starts in place of runc on nodes to which containers
// move with their state. It is runc for every container but those; see package ociruntime. With
//
//	runc-supercargo supercargo-install FOLDER
//
// it copies itself into a folder of the node.
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
	if len(os.Args) == 3 && os.Args[1] == ociruntime.InstallCommand {
		return ociruntime.Install(program, os.Args[2])
	}
	config, err := ociruntime.Load(program)
	if err != nil { // containers that are not restored start as usual
		fmt.Fprintln(os.Stderr, err)
	}
	return config.Run(os.Args[1:])
}
