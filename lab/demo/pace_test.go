package demo

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/lab/replay"
	"supercargo.dev/supercargo/lab/report"
)

// ended returns when a replay of 40 s ends whose pods are bound so late at each second, and why; 40 s and nil if it is not
// ended.
func ended(p *pace, late func(second int) time.Duration) (second int, why *behind) {
	m := newMonitor(p)
	for second := range 40 {
		now := replay.Progress{Elapsed: time.Duration(second) * time.Second, Window: 40 * time.Second, BindLag: late(second)}
		if why := m.observe(now.Elapsed, fixedReadings(now)); why != nil {
			return second, why
		}
	}
	return 40, nil
}

func TestAReplayEndsWhenTheControlPlaneIsBehindForFourSeconds(t *testing.T) {
	between := func(from, to int, lag time.Duration) func(int) time.Duration {
		return func(second int) time.Duration {
			if second >= from && second < to {
				return lag
			}
			return 0
		}
	}
	for _, tc := range []struct {
		name   string
		pace   pace
		late   func(int) time.Duration
		want   int
		behind time.Duration // at the lowest speed
	}{
		{"a control plane that keeps up", pace{slowdown: 1, most: 8}, between(0, 40, 100*time.Millisecond), 40, 0},
		{"one that falls behind", pace{slowdown: 1, most: 8}, between(10, 40, 150*time.Millisecond), 14, 0},
		{"one that is behind for the three seconds after a burst", pace{slowdown: 1, most: 8}, between(10, 13, 5*time.Second), 40, 0},
		{"one that is behind twice for a second", pace{slowdown: 1, most: 8}, func(s int) time.Duration {
			return max(between(10, 12, time.Second)(s), between(20, 22, time.Second)(s))
		}, 40, 0},
		{"at half of the speed it may be behind for eight seconds", pace{slowdown: 2, most: 8}, between(10, 40, 150*time.Millisecond), 18, 0},
		{"at the lowest speed it is only noted", pace{slowdown: 4, most: 4}, between(10, 40, 150*time.Millisecond), 40, 150 * time.Millisecond},
		{"without a lower speed as well", pace{slowdown: 1, most: 1}, between(10, 40, 150*time.Millisecond), 40, 150 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, why := ended(&tc.pace, tc.late)
			if got != tc.want || (why != nil) != (tc.want < 40) || tc.pace.lag != tc.behind {
				t.Errorf("it ends after %d s because of %v and notes %s; want %d s and %s", got, why, tc.pace.lag, tc.want, tc.behind)
			}
		})
	}
}

func TestAFleetIsBehindWhenMachinesTakeThreeTimesTheirTime(t *testing.T) {
	for startup, want := range map[time.Duration]string{
		0:                       "",
		4400 * time.Millisecond: "",
		4600 * time.Millisecond: "the control plane is behind the trace: machines are ready 3.1 s late",
	} {
		m := newMonitor(&pace{slowdown: 1, most: 2})
		got := ""
		for _, elapsed := range []time.Duration{0, 4 * time.Second} {
			if why := m.observe(elapsed, fleetReadings(replay.Progress{Window: 100 * time.Second, BindLag: time.Minute}, startup, 1500*time.Millisecond)); why != nil {
				got += why.Error()
			}
		}
		if got != want {
			t.Errorf("if machines take %s in place of 1.5 s: %q, want %q", startup, got, want)
		}
	}
}

func TestAReplayIsSlowedDownToTheLowestSpeedAndNoFurther(t *testing.T) {
	p, said := &pace{slowdown: 1, most: 6}, &strings.Builder{}
	progress := NewProgress(said)
	late := errors.Join(errors.New("profile x"), &behind{"pods are bound", time.Second})
	for _, want := range []float64{2, 4, 6} {
		if !progress.slower(late, p) || p.slowdown != want {
			t.Fatalf("the slowdown is %g, want %g", p.slowdown, want)
		}
	}
	if progress.slower(late, p) || progress.slower(nil, &pace{slowdown: 1, most: 6}) || progress.slower(io.EOF, &pace{slowdown: 1, most: 6}) {
		t.Error("it is slowed down below the lowest speed, or for another error")
	}
	if want := "pods are bound 1.0 s late: starting again at 1/2 of the speed\n"; !strings.Contains(said.String(), want) {
		t.Errorf("it says %q, want %q in it", said, want)
	}
}

