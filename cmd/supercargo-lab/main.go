// Command supercargo-lab is the laboratory of Supercargo: the playground, the demonstration, the simulators and the
// fits. The program supercargo runs it, so that `supercargo simulate` is the same as `supercargo-lab simulate`.
package main

import (
	"os"

	"supercargo.dev/supercargo/cmd/supercargo-lab/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
