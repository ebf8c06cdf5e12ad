// Command supercargo is the one command line of Supercargo, one file per command. It also
// works as a kubectl plugin when it is found as kubectl-supercargo.
//
// Every command exits 0 on success, 1 when its run failed and 2 on bad usage or
// bad input. Results go to stdout, everything else to stderr.
package main

import "os"

func main() {
	os.Exit(Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