func TestTimesOfASlowReplayAreThoseOfTheFullSpeed(t *testing.T) {
	p := &pace{slowdown: 4, most: 8}
	if got := p.full(p.slow(time.Minute)); got != time.Minute {
		t.Errorf("a minute that is slowed down is %s at full speed", got)
	}
	got := p.atFullSpeed(report.Usage{Window: 40 * time.Second, BindMean: 8 * time.Second, BindP95: 12 * time.Second, NodesUsedMean: 3})
	if want := (report.Usage{Window: 10 * time.Second, BindMean: 2 * time.Second, BindP95: 3 * time.Second, NodesUsedMean: 3}); got != want {
		t.Errorf("usage is %+v, want %+v", got, want)
	}
	w := &fleetWatch{course: []FleetPoint{{Seconds: 20, Machines: 2}}, peaks: map[string]int{}}
	if r := w.result(&Input{}, 40*time.Second, p); r.WindowSeconds != 10 || r.Course[0].Seconds != 5 || r.MachinesMean != 1 || r.AcquisitionLagSeconds != 1.5 {
		t.Errorf("the fleet's part is %+v, want a window of 10 s with a point at 5 s and machines that take 1.5 s", r)
	}
	scale := scaleOf(&Input{Workload: bundled(t)}, time.Minute, 600, p)
	if full := scaleOf(&Input{Workload: bundled(t)}, time.Minute, 600, &pace{slowdown: 1}); scale.Lifetimes != 150 || scale.Arrivals*4 != full.Arrivals {
		t.Errorf("the scale is %+v, at full speed %+v; want a quarter", scale, full)
	}
}

func TestADocumentSaysWhetherTheComputerKeptUp(t *testing.T) {
	for _, tc := range []struct {
		slowdown, lag float64
		want, not     string
	}{
		{1, 0, "", "keep up"},
		{2, 0, "it was replayed at 1/2 of the speed, and the times above are divided by 2.", "still"},
		{1, 0.5, "The control plane was still up to 0.5 s behind, so these figures depend on this computer", "did not keep up"},
		{8, 1.25, "was still up to 1.2 s behind", "at full"},
	} {
		doc := example(t)
		doc.Slowdown, doc.LagSeconds = tc.slowdown, tc.lag
		var out strings.Builder
		if err := doc.WriteTable(&out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), tc.want) || strings.Contains(out.String(), tc.not) {
			t.Errorf("slowed down to 1/%g and %g s behind, it says\n%s\nwant %q and no %q", tc.slowdown, tc.lag, out.String(), tc.want, tc.not)
		}
	}
}

// TestEachPartSaysItsOwnSpeed has a fleet that alone was slowed down, and a part after it whose times are not divided.
func TestEachPartSaysItsOwnSpeed(t *testing.T) {
	doc := example(t)
	p := &pace{slowdown: 1, most: 2, lag: time.Second}
	doc.Speed = p.speed()
	p.slower()
	doc.Fleet = &Fleet{Speed: p.speed(), Consolidation: newConsolidation([]ConsolidationPoint{{Machines: 3}}, nil, 0)}
	if doc.Speed != (Speed{1, 1}) || doc.Fleet.Speed != (Speed{2, 0}) {
		t.Errorf("the speeds are %v and %v", doc.Speed, doc.Fleet.Speed)
	}
	var out strings.Builder
	if err := doc.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	const slow = "it was replayed at 1/2 of the speed"
	at := strings.Index(out.String(), slow)
	if strings.Count(out.String(), slow) != 1 || at < strings.Index(out.String(), "buys and releases") || at > strings.Index(out.String(), "moves the others together") {
		t.Errorf("it says\n%s", out.String())
	}
}
