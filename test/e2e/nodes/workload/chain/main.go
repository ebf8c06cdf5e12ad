// Chain computes a chain of hashes step by step, and prints the last hash: a step that is lost or repeated
// gives another hash.
//
// Environment:
//
//	INDEX    index of the chain (default: JOB_COMPLETION_INDEX, else 0)
//	STEPS    number of steps (default: 100)
//	STEP_MS  duration of a step in milliseconds (default: 100)
//	LISTEN   address at which it answers probes (default: none)
package main

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"time"

	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

func main() {
	index := number(cmp.Or(os.Getenv("INDEX"), os.Getenv("JOB_COMPLETION_INDEX"), "0"))
	steps := number(cmp.Or(os.Getenv("STEPS"), "100"))
	stepTime := time.Duration(number(cmp.Or(os.Getenv("STEP_MS"), "100"))) * time.Millisecond
	if address := os.Getenv("LISTEN"); address != "" {
		go workload.Serve("chain", address)
	}
	chain := workload.StartChain(index)
	for chain.Step < steps {
		time.Sleep(stepTime)
		chain = chain.Next(chain.Step + 1)
		fmt.Println(chain.Progress())
	}
	fmt.Println(chain.Result())
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		fmt.Fprintf(os.Stderr, "chain: %q is no number\n", s)
		os.Exit(2)
	}
	return n
}
