// Package workload parses the output of the programs in its folders. Tests run them in containers and check
// their output to find out whether anything was lost or done twice.
package workload

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Tick is a line of counter: the value, when it was printed, and the host name. The first tick has the value
// 1, and each later tick the next value.
type Tick struct {
	Value int64
	At    time.Time
	Host  string
}

// String returns the line that counter prints for the tick, without the newline.
func (t Tick) String() string { return fmt.Sprintf("%d %d %s", t.Value, t.At.UnixNano(), t.Host) }

// ParseTicks parses the output of counter. It ignores a last line without a newline, which may be incomplete.
func ParseTicks(output []byte) ([]Tick, error) {
	whole := output[:bytes.LastIndexByte(output, '\n')+1]
	var ticks []Tick
	for scanner := bufio.NewScanner(bytes.NewReader(whole)); scanner.Scan(); {
		tick, err := parseTick(scanner.Text())
		if err != nil {
			return nil, fmt.Errorf("read line %d of a counter: %w", len(ticks)+1, err)
		}
		ticks = append(ticks, tick)
	}
	return ticks, nil
}

func parseTick(line string) (Tick, error) {
	var tick Tick
	var nanos int64
	if n, err := fmt.Sscanf(line, "%d %d %s", &tick.Value, &nanos, &tick.Host); n != 3 {
		return Tick{}, fmt.Errorf("%q is no tick: %w", line, err)
	}
	tick.At = time.Unix(0, nanos)
	if tick.String() != line {
		return Tick{}, fmt.Errorf("%q is no tick: there is more than a value, a time and a host", line)
	}
	return tick, nil
}

// CheckTicks returns an error that names a missing or repeated value. first is the expected first value.
func CheckTicks(ticks []Tick, first int64) error {
	for i, tick := range ticks {
		if want := first + int64(i); tick.Value != want {
			return fmt.Errorf("tick %d has value %d, want %d: values were lost or came twice", i, tick.Value, want)
		}
	}
	return nil
}

// Join returns the ticks of before, followed by those of after that are not among them: the output of a
// restored container also contains the output from before its checkpoint. It modifies neither argument.
func Join(before, after []Tick) []Tick {
	known := map[string]bool{}
	for _, tick := range before {
		known[tick.String()] = true
	}
	all := slices.Clone(before)
	for _, tick := range after {
		if !known[tick.String()] {
			all = append(all, tick)
		}
	}
	return all
}

// LongestPause returns the longest time between two ticks, and the value before it.
func LongestPause(ticks []Tick) (pause time.Duration, after int64) {
	for i := 1; i < len(ticks); i++ {
		if d := ticks[i].At.Sub(ticks[i-1].At); d > pause {
			pause, after = d, ticks[i-1].Value
		}
	}
	return pause, after
}

// Chain is a state of the program chain. Each step computes the next state; states never repeat, and no step
// can be left out.
type Chain struct {
	Index int64 // distinguishes chains
	Step  int64 // number of completed steps
	Hash  [sha256.Size]byte
}

// StartChain returns the state of a chain before its first step.
func StartChain(index int64) Chain {
	return Chain{Index: index}.Next(0)
}

// Next returns the state after step: a hash of the state before, the chain's index and the step number. The
// only correct step is Step+1.
func (c Chain) Next(step int64) Chain {
	var b [sha256.Size + 16]byte
	copy(b[:], c.Hash[:])
	binary.BigEndian.PutUint64(b[sha256.Size:], uint64(c.Index))
	binary.BigEndian.PutUint64(b[sha256.Size+8:], uint64(step))
	return Chain{Index: c.Index, Step: step, Hash: sha256.Sum256(b[:])}
}

// ChainResult returns the output of the chain with an index after a number of steps.
func ChainResult(index, steps int64) string {
	c := StartChain(index)
	for step := range steps {
		c = c.Next(step + 1)
	}
	return c.Result()
}

// Result returns the last line that the program chain prints, without the newline.
func (c Chain) Result() string {
	return fmt.Sprintf("chain %d done %d %s", c.Index, c.Step, hex.EncodeToString(c.Hash[:]))
}

// Progress returns the line that the program chain prints after a step.
func (c Chain) Progress() string { return fmt.Sprintf("chain %d step %d", c.Index, c.Step) }

// LastLine returns the last complete line of an output.
func LastLine(output []byte) string {
	whole := strings.TrimSuffix(string(output[:bytes.LastIndexByte(output, '\n')+1]), "\n")
	return whole[strings.LastIndexByte(whole, '\n')+1:]
}
