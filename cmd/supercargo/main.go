// Command supercargo is the command line of Supercargo. It also works as a kubectl plugin under the
// name kubectl-supercargo.
package main

import (
	"os"

	"supercargo.dev/supercargo/cmd/supercargo/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
