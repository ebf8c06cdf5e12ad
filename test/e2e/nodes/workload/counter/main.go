// Counter counts forever: every 100 ms it prints a value, the time in nanoseconds since 1970 and its host
// name.
//
// Environment:
//
//	MB        MiB of memory that it fills and keeps checking (default: 0)
//	ZERO_MB   MiB of memory that it writes zeros to (default: 0)
//	TICK_MS   milliseconds between values (default: 100)
//	LISTEN    address on which it answers HTTP requests, such as ":8080" (default: none)
//	HOLD      what it holds as long as it runs, such as "file:/etc/config/key" (default: nothing); see hold.go
//
// If its memory has changed, it prints an error and ends with code 3.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// pageSize is the amount of memory that is checked at once.
const pageSize = 1 << 20

func main() {
	megabytes, err1 := strconv.Atoi(cmp.Or(os.Getenv("MB"), "0"))
	zeros, err3 := strconv.Atoi(cmp.Or(os.Getenv("ZERO_MB"), "0"))
	tick, err2 := strconv.Atoi(cmp.Or(os.Getenv("TICK_MS"), "100"))
	if err1 != nil || err2 != nil || err3 != nil || megabytes < 0 || zeros < 0 || tick < 1 {
		fmt.Fprintln(os.Stderr, "counter: MB, ZERO_MB and TICK_MS are numbers")
		os.Exit(2)
	}
	if address := os.Getenv("LISTEN"); address != "" {
		go workload.Serve("counter", address)
	}
	if what := os.Getenv("HOLD"); what != "" {
		if err := hold(what); err != nil {
			fmt.Fprintln(os.Stderr, "counter:", err)
			os.Exit(2)
		}
	}
	debug.SetGCPercent(-1) // it makes almost no garbage, and a collection would touch all memory
	debug.SetMemoryLimit(int64(megabytes+zeros+64) << 20)
	empty := make([]byte, zeros<<20)
	for i := range empty {
		empty[i] = 1 // so that the kernel gives it a page
	}
	clear(empty)
	defer runtime.KeepAlive(empty)
	memory := make([][]byte, megabytes)
	for i := range memory {
		memory[i] = make([]byte, pageSize)
		fill(memory[i], uint64(i))
	}
	want := make([]byte, pageSize)
	ticker := time.NewTicker(time.Duration(tick) * time.Millisecond)
	for value := int64(1); ; value++ {
		host, err := os.Hostname()
		if err != nil {
			host = "?"
		}
		fmt.Println(workload.Tick{Value: value, At: time.Now(), Host: host})
		check(memory, value, want)
		<-ticker.C
	}
}

// fill writes bytes that differ in every page, so that no page can be left out or deduplicated.
func fill(page []byte, seed uint64) { _, _ = rand.NewChaCha8(key(seed)).Read(page) }

func key(seed uint64) (k [32]byte) {
	for i := range 8 {
		k[i] = byte(seed >> (8 * i))
	}
	return k
}

// check checks one page per tick, in turn, and rewrites one byte of it. It uses want as a buffer.
func check(memory [][]byte, value int64, want []byte) {
	if len(memory) == 0 {
		return
	}
	i := int(value % int64(len(memory)))
	fill(want, uint64(i))
	if !bytes.Equal(memory[i], want) {
		fmt.Fprintf(os.Stderr, "counter: MiB %d of memory is not what it was\n", i)
		os.Exit(3)
	}
	memory[i][0] = want[0]
}
