package workload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tick returns a value printed at a time in milliseconds.
func tick(value, millis int64) Tick {
	return Tick{Value: value, At: time.Unix(0, millis*1e6), Host: "here"}
}

func TestTicksAreReadAsTheyWerePrinted(t *testing.T) {
	want := []Tick{tick(1, 0), tick(2, 100), tick(3, 200)}
	var output string
	for _, tick := range want {
		output += tick.String() + "\n"
	}
	got, err := ParseTicks([]byte(output + "4 3000"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the ticks differ, and the unfinished line is not one (-want +got):\n%s", diff)
	}
}

func TestWhatIsNoTickIsRefused(t *testing.T) {
	for _, line := range []string{"", "1", "1 2", "x 2 here", "1 x here", "1 2 here there", " 1 2 here", "01 2 here"} {
		if ticks, err := ParseTicks([]byte(line + "\n")); err == nil {
			t.Errorf("%q was read as %v", line, ticks)
		}
	}
}

func FuzzParseTicks(f *testing.F) {
	f.Add([]byte("1 5 host\n2 6 host\n"))
	f.Add([]byte("\n"))
	f.Add([]byte("1 -9223372036854775808 a\n"))
	f.Fuzz(func(t *testing.T, output []byte) {
		ticks, err := ParseTicks(output)
		if err != nil {
			return
		}
		var again []byte
		for _, tick := range ticks {
			again = append(again, tick.String()+"\n"...)
		}
		if want := output[:len(again)]; string(again) != string(want) {
			t.Errorf("%q was read as %q", want, again)
		}
	})
}

func TestValuesThatAreMissingOrComeTwiceAreSeen(t *testing.T) {
	tests := []struct {
		name   string
		values []int64
		first  int64
		ok     bool
	}{
		{"none", nil, 1, true},
		{"all", []int64{1, 2, 3}, 1, true},
		{"from a later one on", []int64{7, 8}, 7, true},
		{"one missing", []int64{1, 3}, 1, false},
		{"the first missing", []int64{2, 3}, 1, false},
		{"one twice", []int64{1, 2, 2, 3}, 1, false},
		{"begun again", []int64{1, 2, 1, 2}, 1, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var ticks []Tick
			for _, value := range tc.values {
				ticks = append(ticks, tick(value, 0))
			}
			if err := CheckTicks(ticks, tc.first); (err == nil) != tc.ok {
				t.Errorf("CheckTicks(%v, %d) = %v, want fine: %v", tc.values, tc.first, err, tc.ok)
			}
		})
	}
}

func TestJoinedTicksLeaveOutCopiesAndKeepRepetitions(t *testing.T) {
	before := []Tick{tick(1, 0), tick(2, 100), tick(3, 200)}
	copied := []Tick{tick(1, 0), tick(2, 100), tick(4, 900)}
	if err := CheckTicks(Join(before, copied), 1); err != nil {
		t.Errorf("a copy of the output counts twice: %v", err)
	}
	// A repeated value with another time was counted twice.
	again := []Tick{tick(1, 0), tick(3, 900), tick(4, 1000)}
	if err := CheckTicks(Join(before, again), 1); err == nil {
		t.Error("a value that was counted twice was not seen")
	}
}

func TestTheLongestPauseIsFound(t *testing.T) {
	ticks := []Tick{tick(1, 0), tick(2, 100), tick(3, 1700), tick(4, 1800)}
	if pause, after := LongestPause(ticks); pause != 1600*time.Millisecond || after != 2 {
		t.Errorf("LongestPause = %v after %d, want 1.6 s after 2", pause, after)
	}
	if pause, _ := LongestPause(nil); pause != 0 {
		t.Errorf("the longest pause of nothing is %v", pause)
	}
}

func TestAnyLostOrRepeatedStepOfAChainChangesItsResult(t *testing.T) {
	const index, steps = 3, 8
	want := ChainResult(index, steps)
	// One step at a time is left out, or repeated with the same number.
	for wrong := int64(1); wrong <= steps; wrong++ {
		for _, times := range []int{0, 2} {
			c := StartChain(index)
			for step := int64(1); step <= steps; step++ {
				n := 1
				if step == wrong {
					n = times
				}
				for range n {
					c = c.Next(step)
				}
			}
			c.Step = steps // the step number does not reveal the error
			if c.Result() == want {
				t.Errorf("step %d done %d times gives the right result", wrong, times)
			}
		}
	}
	if ChainResult(index+1, steps) == want {
		t.Error("another chain has the same result")
	}
}

func TestTheLastLineIsTheLastWholeOne(t *testing.T) {
	for output, want := range map[string]string{"": "", "a": "", "a\n": "a", "a\nb\n": "b", "a\nb\nc": "b"} {
		if got := LastLine([]byte(output)); got != want {
			t.Errorf("LastLine(%q) = %q, want %q", output, got, want)
		}
	}
}
