// Chain computes a chain of hashes step by step, and prints the last hash: a step that is lost or repeated
// gives another hash.
//
// Environment:
//
//	INDEX    index of the chain (default: JOB_COMPLETION_INDEX, else 0)
//	STEPS    number of steps (default: 100)
//	STEP_MS  duration of a step in milliseconds (default: 100)
//	KEEP     files, separated by spaces, in which it keeps the chain from one step to the next (default: none). If a file has
//	         another content, it prints an error and ends with code 3.
//	LISTEN   address at which it answers probes (default: none)
package main

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
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
		check(chain)
		chain = chain.Next(chain.Step + 1)
		keep(chain)
		fmt.Println(chain.Progress())
	}
	fmt.Println(chain.Result())
}

var (
	kept  = strings.Fields(os.Getenv("KEEP"))
	began = false
)

// keep writes the chain to the files.
func keep(chain workload.Chain) {
	for _, file := range kept {
		if err := os.WriteFile(file, []byte(chain.Result()), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, "chain:", err)
			os.Exit(3)
		}
	}
	began = true
}

// check compares the files with the chain, unless it has written none. Those of an earlier start may be there.
func check(chain workload.Chain) {
	for _, file := range kept {
		if text, err := os.ReadFile(file); began && (err != nil || string(text) != chain.Result()) {
			fmt.Fprintf(os.Stderr, "chain: %s is %q (%v) and not %q\n", file, text, err, chain.Result())
			os.Exit(3)
		}
	}
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		fmt.Fprintf(os.Stderr, "chain: %q is no number\n", s)
		os.Exit(2)
	}
	return n
}
